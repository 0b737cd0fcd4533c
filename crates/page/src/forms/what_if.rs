//! The form of what-if questions about pasted manifests, and its answer.

use axum::{Extension, Form, extract::State, http::StatusCode, response::Response};
use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    Source, WhatIfError, WhatIfQuestion, WhatIfService, answers,
    layout::{ROWS, nothing, still_document, thousands},
    page::Page,
    viewer::{Refusal, Right, Viewer},
    what_if::{Answer, Variant},
};

const PATH: &str = "/page/what-if";
const TITLE: &str = "What if";

const EXAMPLE_POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: web
    image: web
    resources: {requests: {cpu: 500m, memory: 256Mi}}
";

const EXAMPLE_NODE: &str = "\
apiVersion: v1
kind: Node
metadata: {generateName: large-}
status: {allocatable: {cpu: 8, memory: 32Gi, pods: 110}}
";

/// The fields of the form. `removed` has names that are separated by spaces or commas.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Fields {
    pods: String,
    added: String,
    node: String,
    removed: String,
}

pub(super) async fn form<S: Source>(State(page): State<Page<S>>, Extension(viewer): Extension<Viewer>) -> Response {
    let fields = Fields { pods: EXAMPLE_POD.to_owned(), node: EXAMPLE_NODE.to_owned(), ..Fields::default() };
    match may_ask(&viewer).await {
        Ok(()) => show(StatusCode::OK, &fields, &page.what_if, &html! {}, &viewer),
        Err(refusal) => super::refusal(&refusal, PATH, &viewer),
    }
}

pub(super) async fn answer<S: Source>(
    State(page): State<Page<S>>,
    Extension(viewer): Extension<Viewer>,
    Form(fields): Form<Fields>,
) -> Response {
    if let Err(refusal) = may_ask(&viewer).await {
        return super::refusal(&refusal, PATH, &viewer);
    }
    let Some(service) = &page.what_if else {
        return show(StatusCode::NOT_FOUND, &fields, &page.what_if, &html! {}, &viewer);
    };
    let answered = match fields.question() {
        Ok(question) => service.answer(question).await,
        Err(error) => Err(error),
    };
    let read = answered.and_then(|answer| {
        serde_json::from_slice(&answer).map_err(|error| WhatIfError::Failed(format!("the answer is broken: {error}")))
    });
    match read {
        Ok(answer) => show(StatusCode::OK, &fields, &page.what_if, &answered_markup(&answer), &viewer),
        Err(error) => {
            let status = match error {
                WhatIfError::Invalid(_) => StatusCode::BAD_REQUEST,
                WhatIfError::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
                WhatIfError::Failed(_) => StatusCode::UNPROCESSABLE_ENTITY,
            };
            let content = html! { div.refused role="alert" { p { strong { (error.to_string()) } } } };
            show(status, &fields, &page.what_if, &content, &viewer)
        }
    }
}

/// The rights of `POST /what-if`.
async fn may_ask(viewer: &Viewer) -> Result<(), Refusal> {
    for right in [Right::AskWhatIf, Right::ListNodes, Right::ListPods(None)] {
        viewer.must(right).await?;
    }
    Ok(())
}

impl Fields {
    fn question(&self) -> Result<WhatIfQuestion, WhatIfError> {
        let added = self.added.trim();
        let added_nodes = match added {
            "" => Ok(0),
            added => {
                added.parse().map_err(|_| WhatIfError::Invalid(format!("nodes to add: {added}: expected a number")))
            }
        }?;
        let removed = self.removed.split(|letter: char| letter.is_whitespace() || letter == ',');
        Ok(WhatIfQuestion {
            pods: self.pods.clone(),
            added_node: if added_nodes > 0 { self.node.clone() } else { String::new() },
            added_nodes,
            removed_nodes: removed.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        })
    }
}

fn show(status: StatusCode, fields: &Fields, service: &WhatIfService, answer: &Markup, viewer: &Viewer) -> Response {
    let content = html! {
        @if service.is_some() {
            (answer)
            (form_markup(fields))
        } @else {
            (nothing("This scheduler does not answer what-if questions: it was started with --master or as kube-scheduler."))
        }
    };
    answers::html(status, &still_document(TITLE, &content, PATH, viewer))
}

fn form_markup(fields: &Fields) -> Markup {
    html! {
        form.asking action=(PATH) method="post" {
            p.note { "Where would these pods go? The scheduler's own plugins answer, on a copy of the cluster. Nothing is created or reserved." }
            label { "Manifests of pods, Deployments, Jobs and other workloads"
                textarea name="pods" rows="14" spellcheck="false" autocomplete="off" { (fields.pods) }
            }
            fieldset {
                legend { "Changes to the cluster" }
                label { "Nodes to add " input type="number" name="added" min="0" max="10000" value=(fields.added); }
                label { "The manifest of such a node"
                    textarea name="node" rows="6" spellcheck="false" autocomplete="off" { (fields.node) }
                }
                label { "Nodes to remove " input type="text" name="removed" value=(fields.removed) placeholder="names, separated by spaces" autocomplete="off"; }
            }
            button { "Ask" }
        }
    }
}

fn answered_markup(answer: &Answer) -> Markup {
    html! {
        section aria-label="Answer" {
            @for warning in &answer.warnings { p.note { "Warning: " (warning) } }
            @for variant in &answer.variants { (variant_markup(variant)) }
            p.note { "State of the cluster: " code { (answer.cluster_state) } ". If it has changed, ask again. Nothing is reserved." }
        }
    }
}

fn variant_markup(variant: &Variant) -> Markup {
    let shown = &variant.pods[..variant.pods.len().min(ROWS)];
    html! {
        h2 { (variant.name) }
        p { (thousands(variant.placed)) " pods get a node, " (thousands(variant.pending)) " stay pending." }
        div.scroll tabindex="0" role="group" aria-label="Table" { table {
            thead { tr { th scope="col" { "Pod" } th scope="col" { "Node" } th scope="col" { "Why pending" } } }
            tbody { @for pod in shown { tr {
                th scope="row" { (pod.namespace) "/" (pod.name) }
                td { (pod.node.as_deref().unwrap_or("–")) }
                td { @if let Some(refusal) = &pod.refusal { (refusal.reason) @if !refusal.message.is_empty() { ": " (refusal.message) } } }
            } } }
        } }
        @if shown.len() < variant.pods.len() {
            p.note { (thousands(variant.pods.len() - shown.len())) " more pods are not shown. " code { "berth simulate" } " lists all of them." }
        }
        @if !variant.evictions.is_empty() {
            h3 { "Pods that are evicted for them" }
            ul { @for pod in &variant.evictions { li { (pod.namespace) "/" (pod.name) " on " (pod.node) } } }
        }
    }
}
