//! The metrics that changed: the name and labels of each sample that is not zero, and the values of samples that a
//! fixed order of attempts determines.

use std::collections::BTreeMap;

/// Metrics of kube-scheduler with values that depend only on the scheduled pods.
const VALUES: [&str; 7] = [
    "scheduler_schedule_attempts_total",
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_victims_sum",
    "scheduler_preemption_victims_count",
    "scheduler_pending_pods",
    "scheduler_unschedulable_pods",
    "scheduler_cache_size",
];

/// The families of metrics about schedulers. Other families are about processes and their runtimes.
const FAMILIES: [&str; 3] = ["scheduler_", "rest_client_", "leader_election_"];

/// All samples of a page, with their labels in order.
pub(crate) fn samples(page: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        Some((in_order(series), value.parse().ok()?))
    });
    samples.collect()
}

/// The value of each series, or `moved`.
pub(crate) fn moved(page: &str) -> BTreeMap<String, String> {
    let counts = samples(page).into_iter().filter(|(series, value)| *value != 0.0 && is_ours(series));
    let shown = counts.map(|(series, value)| {
        let name = series.split('{').next().unwrap_or_default();
        // The number of failed attempts depends on the time.
        let is_fixed = VALUES.contains(&name) && !series.contains("\"error");
        let text = if is_fixed { value.to_string() } else { "moved".to_owned() };
        (without_host(&series), text)
    });
    shown.collect()
}

/// Buckets and sums change with their counts, and the duration determines the buckets.
fn is_ours(series: &str) -> bool {
    let name = series.split('{').next().unwrap_or_default();
    let is_part = name.ends_with("_bucket") || name.ends_with("_sum") && !VALUES.contains(&name);
    FAMILIES.iter().any(|family| name.starts_with(family)) && !is_part
}

fn in_order(series: &str) -> String {
    let Some((name, labels)) = series.split_once('{') else { return series.to_owned() };
    let mut labels: Vec<&str> = labels.trim_end_matches('}').split("\",").map(|it| it.trim_end_matches('"')).collect();
    labels.sort_unstable();
    format!("{name}{{{}}}", labels.join("\","))
}

/// Each side has its own API server.
fn without_host(series: &str) -> String {
    let Some((before, rest)) = series.split_once("host=\"127.0.0.1:") else { return series.to_owned() };
    let port = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    format!("{before}host=\"HOST{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_is_named_with_its_labels() {
        let page = "# TYPE scheduler_pending_pods gauge\n\
            scheduler_pending_pods{queue=\"active\"} 0\n\
            scheduler_pending_pods{queue=\"gated\"} 2\n\
            scheduler_goroutines{work=\"x\",operation=\"y\"} 1\n\
            rest_client_requests_total{code=\"200\",host=\"127.0.0.1:4711\",method=\"GET\"} 7\n\
            scheduler_permit_wait_duration_seconds_bucket{le=\"1\"} 1\n\
            process_cpu_seconds_total 4\n";
        let moved: Vec<_> = moved(page).into_iter().collect();
        let expected = [
            ("rest_client_requests_total{code=\"200\",host=\"HOST\",method=\"GET}", "moved"),
            ("scheduler_goroutines{operation=\"y\",work=\"x}", "moved"),
            ("scheduler_pending_pods{queue=\"gated}", "2"),
        ];
        assert_eq!(moved, expected.map(|(series, text)| (series.to_owned(), text.to_owned())));
    }
}
