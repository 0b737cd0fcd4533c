//! Small plugins that fail in a particular way, for tests of the plugin host.
//!
//! Each is a core module in text form, which is wrapped into a component with the real `wit/` on request. No toolchain
//! for wasm is needed, and the text shows the mistake of a guest.

mod answers;
mod by_priority;
mod carries_state;
mod effects;
mod encode;
mod explains;
mod faults;
mod misses_an_event;
mod other;
mod points;
mod shows_objects;
mod slow_at;
mod slow_hint;
mod slow_reserve;
mod slow_unreserve;
mod starts;
mod traps_at_news;
mod unconcerned;

pub use answers::{ANSWER_ADDRESS, answers, in_letters};
pub use by_priority::{Behavior, always, by_priority, by_priority_named, follows_pods, wants_pod_json};
pub use carries_state::{carries_state, never_hands_over};
pub use effects::{WantedEffect, asks_for};
pub use explains::{Words, explains};
pub use faults::{GuestFault, faults_at};
pub use misses_an_event::misses_an_event;
pub use other::{
    core_module, imports_wasi, loops_in_describe, of_another_world, opens_files, opens_sockets, reads_environment,
    sorts_without_lifecycle, traps_in_describe, without_cycle, wrong_signature,
};
pub use points::{At, as_large_as_in_c, harmless, holds, slow_to_compile};
pub use shows_objects::{hears_of, shows_objects};
pub use slow_at::slow_at;
pub use slow_hint::{slow_hint, trapping_hint};
pub use slow_reserve::slow_reserve;
pub use slow_unreserve::slow_unreserve;
pub use starts::{BadStart, bad_start, starts_slowly_and_traps};
pub use traps_at_news::traps_at_news;
pub use unconcerned::unconcerned;

#[cfg(test)]
mod tests {
    use super::{At, GuestFault, WantedEffect};

    #[test]
    fn every_guest_assembles() {
        for guest in [
            super::by_priority(),
            super::carries_state(),
            super::core_module(),
            super::imports_wasi(),
            super::misses_an_event("MissesAnEvent"),
            super::of_another_world(),
            super::sorts_without_lifecycle(),
            super::without_cycle(),
            super::slow_hint("SlowHint"),
            super::slow_reserve("SlowReserve"),
            super::slow_unreserve("SlowUnreserve"),
            super::traps_at_news("TrapsAtNews"),
            super::unconcerned("Unconcerned"),
            super::wrong_signature(),
            super::loops_in_describe(),
            super::traps_in_describe(),
            super::opens_sockets("Sockets"),
            super::reads_environment("Environment"),
            super::holds("Holder"),
            super::as_large_as_in_c("Large"),
            super::slow_to_compile("Slow"),
            super::starts_slowly_and_traps("StartsSlowly"),
            super::shows_objects("ShowsObjects", "v1", "Secret"),
            super::hears_of("HearsOf", "leases.v1.coordination.k8s.io"),
            super::asks_for("Effects", At::Bind, &[WantedEffect::Bind, WantedEffect::Activate("uid".to_owned())]),
            super::faults_at("LongReason", At::Filter, GuestFault::LongReason),
            super::faults_at("ManyReasons", At::Filter, GuestFault::ManyReasons),
        ] {
            guest.unwrap();
        }
        super::answers("Answers", At::Filter).unwrap();
        for words in super::Words::ALL {
            super::explains("Explains", words).unwrap();
        }
        for harm in super::BadStart::ALL {
            super::bad_start("Bad", harm).unwrap();
        }
        for at in At::ALL {
            super::harmless("Harmless", at).unwrap();
            super::slow_at("Slow", at, 10).unwrap();
            for fault in [
                GuestFault::Trap,
                GuestFault::Loop,
                GuestFault::ExhaustMemory,
                GuestFault::ExhaustStack,
                GuestFault::ReadBelow,
                GuestFault::NoMethod,
            ] {
                super::faults_at("Bad", at, fault).unwrap();
            }
        }
    }
}
