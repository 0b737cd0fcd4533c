//! Reports every request of a client to an observer, as client-go's `rest_client_*` metrics need it.
//!
//! Only the sender of a request knows whether the request is a retry, and how long it waited for its turn. The sender
//! notes both in the extensions of the request.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::body::{Body as _, Bytes, Frame};
use kube::client::Body;
use tower::{BoxError, service_fn};

use crate::transport::Transport;

/// An observer of requests. Its methods must not block.
pub trait RequestObserver: Send + Sync + 'static {
    /// The answer to a request has begun, or the request has failed.
    fn answered(&self, request: &ObservedRequest<'_>);

    /// The body of an answer was read to its end or dropped. `n_bytes` is the size of the part that was read, after
    /// decompression. Watches are not reported.
    fn read(&self, method: &str, n_bytes: u64);
}

/// A request, and the beginning of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedRequest<'a> {
    pub method: &'a str,
    /// The HTTP status; `None` if there was no answer.
    pub code: Option<u16>,
    /// The time from the request to the start of its answer.
    pub duration: Duration,
    /// The size of the request's body, if it is known.
    pub n_bytes: Option<u64>,
    /// The time for which the client's rate limit delayed the request; `None` if no limit applies to the request.
    pub rate_limited: Option<Duration>,
    /// Whether the request repeats a failed request.
    pub is_retry: bool,
}

/// The time for which the rate limit delayed a request.
#[derive(Clone, Copy)]
struct RateLimited(Duration);

/// The mark of a request that repeats a failed request.
#[derive(Clone, Copy)]
struct Retry;

/// Notes for the observer how long the rate limit delayed the request.
pub(crate) fn note_rate_limit<B>(request: &mut Request<B>, waited: Duration) {
    request.extensions_mut().insert(RateLimited(waited));
}

/// Notes for the observer that the request repeats a failed request.
pub(crate) fn note_retry<B>(request: &mut Request<B>) {
    request.extensions_mut().insert(Retry);
}

/// A transport that reports its requests to `observer`, watches included.
pub(crate) fn observed(transport: Transport, observer: Arc<dyn RequestObserver>) -> Transport {
    let beneath = transport.clone();
    transport.with_service(service_fn(move |request: Request<Body>| {
        let (beneath, observer) = (beneath.clone(), Arc::clone(&observer));
        async move {
            let (method, is_watch) = (request.method().clone(), is_watch(request.uri()));
            let rate_limited = request.extensions().get::<RateLimited>().map(|limited| limited.0);
            let is_retry = request.extensions().get::<Retry>().is_some();
            let n_bytes = request.body().size_hint().exact();
            let began = Instant::now();
            let answer = beneath.send(request).await;
            let code = answer.as_ref().ok().map(|it| it.status().as_u16());
            let (method_name, duration) = (method.as_str(), began.elapsed());
            observer.answered(&ObservedRequest {
                method: method_name,
                code,
                duration,
                n_bytes,
                rate_limited,
                is_retry,
            });
            match answer {
                Ok(answer) if !is_watch => Ok(answer.map(|body| measured(body, method, observer))),
                answer => answer,
            }
        }
    }))
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

/// The body. Its size is reported once it is dropped.
fn measured(
    body: UnsyncBoxBody<Bytes, BoxError>,
    method: Method,
    observer: Arc<dyn RequestObserver>,
) -> UnsyncBoxBody<Bytes, BoxError> {
    let mut size = BodySize { n_bytes: 0, method, observer };
    body.map_frame(move |frame| {
        size.add(&frame);
        frame
    })
    .boxed_unsync()
}

/// The bytes that were read of a body.
struct BodySize {
    n_bytes: u64,
    method: Method,
    observer: Arc<dyn RequestObserver>,
}

impl BodySize {
    fn add(&mut self, frame: &Frame<Bytes>) {
        self.n_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
}

impl Drop for BodySize {
    fn drop(&mut self) {
        self.observer.read(self.method.as_str(), self.n_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;
    use crate::{PodRef, RequestRate, Writer, test_server};

    #[derive(Default)]
    struct Heard {
        requests: Mutex<Vec<(String, Option<u16>, bool)>>,
        /// The sizes of request bodies, and of the bodies of answers.
        sizes: Mutex<(Vec<Option<u64>>, Vec<u64>)>,
        limited: Mutex<Vec<Option<Duration>>>,
    }

    impl RequestObserver for Heard {
        fn answered(&self, request: &ObservedRequest<'_>) {
            self.requests.lock().unwrap().push((request.method.to_owned(), request.code, request.is_retry));
            self.sizes.lock().unwrap().0.push(request.n_bytes);
            self.limited.lock().unwrap().push(request.rate_limited);
        }

        fn read(&self, method: &str, n_bytes: u64) {
            assert_eq!(method, "POST");
            self.sizes.lock().unwrap().1.push(n_bytes);
        }
    }

    fn pod() -> PodRef {
        PodRef { namespace: "default".into(), name: "a".into(), uid: "1".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_is_heard_of_with_its_answer() {
        let (transport, mut server) = test_server::transport();
        let heard = Arc::new(Heard::default());
        let writer = Writer::new(observed(transport, heard.clone()).into_client());
        let bound = tokio::spawn(async move { writer.bind(&pod(), "n1").await });
        server.next().await.lose();
        server.next().await.refuse(503, "ServiceUnavailable", "later");
        server.next().await.answer(201, &json!({}));
        assert_eq!(bound.await.unwrap(), Ok(()));
        let expected = [(None, false), (Some(503), true), (Some(201), true)];
        assert_eq!(*heard.requests.lock().unwrap(), expected.map(|(code, retry)| ("POST".to_owned(), code, retry)));
        let (sent, read) = heard.sizes.lock().unwrap().clone();
        assert!(sent.len() == 3 && sent.iter().all(|size| size.is_some_and(|size| size > 100)), "{sent:?}");
        assert!(read.len() == 2 && read[0] > 50 && read[1] == 2, "{read:?}");
        assert_eq!(*heard.limited.lock().unwrap(), [None; 3], "this writer has no limit");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_says_how_long_the_rate_limit_delayed_it() {
        let (transport, mut server) = test_server::transport();
        let heard = Arc::new(Heard::default());
        let writer = Writer::new(observed(transport, heard.clone()).into_client());
        let writer = writer.with_rate(RequestRate { per_second: 1.0, burst: 1 });
        let bound = tokio::spawn(async move { (writer.bind(&pod(), "n1").await, writer.bind(&pod(), "n1").await) });
        for _ in 0..2 {
            server.next().await.answer(201, &json!({}));
        }
        assert_eq!(bound.await.unwrap(), (Ok(()), Ok(())));
        let limited = heard.limited.lock().unwrap().clone();
        let [Some(first), Some(second)] = *limited else { panic!("{limited:?}") };
        assert!(first < Duration::from_millis(10) && second > Duration::from_millis(900), "{limited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_body_of_a_watch_is_not_measured() {
        let (transport, mut server) = test_server::transport();
        let heard = Arc::new(Heard::default());
        let client = observed(transport, heard.clone()).into_client();
        let request = Request::post("/api/v1/pods?limit=1&watch=true").body(Body::empty()).unwrap();
        let asked = tokio::spawn(async move { client.send(request).await });
        server.next().await.answer(200, &json!({}));
        drop(asked.await.unwrap().unwrap());
        assert_eq!(heard.sizes.lock().unwrap().1, [0; 0]);
        assert_eq!(heard.requests.lock().unwrap().len(), 1);
    }
}
