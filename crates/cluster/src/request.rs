//! One request and its answer. A failure becomes a [`RequestFailure`] that contains the data of the HTTP answer.
//!
//! `kube`'s own `request` methods are not used, because these methods drop data that a caller needs: the header
//! `Retry-After`, which API Priority and Fairness sends with plain text, and the HTTP status of an answer that is JSON
//! but not a `Status`.

use std::time::Duration;

use http::{Request, Response, header};
use kube::{
    Client,
    client::Body,
    core::{Status, response::StatusDetails},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::trace;

use crate::{
    api_error::RequestFailure,
    observe::note_retry,
    retry::{Retries, RetryPolicy},
};

/// The maximum number of bytes that are shown of an answer that is not a `Status`, because a proxy's error page may be
/// long.
const MAX_TEXT: usize = 1024;

/// Sends the request and reads its JSON answer.
///
/// # Errors
/// The server refused, or gave no usable answer within `limit`.
pub(crate) async fn json<T: DeserializeOwned>(
    client: &Client,
    request: Request<Vec<u8>>,
    limit: Duration,
) -> Result<T, RequestFailure> {
    let answer = bytes(client, request, limit).await?;
    serde_json::from_slice(&answer).map_err(|error| RequestFailure::Transport(kube::Error::SerdeError(error)))
}

/// Sends the request like [`json`], and repeats it as often as an overloaded server asks for it with `Retry-After`, as
/// client-go does. `limit` is for all tries together. If a server asks for more time than is left, its refusal is
/// returned immediately.
///
/// # Errors
/// Fails as [`json`] does.
pub(crate) async fn retried_json<T: DeserializeOwned>(
    client: &Client,
    mut request: Request<Vec<u8>>,
    limit: Duration,
) -> Result<T, RequestFailure> {
    let deadline = Instant::now() + limit;
    let mut retries = Retries::new(RetryPolicy::AS_ASKED);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let failure = match json(client, request.clone(), left).await {
            Ok(answer) => return Ok(answer),
            Err(RequestFailure::TimedOut(_)) => return Err(RequestFailure::TimedOut(limit)),
            Err(failure) => failure,
        };
        match retries.wait_after(&failure) {
            Some(wait) if Instant::now() + wait < deadline => sleep(wait).await,
            Some(_) | None => return Err(failure),
        }
        note_retry(&mut request);
    }
}

/// Sends the request and reads its whole answer.
///
/// # Errors
/// Fails as [`json`] does.
pub(crate) async fn bytes(
    client: &Client,
    request: Request<Vec<u8>>,
    limit: Duration,
) -> Result<Vec<u8>, RequestFailure> {
    // The future is boxed, so that thousands of writes that wait for their turn keep no memory for a request in
    // progress.
    let answer = Box::pin(async { Ok(send(client, request).await?.into_body().collect_bytes().await?.into()) });
    tokio::time::timeout(limit, answer).await.map_err(|_| RequestFailure::TimedOut(limit))?
}

/// Sends the request. The caller must still read the body of its answer.
///
/// # Errors
/// The server refused, or did not answer.
pub(crate) async fn send(client: &Client, request: Request<Vec<u8>>) -> Result<Response<Body>, RequestFailure> {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let answer = client.send(request.map(Body::from)).await?;
    let code = answer.status();
    trace!(%method, %uri, code = code.as_u16(), version = ?answer.version(), "answered");
    if !code.is_client_error() && !code.is_server_error() {
        return Ok(answer);
    }
    // The header may also contain an HTTP date. API servers do not send a date, and client-go also ignores a date.
    let retry_after = answer.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok()).unwrap_or(0);
    let body = answer.into_body().collect_bytes().await?;
    Err(RequestFailure::Api(Box::new(refusal(code, &body, retry_after))))
}

/// The server's refusal as a `Status`, with the answer's code and the seconds of its `Retry-After`.
fn refusal(code: http::StatusCode, body: &[u8], retry_after: u32) -> Status {
    let mut status = match serde_json::from_slice::<Value>(body) {
        Ok(object) if object["kind"] == "Status" => serde_json::from_value(object).unwrap_or_default(),
        Ok(_) => Status::default(),
        Err(_) => {
            let text = String::from_utf8_lossy(body);
            let text = text.trim();
            Status { message: text[..text.floor_char_boundary(MAX_TEXT)].to_owned(), ..Status::default() }
        }
    };
    if status.code == 0 {
        status.code = code.as_u16();
    }
    if status.message.is_empty() && status.reason.is_empty() {
        status.message = format!("the API server answered {code}");
    }
    if retry_after > 0 {
        let details = status.details.get_or_insert_with(no_details);
        details.retry_after_seconds = retry_after;
    }
    status
}

fn no_details() -> StatusDetails {
    StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_code_of_the_answer_whatever_its_body() {
        let said = |code: u16, body: &str| {
            let status = refusal(http::StatusCode::from_u16(code).unwrap(), body.as_bytes(), 0);
            (status.code, status.message)
        };
        assert_eq!(said(404, r#"{"paths": ["/api"]}"#), (404, "the API server answered 404 Not Found".into()));
        assert_eq!(said(404, r#"{"kind": "Status", "message": "no"}"#), (404, "no".into()));
        assert_eq!(said(429, "Too many requests\n"), (429, "Too many requests".into()));
        assert_eq!(said(502, ""), (502, "the API server answered 502 Bad Gateway".into()));
        assert_eq!(said(502, &"ä".repeat(2000)).1.len(), MAX_TEXT);
    }
}
