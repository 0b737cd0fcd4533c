//! Now: queues, rates, where the time goes, and what is wrong.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use berth_scheduler::{ClusterView, PodPlace};
use berth_serving::Probe;
use berth_telemetry::metrics::{Figures, Timing};
use maud::{Markup, html};

use crate::{
    Source,
    history::{LastMinute, Point, as_rate, scheduled},
    layout::{Age, View, address, duration, nothing, short_time, thousands},
    page::Page,
    viewer::{Refusal, Right, Viewer},
};

/// Plugins that are listed by what they take; the others are summed up.
const N_PLUGINS: usize = 12;

/// What the copy says.
struct Copied {
    age: Age,
    binding: usize,
    nodes: usize,
    /// Since when the pod waits that has waited for longest.
    longest_wait: u64,
}

/// One thing that is wrong, and what to do.
struct Complaint {
    is_problem: bool,
    text: String,
    help: String,
}

pub(super) async fn render<S: Source>(page: &Page<S>, viewer: &Viewer) -> Result<Arc<View>, Refusal> {
    viewer.must(Right::Metrics).await?;
    let shows_plugins = viewer.may(Right::GetPlugins).await?;
    let address = if shows_plugins { "/page" } else { "/page without plugins" };
    page.shared.get(address.to_owned(), super::SECOND, make(page, shows_plugins)).await
}

async fn make<S: Source>(page: &Page<S>, shows_plugins: bool) -> Result<View, Refusal> {
    let copied = page.read(copied).await?;
    let (minute, figures) = (page.history.last_minute(), page.metrics.scheduler.figures());
    let complaints = complaints(page, shows_plugins).await?;
    let content = html! {
        (wrong(&complaints))
        section { (tiles(page.health.is_leading(), &figures, &minute, &copied)) }
        section { h2 { "The last hour" } (lines(&page.history.hour())) }
        section { h2 { "Extension points" } (points(&figures, &minute)) }
        section { h2 { "Plugins by time" } (plugins(&figures, &minute)) }
    };
    Ok(View { title: "Now".to_owned(), filters: html! {}, content, age: copied.age, every: super::SECOND })
}

fn copied(view: &ClusterView) -> Copied {
    let mut copied = Copied { age: Age::of(view), binding: 0, nodes: view.table().n_nodes(), longest_wait: 0 };
    for pod in view.pods() {
        match pod.place() {
            PodPlace::Queued(waiting) => {
                copied.longest_wait = copied.longest_wait.max(view.as_of().since(waiting.record.queued_at));
            }
            PodPlace::Binding(_) => copied.binding += 1,
            PodPlace::Assumed { .. } | PodPlace::Bound { .. } | PodPlace::Unscheduled => {}
        }
    }
    copied
}

/// What is wrong, the worst first.
async fn complaints<S: Source>(page: &Page<S>, shows_plugins: bool) -> Result<Vec<Complaint>, Refusal> {
    let mut complaints = Vec::new();
    let checks = [Probe::Healthz, Probe::Readyz].map(|probe| page.health.checks(probe, Instant::now()));
    let problems: BTreeSet<String> =
        checks.into_iter().flatten().filter_map(|check| Some(check.result.err()?.to_string())).collect();
    for problem in problems {
        let help = "the scheduler's log says more; /readyz?verbose lists all checks".to_owned();
        complaints.push(Complaint { is_problem: true, text: problem, help });
    }
    if shows_plugins {
        if let Some(error) = page.source.plugin_settings().await?.error {
            let text = format!("the plugin configuration is not taken over: {error}");
            let help = "correct the file; it is read again when it changes".to_owned();
            complaints.push(Complaint { is_problem: true, text, help });
        }
        for complaint in page.source.plugins().await?.iter().flat_map(|plugin| plugin.complaints()) {
            let (is_problem, text, help) = (complaint.is_problem, complaint.text, complaint.fix);
            complaints.push(Complaint { is_problem, text, help });
        }
    }
    complaints.sort_by_key(|complaint| !complaint.is_problem);
    Ok(complaints)
}

fn wrong(complaints: &[Complaint]) -> Markup {
    html! {
        section.wrong aria-label="What is wrong" {
            @if complaints.is_empty() { p.well { "Nothing is known to be wrong." } }
            @else {
                ul {
                    @for complaint in complaints {
                        li.problem[complaint.is_problem].warning[!complaint.is_problem] {
                            strong { (complaint.text) } ". " (complaint.help)
                        }
                    }
                }
            }
        }
    }
}

fn tiles(is_leading: bool, figures: &Figures, minute: &LastMinute, copied: &Copied) -> Markup {
    let seconds = minute.span.as_secs_f64();
    let bound = scheduled(figures).saturating_sub(scheduled(&minute.before));
    let time = figures.time_to_bind.since(&minute.before.time_to_bind);
    let quantile = |share: f64| time.quantile(share).map_or_else(|| "–".to_owned(), short_time);
    let queue = |name: &str| figures.pending.get(name).copied().unwrap_or_default();
    let tile = |value: String, label: &str, note: &str| {
        html! { div.tile { dt { (label) } dd { (value) @if !note.is_empty() { small { (note) } } } } }
    };
    html! {
        dl.tiles {
            (tile(if is_leading { "leads" } else { "stands by" }.to_owned(), "This replica", ""))
            (tile(format!("{:.1}", as_rate(bound, seconds)), "Pods bound a second", "last minute"))
            (tile(quantile(0.5), "Time to bind, p50", "last minute"))
            (tile(quantile(0.99), "Time to bind, p99", "last minute"))
            @for name in ["active", "backoff", "unschedulable", "gated"] {
                (tile(thousands(queue(name)), &format!("Queue: {name}"), "pods"))
            }
            (tile(thousands(copied.binding), "Being bound", "pods"))
            (tile(thousands(copied.nodes), "Nodes", ""))
            (tile(duration(copied.longest_wait), "Longest wait", "since the last attempt"))
        }
        p { a href="/page/pods" { "Why pods are pending" } }
    }
}

/// Two lines over the hour.
fn lines(hour: &[Point]) -> Markup {
    if hour.len() < 2 {
        return nothing("The first line appears ten seconds after the start.");
    }
    let bound: Vec<f64> = hour.iter().map(|point| point.bound_per_second).collect();
    #[expect(clippy::cast_precision_loss, reason = "a line of some hundred pixels")]
    let pending: Vec<f64> = hour.iter().map(|point| point.pending as f64).collect();
    html! {
        div.charts {
            (line("Pods bound a second", &bound))
            (line("Pods that wait", &pending))
        }
    }
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 120.0;

fn line(label: &str, values: &[f64]) -> Markup {
    let most = values.iter().copied().fold(0.0, f64::max);
    let last = values.last().copied().unwrap_or_default();
    let scale = if most > 0.0 { HEIGHT / most } else { 0.0 };
    // The newest value is at the right edge, an hour ago at the left.
    let from_right = |back: usize| WIDTH - f64::from(u32::try_from(back).unwrap_or(u32::MAX));
    let points: Vec<String> = values
        .iter()
        .rev()
        .enumerate()
        .map(|(back, value)| format!("{:.0},{:.1}", from_right(back), HEIGHT - value * scale))
        .collect();
    html! {
        figure {
            figcaption { (label) ": " strong { (format!("{last:.1}")) } ", at most " (format!("{most:.1}")) }
            svg.line viewBox=(format!("0 -4 {WIDTH} {}", HEIGHT + 8.0)) preserveAspectRatio="none" role="img" aria-label=(label) {
                line.axis x1="0" y1=(HEIGHT) x2=(WIDTH) y2=(HEIGHT) {}
                polyline points=(points.join(" ")) {}
            }
            p.axis { span { "an hour ago" } span { "now" } }
        }
    }
}

/// A name with what it took in the last minute.
type Taken = (String, Timing);

fn largest_first(mut taken: Vec<Taken>) -> Vec<Taken> {
    taken.retain(|(_, timing)| timing.count > 0);
    taken.sort_by(|(_, one), (_, other)| other.seconds.partial_cmp(&one.seconds).unwrap_or(Ordering::Equal));
    taken
}

fn points(figures: &Figures, minute: &LastMinute) -> Markup {
    let before = |name: &str| minute.before.points.get(name).copied().unwrap_or_default();
    let taken = figures.points.iter().map(|(name, timing)| (name.clone(), timing.since(before(name)))).collect();
    shares("Extension point", &largest_first(taken), |_| None)
}

fn plugins(figures: &Figures, minute: &LastMinute) -> Markup {
    let mut by_plugin: BTreeMap<&str, Timing> = BTreeMap::new();
    for (key, timing) in &figures.plugins {
        let before = minute.before.plugins.get(key).copied().unwrap_or_default();
        let since = timing.since(before);
        let sum = by_plugin.entry(&key.0).or_default();
        (sum.count, sum.seconds) = (sum.count + since.count, sum.seconds + since.seconds);
    }
    let mut taken = largest_first(by_plugin.into_iter().map(|(name, timing)| (name.to_owned(), timing)).collect());
    let others = taken.split_off(taken.len().min(N_PLUGINS));
    html! {
        (shares("Plugin", &taken, |name| Some(address("/page/plugins", [("name", name)]))))
        @if !others.is_empty() {
            @let seconds: f64 = others.iter().map(|(_, timing)| timing.seconds).sum();
            p { (thousands(others.len())) " other plugins took " (short_time(seconds)) " altogether." }
        }
        p.note { "Measured in one attempt of ten." }
    }
}

fn shares(what: &str, taken: &[Taken], link: impl Fn(&str) -> Option<String>) -> Markup {
    let all: f64 = taken.iter().map(|(_, timing)| timing.seconds).sum();
    if all <= 0.0 {
        return nothing("Nothing was scheduled in the last minute.");
    }
    html! {
        div.scroll { table {
            thead { tr {
                th scope="col" { (what) }
                th.number scope="col" { "Share" }
                th scope="col" { span.hidden { "Share as a bar" } }
                th.number scope="col" { "Time in the last minute" }
                th.number scope="col" { "Each time" }
            } }
            tbody {
                @for (name, timing) in taken {
                    @let share = timing.seconds / all;
                    tr {
                        th scope="row" {
                            @match link(name) { Some(link) => { a href=(link) { (name) } } None => { (name) } }
                        }
                        td.number { (format!("{:.1} %", share * 100.0)) }
                        td { svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                            rect width=(format!("{:.1}", share * 100.0)) height="8" {}
                        } }
                        td.number { (short_time(timing.seconds)) }
                        td.number { (short_time(timing.seconds / as_rate(timing.count, 1.0))) }
                    }
                }
            }
        } }
    }
}
