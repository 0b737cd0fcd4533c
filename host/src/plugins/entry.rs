//! The life of one plugin: its binaries, its misfortunes, and which of the binaries serves where.
//!
//! Every method that changes something leaves it to the roster to find out what that changes for the profiles:
//! [`Entry::choose`] is a function of the entry alone.

use berth_model::Time;
use std::collections::{BTreeMap, VecDeque};

use berth_config::{Execution, FailurePolicy, ProbationSpan};
use berth_framework::Manifest;

use super::{binary::Binary, rules::Rules};

/// Quarantines grow no longer than this, in milliseconds.
const LONGEST_QUARANTINE: u64 = 60 * 60 * 1000;

/// Everything that is known about one plugin.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub native: Option<Binary>,
    pub embedded: Option<Binary>,
    /// The plugins directory's binary, accepted.
    pub installed: Option<Binary>,
    pub previous: Previous,
    pub probation: Option<Trial>,
    pub quarantine: Option<Sentence>,
    pub refused: Option<Refused>,
    pub disabled: bool,
    /// A plugin of kube-scheduler's own that this program does not have: pods are scheduled without it.
    pub is_optional: bool,
    pub last_reason: Option<String>,
    /// By profile: what serves there.
    pub serving: BTreeMap<String, Serving>,
    /// Nobody has built an instance of `installed` yet.
    is_untried: bool,
    /// When the binary in question failed lately.
    faults: VecDeque<Time>,
    /// Quarantines in a row, and when the last one ended.
    n_sentences: u32,
    released: Option<Time>,
}

/// What there is to go back to from `installed`.
#[derive(Clone, Debug, Default)]
pub(crate) enum Previous {
    #[default]
    Nothing,
    BuiltIn,
    Binary(Binary),
}

/// A new binary under observation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub since: Time,
    pub faults: u32,
}

/// A binary out of service.
#[derive(Clone, Debug)]
pub(crate) struct Sentence {
    pub digest: String,
    pub until: Time,
    pub reason: String,
}

/// A binary of the plugins directory that is not to be tried again until the file changes.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub digest: String,
    pub reason: String,
}

/// What a profile was last given, and what it had before: that is what it keeps if it cannot take the former.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    pub now: Identity,
    pub before: Identity,
    /// The digest of what it said that it took; empty for none.
    pub taken: String,
}

/// Tells apart what may serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// By its digest.
    Binary(String),
    Skips(String),
    Holds(String),
}

/// Who answers under the plugin's name.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    Serve(Binary),
    /// Nobody, and pods are scheduled without; with the reason.
    Skip(String),
    /// Nobody, and pods wait; with the reason.
    Hold(String),
}

/// What a fault led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Noted,
    RolledBack { from: String, reason: String },
    Quarantined { milliseconds: u64, reason: String },
}

impl Identity {
    /// Empty for what is no binary.
    pub(crate) fn digest(&self) -> &str {
        match self {
            Identity::Binary(digest) => digest,
            Identity::Skips(_) | Identity::Holds(_) => "",
        }
    }
}

impl Choice {
    pub(crate) fn identity(&self) -> Identity {
        match self {
            Choice::Serve(binary) => Identity::Binary(binary.digest()),
            Choice::Skip(reason) => Identity::Skips(reason.clone()),
            Choice::Hold(reason) => Identity::Holds(reason.clone()),
        }
    }
}

impl Entry {
    /// The manifest of the built-in of this name, if there is one.
    pub(crate) fn built_in(&self) -> Option<&Manifest> {
        let built_in = self.native.as_ref().or(self.embedded.as_ref());
        built_in.map(|binary| binary.factory.manifest())
    }

    /// Who answers in this profile.
    pub(crate) fn choose(&self, name: &str, scheduler_name: &str, rules: &Rules) -> Choice {
        if self.disabled {
            return Choice::Skip(format!("plugin {name:?} is disabled by an operator"));
        }
        let Some(binary) = self.binary(rules.execution(name, scheduler_name)) else {
            return self.absence(name, rules);
        };
        match &self.quarantine {
            Some(sentence) if sentence.digest == binary.digest() => {
                let reason = format!("plugin {name:?} is out of service: {}", sentence.reason);
                by_policy(rules.plugin(name).failure_policy, reason)
            }
            Some(_) | None => Choice::Serve(binary.clone()),
        }
    }

    fn binary(&self, execution: Execution) -> Option<&Binary> {
        let (native, embedded) = (self.native.as_ref(), self.embedded.as_ref());
        let installed = self.installed.as_ref();
        match execution {
            Execution::Auto => installed.or(native).or(embedded),
            Execution::Native => native.or(installed).or(embedded),
            Execution::Wasm => installed.or(embedded).or(native),
        }
    }

    fn absence(&self, name: &str, rules: &Rules) -> Choice {
        let reason = match (&rules.directory, &self.refused) {
            (None, _) => return Choice::Skip(format!("plugin {name:?} is not in this build")),
            (Some(dir), Some(refused)) => {
                format!("plugin {name:?} is refused: {name}.wasm in {} {}", dir.display(), refused.reason)
            }
            (Some(_), None) if self.is_optional => {
                return Choice::Skip(format!("plugin {name:?} is not in this build"));
            }
            (Some(dir), None) => format!("plugin {name:?} is missing: no {name}.wasm in {} yet", dir.display()),
        };
        by_policy(rules.plugin(name).failure_policy, reason)
    }

    /// A binary came into the plugins directory, or is to be tried once more. Whether it is another one than before.
    pub(crate) fn install(&mut self, binary: Binary, now: Time) -> bool {
        self.refused = None;
        self.pardon();
        if self.installed.as_ref().is_some_and(|installed| installed.digest() == binary.digest()) {
            return false;
        }
        let has_built_in = self.built_in().is_some();
        let old = self.installed.replace(binary);
        // What was never tried is nothing to go back to: what was there before it still is.
        if !self.is_untried {
            self.previous = match old {
                Some(old) => Previous::Binary(old),
                None if has_built_in => Previous::BuiltIn,
                None => Previous::Nothing,
            };
        }
        self.is_untried = true;
        let can_go_back = !matches!(self.previous, Previous::Nothing);
        self.probation = can_go_back.then_some(Trial { since: now, faults: 0 });
        true
    }

    /// The binary was there when the program started: it has been serving, for all that is known.
    pub(crate) fn install_first(&mut self, binary: Binary) {
        self.installed = Some(binary);
    }

    /// The file is gone.
    pub(crate) fn remove(&mut self) {
        (self.installed, self.previous, self.probation, self.refused) = (None, Previous::Nothing, None, None);
        self.is_untried = false;
        self.pardon();
    }

    /// All binaries that there are.
    pub(crate) fn binaries_mut(&mut self) -> impl Iterator<Item = &mut Binary> {
        let previous = match &mut self.previous {
            Previous::Binary(binary) => Some(binary),
            Previous::Nothing | Previous::BuiltIn => None,
        };
        [self.native.as_mut(), self.embedded.as_mut(), self.installed.as_mut(), previous].into_iter().flatten()
    }

    /// Takes back what the operator no longer allows: `check` says why a binary may not serve. Gives that reason if the
    /// present one may not.
    pub(crate) fn revoke(&mut self, check: impl Fn(&Manifest) -> Result<(), String>) -> Option<String> {
        if let Previous::Binary(binary) = &self.previous
            && check(binary.factory.manifest()).is_err()
        {
            self.previous = Previous::Nothing;
            self.probation = None;
        }
        let installed = self.installed.as_ref()?;
        let reason = check(installed.factory.manifest()).err()?;
        let digest = installed.digest();
        self.remove();
        self.refuse(digest, reason.clone());
        Some(reason)
    }

    /// A file that is no plugin, or one that may not serve.
    pub(crate) fn refuse(&mut self, digest: String, reason: String) {
        self.last_reason = Some(reason.clone());
        self.refused = Some(Refused { digest, reason });
    }

    /// Goes back to what served before the present binary, which is not tried again.
    ///
    /// # Errors
    /// There is nothing to go back to.
    pub(crate) fn roll_back(&mut self, reason: &str) -> Result<String, String> {
        let Some(installed) = &self.installed else {
            return Err("no binary of the plugins directory serves".to_owned());
        };
        let digest = installed.digest();
        let successor = match std::mem::take(&mut self.previous) {
            Previous::Nothing => return Err("no binary served before this one".to_owned()),
            Previous::BuiltIn => None,
            Previous::Binary(binary) => Some(binary),
        };
        self.installed = successor;
        self.probation = None;
        self.is_untried = false;
        self.pardon();
        self.refuse(digest.clone(), reason.to_owned());
        Ok(digest)
    }

    /// A profile has taken what it was given; `digest` is empty if that is no binary.
    pub(crate) fn accepted(&mut self, scheduler_name: &str, digest: &str, now: Time) {
        if let Some(serving) = self.serving.get_mut(scheduler_name) {
            digest.clone_into(&mut serving.taken);
        }
        if self.installed.as_ref().is_some_and(|binary| binary.digest() == digest) && self.is_untried {
            self.is_untried = false;
            if let Some(trial) = &mut self.probation {
                trial.since = now;
            }
        }
    }

    /// The scheduler could not take the binary with this digest; it kept what it had.
    pub(crate) fn not_taken(&mut self, name: &str, digest: &str, reason: &str, now: Time, rules: &Rules) -> Verdict {
        let was_to_be_rebuilt = |serving: &Serving| serving.now == serving.before && serving.now.digest() == digest;
        let goes_on = self.serving.values().any(was_to_be_rebuilt);
        for serving in self.serving.values_mut() {
            let refused = Identity::Binary(digest.to_owned());
            if serving.now == refused {
                serving.now = serving.before.clone();
            } else if serving.before == refused && !serving.taken.is_empty() {
                // Another one has come meanwhile: should that be refused too, what was taken last goes on.
                serving.before = Identity::Binary(serving.taken.clone());
            }
        }
        self.last_reason = Some(reason.to_owned());
        if goes_on {
            return Verdict::Noted;
        }
        let is_ours = self.installed.as_ref().is_some_and(|installed| installed.digest() == digest);
        if is_ours && self.is_untried {
            if self.roll_back(reason).is_err() {
                self.installed = None;
                self.is_untried = false;
                self.refuse(digest.to_owned(), reason.to_owned());
            }
            return Verdict::RolledBack { from: digest.to_owned(), reason: reason.to_owned() };
        }
        let is_known = is_ours || self.embedded.as_ref().is_some_and(|embedded| embedded.digest() == digest);
        if !is_known || self.quarantine.is_some() {
            return Verdict::Noted;
        }
        self.sentence(name, digest, reason, now, rules)
    }

    /// The binary with this digest faulted.
    pub(crate) fn faulted(&mut self, name: &str, digest: &str, reason: &str, now: Time, rules: &Rules) -> Verdict {
        let is_installed = self.installed.as_ref().is_some_and(|binary| binary.digest() == digest);
        let is_embedded = self.embedded.as_ref().is_some_and(|binary| binary.digest() == digest);
        if !is_installed && !is_embedded {
            // The last words of an instance that was replaced meanwhile.
            return Verdict::Noted;
        }
        self.last_reason = Some(reason.to_owned());
        let settings = rules.plugin(name);
        self.end_probation(name, now, rules);
        if let Some(trial) = self.probation.as_mut().filter(|_| is_installed) {
            trial.faults += 1;
            if trial.faults > settings.probation.faults {
                let reason = format!("{} faults on probation, the last: {reason}", trial.faults);
                if let Ok(from) = self.roll_back(&reason) {
                    return Verdict::RolledBack { from, reason };
                }
            }
        }
        let window = milliseconds(settings.quarantine.window);
        self.faults.push_back(now);
        self.faults.retain(|fault| now.since(*fault) <= window);
        if self.faults.len() < usize::try_from(settings.quarantine.faults).unwrap_or(usize::MAX)
            || self.quarantine.is_some()
        {
            return Verdict::Noted;
        }
        let (n_faults, seconds) = (self.faults.len(), settings.quarantine.window.as_secs());
        let reason = format!("{n_faults} faults within {seconds} s, the last: {reason}");
        self.sentence(name, digest, &reason, now, rules)
    }

    fn sentence(&mut self, name: &str, digest: &str, reason: &str, now: Time, rules: &Rules) -> Verdict {
        let quarantine = rules.plugin(name).quarantine;
        let backoff = milliseconds(quarantine.backoff);
        let last = doubled(backoff, self.n_sentences.saturating_sub(1));
        let has_done_well =
            self.released.is_some_and(|released| now.since(released) > last.max(milliseconds(quarantine.window)));
        if has_done_well {
            self.n_sentences = 0;
        }
        let length = doubled(backoff, self.n_sentences);
        self.n_sentences = self.n_sentences.saturating_add(1);
        self.faults.clear();
        self.last_reason = Some(reason.to_owned());
        self.quarantine = Some(Sentence { digest: digest.to_owned(), until: now + length, reason: reason.to_owned() });
        Verdict::Quarantined { milliseconds: length, reason: reason.to_owned() }
    }

    /// Lets a binary out whose time is over. Whether there was one.
    pub(crate) fn release(&mut self, now: Time) -> bool {
        let is_over = self.quarantine.as_ref().is_some_and(|sentence| sentence.until <= now);
        if is_over {
            self.quarantine = None;
            self.released = Some(now);
        }
        is_over
    }

    /// Ends a probation that has lasted long enough. Whether it did so now.
    pub(crate) fn end_probation(&mut self, name: &str, now: Time, rules: &Rules) -> bool {
        let Some(trial) = self.probation else { return false };
        let is_over = match rules.plugin(name).probation.span {
            ProbationSpan::Time(span) => now.since(trial.since) >= milliseconds(span),
            ProbationSpan::Calls(calls) => self.installed.as_ref().is_some_and(|binary| binary.calls() >= calls),
        };
        if is_over {
            self.probation = None;
        }
        is_over
    }

    /// Forgets what the binary before did wrong.
    fn pardon(&mut self) {
        self.quarantine = None;
        self.faults.clear();
        (self.n_sentences, self.released) = (0, None);
    }
}

fn by_policy(policy: FailurePolicy, reason: String) -> Choice {
    match policy {
        FailurePolicy::Fail => Choice::Hold(reason),
        FailurePolicy::Ignore => Choice::Skip(reason),
    }
}

fn doubled(backoff: u64, times: u32) -> u64 {
    let factor = 1_u64.checked_shl(times).unwrap_or(u64::MAX);
    backoff.saturating_mul(factor).min(LONGEST_QUARANTINE.max(backoff))
}

fn milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
