//! The page: a view of a running scheduler in a browser.
//!
//! [`views`] renders everything from the scheduler's totals, its copy, its metrics and its explanations. All of this
//! data comes through one trait, [`Source`]. The address of a view contains its filters. If a browser does not run the
//! page's script, the browser shows the state at the time of its request. The script is one small file. It receives
//! newer renderings from the same address as Server-Sent Events ([`server`]).
//!
//! Data from the cluster is always text and never markup: the templates escape the data, and the
//! Content-Security-Policy allows only the page's own script to run. The API server decides which user may see which
//! data ([`viewer`]).

mod answers;
mod forms;
mod history;
mod layout;
mod page;
mod server;
mod shared;
#[cfg(test)]
mod tests;
mod viewer;
mod views;
mod what_if;

use std::future::Future;

use berth_explain::{Explanation, Refusals};
use berth_plugin_host::{HostSettings, Order, PluginReport};
use berth_scheduler::Totals;
use berth_serving::{ReadModel, secure_serving::RequestUser};

pub use self::{
    history::History,
    page::Page,
    server::{loopback_routes, overview_routes, owner_routes, routes},
    views::{Overview, OverviewComplaint, Pending, PendingGroup, PendingPod, TimeShare},
    what_if::{WhatIf, WhatIfError, WhatIfQuestion, WhatIfService},
};

/// The source of the data that the page shows.
pub trait Source: ReadModel {
    /// The scheduler's current state in a few numbers, or the state when the scheduler last answered. `None` if the
    /// scheduler never answered.
    fn totals(&self) -> impl Future<Output = Option<Totals>> + Send;

    /// The reason why a pod is on its node or waits, with a report on a node of the caller's choice. `user` is the
    /// caller; data that the user may not see is left out. A caller without a user (`None`) may see everything.
    fn explain(
        &self,
        namespace: &str,
        name: &str,
        node: Option<String>,
        user: Option<&RequestUser>,
    ) -> impl Future<Output = Result<Explanation, SourceError>> + Send;

    /// The plugins that refuse each node for a pod.
    fn refusals(&self, namespace: &str, name: &str) -> impl Future<Output = Result<Refusals, SourceError>> + Send;

    /// The state of the plugins.
    fn plugins(&self) -> impl Future<Output = Result<Vec<PluginReport>, SourceError>> + Send;

    /// Whether the PluginHostConfiguration is in force.
    fn plugin_settings(&self) -> impl Future<Output = Result<HostSettings, SourceError>> + Send;

    /// Carries out an operator's order about a plugin. `user` is the operator; `None` is the scheduler's own user.
    fn order(
        &self,
        plugin: &str,
        order: Order,
        user: Option<&RequestUser>,
    ) -> impl Future<Output = Result<PluginReport, SourceError>> + Send;
}

/// The reason why there is nothing to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("{0}")]
    NotFound(String),
    /// The scheduler is busy or stops, or the API server did not say whether the user may see the data.
    #[error("{0}")]
    Unavailable(String),
    /// An order that cannot be carried out.
    #[error("{0}")]
    Refused(String),
}
