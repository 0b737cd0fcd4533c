//! The rules in force, and their decisions about a request.
//!
//! Rules are applied in the order in which they were added. An outage has precedence over all other faults. The first
//! status that hits counts. Delays are added up.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use crate::{
    request_info::RequestInfo,
    rule::{InjectedFault, Rule, RuleError},
};

/// The rules of one server. The server's connections share the rules.
#[derive(Debug)]
pub struct Faults {
    rules: Mutex<Rules>,
    /// A counter of additions of rules, so that open watches check the rules again.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Rules {
    active: Vec<ActiveRule>,
    n_added: u64,
}

#[derive(Debug)]
struct ActiveRule {
    rule: Rule,
    /// The position among all rules that were ever added, from 1.
    number: u64,
    ends: Option<Instant>,
    n_matched: u64,
    n_hits: u64,
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Carry out the request after a delay.
    Serve { after: Duration, loses_answer: bool },
    /// Refuse the request.
    Refuse { after: Duration, code: u16, retry_after_seconds: Option<u32> },
    /// Close the connection.
    HangUp,
}

/// The decision about a watch. Times are counted from now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchVerdict {
    pub(crate) cut_after: Option<Duration>,
    pub(crate) silent_after: Option<Duration>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { rules: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl Faults {
    /// Adds all rules or no rule. Returns the names of the added rules.
    ///
    /// # Errors
    /// A rule has a value that is not allowed, or a name that is taken.
    pub fn add(&self, rules: Vec<Rule>) -> Result<Vec<String>, RuleError> {
        let now = Instant::now();
        let mut table = self.lock();
        let mut added: Vec<ActiveRule> = Vec::new();
        for (index, mut rule) in rules.into_iter().enumerate() {
            rule.check(&format!("faults[{index}]"))?;
            let number = table.n_added + 1 + added.len() as u64;
            if rule.name.is_empty() {
                rule.name = format!("fault-{number}");
            }
            if table.active.iter().chain(&added).any(|other| other.rule.name == rule.name) {
                return Err(RuleError::NameTaken(rule.name));
            }
            let ends = rule.duration().map(|duration| now + duration);
            added.push(ActiveRule { rule, number, ends, n_matched: 0, n_hits: 0 });
        }
        let names = added.iter().map(|rule| rule.rule.name.clone()).collect();
        table.n_added += added.len() as u64;
        table.active.append(&mut added);
        drop(table);
        self.changed.send_modify(|changes| *changes += 1);
        Ok(names)
    }

    /// Removes the rule. Returns whether the rule existed. The effect of the rule on open watches remains.
    pub fn remove(&self, name: &str) -> bool {
        let mut table = self.lock();
        let before = table.active.len();
        table.active.retain(|rule| rule.rule.name != name);
        table.active.len() < before
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.lock().active.clear();
    }

    /// The rules, each with the number of requests that it matched (`matched`), the number of requests that it hit
    /// (`hits`), and whether it is still in force (`active`). Rules that are over stay in the list until they are
    /// removed.
    pub fn to_json(&self) -> Value {
        let now = Instant::now();
        let describe = |rule: &ActiveRule| {
            let mut json = serde_json::to_value(&rule.rule).unwrap_or_default();
            json["active"] = rule.is_in_force(now).into();
            json["matched"] = rule.n_matched.into();
            json["hits"] = rule.n_hits.into();
            json
        };
        json!({"faults": self.lock().active.iter().map(describe).collect::<Vec<_>>()})
    }

    /// Decides about a request that has just arrived.
    pub(crate) fn judge(&self, request: &RequestInfo) -> Verdict {
        let now = Instant::now();
        let mut table = self.lock();
        let mut after = Duration::ZERO;
        let (mut refused, mut loses_answer) = (None, false);
        for rule in table.active.iter_mut().filter(|rule| rule.is_in_force(now) && rule.rule.matches.covers(request)) {
            match rule.rule.fault.clone() {
                InjectedFault::Outage {} => {
                    rule.hits();
                    return Verdict::HangUp;
                }
                InjectedFault::Status { code: 410, .. } if !request.has_resource_version => {}
                InjectedFault::Status { code, retry_after_seconds } if refused.is_none() => {
                    if rule.hits() {
                        refused = Some((code, retry_after_seconds));
                    }
                }
                InjectedFault::Latency { milliseconds } => {
                    if rule.hits() {
                        after += Duration::from_millis(milliseconds);
                    }
                }
                InjectedFault::LostAnswer {} if refused.is_none() && request.verb != "watch" => {
                    loses_answer |= rule.hits()
                }
                InjectedFault::Status { .. } | InjectedFault::LostAnswer {} => {}
                InjectedFault::CutWatch { .. }
                | InjectedFault::SilentWatch { .. }
                | InjectedFault::DuplicateEvents {} => {}
            }
        }
        match refused {
            Some((code, retry_after_seconds)) => Verdict::Refuse { after, code, retry_after_seconds },
            None => Verdict::Serve { after, loses_answer },
        }
    }

    /// Decides about the effect of the rules after the `since`-th on this open watch, and returns the number of the
    /// newest rule.
    pub(crate) fn judge_watch(&self, request: &RequestInfo, since: u64) -> (WatchVerdict, u64) {
        let now = Instant::now();
        let mut table = self.lock();
        let n_added = table.n_added;
        let mut verdict = WatchVerdict::default();
        let sooner = |old: &mut Option<Duration>, new: Duration| *old = Some(old.map_or(new, |old| old.min(new)));
        let news = table.active.iter_mut().filter(|rule| rule.number > since && rule.is_in_force(now));
        for rule in news.filter(|rule| rule.rule.matches.covers(request)) {
            match rule.rule.fault {
                InjectedFault::CutWatch { after_milliseconds } => {
                    if rule.hits() {
                        sooner(&mut verdict.cut_after, Duration::from_millis(after_milliseconds));
                    }
                }
                InjectedFault::SilentWatch { after_milliseconds } => {
                    if rule.hits() {
                        sooner(&mut verdict.silent_after, Duration::from_millis(after_milliseconds));
                    }
                }
                InjectedFault::Outage {} => {
                    rule.hits();
                    verdict.cut_after = Some(Duration::ZERO);
                }
                InjectedFault::Status { .. }
                | InjectedFault::Latency { .. }
                | InjectedFault::LostAnswer {}
                | InjectedFault::DuplicateEvents {} => {}
            }
        }
        (verdict, n_added)
    }

    /// Whether a rule may repeat events of this watch.
    pub(crate) fn may_repeat(&self, request: &RequestInfo) -> bool {
        let now = Instant::now();
        self.lock().active.iter().any(|rule| rule.repeats(request, now))
    }

    /// Whether the next event of this watch is sent twice.
    pub(crate) fn repeats_event(&self, request: &RequestInfo) -> bool {
        let now = Instant::now();
        let mut table = self.lock();
        let rules = table.active.iter_mut().filter(|rule| rule.repeats(request, now));
        rules.fold(false, |repeats, rule| rule.hits() | repeats)
    }

    /// A channel that changes with every addition of rules.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveRule {
    fn is_in_force(&self, now: Instant) -> bool {
        self.ends.is_none_or(|end| now < end) && self.rule.count.is_none_or(|count| self.n_hits < count)
    }

    fn repeats(&self, request: &RequestInfo, now: Instant) -> bool {
        self.rule.fault == InjectedFault::DuplicateEvents {}
            && self.is_in_force(now)
            && self.rule.matches.covers(request)
    }

    /// Whether the rule hits the next matching request.
    fn hits(&mut self) -> bool {
        let drawn = draw(self.rule.seed, &self.rule.name, self.n_matched);
        self.n_matched += 1;
        let is_hit = drawn < self.rule.probability;
        self.n_hits += u64::from(is_hit);
        is_hit
    }
}

/// A number from 0 to below 1 that depends only on the arguments, from SplitMix64
/// (<https://prng.di.unimi.it/splitmix64.c>).
fn draw(seed: u64, name: &str, n: u64) -> f64 {
    let mixed = name.bytes().fold(seed, |state, byte| scramble(state ^ u64::from(byte)));
    let bits = u32::try_from(scramble(mixed.wrapping_add(n)) >> 32).unwrap_or_default();
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::read_rules;

    fn faults(rules: &str) -> Faults {
        let faults = Faults::default();
        faults.add(read_rules(rules).expect("rules")).expect("names that are free");
        faults
    }

    fn hits(rules: &str, n: usize) -> Vec<bool> {
        let faults = faults(rules);
        let served = Verdict::Serve { after: Duration::ZERO, loses_answer: false };
        (0..n).map(|_| faults.judge(&RequestInfo::default()) != served).collect()
    }

    #[test]
    fn the_same_seed_hits_the_same_requests() {
        let rule = |seed: u64| format!("{{fault: {{type: Status, code: 500}}, probability: 0.3, seed: {seed}}}");
        let first = hits(&rule(1), 1000);
        assert_eq!(hits(&rule(1), 1000), first);
        assert_ne!(hits(&rule(2), 1000), first);
        let n_hits = first.iter().filter(|hit| **hit).count();
        assert!((250..350).contains(&n_hits), "{n_hits}");
    }

    #[test]
    fn a_rule_is_over_after_its_count() {
        assert_eq!(hits("{fault: {type: LostAnswer}, count: 2}", 4), [true, true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_is_over_after_its_time() {
        let faults = faults("{name: down, fault: {type: Outage}, durationSeconds: 5}");
        assert_eq!(faults.judge(&RequestInfo::default()), Verdict::HangUp);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_ne!(faults.judge(&RequestInfo::default()), Verdict::HangUp);
        let json = faults.to_json();
        assert_eq!((&json["faults"][0]["active"], &json["faults"][0]["hits"]), (&json!(false), &json!(1)));
    }

    #[test]
    fn only_requests_that_name_a_version_can_be_too_late() {
        let faults = faults("{fault: {type: Status, code: 410}}");
        let mut request = RequestInfo { verb: "watch", resource: "pods".into(), ..RequestInfo::default() };
        assert!(matches!(faults.judge(&request), Verdict::Serve { .. }));
        request.has_resource_version = true;
        assert!(matches!(faults.judge(&request), Verdict::Refuse { code: 410, .. }));
    }
}
