//! The information that a component of Kubernetes gives about itself: `/configz`, `/flagz`, `/statusz` and `/version`.
//!
//! The texts of `/flagz` and `/statusz` are for people (KEP-4828, KEP-4827), in the form that kube-scheduler gives them.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use axum::{Json, Router, routing::get};
use berth_config::RunningConfiguration;
use berth_model::Release;
use serde_json::{Value, json};

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// The paths that `/statusz` lists.
const PATHS: &str = "/configz /debug/flags/v /explain /flagz /healthz /livez /metrics /metrics/resources /metrics/slis /overview /page /readyz /statusz /version /what-if";

/// The data of these endpoints.
#[derive(Debug)]
pub struct About {
    /// The complete current configuration.
    pub configuration: RunningConfiguration,
    /// The flags with their values; `None` if `/flagz` is not served.
    pub flags: Option<Vec<(String, String)>>,
    /// Whether `/statusz` is served.
    pub has_status: bool,
    /// The release of Kubernetes whose rules decide.
    pub release: Release,
    pub started: Instant,
}

/// The routes.
pub fn routes(about: About) -> Router {
    let About { configuration, flags, has_status, release, started } = about;
    let mut routes = Router::new()
        .route("/configz", get(async move || Json(json!({ "componentconfig": configuration.settings().to_json() }))))
        .route("/version", get(async move || Json(version(release))));
    if let Some(flags) = flags {
        let text = flagz(&flags);
        routes = routes.route("/flagz", get(async move || text.clone()));
    }
    if has_status {
        routes = routes.route("/statusz", get(async move || statusz(release, started.elapsed())));
    }
    routes
}

fn flagz(flags: &[(String, String)]) -> String {
    let mut text = format!("\nkube-scheduler flagz\n{WARNING}\n");
    for (name, value) in flags {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}:{value}");
    }
    text
}

fn statusz(release: Release, up: Duration) -> String {
    let seconds = up.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let (version, release) = (env!("CARGO_PKG_VERSION"), release.as_str());
    format!(
        "\nkube-scheduler statusz\n{WARNING}\n\nUp  {hours} hr {minutes:02} min {seconds:02} sec\n\
         Binary version  berth {version}\nEmulation version  {release}\nPaths  {PATHS}\n"
    )
}

fn version(release: Release) -> Value {
    let (minor, version) = (release.minor(), env!("CARGO_PKG_VERSION"));
    json!({ "major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.0+berth-{version}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_have_kube_schedulers_form() {
        let text = statusz(Release::V1_37, Duration::from_secs(3_725));
        assert!(text.starts_with("\nkube-scheduler statusz\nWarning: "), "{text}");
        assert!(text.contains("\nUp  1 hr 02 min 05 sec\n"), "{text}");
        assert!(text.contains("\nEmulation version  1.37\n"), "{text}");
        assert_eq!(version(Release::V1_37)["minor"], "37");
        let text = flagz(&[("v".to_owned(), "2".to_owned())]);
        assert!(text.ends_with("purposes only.\nv:2\n"), "{text}");
    }
}
