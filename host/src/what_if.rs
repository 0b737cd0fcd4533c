//! What-if questions about the cluster of this scheduler: `POST /what-if` for autoscalers and tools, and the form of the
//! page.
//!
//! A process of its own answers each question: this program, started as `berth simulate --from-cluster --what-if` with
//! the files of the scheduler. An answer therefore takes neither time nor memory of the scheduler, and the process as a
//! whole is bounded. Only one answer is made at a time.

use std::{
    ffi::OsString,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use axum::{
    Extension, Json, Router,
    body::{Body, Bytes, to_bytes},
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use berth_cluster::ResourceRequest;
use berth_config::Execution;
use berth_page::{WhatIf, WhatIfError, WhatIfQuestion};
use berth_runtime::Options;
use berth_serving::secure_serving::RequestUser;
use berth_wasm_host::{CompileLimits as ProcessLimits, confine};
use berth_what_if::WhatIfRequest;
use clap::Args;
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
    sync::Semaphore,
    time::timeout,
};

use crate::simulate::{self, Simulate};

/// The command's name.
const COMMAND: &str = "answer-what-if";

/// Limits of one answer. The limit of memory is lower if half of the container's or the machine's memory is less than
/// this.
const LIMITS: ProcessLimits = ProcessLimits { cpu_time: Duration::from_secs(60), memory_bytes: 2 << 30 };
const WALL_TIME: Duration = Duration::from_secs(60);

/// Limits of a question: its bytes, and the time until it has arrived.
const MAX_QUESTION: usize = 3 << 20;
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits of an answer, and of the reason that the process gives when it has no answer.
const MAX_ANSWER: u64 = 64 << 20;
const MAX_REASON: u64 = 16 << 10;

/// The rights that the caller needs besides the right to the path: answers name nodes, and pods that would be evicted.
const RIGHTS: [ResourceRequest<'static>; 2] = [
    ResourceRequest { group: "", resource: "nodes", verb: "list", namespace: None, name: None },
    ResourceRequest { group: "", resource: "pods", verb: "list", namespace: None, name: None },
];

/// Answers one question, within bounds, for a scheduler
#[derive(Debug, Args)]
pub(crate) struct AnswerWhatIf {
    /// Processor time
    seconds: u64,
    /// Memory that can be written to
    bytes: u64,
    #[command(flatten)]
    simulate: Simulate,
}

pub(crate) fn answer(arguments: &AnswerWhatIf) -> Result<()> {
    let AnswerWhatIf { seconds, bytes, simulate } = arguments;
    confine(ProcessLimits { cpu_time: Duration::from_secs(*seconds), memory_bytes: *bytes })?;
    simulate::run(simulate)
}

/// Starts the processes.
#[derive(Debug)]
pub(crate) struct Answerer {
    arguments: Vec<OsString>,
    turn: Semaphore,
}

/// The reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
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

/// Lets a scheduler with these options answer questions about the cluster of the kubeconfig.
pub(crate) fn answer_for(
    options: &mut Options,
    kubeconfig: Option<&Path>,
    context: Option<&str>,
    scheduler_name: Option<&str>,
) {
    let answerer = Arc::new(Answerer::new(options, kubeconfig, context, scheduler_name));
    options.more_routes = Router::new().route("/what-if", post(ask)).with_state(Arc::clone(&answerer));
    options.what_if = Some(answerer);
}

impl Answerer {
    fn new(options: &Options, kubeconfig: Option<&Path>, context: Option<&str>, scheduler_name: Option<&str>) -> Self {
        let limits = LIMITS.here();
        let mut arguments: Vec<OsString> = ["--log", "error", COMMAND].map(OsString::from).to_vec();
        arguments.extend([limits.cpu_time.as_secs(), limits.memory_bytes].map(|limit| limit.to_string().into()));
        arguments.extend(["--from-cluster", "--what-if", "-", "-o", "json"].map(OsString::from));
        let plugins = &options.plugins;
        let execution = plugins.execution.map(|execution| match execution {
            Execution::Auto => "auto",
            Execution::Native => "native",
            Execution::Wasm => "wasm",
        });
        let release = options.gates.release().as_str();
        let path = |path: Option<&Path>| path.map(|path| path.as_os_str().to_owned());
        let named = [
            ("--timeout", Some(format!("{}s", WALL_TIME.as_secs()).into())),
            ("--kubeconfig", path(kubeconfig)),
            ("--context", context.map(OsString::from)),
            ("--config", path(options.config.as_deref())),
            ("--scheduler-name", scheduler_name.map(OsString::from)),
            ("--plugins-dir", path(plugins.plugins_dir.as_deref())),
            ("--plugin-config", path(plugins.plugin_config.as_deref())),
            ("--artifact-cache", path(plugins.artifact_cache.as_deref())),
            ("--execution", execution.map(OsString::from)),
            ("--emulated-version", Some(release.into())),
        ];
        arguments.extend(named.into_iter().flat_map(|(flag, value)| value.map(|value| [flag.into(), value])).flatten());
        Self { arguments, turn: Semaphore::new(1) }
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
            Ok(Answerer::answer(self, &question.into()).await?)
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
        Ok(Ok(question)) if !question.is_empty() => match answerer.answer(&question).await {
            Ok(answer) => ([(header::CONTENT_TYPE, "application/json")], answer).into_response(),
            Err(reason) => reason.into_response(),
        },
        _ => NoAnswer::NoQuestion.into_response(),
    }
}

impl Answerer {
    async fn answer(&self, question: &Bytes) -> Result<Vec<u8>, NoAnswer> {
        let _turn = self.turn.try_acquire().map_err(|_| NoAnswer::Busy)?;
        // A caller that disconnects drops this future, which kills the process.
        match timeout(WALL_TIME, self.run(question)).await {
            Ok(answer) => answer,
            Err(_) => Err(NoAnswer::BeyondBounds(format!("more than {} s", WALL_TIME.as_secs()))),
        }
    }

    async fn run(&self, question: &Bytes) -> Result<Vec<u8>, NoAnswer> {
        let broken = |error: &dyn std::fmt::Display| NoAnswer::Broken(error.to_string());
        // The file may already hold another version after an upgrade, so its path is not used.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("berth").args(&self.arguments).kill_on_drop(true);
        // The allocator reserves a gigabyte at once by default, which would count as used memory.
        command.env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| broken(&error))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let asking = async {
            if let Some(mut stdin) = stdin {
                // A failed write means that the process has ended. Its standard error gives the reason.
                drop(stdin.write_all(question).await);
            }
        };
        let ((), answer, reason) = tokio::join!(asking, read(stdout, MAX_ANSWER), read(stderr, MAX_REASON));
        let status = child.wait().await.map_err(|error| broken(&error))?;
        outcome(status, answer, &String::from_utf8_lossy(&reason))
    }
}

/// Reads up to `limit` bytes.
async fn read(from: Option<impl AsyncRead + Unpin>, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // The bytes that arrived before an error are still useful in a message.
        drop(from.take(limit).read_to_end(&mut bytes).await);
    }
    bytes
}

fn outcome(status: ExitStatus, answer: Vec<u8>, reason: &str) -> Result<Vec<u8>, NoAnswer> {
    let reason = reason.trim();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    // The caller does not know the command line of the process.
    let reason = reason.strip_prefix("--what-if: -: ").unwrap_or(reason).to_owned();
    // The answer was cut off at the limit, so the process could not write the rest and failed.
    if answer.len() as u64 == MAX_ANSWER {
        return Err(NoAnswer::BeyondBounds(format!("more than {} MiB", MAX_ANSWER >> 20)));
    }
    match status.code() {
        Some(0) => Ok(answer),
        Some(2) => Err(NoAnswer::Refused(reason)),
        Some(_) => Err(NoAnswer::Broken(reason)),
        None => {
            let limits = LIMITS.here();
            let (seconds, mebibytes) = (limits.cpu_time.as_secs(), limits.memory_bytes >> 20);
            let signal = status.signal().unwrap_or_default();
            Err(NoAnswer::BeyondBounds(format!(
                "it needs more than {seconds} s of processor time or {mebibytes} MiB of memory (signal {signal})"
            )))
        }
    }
}

impl axum::response::IntoResponse for NoAnswer {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_the_process_is_an_answer_or_says_why_not() {
        let of =
            |wait_status, answer: usize, reason| outcome(ExitStatus::from_raw(wait_status), vec![b' '; answer], reason);
        let exited = |code: i32| code << 8;
        let most = usize::try_from(MAX_ANSWER).expect("it fits");
        assert_eq!(of(exited(0), 3, "").ok(), Some(b"   ".to_vec()));
        let refused = of(exited(2), 0, "error: --what-if: -: unknown field `x`\n");
        assert!(matches!(refused, Err(NoAnswer::Refused(reason)) if reason == "unknown field `x`"));
        assert!(matches!(of(exited(1), 0, "error: gone"), Err(NoAnswer::Broken(reason)) if reason == "gone"));
        // The processes were cut off while they wrote, or killed.
        for (status, answer, bound) in [(exited(1), most, "64 MiB"), (9, 0, "processor time")] {
            assert!(matches!(of(status, answer, ""), Err(NoAnswer::BeyondBounds(text)) if text.contains(bound)));
        }
    }
}
