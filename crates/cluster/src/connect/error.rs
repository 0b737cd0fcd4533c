//! The reason why no client could be made, in a sentence that names the file, the field and the remedy.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use kube::config::KubeconfigError;

/// The source of the API server's address and credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The file in the options.
    File(PathBuf),
    /// An address without a kubeconfig.
    Address(String),
    /// The files in `KUBECONFIG`.
    KubeconfigVariable(Vec<PathBuf>),
    /// The service account of the pod in which this process runs.
    InCluster,
    /// `~/.kube/config`.
    Home(PathBuf),
}

impl Origin {
    pub(super) fn files(&self) -> &[PathBuf] {
        match self {
            Self::File(path) | Self::Home(path) => std::slice::from_ref(path),
            Self::KubeconfigVariable(paths) => paths,
            Self::InCluster | Self::Address(_) => &[],
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(server) => write!(f, "the address {server}"),
            Self::File(path) | Self::Home(path) => write!(f, "kubeconfig {}", path.display()),
            Self::KubeconfigVariable(paths) => {
                let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(f, "kubeconfig {} (from KUBECONFIG)", paths.join(", "))
            }
            Self::InCluster => f.write_str("the pod's service account"),
        }
    }
}

/// The reason why no client could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "found no cluster to connect to: no kubeconfig was given, KUBECONFIG is not set, this process does not run \
         in a pod, and ~/.kube/config does not exist; name a kubeconfig"
    )]
    NoCluster,
    #[error("{origin} does not exist; name a file that does, or unset KUBECONFIG")]
    NoFile { origin: Origin },
    #[error("kubeconfig {} cannot be read: {reason}; check the path and its permissions", .path.display())]
    Unreadable { path: PathBuf, reason: String },
    #[error(
        "kubeconfig {} is malformed: {reason}; `kubectl config view` shows how kubectl reads it",
        .path.display()
    )]
    Malformed { path: PathBuf, reason: String },
    #[error("{origin} has no current-context; name a context, or set one with `kubectl config use-context`")]
    NoContext { origin: Origin },
    #[error("{origin} has no {field} {name:?}; {}", there_are(.known))]
    Unknown { origin: Origin, field: &'static str, name: String, known: Vec<String> },
    #[error("{origin}: invalid {field} {server:?}: expected https://host:port")]
    Server { origin: Origin, field: String, server: String },
    #[error(
        "{origin}: {field}: cannot read {}: {reason}; correct the path or its permissions",
        .path.display()
    )]
    Credential { origin: Origin, field: String, path: PathBuf, reason: String },
    #[error("certificate authority {} cannot be used: {reason}; name a file of certificates in PEM", .path.display())]
    CertificateAuthority { path: PathBuf, reason: String },
    /// The certificates are invalid, a credential plugin fails, or a proxy cannot be used.
    #[error("{origin} cannot be used: {reason}")]
    Client { origin: Origin, reason: String },
    #[error("the pod's service account cannot be used: {reason}; is its token mounted?")]
    InCluster { reason: String },
    #[error("the user agent {value:?} cannot be sent in a header; use printable ASCII")]
    UserAgent { value: String },
    #[error("the user or group {value:?} cannot be sent in a header, because it has control characters")]
    Impersonation { value: String },
}

pub(super) fn unreadable(path: &Path, error: KubeconfigError) -> ConnectError {
    let path = path.to_owned();
    match error {
        KubeconfigError::ReadConfig(reason, _) => ConnectError::Unreadable { path, reason: reason.to_string() },
        KubeconfigError::Parse(reason) => ConnectError::Malformed { path, reason: one_line(&reason) },
        other => ConnectError::Malformed { path, reason: one_line(&other) },
    }
}

/// The first line of the message. Parsers give messages of several lines, and the first line names the problem.
pub(super) fn one_line(error: &dyn std::error::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_end_matches(':').replace("error: ", "")
}

fn there_are(known: &[String]) -> String {
    if known.is_empty() { "it has none".into() } else { format!("it has {}", known.join(", ")) }
}
