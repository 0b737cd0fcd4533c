//! The other side of `/admin/plugins`.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use axum::{
    body::Body,
    http::{Method, Request, StatusCode, header},
};
use http_body_util::BodyExt as _;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde::Deserialize;

use crate::{
    failure::{Usage, chain},
    plugin_supervisor::{HostSettings, PluginReport},
};

/// Longer than any answer; a scheduler with thousands of plugins is not one.
const MAX_ANSWER: usize = 16 << 20;

pub(crate) struct AdminClient {
    /// `http://address`.
    base: String,
    token: Option<String>,
}

#[derive(Deserialize)]
struct Failure {
    error: String,
}

impl AdminClient {
    pub(crate) fn new(address: &str, token_file: Option<&Path>) -> Result<Self> {
        let address = address.trim_end_matches('/');
        if address.starts_with("https://") {
            let text = format!("--server {address}: the scheduler's endpoints speak plain HTTP");
            return Err(Usage(text).into());
        }
        let base = if address.starts_with("http://") { address.to_owned() } else { format!("http://{address}") };
        let token = match token_file {
            None => None,
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| Usage(format!("--token-file {}: cannot be read: {error}", file.display())))?;
                Some(text.trim().to_owned())
            }
        };
        Ok(Self { base, token })
    }

    pub(crate) async fn list(&self) -> Result<Vec<PluginReport>> {
        let answer = self.ask(Method::GET, "/admin/plugins").await?;
        serde_json::from_slice(&answer).context("the scheduler's answer is no list of plugins")
    }

    /// Whether an endpoint answers with 200.
    pub(crate) async fn check(&self, path: &str) -> Result<()> {
        self.ask(Method::GET, path).await.map(drop)
    }

    pub(crate) async fn settings(&self) -> Result<HostSettings> {
        let answer = self.ask(Method::GET, "/admin/settings").await?;
        serde_json::from_slice(&answer).context("the scheduler's answer is not about its settings")
    }

    pub(crate) async fn order(&self, name: &str, order: &str) -> Result<PluginReport> {
        if name.is_empty() || name.contains(['/', '?', '#', '%', ' ']) {
            return Err(Usage(format!("{name:?} is no name of a plugin")).into());
        }
        let answer = self.ask(Method::POST, &format!("/admin/plugins/{name}/{order}")).await?;
        serde_json::from_slice(&answer).context("the scheduler's answer is no plugin")
    }

    async fn ask(&self, method: Method, path: &str) -> Result<Vec<u8>> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .body(Body::empty())
            .map_err(|error| Usage(format!("--server {}: not an address: {error}", self.base)))?;
        let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build_http();
        let response = client
            .request(request)
            .await
            .map_err(|error| anyhow!("no scheduler answers at {}: {}", self.base, chain(&error)))?;
        let status = response.status();
        let body = http_body_util::Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|error| anyhow!("the answer of {} broke off: {error}", self.base))?.to_bytes();
        if status == StatusCode::OK {
            return Ok(body.into());
        }
        match serde_json::from_slice::<Failure>(&body) {
            Ok(failure) => bail!("{}", failure.error),
            Err(_) if status.is_server_error() => bail!("{}", String::from_utf8_lossy(&body).trim_end()),
            Err(_) => bail!("{} answered {status}: is a scheduler there?", self.base),
        }
    }
}
