//! The life of one plugin as binaries of the plugins directory come and go: its states, its events, and the transitions.
//!
//! [`Life::next`] is the only place where a state changes. This module decides nothing about profiles. The module
//! `plugin` computes which binary serves where, from the state, the operator's policy and the built-in plugin.

use berth_model::{Digest, Time, plugin_policy::Probation};

use crate::{
    binary::{Component, CountCalls},
    consequences::PluginNoticeKind,
    fault::{Fault, FaultHistory, Tally},
    policy::PluginPolicy,
    probation::{ProbationEnd, ProbationSoFar},
    remembered::{FailedBinary, QuarantineRecord, Remembered, RememberedQuarantine},
};

/// The state of a plugin.
#[derive(Debug, Default)]
pub(crate) enum Life<B> {
    /// The plugins directory has no file for the plugin. A built-in plugin serves.
    #[default]
    Absent,
    /// The file is not a plugin or may not serve, and no earlier binary serves. A built-in plugin serves.
    Refused(RefusedFile),
    /// A file, or a source in a registry, existed when the program started, and its binary is not loaded yet.
    Awaited(Box<Awaited<B>>),
    /// The file's binary is offered to the profiles, but no profile has reported that it uses the binary.
    Untried {
        installed: Installed<B>,
        /// The probation; `None` once it is over. Faults count even while the first instances are made.
        probation: Option<ProbationSoFar>,
    },
    /// The file's binary serves under observation. If the binary fails, its fallback replaces it. Without a fallback,
    /// the plugin is quarantined.
    OnProbation { installed: Installed<B>, probation: ProbationSoFar },
    /// The file's binary serves.
    Serving { installed: Installed<B> },
    /// The component in charge is out of service.
    Quarantined {
        quarantine: QuarantineRecord,
        /// The state without the quarantine: any state except `Quarantined` and `Disabled`.
        then: Box<Life<B>>,
    },
    /// An operator switched the plugin off.
    Disabled {
        /// The state without the switch: any state except `Disabled`.
        then: Box<Life<B>>,
    },
}

/// The remembered facts about a plugin whose binary is not loaded yet. Once the binary is loaded, its digest shows
/// whether the facts apply to it.
#[derive(Debug)]
pub(crate) struct Awaited<B> {
    pub remembered: Remembered,
    /// The binary that replaced a failed binary.
    pub serving: Option<Component<B>>,
}

/// The binary of the plugins directory that is in charge.
#[derive(Debug)]
pub(crate) struct Installed<B> {
    pub component: Component<B>,
    /// The binary that replaces the component if the component fails on probation, or if an operator orders a rollback.
    pub fallback: Option<Fallback<B>>,
    /// The present content of the file, if this content may not replace the component.
    pub refused: Option<RefusedFile>,
}

/// The binary to which the plugin can go back from the binary in charge.
#[derive(Clone, Debug)]
pub enum Fallback<B> {
    /// The built-in plugin with the plugin's name.
    BuiltIn,
    /// The binary of the plugins directory that served before.
    Component(Component<B>),
}

/// A file that is not tried again until it changes.
#[derive(Clone, Debug)]
pub(crate) struct RefusedFile {
    /// The digest of the bytes; `None` if the bytes could not be read.
    pub digest: Option<Digest>,
    /// The reason, as a text that follows the file's name.
    pub reason: String,
    /// The cause of the refusal: the file, the profiles, or a failure in service.
    pub cause: RefusalCause,
}

/// The reason for which the content of a file does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalCause {
    /// The content of the file, or a grant that its plugin lacks. The file is checked again after a restart.
    File,
    /// No profile could take the binary. A profile with other arguments may take it.
    Profile,
    /// The binary served and was replaced. The file is not tried again, even after a restart.
    Failure,
}

/// The events that can happen to a plugin.
#[derive(Debug)]
pub(crate) enum Event<B> {
    /// The directory has a new binary, or the present binary must be tried again.
    Found(Component<B>),
    FileRefused(RefusedFile),
    FileRemoved,
    /// A profile took the component with this digest.
    Taken {
        digest: Digest,
    },
    /// No profile could take the component with this digest.
    NotTaken {
        digest: Digest,
        reason: String,
    },
    Faulted(Fault),
    TimePassed,
    /// The operator no longer allows the installed binary to serve.
    Forbidden {
        reason: String,
    },
    /// The operator denies the installed binary. Unlike after [`Event::Forbidden`], the replaced binary serves again.
    Denied,
    /// The operator no longer allows the fallback to serve.
    FallbackForbidden,
    /// An operator goes back to the previous binary. The event has no effect if there is no previous binary.
    RollBack,
    SwitchedOff,
    SwitchedOn,
}

/// The data that a transition reads and writes besides the state.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub has_built_in: bool,
    /// The digest of the built-in plugin's component.
    pub embedded: Option<Digest>,
    pub policy: PluginPolicy,
    pub now: Time,
    /// The faults of the component in charge.
    pub history: &'a mut FaultHistory,
    /// The reason of the last failure, or of the last change by an operator.
    pub last_reason: &'a mut Option<String>,
    pub notices: &'a mut Vec<PluginNoticeKind>,
    /// Whether the component in charge is out of service already. Its faults then do not quarantine it again.
    pub is_quarantined: bool,
}

/// The reason for a binary that gives way because its digest is denied.
const BY_THE_DENY_LIST: &str = "its digest is denied (deniedDigests)";
const BY_AN_OPERATOR: &str = "rolled back by an operator";

impl<B: CountCalls> Life<B> {
    /// The state after `event`.
    #[expect(clippy::too_many_lines, reason = "one table of all transitions is easier to check than its parts")]
    pub(crate) fn next(self, event: Event<B>, context: &mut Context<'_>) -> Self {
        use Event as E;
        use Life::{Absent, Awaited, Disabled, OnProbation, Quarantined, Refused, Serving, Untried};
        match (self, event) {
            (Disabled { then }, E::SwitchedOn) => *then,
            (life @ Disabled { .. }, E::SwitchedOff) => life,
            (Disabled { then }, event) => Disabled { then: Box::new(then.next(event, context)) },
            (life, E::SwitchedOff) => Disabled { then: Box::new(life) },
            (life, E::SwitchedOn) => life,

            // Another binary, or the same binary loaded again, gets another chance.
            (Quarantined { then, .. }, event @ (E::Found(_) | E::FileRemoved)) => then.next(event, context),
            (Quarantined { quarantine, then }, E::TimePassed) if quarantine.until <= context.now => {
                let then = then.next(E::TimePassed, context);
                context.release(quarantine.digest);
                then
            }
            (Quarantined { quarantine, then }, event) => {
                context.is_quarantined = true;
                let then = then.next(event, context);
                let is_in_charge = then.component_in_charge(context.embedded) == Some(quarantine.digest);
                if is_in_charge { Quarantined { quarantine, then: Box::new(then) } } else { then }
            }

            // The binary existed when the program started, so it is assumed to have served before.
            (Awaited(awaited), E::Found(component)) => {
                let installed = Installed { component, fallback: None, refused: None };
                let found = Untried { installed, probation: None };
                found.restored(&awaited.remembered, awaited.serving, context.embedded)
            }
            (Awaited(_), E::FileRefused(file)) => Refused(context.note(file)),
            (Awaited(_), E::FileRemoved) => Absent,
            (life @ Awaited(_), E::Forbidden { .. } | E::Denied | E::FallbackForbidden) => life,

            (Absent | Refused(_), E::Found(component)) => {
                let fallback = context.has_built_in.then_some(Fallback::BuiltIn);
                Self::offer(component, fallback, context)
            }
            (Untried { installed, probation }, E::Found(component)) if installed.is(component.digest) => {
                Untried { installed: installed.found_again(context), probation }
            }
            (OnProbation { installed, probation }, E::Found(component)) if installed.is(component.digest) => {
                OnProbation { installed: installed.found_again(context), probation }
            }
            (Serving { installed }, E::Found(component)) if installed.is(component.digest) => {
                Serving { installed: installed.found_again(context) }
            }
            // A binary that was never tried cannot be a fallback. The fallback of this binary is still available.
            (Untried { installed, .. }, E::Found(component)) => Self::offer(component, installed.fallback, context),
            (OnProbation { installed, .. } | Serving { installed }, E::Found(component)) => {
                Self::offer(component, Some(Fallback::Component(installed.component)), context)
            }

            (Absent | Refused(_), E::FileRefused(file)) => Refused(context.note(file)),
            (Untried { installed, probation }, E::FileRefused(file)) => {
                Untried { installed: installed.despite(context.note(file)), probation }
            }
            (OnProbation { installed, probation }, E::FileRefused(file)) => {
                OnProbation { installed: installed.despite(context.note(file)), probation }
            }
            (Serving { installed }, E::FileRefused(file)) => {
                Serving { installed: installed.despite(context.note(file)) }
            }
            (Absent | Refused(_) | Untried { .. } | OnProbation { .. } | Serving { .. }, E::FileRemoved) => {
                context.begin_file();
                Absent
            }

            (Untried { installed, probation: Some(probation) }, E::Taken { digest }) if installed.is(digest) => {
                OnProbation { installed, probation: probation.served_since(context.time_in_service()) }
            }
            (Untried { installed, probation: None }, E::Taken { digest }) if installed.is(digest) => {
                Serving { installed }
            }
            (life, E::Taken { .. }) => life,
            (Untried { installed, .. }, E::NotTaken { digest, reason }) if installed.is(digest) => {
                let file = RefusedFile { digest: Some(digest), reason: reason.clone(), cause: RefusalCause::Profile };
                installed.give_way(reason, file, context)
            }
            (life, E::NotTaken { digest, reason }) => life.quarantine(digest, reason, context),
            (life, E::Faulted(fault)) => life.fault(&fault, context),
            (life, E::TimePassed) => life.end_probation(context),

            (
                Untried { installed, .. } | OnProbation { installed, .. } | Serving { installed },
                E::Forbidden { reason },
            ) => installed.forbid(reason, context),
            (Untried { installed, .. } | OnProbation { installed, .. } | Serving { installed }, E::Denied) => {
                let (digest, reason) = (Some(installed.component.digest), gave_way(BY_THE_DENY_LIST));
                let file = RefusedFile { digest, reason, cause: RefusalCause::File };
                installed.give_way(BY_THE_DENY_LIST.to_owned(), file, context)
            }
            (life @ (Absent | Refused(_)), E::Forbidden { .. } | E::Denied) => life,
            (Untried { installed, probation }, E::FallbackForbidden) => {
                Untried { installed: Installed { fallback: None, ..installed }, probation }
            }
            (OnProbation { installed, probation }, E::FallbackForbidden) => {
                OnProbation { installed: Installed { fallback: None, ..installed }, probation }
            }
            (Serving { installed }, E::FallbackForbidden) => {
                Serving { installed: Installed { fallback: None, ..installed } }
            }
            (life @ (Absent | Refused(_)), E::FallbackForbidden) => life,
            (Untried { installed, .. } | OnProbation { installed, .. } | Serving { installed }, E::RollBack)
                if installed.fallback.is_some() =>
            {
                installed.roll_back(BY_AN_OPERATOR.to_owned(), context)
            }
            (life, E::RollBack) => life,
        }
    }

    /// The binary of the plugins directory that is in charge; `None` if no such binary is in charge.
    pub(crate) fn installed(&self) -> Option<&Installed<B>> {
        match self {
            Life::Absent | Life::Refused(_) | Life::Awaited(_) => None,
            Life::Untried { installed, .. } | Life::OnProbation { installed, .. } | Life::Serving { installed } => {
                Some(installed)
            }
            Life::Quarantined { then, .. } | Life::Disabled { then } => then.installed(),
        }
    }

    pub(crate) fn installed_mut(&mut self) -> Option<&mut Installed<B>> {
        match self {
            Life::Absent | Life::Refused(_) | Life::Awaited(_) => None,
            Life::Untried { installed, .. } | Life::OnProbation { installed, .. } | Life::Serving { installed } => {
                Some(installed)
            }
            Life::Quarantined { then, .. } | Life::Disabled { then } => then.installed_mut(),
        }
    }

    /// The file's bytes that were refused and are not tried again.
    pub(crate) fn refused(&self) -> Option<&RefusedFile> {
        match self {
            Life::Absent | Life::Awaited(_) => None,
            Life::Refused(file) => Some(file),
            Life::Untried { installed, .. } | Life::OnProbation { installed, .. } | Life::Serving { installed } => {
                installed.refused.as_ref()
            }
            Life::Quarantined { then, .. } | Life::Disabled { then } => then.refused(),
        }
    }

    /// Restores this life from the facts that the last process remembered, if the facts apply to the present binaries.
    /// `serving` is the binary that replaced a failed binary. The caller restores whether the plugin is disabled.
    pub(crate) fn restored(
        self,
        remembered: &Remembered,
        serving: Option<Component<B>>,
        embedded: Option<Digest>,
    ) -> Self {
        let is_installed = |failed: &&FailedBinary| self.installed().is_some_and(|it| it.is(failed.digest));
        let failed = remembered.failed.as_ref().filter(is_installed);
        let file = failed.map(|FailedBinary { digest, reason, .. }| RefusedFile {
            digest: Some(*digest),
            reason: reason.clone(),
            cause: RefusalCause::Failure,
        });
        let mut life = match (file, serving) {
            (None, _) => self,
            (Some(file), None) => Life::Refused(file),
            (Some(file), Some(component)) => {
                let installed = Installed { component, fallback: None, refused: Some(file) };
                Life::Untried { installed, probation: None }
            }
        };
        if let Some(RememberedQuarantine { record, .. }) = &remembered.quarantine
            && life.component_in_charge(embedded) == Some(record.digest)
        {
            life = Life::Quarantined { quarantine: record.clone(), then: Box::new(life) };
        }
        life
    }

    /// The remembered facts about a plugin whose binary is not loaded yet.
    pub(crate) fn awaited(&self) -> Option<&Awaited<B>> {
        match self {
            Life::Awaited(awaited) => Some(awaited),
            Life::Quarantined { then, .. } | Life::Disabled { then } => then.awaited(),
            Life::Absent
            | Life::Refused(_)
            | Life::Untried { .. }
            | Life::OnProbation { .. }
            | Life::Serving { .. } => None,
        }
    }

    /// Whether there is a new binary that no profile has taken or refused yet.
    pub(crate) fn is_undecided(&self) -> bool {
        match self {
            Life::Awaited(_) | Life::Untried { .. } => true,
            // A binary that is out of service is not offered to profiles.
            Life::Quarantined { .. }
            | Life::Disabled { .. }
            | Life::Absent
            | Life::Refused(_)
            | Life::OnProbation { .. }
            | Life::Serving { .. } => false,
        }
    }

    pub(crate) fn quarantine_record(&self) -> Option<&QuarantineRecord> {
        match self {
            Life::Quarantined { quarantine, .. } => Some(quarantine),
            Life::Disabled { then } => then.quarantine_record(),
            Life::Absent
            | Life::Refused(_)
            | Life::Awaited(_)
            | Life::Untried { .. }
            | Life::OnProbation { .. }
            | Life::Serving { .. } => None,
        }
    }

    /// Whether the installed binary is under observation.
    pub(crate) fn is_on_probation(&self) -> bool {
        match self {
            Life::Untried { probation, .. } => probation.is_some(),
            Life::OnProbation { .. } => true,
            Life::Quarantined { then, .. } | Life::Disabled { then } => then.is_on_probation(),
            Life::Absent | Life::Refused(_) | Life::Awaited(_) | Life::Serving { .. } => false,
        }
    }

    /// The end of the installed binary's probation, in time in service; `None` if the binary is not on probation.
    pub(crate) fn probation_end(&self, policy: &Probation) -> Option<ProbationEnd>
    where
        B: CountCalls,
    {
        match self {
            Life::Untried { installed, probation: Some(probation) } | Life::OnProbation { installed, probation } => {
                Some(probation.end(policy, &installed.component.binary))
            }
            Life::Quarantined { then, .. } | Life::Disabled { then } => then.probation_end(policy),
            Life::Absent
            | Life::Refused(_)
            | Life::Awaited(_)
            | Life::Untried { probation: None, .. }
            | Life::Serving { .. } => None,
        }
    }

    /// The digest of the component that serves in every profile that runs a component; `embedded` is the built-in's.
    fn component_in_charge(&self, embedded: Option<Digest>) -> Option<Digest> {
        self.installed().map(|installed| installed.component.digest).or(embedded)
    }

    /// Offers a new binary to the profiles.
    fn offer(component: Component<B>, fallback: Option<Fallback<B>>, context: &mut Context<'_>) -> Self {
        context.begin_file();
        let probation = ProbationSoFar::begin(context.time_in_service(), &component.binary);
        Life::Untried { installed: Installed { component, fallback, refused: None }, probation: Some(probation) }
    }

    /// Handles a fault. On probation, the binary is replaced after one fault too many. Too many recent faults
    /// quarantine any component.
    fn fault(self, fault: &Fault, context: &mut Context<'_>) -> Self {
        let Fault { digest, reason, .. } = fault;
        if self.component_in_charge(context.embedded) != Some(*digest) {
            // The fault is a late report about an instance that was replaced.
            return self;
        }
        *context.last_reason = Some(reason.clone());
        let policy = context.policy.quarantine;
        let tally = context.history.add(fault, context.now, &policy);
        if tally == Tally::Repeated {
            return self;
        }
        let counted = |probation: ProbationSoFar, installed: &Installed<B>| {
            probation.fault(reason, &context.policy.probation, &installed.component.binary)
        };
        // The binary may have answered questions in the cycle of its fault. These answers do not end its probation.
        let life = match self {
            Life::Untried { installed, probation: Some(probation) } => match counted(probation, &installed) {
                Ok(probation) => Life::Untried { installed, probation: Some(probation) },
                Err(failed) => return installed.fail_probation(failed.to_string(), context),
            },
            Life::OnProbation { installed, probation } => match counted(probation, &installed) {
                Ok(probation) => Life::OnProbation { installed, probation },
                Err(failed) => return installed.fail_probation(failed.to_string(), context),
            },
            life @ (Life::Absent
            | Life::Refused(_)
            | Life::Awaited(_)
            | Life::Untried { probation: None, .. }
            | Life::Serving { .. }
            | Life::Quarantined { .. }
            | Life::Disabled { .. }) => life,
        };
        match tally.is_too_much(&policy, reason) {
            Some(reason) => life.quarantine(*digest, reason, context),
            None => life,
        }
    }

    /// Takes the component in charge out of service, if it has this digest and is still in service.
    fn quarantine(self, digest: Digest, reason: String, context: &mut Context<'_>) -> Self {
        if context.is_quarantined || self.component_in_charge(context.embedded) != Some(digest) {
            return self;
        }
        let milliseconds = context.history.begin_quarantine(context.now, &context.policy.quarantine);
        *context.last_reason = Some(reason.clone());
        context.notices.push(PluginNoticeKind::Quarantined { digest, milliseconds, reason: reason.clone() });
        let quarantine = QuarantineRecord { digest, until: context.now + milliseconds, reason };
        Life::Quarantined { quarantine, then: Box::new(self) }
    }

    /// Ends a probation that has lasted long enough.
    fn end_probation(self, context: &mut Context<'_>) -> Self {
        match self {
            Life::Untried { installed, probation: Some(probation) } if context.is_over(probation, &installed) => {
                context.notices.push(PluginNoticeKind::ProbationOver);
                Life::Untried { installed, probation: None }
            }
            Life::OnProbation { installed, probation } if context.is_over(probation, &installed) => {
                context.notices.push(PluginNoticeKind::ProbationOver);
                Life::Serving { installed }
            }
            life @ (Life::Absent
            | Life::Refused(_)
            | Life::Awaited(_)
            | Life::Untried { .. }
            | Life::OnProbation { .. }
            | Life::Serving { .. }
            | Life::Quarantined { .. }
            | Life::Disabled { .. }) => life,
        }
    }
}

impl<B> Installed<B> {
    fn is(&self, digest: Digest) -> bool {
        self.component.digest == digest
    }

    /// Notes that the file contains the same binary again.
    fn found_again(self, context: &mut Context<'_>) -> Self {
        context.begin_file();
        Self { refused: None, ..self }
    }

    /// Keeps the component in service although the file contains something else.
    fn despite(self, file: RefusedFile) -> Self {
        Self { refused: Some(file), ..self }
    }

    /// The binary faulted too often on probation, so the fallback replaces it. Without a fallback, the plugin is quarantined.
    fn fail_probation(self, reason: String, context: &mut Context<'_>) -> Life<B>
    where
        B: CountCalls,
    {
        if self.fallback.is_some() {
            return self.roll_back(reason, context);
        }
        let digest = self.component.digest;
        Life::Serving { installed: self }.quarantine(digest, reason, context)
    }

    /// The fallback replaces a component that has served. The component is not tried again.
    fn roll_back(self, reason: String, context: &mut Context<'_>) -> Life<B> {
        let file = RefusedFile {
            digest: Some(self.component.digest),
            reason: gave_way(&reason),
            cause: RefusalCause::Failure,
        };
        self.give_way(reason, file, context)
    }

    /// The fallback replaces the component.
    fn give_way(self, reason: String, file: RefusedFile, context: &mut Context<'_>) -> Life<B> {
        let digest = self.component.digest;
        context.begin_fallback();
        context.notices.push(match &self.fallback {
            None => PluginNoticeKind::Refused { digest: Some(digest), reason: file.reason.clone() },
            Some(fallback) => {
                let (to, reason) = (fallback.digest(), reason.clone());
                PluginNoticeKind::RolledBack { digest, to, reason }
            }
        });
        *context.last_reason = Some(reason);
        match self.fallback {
            None | Some(Fallback::BuiltIn) => Life::Refused(file),
            Some(Fallback::Component(component)) => {
                Life::Serving { installed: Installed { component, fallback: None, refused: Some(file) } }
            }
        }
    }

    /// The component may no longer serve. The fallback does not serve either, because no operator asked for it.
    fn forbid(self, reason: String, context: &mut Context<'_>) -> Life<B> {
        context.begin_file();
        let digest = Some(self.component.digest);
        context.notices.push(PluginNoticeKind::Refused { digest, reason: reason.clone() });
        Life::Refused(context.note(RefusedFile { digest, reason, cause: RefusalCause::File }))
    }
}

impl<B> Fallback<B> {
    /// The digest of the component; `None` for the built-in plugin.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Fallback::BuiltIn => None,
            Fallback::Component(component) => Some(component.digest),
        }
    }
}

/// The reason as a text that follows the file's name.
fn gave_way(reason: &str) -> String {
    format!("was withdrawn: {reason}")
}

impl Context<'_> {
    fn is_over<B: CountCalls>(&self, probation: ProbationSoFar, installed: &Installed<B>) -> bool {
        probation.is_over(&self.policy.probation, self.time_in_service(), &installed.component.binary)
    }

    fn time_in_service(&self) -> Time {
        self.history.time_in_service(self.now)
    }

    fn begin_file(&mut self) {
        self.history.begin_file(self.now);
    }

    fn begin_fallback(&mut self) {
        self.history.begin_fallback(self.now);
    }

    /// Notes that the component is back in service.
    fn release(&mut self, digest: Digest) {
        self.history.end_quarantine(self.now);
        self.notices.push(PluginNoticeKind::Released { digest });
    }

    /// Remembers the reason why a file is refused.
    fn note(&mut self, file: RefusedFile) -> RefusedFile {
        *self.last_reason = Some(file.reason.clone());
        file
    }
}
