//! The history of every pod, in the order of the API server's watch, and the check that it is correct.
//!
//! A pod on a node counts with the smallest amount of CPU that it has requested so far: the scheduler may have seen a
//! resize late, or may have used the free resources of one resize before the next resize. [`Account::settle`] ends this
//! tolerance for all resizes so far.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;

use crate::plan::{NODE_MILLI_CPU, NODE_PODS};

/// Everything that the watch has reported.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pods: BTreeMap<String, PodAccount>,
    nodes: BTreeMap<String, NodeAccount>,
    pub(crate) n_bound: usize,
    pub(crate) n_deleted: usize,
}

#[derive(Debug, Default)]
struct PodAccount {
    milli_cpu: u32,
    /// The amount that counts on the pod's node.
    least_milli_cpu: u32,
    node: Option<String>,
    is_gone: bool,
    history: Vec<String>,
}

#[derive(Debug, Default)]
struct NodeAccount {
    milli_cpu: u32,
    /// The amount that pods request now. Users may resize pods beyond the node's capacity.
    milli_cpu_now: u32,
    pods: u32,
}

/// The watch's message about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Applied,
    Deleted,
}

impl Account {
    /// Records a message of the watch. `seconds` is the time in the run, for the history.
    ///
    /// # Errors
    /// A pod changed its node, or was bound to a node without room for it.
    pub(crate) fn note(&mut self, news: News, pod: &Pod, seconds: f64) -> Result<()> {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).filter(|node| !node.is_empty());
        let version = pod.metadata.resource_version.as_deref().unwrap_or_default();
        let milli_cpu = milli_cpu(pod);
        let account = self.pods.entry(name.clone()).or_insert_with(|| PodAccount {
            milli_cpu,
            least_milli_cpu: milli_cpu,
            ..PodAccount::default()
        });
        let leaves = if pod.metadata.deletion_timestamp.is_some() { ", leaving" } else { "" };
        let shown = node.as_deref().unwrap_or("no node");
        account
            .history
            .push(format!("{seconds:8.2} s, version {version}: {news:?}, {milli_cpu}m CPU, {shown}{leaves}"));
        let before = account.node.clone();
        if news == News::Deleted {
            if !account.is_gone {
                self.n_deleted += 1;
                self.leave(&name);
            }
            return Ok(());
        }
        match (before, node) {
            (None, None) => {
                account.least_milli_cpu = account.least_milli_cpu.min(milli_cpu);
                account.milli_cpu = milli_cpu;
                Ok(())
            }
            (None, Some(node)) => self.bind(&name, node, milli_cpu),
            (Some(before), Some(node)) if before == node => {
                self.resize(&name, &node, milli_cpu);
                Ok(())
            }
            (Some(before), node) => bail!(
                "{name} was bound to {before} and then to {}\n{}",
                node.as_deref().unwrap_or("no node"),
                self.history(&name)
            ),
        }
    }

    fn bind(&mut self, name: &str, node: String, milli_cpu: u32) -> Result<()> {
        let Some(pod) = self.pods.get_mut(name) else { return Ok(()) };
        pod.milli_cpu = milli_cpu;
        pod.least_milli_cpu = pod.least_milli_cpu.min(milli_cpu);
        pod.node = Some(node.clone());
        let account = self.nodes.entry(node.clone()).or_default();
        account.milli_cpu += pod.least_milli_cpu;
        account.milli_cpu_now += milli_cpu;
        account.pods += 1;
        self.n_bound += 1;
        if account.milli_cpu > NODE_MILLI_CPU || account.pods > NODE_PODS {
            let NodeAccount { milli_cpu, pods, .. } = account;
            let problem = format!(
                "{node} is overcommitted: {name} makes it {milli_cpu}m CPU of {NODE_MILLI_CPU}m and {pods} pods of {NODE_PODS}"
            );
            let there = self.pods.iter().filter(|(_, pod)| pod.node.as_ref() == Some(&node) && !pod.is_gone);
            let there: String = there.map(|(name, _)| self.history(name)).collect();
            bail!("{problem}\n{there}");
        }
        Ok(())
    }

    fn resize(&mut self, name: &str, node: &str, milli_cpu: u32) {
        let (Some(pod), Some(node)) = (self.pods.get_mut(name), self.nodes.get_mut(node)) else { return };
        if pod.is_gone {
            return;
        }
        node.milli_cpu_now = node.milli_cpu_now - pod.milli_cpu + milli_cpu;
        pod.milli_cpu = milli_cpu;
        let least = pod.least_milli_cpu.min(milli_cpu);
        node.milli_cpu -= pod.least_milli_cpu - least;
        pod.least_milli_cpu = least;
    }

    fn leave(&mut self, name: &str) {
        let Some(pod) = self.pods.get_mut(name) else { return };
        pod.is_gone = true;
        if let Some(node) = pod.node.as_ref().and_then(|node| self.nodes.get_mut(node)) {
            node.milli_cpu -= pod.least_milli_cpu;
            node.milli_cpu_now -= pod.milli_cpu;
            node.pods -= 1;
        }
    }

    /// Makes every pod count with its current request from now on. A node with pods that were resized beyond its
    /// capacity gets no further pods.
    pub(crate) fn settle(&mut self) {
        for pod in self.pods.values_mut() {
            pod.least_milli_cpu = pod.milli_cpu;
        }
        for node in self.nodes.values_mut() {
            node.milli_cpu = node.milli_cpu_now;
        }
    }

    pub(crate) fn n_pods(&self) -> usize {
        self.pods.len()
    }

    /// The pods that exist and have no node.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &str> {
        self.pods.iter().filter(|(_, pod)| !pod.is_gone && pod.node.is_none()).map(|(name, _)| name.as_str())
    }

    /// The pods of [`Self::pending`] that fit on one of the `nodes`.
    pub(crate) fn stuck(&self, nodes: &[String]) -> Vec<&str> {
        let room = |node: &String| {
            let Some(node) = self.nodes.get(node) else { return NODE_MILLI_CPU };
            if node.pods < NODE_PODS { NODE_MILLI_CPU.saturating_sub(node.milli_cpu_now) } else { 0 }
        };
        let largest = nodes.iter().map(room).max().unwrap_or_default();
        self.pending().filter(|name| self.pods.get(*name).is_some_and(|pod| pod.milli_cpu <= largest)).collect()
    }

    /// The watch's reports about a pod.
    pub(crate) fn history(&self, name: &str) -> String {
        let lines = self.pods.get(name).map(|pod| pod.history.join("\n    ")).unwrap_or_default();
        format!("  {name}:\n    {lines}\n")
    }
}

/// The sum of the requests of all its containers.
fn milli_cpu(pod: &Pod) -> u32 {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let cpu = |container: &k8s_openapi::api::core::v1::Container| {
        let quantity = container.resources.as_ref()?.requests.as_ref()?.get("cpu")?;
        match quantity.0.strip_suffix('m') {
            Some(thousandths) => thousandths.parse().ok(),
            None => quantity.0.parse().ok().map(|whole: u32| whole * 1000),
        }
    };
    containers.iter().filter_map(cpu).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, cpu: &str, node: &str) -> Pod {
        let containers = json!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": containers}});
        serde_json::from_value(pod).expect("a pod")
    }

    fn account(events: &[(News, Pod)]) -> Result<Account> {
        let mut account = Account::default();
        events.iter().try_for_each(|(news, pod)| account.note(*news, pod, 0.0))?;
        Ok(account)
    }

    #[test]
    fn a_second_node_and_too_full_a_node_are_told_with_the_history() {
        let moved = [(News::Applied, pod("a", "1", "n")), (News::Applied, pod("a", "1", "m"))];
        let error = account(&moved).expect_err("two nodes").to_string();
        assert!(error.starts_with("a was bound to n and then to m\n") && error.contains("1000m CPU, m"), "{error}");
        let full = [(News::Applied, pod("a", "10", "n")), (News::Applied, pod("b", "7", "n"))];
        let error = account(&full).expect_err("17 of 16").to_string();
        assert!(error.starts_with("n is overcommitted: b makes it 17000m CPU of 16000m"), "{error}");
    }

    #[test]
    fn pods_that_leave_make_room_and_resizes_are_the_users() {
        let events = [
            (News::Applied, pod("a", "10", "n")),
            (News::Deleted, pod("a", "10", "n")),
            (News::Applied, pod("b", "7", "")),
            (News::Applied, pod("b", "7", "n")),
            (News::Applied, pod("b", "16", "n")),
            (News::Applied, pod("c", "9", "n")),
            (News::Applied, pod("d", "1", "")),
        ];
        let mut account = account(&events).expect("room for all");
        assert_eq!((account.n_bound, account.n_deleted, account.n_pods()), (3, 1, 4));
        assert!(account.stuck(&["n".to_owned()]).is_empty());
        assert_eq!(account.stuck(&["n".to_owned(), "m".to_owned()]), ["d"]);
        account.settle();
        account.note(News::Applied, &pod("e", "1", "n"), 0.0).expect_err("25 of 16 after all");
    }
}
