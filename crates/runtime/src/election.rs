//! Decides which of several replicas schedules: the meaning of the configuration's `leaderElection` for this process.
//!
//! A replica competes once its own lists are complete, so that the replica can schedule immediately when it wins. Until
//! it wins, the replica lists and watches objects, and starts no cycle. With `delayCacheUntilActive`, a replica
//! competes from the start and lists once it has won. The replica's view of the cluster may be late. A replica that has
//! won therefore lists again before its first cycle, so that no room is assigned twice.

use std::sync::Arc;

use berth_cluster::{Client, Coordination, ElectionSettings, Elector, Leadership, LeadershipLost};
use berth_config::{Settings, feature_gates::Gates};
use berth_model::Release;
use berth_serving::Health;
use berth_telemetry::metrics::Metrics;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::tasks::Tasks;

/// The process's elector, if there is an election.
#[derive(Debug, Default)]
pub(crate) struct Election(Option<Elector>);

/// The time when watching and scheduling may begin.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Watching and scheduling may begin immediately, because no other scheduler exists.
    Now,
    /// Watching may begin immediately. The election waits for the lists, and scheduling waits for the election.
    Elected { leadership: Leadership, listed: Option<oneshot::Sender<()>> },
    /// Everything waits for the election.
    WatchingElected { leadership: Leadership },
}

impl Election {
    /// Prepares for the election, if the settings ask for one.
    ///
    /// Must be called inside a tokio runtime.
    pub(crate) fn start(client: &Client, settings: &Settings, gates: &Gates, hostname: &str) -> (Self, Turn) {
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
            coordination: gates.is_on("CoordinatedLeaderElection").then(|| coordination(gates.release())),
        };
        let (listed, is_listed) = oneshot::channel();
        if settings.delay_cache_until_active {
            let elector = Elector::spawn(client.clone(), election, async {});
            let leadership = elector.leadership();
            return (Self(Some(elector)), Turn::WatchingElected { leadership });
        }
        let ready = async move {
            if is_listed.await.is_err() {
                // The watches have ended, so the process ends.
                std::future::pending::<()>().await;
            }
        };
        let elector = Elector::spawn(client.clone(), election, ready);
        let leadership = elector.leadership();
        (Self(Some(elector)), Turn::Elected { leadership, listed: Some(listed) })
    }

    /// Shows the state of the election in health and metrics.
    pub(crate) fn report(&self, lease: &str, health: &Health, metrics: &Arc<Metrics>, tasks: &mut Tasks) {
        if let Some(leadership) = self.leadership() {
            health.follow(leadership.clone());
            tasks.spawn("the figures of the election", follow(leadership, lease.to_owned(), Arc::clone(metrics)));
        }
    }

    fn leadership(&self) -> Option<Leadership> {
        self.0.as_ref().map(Elector::leadership)
    }

    /// Waits until the lead is lost, or forever if there is no election.
    pub(crate) fn lost(&self) -> impl Future<Output = LeadershipLost> + use<> {
        let leadership = self.leadership();
        async {
            match leadership {
                Some(mut leadership) => leadership.lost().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Releases the lease, so that another replica can begin.
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

    /// Records that all lists are complete.
    pub(crate) fn listed(&mut self) {
        if let Self::Elected { listed, .. } = self
            && let Some(listed) = listed.take()
        {
            // The elector only ends when the process ends.
            let _ = listed.send(());
        }
    }

    /// Whether other replicas may have scheduled since the lists were made. In this case, a watch may be late, and new
    /// lists are needed.
    pub(crate) fn follows_others(&self) -> bool {
        match self {
            Self::Now | Self::WatchingElected { .. } => false,
            Self::Elected { .. } => true,
        }
    }

    /// Waits until other replicas no longer prevent scheduling. The future can be dropped without loss.
    pub(crate) async fn until_scheduling(&mut self) {
        match self {
            Self::Now => {}
            Self::Elected { leadership, .. } | Self::WatchingElected { leadership } => leadership.won().await,
        }
    }
}

/// The data of this program for the API server's coordinator.
fn coordination(release: Release) -> Coordination {
    let newest = Release::ALL.into_iter().max().unwrap_or(release);
    let version = |release: Release| format!("{}.0", release.as_str());
    Coordination { binary_version: version(newest), emulation_version: version(release) }
}

/// Keeps the metrics of the election up to date. Each renewal of the lease is a change.
async fn follow(mut leadership: Leadership, lease: String, metrics: Arc<Metrics>) {
    loop {
        metrics.set_leader(&lease, leadership.is_leading());
        metrics.set_slow_renewals(&lease, leadership.n_slow_renewals());
        leadership.changed().await;
    }
}
