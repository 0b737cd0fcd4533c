//! Which of several replicas schedules: what the configuration's `leaderElection` means for this process.
//!
//! A replica competes once its own lists are complete, so that it can schedule at once when it wins; until then it follows
//! the cluster and starts no cycle. With `delayCacheUntilActive` it competes from the start and lists when it has won. What it
//! has followed may be late: once it has won, it lists again before its first cycle, so that no room is given away twice.

use std::sync::Arc;

use berth_cluster::{Client, ElectionSettings, Elector, Leadership, LeadershipLost};
use berth_config::Settings;
use berth_serving::Health;
use berth_telemetry::metrics::Metrics;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::tasks::Tasks;

/// This process's part in the election, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Election(Option<Elector>);

/// When watching and scheduling may begin.
#[derive(Debug)]
pub(crate) enum Turn {
    /// At once: there is no other scheduler.
    Now,
    /// Watching at once; the election waits for the lists, and scheduling for the election.
    Elected { leadership: Leadership, listed: Option<oneshot::Sender<()>> },
    /// Everything waits for the election.
    WatchingElected { leadership: Leadership },
}

impl Election {
    /// Prepares to compete, if the settings ask for an election.
    ///
    /// Must be called inside a tokio runtime.
    pub(crate) fn start(client: &Client, settings: &Settings, hostname: &str) -> (Self, Turn) {
        let election = &settings.leader_election;
        if !election.leader_elect {
            return (Self(None), Turn::Now);
        }
        let election = ElectionSettings {
            namespace: election.resource_namespace.clone(),
            name: election.resource_name.clone(),
            identity: format!("{hostname}_{}", Uuid::new_v4()),
            component: settings.profiles.first().map(|profile| profile.scheduler_name.clone()).unwrap_or_default(),
            lease_duration: election.lease_duration,
            renew_deadline: election.renew_deadline,
            retry_period: election.retry_period,
        };
        let (listed, is_listed) = oneshot::channel();
        if settings.delay_cache_until_active {
            let elector = Elector::spawn(client.clone(), election, async {});
            let leadership = elector.leadership();
            return (Self(Some(elector)), Turn::WatchingElected { leadership });
        }
        let ready = async move {
            if is_listed.await.is_err() {
                // The watches are gone: the process ends.
                std::future::pending::<()>().await;
            }
        };
        let elector = Elector::spawn(client.clone(), election, ready);
        let leadership = elector.leadership();
        (Self(Some(elector)), Turn::Elected { leadership, listed: Some(listed) })
    }

    /// Shows in health and metrics how the election stands.
    pub(crate) fn report(&self, lease: &str, health: &Health, metrics: &Arc<Metrics>, tasks: &mut Tasks) {
        if let Some(leadership) = self.leadership() {
            health.follow(leadership.clone());
            tasks.spawn("the figures of the election", follow(leadership, lease.to_owned(), Arc::clone(metrics)));
        }
    }

    fn leadership(&self) -> Option<Leadership> {
        self.0.as_ref().map(Elector::leadership)
    }

    /// Waits until the lead is lost; for ever if there is no election.
    pub(crate) fn lost(&self) -> impl Future<Output = LeadershipLost> + use<> {
        let leadership = self.leadership();
        async {
            match leadership {
                Some(mut leadership) => leadership.lost().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Lets another replica begin.
    pub(crate) async fn release(self) {
        if let Some(elector) = self.0 {
            elector.release().await;
        }
    }
}

impl Turn {
    /// Waits until watching may begin.
    pub(crate) async fn until_watching(&mut self) {
        match self {
            Self::Now | Self::Elected { .. } => {}
            Self::WatchingElected { leadership } => leadership.won().await,
        }
    }

    /// All lists are complete.
    pub(crate) fn listed(&mut self) {
        if let Self::Elected { listed, .. } = self
            && let Some(listed) = listed.take()
        {
            // The elector is gone only when the process ends.
            let _ = listed.send(());
        }
    }

    /// Whether others may have scheduled since the lists were made: a watch may be late, and the lists are wanted again.
    pub(crate) fn follows_others(&self) -> bool {
        match self {
            Self::Now | Self::WatchingElected { .. } => false,
            Self::Elected { .. } => true,
        }
    }

    /// Waits until scheduling may begin, as far as other replicas go. Dropping the future loses nothing.
    pub(crate) async fn until_scheduling(&mut self) {
        match self {
            Self::Now => {}
            Self::Elected { leadership, .. } | Self::WatchingElected { leadership } => leadership.won().await,
        }
    }
}

/// Keeps the metric of the election true.
async fn follow(mut leadership: Leadership, lease: String, metrics: Arc<Metrics>) {
    loop {
        metrics.set_leader(&lease, leadership.is_leading());
        leadership.changed().await;
    }
}
