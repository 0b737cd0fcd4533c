//! The table of scenarios.

mod cut_over;
mod devices;
mod extenders;
mod in_place;
mod kubectl;
mod leading;
mod manifests;
mod placement;
mod plugins;
mod preemption;
mod texts;
mod volumes;

use futures::future::LocalBoxFuture;

use crate::bench::Bench;

/// One scenario: its name on the command line, and its function.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Bench) -> LocalBoxFuture<'_, anyhow::Result<()>>,
}

macro_rules! scenarios {
    ($($module:ident::$name:ident),* $(,)?) => {
        /// All scenarios, in the order in which they run.
        pub(crate) const SCENARIOS: &[Scenario] =
            &[$(Scenario { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) }),*];
    };
}

scenarios![
    placement::placement,
    placement::profiles,
    texts::conditions_and_events,
    texts::gates,
    texts::pending_pods_come_back,
    preemption::preemption,
    preemption::nomination_waits_for_the_victim,
    volumes::volume_for_first_consumer,
    volumes::local_volume,
    devices::devices,
    devices::binding_conditions,
    extenders::extenders,
    plugins::plugin_directory,
    plugins::doctor,
    in_place::in_place_of_kube_scheduler,
    cut_over::cut_over_and_back,
    leading::leader_crash,
    leading::leader_stop,
    leading::crash_under_load,
    kubectl::kubectl,
    manifests::manifests,
];
