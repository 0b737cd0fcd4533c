//! The share of the scheduling thread that one plugin, all plugins together, and the pods of one namespace may use.
//!
//! Each of these has a bucket of time. A bucket fills by a number of milliseconds in each second, up to a burst. Every
//! call and every search takes its time out of the bucket. A call is never cut short because of an empty bucket, so a
//! bucket may owe time. The caller asks before it begins a call or a search. While a bucket is empty, the caller
//! decides which calls and searches it leaves out. The guide lists all bounds of time in one table
//! (`docs/src/scheduling-thread.md`).
//!
//! Native plugins and the program's own components have no account. Their time is not bounded.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    clock::Clock,
    time_report::{Share, TimeReport},
};

/// The bounds that hold in addition to the shares of single plugins. `None` means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBounds {
    /// The share of all plugins together, while pods of profiles without plugins wait.
    pub all_plugins: Option<Share>,
    /// The share of one namespace's pods for searches that take longer than [`SchedulingTime::LONG_SEARCH`], while other pods wait. The
    /// searches of all namespaces together have a share of the same size.
    pub namespace: Option<Share>,
    /// The time that one search for a node may take.
    pub search: Option<Duration>,
}

/// The maximum time of the search for a pod's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchLength {
    /// The time that [`TimeBounds::search`] gives.
    Full,
    /// [`SchedulingTime::BRIEF_SEARCH`]: long searches have used up their share, and other pods wait.
    Brief,
}

/// The namespaces whose shares for long searches are used up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpentSearches {
    /// The share of all namespaces together is used up.
    pub all: bool,
    /// The namespaces whose own share is used up.
    pub namespaces: Vec<Arc<str>>,
}

/// The accounts of all plugins and namespaces. Cloning is cheap; one value serves the whole process.
#[derive(Clone, Debug)]
pub struct SchedulingTime(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Box<dyn Clock>,
    accounts: Mutex<Accounts>,
    /// Whether anything is charged to plugins or namespaces. Otherwise the clock is not read.
    is_used: AtomicBool,
    /// The nanoseconds that plugins have taken so far.
    taken_by_plugins: AtomicU64,
    /// The nanoseconds that all plugins together had taken when the current step began.
    taken_before_step: AtomicU64,
    /// The number of steps that have begun.
    n_steps: AtomicU64,
}

#[derive(Debug, Default)]
struct Accounts {
    bounds: TimeBounds,
    all_plugins: Bucket,
    plugins: BTreeMap<Arc<str>, PluginBucket>,
    /// The long searches of all namespaces together.
    searches: Bucket,
    /// The time that long searches took, by namespace. A namespace whose bucket is full again is removed.
    namespaces: BTreeMap<Arc<str>, Bucket>,
    /// Whether the scheduling thread has no other work at the moment.
    is_idle: bool,
    reports: Vec<TimeReport>,
}

#[derive(Debug, Default)]
struct PluginBucket {
    bucket: Bucket,
    /// The plugin's share when it last took time.
    share: Option<Share>,
    /// The time taken since the last report about all plugins.
    since_report: Duration,
    /// The time taken since the start.
    total: Duration,
    /// The number of the step in which the plugin last took time.
    last_step: u64,
    /// The time taken in that step.
    in_step: Duration,
}

#[derive(Debug, Default)]
struct Bucket {
    /// The time that was taken and not refilled yet.
    taken: Duration,
    /// The time of the last refill; `None` before anything was taken.
    refilled: Option<Duration>,
    /// The time of the last report that the bucket is empty.
    reported: Option<Duration>,
}

/// The reason why a plugin may not be asked at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfTime {
    /// The plugin has used up its own share.
    Plugin(Share),
    /// All plugins together have used up their share.
    AllPlugins(Share),
}

/// The account of one plugin, over all of its instances and binaries.
#[derive(Clone, Debug)]
pub struct PluginAccount {
    time: SchedulingTime,
    plugin: Arc<str>,
}

impl Bucket {
    fn refill(&mut self, share: Share, now: Duration) {
        let passed = self.refilled.map_or(Duration::ZERO, |before| now.saturating_sub(before));
        self.taken = self.taken.saturating_sub(passed.mul_f64(share.per_second.as_secs_f64()));
        self.refilled = Some(now);
    }

    fn take(&mut self, used: Duration, share: Share, now: Duration) {
        self.refill(share, now);
        self.taken = self.taken.saturating_add(used);
    }

    /// Takes time as [`Self::take`] does, but limits the debt to the burst, so that the debt is paid back within a
    /// second or two.
    fn take_some(&mut self, used: Duration, share: Share, now: Duration) {
        self.take(used, share, now);
        self.taken = self.taken.min(share.burst.saturating_mul(2));
    }

    fn is_spent(&mut self, share: Share, now: Duration) -> bool {
        self.refill(share, now);
        share.per_second < Duration::from_secs(1) && self.taken >= share.burst
    }

    /// Whether a report that the bucket is empty is due.
    fn is_to_be_reported(&mut self, now: Duration) -> bool {
        let is_due = self.reported.is_none_or(|told| now.saturating_sub(told) >= SchedulingTime::REPORT_EVERY);
        if is_due {
            self.reported = Some(now);
        }
        is_due
    }
}

impl Accounts {
    /// The share of all plugins together; `None` if the share is not used up.
    fn spent_by_plugins(&mut self, now: Duration) -> Option<Share> {
        let share = self.bounds.all_plugins?;
        self.all_plugins.is_spent(share, now).then_some(share)
    }

    /// The time that each plugin took since the last call, the highest first.
    fn take_since_report(&mut self) -> Vec<(String, Duration)> {
        let plugins = self.plugins.iter_mut();
        let taken = plugins.map(|(name, plugin)| (name.to_string(), std::mem::take(&mut plugin.since_report)));
        let mut taken: Vec<_> = taken.filter(|(_, taken)| !taken.is_zero()).collect();
        taken.sort_by_key(|(_, taken)| std::cmp::Reverse(*taken));
        taken
    }
}

/// A clock that stands still.
#[derive(Debug)]
struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl Default for SchedulingTime {
    /// Accounts without bounds and without a clock.
    fn default() -> Self {
        Self::new(Box::new(NoClock))
    }
}

impl SchedulingTime {
    /// A search for a node that takes no longer than this is not charged, because each search in a cluster of thousands
    /// of nodes takes some milliseconds. A plugin that takes no longer than this in a step is not slow in this step.
    pub const LONG_SEARCH: Duration = Duration::from_millis(5);

    /// The time that a search may take while long searches have used up their share and other pods wait. A search that
    /// needs longer is repeated once no other pod waits.
    pub const BRIEF_SEARCH: Duration = Duration::from_millis(20);

    /// The time that all plugins together may use in one step: a cycle, or the questions about a pod after it.
    pub const STEP: Duration = Duration::from_secs(1);

    /// The shortest time between two reports that time is used up.
    pub const REPORT_EVERY: Duration = Duration::from_secs(10);

    /// Accounts that use this clock, without bounds yet.
    #[must_use]
    pub fn new(clock: Box<dyn Clock>) -> Self {
        Self(Arc::new(Shared {
            clock,
            accounts: Mutex::default(),
            is_used: AtomicBool::new(false),
            taken_by_plugins: AtomicU64::new(0),
            taken_before_step: AtomicU64::new(0),
            n_steps: AtomicU64::new(0),
        }))
    }

    /// Sets the bounds that hold from now on.
    pub fn set_bounds(&self, bounds: TimeBounds) {
        self.accounts().bounds = bounds;
    }

    /// The account of a plugin, the same for each of its binaries.
    #[must_use]
    pub fn plugin(&self, plugin: &str) -> PluginAccount {
        PluginAccount { time: self.clone(), plugin: Arc::from(plugin) }
    }

    /// Whether pods of profiles with plugins must wait because all plugins together have used up their share.
    #[must_use]
    pub fn plugins_are_spent(&self) -> bool {
        if !self.is_used() {
            return false;
        }
        let now = self.0.clock.now();
        self.accounts().spent_by_plugins(now).is_some()
    }

    /// The plugins that have taken at least half of their burst. The caller should use their time with care.
    #[must_use]
    pub fn short_plugins(&self) -> Vec<Arc<str>> {
        if !self.is_used() {
            return Vec::new();
        }
        let now = self.0.clock.now();
        let mut accounts = self.accounts();
        let is_short = |PluginBucket { bucket, share, .. }: &mut PluginBucket| {
            share.is_some_and(|share| {
                bucket.refill(share, now);
                share.per_second < Duration::from_secs(1) && bucket.taken >= share.burst / 2
            })
        };
        let plugins = accounts.plugins.iter_mut();
        plugins.filter_map(|(name, plugin)| is_short(plugin).then(|| Arc::clone(name))).collect()
    }

    /// Reports that pods of profiles with plugins wait for other pods, if a report is due.
    pub fn plugins_wait(&self) {
        let now = self.0.clock.now();
        let mut accounts = self.accounts();
        if let Some(share) = accounts.bounds.all_plugins
            && accounts.all_plugins.is_to_be_reported(now)
        {
            let taken = accounts.take_since_report();
            accounts.reports.push(TimeReport::AllPlugins { share, taken });
        }
    }

    /// The time that all plugins have taken so far. Only differences of two values have a meaning.
    #[must_use]
    pub fn taken_by_plugins(&self) -> Duration {
        Duration::from_nanos(self.0.taken_by_plugins.load(Ordering::Relaxed))
    }

    /// Begins a step: a cycle, or the questions about a pod after it.
    pub fn begin_step(&self) {
        let taken = self.0.taken_by_plugins.load(Ordering::Relaxed);
        self.0.taken_before_step.store(taken, Ordering::Relaxed);
        self.0.n_steps.fetch_add(1, Ordering::Relaxed);
    }

    /// The plugins that have taken more than [`Self::LONG_SEARCH`] in the current step.
    #[must_use]
    pub fn slow_in_step(&self) -> Vec<Arc<str>> {
        let step = self.0.n_steps.load(Ordering::Relaxed);
        let accounts = self.accounts();
        let is_slow = |plugin: &PluginBucket| plugin.last_step == step && plugin.in_step > Self::LONG_SEARCH;
        let slow = accounts.plugins.iter().filter(|(_, plugin)| is_slow(plugin));
        slow.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// The time that each plugin has taken since the start, by name.
    #[must_use]
    pub fn totals(&self) -> Vec<(Arc<str>, Duration)> {
        self.accounts().plugins.iter().map(|(name, plugin)| (Arc::clone(name), plugin.total)).collect()
    }

    /// Charges `took`, the length of a search for a node, to the pod's namespace and to the searches of all namespaces.
    /// A search of at most [`Self::LONG_SEARCH`] is not charged. `took` does not include time that is charged to plugins.
    pub fn searched(&self, namespace: &Arc<str>, took: Duration) {
        if took <= Self::LONG_SEARCH {
            return;
        }
        let now = self.0.clock.now();
        let mut accounts = self.accounts();
        if let Some(share) = accounts.bounds.namespace {
            accounts.searches.take_some(took, share, now);
            accounts.namespaces.entry(Arc::clone(namespace)).or_default().take_some(took, share, now);
            self.0.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// The time that a search of this length may take; `None` means no bound.
    pub(crate) fn search_limit(&self, length: SearchLength) -> Option<Duration> {
        let full = self.accounts().bounds.search?;
        Some(match length {
            SearchLength::Full => full,
            SearchLength::Brief => full.min(Self::BRIEF_SEARCH),
        })
    }

    /// The namespaces whose pods must wait for other pods, because the namespaces have used up their share for long
    /// searches.
    #[must_use]
    pub fn spent_searches(&self) -> SpentSearches {
        let mut spent = SpentSearches::default();
        if !self.is_used() {
            return spent;
        }
        let mut accounts = self.accounts();
        let Accounts { bounds: TimeBounds { namespace: Some(share), .. }, searches, namespaces, .. } = &mut *accounts
        else {
            return spent;
        };
        if namespaces.is_empty() {
            return spent;
        }
        let now = self.0.clock.now();
        spent.all = searches.is_spent(*share, now);
        namespaces.retain(|namespace, bucket| {
            if bucket.is_spent(*share, now) {
                spent.namespaces.push(Arc::clone(namespace));
            }
            !bucket.taken.is_zero()
        });
        spent
    }

    /// Reports that pods with long searches wait for other pods, if a report is due.
    pub fn searches_wait(&self, spent: &SpentSearches) {
        let now = self.0.clock.now();
        let mut accounts = self.accounts();
        let Accounts { bounds: TimeBounds { namespace: Some(share), .. }, searches, namespaces, reports, .. } =
            &mut *accounts
        else {
            return;
        };
        // If a namespace has used up its own share, the report names that namespace instead.
        if spent.all && spent.namespaces.is_empty() && searches.is_to_be_reported(now) {
            let taken = namespaces.iter().map(|(namespace, bucket)| (namespace.to_string(), bucket.taken));
            let mut taken: Vec<_> = taken.collect();
            taken.sort_by_key(|(_, taken)| std::cmp::Reverse(*taken));
            reports.push(TimeReport::Searches { share: *share, taken });
        }
        for namespace in &spent.namespaces {
            if namespaces.get_mut(namespace).is_some_and(|bucket| bucket.is_to_be_reported(now)) {
                reports.push(TimeReport::Namespace { namespace: Arc::clone(namespace), share: *share });
            }
        }
    }

    /// The reports since the last call.
    #[must_use]
    pub fn take_reports(&self) -> Vec<TimeReport> {
        if self.is_used() { std::mem::take(&mut self.accounts().reports) } else { Vec::new() }
    }

    /// The current time by the clock of the accounts.
    pub(crate) fn now(&self) -> Duration {
        self.0.clock.now()
    }

    fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::Relaxed)
    }

    /// Notes whether the scheduling thread has no other work at the moment. While it has none, all plugins together may
    /// take more than their share, and do not owe that time later.
    pub fn set_idle(&self, is_idle: bool) {
        self.accounts().is_idle = is_idle;
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PluginAccount {
    /// Charges a call on the scheduling thread. The plugin's own share is `own`.
    pub fn take(&self, used: Duration, own: Share) {
        let Shared { clock, is_used, taken_by_plugins, n_steps, .. } = &*self.time.0;
        is_used.store(true, Ordering::Relaxed);
        taken_by_plugins.fetch_add(u64::try_from(used.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let now = clock.now();
        let mut accounts = self.time.accounts();
        if !accounts.plugins.contains_key(&self.plugin) {
            accounts.plugins.insert(Arc::clone(&self.plugin), PluginBucket::default());
        }
        let Accounts { bounds, all_plugins, plugins, is_idle, .. } = &mut *accounts;
        if let Some(plugin) = plugins.get_mut(&self.plugin) {
            plugin.bucket.take(used, own, now);
            plugin.share = Some(own);
            plugin.since_report = plugin.since_report.saturating_add(used);
            plugin.total = plugin.total.saturating_add(used);
            let step = n_steps.load(Ordering::Relaxed);
            let before = if plugin.last_step == step { plugin.in_step } else { Duration::ZERO };
            (plugin.last_step, plugin.in_step) = (step, before.saturating_add(used));
        }
        if let Some(share) = bounds.all_plugins {
            all_plugins.take(used, share, now);
            if *is_idle {
                all_plugins.taken = all_plugins.taken.min(share.burst);
            }
        }
    }

    /// The reason why the plugin may not be asked now; `None` if the plugin may be asked.
    #[must_use]
    pub fn out_of_time(&self, own: Share) -> Option<OutOfTime> {
        if !self.time.is_used() {
            return None;
        }
        let now = self.time.0.clock.now();
        let mut accounts = self.time.accounts();
        let bucket = accounts.plugins.get_mut(&self.plugin).map(|plugin| &mut plugin.bucket);
        if bucket.is_some_and(|bucket| bucket.is_spent(own, now)) {
            return Some(OutOfTime::Plugin(own));
        }
        if accounts.is_idle {
            return None;
        }
        accounts.spent_by_plugins(now).map(OutOfTime::AllPlugins)
    }

    /// Whether plugins have taken so much time in the current step that they are asked no more questions in this step.
    #[must_use]
    pub fn step_is_over(&self) -> bool {
        let Shared { taken_by_plugins, taken_before_step, .. } = &*self.time.0;
        let taken = taken_by_plugins.load(Ordering::Relaxed).saturating_sub(taken_before_step.load(Ordering::Relaxed));
        Duration::from_nanos(taken) >= SchedulingTime::STEP
    }

    /// Notes that the plugin was not asked. A report about this is made from time to time.
    pub fn was_not_asked(&self, why: OutOfTime) {
        let OutOfTime::Plugin(share) = why else { return self.time.plugins_wait() };
        let now = self.time.0.clock.now();
        let mut accounts = self.time.accounts();
        let Accounts { plugins, reports, .. } = &mut *accounts;
        if plugins.get_mut(&self.plugin).is_some_and(|plugin| plugin.bucket.is_to_be_reported(now)) {
            reports.push(TimeReport::Plugin { plugin: Arc::clone(&self.plugin), share });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// A clock that tests set, in milliseconds.
    #[derive(Clone, Debug, Default)]
    struct Hand(Arc<AtomicU64>);

    impl Clock for Hand {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    fn share(per_second: u64, burst: u64) -> Share {
        Share { per_second: Duration::from_millis(per_second), burst: Duration::from_millis(burst) }
    }

    fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    fn accounts(bounds: TimeBounds) -> (SchedulingTime, impl Fn(u64)) {
        let hand = Hand::default();
        let time = SchedulingTime::new(Box::new(hand.clone()));
        time.set_bounds(bounds);
        (time, move |at| hand.0.store(at, Ordering::Relaxed))
    }

    #[test]
    fn what_a_plugin_takes_comes_back_with_time() {
        let (time, at) = accounts(TimeBounds::default());
        let (plugin, own) = (time.plugin("A"), share(200, 1000));
        assert_eq!(plugin.out_of_time(own), None);
        plugin.take(milliseconds(900), own);
        assert_eq!(plugin.out_of_time(own), None);
        plugin.take(milliseconds(300), own);
        at(900);
        let spent = Some(OutOfTime::Plugin(own));
        assert_eq!(plugin.out_of_time(own), spent, "200 ms over, and 180 ms came back");
        assert_eq!(time.plugin("A").out_of_time(own), spent, "another binary of it");
        assert_eq!(time.plugin("B").out_of_time(own), None);
        at(1100);
        assert_eq!(plugin.out_of_time(own), None);
        at(100_000);
        plugin.take(milliseconds(900), own);
        assert_eq!(plugin.out_of_time(own), None, "no more is saved up than the burst");
        plugin.take(milliseconds(100), own);
        assert_eq!(plugin.out_of_time(own), spent);
    }

    #[test]
    fn plugins_within_their_own_shares_use_up_that_of_all() {
        let (all, own) = (share(300, 300), share(500, 1000));
        let (time, at) = accounts(TimeBounds { all_plugins: Some(all), ..TimeBounds::default() });
        for name in ["A", "B", "C"] {
            assert!(!time.plugins_are_spent());
            time.plugin(name).take(milliseconds(100), own);
        }
        assert!(time.plugins_are_spent());
        let other = time.plugin("D");
        assert_eq!(other.out_of_time(own), Some(OutOfTime::AllPlugins(all)));
        time.set_idle(true);
        assert_eq!(other.out_of_time(own), None, "no pod waits");
        other.take(milliseconds(5000), own);
        time.set_idle(false);
        at(100);
        assert!(!time.plugins_are_spent(), "time that was used while no pod waited is not charged to all plugins");
        assert_eq!(other.out_of_time(own), Some(OutOfTime::Plugin(own)), "it is charged to the plugin itself");
    }

    #[test]
    fn who_took_the_time_is_told_now_and_then() {
        let (all, own) = (share(300, 300), share(500, 1000));
        let (time, at) = accounts(TimeBounds { all_plugins: Some(all), ..TimeBounds::default() });
        time.plugin("A").take(milliseconds(100), own);
        time.plugin("B").take(milliseconds(400), own);
        time.plugins_wait();
        time.plugins_wait();
        let taken = vec![("B".to_owned(), milliseconds(400)), ("A".to_owned(), milliseconds(100))];
        assert_eq!(time.take_reports(), [TimeReport::AllPlugins { share: all, taken }]);
        at(10_000);
        time.plugin("A").take(milliseconds(2000), own);
        time.plugin("A").was_not_asked(OutOfTime::Plugin(own));
        time.plugins_wait();
        let taken = vec![("A".to_owned(), milliseconds(2000))];
        let of_one = TimeReport::Plugin { plugin: Arc::from("A"), share: own };
        assert_eq!(time.take_reports(), [of_one, TimeReport::AllPlugins { share: all, taken }]);
    }

    #[test]
    fn plugins_together_may_take_so_much_of_a_step() {
        let (time, _) = accounts(TimeBounds::default());
        let own = share(500, 1000);
        for name in ["A", "B"] {
            assert!(!time.plugin(name).step_is_over());
            time.plugin(name).take(milliseconds(500), own);
        }
        assert!(time.plugin("C").step_is_over());
        time.begin_step();
        assert!(!time.plugin("C").step_is_over());
    }

    #[test]
    fn a_plugin_is_slow_in_a_step_by_its_own_calls_of_this_step() {
        let (time, _) = accounts(TimeBounds::default());
        let own = share(500, 1000);
        let take = |name: &str, taken| time.plugin(name).take(milliseconds(taken), own);
        take("A", 3);
        take("A", 3);
        take("B", 5);
        assert_eq!(time.slow_in_step(), [Arc::<str>::from("A")]);
        time.begin_step();
        assert!(time.slow_in_step().is_empty(), "no plugin was called yet");
        take("A", 3);
        take("B", 6);
        assert_eq!(time.slow_in_step(), [Arc::<str>::from("B")]);
    }

    #[test]
    fn long_searches_use_up_the_share_of_a_namespace() {
        let (time, at) = accounts(TimeBounds { namespace: Some(share(500, 1000)), ..TimeBounds::default() });
        let (greedy, other): (Arc<str>, Arc<str>) = (Arc::from("greedy"), Arc::from("other"));
        (0..10_000).for_each(|_| time.searched(&other, SchedulingTime::LONG_SEARCH));
        time.searched(&greedy, milliseconds(1100));
        assert_eq!(time.spent_searches(), SpentSearches { all: true, namespaces: vec![Arc::clone(&greedy)] });
        let spent = time.spent_searches();
        time.searches_wait(&spent);
        time.searches_wait(&spent);
        assert_eq!(time.take_reports().len(), 1);
        at(300);
        assert_eq!(time.spent_searches(), SpentSearches::default());
        at(3000);
        assert_eq!(time.spent_searches(), SpentSearches::default());
        assert!(time.accounts().namespaces.is_empty(), "whose bucket is full again is forgotten");
        (0..60).for_each(|_| time.searched(&greedy, Duration::from_mins(1)));
        at(5001);
        assert_eq!(time.spent_searches(), SpentSearches::default(), "an hour is not owed for an hour");
    }

    #[test]
    fn namespaces_that_each_take_little_use_up_the_share_of_all_searches() {
        let (time, _) = accounts(TimeBounds { namespace: Some(share(500, 500)), ..TimeBounds::default() });
        let namespaces: Vec<Arc<str>> = (0..5).map(|number| Arc::from(format!("tenant-{number}"))).collect();
        namespaces.iter().for_each(|namespace| time.searched(namespace, milliseconds(100)));
        let spent = time.spent_searches();
        assert_eq!(spent, SpentSearches { all: true, namespaces: Vec::new() });
        time.searches_wait(&spent);
        time.searches_wait(&spent);
        assert!(matches!(&time.take_reports()[..], [TimeReport::Searches { taken, .. }] if taken.len() == 5));
    }

    #[test]
    fn a_search_ends_by_its_length_without_what_plugins_take() {
        let (time, at) = accounts(TimeBounds { search: Some(milliseconds(250)), ..TimeBounds::default() });
        let (full, brief) = (time.search_deadline(SearchLength::Full), time.search_deadline(SearchLength::Brief));
        at(20);
        assert!(!full.is_over() && brief.is_over());
        time.plugin("A").take(milliseconds(100), share(500, 1000));
        at(349);
        assert!(!full.is_over());
        at(350);
        assert!(full.is_over());
        time.set_bounds(TimeBounds::default());
        let unlimited = time.search_deadline(SearchLength::Brief);
        at(u64::from(u32::MAX));
        assert!(!unlimited.is_over());
    }
}
