//! Credentials for a registry: a file as `docker login` writes it, or as a Secret of the type
//! `kubernetes.io/dockerconfigjson` contains it.
//!
//! The file is read whenever a registry asks for credentials, so that a mounted Secret may change. The file may name
//! helper programs. Only the commands of an author run them: the writer of a Secret must not choose a program that runs
//! with the scheduler's rights.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize;

use super::helper::{self, HelperError};

/// The key of Docker's own registry in files and helpers.
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";

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
        "{}: uses a credential helper for {registry}, which the scheduler does not run: name a file with auths",
        file.display()
    )]
    Helper { file: PathBuf, registry: String },
    #[error("{}: {field} names {program}, which {problem}", file.display())]
    FailedHelper { file: PathBuf, field: String, program: String, problem: HelperError },
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
/// it. As in Docker, a helper for the registry is asked before the entries of the file are read.
pub(crate) async fn find(file: &Path, name: &str, runs_helpers: bool) -> Result<Option<Credentials>, CredentialsError> {
    let config = DockerConfig::read(file)?;
    let registry = name.split('/').next().unwrap_or(name);
    let helper = config.helper(registry);
    if let Some((field, program)) = helper.as_ref().filter(|_| runs_helpers)
        && let Some(credentials) = ask(file, field, program, registry).await?
    {
        return Ok(Some(credentials));
    }
    let fitting = config.auths.iter().filter(|(key, _)| is_about(key, name));
    let entry = fitting.max_by_key(|(key, _)| host_and_path(key).len()).map(|(_, entry)| entry);
    if let Some(credentials) = entry.and_then(Entry::credentials) {
        return Ok(Some(credentials));
    }
    let (file, registry) = (file.to_owned(), registry.to_owned());
    match helper {
        Some(_) if !runs_helpers => Err(CredentialsError::Helper { file, registry }),
        None if entry.is_some() => Err(CredentialsError::Incomplete { file, registry }),
        // `docker login` writes an entry without credentials if a helper keeps them.
        Some(_) | None => Ok(None),
    }
}

/// The credentials that a helper has for a registry. `field` is the field of the file that names the helper.
async fn ask(file: &Path, field: &str, program: &str, registry: &str) -> Result<Option<Credentials>, CredentialsError> {
    let failed = |problem| CredentialsError::FailedHelper {
        file: file.to_owned(),
        field: field.to_owned(),
        program: program.to_owned(),
        problem,
    };
    if program.contains('/') {
        return Err(failed(HelperError::Path));
    }
    let server = if registry == "docker.io" { DOCKER_HUB_KEY } else { registry };
    let answer = helper::ask(program, server).await.map_err(failed)?;
    Ok(answer.map(|answer| Credentials { user: answer.username, password: answer.secret }))
}

impl DockerConfig {
    fn read(file: &Path) -> Result<Self, CredentialsError> {
        let unreadable =
            |error: std::io::Error| CredentialsError::Unreadable { file: file.to_owned(), reason: error.to_string() };
        let text = fs::read(file).map_err(unreadable)?;
        serde_json::from_slice(&text)
            .map_err(|error| CredentialsError::Invalid { file: file.to_owned(), reason: error.to_string() })
    }

    /// The field that names a helper for a registry, and the program. An entry of `credHelpers` comes before
    /// `credsStore`, even if it is empty.
    fn helper(&self, registry: &str) -> Option<(String, String)> {
        let own = self.cred_helpers.iter().find(|(key, _)| is_about(key, registry));
        let own = own.map(|(key, name)| (format!("credHelpers[{key:?}]"), name));
        let (field, name) = own.or_else(|| Some(("credsStore".to_owned(), self.creds_store.as_ref()?)))?;
        (!name.is_empty()).then(|| (field, format!("docker-credential-{name}")))
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

    #[tokio::test]
    async fn the_longest_entry_that_fits_gives_the_credentials() {
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
        let user = async |name: &str| {
            let found = find(&file, name, false).await.unwrap();
            found.map(|it| format!("{} {}", it.user, it.password))
        };
        assert_eq!(user("registry.example/team/zone").await.as_deref(), Some("team p:q"));
        assert_eq!(user("registry.example/teams/zone").await.as_deref(), Some("all 2"));
        assert_eq!(user("docker.io/library/zone").await.as_deref(), Some("hub 1"));
        assert_eq!(user("other.example/zone").await, None);
        let error = find(&file, "helped.example/zone", false).await.unwrap_err().to_string();
        assert!(error.contains("a credential helper for helped.example, which the scheduler does not run"), "{error}");
    }

    #[test]
    fn a_helper_for_the_registry_comes_before_the_store() {
        let text =
            r#"{"credHelpers": {"a.example": "own", "b.example": "", "index.docker.io": "hub"}, "credsStore": "all"}"#;
        let config: DockerConfig = serde_json::from_str(text).unwrap();
        let helper = |registry: &str| config.helper(registry).map(|(field, program)| format!("{field} {program}"));
        let expected = "credHelpers[\"a.example\"] docker-credential-own";
        assert_eq!(helper("a.example").as_deref(), Some(expected));
        assert_eq!(helper("b.example"), None);
        assert_eq!(helper("c.example").as_deref(), Some("credsStore docker-credential-all"));
        assert!(helper("docker.io").is_some_and(|it| it.ends_with("docker-credential-hub")));
        let none: DockerConfig = serde_json::from_str(r#"{"credsStore": ""}"#).unwrap();
        assert_eq!(none.helper("a.example"), None);
    }

    #[tokio::test]
    async fn a_failed_helper_is_named_with_its_file_and_field() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        for (name, problem) in [
            (
                "missing",
                "docker-credential-missing, which is not in a folder of PATH, or names an interpreter that does not \
                 exist",
            ),
            ("/../x", "docker-credential-/../x, which is a path, not the name of a program"),
        ] {
            fs::write(&file, format!(r#"{{"auths": {{"r.example": {{}}}}, "credsStore": "{name}"}}"#)).unwrap();
            let error = find(&file, "r.example/zone", true).await.unwrap_err().to_string();
            assert_eq!(error, format!("{}: credsStore names {problem}", file.display()));
        }
    }
}
