//! Tests that compare the metrics with kube-scheduler's metrics.

use std::collections::BTreeSet;

use berth_config::feature_gates::Gates;
use regex::Regex;

use super::{registration::Registered, *};

/// The metrics of a kube-scheduler 1.36.2 that placed, rejected and preempted pods.
const KUBE_SCHEDULER: &str = include_str!("kube_scheduler_1.36.txt");

#[test]
fn names_types_labels_and_buckets_are_those_of_kube_scheduler() {
    let (_, add) = Metrics::register();
    let is_of_1_36 = |name| !releases::ADDED_IN_1_37.contains(&name);
    let ours = add.registered.iter().filter(|it| !it.stability.is_empty() && is_of_1_36(it.name));
    let mut ours: Vec<String> =
        ours.map(|it| format!("{} {} {} {} {}", it.name, it.kind, it.stability, it.labels, it.buckets)).collect();
    ours.sort_unstable();
    let theirs: Vec<&str> = KUBE_SCHEDULER.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn the_text_is_prometheus_text() {
    let metrics = Metrics::default();
    metrics.set_leader("berth", true);
    let text = metrics.render();
    for line in [
        "# TYPE scheduler_preemption_attempts_total counter",
        "scheduler_preemption_attempts_total 0",
        "# TYPE scheduler_preemption_victims histogram",
        "scheduler_preemption_victims_bucket{le=\"64\"} 0",
        "leader_election_master_status{name=\"berth\"} 1",
        "# TYPE process_cpu_seconds_total counter",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is missing from\n{text}");
    }
    assert!(text.contains("# HELP scheduler_preemption_victims [STABLE] "), "{text}");
    for name in ["process_resident_memory_bytes", "process_open_fds", "process_max_fds", "process_start_time_seconds"] {
        assert!(text.contains(&format!("\n{name} ")), "{name} is missing from\n{text}");
    }
    assert!(text.contains("kubernetes_build_info{"), "{text}");
}

#[test]
fn a_gate_that_is_on_is_shown_as_on() {
    let metrics = Metrics::default();
    let line =
        |value: u8| format!("kubernetes_feature_enabled{{name=\"SchedulerAsyncAPICalls\",stage=\"BETA\"}} {value}");
    let shows = |value| metrics.render().lines().any(|it| it == line(value));
    assert!(shows(0), "{}", metrics.render());
    let mut gates = Gates::default();
    gates.switch("SchedulerAsyncAPICalls", true).expect("it is a gate");
    metrics.decides_as(&gates);
    assert!(shows(1) && !shows(0), "{}", metrics.render());
}

#[test]
fn a_resource_version_is_shown_with_its_last_digits() {
    let metrics = Metrics::default();
    metrics.decides_as(&Gates::of_release(berth_model::Release::V1_37));
    let informer = metrics.informer("apps", "v1", "replicasets");
    informer.queued();
    informer.handled(std::time::Duration::from_millis(2));
    let labels = "{group=\"apps\",name=\"kube-scheduler\",resource=\"replicasets\",version=\"v1\"}";
    for (version, shown) in [("1792", "1792"), ("9123456789012345", "123456789012345"), ("none", "123456789012345")] {
        informer.read_up_to(version);
        let line = format!("informer_store_resource_version{labels} {shown}");
        assert!(metrics.render().lines().any(|it| it == line), "{line}: {}", metrics.render());
    }
    for line in
        [format!("informer_queued_items{labels} 1"), format!("informer_processing_latency_seconds_count{labels} 1")]
    {
        assert!(metrics.render().lines().any(|it| it == line), "{line}: {}", metrics.render());
    }
    metrics.decides_as(&Gates::default());
    assert!(!metrics.render().contains("informer_"), "1.36 does not have them");
}

#[test]
fn a_kind_that_is_no_longer_watched_has_no_metrics() {
    let metrics = Metrics::default();
    metrics.decides_as(&Gates::of_release(berth_model::Release::V1_37));
    metrics.informer("", "v1", "configmaps").queued();
    metrics.informer("", "v1", "services").queued();
    metrics.remove_informer("", "v1", "configmaps");
    metrics.remove_informer("", "v1", "configmaps");
    let text = metrics.render();
    assert!(!text.contains("configmaps") && text.contains("resource=\"services\""), "{text}");
}

#[test]
fn names_stabilities_and_labels_are_those_of_the_release() {
    let metrics = Metrics::default();
    metrics.claim_created(true);
    metrics.scheduler.set(&berth_scheduler::Metrics::default(), &berth_model::Symbols::default());
    let has = |line: &str| metrics.render().lines().any(|it| it.starts_with(line));
    let of_1_36 = [
        "scheduler_resourceclaim_creates_total{status=\"success\"} 1",
        "version_info{binary=\"1.37.0\",component=\"kube\",emulation=\"1.36\",min_compat=\"1.35\"} 1",
        "# HELP scheduler_scheduling_algorithm_duration_seconds [ALPHA]",
        "kubernetes_build_info{build_date=\"\",compiler=\"rustc\",git_commit=\"\",git_tree_state=\"\",git_version=\"v1.36.2",
    ];
    let of_1_37 = [
        "dynamic_resource_allocation_resourceclaim_creates_total{admin_access=\"false\",owner_api_group=\"\",\
         owner_api_kind=\"Pod\",status=\"success\"} 1",
        "# HELP scheduler_scheduling_algorithm_duration_seconds [BETA]",
        "kubernetes_build_info{build_date=\"\",compiler=\"rustc\",git_commit=\"\",git_tree_state=\"\",git_version=\"v1.37.0",
        "scheduler_queued_entities{queue=\"gated\",type=\"pod\"} 0",
        "scheduler_queued_entities{queue=\"gated\",type=\"podgroup\"} 0",
        "scheduler_pending_pods{queue=\"incomplete\"} 0",
        "scheduler_pending_pods{queue=\"pending\"} 0",
        "version_info{binary=\"1.37.0\",component=\"kube\",emulation=\"1.37\",min_compat=\"1.36\"} 1",
    ];
    for (release, shown, hidden) in
        [(Release::V1_36, &of_1_36[..], &of_1_37[..]), (Release::V1_37, &of_1_37[..], &of_1_36[..])]
    {
        metrics.decides_as(&Gates::of_release(release));
        for line in shown {
            assert!(has(line), "{}: {line} is missing in\n{}", release.as_str(), metrics.render());
        }
        assert!(!hidden.iter().any(|line| has(line)), "{}", metrics.render());
    }
    metrics.decides_as(&Gates::of_cluster(Release::V1_37, 37));
    assert!(has("version_info{binary=\"1.37.0\",component=\"kube\",emulation=\"1.37\",min_compat=\"1.37\"} 1"));
}

/// The labels that Prometheus adds.
const ADDED: [&str; 3] = ["instance", "job", "le"];

#[test]
fn rules_and_dashboard_name_metrics_and_labels_that_exist() {
    let (metrics, add) = Metrics::register();
    let process = metrics.render();
    let labels_of = |name: &str| -> Option<Vec<&str>> {
        let plain = ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let registered = add.registered.iter().find(|it| it.name == name || it.kind == "histogram" && it.name == plain);
        match registered {
            Some(registered) => Some(registered.labels.split(',').filter(|label| *label != "-").collect()),
            None => process.contains(&format!("\n{name} ")).then(Vec::new),
        }
    };
    let series = Regex::new(r#"\b((?:scheduler|berth|rest_client|leader_election|process)_[a-z_0-9]+)(?:\{(.*?)\})?"#);
    let (series, label) =
        (series.expect("an expression"), Regex::new(r"([a-z_]+)(?:=~|!=|!~|=)").expect("an expression"));
    let grouping = Regex::new(r"by \(([a-z_, ]+)\)").expect("an expression");
    let mut n_series = 0;
    for (file, text) in [
        ("rules.yaml", include_str!("../../../../deploy/monitoring/rules.yaml")),
        ("dashboard.json", include_str!("../../../../deploy/monitoring/dashboard.json")),
    ] {
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let mut known: Vec<&str> = ADDED.to_vec();
            for found in series.captures_iter(line) {
                let name = &found[1];
                let labels = labels_of(name).unwrap_or_else(|| panic!("{file}: there is no metric {name}: {line}"));
                known.extend(&labels);
                let matchers = found.get(2).map_or("", |matchers| matchers.as_str());
                for matcher in label.captures_iter(matchers) {
                    assert!(known.contains(&&matcher[1]), "{file}: {name} has no label {}: {line}", &matcher[1]);
                }
                n_series += 1;
            }
            for by in grouping.captures_iter(line).filter(|_| known.len() > ADDED.len()) {
                for name in by[1].split(',').map(str::trim) {
                    assert!(known.contains(&name), "{file}: nothing here has the label {name}: {line}");
                }
            }
        }
    }
    assert!(n_series > 80, "only {n_series} were found");
}

#[test]
fn a_disabled_metric_is_not_shown() {
    let metrics = Metrics::default();
    metrics.cycle(Duration::from_millis(1), Duration::ZERO);
    let before = metrics.render();
    let name =
        before.lines().find_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).expect("a metric").to_owned();
    let disabled = BTreeSet::from([name.clone(), "no_such_metric".to_owned()]);
    metrics.show_by(MetricsOptions { disabled, ..MetricsOptions::default() });
    let after = metrics.render();
    assert!(!after.contains(&name) && after.lines().count() > 10, "{name}: {after}");
}

#[test]
fn a_value_that_is_not_allowed_is_shown_as_unexpected() {
    let metrics = Metrics::default();
    for lease in ["berth", "second", "third"] {
        metrics.set_leader(lease, true);
    }
    let mut allowed_labels = AllowedLabels::default();
    allowed_labels.allow("leader_election_master_status,name", "berth,other").expect("a metric and a label");
    allowed_labels.allow("scheduler_plugin_execution_duration_seconds,plugin", "NodeName").expect("both");
    metrics.show_by(MetricsOptions { allowed_labels, ..MetricsOptions::default() });
    let text = metrics.render();
    let shown: Vec<&str> = text.lines().filter(|line| line.starts_with("leader_election_master_status")).collect();
    let expected =
        ["leader_election_master_status{name=\"berth\"} 1", "leader_election_master_status{name=\"unexpected\"} 2"];
    assert_eq!(shown, expected);
    let key = |key: &str| AllowedLabels::default().allow(key, "a");
    assert_eq!([key("metric"), key("metric,"), key("1,label"), key("a,b,c")], [Err(InvalidKey); 4]);
}

#[test]
fn after_a_reset_counters_begin_at_zero() {
    let metrics = Metrics::default();
    metrics.claim_created(true);
    metrics.set_events_dropped(5);
    metrics.cycle(Duration::from_millis(1), Duration::ZERO);
    metrics.set_leader("berth", true);
    let last_type = |text: &str| text.lines().rfind(|line| line.starts_with("# TYPE ")).map(str::to_owned);
    let last_before = last_type(&metrics.render());
    metrics.reset();
    let has = |line: &str| metrics.render().lines().any(|it| it == line);
    for line in [
        "berth_events_dropped_total 0",
        "berth_scheduling_cycle_duration_seconds_count 0",
        "berth_scheduling_cycle_duration_seconds_sum 0",
        "berth_scheduling_cycle_duration_seconds_bucket{le=\"+Inf\"} 0",
        "leader_election_master_status{name=\"berth\"} 1",
    ] {
        assert!(has(line), "{line} is missing from\n{}", metrics.render());
    }
    assert_eq!(last_type(&metrics.render()), last_before, "metrics come after one without series");
    assert!(!metrics.render().contains("scheduler_resourceclaim_creates_total{"), "{}", metrics.render());
    assert!(!has("registered_metrics_total{deprecated_version=\"\",stability_level=\"STABLE\"} 0"));
    // This counter is set to a total from the start of the process.
    metrics.set_events_dropped(7);
    metrics.claim_created(true);
    metrics.cycle(Duration::from_millis(1), Duration::ZERO);
    for line in [
        "berth_events_dropped_total 2",
        "scheduler_resourceclaim_creates_total{status=\"success\"} 1",
        "berth_scheduling_cycle_duration_seconds_count 1",
    ] {
        assert!(has(line), "{line} is missing from\n{}", metrics.render());
    }
}

#[test]
fn metrics_are_counted_by_stability() {
    let (metrics, add) = Metrics::register();
    let options = MetricsOptions { disabled: BTreeSet::from(["version_info".to_owned()]), ..MetricsOptions::default() };
    metrics.show_by(options);
    let text = metrics.render();
    for stability in ["ALPHA", "BETA", "STABLE"] {
        let n_metrics = add.registered.iter().filter(|it| it.stability == stability).count();
        let line =
            format!("registered_metrics_total{{deprecated_version=\"\",stability_level=\"{stability}\"}} {n_metrics}");
        assert!(n_metrics > 5 && text.lines().any(|it| it == line), "{line} is missing from\n{text}");
    }
    for line in ["disabled_metrics_total 1", "hidden_metrics_total 0"] {
        assert!(text.lines().any(|it| it == line), "{line} is missing from\n{text}");
    }
}

#[test]
fn callers_are_counted() {
    let metrics = Metrics::default();
    let access = &metrics.access;
    for user in [Some("kubelet"), Some("ada@example.com"), Some("system:serviceaccount:a:b"), None] {
        access.authenticated(user, Duration::from_millis(2));
    }
    access.token_looked_up(false, Duration::from_millis(3));
    access.token_looked_up(true, Duration::ZERO);
    access.token_reviewed(Some(201), Duration::from_millis(3));
    access.token_reviewed(None, Duration::from_secs(2));
    access.access_reviewed(Some(403), Duration::from_millis(3));
    access.authorized(Authorization::Error, Duration::from_millis(3));
    let fetch = access.token_fetch();
    let text = metrics.render();
    drop(fetch);
    for line in [
        "authenticated_user_requests{username=\"email_id\"} 1",
        "authenticated_user_requests{username=\"kubelet\"} 1",
        "authenticated_user_requests{username=\"other\"} 1",
        "authentication_attempts{result=\"success\"} 3",
        "authentication_attempts{result=\"error\"} 1",
        "authentication_duration_seconds_count{result=\"success\"} 3",
        "authentication_token_cache_request_total{status=\"hit\"} 1",
        "authentication_token_cache_request_duration_seconds_count{status=\"miss\"} 1",
        "authentication_token_cache_fetch_total{status=\"ok\"} 1",
        "authentication_token_cache_fetch_total{status=\"error\"} 1",
        "authentication_token_cache_active_fetch_count{status=\"in_flight\"} 1",
        "apiserver_delegated_authn_request_total{code=\"201\"} 1",
        "apiserver_delegated_authn_request_total{code=\"<error>\"} 1",
        "apiserver_delegated_authz_request_duration_seconds_count{code=\"403\"} 1",
        "authorization_attempts_total{result=\"error\"} 1",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is missing from\n{text}");
    }
    let line = "authentication_token_cache_active_fetch_count{status=\"in_flight\"} 0";
    assert!(metrics.render().lines().any(|it| it == line), "{}", metrics.render());
}

#[tokio::test]
async fn the_asynchronous_runtime_is_shown() {
    let metrics = Metrics::default();
    let _task = tokio::spawn(std::future::pending::<()>());
    let text = metrics.render();
    for line in ["berth_async_tasks 1", "berth_async_workers 1", "berth_async_queue_depth "] {
        assert!(text.lines().any(|it| it.starts_with(line)), "{line} is missing from\n{text}");
    }
}

/// The tables of the guide have the labels in the second column, and after a colon the values of the last label.
#[test]
fn the_guide_gives_the_labels_of_each_metric() {
    let guide = include_str!("../../../../docs/src/running.md");
    let (_, add) = Metrics::register();
    let name = Regex::new(r"`([a-z][a-z_0-9]+)`").expect("an expression");
    let section = guide.split("\n## Metrics\n").nth(1).and_then(|rest| rest.split("\n### ").next()).expect("a section");
    let mut n_compared = 0;
    for row in section.lines().filter_map(|line| line.strip_prefix('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let [names, labels, ..] = cells[..] else { continue };
        let before_values = labels.split(": ").next().unwrap_or_default();
        let mut in_guide: Vec<&str> =
            name.captures_iter(before_values).filter_map(|it| Some(it.get(1)?.as_str())).collect();
        in_guide.sort_unstable();
        let in_guide = if in_guide.is_empty() { "-".to_owned() } else { in_guide.join(",") };
        for found in name.captures_iter(names).filter_map(|it| Some(it.get(1)?.as_str())) {
            let is_it = |it: &&Registered| it.name == found || it.name.strip_prefix("scheduler_") == Some(found);
            let Some(metric) = add.registered.iter().find(is_it) else { continue };
            // The guide names only some labels of this one.
            if metric.name != "kubernetes_build_info" {
                assert_eq!(in_guide, metric.labels, "{found}");
                n_compared += 1;
            }
        }
    }
    assert!(n_compared > 80, "only {n_compared} metrics were found");
}

/// The tables of the guide name a metric in the first column, without `scheduler_` in the first table.
#[test]
fn the_guide_and_the_metrics_name_each_other() {
    let guide = include_str!("../../../../docs/src/running.md");
    let (metrics, add) = Metrics::register();
    let process = metrics.render();
    let name = Regex::new(r"`([a-z][a-z_0-9]+)`").expect("an expression");
    let section = guide.split("\n## Metrics\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section");
    let (section, left_out) = section.split_once("\n### Metrics that are left out\n").expect("a section");
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let in_guide: BTreeSet<&str> =
        cells.flat_map(|cell| name.captures_iter(cell).filter_map(|found| Some(found.get(1)?.as_str()))).collect();
    let has =
        |name: &str| in_guide.contains(name) || name.strip_prefix("scheduler_").is_some_and(|it| in_guide.contains(it));
    let missing: Vec<&str> = add.registered.iter().map(|it| it.name).filter(|name| !has(name)).collect();
    assert!(missing.is_empty(), "running.md does not name {missing:?}");
    let exists =
        |name: &str| add.registered.iter().any(|it| it.name == name) || process.contains(&format!("\n{name} "));
    let unknown: Vec<&&str> =
        in_guide.iter().filter(|name| !exists(name) && !exists(&format!("scheduler_{name}"))).collect();
    assert!(unknown.is_empty(), "there are no metrics {unknown:?}");
    let whole = left_out.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ")).map(|(name, _)| name);
    let there: Vec<&str> = whole.filter(|name| exists(name)).collect();
    assert!(there.is_empty(), "{there:?} are not left out");
}
