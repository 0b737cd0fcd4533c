//! Reports every request of a client to an observer, as client-go's `rest_client_*` metrics need it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::Request;
use kube::client::Body;
use tower::service_fn;

use crate::transport::Transport;

/// An observer of requests. It is called for each request once its answer begins, and must not block.
pub trait RequestObserver: Send + Sync + 'static {
    /// `code` is the HTTP status; `None` if there was no answer.
    fn answered(&self, method: &str, code: Option<u16>, duration: Duration);
}

/// A transport that reports its requests to `observer`, watches included.
pub(crate) fn observed(transport: Transport, observer: Arc<dyn RequestObserver>) -> Transport {
    let beneath = transport.clone();
    transport.with_service(service_fn(move |request: Request<Body>| {
        let (beneath, observer) = (beneath.clone(), Arc::clone(&observer));
        async move {
            let method = request.method().clone();
            let began = Instant::now();
            let answer = beneath.send(request).await;
            observer.answered(method.as_str(), answer.as_ref().ok().map(|it| it.status().as_u16()), began.elapsed());
            answer
        }
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;
    use crate::{PodRef, Writer, test_server};

    #[derive(Default)]
    struct Heard(Mutex<Vec<(String, Option<u16>)>>);

    impl RequestObserver for Heard {
        fn answered(&self, method: &str, code: Option<u16>, _duration: Duration) {
            self.0.lock().unwrap().push((method.to_owned(), code));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_is_heard_of_with_its_answer() {
        let (transport, mut server) = test_server::transport();
        let heard = Arc::new(Heard::default());
        let writer = Writer::new(observed(transport, heard.clone()).into_client());
        let pod = PodRef { namespace: "default".into(), name: "a".into(), uid: "1".into() };
        let bound = tokio::spawn(async move { writer.bind(&pod, "n1").await });
        server.next().await.lose();
        server.next().await.refuse(503, "ServiceUnavailable", "later");
        server.next().await.answer(201, &json!({}));
        assert_eq!(bound.await.unwrap(), Ok(()));
        let expected = [None, Some(503), Some(201)].map(|code| ("POST".to_owned(), code));
        assert_eq!(*heard.0.lock().unwrap(), expected);
    }
}
