//! The present state: queues, rates, the use of time, and problems.

use std::sync::Arc;

use maud::{Markup, html};

use super::overview::{Overview, OverviewComplaint, Shown, TimeShare};
use crate::{
    Source,
    history::{Point, as_rate},
    layout::{Age, View, address, duration, nothing, short_time, thousands},
    page::Page,
    viewer::{Refusal, Right, Viewer},
};

/// The number of plugins that are listed with their time. The times of the other plugins are added up.
const N_PLUGINS: usize = 12;

pub(super) async fn render<S: Source>(page: &Page<S>, viewer: &Viewer) -> Result<Arc<View>, Refusal> {
    viewer.must(Right::Metrics).await?;
    let plugins = viewer.may(Right::GetPlugins).await?;
    let address = if plugins { "/page" } else { "/page without plugins" };
    page.shared.get(address.to_owned(), super::SECOND, make(page, Shown { plugins, pods: false })).await
}

async fn make<S: Source>(page: &Page<S>, shown: Shown) -> Result<View, Refusal> {
    let overview = Overview::of(page, shown).await?;
    let content = html! {
        (wrong(&overview.complaints))
        section { (tiles(&overview)) }
        section { h2 { "The last hour" } (lines(&page.history.hour())) }
        section { h2 { "Extension points" } (shares("Extension point", &overview.points, |_| None)) }
        section { h2 { "Plugins by time" } (plugins(&overview.plugins)) }
    };
    let age = Age::at(overview.as_of_milliseconds, overview.is_whole);
    Ok(View { title: "Now".to_owned(), filters: html! {}, content, age, every: super::SECOND })
}

fn wrong(complaints: &[OverviewComplaint]) -> Markup {
    html! {
        section.wrong aria-label="What is wrong" {
            @if complaints.is_empty() { p.well { "Nothing is known to be wrong." } }
            @else {
                ul {
                    @for complaint in complaints {
                        li.problem[complaint.is_problem].warning[!complaint.is_problem] {
                            strong { (complaint.text) } ". " (complaint.fix)
                        }
                    }
                }
            }
        }
    }
}

fn tiles(overview: &Overview) -> Markup {
    let time = |quantile: Option<f64>| quantile.map_or_else(|| "–".to_owned(), short_time);
    let queue = |name: &str| overview.queues.get(name).copied().unwrap_or_default();
    let tile = |value: String, label: &str, note: &str| {
        html! { div.tile { dt { (label) } dd { (value) @if !note.is_empty() { small { (note) } } } } }
    };
    let state = if overview.is_leading { "leads" } else { "stands by" };
    let note = overview.leader.as_ref().filter(|_| !overview.is_leading).map(|leader| format!("{leader} leads"));
    let note = note.unwrap_or_default();
    html! {
        dl.tiles {
            (tile(state.to_owned(), "This replica", &note))
            (tile(format!("{:.1}", overview.bound_per_second), "Pods bound a second", "last minute"))
            (tile(time(overview.time_to_bind_p50), "Time to bind, p50", "last minute"))
            (tile(time(overview.time_to_bind_p99), "Time to bind, p99", "last minute"))
            @for name in ["active", "backoff", "unschedulable", "gated"] {
                (tile(thousands(queue(name)), &format!("Queue: {name}"), "pods"))
            }
            (tile(thousands(overview.binding), "Being bound", "pods"))
            (tile(thousands(overview.nodes), "Nodes", ""))
            (tile(duration(overview.longest_wait_milliseconds), "Longest wait", "since the last attempt"))
        }
        p { a href="/page/pods" { "Why pods are pending" } }
    }
}
/// Two charts of the last hour.
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
    // The newest value is at the right edge. The value from an hour ago is at the left.
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

fn plugins(taken: &[TimeShare]) -> Markup {
    let (shown, others) = taken.split_at(taken.len().min(N_PLUGINS));
    html! {
        (shares("Plugin", shown, |name| Some(address("/page/plugins", [("name", name)]))))
        @if !others.is_empty() {
            @let seconds: f64 = others.iter().map(|share| share.seconds).sum();
            p { (thousands(others.len())) " other plugins took " (short_time(seconds)) " altogether." }
        }
        p.note { "Measured in one attempt of ten." }
    }
}

fn shares(what: &str, taken: &[TimeShare], link: impl Fn(&str) -> Option<String>) -> Markup {
    let all: f64 = taken.iter().map(|share| share.seconds).sum();
    if all <= 0.0 {
        return nothing("Nothing was scheduled in the last minute.");
    }
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table" { table {
            thead { tr {
                th scope="col" { (what) }
                th.number scope="col" { "Share" }
                th scope="col" { span.hidden { "Share as a bar" } }
                th.number scope="col" { "Time in the last minute" }
                th.number scope="col" { "Each time" }
            } }
            tbody {
                @for TimeShare { name, times, seconds } in taken {
                    @let share = seconds / all;
                    tr {
                        th scope="row" {
                            @match link(name) { Some(link) => { a href=(link) { (name) } } None => { (name) } }
                        }
                        td.number { (format!("{:.1} %", share * 100.0)) }
                        td { svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                            rect width=(format!("{:.1}", share * 100.0)) height="8" {}
                        } }
                        td.number { (short_time(*seconds)) }
                        td.number { (short_time(seconds / as_rate(*times, 1.0))) }
                    }
                }
            }
        } }
    }
}
