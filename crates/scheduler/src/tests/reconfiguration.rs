//! The operator changes the configuration while pods wait or are being bound.

use std::sync::Arc;

use berth_framework::{Grants, PermitVerdict, Point, Profile};

use super::{
    kit::{Bench, Factory, Fake, bind_finished, binds, effects_finished, events, pod},
    swap::preparation,
    waiting::patch,
};
use crate::{Action, Event, Settings, Supervision};

impl Bench {
    fn reconfigure(&mut self, profiles: impl Into<Option<Vec<Profile>>>) {
        self.reconfigure_with(Settings::default(), profiles);
    }

    fn reconfigure_with(&mut self, settings: Settings, profiles: impl Into<Option<Vec<Profile>>>) {
        let event = Event::reconfigured(self.scheduler.objects(), settings, profiles.into(), None);
        self.event(event);
    }

    /// A profile of these fakes: name, version and arguments.
    fn of(&self, plugins: &[(&str, &str, &str)]) -> Profile {
        let mut profile = Profile::new("berth");
        for (name, version, args) in plugins {
            let plugin = profile.add(Box::new(Fake::new(name, version, &self.script)), args, Grants::ALL);
            Point::ALL.into_iter().for_each(|point| profile.want(point, plugin));
        }
        profile
    }

    fn calls(&self) -> Vec<String> {
        self.script(|script| std::mem::take(&mut script.calls))
    }
}

#[test]
fn pods_that_no_profile_serves_wait_for_one() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.reconfigure(Vec::new());
    bench.apply(pod("a", 1));
    assert!(bench.settle().is_empty());
    let profile = bench.of(&[("Fake", "3", "null")]);
    bench.reconfigure(vec![profile]);
    assert!(bench.settle().is_empty(), "nothing was kept of it");
    bench.apply(pod("a", 1));
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn of_a_pod_that_loses_its_profile_nothing_is_kept() {
    let mut bench = Bench::with_nodes(1, 1);
    bench.apply(pod("big", 2));
    bench.settle();
    bench.reconfigure(Vec::new());
    bench.apply(pod("big", 2));
    bench.advance(600_000);
    assert!(bench.settle().is_empty());
    let profile = bench.of(&[("Fake", "3", "null")]);
    bench.reconfigure(vec![profile]);
    bench.apply(pod("big", 2));
    bench.settle();
    assert_eq!(bench.scheduler.metrics().pending_pods.unschedulable, 1);
}

#[test]
fn a_plugin_whose_binary_and_arguments_stay_goes_on() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| (script.permit, script.state) = (Some(PermitVerdict::Wait(60_000)), Some(vec![7])));
    bench.apply(pod("waiting", 1));
    bench.settle();
    bench.calls();
    let profile = bench.of(&[("Other", "1", "null"), ("Fake", "1", "null")]);
    bench.reconfigure(vec![profile]);
    assert_eq!(bench.calls(), ["1 reserve waiting 0"], "only the new plugin gets the reservation");
    let profile = bench.of(&[("Fake", "1", "{}"), ("Other", "1", "null")]);
    bench.reconfigure(vec![profile]);
    assert_eq!(bench.calls(), ["1 restore [7]", "1 reserve waiting 0"], "other arguments are another instance");
    assert_eq!(bench.scheduler.drain_retired().len(), 3, "the instances that no profile uses are retired");
}

#[test]
fn pods_keep_their_places() {
    let mut bench = Bench::with_nodes(1, 1);
    for name in ["big", "bigger"] {
        bench.apply(pod(name, 2));
    }
    bench.settle();
    bench.script(|script| script.gate = true);
    bench.apply(pod("gated", 1));
    bench.script(|script| script.gate = false);
    let before = bench.scheduler.metrics().pending_pods;
    assert_eq!((before.unschedulable, before.gated), (2, 1));
    let mut settings = Settings::default();
    settings.queue.backoff.initial = 5000;
    let profile = bench.of(&[("Fake", "1", "null"), ("Other", "1", "null")]);
    bench.reconfigure_with(settings, vec![profile]);
    assert_eq!(bench.scheduler.metrics().pending_pods, before, "nothing concerns their rejections");
    bench.reconfigure(None);
    assert_eq!(bench.scheduler.metrics().pending_pods, before);
}

#[test]
fn a_plugin_that_is_gone_holds_no_pod_back() {
    let mut bench = Bench::with_nodes(1, 1);
    bench.apply(pod("big", 2));
    bench.settle();
    bench.script(|script| script.without = vec![Point::Filter]);
    let profile = bench.of(&[("Other", "1", "null")]);
    bench.reconfigure(vec![profile]);
    bench.advance(15_000);
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn pods_in_the_middle_of_pre_bind_go_on_behind_the_plugin_that_is_done_with_them() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.pre_bind = vec![patch()]);
    bench.apply(pod("a", 1));
    let sent = bench.settle();
    bench.script(|script| script.pre_bind.clear());
    // Another plugin now comes before the plugin that holds the pod. The holding plugin is not asked again.
    let profile = bench.of(&[("First", "1", "null"), ("Fake", "1", "null")]);
    bench.reconfigure(vec![profile]);
    bench.script(|script| script.pre_bind = vec![patch()]);
    bench.event(effects_finished(&sent, Ok(())));
    let sent = bench.settle();
    assert_eq!(binds(&sent).len(), 1, "no PreBind plugin is left: {sent:?}");
    // The plugin that binds the pod changes its position once more.
    let profile = bench.of(&[("Fake", "1", "null"), ("First", "1", "null")]);
    bench.reconfigure(vec![profile]);
    bench.event(bind_finished(&sent, "a", Err("no")));
    let failed = events(&bench.settle());
    assert_eq!(failed[0].1, "running Bind plugin \"First\": no");
    assert_eq!(bench.scheduler.metrics().bindings, 0);
}

#[test]
fn an_instance_that_was_prepared_for_other_arguments_is_not_taken() {
    let mut bench = Bench::with_nodes(1, 4);
    let factory = Factory::new("2", &bench.script, true);
    factory.is_slow.set(()).expect("not set before");
    let objects = bench.scheduler.objects();
    let ready = Event::plugin_ready(objects, "Fake".to_owned(), None, Arc::clone(&factory) as _, None);
    bench.event(ready);
    let prepared = preparation(&mut bench).expect("it takes long").run();
    let profile = bench.of(&[("Fake", "1", "{}")]);
    bench.reconfigure(vec![profile]);
    let prepared = Event::plugin_prepared(bench.scheduler.objects(), prepared);
    bench.event(prepared);
    let swapped = |action| matches!(action, Action::Supervise(Supervision::Swapped { result: Ok(()), .. }));
    assert!(bench.scheduler.drain_actions().any(swapped));
    assert_eq!(factory.n_built(), 2, "one for the old arguments, one for the new arguments");
    assert_eq!(bench.scheduler.plugins()[0].1[0].version, "2");
}
