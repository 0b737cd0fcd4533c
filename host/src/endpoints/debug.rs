//! `/debug/flags/v`: how much is logged, changed while the scheduler runs.
//!
//! As in kube-scheduler it is there if `enableProfiling` is on (`pkg/routes/flags.go` of the generic API server).

use axum::{
    Router,
    extract::State,
    http::{Method, StatusCode},
    response::{IntoResponse as _, Response},
    routing::any,
};

use crate::{configuration::RunningConfiguration, klog::Verbosity};

#[derive(Clone, Debug)]
struct Debug {
    running: RunningConfiguration,
    verbosity: Verbosity,
}

/// The route.
pub(crate) fn routes(running: RunningConfiguration, verbosity: Verbosity) -> Router {
    Router::new().route("/debug/flags/v", any(set_verbosity)).with_state(Debug { running, verbosity })
}

async fn set_verbosity(State(debug): State<Debug>, method: Method, body: String) -> Response {
    if !debug.running.settings().enable_profiling {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    if method != Method::PUT {
        return (StatusCode::NOT_ACCEPTABLE, "unsupported http method").into_response();
    }
    match body.trim().parse::<u32>() {
        Ok(verbosity) => {
            debug.verbosity.set(verbosity);
            (StatusCode::OK, format!("successfully set klog.logging.verbosity to {verbosity}")).into_response()
        }
        Err(_) => {
            let text = format!("strconv.ParseUint: parsing {body:?}: invalid syntax");
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}
