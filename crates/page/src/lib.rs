//! The page: a running scheduler in a browser.
//!
//! Everything is rendered here ([`views`]) out of the scheduler's copy, its metrics and its explanations, which come through one trait,
//! [`Source`]. A view has an address with its filters in it. Without its script a browser shows what was so when it asked; the script,
//! which is one small file, takes newer renderings from the same address as Server-Sent Events ([`server`]).
//!
//! What comes from the cluster is text, and never markup: the templates escape it, and the Content-Security-Policy lets no script run but
//! the page's own. Who may see what, the API server says ([`viewer`]).

mod history;
mod layout;
mod page;
mod server;
mod shared;
#[cfg(test)]
mod tests;
mod viewer;
mod views;

use std::future::Future;

use berth_explain::{Explanation, Refusals};
use berth_plugin_host::{HostSettings, PluginReport};
use berth_serving::{ReadModel, secure_serving::RequestUser};

pub use self::{
    history::History,
    page::Page,
    server::{loopback_routes, overview_routes, routes},
    views::{Overview, OverviewComplaint, Pending, PendingGroup, PendingPod, TimeShare},
};

/// Where the page gets from what it shows.
pub trait Source: ReadModel {
    /// Why a pod is where it is, or waits, and about a node of the caller's choice. `user` is who asks: what that user may not see is left
    /// out. `None` may see everything.
    fn explain(
        &self,
        namespace: &str,
        name: &str,
        node: Option<String>,
        user: Option<&RequestUser>,
    ) -> impl Future<Output = Result<Explanation, SourceError>> + Send;

    /// Which plugins refuse which nodes for a pod.
    fn refusals(&self, namespace: &str, name: &str) -> impl Future<Output = Result<Refusals, SourceError>> + Send;

    /// What plugins do.
    fn plugins(&self) -> impl Future<Output = Result<Vec<PluginReport>, SourceError>> + Send;

    /// Whether the PluginHostConfiguration holds.
    fn plugin_settings(&self) -> impl Future<Output = Result<HostSettings, SourceError>> + Send;
}

/// There is nothing to show.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("{0}")]
    NotFound(String),
    /// The scheduler is busy or stops, or the API server does not say who may see it.
    #[error("{0}")]
    Unavailable(String),
}
