//! The swaps that the answers to operators' orders wait for, because an answer says how many pods go on without the
//! plugin.

use std::time::Duration;

use berth_lifecycle::Swap;
use berth_model::{BinaryId, PluginName};
use tokio::{sync::oneshot, time::timeout};

/// The maximum time for which an answer waits for the scheduling thread.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct AwaitedSwaps(Vec<AwaitedSwap>);

/// A swap in one profile.
#[derive(Debug)]
struct AwaitedSwap {
    plugin: PluginName,
    scheduler_name: String,
    /// The binary that serves after the swap. The binary distinguishes this swap from an earlier swap, whose result
    /// arrives first.
    binary: Option<BinaryId>,
    /// The channel for the number of pods that go on without the plugin's answer.
    n_released: oneshot::Sender<usize>,
}

/// The results of the swaps of one order, which arrive later.
#[derive(Debug)]
pub(crate) struct SwapResults(Vec<oneshot::Receiver<usize>>);

impl AwaitedSwaps {
    /// Begins to wait for these swaps.
    pub(crate) fn begin<B>(&mut self, swaps: &[Swap<B>]) -> SwapResults {
        // A profile that no longer exists gives no result.
        self.0.retain(|awaited| !awaited.n_released.is_closed());
        let mut results = Vec::new();
        for swap in swaps {
            for scheduler_name in &swap.scheduler_names {
                let (n_released, result) = oneshot::channel();
                let (plugin, scheduler_name) = (swap.plugin.clone(), scheduler_name.clone());
                self.0.push(AwaitedSwap { plugin, scheduler_name, binary: swap.service.id(), n_released });
                results.push(result);
            }
        }
        SwapResults(results)
    }

    /// Handles the result of a swap, whether or not an order waits for this result.
    pub(crate) fn ended(
        &mut self,
        plugin: &PluginName,
        scheduler_name: &str,
        binary: Option<BinaryId>,
        n_released: usize,
    ) {
        let is_it = |awaited: &mut AwaitedSwap| {
            awaited.plugin == *plugin && awaited.scheduler_name == scheduler_name && awaited.binary == binary
        };
        for awaited in self.0.extract_if(.., is_it) {
            // The answer may have stopped waiting.
            let _ = awaited.n_released.send(n_released);
        }
    }
}

impl SwapResults {
    /// The number of pods that Permit held in all profiles and that go on without the plugin's answer; `None` if the
    /// scheduling thread does not report this number in time.
    pub(crate) async fn n_released(self) -> Option<usize> {
        let sum = async {
            let mut n_released = 0;
            for result in self.0 {
                n_released += result.await.ok()?;
            }
            Some(n_released)
        };
        timeout(LONGEST_WAIT, sum).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use berth_lifecycle::Service;

    use super::*;

    fn disabled(scheduler_names: &[&str]) -> Swap<()> {
        let scheduler_names = scheduler_names.iter().map(|name| (*name).to_owned()).collect();
        Swap { plugin: "Gang".into(), scheduler_names, service: Service::Pass("it is disabled".to_owned()) }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pods_of_all_profiles_are_counted() {
        let mut awaited = AwaitedSwaps::default();
        let results = awaited.begin(&[disabled(&["a", "b"])]);
        let gang = PluginName::from("Gang");
        awaited.ended(&gang, "a", Some(BinaryId::Native), 7);
        awaited.ended(&"Other".into(), "a", None, 9);
        awaited.ended(&gang, "a", None, 2);
        awaited.ended(&gang, "b", None, 3);
        assert_eq!(results.n_released().await, Some(5), "an earlier swap and other plugins do not count");
        assert!(awaited.0.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_does_not_wait_for_ever() {
        let mut awaited = AwaitedSwaps::default();
        assert_eq!(awaited.begin(&[disabled(&["a"])]).n_released().await, None);
        assert_eq!(awaited.begin::<()>(&[]).n_released().await, Some(0));
        assert!(awaited.0.is_empty(), "a swap without a waiting order leaves no entry");
    }
}
