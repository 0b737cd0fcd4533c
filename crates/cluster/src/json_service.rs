//! A service outside the API server that speaks JSON over HTTP or HTTPS, such as a scheduler extender.
//!
//! The client is like the client of the API server, but without the API server's credentials, retries and kubeconfig
//! proxies. Every call is bounded in time, and its answer in size.

use std::time::Duration;

use http::{Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::{
    Client, Config,
    client::Body,
    config::{AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext},
};

use crate::{
    api_error::RequestFailure,
    transport::{Http2, transport},
};

/// The address of the service, and the way to trust it. Data is base64 and takes precedence over files. An empty field
/// is not set.
#[derive(Clone, Debug, Default)]
pub struct JsonServiceOptions {
    /// The start of every address, such as `https://extender.example/scheduler`.
    pub url: String,
    /// The maximum time of a call, including its answer.
    pub timeout: Duration,
    /// Whether to skip verifying the service's certificate.
    pub insecure: bool,
    /// The name to expect in the certificate; `None` stands for the host's name.
    pub server_name: String,
    /// File of the trusted certificate authorities.
    pub ca_file: String,
    /// The trusted certificate authorities.
    pub ca_data: String,
    /// File of the client certificate.
    pub cert_file: String,
    /// Client certificate.
    pub cert_data: String,
    /// File of the key of the client certificate.
    pub key_file: String,
    /// Key of the client certificate.
    pub key_data: String,
}

/// A service that is ready to be called.
#[derive(Clone)]
pub struct JsonService {
    client: Client,
    url: String,
    timeout: Duration,
}

/// The reason why a call has no answer. `url` is the address that was called.
#[derive(Debug, thiserror::Error)]
pub enum JsonServiceError {
    /// The service answered with a status other than 200.
    #[error("the service at {url} answered with status {code}")]
    Status { url: String, code: u16 },
    /// The service did not answer completely in time. The text is Go's.
    #[error("Post {url:?}: context deadline exceeded (Client.Timeout exceeded while awaiting headers)")]
    TimedOut { url: String },
    /// The answer exceeds the limit.
    #[error("Post {url:?}: the answer is longer than {limit} bytes")]
    TooLong { url: String, limit: usize },
    /// The service could not be reached, or the connection broke.
    #[error("Post {url:?}: {reason}")]
    Transport { url: String, reason: String },
    /// A client cannot be made from the options.
    #[error("{url}: {reason}")]
    Options { url: String, reason: String },
}

impl std::fmt::Debug for JsonService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { client: _, url, timeout } = self;
        f.debug_struct("JsonService").field("url", url).field("timeout", timeout).finish_non_exhaustive()
    }
}

impl JsonService {
    /// Reads the files in the options, and sends nothing.
    ///
    /// # Errors
    /// [`JsonServiceError::Options`].
    pub async fn new(options: JsonServiceOptions) -> Result<Self, JsonServiceError> {
        let url = options.url.trim_end_matches('/').to_owned();
        let timeout = options.timeout;
        let failed = |reason: String| JsonServiceError::Options { url: url.clone(), reason };
        let kubeconfig = as_kubeconfig(&url, options);
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| failed(error.to_string()))?;
        config.connect_timeout = Some(timeout);
        let client = transport(&config, Http2::of_process()).map_err(|error| failed(error.to_string()))?.into_client();
        Ok(Self { client, url, timeout })
    }

    /// The start of every address, without a `/` at its end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Posts `body` to the address that ends with `/verb`. An answer of more than `limit` bytes is an error.
    ///
    /// # Errors
    /// The call has no answer, or its status is not 200.
    pub async fn post(&self, verb: &str, body: Vec<u8>, limit: usize) -> Result<Vec<u8>, JsonServiceError> {
        let url = format!("{}/{verb}", self.url);
        let answer = tokio::time::timeout(self.timeout, self.exchange(verb, &url, body, limit)).await;
        answer.unwrap_or(Err(JsonServiceError::TimedOut { url }))
    }

    async fn exchange(&self, verb: &str, url: &str, body: Vec<u8>, limit: usize) -> Result<Vec<u8>, JsonServiceError> {
        let broken = |reason: String| JsonServiceError::Transport { url: url.to_owned(), reason };
        // The client puts the service's path before this path.
        let request = Request::post(format!("/{verb}")).header(CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body)).map_err(|error| broken(error.to_string()))?;
        let answer =
            self.client.send(request).await.map_err(|error| broken(RequestFailure::from(error).to_string()))?;
        if answer.status() != StatusCode::OK {
            return Err(JsonServiceError::Status { url: url.to_owned(), code: answer.status().as_u16() });
        }
        match Limited::new(answer.into_body(), limit).collect().await {
            Ok(body) => Ok(body.to_bytes().into()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(JsonServiceError::TooLong { url: url.to_owned(), limit })
            }
            Err(error) => Err(broken(error.to_string())),
        }
    }
}

/// The options in the form of a kubeconfig, the only form from which kube reads certificates.
fn as_kubeconfig(url: &str, options: JsonServiceOptions) -> Kubeconfig {
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let name = "service".to_owned();
    let cluster = Cluster {
        server: Some(url.to_owned()),
        insecure_skip_tls_verify: Some(options.insecure),
        certificate_authority: given(options.ca_file),
        certificate_authority_data: given(options.ca_data),
        tls_server_name: given(options.server_name),
        ..Cluster::default()
    };
    let auth_info = AuthInfo {
        client_certificate: given(options.cert_file),
        client_certificate_data: given(options.cert_data),
        client_key: given(options.key_file),
        client_key_data: given(options.key_data).map(Into::into),
        ..AuthInfo::default()
    };
    let context = Context { cluster: name.clone(), user: Some(name.clone()), ..Context::default() };
    Kubeconfig {
        current_context: Some(name.clone()),
        clusters: vec![NamedCluster { name: name.clone(), cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { name: name.clone(), auth_info: Some(auth_info), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext { name, context: Some(context), ..NamedContext::default() }],
        ..Kubeconfig::default()
    }
}
