//! The swaps that the scheduling thread was asked for and whose results have not arrived. The answer to an operator's order
//! waits for the results of its swaps, because it says how many pods go on without the plugin.

use std::time::Duration;

use berth_lifecycle::Swap;
use berth_model::{BinaryId, PluginName};
use tokio::{sync::oneshot, time::timeout};

/// The maximum time for which an answer waits for the scheduling thread.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// In the order in which the scheduling thread was asked. The results of one plugin in one profile arrive in this order.
#[derive(Debug, Default)]
pub(crate) struct SentSwaps(Vec<SentSwap>);

/// A swap in one profile.
#[derive(Debug)]
struct SentSwap {
    plugin: PluginName,
    scheduler_name: String,
    /// What serves after the swap. Several swaps may have the same, for example `None` for "no binary serves".
    binary: Option<BinaryId>,
    /// The channel for the number of pods that go on without the plugin's answer. Nobody listens if no order waits.
    n_released: oneshot::Sender<usize>,
}

/// The results of some swaps, which arrive later.
#[derive(Debug, Default)]
pub(crate) struct SwapResults(Vec<oneshot::Receiver<usize>>);

impl SentSwaps {
    /// Notes a swap in all of its profiles. Every swap must be noted, because the order tells equal swaps apart.
    pub(crate) fn send<B>(&mut self, swap: &Swap<B>, results: &mut SwapResults) {
        for scheduler_name in &swap.scheduler_names {
            let (n_released, result) = oneshot::channel();
            let (plugin, scheduler_name) = (swap.plugin.clone(), scheduler_name.clone());
            self.0.push(SentSwap { plugin, scheduler_name, binary: swap.service.id(), n_released });
            results.0.push(result);
        }
    }

    /// Takes in the result of a swap: the first one that was asked for with this outcome. Earlier swaps of the plugin in
    /// the profile have no result, because the profile did not exist.
    pub(crate) fn ended(
        &mut self,
        plugin: &PluginName,
        scheduler_name: &str,
        binary: Option<BinaryId>,
        n_released: usize,
    ) {
        let is_of_profile = |sent: &SentSwap| sent.plugin == *plugin && sent.scheduler_name == scheduler_name;
        let is_it = |sent: &SentSwap| is_of_profile(sent) && sent.binary == binary;
        let Some(at) = self.0.iter().position(is_it) else { return };
        let ended = self.0.remove(at);
        let mut number = 0;
        self.0.retain(|sent| {
            number += 1;
            number > at || !is_of_profile(sent)
        });
        // No order may wait for the result, or the answer may have stopped waiting.
        let _ = ended.n_released.send(n_released);
    }
}

impl SwapResults {
    /// The number of pods that Permit held in all profiles and that go on without the plugin's answer; `None` if the
    /// scheduling thread does not say so in time.
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

    /// Asks for a swap after which nothing serves.
    fn disable(sent: &mut SentSwaps, scheduler_names: &[&str]) -> SwapResults {
        let scheduler_names = scheduler_names.iter().map(|name| (*name).to_owned()).collect();
        let service = Service::<()>::Pass("it is disabled".to_owned());
        let mut results = SwapResults::default();
        sent.send(&Swap { plugin: "Gang".into(), scheduler_names, service }, &mut results);
        results
    }

    #[tokio::test(start_paused = true)]
    async fn the_pods_of_all_profiles_are_counted() {
        let mut sent = SentSwaps::default();
        let results = disable(&mut sent, &["a", "b"]);
        let gang = PluginName::from("Gang");
        sent.ended(&gang, "a", Some(BinaryId::Native), 7);
        sent.ended(&"Other".into(), "a", None, 9);
        sent.ended(&gang, "a", None, 2);
        sent.ended(&gang, "b", None, 3);
        assert_eq!(results.n_released().await, Some(5), "other swaps and other plugins do not count");
        assert!(sent.0.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_swap_with_the_same_outcome_does_not_count() {
        let mut sent = SentSwaps::default();
        let _quarantine = disable(&mut sent, &["a"]);
        let results = disable(&mut sent, &["a"]);
        let gang = PluginName::from("Gang");
        sent.ended(&gang, "a", None, 0);
        sent.ended(&gang, "a", None, 4);
        assert_eq!(results.n_released().await, Some(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_swap_in_a_missing_profile_is_forgotten_at_the_next_result() {
        let mut sent = SentSwaps::default();
        let without_result = disable(&mut sent, &["a"]);
        let service = Service::Native(());
        let mut results = SwapResults::default();
        sent.send(&Swap { plugin: "Gang".into(), scheduler_names: vec!["a".to_owned()], service }, &mut results);
        sent.ended(&"Gang".into(), "a", Some(BinaryId::Native), 1);
        assert!(sent.0.is_empty());
        assert_eq!(without_result.n_released().await, None);
        assert_eq!(results.n_released().await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_does_not_wait_for_ever() {
        let mut sent = SentSwaps::default();
        assert_eq!(disable(&mut sent, &["a"]).n_released().await, None);
        assert_eq!(SwapResults::default().n_released().await, Some(0));
    }
}
