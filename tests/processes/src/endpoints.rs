//! The HTTP endpoints of a process, such as `/metrics`.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::task::spawn_blocking;

use crate::until;

const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The first of the ports for programs that must be given a port.
const FIRST_PORT: u16 = 20_000;

/// The number of these ports. They are below the ports that Linux chooses for connections, and for listeners that ask
/// for any port (`/proc/sys/net/ipv4/ip_local_port_range`, 32768 by default). Otherwise, a connection of another test
/// could take the port before the program listens on it.
const N_PORTS: u32 = 12_000;

/// Different addresses on loopback that are free. No two calls of a process return the same address.
pub fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); N];
    for address in &mut addresses {
        *address = free_address()?;
    }
    Ok(addresses)
}

fn free_address() -> Result<SocketAddr> {
    static N_TRIED: AtomicU32 = AtomicU32::new(0);
    for _ in 0..N_PORTS {
        // Processes that run at the same time begin at different ports.
        let number = process::id().wrapping_mul(97).wrapping_add(N_TRIED.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddr::from(([127, 0, 0, 1], FIRST_PORT + u16::try_from(number % N_PORTS)?));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port is free from {FIRST_PORT} on")
}

/// The place where a process answers over plain HTTP.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    address: SocketAddr,
}

impl Endpoints {
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the body of a GET. The answer must be 200. It blocks.
    pub fn get(&self, path: &str) -> Result<String> {
        let (status, body) = self.ask(path)?;
        ensure!(status.starts_with("HTTP/1.1 200"), "{path}: {status}: {body}");
        Ok(body)
    }

    /// Repeats the request until the answer is as expected, with any status code, and returns its body.
    pub async fn until(&self, path: &str, is_right: impl Fn(&str) -> bool) -> Result<String> {
        let endpoints = *self;
        let mut last = String::new();
        let found = until(path, async || {
            let path = path.to_owned();
            let Ok((_, body)) = spawn_blocking(move || endpoints.ask(&path)).await? else { return Ok(None) };
            last.clone_from(&body);
            Ok(is_right(&body).then_some(body))
        });
        found.await.with_context(|| format!("{path} last answered {last}"))
    }

    /// Returns the status line and the body.
    fn ask(&self, path: &str) -> Result<(String, String)> {
        let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        exchange(stream, path)
    }
}

/// The socket on which a scheduler receives orders about plugins, if it was started with [`crate::berth`].
#[derive(Clone, Debug)]
pub struct AdminSocket {
    path: PathBuf,
}

impl AdminSocket {
    /// The endpoints of the scheduler with this `home`.
    #[must_use]
    pub fn in_home(home: &Path) -> Self {
        Self { path: home.join("berth").join("admin.sock") }
    }

    /// Returns the body of a GET. The answer must be 200. It blocks.
    pub fn get(&self, path: &str) -> Result<String> {
        let stream = UnixStream::connect(&self.path).with_context(|| self.path.display().to_string())?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let (status, body) = exchange(stream, path)?;
        ensure!(status.starts_with("HTTP/1.1 200"), "{path}: {status}: {body}");
        Ok(body)
    }
}

/// Returns the status line and the body.
fn exchange(mut stream: impl Read + Write, path: &str) -> Result<(String, String)> {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
    let status = head.lines().next().unwrap_or_default().to_owned();
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok((status, if is_chunked { unchunk(body)? } else { body.to_owned() }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_free_and_differ() {
        let [first, second] = free_addresses().unwrap();
        let [third] = free_addresses().unwrap();
        let listeners = [first, second, third].map(|address| TcpListener::bind(address).unwrap());
        assert!(listeners.iter().all(|listener| listener.local_addr().unwrap().port() < 32_768));
    }

    #[test]
    fn chunks_are_joined() {
        assert_eq!(unchunk("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").unwrap(), "abcde");
        assert!(unchunk("9\r\nabc\r\n").is_err());
    }
}
