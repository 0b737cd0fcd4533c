//! The native plugins that answered the last questions about pods. The next question asks the same instances, because
//! new instances would first read all nodes and pods.
//!
//! Only built-in plugins are kept: what they remember after a cycle follows from the table alone. An instance of a
//! component belongs to one question, because its author may keep anything in it, and because its replica takes memory.
//! The supervisor makes new instances for every question. A kept instance replaces a new instance only if both have the
//! same binary and the same arguments.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_explain::CYCLES;
use berth_framework::{CycleId, Instance, Profile};
use berth_model::ClusterTable;

/// The plugins of a profile are dropped if there was no question for this long.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// The number of answers after which plugins are no longer kept. The plugins keep counts for the pods that they were
/// asked about: one number for each node and term.
const MAX_ANSWERS: u32 = 64;

/// The plugins by profile. The plugins read one table, so they are [dropped](Self::clear) when another table replaces
/// this table.
#[derive(Debug, Default)]
pub(crate) struct KeptPlugins {
    /// By `schedulerName`.
    by_profile: BTreeMap<String, Kept>,
    /// The number of questions so far. Each question has separate cycles, like the attempts of a scheduler.
    n_questions: u64,
}

/// The plugins of one profile.
#[derive(Debug)]
struct Kept {
    instances: Vec<Instance>,
    n_answers: u32,
    asked_at: Instant,
}

impl KeptPlugins {
    /// Lets `ask` ask the plugins of `profile`, which has new instances, about the table. The closure may use the given
    /// cycle and the cycles after it, fewer than [`CYCLES`] in all. The closure must restore the table.
    pub(crate) fn ask<R>(&mut self, mut profile: Profile, ask: impl FnOnce(&mut Profile, CycleId) -> R) -> R {
        let kept = self.by_profile.remove(&profile.scheduler_name).filter(|kept| kept.n_answers < MAX_ANSWERS);
        let (earlier, n_answers) = kept.map(|kept| (kept.instances, kept.n_answers)).unwrap_or_default();
        profile.continue_natives(earlier);
        let cycle = CycleId(1 + self.n_questions * CYCLES);
        self.n_questions += 1;
        let answer = ask(&mut profile, cycle);
        let scheduler_name = profile.scheduler_name.clone();
        let kept = Kept { instances: profile.into_natives(), n_answers: n_answers + 1, asked_at: Instant::now() };
        self.by_profile.insert(scheduler_name, kept);
        answer
    }

    /// Lets the plugins read the changes to the table. The table may forget these changes before the next question.
    pub(crate) fn follow(&mut self, table: &ClusterTable) {
        self.by_profile.retain(|_, kept| kept.asked_at.elapsed() < KEPT_FOR);
        for instance in self.by_profile.values_mut().flat_map(|kept| &mut kept.instances) {
            instance.plugin.follow(table);
        }
    }

    /// Drops all plugins.
    pub(crate) fn clear(&mut self) {
        self.by_profile.clear();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use berth_framework::{Follow, Manifest, Plugin, PluginVersion, PreEnqueue, Status};
    use berth_model::{BinaryId, Digest, Pod};

    use super::*;

    /// A plugin that counts how often it was asked, and how often it followed the table.
    struct Counts {
        manifest: Manifest,
        binary: Option<BinaryId>,
        n_asked: u32,
        n_followed: u32,
    }

    impl Plugin for Counts {
        fn manifest(&self) -> &Manifest {
            &self.manifest
        }

        fn version(&self) -> PluginVersion {
            PluginVersion { binary: self.binary, ..PluginVersion::native(&self.manifest) }
        }

        berth_framework::points!(PreEnqueue);
        berth_framework::hooks!(Follow);
    }

    impl PreEnqueue for Counts {
        fn pre_enqueue(&mut self, _pod: &Pod, _table: &ClusterTable) -> Status {
            self.n_asked += 1;
            Status::unschedulable(format!("asked {}, followed {}", self.n_asked, self.n_followed))
        }
    }

    impl Follow for Counts {
        fn follow(&mut self, _table: &ClusterTable) {
            self.n_followed += 1;
        }
    }

    /// A profile with a new instance of the plugin.
    fn profile(scheduler_name: &str, binary: Option<BinaryId>, args: &str) -> Profile {
        let manifest = Manifest { name: "Counts".to_owned(), ..Manifest::default() };
        let mut profile = Profile::new(scheduler_name);
        profile.add_everywhere(Box::new(Counts { manifest, binary, n_asked: 0, n_followed: 0 }), args);
        profile
    }

    fn native() -> Profile {
        profile("berth", Some(BinaryId::Native), "null")
    }

    /// Asks the plugin of a profile. Returns its answer and the cycle.
    fn ask(plugins: &mut KeptPlugins, profile: Profile) -> (String, CycleId) {
        plugins.ask(profile, |profile, cycle| {
            let plugin = profile.find("Counts").and_then(|plugin| profile.get(plugin)).expect("the plugin");
            let point = plugin.pre_enqueue().expect("its point");
            (point.pre_enqueue(&Pod::default(), &ClusterTable::default()).message(), cycle)
        })
    }

    /// Asks a native plugin. Returns its answer, which has the number of questions to this instance.
    pub(crate) fn asked(plugins: &mut KeptPlugins) -> String {
        ask(plugins, native()).0
    }

    #[test]
    fn the_next_question_asks_the_same_instance_in_other_cycles() {
        let mut plugins = KeptPlugins::default();
        assert_eq!(ask(&mut plugins, native()), ("asked 1, followed 0".to_owned(), CycleId(1)));
        plugins.follow(&ClusterTable::default());
        assert_eq!(ask(&mut plugins, native()), ("asked 2, followed 1".to_owned(), CycleId(1 + CYCLES)));
        plugins.clear();
        assert_eq!(ask(&mut plugins, native()), ("asked 1, followed 0".to_owned(), CycleId(1 + 2 * CYCLES)));
    }

    #[test]
    fn other_profiles_and_arguments_and_binaries_get_new_instances() {
        let component = || Some(BinaryId::Component(Digest::new([0; 32])));
        let mut plugins = KeptPlugins::default();
        for (scheduler_name, binary, args) in [
            ("berth", Some(BinaryId::Native), "null"),
            ("other", Some(BinaryId::Native), "null"),
            ("berth", Some(BinaryId::Native), "{}"),
            ("berth", component(), "{}"),
            // Neither a component nor a placeholder is kept.
            ("berth", component(), "{}"),
            ("berth", None, "{}"),
            ("berth", None, "{}"),
            ("berth", Some(BinaryId::Native), "{}"),
        ] {
            let (answer, _) = ask(&mut plugins, profile(scheduler_name, binary, args));
            assert_eq!(answer, "asked 1, followed 0", "{scheduler_name} {binary:?} {args}");
        }
        let (answer, _) = ask(&mut plugins, profile("other", Some(BinaryId::Native), "null"));
        assert_eq!(answer, "asked 2, followed 0", "each profile has its own");
    }

    #[test]
    fn an_instance_gives_a_bounded_number_of_answers() {
        let mut plugins = KeptPlugins::default();
        let answers = (0..=MAX_ANSWERS).map(|_| asked(&mut plugins)).collect::<Vec<_>>();
        let last = format!("asked {MAX_ANSWERS}, followed 0");
        assert_eq!(
            (answers.iter().rev().nth(1), answers.last()),
            (Some(&last), Some(&"asked 1, followed 0".to_owned()))
        );
    }
}
