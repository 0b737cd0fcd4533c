//! Each alert of `deploy/monitoring/rules.yaml` fires on the metrics of a scheduler with the problem that the alert
//! warns of. An hour of ordinary work fires no alert.
//!
//! A story causes the problem for schedulers in a sandbox, and scrapes their `/metrics` before and after. Prometheus
//! would need hours to evaluate the rules, so the scrapes are stretched: the values before last for an hour, and then
//! either nothing more happens, or the measured growth comes again each minute. promtool evaluates the rules over these
//! samples. A machine without promtool prints that these tests were not run.

mod files;
mod ordinary;
mod plugins;
mod prometheus;
mod replicas;
mod requests;
mod time;

use std::collections::BTreeSet;

use self::prometheus::{Moment, Samples, Then, evaluate, firing, has_promtool, names};

/// An alert that a story causes, and its labels.
type Caused = (&'static str, &'static str);

/// Checks that the alerts of a story fire at its end, and that no alert fires before.
fn check(name: &str, caused: &[Caused], then: Then, moments: &[Moment]) {
    let samples = Samples::of(moments, then);
    let mut expected = Vec::new();
    for &(alert, labels) in caused {
        expected.push(firing(Some(alert), samples.before(), &[]));
        expected.push(firing(Some(alert), samples.end(), &[labels]));
    }
    evaluate(name, &samples, &expected);
}

/// Makes the table of all stories and a test of each story. A row has the name of the test, the alerts with their
/// labels, how the time continues, and the story.
macro_rules! stories {
    ($($name:ident: [$($caused:expr),+], $then:ident, $story:path;)+) => {
        /// The alerts of each story.
        const STORIES: &[&[Caused]] = &[$(&[$($caused),+]),+];

        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if has_promtool() {
                    let moments = Box::pin($story()).await;
                    check(stringify!($name), &[$($caused),+], Then::$then, &moments);
                }
            }
        )+
    };
}

const CRITICAL: &str = "severity=\"critical\"";
const WARNING: &str = "severity=\"warning\"";
const OF_THE_PLUGIN: &str = "plugin=\"ByPriority\",severity=\"warning\"";

stories! {
    nobody_leads: [("BerthNoLeader", CRITICAL)], Quiet, replicas::nobody_leads;
    nobody_answers: [("BerthNoLeader", CRITICAL)], Quiet, replicas::nobody_answers;
    bindings_are_slow: [("BerthSlowBindingFast", CRITICAL), ("BerthSlowBindingSlow", WARNING)], Again,
        requests::slow_bindings;
    attempts_end_with_errors: [("BerthAttemptErrorsFast", CRITICAL), ("BerthAttemptErrorsSlow", WARNING)], Again,
        requests::refused_bindings;
    pods_wait_for_an_attempt: [("BerthPodsWaitForAttempt", WARNING)], Again, time::pods_wait;
    pods_are_bound_after_the_flush: [("BerthPodsBoundAfterFlush", WARNING)], Quiet, plugins::misses_an_event;
    a_plugin_is_quarantined: [("BerthPluginQuarantined", "plugin=\"ByPriority\",severity=\"critical\"")], Quiet,
        plugins::quarantined;
    a_plugin_faults: [("BerthPluginFaults", "kind=\"trap\",plugin=\"ByPriority\",severity=\"warning\"")], Quiet,
        plugins::faults;
    a_plugin_is_rolled_back: [("BerthPluginRolledBack", OF_THE_PLUGIN)], Quiet, plugins::rolled_back;
    a_plugin_is_refused: [("BerthPluginRefused", OF_THE_PLUGIN)], Quiet, plugins::refused;
    plugins_differ: [(
        "BerthPluginsDiffer", "plugin=\"ByPriority\",profile=\"default-scheduler\",severity=\"warning\""
    )], Again, replicas::plugins_differ;
    a_plugin_is_out_of_time: [("BerthPluginOutOfTime", "plugin=\"SlowHint\",severity=\"warning\"")], Again,
        time::out_of_time;
    plugins_spend_their_share: [("BerthPluginsShareSpent", WARNING)], Quiet, time::plugins_share_spent;
    a_plugin_holds_pods: [("BerthPluginHoldsPods", OF_THE_PLUGIN)], Again, plugins::holds_pods;
    a_namespace_spends_its_share: [("BerthNamespaceShareSpent", "namespace=\"default\",severity=\"warning\"")], Quiet,
        time::namespace_share_spent;
    the_api_server_fails: [("BerthApiServerErrors", WARNING)], Again, requests::api_server_errors;
    the_scheduler_restarts: [("BerthRestarts", "instance=\"a\",job=\"berth\",severity=\"warning\"")], Quiet,
        replicas::restarts;
    a_configuration_is_refused: [("BerthConfigurationRefused", WARNING)], Quiet, files::configuration_refused;
    settings_of_plugins_are_refused: [("BerthConfigurationRefused", WARNING)], Quiet, files::plugin_settings_refused;
    credentials_are_not_renewed: [("BerthCredentialsNotRenewed", CRITICAL)], Quiet, files::credentials_not_renewed;
    events_are_dropped: [("BerthEventsDropped", WARNING)], Quiet, requests::events_dropped;
    audit_entries_are_dropped: [("BerthAuditEntriesDropped", CRITICAL)], Quiet, files::audit_entries_dropped;
}

#[test]
fn each_alert_has_a_story() {
    let with_story: BTreeSet<&str> = STORIES.iter().flat_map(|caused| caused.iter().map(|(alert, _)| *alert)).collect();
    assert_eq!(with_story, names(), "the alerts of the stories, and those of deploy/monitoring/rules.yaml");
}

/// The replicas hand over. Then pods come, and plugins, the configuration and the credentials change, each minute for an
/// hour.
#[tokio::test(flavor = "multi_thread")]
async fn an_hour_of_ordinary_work_fires_no_alert() {
    if has_promtool() {
        let moments = Box::pin(ordinary::work()).await;
        let samples = Samples::of(&moments, Then::Again);
        let minutes = 0..=samples.end();
        evaluate("ordinary work", &samples, &minutes.map(|minute| firing(None, minute, &[])).collect::<Vec<_>>());
    }
}
