//! All plugins, which binary serves where, and what follows from whatever happens to them.
//!
//! Pure: it compiles nothing, waits for nothing and is told the time. Each method takes a fact or a wish and gives back a
//! [`Consequences`]: the swaps that bring the scheduler to what the roster has decided, and the news for log and metrics.

use berth_model::Time;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_config::PluginHostSettings;
use berth_framework::{Grants, Manifest, PluginFactory, Points};
use berth_wasm_host::Limits;

use super::{
    binary::{Binary, Source},
    entry::{Choice, Entry, Serving, Verdict},
    rules::{Granted, Rules},
    stand_in::StandIn,
};

/// The watches drop what nobody may see, and cannot get it back while they run.
const NO_POD_JSON: &str =
    "wants pending pods as JSON, which no plugin was granted when the scheduler started: restart it";

/// The plugins by name.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pub rules: Rules,
    entries: BTreeMap<String, Entry>,
}

/// A plugin of the plugins directory, in words.
#[derive(Debug)]
pub(crate) struct Installed<'a> {
    pub name: &'a str,
    pub text: String,
}

/// What is to be done and told.
#[derive(Debug, Default)]
pub(crate) struct Consequences {
    pub swaps: Vec<Swap>,
    pub news: Vec<News>,
}

/// These profiles are to have their instances of a plugin from this factory.
#[derive(Clone, Debug)]
pub(crate) struct Swap {
    pub plugin: String,
    pub scheduler_names: Vec<String>,
    pub factory: Arc<dyn PluginFactory>,
    pub grants: Grants,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// A binary may not serve; what served before goes on.
    Refused {
        plugin: String,
        reason: String,
    },
    /// A new binary gave way to the one before.
    RolledBack {
        plugin: String,
        digest: String,
        reason: String,
    },
    Quarantined {
        plugin: String,
        milliseconds: u64,
        reason: String,
    },
    Released {
        plugin: String,
    },
    /// A new binary's probation is over.
    Proven {
        plugin: String,
    },
    /// Nothing answers for the plugin any more, or not yet.
    Absent {
        plugin: String,
        reason: String,
    },
}

impl Roster {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, entries: BTreeMap::new() }
    }

    pub(crate) fn add_native(&mut self, name: &str, binary: Binary) {
        self.entry(name).native = Some(binary);
    }

    pub(crate) fn add_embedded(&mut self, name: &str, binary: Binary) {
        self.entry(name).embedded = Some(binary);
    }

    /// Takes in what lay in the plugins directory at the start.
    ///
    /// # Errors
    /// Why the binary may not serve. Reads on from the plugin's name.
    pub(crate) fn add_installed(&mut self, name: &str, binary: Binary) -> Result<(), String> {
        self.granted(name).check_reads(binary.factory.manifest())?;
        self.entry(name).install_first(binary);
        Ok(())
    }

    /// Lets pods be scheduled without the plugin as long as nobody brings it.
    pub(crate) fn add_optional(&mut self, name: &str) {
        self.entry(name).is_optional = true;
    }

    /// What the plugin of this name is granted, whoever answers for it.
    pub(crate) fn granted(&self, name: &str) -> Granted {
        self.rules.granted(name, self.entries.get(name).and_then(Entry::built_in))
    }

    pub(crate) fn grants(&self, name: &str) -> Grants {
        self.granted(name).grants()
    }

    /// The points of the binary that answers for the plugin where nothing is said about a profile.
    pub(crate) fn points(&self, name: &str) -> Option<Points> {
        match self.entries.get(name)?.choose(name, "", &self.rules) {
            Choice::Serve(binary) => Some(binary.factory.points()),
            Choice::Skip(_) | Choice::Hold(_) => None,
        }
    }

    /// What the binary says about itself that answers for the plugin where nothing is said about a profile.
    pub(crate) fn manifest(&self, name: &str) -> Option<Manifest> {
        match self.entries.get(name)?.choose(name, "", &self.rules) {
            Choice::Serve(binary) => Some(binary.factory.manifest().clone()),
            Choice::Skip(_) | Choice::Hold(_) => None,
        }
    }

    /// The plugins of the plugins directory, with what each is, may see and may do.
    pub(crate) fn installed(&self) -> impl Iterator<Item = Installed<'_>> {
        let entries = self.entries.iter();
        entries
            .filter_map(|(name, entry)| Some(Installed { name, text: self.describe(name, entry.installed.as_ref()?) }))
    }

    fn describe(&self, name: &str, binary: &Binary) -> String {
        let (version, granted) = (binary.factory.version(), self.granted(name));
        let list = |items: Vec<String>| if items.is_empty() { "nothing".to_owned() } else { items.join(", ") };
        let reads = granted.reads.iter().map(|kind| format!("{}/{}", kind.api_version, kind.kind));
        let effects = granted.effects.iter().map(|effect| effect.as_str().to_owned());
        let limits = self.rules.plugin(name).limits;
        format!(
            "version {}, {}; may read {}, may ask for {}; {} ms a call, {} MiB",
            version.version,
            version.digest.get(..12).unwrap_or(&version.digest),
            list(reads.chain(granted.pod_json.then(|| "pending pods as JSON".to_owned())).collect()),
            list(effects.collect()),
            limits.call_time.as_millis(),
            limits.memory_bytes >> 20,
        )
    }

    /// Who answers for the plugin in a profile that is being built. From here on the profile is kept up to date.
    pub(crate) fn enlist(&mut self, name: &str, scheduler_name: &str) -> Choice {
        let Self { rules, entries } = self;
        let entry = entries.entry(name.to_owned()).or_default();
        let choice = entry.choose(name, scheduler_name, rules);
        let now = choice.identity();
        let taken = now.digest().to_owned();
        entry.serving.insert(scheduler_name.to_owned(), Serving { before: now.clone(), now, taken });
        choice
    }

    /// A plugin came into the plugins directory, is a new version, or is to be tried once more.
    pub(crate) fn found(&mut self, name: &str, binary: Binary, now: Time) -> Consequences {
        let manifest = binary.factory.manifest();
        let reads = self.granted(name).check_reads(manifest);
        let has_json = self.rules.has_pod_json || !manifest.needs.pod_json;
        if let Err(reason) = reads.and_then(|()| if has_json { Ok(()) } else { Err(NO_POD_JSON.to_owned()) }) {
            return self.refused(name, &binary.digest(), &reason);
        }
        self.entry(name).install(binary, now);
        self.settle(name)
    }

    /// A file of the plugins directory is no plugin.
    pub(crate) fn refused(&mut self, name: &str, digest: &str, reason: &str) -> Consequences {
        self.entry(name).refuse(digest.to_owned(), reason.to_owned());
        let mut consequences = self.settle(name);
        consequences.news.insert(0, News::Refused { plugin: name.to_owned(), reason: reason.to_owned() });
        consequences
    }

    /// The operator's settings are others from here on. Plugins whose limits or grants differ get new instances; `limits`
    /// says what a plugin's binaries may use. The names are those of refused files that may do under the new settings.
    pub(crate) fn reconfigure(
        &mut self,
        settings: PluginHostSettings,
        limits: impl Fn(&Rules, &str) -> Limits,
    ) -> (Consequences, Vec<String>) {
        let old = std::mem::replace(&mut self.rules.settings, settings);
        let old = Rules { settings: old, ..self.rules.clone() };
        let (mut consequences, mut to_retry) = (Consequences::default(), Vec::new());
        let names: Vec<String> = self.entries.keys().cloned().collect();
        for name in names {
            let granted = self.granted(&name);
            let Self { rules, entries } = self;
            let Some(entry) = entries.get_mut(&name) else { continue };
            let has_other_grants = granted != old.granted(&name, entry.built_in());
            let has_other_limits = old.plugin(&name).limits != rules.plugin(&name).limits;
            if has_other_limits {
                let limits = limits(rules, &name);
                entry.binaries_mut().for_each(|binary| binary.set_limits(&limits));
            }
            if (has_other_grants || has_other_limits) && entry.refused.is_some() {
                to_retry.push(name.clone());
            }
            if let Some(reason) = entry.revoke(|manifest| granted.check_reads(manifest)) {
                consequences.news.push(News::Refused { plugin: name.clone(), reason });
            }
            let rebuild = (has_other_grants || has_other_limits).then(|| self.rebuild(&name, has_other_grants));
            consequences.add(self.settle(&name));
            rebuild.into_iter().for_each(|rebuilt| consequences.add(rebuilt));
        }
        (consequences, to_retry)
    }

    /// New instances of what serves already, where that goes on.
    fn rebuild(&mut self, name: &str, native_too: bool) -> Consequences {
        let mut consequences = Consequences::default();
        let grants = self.grants(name);
        let Self { rules, entries } = self;
        let Some(entry) = entries.get_mut(name) else { return consequences };
        let scheduler_names: Vec<String> = entry.serving.keys().cloned().collect();
        for scheduler_name in scheduler_names {
            let choice = entry.choose(name, &scheduler_name, rules);
            let Some(serving) = entry.serving.get_mut(&scheduler_name) else { continue };
            let is_concerned =
                matches!(&choice, Choice::Serve(binary) if native_too || binary.source != Source::Native);
            if is_concerned && serving.now == choice.identity() {
                serving.before = serving.now.clone();
                consequences.add_swap(name, scheduler_name, &choice, grants);
            }
        }
        consequences
    }

    /// A file left the plugins directory.
    pub(crate) fn removed(&mut self, name: &str) -> Consequences {
        self.entry(name).remove();
        self.settle(name)
    }

    /// A profile took what it was given; `digest` is empty if that is no binary.
    pub(crate) fn accepted(&mut self, name: &str, scheduler_name: &str, digest: &str, now: Time) {
        self.entry(name).accepted(scheduler_name, digest, now);
    }

    /// No profile could take the binary with this digest; they go on with what they had.
    pub(crate) fn not_taken(&mut self, name: &str, digest: &str, reason: &str, now: Time) -> Consequences {
        let Self { rules, entries } = self;
        let entry = entries.entry(name.to_owned()).or_default();
        let verdict = entry.not_taken(name, digest, reason, now, rules);
        self.follow(name, verdict)
    }

    pub(crate) fn faulted(&mut self, name: &str, digest: &str, reason: &str, now: Time) -> Consequences {
        let Self { rules, entries } = self;
        let Some(entry) = entries.get_mut(name) else { return Consequences::default() };
        let verdict = entry.faulted(name, digest, reason, now, rules);
        self.follow(name, verdict)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Time) -> Consequences {
        let mut consequences = Consequences::default();
        let names: Vec<String> = self.entries.keys().cloned().collect();
        for plugin in names {
            let Self { rules, entries } = self;
            let Some(entry) = entries.get_mut(&plugin) else { continue };
            if entry.end_probation(&plugin, now, rules) {
                consequences.news.push(News::Proven { plugin: plugin.clone() });
            }
            if entry.release(now) {
                consequences.news.push(News::Released { plugin: plugin.clone() });
                consequences.add(self.settle(&plugin));
            }
        }
        consequences
    }

    /// Switches a plugin off, as if no profile named it, or on again.
    ///
    /// # Errors
    /// There is no such plugin.
    pub(crate) fn set_disabled(&mut self, name: &str, disabled: bool) -> Result<Consequences, String> {
        let entry = self.entries.get_mut(name).ok_or_else(|| no_such_plugin(name))?;
        entry.disabled = disabled;
        Ok(self.settle(name))
    }

    /// Goes back to the binary before, by an operator's wish.
    ///
    /// # Errors
    /// There is no such plugin, or nothing to go back to.
    pub(crate) fn roll_back(&mut self, name: &str) -> Result<Consequences, String> {
        let entry = self.entries.get_mut(name).ok_or_else(|| no_such_plugin(name))?;
        let reason = "rolled back by an operator".to_owned();
        let from = entry.roll_back(&reason).map_err(|why| format!("plugin {name:?} cannot be rolled back: {why}"))?;
        Ok(self.follow(name, Verdict::RolledBack { from, reason }))
    }

    /// Whether some plugin looks at more of pending pods than their record has, or one may that comes later. From here on,
    /// that is all there is.
    pub(crate) fn settle_pod_json(&mut self) -> bool {
        let binaries =
            self.entries.values().flat_map(|entry| [&entry.native, &entry.embedded, &entry.installed]).flatten();
        let is_wanted = binaries.into_iter().any(|binary| binary.factory.manifest().needs.pod_json);
        self.rules.has_pod_json = is_wanted || self.rules.settings.grants_pod_json();
        self.rules.has_pod_json
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    fn entry(&mut self, name: &str) -> &mut Entry {
        self.entries.entry(name.to_owned()).or_default()
    }

    fn follow(&mut self, name: &str, verdict: Verdict) -> Consequences {
        let mut consequences = self.settle(name);
        let plugin = name.to_owned();
        let news = match verdict {
            Verdict::Noted => return consequences,
            Verdict::RolledBack { from: digest, reason } => News::RolledBack { plugin, digest, reason },
            Verdict::Quarantined { milliseconds, reason } => News::Quarantined { plugin, milliseconds, reason },
        };
        consequences.news.insert(0, news);
        consequences
    }

    /// What must change for every profile to have who answers for the plugin there.
    fn settle(&mut self, name: &str) -> Consequences {
        let mut consequences = Consequences::default();
        let grants = self.grants(name);
        let Self { rules, entries } = self;
        let Some(entry) = entries.get_mut(name) else { return consequences };
        let mut absences = BTreeSet::new();
        let scheduler_names: Vec<String> = entry.serving.keys().cloned().collect();
        for scheduler_name in scheduler_names {
            let choice = entry.choose(name, &scheduler_name, rules);
            let Some(serving) = entry.serving.get_mut(&scheduler_name) else { continue };
            let identity = choice.identity();
            if serving.now == identity {
                continue;
            }
            serving.before = std::mem::replace(&mut serving.now, identity);
            if let Choice::Hold(reason) | Choice::Skip(reason) = &choice {
                absences.insert(reason.clone());
            }
            consequences.add_swap(name, scheduler_name, &choice, grants);
        }
        let absent = |reason| News::Absent { plugin: name.to_owned(), reason };
        consequences.news.extend(absences.into_iter().map(absent));
        consequences
    }
}

impl Consequences {
    fn add(&mut self, other: Consequences) {
        self.swaps.extend(other.swaps);
        self.news.extend(other.news);
    }

    /// Profiles that are given the same change over together.
    fn add_swap(&mut self, plugin: &str, scheduler_name: String, choice: &Choice, grants: Grants) {
        let factory = factory(plugin, choice);
        let version = factory.version();
        let is_same = |swap: &&mut Swap| matches!(choice, Choice::Serve(_)) && swap.factory.version() == version;
        match self.swaps.iter_mut().find(is_same) {
            Some(swap) => swap.scheduler_names.push(scheduler_name),
            None => {
                let (plugin, scheduler_names) = (plugin.to_owned(), vec![scheduler_name]);
                self.swaps.push(Swap { plugin, scheduler_names, factory, grants });
            }
        }
    }
}

/// Makes instances of whoever was chosen.
pub(crate) fn factory(plugin: &str, choice: &Choice) -> Arc<dyn PluginFactory> {
    match choice {
        Choice::Serve(binary) => Arc::clone(&binary.factory),
        Choice::Skip(_) => StandIn::that_skips(plugin),
        Choice::Hold(reason) => StandIn::that_holds(plugin, reason),
    }
}

fn no_such_plugin(name: &str) -> String {
    format!("there is no plugin {name:?}")
}

#[cfg(test)]
mod tests;
