//! The content of the view `now` as data, for programs and for `berth top`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use berth_scheduler::PodList;
use berth_serving::Probe;
use berth_telemetry::{
    clock,
    metrics::{Figures, Timing},
};
use serde::{Deserialize, Serialize};

use super::pods::{self, Pending};
use crate::{
    Source,
    history::{LastMinute, as_rate, scheduled},
    page::Page,
    viewer::Refusal,
};

/// The state of a scheduler at a moment. Later versions only add fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overview {
    /// The time to which the data about pods and nodes belongs, in milliseconds since 1970.
    pub as_of_milliseconds: u64,
    /// Whether all data is from that time. Otherwise, some of the data is older or missing.
    pub is_whole: bool,
    /// Whether this replica schedules.
    pub is_leading: bool,
    /// The identity of the replica that leads; `None` if there is no election, or if the leader is unknown.
    pub leader: Option<String>,
    /// Pods that wait, by queue: `active`, `backoff`, `unschedulable`, `gated`.
    pub queues: BTreeMap<String, u64>,
    /// Pods between Reserve and PostBind.
    pub binding: usize,
    pub nodes: usize,
    /// The longest time since a waiting pod was added or last tried.
    pub longest_wait_milliseconds: u64,
    /// The time over which rates are computed: the last minute, or less after the start.
    pub seconds: f64,
    pub bound_per_second: f64,
    /// The time from a pod's first entry into activeQ until it is bound, in seconds; `None` if no pod was bound.
    pub time_to_bind_p50: Option<f64>,
    pub time_to_bind_p99: Option<f64>,
    /// The time that extension points took. The largest comes first.
    pub points: Vec<TimeShare>,
    /// The time that plugins took. The largest comes first. One attempt in ten is measured.
    pub plugins: Vec<TimeShare>,
    /// The problems, the worst first. Problems of plugins are shown only to users that may see the plugins.
    pub complaints: Vec<OverviewComplaint>,
    /// The pending pods; `None` for callers that may not list the pods of all namespaces.
    pub pending: Option<Pending>,
}

/// The time that a point or a plugin took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TimeShare {
    pub name: String,
    pub times: u64,
    pub seconds: f64,
}

/// One problem, and the remedy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OverviewComplaint {
    /// Whether the line reports a problem. Otherwise it is only information.
    pub is_problem: bool,
    pub text: String,
    pub fix: String,
}

/// The data besides the figures that the caller may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub plugins: bool,
    pub pods: bool,
}

impl Overview {
    pub(crate) async fn of<S: Source>(page: &Page<S>, shown: Shown) -> Result<Self, Refusal> {
        let mut overview = present(page, shown).await?;
        let (minute, figures) = (page.history.last_minute(), page.metrics.scheduler.figures());
        overview.is_leading = page.health.is_leading();
        overview.leader = page.health.leader().map(|leader| leader.to_string());
        overview.seconds = minute.span.as_secs_f64();
        overview.bound_per_second =
            as_rate(scheduled(&figures).saturating_sub(scheduled(&minute.before)), overview.seconds);
        let time = figures.time_to_bind.since(&minute.before.time_to_bind);
        (overview.time_to_bind_p50, overview.time_to_bind_p99) = (time.quantile(0.5), time.quantile(0.99));
        (overview.points, overview.plugins) = (points(&figures, &minute), plugins(&figures, &minute));
        overview.queues = figures.pending;
        overview.complaints = complaints(page, shown).await?;
        Ok(overview)
    }
}

/// The data about pods and nodes. Only a list of pods needs a copy of the scheduler's data.
async fn present<S: Source>(page: &Page<S>, shown: Shown) -> Result<Overview, Refusal> {
    let totals = page.totals().await?;
    let mut overview = Overview {
        as_of_milliseconds: clock::wall(totals.as_of),
        is_whole: true,
        nodes: totals.nodes,
        binding: totals.bindings,
        longest_wait_milliseconds: totals.longest_wait,
        ..Overview::default()
    };
    if shown.pods {
        let read = |list: PodList<'_>| (pods::pending(list), list.as_of(), list.is_complete());
        let (pending, as_of, is_whole) = page.read_pods(read).await?;
        overview.pending = Some(pending);
        overview.is_whole = is_whole;
        overview.as_of_milliseconds = clock::wall(totals.as_of.min(as_of));
    }
    Ok(overview)
}

async fn complaints<S: Source>(page: &Page<S>, shown: Shown) -> Result<Vec<OverviewComplaint>, Refusal> {
    let mut complaints = Vec::new();
    let checks = [Probe::Healthz, Probe::Readyz].map(|probe| page.health.checks(probe, Instant::now()));
    let problems: BTreeSet<String> =
        checks.into_iter().flatten().filter_map(|check| Some(check.result.err()?.to_string())).collect();
    for text in problems {
        let fix = "the scheduler's log says more; /readyz?verbose lists all checks".to_owned();
        complaints.push(OverviewComplaint { is_problem: true, text, fix });
    }
    if shown.plugins {
        if let Some(error) = page.source.plugin_settings().await?.error {
            let text = format!("the plugin configuration was rejected: {error}");
            let fix = "correct the file; it is read again when it changes".to_owned();
            complaints.push(OverviewComplaint { is_problem: true, text, fix });
        }
        for complaint in page.source.plugins().await?.iter().flat_map(|plugin| plugin.complaints()) {
            let (is_problem, text, fix) = (complaint.is_problem, complaint.text, complaint.fix);
            complaints.push(OverviewComplaint { is_problem, text, fix });
        }
    }
    complaints.sort_by_key(|complaint| !complaint.is_problem);
    Ok(complaints)
}

fn points(figures: &Figures, minute: &LastMinute) -> Vec<TimeShare> {
    let before = |name: &str| minute.before.points.get(name).copied().unwrap_or_default();
    most_first(figures.points.iter().map(|(name, timing)| (&**name, timing.since(before(name)))))
}

fn plugins(figures: &Figures, minute: &LastMinute) -> Vec<TimeShare> {
    let mut by_plugin: BTreeMap<&str, Timing> = BTreeMap::new();
    for (key, timing) in &figures.plugins {
        let since = timing.since(minute.before.plugins.get(key).copied().unwrap_or_default());
        let sum = by_plugin.entry(&key.0).or_default();
        (sum.count, sum.seconds) = (sum.count + since.count, sum.seconds + since.seconds);
    }
    most_first(by_plugin.into_iter())
}

fn most_first<'a>(taken: impl Iterator<Item = (&'a str, Timing)>) -> Vec<TimeShare> {
    let share = |(name, timing): (&str, Timing)| TimeShare {
        name: name.to_owned(),
        times: timing.count,
        seconds: timing.seconds,
    };
    let mut shares: Vec<TimeShare> = taken.filter(|(_, timing)| timing.count > 0).map(share).collect();
    shares.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    shares
}
