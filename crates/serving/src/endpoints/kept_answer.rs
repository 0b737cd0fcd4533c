//! An answer that serves all requests for a while, because it is as large as the cluster.

use std::{sync::Arc, time::Duration};

use axum::body::Bytes;
use tokio::{sync::Mutex, time::Instant};

/// The time for which one answer serves all requests. Scrapers ask every 15 s or more rarely.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(5);

/// The last answer. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct KeptAnswer(
    /// The lock is held while an answer is made, so that only one answer is made at a time.
    Arc<Mutex<Option<(Instant, Bytes)>>>,
);

impl KeptAnswer {
    /// The last answer, if it is less than five seconds old, or else the answer that `make` gives. `None` if `make`
    /// gives no answer.
    pub async fn get(&self, make: impl Future<Output = Option<Bytes>> + Send) -> Option<Bytes> {
        let mut kept = self.0.lock().await;
        if let Some((made_at, answer)) = &*kept
            && made_at.elapsed() < KEPT_FOR
        {
            return Some(answer.clone());
        }
        let answer = make.await?;
        *kept = Some((Instant::now(), answer.clone()));
        // The answer is dropped even if there is no next request.
        let slot = Arc::clone(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(KEPT_FOR).await;
            drop(slot.lock().await.take_if(|(made_at, _)| made_at.elapsed() >= KEPT_FOR));
        });
        Some(answer)
    }

    #[cfg(test)]
    pub(super) async fn is_empty(&self) -> bool {
        self.0.lock().await.is_none()
    }
}
