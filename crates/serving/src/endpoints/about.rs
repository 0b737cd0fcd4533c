//! The information that a component of Kubernetes gives about itself: `/configz`, `/flagz`, `/statusz` and `/version`.
//!
//! The texts of `/flagz` and `/statusz` are for people (KEP-4828, KEP-4827), in the form that kube-scheduler gives
//! them. Programs get objects of `config.k8s.io`, if the header `Accept` asks for such objects
//! (<https://kubernetes.io/docs/reference/instrumentation/zpages/>).

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode, header::ACCEPT},
    response::{IntoResponse as _, Response},
    routing::get,
};
use berth_config::RunningConfiguration;
use berth_model::Release;
use berth_telemetry::clock;
use serde_json::{Map, Value, json};

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// The group of the objects, and its versions, the newest first.
const GROUP: &str = "config.k8s.io";
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];

/// The paths that `/statusz` lists.
const PATHS: &str = "/configz /debug/cache /debug/decisions /debug/flags/v /explain /flagz /healthz /livez /metrics /metrics/resources /metrics/slis /overview /page /readyz /statusz /version /what-if";

/// The data of the endpoints of this module.
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
        let answer = async move |headers: HeaderMap| match Form::of(&headers, "Flagz") {
            Some(Form::Text) => flagz(&flags).into_response(),
            Some(Form::Object(version)) => Json(object("Flagz", version, flagz_object(&flags))).into_response(),
            None => not_acceptable("Flagz"),
        };
        routes = routes.route("/flagz", get(answer));
    }
    if has_status {
        let answer = async move |headers: HeaderMap| match Form::of(&headers, "Statusz") {
            Some(Form::Text) => statusz(release, started.elapsed()).into_response(),
            Some(Form::Object(version)) => {
                let up = started.elapsed();
                Json(object("Statusz", version, statusz_object(release, clock::wall(clock::now()), up))).into_response()
            }
            None => not_acceptable("Statusz"),
        };
        routes = routes.route("/statusz", get(answer));
    }
    routes
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    /// JSON, as an object of this version of `config.k8s.io`.
    Object(&'static str),
}

impl Form {
    /// The first form in the header `Accept` that is served. Without the header, the response is a text. JSON needs the
    /// parameters `g`, `v` and `as`.
    fn of(headers: &HeaderMap, kind: &str) -> Option<Self> {
        let accepted = headers.get_all(ACCEPT);
        if accepted.iter().next().is_none() {
            return Some(Self::Text);
        }
        accepted.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).find_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let parameters: Vec<(&str, &str)> =
                parts.filter_map(|part| part.split_once('=')).filter(|(name, _)| *name != "q").collect();
            let parameter = |name: &str| parameters.iter().find(|(its, _)| *its == name).map(|(_, value)| *value);
            match media_type.as_str() {
                "*/*" | "text/*" | "text/plain" => {
                    let is_plain = match parameters.as_slice() {
                        [] => true,
                        [(name, value)] => *name == "charset" && value.eq_ignore_ascii_case("utf-8"),
                        _ => false,
                    };
                    is_plain.then_some(Self::Text)
                }
                "application/json" if parameter("g") == Some(GROUP) && parameter("as") == Some(kind) => {
                    VERSIONS.into_iter().find(|version| parameter("v") == Some(*version)).map(Self::Object)
                }
                _ => None,
            }
        })
    }
}

fn not_acceptable(kind: &str) -> Response {
    let [newest, _] = VERSIONS;
    let text = format!("only text/plain and application/json;g={GROUP};v={newest};as={kind} are served\n");
    (StatusCode::NOT_ACCEPTABLE, text).into_response()
}

fn object(kind: &str, version: &str, mut fields: Map<String, Value>) -> Value {
    fields.insert("kind".to_owned(), kind.into());
    fields.insert("apiVersion".to_owned(), format!("{GROUP}/{version}").into());
    fields.insert("metadata".to_owned(), json!({ "name": "kube-scheduler" }));
    fields.into()
}

fn flagz_object(flags: &[(String, String)]) -> Map<String, Value> {
    let flags: Map<String, Value> = flags.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    Map::from_iter([("flags".to_owned(), flags.into())])
}

/// `now` is in milliseconds since 1970. The schema has the version of Go, which is empty in Berth.
fn statusz_object(release: Release, now: u64, up: Duration) -> Map<String, Value> {
    let started = clock::timestamp(now.saturating_sub(u64::try_from(up.as_millis()).unwrap_or(u64::MAX)));
    let paths: Vec<&str> = PATHS.split(' ').collect();
    Map::from_iter([
        ("startTime".to_owned(), format!("{started:.0}").into()),
        ("uptimeSeconds".to_owned(), up.as_secs().into()),
        ("goVersion".to_owned(), "".into()),
        ("binaryVersion".to_owned(), concat!("berth ", env!("CARGO_PKG_VERSION")).into()),
        ("emulationVersion".to_owned(), release.as_str().into()),
        ("paths".to_owned(), paths.into()),
    ])
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

    #[test]
    fn the_guide_names_each_path() {
        let guide = include_str!("../../../../docs/src/running.md");
        let missing: Vec<&str> = PATHS.split(' ').filter(|path| !guide.contains(&format!("`{path}`"))).collect();
        assert!(missing.is_empty(), "running.md does not name {missing:?}");
    }

    #[test]
    fn programs_get_objects() {
        let form = |accept: &str, kind: &str| {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().expect("a value"))]);
            Form::of(&headers, kind)
        };
        assert_eq!(Form::of(&HeaderMap::new(), "Statusz"), Some(Form::Text));
        for text in ["*/*", "text/plain; charset=UTF-8", "text/html, text/*;q=0.5", "application/xml, */*;q=0.1"] {
            assert_eq!(form(text, "Statusz"), Some(Form::Text), "{text}");
        }
        let json = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
        assert_eq!(form(json, "Statusz"), Some(Form::Object("v1beta1")));
        assert_eq!(form(json, "Flagz"), None);
        assert_eq!(form(&format!("application/json, {json}"), "Statusz"), Some(Form::Object("v1beta1")));
        assert_eq!(
            form("application/json;v=v1alpha1;g=config.k8s.io;as=Flagz", "Flagz"),
            Some(Form::Object("v1alpha1"))
        );
        for refused in ["application/json", "application/json;v=v2;g=config.k8s.io;as=Statusz", "text/html"] {
            assert_eq!(form(refused, "Statusz"), None, "{refused}");
        }
        let status = statusz_object(Release::V1_37, 1_700_000_003_725, Duration::from_millis(3_725));
        let status = object("Statusz", "v1beta1", status);
        assert_eq!(status["startTime"], "2023-11-14T22:13:20Z");
        assert_eq!((&status["kind"], &status["uptimeSeconds"]), (&json!("Statusz"), &json!(3)));
        assert_eq!(status["apiVersion"], "config.k8s.io/v1beta1");
        let flags = flagz_object(&[("v".to_owned(), "2".to_owned())]);
        assert_eq!(flags["flags"], json!({"v": "2"}));
    }
}
