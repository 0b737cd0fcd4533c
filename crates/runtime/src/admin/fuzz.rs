//! Random requests. Each gets an answer, and none gives an order over plain HTTP.

use std::{
    future::IntoFuture as _,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fuzz_targets::{Random, rounds};
use tokio::{net::TcpListener, runtime::Runtime};

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW"];

const PATHS: [&str; 9] =
    ["/admin", "/plugins", "/settings", "/NodeName", "/reload", "/disable", "/..", "//", "/%2e%2e%2fadmin"];

#[test]
fn requests_are_answered_and_over_plain_http_they_reach_nobody() {
    let runtime = Runtime::new().unwrap();
    let (supervisor, mut inbox) = mpsc::channel(8);
    let n_messages = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&n_messages);
    // The task receives messages, and answers no message.
    runtime.spawn(async move {
        while inbox.recv().await.is_some() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let open = runtime.block_on(serve(routes(supervisor)));
    let plain = runtime.block_on(serve(refusing_routes()));
    rounds(100, |random| {
        let request = made_up(random);
        let text = String::from_utf8_lossy(&request).into_owned();
        let told = |address| {
            let status = status_of(address, &request).unwrap_or_else(|error| panic!("{error} after {text}"));
            assert!((200..600).contains(&status), "{status} for {text}");
            status
        };
        told(open);
        let before = n_messages.load(Ordering::SeqCst);
        assert!(told(plain) >= 400, "{text}");
        assert_eq!(n_messages.load(Ordering::SeqCst), before, "{text}");
    });
}

async fn serve(routes: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, routes).into_future());
    address
}

fn made_up(random: &mut Random) -> Vec<u8> {
    let mut path: String = (0..=random.below(5)).map(|_| *random.one_of(&PATHS)).collect();
    if random.below(3) == 0 {
        path = (*random.one_of(&["/admin/plugins", "/admin/settings", "/admin/plugins/NodeName/disable"])).to_owned();
    }
    let method = random.one_of(&METHODS);
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n").into_bytes();
    if random.below(2) == 0 {
        bytes.extend(b"X-Noise: ");
        // The bytes contain no line ends, because a line end would begin another header.
        bytes.extend((0..random.below(2000)).map(|_| random.byte()).filter(|byte| !b"\r\n\0".contains(byte)));
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"\r\n");
    bytes
}

/// The status of the response.
fn status_of(address: SocketAddr, request: &[u8]) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    status.ok_or_else(|| std::io::Error::other(format!("no answer but {text:?}")))
}
