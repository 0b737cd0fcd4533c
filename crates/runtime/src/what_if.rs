//! What-if questions about the cluster of this scheduler: `POST /what-if` for autoscalers and tools, and the form of the
//! page.
//!
//! A thread answers questions on its own copy of the state, which follows the scheduler by its changes ([`engine`]).
//! The plugins are instances of the binaries that serve, with the configuration in force. Only one answer is made at a
//! time, within bounds of time and memory.

mod bounds;
mod engine;
mod surroundings;

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json, Router,
    body::{Body, Bytes, to_bytes},
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use berth_cluster::{Client, ResourceRequest};
use berth_config::{RunningConfiguration, Settings};
use berth_framework::Profile;
use berth_page::{WhatIf, WhatIfError, WhatIfQuestion};
use berth_plugin_host::Message;
use berth_serving::secure_serving::RequestUser;
use berth_what_if::WhatIfRequest;
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::json;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::{Instant, timeout, timeout_at},
};

use self::{
    bounds::{Bounds, CancelOnDrop},
    engine::{Engine, Inquiry},
    surroundings::Surroundings,
};
use crate::{configuration::scheduler_settings, follower::FollowRequest, options::Options};

/// The maximum time for an answer.
const WALL_TIME: Duration = Duration::from_secs(60);

/// The further time in which the thread must notice that the time is over. After this time, the caller is refused in
/// any case.
const GRACE: Duration = Duration::from_secs(5);

/// Limits of a question: its bytes, and the time until it has arrived.
const MAX_QUESTION: usize = 3 << 20;
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The rights that the caller needs besides the right to the path: answers name nodes, and pods that would be evicted.
const RIGHTS: [ResourceRequest<'static>; 2] = [
    ResourceRequest { group: "", resource: "nodes", verb: "list", namespace: None, name: None },
    ResourceRequest { group: "", resource: "pods", verb: "list", namespace: None, name: None },
];

/// Answers questions.
#[derive(Debug)]
pub(crate) struct Answerer {
    engine: Engine,
    surroundings: Surroundings,
    supervisor: mpsc::Sender<Message>,
    running: RunningConfiguration,
    command_line: Options,
    /// Whether the only profile serves every pod of a question: no option and no file names a `schedulerName`.
    serves_all: bool,
    turn: Arc<Semaphore>,
}

/// The parts of a session that answer questions.
pub(crate) struct Parts {
    /// Sends requests to the scheduling thread, whose state the answers are about.
    pub follow: mpsc::Sender<FollowRequest>,
    pub client: Client,
    pub supervisor: mpsc::Sender<Message>,
    pub running: RunningConfiguration,
    pub command_line: Options,
    pub serves_all: bool,
}

/// The reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("another question is being answered: try again later")]
    Busy,
    #[error("the request body is empty, incomplete or larger than {} MiB", MAX_QUESTION >> 20)]
    NoQuestion,
    #[error("{0}")]
    Refused(String),
    #[error("the answer took {0}")]
    BeyondBounds(String),
    #[error("the question could not be answered: {0}")]
    Broken(String),
}

/// The route. If a request has no [`RequestUser`], as on the socket, the caller may ask.
pub(crate) fn routes(answerer: Arc<Answerer>) -> Router {
    Router::new().route("/what-if", post(ask)).with_state(answerer)
}

async fn ask(State(answerer): State<Arc<Answerer>>, user: Option<Extension<RequestUser>>, body: Body) -> Response {
    if let Some(Extension(user)) = &user {
        for right in &RIGHTS {
            match user.may(right).await {
                Ok(true) => {}
                Ok(false) => return user.forbidden(right),
                Err(verdict) => return verdict.into_response(),
            }
        }
    }
    match timeout(QUESTION_TIMEOUT, to_bytes(body, MAX_QUESTION)).await {
        Ok(Ok(question)) if !question.is_empty() => match answerer.answer(question).await {
            Ok(answer) => ([(header::CONTENT_TYPE, "application/json")], answer).into_response(),
            Err(reason) => reason.into_response(),
        },
        _ => NoAnswer::NoQuestion.into_response(),
    }
}

impl Answerer {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot start more threads.
    pub(crate) fn start(parts: Parts) -> std::io::Result<Self> {
        let Parts { follow, client, supervisor, running, command_line, serves_all } = parts;
        Ok(Self {
            engine: Engine::start(follow)?,
            surroundings: Surroundings::of(client),
            supervisor,
            running,
            command_line,
            serves_all,
            turn: Arc::new(Semaphore::new(1)),
        })
    }

    async fn answer(&self, question: Bytes) -> Result<Vec<u8>, NoAnswer> {
        let turn = Arc::clone(&self.turn).try_acquire_owned().map_err(|_| NoAnswer::Busy)?;
        let until = Instant::now() + WALL_TIME;
        let settings = self.running.settings();
        if let Some(extender) = settings.extenders.first() {
            return Err(NoAnswer::Refused(format!(
                "the configuration has the extender {}, and a simulation calls no extenders",
                extender.url_prefix
            )));
        }
        let scheduler_name = match settings.profiles.as_slice() {
            [profile] if self.serves_all => Some(profile.scheduler_name.clone()),
            _ => None,
        };
        let too_slow = || NoAnswer::BeyondBounds(format!("more than {} s", WALL_TIME.as_secs()));
        let preparing = async { (self.profiles(&settings).await, self.surroundings.now().await) };
        let (profiles, surroundings) = timeout_at(until, preparing).await.map_err(|_| too_slow())?;
        let bounds = Bounds::until(until.into_std());
        // A caller that disconnects drops this future, which ends the work of the thread.
        let _cancel = CancelOnDrop(bounds.clone());
        let (answer, answered) = oneshot::channel();
        let settings = scheduler_settings(&settings, &self.command_line);
        let inquiry = Inquiry {
            question,
            profiles: profiles?,
            // Nobody reads the decisions of a simulation.
            settings: berth_scheduler::Settings { records_decisions: false, ..settings },
            scheduler_name,
            surroundings,
            bounds,
            answer,
            turn,
        };
        let ended = || NoAnswer::Broken("the scheduler is stopping".to_owned());
        self.engine.ask(inquiry).map_err(|_| ended())?;
        match timeout_at(until + GRACE, answered).await {
            Ok(answered) => answered.map_err(|_| ended())?,
            Err(_) => Err(too_slow()),
        }
    }

    /// New instances of the plugins of all profiles.
    async fn profiles(&self, settings: &Settings) -> Result<Vec<Profile>, NoAnswer> {
        let stopping = || NoAnswer::Broken("the scheduler is stopping".to_owned());
        let mut profiles = Vec::new();
        for profile in &settings.profiles {
            let (answer, copy) = oneshot::channel();
            let scheduler_name = profile.scheduler_name.clone();
            let message =
                Message::CopyProfile { settings: Box::new(settings.clone()), scheduler_name, has_time: true, answer };
            self.supervisor.send(message).await.map_err(|_| stopping())?;
            let copy = copy.await.map_err(|_| stopping())?;
            profiles.push(copy.map_err(|reason| NoAnswer::Broken(reason.to_string()))?);
        }
        Ok(profiles)
    }
}

impl WhatIf for Answerer {
    fn answer(&self, question: WhatIfQuestion) -> BoxFuture<'_, Result<Vec<u8>, WhatIfError>> {
        async move {
            let WhatIfQuestion { pods, added_node, added_nodes, removed_nodes } = question;
            let added = (added_nodes > 0).then_some((added_nodes, &*added_node));
            let request = WhatIfRequest::of_manifests(&pods, added, removed_nodes);
            let request = request.map_err(|error| WhatIfError::Invalid(error.to_string()))?;
            let question = serde_json::to_vec(&request).map_err(|error| WhatIfError::Failed(error.to_string()))?;
            Ok(Answerer::answer(self, question.into()).await?)
        }
        .boxed()
    }
}

impl From<NoAnswer> for WhatIfError {
    fn from(reason: NoAnswer) -> Self {
        let text = reason.to_string();
        match reason {
            NoAnswer::Busy => Self::Busy(text),
            NoAnswer::NoQuestion | NoAnswer::Refused(_) => Self::Invalid(text),
            NoAnswer::BeyondBounds(_) | NoAnswer::Broken(_) => Self::Failed(text),
        }
    }
}

impl IntoResponse for NoAnswer {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::NoQuestion | Self::Refused(_) => StatusCode::BAD_REQUEST,
            Self::BeyondBounds(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Broken(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(json!({ "error": self.to_string() }))).into_response()
    }
}
