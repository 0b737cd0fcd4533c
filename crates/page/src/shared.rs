//! Views that were made a moment ago. Browsers that show the same address share one view.
//!
//! Each browser's right to see a view is checked before the browser gets a shared view.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::{sync::Mutex, time::Instant};

use crate::{layout::View, viewer::Refusal};

/// The maximum number of addresses that are kept, because clients choose them.
const MAX_KEPT: usize = 64;

/// The views that were made, by address. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedViews(Arc<std::sync::Mutex<HashMap<String, Slot>>>);

/// The lock is held while the view is made, so that the view is made only once.
type Slot = Arc<Mutex<Option<Made>>>;

#[derive(Debug)]
struct Made {
    at: Instant,
    view: Arc<View>,
}

impl SharedViews {
    /// The view of the address. A new view is made if the newest view is older than `every`.
    ///
    /// # Errors
    /// Fails as `make` does.
    pub(crate) async fn get(
        &self,
        address: String,
        every: Duration,
        make: impl Future<Output = Result<View, Refusal>> + Send,
    ) -> Result<Arc<View>, Refusal> {
        let slot = self.slot(address);
        let mut made = slot.lock().await;
        if let Some(Made { at, view }) = &*made
            && at.elapsed() < every
        {
            return Ok(Arc::clone(view));
        }
        let view = Arc::new(make.await?);
        *made = Some(Made { at: Instant::now(), view: Arc::clone(&view) });
        Ok(view)
    }

    /// Forgets the view of an address, because the data of the view has changed.
    pub(crate) fn forget(&self, address: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(address);
    }

    fn slot(&self, address: String) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MAX_KEPT && !slots.contains_key(&address) {
            // Views that a request waits for are kept.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        if slots.len() >= MAX_KEPT && !slots.contains_key(&address) {
            return Slot::default();
        }
        Arc::clone(slots.entry(address).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use maud::html;

    use super::*;
    use crate::layout::Age;

    #[tokio::test(start_paused = true)]
    async fn any_number_of_browsers_share_one_rendering() {
        let (shared, n_made) = (SharedViews::default(), AtomicUsize::new(0));
        let make = async || {
            n_made.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
            let every = Duration::from_secs(1);
            Ok(View { title: String::new(), filters: html! {}, content: html! {}, age: Age::ago(0), every })
        };
        let get = async |address: String| shared.get(address, Duration::from_secs(1), make()).await.expect("a view");
        futures::future::join_all((0..10).map(|_| get("/page".to_owned()))).await;
        assert_eq!(n_made.load(Ordering::Relaxed), 1);
        tokio::time::advance(Duration::from_secs(2)).await;
        get("/page".to_owned()).await;
        assert_eq!(n_made.load(Ordering::Relaxed), 2);
        for number in 0..1_000 {
            get(number.to_string()).await;
        }
        assert!(shared.0.lock().expect("no panic").len() <= MAX_KEPT);
    }
}
