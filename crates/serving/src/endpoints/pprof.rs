//! `/debug/pprof/`: a profile of the program's time, in the format of `go tool pprof` and similar tools. The paths are
//! the paths of Go's `net/http/pprof`.
//!
//! A profile samples the stacks of all running threads 100 times a second, by a signal. Plugins that run as components
//! appear as addresses. The other profiles of a Go program have no counterpart in Berth.

mod profile;

use std::{io::Write as _, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    extract::{Path, RawQuery},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use flate2::{Compression, write::GzEncoder};
use pprof::{ProfilerGuard, ProfilerGuardBuilder};
use prost::Message as _;
use tokio::{sync::Mutex, task::spawn_blocking};

pub use self::profile::Profile;

const HERTZ: i32 = 100;

/// The seconds of a request that names none, as in Go.
const DEFAULT_SECONDS: u64 = 30;
/// The maximum number of seconds, because samples are kept in memory until the end.
const MAX_SECONDS: u64 = 300;

const INDEX: &str = "/debug/pprof/\n\nprofiles:\n\
    profile?seconds=N  CPU time by stack, over N seconds (30), for `go tool pprof`\n\
    cmdline            the command line of this process, its arguments separated by zero bytes\n";

/// The routes.
pub(super) fn routes() -> Router {
    // The signal handler belongs to the whole process, so only one profile can be made at a time.
    let profiler = Arc::new(Mutex::new(()));
    Router::new()
        .route("/debug/pprof", get(async || text(StatusCode::OK, INDEX)))
        .route("/debug/pprof/", get(async || text(StatusCode::OK, INDEX)))
        .route("/debug/pprof/cmdline", get(async || text(StatusCode::OK, command_line())))
        .route("/debug/pprof/profile", get(async move |RawQuery(query)| profile(query, &profiler).await))
        .route("/debug/pprof/{name}", get(missing))
}

async fn missing(Path(name): Path<String>) -> Response {
    let why = match name.as_str() {
        "symbol" => "profiles of this program contain the names of its functions: `symbol` is not needed",
        "allocs" | "block" | "goroutine" | "heap" | "mutex" | "threadcreate" | "trace" => {
            "this program is not written in Go and has no such profile; use `profile`"
        }
        _ => "unknown profile",
    };
    text(StatusCode::NOT_FOUND, format!("{name}: {why}\n"))
}

async fn profile(query: Option<String>, profiler: &Mutex<()>) -> Response {
    let query = query.unwrap_or_default();
    let seconds = query.split('&').find_map(|pair| pair.strip_prefix("seconds="));
    let seconds = seconds.and_then(|text| text.parse().ok()).filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_SECONDS);
    if seconds > MAX_SECONDS {
        return text(StatusCode::BAD_REQUEST, format!("profile: seconds={seconds}: at most {MAX_SECONDS}\n"));
    }
    let Ok(_only) = profiler.try_lock() else {
        let busy = "Could not enable CPU profiling: cpu profiling already in use\n";
        return text(StatusCode::INTERNAL_SERVER_ERROR, busy);
    };
    match sample(Duration::from_secs(seconds)).await {
        Ok(bytes) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream"),
                (header::CONTENT_DISPOSITION, "attachment; filename=\"profile\""),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            (headers, bytes).into_response()
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("Could not enable CPU profiling: {error:#}\n")),
    }
}

/// Makes a profile in gzip. Sampling ends when the future is dropped.
async fn sample(duration: Duration) -> Result<Vec<u8>> {
    let guard = ProfilerGuardBuilder::default()
        .frequency(HERTZ)
        // The stacks of the blocked libraries cannot be unwound in a signal handler: the unwinding code may already
        // hold the lock that it needs.
        .blocklist(&["libc", "libgcc", "pthread", "vdso"])
        .build()
        .context("cannot start the profiler")?;
    tokio::time::sleep(duration).await;
    spawn_blocking(move || encode(&guard)).await.context("the task that writes the profile failed")?
}

fn encode(guard: &ProfilerGuard<'_>) -> Result<Vec<u8>> {
    let profile = Profile::from(&guard.report().build().context("cannot collect the samples")?);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&profile.encode_to_vec())?;
    Ok(gzip.finish()?)
}

fn command_line() -> String {
    let arguments: Vec<String> = std::env::args_os().map(|it| it.to_string_lossy().into_owned()).collect();
    arguments.join("\0")
}

fn text(status: StatusCode, text: impl Into<String>) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, headers, text.into()).into_response()
}
