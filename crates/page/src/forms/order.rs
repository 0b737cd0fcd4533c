//! Orders about a plugin. The form says what will happen, and the order follows when the user confirms it.

use axum::{
    Extension, Form,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Redirect, Response},
};
use berth_lifecycle::PluginState;
use berth_plugin_host::{Order, PluginReport};
use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    Source, SourceError, answers,
    layout::{address, still_document},
    page::Page,
    viewer::{Refusal, Right, Viewer},
};

const PATH: &str = "/page/order";
/// The view of plugins, to which the form belongs.
const PLUGINS: &str = "/page/plugins";

#[derive(Deserialize)]
pub(super) struct Wanted {
    plugin: String,
    order: String,
    /// The binary that served when the form was shown.
    #[serde(default)]
    digest: String,
}

pub(super) async fn form<S: Source>(
    State(page): State<Page<S>>,
    Extension(viewer): Extension<Viewer>,
    Query(wanted): Query<Wanted>,
) -> Response {
    match make(&page, &wanted, &viewer).await {
        Ok((title, content)) => answers::html(StatusCode::OK, &still_document(&title, &content, PLUGINS, &viewer)),
        Err(refusal) => super::refusal(&refusal, PLUGINS, &viewer),
    }
}

pub(super) async fn carry_out<S: Source>(
    State(page): State<Page<S>>,
    Extension(viewer): Extension<Viewer>,
    Form(wanted): Form<Wanted>,
) -> Response {
    match order(&page, &wanted, &viewer).await {
        Ok(()) => Redirect::to(&address(PLUGINS, [("name", &*wanted.plugin)])).into_response(),
        Err(refusal) => super::refusal(&refusal, PLUGINS, &viewer),
    }
}

async fn make<S: Source>(page: &Page<S>, wanted: &Wanted, viewer: &Viewer) -> Result<(String, Markup), Refusal> {
    let (order, plugin) = find(page, wanted, viewer).await?;
    let title = format!("{} {}", verb(order), plugin.name);
    let content = html! {
        section.confirm {
            h2 { "What will happen" }
            ul { @for sentence in consequences(order, &plugin) { li { (sentence) } } }
            p.note { "The order is for this replica. Give it to each replica of the scheduler." }
            form action=(PATH) method="post" {
                input type="hidden" name="plugin" value=(plugin.name);
                input type="hidden" name="order" value=(order.as_str());
                input type="hidden" name="digest" value=(plugin.digest);
                button { (verb(order)) }
                " " a href=(address(PLUGINS, [("name", &*plugin.name)])) { "Cancel" }
            }
        }
    };
    Ok((title, content))
}

async fn order<S: Source>(page: &Page<S>, wanted: &Wanted, viewer: &Viewer) -> Result<(), Refusal> {
    let (order, plugin) = find(page, wanted, viewer).await?;
    if plugin.digest != wanted.digest {
        return Err(Refusal::Changed(plugin.name));
    }
    page.source.order(&plugin.name, order, viewer.user()).await?;
    // The user comes back to these views, and must not see their old content.
    page.shared.forget(PLUGINS);
    page.shared.forget(&address(PLUGINS, [("name", &*plugin.name)]));
    Ok(())
}

async fn find<S: Source>(page: &Page<S>, wanted: &Wanted, viewer: &Viewer) -> Result<(Order, PluginReport), Refusal> {
    let Wanted { plugin: name, order, .. } = wanted;
    viewer.must(Right::UpdatePlugin(name)).await?;
    let unknown = || Refusal::Address(format!("unknown order {order:?}: expected reload, enable, disable or rollback"));
    let order = Order::ALL.into_iter().find(|known| known.as_str() == order).ok_or_else(unknown)?;
    let plugin = page.source.plugins().await?.into_iter().find(|plugin| plugin.name == *name);
    let plugin = plugin.ok_or_else(|| SourceError::NotFound(format!("plugin {name} not found")))?;
    Ok((order, plugin))
}

/// The orders that a plugin's view offers.
pub(crate) fn offered(plugin: &PluginReport) -> impl Iterator<Item = (String, &'static str)> {
    let is_disabled = plugin.state == PluginState::Disabled;
    let orders = Order::ALL.into_iter().filter(move |order| match order {
        Order::Reload => true,
        Order::Enable => is_disabled,
        Order::Disable => !is_disabled,
        Order::Rollback => plugin.previous_digest.is_some(),
    });
    orders.map(|order| (address(PATH, [("plugin", &*plugin.name), ("order", order.as_str())]), verb(order)))
}

fn verb(order: Order) -> &'static str {
    match order {
        Order::Reload => "Reload",
        Order::Enable => "Enable",
        Order::Disable => "Disable",
        Order::Rollback => "Roll back",
    }
}

/// The consequences of an order, in sentences.
fn consequences(order: Order, plugin: &PluginReport) -> Vec<String> {
    let name = &plugin.name;
    let profiles: Vec<&str> = plugin.profiles.keys().map(String::as_str).collect();
    let used_by = match &*profiles {
        [] => "No profile uses the plugin.".to_owned(),
        profiles => format!("The plugin belongs to these profiles: {}.", profiles.join(", ")),
    };
    let of_order = match order {
        Order::Reload => vec![
            format!("The scheduler reads the file of {name} again, or asks the registry of {name}, and tries the binary that it gets. The scheduler does so even if the file was refused before."),
            "If the binary is accepted, it serves from the next cycle on, and is on probation. After a rollback, the binary that serves now serves again.".to_owned(),
            "If the binary is refused, nothing changes.".to_owned(),
        ],
        Order::Enable => vec![format!("{name} serves again, as the profiles say.")],
        Order::Disable => vec![
            format!("Pods are scheduled as if no profile named {name}, until you enable it again."),
            "If the plugin keeps pods off some nodes, pods may now go there.".to_owned(),
        ],
        Order::Rollback => {
            let before = match plugin.previous_digest.as_deref() {
                Some("built-in") => "The built-in plugin".to_owned(),
                Some(digest) => format!("The binary {digest}"),
                None => return vec![format!("{name} has no earlier binary, so the order will be refused.")],
            };
            vec![
                format!("{before} serves from the next cycle on."),
                format!("The binary {} is not tried again until its file changes or you reload it.", plugin.digest),
            ]
        }
    };
    [used_by].into_iter().chain(of_order).collect()
}
