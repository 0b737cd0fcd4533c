//! Questions to the scheduler's own HTTP server.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

/// The body of a GET.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{path}: {}", head.lines().next().unwrap_or_default());
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        return unchunk(body);
    }
    Ok(body.to_owned())
}

fn unchunk(mut body: &str) -> Result<String> {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).context("a chunk's size")?;
        if size == 0 {
            break;
        }
        whole.push_str(rest.get(..size).context("a chunk is cut off")?);
        body = rest.get(size + 2..).unwrap_or_default();
    }
    Ok(whole)
}
