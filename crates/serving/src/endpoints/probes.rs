//! `/healthz`, `/livez` and `/readyz` with their single checks, as the components of Kubernetes serve them.
//!
//! `?verbose` lists the checks, `?exclude=NAME` leaves out a check, and `/readyz/NAME` makes only one check. See
//! <https://kubernetes.io/docs/reference/using-api/health-checks/>.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{Path, RawQuery, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use berth_telemetry::metrics::Metrics;

use crate::{Check, Health, Probe};

pub(super) fn routes(health: &Health, metrics: &Arc<Metrics>) -> Router {
    let probe = |probe| self::probe(health, probe, Arc::clone(metrics));
    Router::new().merge(probe(Probe::Healthz)).merge(probe(Probe::Livez)).merge(probe(Probe::Readyz))
}

fn probe(health: &Health, probe: Probe, metrics: Arc<Metrics>) -> Router {
    let path = format!("/{}", probe.as_str());
    let all = async move |State(health): State<Health>, RawQuery(query): RawQuery| {
        let checks = health.checks(probe, Instant::now());
        let query = Query::read(query.as_deref().unwrap_or_default());
        for check in checks.iter().filter(|check| !query.excluded.contains(check.name)) {
            metrics.probed(probe.as_str(), check.name, check.result.is_ok());
        }
        render(probe, &checks, &query)
    };
    let one = async move |State(health): State<Health>, Path(name): Path<String>| {
        render_one(&health.checks(probe, Instant::now()), &name)
    };
    Router::new().route(&path, get(all)).route(&format!("{path}/{{name}}"), get(one)).with_state(health.clone())
}

#[derive(Debug, Default)]
struct Query<'a> {
    is_verbose: bool,
    excluded: BTreeSet<&'a str>,
}

impl<'a> Query<'a> {
    fn read(query: &'a str) -> Self {
        let mut read = Self::default();
        for pair in query.split('&') {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("verbose", _) => read.is_verbose = true,
                ("exclude", names) => read.excluded.extend(names.split(',')),
                _ => {}
            }
        }
        read
    }
}

fn render(probe: Probe, checks: &[Check], query: &Query<'_>) -> Response {
    let probe = probe.as_str();
    let mut text = String::new();
    let mut is_well = true;
    for Check { name, result } in checks {
        let line = match result {
            _ if query.excluded.contains(name) => format!("[+]{name} excluded: ok\n"),
            Ok(()) => format!("[+]{name} ok\n"),
            Err(reason) => {
                is_well = false;
                format!("[-]{name} failed: {reason}\n")
            }
        };
        text.push_str(&line);
    }
    for name in &query.excluded {
        if !checks.iter().any(|check| check.name == *name) {
            text.push_str(&format!("warn: some health checks cannot be excluded: no matches for {name:?}\n"));
        }
    }
    match (is_well, query.is_verbose) {
        (true, false) => plain(StatusCode::OK, "ok".to_owned()),
        (true, true) => plain(StatusCode::OK, format!("{text}{probe} check passed\n")),
        (false, _) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{text}{probe} check failed\n")),
    }
}

fn render_one(checks: &[Check], name: &str) -> Response {
    match checks.iter().find(|check| check.name == name).map(|check| &check.result) {
        None => plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        Some(Ok(())) => plain(StatusCode::OK, "ok".to_owned()),
        Some(Err(reason)) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n")),
    }
}

fn plain(status: StatusCode, text: String) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, headers, text).into_response()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::Unhealthy;

    const CHECKS: [Check; 2] =
        [Check { name: "ping", result: Ok(()) }, Check { name: "shutdown", result: Err(Unhealthy::Stopping) }];

    async fn text(response: Response) -> (u16, String) {
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    async fn check(query: &str, status: u16, body: &str) {
        let answer = text(render(Probe::Readyz, &CHECKS, &Query::read(query))).await;
        assert_eq!(answer, (status, body.to_owned()), "{query}");
    }

    #[tokio::test]
    async fn all_checks_are_one_answer() {
        check("", 500, "[+]ping ok\n[-]shutdown failed: the scheduler is stopping\nreadyz check failed\n").await;
        check("exclude=shutdown", 200, "ok").await;
        let text = "[+]ping ok\n[+]shutdown excluded: ok\nreadyz check passed\n";
        check("verbose&exclude=shutdown", 200, text).await;
        let warned = "[+]ping ok\n[+]shutdown excluded: ok\n\
            warn: some health checks cannot be excluded: no matches for \"etcd\"\nreadyz check passed\n";
        check("verbose=1&exclude=shutdown&exclude=etcd", 200, warned).await;
    }

    #[tokio::test]
    async fn one_check_is_asked_for_by_name() {
        assert_eq!(text(render_one(&CHECKS, "ping")).await, (200, "ok".to_owned()));
        let failed = (500, "internal server error: the scheduler is stopping\n".to_owned());
        assert_eq!(text(render_one(&CHECKS, "shutdown")).await, failed);
        assert_eq!(text(render_one(&CHECKS, "etcd")).await.0, 404);
    }
}
