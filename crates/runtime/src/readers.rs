//! The parts of a session that answer readers: the copy that follows the scheduler, explanations, what-if questions,
//! the page, and the endpoints of all of these.
//!
//! The admin socket is optional unless the command line names it: otherwise a socket that cannot be made is only
//! logged.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use anyhow::{Context as _, Result};
use axum::Router;
use berth_cluster::Client;
use berth_config::RunningConfiguration;
use berth_explain::DecisionRing;
use berth_page::{History, Page, WhatIf};
use berth_plugin_host::Message;
use berth_serving::{
    Health,
    admin_socket::{self, OwnersSocket},
    endpoints::{
        self,
        about::{self, About},
        debug, resources,
    },
};
use berth_telemetry::{chain, metrics::Metrics};
use tokio::sync::mpsc;
use tracing::info;

use crate::{
    admin, cache_dump,
    explain::{self, Decisions, Explainer},
    follower::{FollowRequest, Follower},
    front::Door,
    options::Options,
    tasks::Tasks,
    what_if::{self, Answerer},
};

/// The parts of a session on which its endpoints depend.
pub(crate) struct Endpoints<'a> {
    pub client: &'a Client,
    pub metrics: &'a Arc<Metrics>,
    pub health: &'a Health,
    pub running: &'a RunningConfiguration,
    pub supervisor: &'a mpsc::Sender<Message>,
    pub scheduling: &'a Options,
    /// Whether no option and no file names a `schedulerName`.
    pub serves_all: bool,
}

/// The parts that answer readers.
pub(crate) struct Readers {
    pub follower: Follower,
    /// The requests of the copies, which the scheduling thread answers.
    pub follow: mpsc::Receiver<FollowRequest>,
    /// The ring for decisions.
    pub decisions: Decisions,
    pub page: Page<Explainer>,
}

/// The routes.
struct Served {
    /// The probes and the metrics of the process, for the socket. HTTPS has its own routes for these from the start.
    process: Router,
    /// The routes for callers of HTTPS.
    resources: Router,
    admin: Router,
    /// The routes for the scheduler's own user, which the socket serves instead of `resources`.
    owner: Router,
}

impl Endpoints<'_> {
    /// Starts the parts that answer readers, and serves their routes.
    ///
    /// # Errors
    /// A thread cannot be started, or the admin socket that the command line names cannot be made.
    pub(crate) fn serve(self, door: &Door, tasks: &mut Tasks) -> Result<Readers> {
        let Self { client, metrics, health, running, supervisor, scheduling, serves_all } = self;
        // One request of each copy, and one request for totals. Further requests wait.
        let (requests, follow) = mpsc::channel(3);
        let follower =
            Follower::start(requests.clone()).context("cannot start the thread that follows the scheduler")?;
        let decisions = Decisions::new(Mutex::new(DecisionRing::new(kept_bytes(scheduling))));
        let explainer = Explainer {
            follower: follower.clone(),
            decisions: Arc::clone(&decisions),
            supervisor: supervisor.clone(),
            running: running.clone(),
            health: health.clone(),
        };
        let answerer = Answerer::start(what_if::Parts {
            follow: requests,
            client: client.clone(),
            supervisor: supervisor.clone(),
            running: running.clone(),
            command_line: scheduling.clone(),
            serves_all,
        });
        let answerer = Arc::new(answerer.context("cannot start the thread that answers what-if questions")?);
        let admin = admin::routes(supervisor.clone())
            .merge(explain::routes(explainer.clone()))
            .merge(what_if::routes(Arc::clone(&answerer)))
            .merge(cache_dump::routes(follower.clone()));
        let answerer: Arc<dyn WhatIf> = answerer;
        let history = History::default();
        let page = Page::new(explainer, health.clone(), Arc::clone(metrics), history.clone(), Some(answerer));
        tasks.spawn("the history of the page", history.follow(Arc::clone(metrics)));
        let served = Served {
            process: endpoints::routes(metrics, health).merge(endpoints::reset_routes(metrics)),
            resources: resources::routes(health, follower.clone()).merge(berth_page::routes(page.clone())),
            admin: admin.merge(berth_page::overview_routes(page.clone())),
            owner: berth_page::owner_routes(page.clone()),
        };
        serve_routes(scheduling, running, door, served, tasks)?;
        Ok(Readers { follower, follow, decisions, page })
    }
}

/// Serves the routes on the Unix socket and over HTTPS.
fn serve_routes(
    scheduling: &Options,
    running: &RunningConfiguration,
    door: &Door,
    Served { process, resources, admin, owner }: Served,
    tasks: &mut Tasks,
) -> Result<()> {
    let secure = scheduling.secure_serving.as_ref();
    let about = About {
        configuration: running.clone(),
        flags: secure.filter(|_| scheduling.gates.is_on("ComponentFlagz")).map(|secure| secure.flags.clone()),
        has_status: scheduling.gates.is_on("ComponentStatusz"),
        release: scheduling.gates.release(),
        started: Instant::now(),
    };
    let debug = debug::routes(running.clone(), secure.and_then(|secure| secure.verbosity.clone()));
    let admin = admin.merge(about::routes(about)).merge(debug);
    match OwnersSocket::bind(&scheduling.admin_socket.clone().unwrap_or_else(admin_socket::default_path)) {
        Ok(socket) => {
            info!(path = %socket.path().display(), "serving /admin/plugins, /explain, /overview, /page and /metrics");
            tasks.spawn(
                "the server of the admin socket",
                endpoints::serve_on(socket, process.merge(admin.clone()).merge(owner)),
            );
        }
        Err(error) if scheduling.admin_socket.is_some() => return Err(error).context("--admin-socket"),
        // The socket was not requested on the command line.
        Err(error) => info!(reason = chain(&error), "the admin socket is not served"),
    }
    if secure.is_some() {
        door.open(resources.merge(admin));
    }
    Ok(())
}

/// The number of bytes for decisions.
fn kept_bytes(scheduling: &Options) -> usize {
    usize::try_from(scheduling.kept_decisions_mib).unwrap_or(usize::MAX).saturating_mul(1 << 20)
}
