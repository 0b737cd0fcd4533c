//! The data of this scheduler that the page shows.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result};
use berth_explain::{Explanation, Refusals, refusals};
use berth_framework::{Call, CycleId, Profile};
use berth_model::{Pod, PodUid, Sym};
use berth_page::{Page, Source, SourceError};
use berth_plugin_host::{HostSettings, Message, Order, PluginReport};
use berth_scheduler::ClusterView;
use berth_serving::{ReadModel, endpoints, secure_serving::RequestUser};
use tokio::{net::TcpListener, sync::oneshot};

use crate::{
    admin::LOCAL,
    explain::{ExplainError, Explainer, hide},
    follower::Copied,
    tasks::Tasks,
};

impl ReadModel for Explainer {
    async fn read<R: Send + 'static>(&self, read: impl FnOnce(&ClusterView) -> R + Send + 'static) -> Option<R> {
        self.follower.read(read).await
    }
}

impl Source for Explainer {
    async fn explain(
        &self,
        namespace: &str,
        name: &str,
        node: Option<String>,
        user: Option<&RequestUser>,
    ) -> Result<Explanation, SourceError> {
        let mut explanation = Explainer::explain(self, namespace, name, node).await?;
        hide(&mut explanation, user).await.map_err(|verdict| SourceError::Unavailable(verdict.to_string()))?;
        Ok(explanation)
    }

    async fn refusals(&self, namespace: &str, name: &str) -> Result<Refusals, SourceError> {
        let names = (namespace.to_owned(), name.to_owned());
        let found = self.follower.ask(move |copied| {
            let pod = copied.view.find_pod(&names.0, &names.1)?;
            Some((pod.pod().uid.clone(), pod.scheduler_name().to_owned()))
        });
        let found = found.await.ok_or(ExplainError::Slow)?;
        let unknown = || ExplainError::UnknownPod(namespace.to_owned(), name.to_owned());
        let (uid, scheduler_name) = found.ok_or_else(unknown)?;
        let profile = self.profile(scheduler_name).await?;
        let profile =
            profile.map_err(|reason| SourceError::Unavailable(format!("plugins were not asked: {reason}")))?;
        let about = move |copied: &mut Copied| {
            let Copied { view, plugins, .. } = copied;
            plugins.ask(profile, |profile, cycle| refusals_now(view, profile, cycle, &uid))
        };
        let asked = self.follower.ask_further(about).await.ok_or(ExplainError::Slow)?;
        asked.ok_or_else(unknown)?
    }

    async fn plugins(&self) -> Result<Vec<PluginReport>, SourceError> {
        self.ask_supervisor(Message::List).await
    }

    async fn plugin_settings(&self) -> Result<HostSettings, SourceError> {
        self.ask_supervisor(Message::HostSettings).await
    }

    async fn order(&self, plugin: &str, order: Order, user: Option<&RequestUser>) -> Result<PluginReport, SourceError> {
        let user = user.map_or(LOCAL, RequestUser::name).to_owned();
        let message = |answer| Message::Order { plugin: plugin.to_owned(), order, user, answer };
        let outcome = self.ask_supervisor(message).await?;
        outcome.map_err(|refusal| {
            let text = refusal.to_string();
            if refusal.is_unknown_plugin() { SourceError::NotFound(text) } else { SourceError::Refused(text) }
        })
    }
}

impl Explainer {
    async fn ask_supervisor<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Message) -> Result<T, SourceError> {
        let (answer, answered) = oneshot::channel();
        let stopping = || SourceError::from(ExplainError::Stopping);
        self.supervisor.send(question(answer)).await.map_err(|_| stopping())?;
        answered.await.map_err(|_| stopping())
    }
}

impl From<ExplainError> for SourceError {
    fn from(error: ExplainError) -> Self {
        match error {
            ExplainError::UnknownPod(..) | ExplainError::NoPod(_) | ExplainError::NotServed(_) => {
                Self::NotFound(error.to_string())
            }
            ExplainError::Slow | ExplainError::Stopping => Self::Unavailable(error.to_string()),
        }
    }
}

/// The refusals for the pod; `None` if the pod no longer exists.
fn refusals_now(
    view: &mut ClusterView,
    profile: &mut Profile,
    cycle: CycleId,
    uid: &PodUid,
) -> Option<Result<Refusals, SourceError>> {
    let pod = Arc::new(Pod { node_name: Sym::NONE, ..Pod::clone(view.pod(uid)?.pod()) });
    Some(view.without_pod(uid, |view| {
        if let Err(refusal) = profile.sync(view.cache()) {
            let text = format!("{}: {}", profile.name(refusal.plugin), refusal.status.message());
            return Err(SourceError::Unavailable(text));
        }
        let call = Call::new(cycle, view.as_of(), &pod, view.table());
        refusals(profile, &call, view.cache().order()).map_err(|status| SourceError::Unavailable(status.message()))
    }))
}

/// Serves the page on loopback to all users of this machine. Returns the address on which it listens.
///
/// # Errors
/// The address cannot be used.
pub(crate) async fn serve_on_loopback(
    address: SocketAddr,
    page: Page<Explainer>,
    tasks: &mut Tasks,
) -> Result<SocketAddr> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("--page {address} cannot be used"))?;
    let address = listener.local_addr()?;
    tasks.spawn("the server of the page", endpoints::serve_on(listener, berth_page::loopback_routes(page)));
    Ok(address)
}
