//! The request that pending pods come with their whole JSON.
//!
//! The watches drop the JSON of pods while no plugin may read it. An operator may grant it while the scheduler runs. The
//! supervisor then asks for whole pods. Plugins that read the JSON serve only after all pods were reported once more.

use std::{fmt, sync::Arc};

use tokio::sync::oneshot;

/// Asks the watches for whole pods.
#[derive(Clone)]
pub struct WholePods(Arc<dyn Fn(oneshot::Sender<()>) + Send + Sync>);

impl WholePods {
    /// `request` passes a request to the watches. They answer once every pending pod has been sent to the scheduling
    /// thread with its JSON. They drop the request if they end, which they do only when the process ends.
    pub fn new(request: impl Fn(oneshot::Sender<()>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(request))
    }

    /// Requests whole pods. If pods are whole already, the answer comes at once.
    pub(crate) fn request(&self) -> oneshot::Receiver<()> {
        let (answer, answered) = oneshot::channel();
        (self.0)(answer);
        answered
    }
}

impl fmt::Debug for WholePods {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WholePods")
    }
}

/// Waits for the answer to the request, if there is one, and otherwise forever. The future can be dropped without loss.
pub(crate) async fn pods_are_whole(requested: &mut Option<oneshot::Receiver<()>>) {
    let Some(answer) = requested else { return std::future::pending().await };
    let is_answered = answer.await.is_ok();
    *requested = None;
    if !is_answered {
        // The process is ending.
        std::future::pending().await
    }
}
