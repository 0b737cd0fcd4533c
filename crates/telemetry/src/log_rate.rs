//! Limits the number of similar log lines. Every line of the program has the same limit, regardless of its cause.
//!
//! Lines are similar if they come from one place in the code and name the same plugin. A place may write [`BURST`]
//! lines in a burst, and then [`PER_SECOND`] lines per second. Further lines are counted, and every [`SUMMARY_EVERY`]
//! one line reports them. Lines below INFO may be as frequent as one per pod, so their limit is higher. Lines of
//! kube-scheduler up to verbosity 5 also have the higher limit. kube-scheduler does not limit these lines, but clients
//! that create pods cause them. Some lines have no limit ([`UNBOUNDED`]): an operator's dump, scores at verbosity 10,
//! and the lines of plugins, which `logLinesPerSecond` limits.

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt::{Debug, Write as _},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use berth_scheduler::CodePlace;
use tracing::{
    Event, Level, Metadata, Subscriber,
    callsite::Identifier,
    field::{Field, Visit},
    level_filters::LevelFilter,
    warn,
};
use tracing_subscriber::layer::{Context, Filter};

/// The number of lines in a burst, from one place about one plugin.
const BURST: f64 = 100.0;

/// The number of lines per second after a burst.
const PER_SECOND: f64 = 10.0;

/// The factor by which the limits of lines below INFO are higher.
const BELOW_INFO: f64 = 100.0;

/// The time between two summaries of the lines that were not written.
const SUMMARY_EVERY: Duration = Duration::from_secs(10);

/// The maximum number of places and plugins that are distinguished. Beyond this number, all plugins of a place share
/// one limit.
const MAX_KEYS: usize = 4096;

/// The maximum number of bytes that are kept of a plugin's name and of a line.
const MAX_TEXT: usize = 256;

/// Targets with other limits for their lines, and the target of the summaries.
const UNBOUNDED: [&str; 4] = ["berth::cache_dump", SUMMARY, "berth_wasm_host::host_state", SCORES];

/// The target of lines that are written at verbosity 10 and above: scores, some of them for each node.
pub const SCORES: &str = "berth::v10";

/// The target of lines that report the lines which were not written.
const SUMMARY: &str = "berth::suppressed";

/// The number of lines that were not written since the process began.
static SUPPRESSED: AtomicU64 = AtomicU64::new(0);

/// The number of lines that were not written since the process began.
pub fn n_suppressed() -> u64 {
    SUPPRESSED.load(Ordering::Relaxed)
}

/// A filter that lets as many lines through as the limits allow. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct LogRate(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    places: Mutex<HashMap<Key, Bucket>>,
    /// The thread that reports the lines which were not written. The thread starts with the first such line.
    teller: OnceLock<()>,
}

/// The properties that similar lines have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    place: Identifier,
    /// The place in the scheduler that wrote the line, if the scheduler wrote it.
    origin: Option<CodePlace>,
    plugin: String,
}

thread_local! {
    static ORIGIN: RefCell<Option<CodePlace>> = const { RefCell::new(None) };
}

/// While this value exists, the thread's lines count as lines of another place in the code.
#[derive(Debug)]
#[must_use]
pub struct LinesOf(());

/// Makes the lines of this thread count as lines of `origin` until the returned value is dropped. A place that passes
/// on the lines of many places calls this.
pub fn lines_of(origin: CodePlace) -> LinesOf {
    ORIGIN.set(Some(origin));
    LinesOf(())
}

impl Drop for LinesOf {
    fn drop(&mut self) {
        ORIGIN.set(None);
    }
}

#[derive(Debug)]
struct Bucket {
    /// The number of lines that could be written at that time.
    left: f64,
    then: Instant,
    n_suppressed: u64,
    /// The last line that was not written.
    last: String,
}

/// Similar lines that were not written.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    n_suppressed: u64,
    plugin: String,
    last: String,
}

/// The parts of a line that matter for the limit.
#[derive(Debug, Default)]
struct Line {
    plugin: String,
    text: String,
}

impl<S: Subscriber> Filter<S> for LogRate {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if UNBOUNDED.iter().any(|target| metadata.target().starts_with(target)) {
            return true;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let room = if *metadata.level() > Level::INFO { BELOW_INFO } else { 1.0 };
        let is_admitted = self.admits(metadata.callsite(), line, room, Instant::now());
        if !is_admitted {
            SUPPRESSED.fetch_add(1, Ordering::Relaxed);
            self.tell_later();
        }
        is_admitted
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
}

impl LogRate {
    fn admits(&self, place: Identifier, line: Line, room: f64, now: Instant) -> bool {
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = Key { place, origin: ORIGIN.with_borrow(Clone::clone), plugin: line.plugin };
        if places.len() >= MAX_KEYS && !places.contains_key(&key) {
            key.plugin.clear();
        }
        let full = Bucket { left: BURST * room, then: now, n_suppressed: 0, last: String::new() };
        let bucket = places.entry(key).or_insert(full);
        let seconds = now.saturating_duration_since(bucket.then).as_secs_f64();
        bucket.left = seconds.mul_add(PER_SECOND * room, bucket.left).min(BURST * room);
        bucket.then = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return true;
        }
        bucket.n_suppressed += 1;
        bucket.last = line.text;
        false
    }

    /// The lines that were not written since the last call. Places without lines for a while are forgotten.
    fn take_summaries(&self, now: Instant) -> Vec<Summary> {
        let mut places = self.0.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut summaries = Vec::new();
        for (key, bucket) in places.iter_mut().filter(|(_, bucket)| bucket.n_suppressed > 0) {
            let (n_suppressed, last) = (bucket.n_suppressed, std::mem::take(&mut bucket.last));
            bucket.n_suppressed = 0;
            summaries.push(Summary { n_suppressed, plugin: key.plugin.clone(), last });
        }
        places.retain(|_, bucket| now.saturating_duration_since(bucket.then) < 2 * SUMMARY_EVERY);
        summaries
    }

    /// Starts the thread that reports, because a filter must not log.
    fn tell_later(&self) {
        self.0.teller.get_or_init(|| {
            let rate = self.clone();
            let tell = move || loop {
                thread::sleep(SUMMARY_EVERY);
                for Summary { n_suppressed, plugin, last } in rate.take_summaries(Instant::now()) {
                    warn!(target: SUMMARY, plugin, last, "{n_suppressed} similar messages suppressed");
                }
            };
            // If the thread cannot be started, only the metric shows these lines.
            drop(thread::Builder::new().name("log-summaries".to_owned()).spawn(tell));
        });
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = match field.name() {
            "plugin" => &mut self.plugin,
            "message" => &mut self.text,
            _ => return,
        };
        text.clear();
        // Writing to a string cannot fail.
        let _ = write!(text, "{value:?}");
        text.truncate(text.floor_char_boundary(MAX_TEXT));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Mutex};

    use tracing::{debug, info};
    use tracing_subscriber::{Layer as _, fmt, layer::SubscriberExt as _};

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that `work` writes, and the summaries of the lines that were not written.
    fn written(work: impl FnOnce()) -> (Vec<String>, Vec<Summary>) {
        let (written, rate) = (Written::default(), LogRate::default());
        // The thread that reports would take the summaries away after ten seconds.
        rate.0.teller.set(()).expect("it has not started");
        let sink = written.clone();
        let lines = fmt::layer().with_ansi(false).with_writer(move || sink.clone()).with_filter(rate.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), work);
        let text = String::from_utf8(written.0.lock().expect("no panic").clone()).expect("text");
        (text.lines().map(str::to_owned).collect(), rate.take_summaries(Instant::now()))
    }

    #[test]
    fn a_flood_from_one_plugin_is_cut_off_and_counted() {
        let (lines, summaries) = written(|| {
            for plugin in ["Loud", "Quiet"] {
                for number in 0..if plugin == "Loud" { 100_000 } else { 5 } {
                    warn!(plugin, pod = format!("pod-{number}"), "plugin {plugin} asked to bind pod-{number}");
                }
            }
            info!("another place");
        });
        let of = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
        assert!((100..1000).contains(&of("plugin Loud")), "{} lines", of("plugin Loud"));
        assert_eq!((of("plugin Quiet"), of("another place")), (5, 1));
        let [Summary { n_suppressed, plugin, last }] = &*summaries else { panic!("{summaries:?}") };
        assert_eq!((usize::try_from(*n_suppressed), plugin.as_str()), (Ok(100_000 - of("plugin Loud")), "Loud"));
        assert_eq!(last, "plugin Loud asked to bind pod-99999");
    }

    #[test]
    fn lines_that_an_operator_asked_for_have_more_room() {
        let (lines, _) = written(|| {
            for number in 0..5_000 {
                debug!(number, "a pod was bound");
                info!(target: "berth::cache_dump", number, "queued pod");
            }
        });
        assert_eq!(lines.len(), 10_000);
    }

    #[test]
    fn places_that_are_quiet_are_forgotten() {
        let rate = LogRate::default();
        let n_places = || rate.0.places.lock().expect("no panic").len();
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(fmt::layer().with_writer(io::sink).with_filter(rate.clone())),
            || (0..10).for_each(|number| info!(plugin = format!("{number}"), "hello")),
        );
        assert_eq!(n_places(), 10);
        rate.take_summaries(Instant::now() + 3 * SUMMARY_EVERY);
        assert_eq!(n_places(), 0);
    }
}
