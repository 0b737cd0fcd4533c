//! The harness's own watch of all pods. This watch has no faults and is complete, and its messages go into the account.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, WatchEvent, WatchParams},
};
use tokio::task::JoinHandle;

use crate::account::{Account, News};

/// Seconds that one connection lasts.
const WATCH_SECONDS: u32 = 290;

/// The running watch.
pub(crate) struct Observer {
    account: Arc<Mutex<Account>>,
    following: JoinHandle<Result<()>>,
}

impl Observer {
    /// Begins with the current state of the cluster. If there are no kubelets, the observer removes pods that are being
    /// deleted.
    pub(crate) async fn start(pods: Api<Pod>, began: Instant, has_kubelets: bool) -> Result<Self> {
        let version = pods.list_metadata(&kube::api::ListParams::default()).await?.metadata.resource_version;
        let version = version.context("a list has no version")?;
        let account = Arc::new(Mutex::new(Account::default()));
        let following = tokio::spawn(follow(pods, version, Arc::clone(&account), began, has_kubelets));
        Ok(Self { account, following })
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        lock(&self.account)
    }

    /// The mistake that the watch has found. The watch ends for no other reason.
    pub(crate) async fn fault(&mut self) -> Result<()> {
        (&mut self.following).await?
    }
}

fn lock(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn follow(
    pods: Api<Pod>,
    mut version: String,
    account: Arc<Mutex<Account>>,
    began: Instant,
    has_kubelets: bool,
) -> Result<()> {
    loop {
        let params = WatchParams::default().timeout(WATCH_SECONDS);
        let events = pods.watch(&params, &version).await.context("the harness's watch")?;
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.try_next().await.context("the harness's watch")? {
            let (news, pod) = match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (News::Applied, pod),
                WatchEvent::Deleted(pod) => (News::Deleted, pod),
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => bail!("the harness's watch: {status}"),
            };
            lock(&account).note(news, &pod, began.elapsed().as_secs_f64())?;
            if !has_kubelets && news == News::Applied && pod.metadata.deletion_timestamp.is_some() {
                let (pods, name) = (pods.clone(), pod.metadata.name.clone().unwrap_or_default());
                // A pod that no longer exists has also been removed.
                tokio::spawn(async move { drop(pods.delete(&name, &DeleteParams::default().grace_period(0)).await) });
            }
            version = pod.metadata.resource_version.unwrap_or_default();
        }
    }
}
