//! The views. Each view makes a [`View`] from its parameters, which are part of the address, or returns the reason why
//! the view cannot be made.

mod nodes;
mod now;
mod overview;
mod plugins;
mod pod;
mod pods;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use maud::{Markup, html};

pub(crate) use self::overview::Shown;
pub use self::{
    overview::{Overview, OverviewComplaint, TimeShare},
    pods::{Pending, PendingGroup, PendingPod},
};

use crate::{
    Source,
    layout::View,
    page::Page,
    viewer::{Refusal, Viewer},
};

/// The times between two renderings of a view. `SELDOM` is for views that ask plugins about every node, `SECOND` for
/// views that need little work.
const SECOND: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(10);

/// The query of an address.
pub(crate) type Parameters = BTreeMap<String, String>;

/// The kind of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Now,
    Pods,
    Pod,
    Nodes,
    Plugins,
}

impl Kind {
    /// The path of the view's addresses.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Now => "/page",
            Self::Pods => "/page/pods",
            Self::Pod => "/page/pod",
            Self::Nodes => "/page/nodes",
            Self::Plugins => "/page/plugins",
        }
    }

    pub(crate) async fn render<S: Source>(
        self,
        page: &Page<S>,
        parameters: &Parameters,
        viewer: &Viewer,
    ) -> Result<Arc<View>, Refusal> {
        match self {
            Self::Now => now::render(page, viewer).await,
            Self::Pods => pods::render(page, parameters, viewer).await,
            Self::Pod => pod::render(page, parameters, viewer).await,
            Self::Nodes => nodes::render(page, parameters, viewer).await,
            Self::Plugins => plugins::render(page, parameters, viewer).await,
        }
    }
}

fn text<'a>(parameters: &'a Parameters, name: &str) -> &'a str {
    parameters.get(name).map_or("", |value| value.trim())
}

/// The position of the first row that is shown.
fn first_row(parameters: &Parameters) -> Result<usize, Refusal> {
    match text(parameters, "from") {
        "" => Ok(0),
        from => {
            from.parse().map_err(|_| Refusal::Address(format!("invalid from={from}: expected the number of a row")))
        }
    }
}

/// Reads `NAMESPACE/NAME`, or a name in the namespace `default`.
fn pod_name(text: &str) -> Result<(&str, &str), Refusal> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    let is_name = |part: &str| !part.is_empty() && part.len() <= 253 && !part.contains(['/', ' ']);
    if is_name(namespace) && is_name(name) {
        Ok((namespace, name))
    } else {
        Err(Refusal::Address(format!("invalid pod={text}: expected namespace/name")))
    }
}

/// A text field of a form, with its label.
fn field(label: &str, name: &str, value: &str, hint: &str) -> Markup {
    html! {
        label { (label) " " input type="text" name=(name) value=(value) placeholder=(hint) autocomplete="off"; }
    }
}
