//! Credential helpers: programs that keep the credentials of `docker login`
//! (<https://github.com/docker/docker-credential-helpers>).
//!
//! Berth only asks for credentials (`get`). It writes the registry to the program's standard input, and the program answers
//! in JSON. The program's standard error is Berth's own, because a helper may ask its user for something.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
    time::timeout,
};

/// The time limit for a helper. A user may have to unlock a keychain.
const TIME: Duration = Duration::from_secs(60);
/// The maximum number of bytes in an answer, which may contain a token.
const MAX_ANSWER: u64 = 64 << 10;

/// The answer of a helper that has no credentials for the registry.
const NO_CREDENTIALS: &str = "credentials not found in native keychain";

/// The user name beside which the secret is not a password, but is exchanged for one.
const IDENTITY_TOKEN: &str = "<token>";

/// The reason why a helper gave no credentials. The text continues the name of the program, and contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelperError {
    #[error("is a path, not the name of a program")]
    Path,
    /// The system has one error for both cases.
    #[error("is not in a folder of PATH, or names an interpreter that does not exist")]
    NoProgram,
    #[error("cannot be run: {reason}")]
    NotRun { reason: String },
    #[error("did not answer within {} s", TIME.as_secs())]
    NoAnswer,
    /// `reason` is the first line of the helper's answer.
    #[error("failed ({status}): {reason}")]
    Failed { status: ExitStatus, reason: String },
    #[error("has an identity token, which Berth does not support: log in with a password")]
    IdentityToken,
    #[error("answered without a user name and a secret")]
    NotCredentials,
}

/// The credentials for a registry.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Answer {
    pub username: String,
    pub secret: String,
}

/// Asks a helper for the credentials for `server`; `None` if it has none.
pub(super) async fn ask(program: &str, server: &str) -> Result<Option<Answer>, HelperError> {
    let (status, output) = timeout(TIME, run(program, server)).await.map_err(|_| HelperError::NoAnswer)??;
    if !status.success() {
        let message = String::from_utf8_lossy(&output);
        let message = message.trim().lines().next().unwrap_or("it gave no reason");
        if message == NO_CREDENTIALS {
            return Ok(None);
        }
        return Err(HelperError::Failed { status, reason: message.chars().take(200).collect() });
    }
    match serde_json::from_slice::<Answer>(&output) {
        Ok(answer) if answer.username == IDENTITY_TOKEN => Err(HelperError::IdentityToken),
        Ok(answer) => Ok(Some(answer)),
        // The error of the parser may repeat a part of the answer.
        Err(_) => Err(HelperError::NotCredentials),
    }
}

impl From<io::Error> for HelperError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NoProgram,
            _ => Self::NotRun { reason: error.to_string() },
        }
    }
}

/// The exit status of a helper, and what it wrote to its standard output.
async fn run(program: &str, server: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut command = Command::new(program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A helper that ends without reading says why in its answer.
        drop(input.write_all(server.as_bytes()).await);
    }
    let mut output = Vec::new();
    if let Some(answer) = child.stdout.take() {
        answer.take(MAX_ANSWER).read_to_end(&mut output).await?;
    }
    Ok((child.wait().await?, output))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a helper with this script.
    async fn answer(script: &str) -> Result<Option<(String, String)>, HelperError> {
        answer_from("/bin/sh", script).await
    }

    /// The answer of a helper with this script, which `interpreter` runs.
    async fn answer_from(interpreter: &str, script: &str) -> Result<Option<(String, String)>, HelperError> {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("docker-credential-test");
        // Another process writes the file: while this process has a file open to write, a child of another test may have it,
        // too, and the kernel refuses to run it.
        let write = "printf '#!%s\\n%s\\n' \"$1\" \"$2\" > \"$0\" && chmod 755 \"$0\"";
        let mut writer = Command::new("sh");
        let written = writer.arg("-c").arg(write).arg(&program).args([interpreter, script]).status().await.unwrap();
        assert!(written.success());
        let answer = ask(&program.display().to_string(), "registry.example").await;
        answer.map(|found| found.map(|Answer { username, secret }| (username, secret)))
    }

    #[tokio::test]
    async fn a_helper_gets_the_registry_and_returns_its_credentials() {
        let script = r#"read -r server; printf '{"ServerURL":"x","Username":"%s","Secret":"%s"}' "$1" "$server""#;
        // The server comes without a newline, at which `read` returns an error but sets the variable.
        assert_eq!(answer(script).await, Ok(Some(("get".to_owned(), "registry.example".to_owned()))));
        assert_eq!(answer("echo 'credentials not found in native keychain'; exit 1").await, Ok(None));
    }

    #[tokio::test]
    async fn the_failure_of_a_helper_is_reported_without_secrets() {
        for (script, expected) in [
            ("echo 'the keychain is locked'; exit 3", "failed (exit status: 3): the keychain is locked"),
            ("exit 1", "failed (exit status: 1): it gave no reason"),
            (r#"echo '{"Username":"berth","Secret":12345}'"#, "answered without a user name and a secret"),
        ] {
            assert_eq!(answer(script).await.unwrap_err().to_string(), expected);
        }
        let token = answer(r#"echo '{"Username":"<token>","Secret":"hidden"}'"#).await;
        assert_eq!(token, Err(HelperError::IdentityToken));
        let missing = ask("docker-credential-missing", "registry.example").await;
        assert_eq!(missing.map(|_| ()), Err(HelperError::NoProgram));
    }

    #[tokio::test]
    async fn a_missing_interpreter_is_not_reported_as_a_missing_program_alone() {
        let error = answer_from("/nowhere/interpreter", "exit 0").await.unwrap_err();
        assert_eq!(error.to_string(), "is not in a folder of PATH, or names an interpreter that does not exist");
    }

    /// The clock of this test jumps to the time limit as soon as only the helper is waited for.
    #[tokio::test(start_paused = true)]
    async fn a_helper_that_does_not_answer_is_given_up() {
        assert_eq!(answer("exec sleep 1000").await, Err(HelperError::NoAnswer));
    }
}
