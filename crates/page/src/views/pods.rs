//! Pending pods: by reason, by owner, and one by one, the oldest first.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use berth_model::{Time, pod::Owner};
use berth_queue::{QueuedPod, Waiting};
use berth_scheduler::{PodList, PodPlace, PodView};
use berth_telemetry::clock;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::{Parameters, field, first_row, text};
use crate::{
    Source,
    layout::{Age, ROWS, View, address, duration, nothing, pager, pod_address, thousands},
    page::Page,
    viewer::{Refusal, Right, Viewer},
};

/// Pods that wait for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pending {
    pub pods: usize,
    /// The pending pods, grouped by the plugin or the rule that refuses or holds them. The largest group comes first.
    pub reasons: Vec<PendingGroup>,
    /// The oldest pending pods, at most 200. The oldest pod comes first.
    pub oldest: Vec<PendingPod>,
}

/// Pods that wait for the same reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PendingGroup {
    pub reason: String,
    pub pods: usize,
    pub oldest_milliseconds: u64,
}

/// A pod that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PendingPod {
    pub namespace: String,
    pub name: String,
    pub reason: String,
    pub age_milliseconds: u64,
    pub attempts: u32,
}

/// The parameters of the address. An empty text stands for all.
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
    /// Milliseconds since the pod first entered the queue, and since its last attempt.
    age: u64,
    waits: u64,
    nominated: String,
}

/// Pods that have something in common.
struct Group {
    key: String,
    pods: usize,
    oldest: u64,
}

struct Copied {
    age: Age,
    /// The number of pending pods in the namespace, or in all namespaces if none is chosen.
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
) -> Result<Arc<View>, Refusal> {
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
        return Ok(Arc::new(View {
            title: TITLE.to_owned(),
            filters,
            content,
            age: Age::ago(0),
            every: super::SECOND,
        }));
    }
    viewer.must(Right::ListPods(namespace)).await?;
    let address = filter.address(&filter.reason, &filter.owner, filter.first);
    page.shared.get(address, super::SECOND, make(page, filter, filters)).await
}

async fn make<S: Source>(page: &Page<S>, filter: Filter, filters: Markup) -> Result<View, Refusal> {
    let asked = filter.clone();
    let copied = page.read_pods(move |pods| copied(pods, &asked)).await?;
    let content = content(&copied, &filter);
    Ok(View { title: TITLE.to_owned(), filters, content, age: copied.age, every: super::SECOND })
}

const TITLE: &str = "Pending pods";

/// Pending pods of all namespaces, for the overview.
pub(super) fn pending(pods: PodList<'_>) -> Pending {
    let copied = copied(pods, &Filter::default());
    let group = |group: Group| PendingGroup { reason: group.key, pods: group.pods, oldest_milliseconds: group.oldest };
    let pod = |row: Row| PendingPod {
        namespace: row.namespace,
        name: row.name,
        reason: row.reason,
        age_milliseconds: row.age,
        attempts: row.attempts,
    };
    Pending {
        pods: copied.all,
        reasons: copied.by_reason.into_iter().map(group).collect(),
        oldest: copied.rows.into_iter().map(pod).collect(),
    }
}

/// A pod that waits, before its texts are copied. There may be tens of thousands.
struct Waits<'a> {
    pod: PodView<'a>,
    waiting: &'a Waiting,
    age: u64,
    /// The positions in the lists of groups.
    reason: usize,
    owner: usize,
}

fn copied(pods: PodList<'_>, filter: &Filter) -> Copied {
    let is_asked = |asked: &str, is: &str| asked.is_empty() || asked == is;
    let (mut reasons, mut owners) = (Groups::default(), Groups::default());
    let mut waits: Vec<Waits<'_>> = Vec::new();
    let mut text = String::new();
    for pod in pods.pods() {
        let PodPlace::Queued(waiting) = pod.place() else { continue };
        if !filter.namespace.is_empty() && filter.namespace != pod.namespace() {
            continue;
        }
        let record = &waiting.record;
        let age = pods.as_of().since(record.first_queued_at.unwrap_or(record.queued_at));
        write_reason(&mut text, record);
        let reason = reasons.count(&text, age);
        write_owner(&mut text, pod.pod().owner.as_ref());
        let owner = owners.count(&text, age);
        waits.push(Waits { pod, waiting, age, reason, owner });
    }
    let all = waits.len();
    waits.retain(|it| {
        is_asked(&filter.reason, reasons.key(it.reason))
            && is_asked(&filter.owner, owners.key(it.owner))
            && (filter.name.is_empty() || it.pod.name().contains(&filter.name))
    });
    let matching = waits.len();
    let oldest_first =
        |one: &Waits<'_>, other: &Waits<'_>| other.age.cmp(&one.age).then_with(|| one.pod.name().cmp(other.pod.name()));
    keep_first(&mut waits, filter.first.saturating_add(ROWS), oldest_first);
    let row = |it: &Waits<'_>| row(pods.as_of(), it, reasons.key(it.reason), owners.key(it.owner));
    let rows = waits.iter().skip(filter.first).map(row).collect();
    let (by_reason, by_owner) = (reasons.largest_first(), owners.largest_first());
    let age = Age::at(clock::wall(pods.as_of()), pods.is_complete());
    Copied { age, all, by_reason, by_owner, matching, rows }
}

/// Keeps the first items of this order, sorted. The other items need not be sorted, and there may be many.
fn keep_first<T>(items: &mut Vec<T>, n_kept: usize, order: impl Fn(&T, &T) -> Ordering + Copy) {
    if n_kept < items.len() {
        items.select_nth_unstable_by(n_kept, order);
        items.truncate(n_kept);
    }
    items.sort_by(order);
}

fn row(now: Time, it: &Waits<'_>, reason: &str, owner: &str) -> Row {
    let record = &it.waiting.record;
    Row {
        namespace: it.pod.namespace().to_owned(),
        name: it.pod.name().to_owned(),
        reason: reason.to_owned(),
        owner: owner.to_owned(),
        queue: if record.gated_by.is_some() { "gated" } else { it.waiting.queue.as_str() },
        attempts: record.attempts,
        priority: it.pod.priority(),
        age: it.age,
        waits: now.since(record.queued_at),
        nominated: it.pod.nominated_node().to_owned(),
    }
}

fn write_reason(text: &mut String, record: &QueuedPod) {
    text.clear();
    if let Some(plugin) = &record.gated_by {
        text.push_str("held by ");
        text.push_str(plugin);
        return;
    }
    for plugin in record.rejectors.iter().chain(&record.pending) {
        if !text.is_empty() {
            text.push_str(" + ");
        }
        text.push_str(plugin);
    }
    if text.is_empty() {
        text.push_str(if record.attempts == 0 { "not tried yet" } else { "tried, and to be tried again" });
    }
}

fn write_owner(text: &mut String, owner: Option<&Owner>) {
    text.clear();
    match owner {
        None => text.push_str("no owner"),
        Some(owner) => {
            text.push_str(&owner.kind);
            text.push(' ');
            text.push_str(&owner.name);
        }
    }
}

/// The groups by their keys.
#[derive(Default)]
struct Groups {
    places: HashMap<String, usize>,
    groups: Vec<Group>,
    /// The position of the group that was last counted. The next pod is often of the same group.
    last: usize,
}

impl Groups {
    /// Adds a pod to the group, and returns the group's position.
    fn count(&mut self, key: &str, age: u64) -> usize {
        let place = self.place(key);
        self.last = place;
        if let Some(group) = self.groups.get_mut(place) {
            (group.pods, group.oldest) = (group.pods + 1, group.oldest.max(age));
        }
        place
    }

    fn place(&mut self, key: &str) -> usize {
        if self.groups.get(self.last).is_some_and(|group| group.key == key) {
            return self.last;
        }
        if let Some(place) = self.places.get(key) {
            return *place;
        }
        self.places.insert(key.to_owned(), self.groups.len());
        self.groups.push(Group { key: key.to_owned(), pods: 0, oldest: 0 });
        self.groups.len() - 1
    }

    fn key(&self, place: usize) -> &str {
        self.groups.get(place).map_or("", |group| &group.key)
    }

    fn largest_first(self) -> Vec<Group> {
        let mut groups = self.groups;
        groups.sort_by(|one, other| other.pods.cmp(&one.pods).then_with(|| one.key.cmp(&other.key)));
        groups
    }
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
            @if copied.matching == 0 { (nothing("No pending pod matches the filter.")) }
            @else { (pods(&copied.rows)) }
            (pager(filter.first, copied.rows.len(), copied.matching, |first| filter.address(&filter.reason, &filter.owner, first)))
        }
    }
}

/// The number of groups that are shown at once. A click opens the remaining groups.
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
        div.scroll tabindex="0" role="group" aria-label="Table" { table { (head) tbody { @for group in first { (row(group)) } } } }
        @if !rest.is_empty() {
            details {
                summary { (thousands(rest.len())) " more" }
                div.scroll tabindex="0" role="group" aria-label="Table" { table { (head) tbody { @for group in rest { (row(group)) } } } }
            }
        }
    }
}

fn pods(rows: &[Row]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table" { table {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_items_are_kept_and_sorted() {
        for n_kept in [0, 3, 9, 20] {
            let mut items = vec![5, 3, 9, 1, 7, 2, 8, 6, 4];
            keep_first(&mut items, n_kept, Ord::cmp);
            assert_eq!(items, (1..=9).take(n_kept).collect::<Vec<i32>>());
        }
    }

    /// The scheduler in the tests of all views has no profile, so no pod waits there.
    #[test]
    fn no_text_of_a_pending_pod_becomes_markup() {
        let evil = || "<script>alert('x')</script>".to_owned();
        let row = Row {
            namespace: evil(),
            name: evil(),
            reason: evil(),
            owner: evil(),
            queue: "active",
            attempts: 1,
            priority: 0,
            age: 1,
            waits: 1,
            nominated: evil(),
        };
        let groups = || (0..=N_GROUPS).map(|_| Group { key: evil(), pods: 1, oldest: 1 }).collect();
        let age = Age::ago(0);
        let copied = Copied { age, all: 1, by_reason: groups(), by_owner: groups(), matching: 1, rows: vec![row] };
        let text = content(&copied, &Filter::default()).into_string();
        assert!(!text.contains("<script"), "{text}");
        assert_eq!(text.matches("&lt;script&gt;").count(), 5 + 2 * (N_GROUPS + 1), "{text}");
    }
}
