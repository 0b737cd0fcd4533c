//! The facts that plugins share ([`berth_framework::ShareFacts`]): what they reserved for pods and the API server does not
//! show yet. The cache has them as objects, so all plugins that read their kinds get them with the next delta.

use std::{collections::BTreeMap, sync::Arc};

use berth_cache::Cache;
use berth_framework::{CycleId, Fact};
use berth_model::ObjectKey;

/// The limit of the bytes of a plugin's facts in all profiles. The fact about a pod with eight devices takes some 2 kB.
const MAX_BYTES: usize = 32 << 20;

/// The publishers of the facts in the cache, by the name of the plugin.
#[derive(Debug, Default)]
pub(crate) struct SharedFacts(BTreeMap<String, PluginFacts>);

/// The facts of the plugins with one name.
#[derive(Debug, Default)]
struct PluginFacts {
    published: BTreeMap<ObjectKey, Publication>,
    n_bytes: usize,
}

/// The last publication of a fact.
#[derive(Debug)]
struct Publication {
    /// The `schedulerName` of the profile. Only its plugin can take the fact back.
    scheduler_name: Arc<str>,
    cycle: CycleId,
    n_bytes: usize,
}

impl SharedFacts {
    /// Enters what a plugin of the profile published after a call about the cycle. Returns the number of facts that are
    /// left out because the plugin's facts would take too many bytes.
    pub(crate) fn publish(
        &mut self,
        scheduler_name: &Arc<str>,
        cycle: CycleId,
        plugin: &str,
        facts: Vec<Fact>,
        cache: &mut Cache,
    ) -> usize {
        let of_plugin = self.0.entry(plugin.to_owned()).or_default();
        let mut n_left_out = 0;
        for fact in facts {
            let key = fact.key(plugin);
            let known = of_plugin.published.get(&key);
            let Some(json) = fact.json else {
                // Another profile may have published the fact since then. Only that profile can remove it.
                if known.is_some_and(|known| known.scheduler_name == *scheduler_name) {
                    of_plugin.remove(&key, cache);
                }
                continue;
            };
            let n_bytes = json.len().saturating_add(key.name.len());
            let n_others = of_plugin.n_bytes.saturating_sub(known.map_or(0, |known| known.n_bytes));
            if n_others.saturating_add(n_bytes) > MAX_BYTES {
                n_left_out += 1;
                continue;
            }
            of_plugin.n_bytes = n_others + n_bytes;
            let publication = Publication { scheduler_name: Arc::clone(scheduler_name), cycle, n_bytes };
            of_plugin.published.insert(key.clone(), publication);
            cache.set_object(key, Some(json));
        }
        n_left_out
    }

    /// Takes back what the plugin's instance of the profile published in the cycle. The instance was lost, and its pod
    /// gives the node back.
    pub(crate) fn end_cycle(&mut self, scheduler_name: &str, cycle: CycleId, plugin: &str, cache: &mut Cache) {
        if let Some(of_plugin) = self.0.get_mut(plugin) {
            let is_of_cycle = |known: &Publication| known.cycle == cycle && *known.scheduler_name == *scheduler_name;
            of_plugin.remove_all(is_of_cycle, cache);
        }
    }

    /// Takes back the facts of plugins that a profile no longer has. `has` gets the `schedulerName` and the name of the
    /// plugin.
    pub(crate) fn retain(&mut self, has: impl Fn(&str, &str) -> bool, cache: &mut Cache) {
        for (plugin, of_plugin) in &mut self.0 {
            of_plugin.remove_all(|known| !has(&known.scheduler_name, plugin), cache);
        }
    }
}

impl PluginFacts {
    fn remove_all(&mut self, is_over: impl Fn(&Publication) -> bool, cache: &mut Cache) {
        let over = self.published.iter().filter(|(_, known)| is_over(known));
        let over: Vec<ObjectKey> = over.map(|(key, _)| key.clone()).collect();
        over.iter().for_each(|key| self.remove(key, cache));
    }

    fn remove(&mut self, key: &ObjectKey, cache: &mut Cache) {
        if let Some(known) = self.published.remove(key) {
            self.n_bytes = self.n_bytes.saturating_sub(known.n_bytes);
            cache.set_object(key.clone(), None);
        }
    }
}
