//! One plugin: its built-in code, its life, and the binary that serves in each profile.

use std::collections::BTreeMap;

use berth_model::{BinaryId, PluginName, Time, plugin_policy::Execution};

use crate::{
    binary::{Component, CountCalls, Service},
    consequences::{Consequences, PluginNoticeKind},
    fault::{Fault, FaultHistory, longest_quarantine},
    life::{Awaited, Context, Event, Fallback, Installed, Life, RefusalCause},
    policy::OperatorPolicy,
    probation::ProbationEnd,
    profile_slot::{ProfileSlot, Restart},
    remembered::{FailedBinary, Remembered, RememberedQuarantine},
};

/// All data about one plugin.
#[derive(Debug)]
pub(crate) struct Plugin<B> {
    name: PluginName,
    built_in: BuiltIn<B>,
    life: Life<B>,
    /// The faults of the component in charge.
    history: FaultHistory,
    /// The reason of the last failure, or of the last change by an operator.
    last_reason: Option<String>,
    /// Whether there was a binary or a refused file since the program started. The text about a missing plugin depends
    /// on this.
    had_file: bool,
    /// The profiles that use the plugin, by `schedulerName`.
    profiles: BTreeMap<String, ProfileSlot>,
}

/// The code that is built into this program under a plugin's name.
#[derive(Debug)]
pub(crate) enum BuiltIn<B> {
    /// Nothing is built in. Only the plugins directory can provide the plugin.
    None,
    /// kube-scheduler has a plugin with this name, and Berth has no built-in plugin for it. Pods are scheduled without
    /// the plugin.
    LeftOut,
    /// The plugin is built in as native code, and also as a component if it may have to run as a component.
    Present { native: B, embedded: Option<Component<B>> },
}

/// The effect of changed operator settings on one plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsChange {
    /// The reason why the directory's binary may no longer serve; `None` if the binary may serve.
    pub forbidden: Option<Forbidden>,
    /// Whether the fallback component may no longer serve.
    pub is_fallback_forbidden: bool,
    /// The instances that must be made again because their limits or grants changed.
    pub rebuild: Rebuild,
}

/// The reason why the directory's binary may no longer serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// The binary needs a grant that was withdrawn. The text is a reason that follows the file's name. The replaced
    /// binary does not come back, because no operator asked for it.
    NotGranted(String),
    /// The binary's digest is denied. The replaced binary serves again.
    Denied,
}

/// The instances that are made again although their binary stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuild {
    /// No instances.
    Nothing,
    /// The instances of components.
    Components,
    /// All instances, including native instances.
    Everything,
}

impl<B: Clone + CountCalls> Plugin<B> {
    pub(crate) fn new(name: PluginName) -> Self {
        Self {
            name,
            built_in: BuiltIn::None,
            life: Life::Absent,
            history: FaultHistory::default(),
            last_reason: None,
            had_file: false,
            profiles: BTreeMap::new(),
        }
    }

    pub(crate) fn set_built_in(&mut self, built_in: BuiltIn<B>) {
        self.built_in = built_in;
    }

    /// Starts with the directory's binary. It existed when the program started, and is assumed to have served before.
    pub(crate) fn serve_from_the_start(&mut self, component: Component<B>) {
        self.had_file = true;
        self.life = Life::Serving { installed: Installed { component, fallback: None, refused: None } };
    }

    /// Notes that a file, or a source in a registry, exists, and that its binary is not loaded yet.
    pub(crate) fn await_binary(&mut self) {
        let (remembered, serving) = (Remembered::default(), None);
        self.life = Life::Awaited(Box::new(Awaited { remembered, serving }));
    }

    /// Restores the state that the plugin had when the last process ended. No profile may use the plugin yet.
    pub(crate) fn restore(
        &mut self,
        mut remembered: Remembered,
        serving: Option<Component<B>>,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) {
        debug_assert!(self.profiles.is_empty(), "profiles would have to be told");
        if let Some(RememberedQuarantine { record, .. }) = &mut remembered.quarantine {
            // The time was stored as a time of the wall clock, which may have been set since.
            let longest = longest_quarantine(&policy.plugin(&self.name).quarantine);
            record.until = record.until.min(now + longest);
        }
        remembered.quarantine = remembered.quarantine.filter(|quarantine| quarantine.record.until > now);
        let embedded = self.built_in.embedded().map(|component| component.digest);
        let is_disabled = std::mem::take(&mut remembered.is_disabled);
        let n_in_a_row = remembered.quarantine.as_ref().map(|quarantine| quarantine.n_in_a_row);
        let life = std::mem::take(&mut self.life);
        self.life = if life.awaited().is_some() {
            Life::Awaited(Box::new(Awaited { remembered, serving }))
        } else {
            life.restored(&remembered, serving, embedded)
        };
        if let Some(n_in_a_row) = n_in_a_row
            && (self.life.quarantine_record().is_some() || self.life.awaited().is_some())
        {
            self.history = FaultHistory::with_quarantines(n_in_a_row);
        }
        if is_disabled {
            self.life = Life::Disabled { then: Box::new(std::mem::take(&mut self.life)) };
        }
    }

    pub(crate) fn remembered(&self) -> Remembered {
        let is_disabled = matches!(self.life, Life::Disabled { .. });
        if let Some(awaited) = self.life.awaited() {
            return Remembered { is_disabled, ..awaited.remembered.clone() };
        }
        let n_in_a_row = self.history.n_quarantines();
        let quarantine = self.life.quarantine_record().cloned();
        let failed = self.life.refused().filter(|file| file.cause == RefusalCause::Failure);
        Remembered {
            is_disabled,
            quarantine: quarantine.map(|record| RememberedQuarantine { record, n_in_a_row }),
            failed: failed.and_then(|file| {
                let serving = self.life.installed().map(|installed| installed.component.digest);
                Some(FailedBinary { digest: file.digest?, reason: file.reason.clone(), serving })
            }),
        }
    }

    /// Adds a profile that is being built. From this call on, the registry keeps the profile up to date.
    pub(crate) fn join(&mut self, scheduler_name: &str, policy: &dyn OperatorPolicy) -> Service<B> {
        let service = self.service(scheduler_name, policy);
        self.profiles.insert(scheduler_name.to_owned(), ProfileSlot::new(&service));
        service
    }

    /// Forgets the profiles for which `stays` does not hold, and returns their names.
    pub(crate) fn leave(&mut self, stays: impl Fn(&str) -> bool) -> Vec<String> {
        let gone: Vec<String> = self.profiles.keys().filter(|name| !stays(name)).cloned().collect();
        self.profiles.retain(|name, _| !gone.contains(name));
        gone
    }

    /// Handles an event: changes the state, and gives each profile the binary that serves in it after the event.
    pub(crate) fn handle(&mut self, event: Event<B>, now: Time, policy: &dyn OperatorPolicy) -> Consequences<B> {
        self.had_file |= matches!(event, Event::Found(_) | Event::FileRefused(_));
        let mut consequences = self.apply(event, now, policy);
        self.profiles.values_mut().for_each(|slot| slot.end_restart(now));
        consequences.add(self.settle(policy));
        consequences
    }

    /// Handles a fault of a component. Some profiles have lost their instance through the fault. If the component stays
    /// in charge, these profiles get another instance, immediately or after a delay. No binary serves in these profiles
    /// until the instance is made.
    pub(crate) fn faulted(&mut self, fault: Fault, now: Time, policy: &dyn OperatorPolicy) -> Consequences<B> {
        let Fault { digest, reason, scheduler_names, .. } = fault.clone();
        let mut consequences = self.apply(Event::Faulted(fault), now, policy);
        let milliseconds = self.history.restart_delay(&policy.plugin(&self.name).quarantine);
        let mut is_restarting = false;
        for scheduler_name in scheduler_names {
            let serves = self.service(&scheduler_name, policy).id() == Some(BinaryId::Component(digest));
            if let Some(slot) = self.profiles.get_mut(&scheduler_name).filter(|_| serves) {
                slot.begin_restart(Restart { digest, at: now + milliseconds, reason: reason.clone() });
                is_restarting = true;
            }
        }
        if is_restarting {
            self.history.begin_wait(now);
            consequences.tell(&self.name, PluginNoticeKind::Restarting { digest, milliseconds, reason });
        }
        consequences.add(self.settle(policy));
        if milliseconds == 0 {
            self.profiles.values_mut().for_each(|slot| slot.end_restart(now));
            consequences.add(self.settle(policy));
        }
        consequences
    }

    /// Handles a change of the operator's settings.
    pub(crate) fn settings_changed(
        &mut self,
        change: SettingsChange,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Consequences<B> {
        let SettingsChange { forbidden, is_fallback_forbidden, rebuild } = change;
        let mut consequences = Consequences::default();
        if is_fallback_forbidden {
            consequences.add(self.apply(Event::FallbackForbidden, now, policy));
        }
        match forbidden {
            Some(Forbidden::NotGranted(reason)) => {
                consequences.add(self.apply(Event::Forbidden { reason }, now, policy));
            }
            Some(Forbidden::Denied) => consequences.add(self.apply(Event::Denied, now, policy)),
            None => {}
        }
        // `rebuild` must come before `settle`, because `rebuild` skips the profiles to which `settle` gives another
        // binary.
        let rebuilt = self.rebuild(rebuild, policy);
        consequences.add(self.settle(policy));
        consequences.add(rebuilt);
        consequences
    }

    /// Changes the state. Changes nothing in the profiles.
    fn apply(&mut self, event: Event<B>, now: Time, policy: &dyn OperatorPolicy) -> Consequences<B> {
        let mut notices = Vec::new();
        let mut context = Context {
            has_built_in: matches!(self.built_in, BuiltIn::Present { .. }),
            embedded: self.built_in.embedded().map(|component| component.digest),
            policy: policy.plugin(&self.name),
            now,
            history: &mut self.history,
            last_reason: &mut self.last_reason,
            notices: &mut notices,
            is_quarantined: false,
        };
        self.life = std::mem::take(&mut self.life).next(event, &mut context);
        let mut consequences = Consequences::default();
        for kind in notices {
            consequences.tell(&self.name, kind);
        }
        consequences
    }

    /// Notes that a profile took the given service. `None` is a placeholder.
    pub(crate) fn taken(
        &mut self,
        scheduler_name: &str,
        binary: Option<BinaryId>,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Consequences<B> {
        if let Some(slot) = self.profiles.get_mut(scheduler_name) {
            slot.take(binary);
        }
        match binary {
            Some(BinaryId::Component(digest)) => {
                self.history.end_wait(now);
                self.handle(Event::Taken { digest }, now, policy)
            }
            Some(BinaryId::Native) | None => Consequences::default(),
        }
    }

    /// Notes that no profile could take the given service. `None` is a placeholder. The profiles keep their previous
    /// service.
    pub(crate) fn not_taken(
        &mut self,
        binary: Option<BinaryId>,
        reason: &str,
        now: Time,
        policy: &dyn OperatorPolicy,
    ) -> Consequences<B> {
        self.last_reason = Some(reason.to_owned());
        let Some(binary) = binary else { return self.settle(policy) };
        let goes_on = self.profiles.values().any(|slot| slot.is_renewing(binary));
        for slot in self.profiles.values_mut() {
            slot.refuse(binary);
        }
        match binary {
            BinaryId::Component(digest) if !goes_on => {
                self.handle(Event::NotTaken { digest, reason: reason.to_owned() }, now, policy)
            }
            BinaryId::Component(_) | BinaryId::Native => self.settle(policy),
        }
    }

    /// The binary to which the plugin can go back.
    pub(crate) fn fallback(&self) -> Result<&Fallback<B>, NoFallback> {
        let installed = self.life.installed().ok_or(NoFallback::NoBinary)?;
        installed.fallback.as_ref().ok_or(NoFallback::NothingBefore)
    }

    /// Makes new instances of a binary in the profiles in which this binary continues to serve.
    fn rebuild(&mut self, what: Rebuild, policy: &dyn OperatorPolicy) -> Consequences<B> {
        let mut consequences = Consequences::default();
        for (scheduler_name, service) in self.services(policy) {
            let is_concerned = match (&service, what) {
                (Service::Native(_), Rebuild::Everything)
                | (Service::Embedded(_) | Service::Directory(_), Rebuild::Everything | Rebuild::Components) => true,
                (Service::Native(_), Rebuild::Components)
                | (Service::Pass(_) | Service::Hold(_), _)
                | (_, Rebuild::Nothing) => false,
            };
            if let Some(slot) = self.profiles.get_mut(&scheduler_name).filter(|slot| is_concerned && slot.has(&service))
            {
                slot.renew();
                consequences.swap(&self.name, &scheduler_name, service);
            }
        }
        consequences
    }

    /// The swaps that give every profile the binary that serves in it.
    fn settle(&mut self, policy: &dyn OperatorPolicy) -> Consequences<B> {
        let mut consequences = Consequences::default();
        let mut absences = std::collections::BTreeSet::new();
        for (scheduler_name, service) in self.services(policy) {
            let Some(slot) = self.profiles.get_mut(&scheduler_name).filter(|slot| !slot.has(&service)) else {
                continue;
            };
            slot.give(&service);
            if let Service::Hold(reason) | Service::Pass(reason) = &service {
                absences.insert(reason.clone());
            }
            consequences.swap(&self.name, &scheduler_name, service);
        }
        for reason in absences {
            consequences.tell(&self.name, PluginNoticeKind::NotServed { reason });
        }
        consequences
    }

    fn services(&self, policy: &dyn OperatorPolicy) -> Vec<(String, Service<B>)> {
        let names = self.profiles.keys();
        names.map(|scheduler_name| (scheduler_name.clone(), self.service(scheduler_name, policy))).collect()
    }

    /// The binary that serves in this profile.
    pub(crate) fn service(&self, scheduler_name: &str, policy: &dyn OperatorPolicy) -> Service<B> {
        let name = &self.name;
        if let Life::Disabled { .. } = &self.life {
            return Service::Pass(format!("plugin {name:?} is disabled by an operator"));
        }
        let Some(service) = self.available(scheduler_name, policy) else {
            return self.absence(policy);
        };
        match self.life.quarantine_record() {
            Some(quarantine) if service.id() == Some(BinaryId::Component(quarantine.digest)) => {
                policy.plugin(name).nobody(format!("plugin {name:?} is out of service: {}", quarantine.reason))
            }
            Some(_) | None => match self.restart(scheduler_name, &service) {
                Some(Restart { reason, .. }) => {
                    policy.plugin(name).nobody(format!("plugin {name:?} is being restarted after a fault: {reason}"))
                }
                None => service,
            },
        }
    }

    /// The binary that serves in this profile, or that will serve again after a quarantine or a restart. `None` if no
    /// binary can serve, or if an operator switched the plugin off.
    pub(crate) fn in_charge(&self, scheduler_name: &str, policy: &dyn OperatorPolicy) -> Option<Service<B>> {
        if let Life::Disabled { .. } = &self.life {
            return None;
        }
        self.available(scheduler_name, policy)
    }

    fn restart(&self, scheduler_name: &str, service: &Service<B>) -> Option<&Restart> {
        self.profiles.get(scheduler_name)?.restart_of(service.id()?)
    }

    /// Whether a profile that uses the plugin waits for a binary.
    pub(crate) fn is_on_its_way(&self) -> bool {
        self.life.is_undecided() && !self.profiles.is_empty()
    }

    /// The new instance that the profile waits for.
    pub(crate) fn restarting(&self, scheduler_name: &str, policy: &dyn OperatorPolicy) -> Option<&Restart> {
        let service = self.available(scheduler_name, policy)?;
        self.restart(scheduler_name, &service)
    }

    /// The time at which the probation of the binary that serves is over.
    pub(crate) fn probation_end(&self, policy: &dyn OperatorPolicy) -> Option<ProbationEnd> {
        self.life.probation_end(&policy.plugin(&self.name).probation).map(|end| match end {
            ProbationEnd::At { moment, awaits_answer } => {
                ProbationEnd::At { moment: self.history.in_real_time(moment), awaits_answer }
            }
            ProbationEnd::AfterCalls(calls) => ProbationEnd::AfterCalls(calls),
        })
    }

    /// The binary that would serve in this profile if there were no quarantine, no restart and no operator's order.
    pub(crate) fn available(&self, scheduler_name: &str, policy: &dyn OperatorPolicy) -> Option<Service<B>> {
        let execution = policy.execution(&self.name, scheduler_name);
        let installed = self.life.installed().map(|installed| Service::Directory(installed.component.clone()));
        let (native, embedded) = match &self.built_in {
            BuiltIn::None | BuiltIn::LeftOut => (None, None),
            BuiltIn::Present { native, embedded } => {
                let embedded = embedded.clone().filter(|component| !policy.is_denied(component.digest));
                (Some(Service::Native(native.clone())), embedded.map(Service::Embedded))
            }
        };
        match execution {
            Execution::Auto => installed.or(native).or(embedded),
            Execution::Native => native.or(installed).or(embedded),
            Execution::Wasm => installed.or(embedded).or(native),
        }
    }

    fn absence(&self, policy: &dyn OperatorPolicy) -> Service<B> {
        let name = &self.name;
        let Some(origin) = policy.origin(name) else {
            return Service::Pass(format!("plugin {name:?} is not in this build"));
        };
        let reason = match (self.life.refused(), &self.built_in) {
            _ if self.life.awaited().is_some() => format!("plugin {name:?} is being loaded: {origin}"),
            (Some(refused), _) => format!("plugin {name:?} is refused: {origin} {}", refused.reason),
            (None, BuiltIn::LeftOut) => return Service::Pass(format!("plugin {name:?} is not in this build")),
            (None, BuiltIn::None | BuiltIn::Present { .. }) => {
                let since = if self.had_file { "any more" } else { "yet" };
                format!("plugin {name:?} is missing: {origin} does not exist {since}")
            }
        };
        policy.plugin(name).nobody(reason)
    }

    /// All binaries of the plugin. The caller may change its handles on the binaries.
    pub(crate) fn binaries_mut(&mut self) -> impl Iterator<Item = &mut B> {
        let built_in = match &mut self.built_in {
            BuiltIn::None | BuiltIn::LeftOut => [None, None],
            BuiltIn::Present { native, embedded } => {
                [Some(native), embedded.as_mut().map(|component| &mut component.binary)]
            }
        };
        let directory = match self.life.installed_mut() {
            None => [None, None],
            Some(Installed { component, fallback: Some(Fallback::Component(before)), .. }) => {
                [Some(&mut component.binary), Some(&mut before.binary)]
            }
            Some(Installed { component, fallback: Some(Fallback::BuiltIn) | None, .. }) => {
                [Some(&mut component.binary), None]
            }
        };
        built_in.into_iter().chain(directory).flatten()
    }

    pub(crate) fn built_in(&self) -> &BuiltIn<B> {
        &self.built_in
    }

    pub(crate) fn life(&self) -> &Life<B> {
        &self.life
    }

    /// The place from which the binary is to come, as [`OperatorPolicy::origin`] returns it.
    pub(crate) fn origin(&self, policy: &dyn OperatorPolicy) -> Option<String> {
        policy.origin(&self.name)
    }

    pub(crate) fn last_reason(&self) -> Option<&str> {
        self.last_reason.as_deref()
    }

    /// The binary that the profile reported to use.
    pub(crate) fn taken_by(&self, scheduler_name: &str) -> Option<BinaryId> {
        self.profiles.get(scheduler_name)?.taken()
    }

    /// Whether the registry knows nothing about the plugin: no file, no built-in plugin, no profile that names it, no
    /// operator's order.
    pub(crate) fn is_forgotten(&self) -> bool {
        matches!((&self.life, &self.built_in), (Life::Absent, BuiltIn::None)) && self.profiles.is_empty()
    }

    /// The profiles that use the plugin, and the binary that each profile reported to use.
    pub(crate) fn profiles(&self) -> impl Iterator<Item = (&str, Option<BinaryId>)> {
        self.profiles.iter().map(|(scheduler_name, slot)| (scheduler_name.as_str(), slot.taken()))
    }
}

impl<B> BuiltIn<B> {
    pub(crate) fn native(&self) -> Option<&B> {
        match self {
            BuiltIn::None | BuiltIn::LeftOut => None,
            BuiltIn::Present { native, .. } => Some(native),
        }
    }

    pub(crate) fn embedded(&self) -> Option<&Component<B>> {
        match self {
            BuiltIn::None | BuiltIn::LeftOut => None,
            BuiltIn::Present { embedded, .. } => embedded.as_ref(),
        }
    }
}

/// The reason why a plugin cannot be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFallback {
    /// The plugins directory has no binary of the plugin.
    #[error("the plugin in use does not come from the plugins directory")]
    NoBinary,
    /// The binary replaced no other binary, or the replaced binary may not serve any more.
    #[error("there is no earlier binary")]
    NothingBefore,
}
