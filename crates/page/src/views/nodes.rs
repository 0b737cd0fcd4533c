//! The nodes: a map that shows each node's requests, or the plugin that refuses the node for a pod, and a table of the
//! same data.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use berth_explain::{Refusals, amount};
use berth_model::{ClusterTable, NodeIdx, Sym};
use berth_scheduler::ClusterView;
use maud::{Markup, html};

use super::{Parameters, field, first_row, pod_name, text};
use crate::{
    Source,
    layout::{Age, ROWS, View, address, nothing, pager, thousands},
    page::Page,
    viewer::{Refusal, Right, Viewer},
};

const ZONE: &str = "topology.kubernetes.io/zone";

/// The parameters of the address.
#[derive(Clone, Debug)]
struct Filter {
    resource: String,
    /// The label by which the map is divided.
    by: String,
    /// `KEY=VALUE` or `KEY`. An empty text stands for all nodes.
    label: String,
    name: String,
    /// The pod for which nodes are shown. An empty text means that no pod was given.
    pod: String,
    first: usize,
}

struct Row {
    name: String,
    /// The value of the label that divides the map.
    group: String,
    used: i64,
    allocatable: i64,
    pods: i64,
    unschedulable: bool,
    taints: usize,
}

struct Copied {
    age: Age,
    resources: Vec<String>,
    all: usize,
    /// The nodes that match the filter, in the order of their names.
    rows: Vec<Row>,
}

/// The meaning of a cell of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shade {
    /// The used tenths of the allocatable amount. `None` means that the node does not have the resource.
    Used(Option<u8>),
    Fits,
    /// The position of the first plugin that refuses the node.
    Refused(usize),
}

pub(super) async fn render<S: Source>(
    page: &Page<S>,
    parameters: &Parameters,
    viewer: &Viewer,
) -> Result<Arc<View>, Refusal> {
    viewer.must(Right::ListNodes).await?;
    let or = |name: &str, default: &str| match text(parameters, name) {
        "" => default.to_owned(),
        value => value.to_owned(),
    };
    let filter = Filter {
        resource: or("resource", "cpu"),
        by: or("by", ZONE),
        label: or("label", ""),
        name: or("name", ""),
        pod: or("pod", ""),
        first: first_row(parameters)?,
    };
    if !filter.pod.is_empty() {
        let (namespace, name) = pod_name(&filter.pod)?;
        viewer.must(Right::GetPod { namespace, name }).await?;
    }
    let every = if filter.pod.is_empty() { super::SECOND * 2 } else { super::SELDOM };
    page.shared.get(filter.address(filter.first), every, make(page, filter, every)).await
}

async fn make<S: Source>(page: &Page<S>, filter: Filter, every: Duration) -> Result<View, Refusal> {
    let refusals = if filter.pod.is_empty() {
        None
    } else {
        let (namespace, name) = pod_name(&filter.pod)?;
        Some(page.source.refusals(namespace, name).await?)
    };
    let asked = filter.clone();
    let copied = page.read(move |view| copied(view, &asked)).await?;
    let content = content(&copied, &filter, refusals.as_ref());
    Ok(View { title: "Nodes".to_owned(), filters: form(&filter, &copied.resources), content, age: copied.age, every })
}

fn copied(view: &ClusterView, filter: &Filter) -> Copied {
    let table = view.table();
    let mut resources: Vec<String> =
        table.allocatable().names().map(|name| table.symbols.text(name).to_owned()).collect();
    if !resources.iter().any(|resource| resource == "pods") {
        resources.push("pods".to_owned());
    }
    resources.sort();
    let rows = table.nodes().iter().filter(|node| is_asked(table, *node, filter)).map(|node| row(table, node, filter));
    let mut rows: Vec<Row> = rows.collect();
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let all = table.n_nodes();
    Copied { age: Age::of(view), resources, all, rows }
}

fn label<'a>(table: &'a ClusterTable, node: NodeIdx, key: &str) -> Option<&'a str> {
    let column = table.labels().column(table.symbols.lookup(key)?)?;
    column.get(node).map(|value| table.symbols.text(value))
}

fn is_asked(table: &ClusterTable, node: NodeIdx, filter: &Filter) -> bool {
    let has_label = match filter.label.split_once('=') {
        _ if filter.label.is_empty() => true,
        Some((key, value)) => label(table, node, key) == Some(value),
        None => label(table, node, &filter.label).is_some(),
    };
    has_label && table.symbols.text(table.name(node)).contains(&filter.name)
}

fn row(table: &ClusterTable, node: NodeIdx, filter: &Filter) -> Row {
    let at = |column: &[i64]| column.get(node.index()).copied().unwrap_or_default();
    let pods = at(table.pod_counts());
    let resource = table.symbols.lookup(&filter.resource).unwrap_or(Sym::NONE);
    let used = if filter.resource == "pods" { pods } else { table.requested().get(resource, node) };
    let taints = usize::try_from(table.taint_set_id(node)).ok().and_then(|set| table.taint_sets().get(set));
    Row {
        name: table.symbols.text(table.name(node)).to_owned(),
        group: label(table, node, &filter.by).unwrap_or("without this label").to_owned(),
        used,
        allocatable: table.allocatable().get(resource, node),
        pods,
        unschedulable: table.unschedulable().contains(node),
        taints: taints.map_or(0, Vec::len),
    }
}

impl Row {
    /// The used hundredths of the allocatable amount. `None` if the node does not have the resource.
    fn percent(&self) -> Option<i64> {
        (self.allocatable > 0)
            .then(|| i64::try_from(i128::from(self.used) * 100 / i128::from(self.allocatable)).unwrap_or(i64::MAX))
    }
}

impl Filter {
    fn address(&self, first: usize) -> String {
        let from = if first == 0 { String::new() } else { first.to_string() };
        let query = [
            ("resource", &*self.resource),
            ("by", &*self.by),
            ("label", &*self.label),
            ("name", &*self.name),
            ("pod", &*self.pod),
            ("from", &*from),
        ];
        address("/page/nodes", query)
    }
}

fn form(filter: &Filter, resources: &[String]) -> Markup {
    html! {
        form.filters method="get" action="/page/nodes" {
            label { "Resource " select name="resource" {
                @for resource in resources { option value=(resource) selected[*resource == filter.resource] { (resource) } }
            } }
            (field("Divided by label", "by", &filter.by, ZONE))
            (field("With label", "label", &filter.label, "key=value"))
            (field("Name contains", "name", &filter.name, ""))
            (field("For pod", "pod", &filter.pod, "namespace/name"))
            button { "Show" }
            a href="/page/nodes" { "Show all" }
        }
    }
}

fn content(copied: &Copied, filter: &Filter, refusals: Option<&Refusals>) -> Markup {
    if copied.all == 0 {
        return nothing("The scheduler knows no nodes.");
    }
    let refused: Option<HashMap<&str, &[usize]>> =
        refusals.map(|refusals| refusals.nodes.iter().map(|(node, plugins)| (&**node, &**plugins)).collect());
    let plugins = refusals.map_or(&[][..], |refusals| &refusals.plugins);
    let shade = |row: &Row| match &refused {
        Some(refused) => refused
            .get(&*row.name)
            .and_then(|plugins| plugins.first())
            .map_or(Shade::Fits, |plugin| Shade::Refused(*plugin)),
        None => Shade::Used(row.percent().map(|percent| u8::try_from(percent.clamp(0, 109) / 10).unwrap_or(10))),
    };
    let rejected = refusals.and_then(|refusals| refusals.pod_rejected.as_deref());
    html! {
        @if let Some(reason) = rejected { p.refused { "No node is looked at for pod " (filter.pod) ": " (reason) } }
        @if copied.rows.is_empty() { (nothing("No node matches the filter.")) }
        @else if rejected.is_none() {
            (legend(copied, plugins, &shade, filter))
            (map(&copied.rows, plugins, &shade, filter))
        }
        @if !copied.rows.is_empty() {
            section { h2 { "As a table" } (table(copied, filter, refusals, refused.as_ref())) }
        }
    }
}

fn class(shade: Shade) -> String {
    match shade {
        Shade::Used(None) => "none".to_owned(),
        Shade::Used(Some(tenths)) => format!("u{tenths}"),
        Shade::Fits => "fits".to_owned(),
        // If there are more plugins than colours, the last colour is shared. The legend and the table name the plugins.
        Shade::Refused(plugin) => format!("p{}", plugin.min(N_COLOURS - 1)),
    }
}

/// The number of colours for plugins in the style sheet.
const N_COLOURS: usize = 8;

fn meaning(shade: Shade, plugins: &[String]) -> String {
    match shade {
        Shade::Used(None) => "has none of it".to_owned(),
        Shade::Used(Some(10..)) => "100 % and more".to_owned(),
        Shade::Used(Some(tenths)) => format!("{}–{} %", tenths * 10, tenths * 10 + 9),
        Shade::Fits => "fits".to_owned(),
        Shade::Refused(plugin) => format!("refused by {}", plugins.get(plugin).map_or("a plugin", |name| name)),
    }
}

/// The meaning of the colours, with the number of nodes of each colour.
fn legend(copied: &Copied, plugins: &[String], shade: &impl Fn(&Row) -> Shade, filter: &Filter) -> Markup {
    let mut counts: BTreeMap<(usize, usize), (Shade, usize)> = BTreeMap::new();
    for row in &copied.rows {
        let shade = shade(row);
        let place = match shade {
            Shade::Fits => (0, 0),
            Shade::Used(None) => (0, 1),
            Shade::Used(Some(tenths)) => (1, usize::from(tenths)),
            Shade::Refused(plugin) => (2, plugin),
        };
        counts.entry(place).or_insert((shade, 0)).1 += 1;
    }
    html! {
        p {
            @if filter.pod.is_empty() { strong { (filter.resource) } " that pods request, of what is allocatable" }
            @else { "Which plugin refuses nodes for pod " strong { (filter.pod) } " first" }
            ", of " (thousands(copied.rows.len())) " nodes"
            @if copied.rows.len() < copied.all { " (" (thousands(copied.all)) " without the filter)" }
            ":"
        }
        ul.legend {
            @for (shade, nodes) in counts.into_values() {
                li { svg.key viewBox="0 0 10 10" aria-hidden="true" { rect class=(class(shade)) width="10" height="10" {} } (meaning(shade, plugins)) ": " strong { (thousands(nodes)) } }
            }
        }
    }
}

/// The number of cells in a line of the map, and their size including the space between them.
const COLUMNS: usize = 90;
const CELL: usize = 12;

fn map(rows: &[Row], plugins: &[String], shade: &impl Fn(&Row) -> Shade, filter: &Filter) -> Markup {
    let mut groups: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(&row.group).or_default().push(row);
    }
    html! {
        @for (group, rows) in groups {
            @let lines = rows.len().div_ceil(COLUMNS);
            figure.map {
                figcaption { (filter.by) " " strong { (group) } ": " (thousands(rows.len())) " nodes" }
                svg viewBox=(format!("0 0 {} {}", COLUMNS * CELL, lines * CELL)) width=(COLUMNS * CELL) height=(lines * CELL) role="img" aria-label=(format!("Nodes of {group}, as in the table below")) {
                    @for (place, row) in rows.into_iter().enumerate() {
                        @let shade = shade(row);
                        rect class=(class(shade)) x=(place % COLUMNS * CELL) y=(place / COLUMNS * CELL) {
                            title { (row.name) ": " @if let (Shade::Used(_), Some(percent)) = (shade, row.percent()) { (percent) " %" } @else { (meaning(shade, plugins)) } }
                        }
                    }
                }
            }
        }
    }
}

fn table(
    copied: &Copied,
    filter: &Filter,
    refusals: Option<&Refusals>,
    refused: Option<&HashMap<&str, &[usize]>>,
) -> Markup {
    let mut rows: Vec<&Row> = copied.rows.iter().collect();
    let n_refusing = |row: &Row| refused.and_then(|refused| refused.get(&*row.name)).map_or(0, |plugins| plugins.len());
    // The fullest nodes come first. For a pod, the nodes that fit or nearly fit come first.
    rows.sort_by_key(|row| (n_refusing(row), std::cmp::Reverse(row.percent())));
    let total = rows.len();
    let shown: Vec<&Row> = rows.into_iter().skip(filter.first).take(ROWS).collect();
    let n_shown = shown.len();
    let by = |row: &Row| {
        let plugins = refused.and_then(|refused| refused.get(&*row.name)).copied().unwrap_or_default();
        let names = plugins.iter().filter_map(|plugin| refusals?.plugins.get(*plugin)).map(String::as_str);
        names.collect::<Vec<_>>().join(", ")
    };
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table" { table {
            thead { tr {
                th scope="col" { "Node" } th scope="col" { (filter.by) }
                th.number scope="col" { "Requested " (filter.resource) } th.number scope="col" { "Allocatable" } th.number scope="col" { "%" }
                th.number scope="col" { "Pods" } th scope="col" { "Closed" }
                @if refused.is_some() { th scope="col" { "Refused by" } }
            } }
            tbody { @for row in shown {
                tr {
                    th scope="row" { (row.name) } td { (row.group) }
                    td.number { (amount(&filter.resource, row.used)) } td.number { (amount(&filter.resource, row.allocatable)) }
                    td.number { @if let Some(percent) = row.percent() { (percent) } @else { "–" } }
                    td.number { (row.pods) }
                    td {
                        @if row.unschedulable { "unschedulable " }
                        @if row.taints == 1 { "1 taint" } @else if row.taints > 1 { (row.taints) " taints" }
                    }
                    @if refused.is_some() { td { @let by = by(row); @if by.is_empty() { "fits" } @else { (by) } } }
                }
            } }
        } }
        (pager(filter.first, n_shown, total, |first| filter.address(first)))
    }
}
