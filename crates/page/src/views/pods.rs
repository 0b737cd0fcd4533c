//! Pending pods: by reason, by owner, and one by one, the oldest first.

use std::collections::BTreeMap;

use berth_scheduler::{ClusterView, PodPlace, PodView};
use maud::{Markup, html};

use super::{Parameters, field, first_row, text};
use crate::{
    Source,
    layout::{Age, ROWS, View, address, duration, nothing, pager, pod_address, thousands},
    page::Page,
    viewer::{Refusal, Right, Viewer},
};

/// What the address asks for; an empty text asks for all.
#[derive(Clone, Debug, Default)]
struct Filter {
    namespace: String,
    name: String,
    reason: String,
    owner: String,
    first: usize,
}

/// A pod that waits.
struct Row {
    namespace: String,
    name: String,
    reason: String,
    owner: String,
    queue: &'static str,
    attempts: u32,
    priority: i32,
    /// Milliseconds since it came, and since its last attempt.
    age: u64,
    waits: u64,
    nominated: String,
}

/// Pods that are alike in something.
struct Group {
    key: String,
    pods: usize,
    oldest: u64,
}

struct Copied {
    age: Age,
    /// Pending pods of the namespace, or of all if none is asked for.
    all: usize,
    by_reason: Vec<Group>,
    by_owner: Vec<Group>,
    matching: usize,
    rows: Vec<Row>,
}

pub(super) async fn render<S: Source>(
    page: &Page<S>,
    parameters: &Parameters,
    viewer: &Viewer,
) -> Result<View, Refusal> {
    let of = |name: &str| text(parameters, name).to_owned();
    let filter = Filter {
        namespace: of("namespace"),
        name: of("name"),
        reason: of("reason"),
        owner: of("owner"),
        first: first_row(parameters)?,
    };
    let namespace = Some(&*filter.namespace).filter(|namespace| !namespace.is_empty());
    let filters = form(&filter);
    if namespace.is_none() && !viewer.may(Right::ListPods(None)).await? {
        let content = nothing("You may not list the pods of all namespaces: name one of them above.");
        return Ok(View { title: TITLE.to_owned(), filters, content, age: Age::ago(0), every: super::SECOND });
    }
    viewer.must(Right::ListPods(namespace)).await?;
    let asked = filter.clone();
    let copied = page.read(move |view| copied(view, &asked)).await?;
    Ok(View {
        title: TITLE.to_owned(),
        filters,
        content: content(&copied, &filter),
        age: copied.age,
        every: super::SECOND,
    })
}

const TITLE: &str = "Pending pods";

fn copied(view: &ClusterView, filter: &Filter) -> Copied {
    let is_asked = |asked: &str, is: &str| asked.is_empty() || asked == is;
    let pods = view.pods().filter_map(|pod| row(view, pod));
    let mut rows: Vec<Row> = pods.filter(|row| is_asked(&filter.namespace, &row.namespace)).collect();
    let all = rows.len();
    let (by_reason, by_owner) = (groups(&rows, |row| &row.reason), groups(&rows, |row| &row.owner));
    rows.retain(|row| {
        is_asked(&filter.reason, &row.reason)
            && is_asked(&filter.owner, &row.owner)
            && (filter.name.is_empty() || row.name.contains(&filter.name))
    });
    rows.sort_by(|one, other| other.age.cmp(&one.age).then_with(|| one.name.cmp(&other.name)));
    let matching = rows.len();
    let rows = rows.into_iter().skip(filter.first).take(ROWS).collect();
    Copied { age: Age::of(view), all, by_reason, by_owner, matching, rows }
}

fn row(view: &ClusterView, pod: PodView<'_>) -> Option<Row> {
    let PodPlace::Queued(waiting) = pod.place() else { return None };
    let record = &waiting.record;
    let owner = pod.pod().owner.as_ref();
    let rejected_by: Vec<&str> = record.rejectors.iter().chain(&record.pending).map(|plugin| &**plugin).collect();
    let reason = match &record.gated_by {
        Some(plugin) => format!("held by {plugin}"),
        None if !rejected_by.is_empty() => rejected_by.join(" + "),
        None if record.attempts == 0 => "not tried yet".to_owned(),
        None => "tried, and to be tried again".to_owned(),
    };
    Some(Row {
        namespace: pod.namespace().to_owned(),
        name: pod.name().to_owned(),
        reason,
        owner: owner.map_or_else(|| "no owner".to_owned(), |owner| format!("{} {}", owner.kind, owner.name)),
        queue: if record.gated_by.is_some() { "gated" } else { waiting.queue.as_str() },
        attempts: record.attempts,
        priority: pod.priority(),
        age: view.as_of().since(record.first_queued_at.unwrap_or(record.queued_at)),
        waits: view.as_of().since(record.queued_at),
        nominated: pod.nominated_node().to_owned(),
    })
}

/// The largest first.
fn groups(rows: &[Row], key: impl Fn(&Row) -> &str) -> Vec<Group> {
    let mut by_key: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for row in rows {
        let (pods, oldest) = by_key.entry(key(row)).or_default();
        (*pods, *oldest) = (*pods + 1, row.age.max(*oldest));
    }
    let group = |(key, (pods, oldest)): (&str, (usize, u64))| Group { key: key.to_owned(), pods, oldest };
    let mut groups: Vec<Group> = by_key.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.pods));
    groups
}

impl Filter {
    fn address(&self, reason: &str, owner: &str, first: usize) -> String {
        let from = if first == 0 { String::new() } else { first.to_string() };
        let query = [
            ("namespace", &*self.namespace),
            ("name", &*self.name),
            ("reason", reason),
            ("owner", owner),
            ("from", &*from),
        ];
        address("/page/pods", query)
    }
}

fn form(filter: &Filter) -> Markup {
    html! {
        form.filters method="get" action="/page/pods" {
            (field("Namespace", "namespace", &filter.namespace, "all"))
            (field("Name contains", "name", &filter.name, ""))
            (field("Reason", "reason", &filter.reason, "any"))
            (field("Owner", "owner", &filter.owner, "any"))
            button { "Show" }
            a href="/page/pods" { "Show all" }
        }
    }
}

fn content(copied: &Copied, filter: &Filter) -> Markup {
    if copied.all == 0 {
        return nothing("No pod is pending.");
    }
    html! {
        div.columns {
            section { h2 { "By reason" } (group_table("Refused or held by", &copied.by_reason, &filter.reason, |key| filter.address(key, &filter.owner, 0))) }
            section { h2 { "By owner" } (group_table("Owner", &copied.by_owner, &filter.owner, |key| filter.address(&filter.reason, key, 0))) }
        }
        section {
            h2 { "Pods, the oldest first" }
            @if copied.matching == 0 { (nothing("No pending pod is like this.")) }
            @else { (pods(&copied.rows)) }
            (pager(filter.first, copied.rows.len(), copied.matching, |first| filter.address(&filter.reason, &filter.owner, first)))
        }
    }
}

/// Groups that are shown before a link leads to the rest.
const N_GROUPS: usize = 20;

fn group_table(what: &str, groups: &[Group], chosen: &str, link: impl Fn(&str) -> String) -> Markup {
    let row = |group: &Group| {
        html! {
            tr.chosen[group.key == chosen] {
                th scope="row" { a href=(link(&group.key)) { (group.key) } }
                td.number { (thousands(group.pods)) }
                td.number { (duration(group.oldest)) }
            }
        }
    };
    let head = html! {
        thead { tr { th scope="col" { (what) } th.number scope="col" { "Pods" } th.number scope="col" { "Oldest" } } }
    };
    let (first, rest) = groups.split_at(groups.len().min(N_GROUPS));
    html! {
        div.scroll { table { (head) tbody { @for group in first { (row(group)) } } } }
        @if !rest.is_empty() {
            details {
                summary { (thousands(rest.len())) " more" }
                div.scroll { table { (head) tbody { @for group in rest { (row(group)) } } } }
            }
        }
    }
}

fn pods(rows: &[Row]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th scope="col" { "Pod" } th scope="col" { "Reason" } th scope="col" { "Owner" } th scope="col" { "Queue" }
                th.number scope="col" { "Attempts" } th.number scope="col" { "Priority" }
                th.number scope="col" { "Age" } th.number scope="col" { "Since the last attempt" } th scope="col" { "Nominated to" }
            } }
            tbody {
                @for row in rows {
                    tr {
                        th scope="row" { a href=(pod_address(&row.namespace, &row.name)) { (row.namespace) "/" (row.name) } }
                        td { (row.reason) } td { (row.owner) } td { (row.queue) }
                        td.number { (row.attempts) } td.number { (row.priority) }
                        td.number { (duration(row.age)) } td.number { (duration(row.waits)) } td { (row.nominated) }
                    }
                }
            }
        } }
    }
}
