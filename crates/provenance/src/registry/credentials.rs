//! Credentials for a registry: a file as `docker login` writes it, or as a Secret of the type
//! `kubernetes.io/dockerconfigjson` contains it.
//!
//! The file is read whenever a registry asks for credentials, so that a mounted Secret may change. Helper programs are
//! not run.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;

/// A name and a password, or a token instead.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub user: String,
    pub password: String,
}

/// The reason why a file contains no usable credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    #[error("{}: cannot be read: {reason}", file.display())]
    Unreadable { file: PathBuf, reason: String },
    #[error("{}: not a Docker configuration: {reason}", file.display())]
    Invalid { file: PathBuf, reason: String },
    #[error("{}: the entry for {registry} has neither auth nor username and password", file.display())]
    Incomplete { file: PathBuf, registry: String },
    #[error(
        "{}: uses a credential helper for {registry}, which Berth does not support: name a file with auths",
        file.display()
    )]
    Helper { file: PathBuf, registry: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Credentials({})", self.user)
    }
}

/// The credentials in a file for a repository, `registry.example/team/zone`; `None` if the file has no credentials for
/// it.
pub(crate) fn find(file: &Path, name: &str) -> Result<Option<Credentials>, CredentialsError> {
    let unreadable =
        |error: std::io::Error| CredentialsError::Unreadable { file: file.to_owned(), reason: error.to_string() };
    let text = fs::read(file).map_err(unreadable)?;
    let config: DockerConfig = serde_json::from_slice(&text)
        .map_err(|error| CredentialsError::Invalid { file: file.to_owned(), reason: error.to_string() })?;
    let registry = name.split('/').next().unwrap_or(name).to_owned();
    let fitting = config.auths.iter().filter(|(key, _)| is_about(key, name));
    let Some((_, entry)) = fitting.max_by_key(|(key, _)| host_and_path(key).len()) else {
        if config.creds_store.is_some() || config.cred_helpers.contains_key(&registry) {
            return Err(CredentialsError::Helper { file: file.to_owned(), registry });
        }
        return Ok(None);
    };
    match entry.credentials() {
        Some(credentials) => Ok(Some(credentials)),
        None if config.creds_store.is_some() => Err(CredentialsError::Helper { file: file.to_owned(), registry }),
        None => Err(CredentialsError::Incomplete { file: file.to_owned(), registry }),
    }
}

impl Entry {
    fn credentials(&self) -> Option<Credentials> {
        if let (Some(user), Some(password)) = (&self.username, &self.password) {
            return Some(Credentials { user: user.clone(), password: password.clone() });
        }
        let auth = BASE64_STANDARD.decode(self.auth.as_deref()?.trim()).ok()?;
        let (user, password) = std::str::from_utf8(&auth).ok()?.split_once(':')?;
        Some(Credentials { user: user.to_owned(), password: password.trim_end_matches('\0').to_owned() })
    }
}

/// Whether a key of `auths` is about a repository. The key is the registry, possibly with the beginning of the path.
fn is_about(key: &str, name: &str) -> bool {
    let key = host_and_path(key);
    let key = if key == "index.docker.io" { "docker.io" } else { key };
    name.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The host and path without `https://`, and without the `/v1/` that Docker adds to its own registry.
fn host_and_path(key: &str) -> &str {
    let key = key.split_once("://").map_or(key, |(_, rest)| rest).trim_end_matches('/');
    key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_entry_that_fits_gives_the_credentials() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let auth = |text: &str| BASE64_STANDARD.encode(text);
        let text = format!(
            r#"{{"auths": {{
                "https://index.docker.io/v1/": {{"auth": "{}"}},
                "registry.example": {{"auth": "{}"}},
                "registry.example/team": {{"username": "team", "password": "p:q"}}
            }}, "credHelpers": {{"helped.example": "x"}}}}"#,
            auth("hub:1"),
            auth("all:2"),
        );
        fs::write(&file, text).unwrap();
        let user = |name: &str| find(&file, name).unwrap().map(|it| format!("{} {}", it.user, it.password));
        assert_eq!(user("registry.example/team/zone").as_deref(), Some("team p:q"));
        assert_eq!(user("registry.example/teams/zone").as_deref(), Some("all 2"));
        assert_eq!(user("docker.io/library/zone").as_deref(), Some("hub 1"));
        assert_eq!(user("other.example/zone"), None);
        let error = find(&file, "helped.example/zone").unwrap_err().to_string();
        assert!(error.contains("helper"), "{error}");
    }
}
