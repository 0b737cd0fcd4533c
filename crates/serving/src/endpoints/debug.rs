//! `/debug/flags/v`, which changes the verbosity of the log while the scheduler runs, and `/debug/pprof/`, which
//! returns profiles.
//!
//! As in kube-scheduler, these paths are served if `enableProfiling` is on (`pkg/routes/flags.go` and `profiling.go` of
//! the generic API server). The configuration may change `enableProfiling` at any time.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{Method, StatusCode},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::any,
};
use berth_config::RunningConfiguration;
use berth_telemetry::klog::Verbosity;
use tokio::time::timeout;

use super::pprof;

/// The maximum size of a body, which is a number with some space around it.
const MAX_BODY: usize = 4 << 10;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The routes. If there is no verbosity, the route that changes it is missing.
pub fn routes(running: RunningConfiguration, verbosity: Option<Verbosity>) -> Router {
    let verbosity =
        verbosity.map(|verbosity| Router::new().route("/debug/flags/v", any(set_verbosity)).with_state(verbosity));
    verbosity.unwrap_or_default().merge(pprof::routes()).layer(middleware::from_fn_with_state(running, if_enabled))
}

async fn if_enabled(State(running): State<RunningConfiguration>, request: Request, next: Next) -> Response {
    if !running.settings().enable_profiling {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    next.run(request).await
}

async fn set_verbosity(State(verbosity): State<Verbosity>, method: Method, body: Body) -> Response {
    if method != Method::PUT {
        return (StatusCode::NOT_ACCEPTABLE, "unsupported http method").into_response();
    }
    let Ok(Ok(body)) = timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY)).await else {
        return (StatusCode::BAD_REQUEST, "the body is a number\n").into_response();
    };
    let body = String::from_utf8_lossy(&body);
    match body.trim().parse::<u32>() {
        Ok(number) => {
            verbosity.set(number);
            (StatusCode::OK, format!("successfully set klog.logging.verbosity to {number}")).into_response()
        }
        Err(_) => {
            let text = format!("strconv.ParseUint: parsing {body:?}: invalid syntax");
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}
