//! A minimal HTTP client: one request per connection, and the answer is read to its end.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// The body as JSON, or as a string if the body is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| Value::from(self.body.as_str()))
    }

    /// All values of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// Sends a request and reads the whole answer.
pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let mut request = format!("{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("the answer is read");
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status =
        lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok()).expect("a status");
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let rest = &bytes[end + 4..];
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { unchunk(rest) } else { rest.to_vec() };
    Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
    body
}

/// Reads a streaming answer until it contains `wanted`.
pub(crate) async fn wait_for(address: SocketAddr, target: &str, wanted: &str) {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let request = format!("GET {target} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let read = stream.read_buf(&mut seen).await.expect("the answer is read");
        assert!(read > 0, "{target} ended without {wanted}: {}", String::from_utf8_lossy(&seen));
    }
}

/// Watches an object, from a version or from the current state on, until an event has the wanted content. Returns its
/// object.
pub(crate) async fn wait_until(
    address: SocketAddr,
    collection: &str,
    name: &str,
    since: &str,
    is_wanted: impl Fn(&str, &Value) -> bool,
) -> Value {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    let mut stream = BufReader::new(stream);
    // The older protocol has no chunks, so each line of the body is an event. The time limit ends a wait without
    // success.
    let target = format!(
        "{collection}?watch=true&timeoutSeconds=60&resourceVersion={since}&fieldSelector=metadata.name%3D{name}"
    );
    let request = format!("GET {target} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut last = String::new();
    loop {
        let mut line = String::new();
        let read = stream.read_line(&mut line).await.expect("the answer is read");
        assert!(read > 0, "{target} ended; last was {last}");
        let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
        if is_wanted(event["type"].as_str().unwrap_or_default(), &event["object"]) {
            return event["object"].clone();
        }
        last = line;
    }
}
