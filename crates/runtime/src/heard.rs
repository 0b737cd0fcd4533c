//! The log lines of one thread, for tests.
//!
//! The tests of this crate share one subscriber for the whole process. A subscriber for one thread would not do: while it
//! is the only one, `tracing` asks the thread that reaches a line first whether somebody wants the line, and remembers
//! that answer for all threads.

use std::{cell::RefCell, collections::BTreeSet, fmt, sync::Once};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::{Interest, set_global_default},
};

thread_local! {
    /// `None`: nothing is kept.
    static LINES: RefCell<Option<Vec<Line>>> = const { RefCell::new(None) };
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) target: &'static str,
    pub(crate) message: String,
    /// The names of the fields, without the message.
    pub(crate) fields: BTreeSet<&'static str>,
}

/// Keeps the lines of this thread until it is dropped.
#[derive(Debug)]
pub(crate) struct Heard(());

impl Heard {
    pub(crate) fn new() -> Self {
        install();
        LINES.set(Some(Vec::new()));
        Self(())
    }

    /// Returns the lines since the last call.
    pub(crate) fn take(&self) -> Vec<Line> {
        LINES.replace(Some(Vec::new())).unwrap_or_default()
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        LINES.set(None);
    }
}

/// Installs the subscriber of the process. A test whose lines are also written by other tests needs this call in those
/// tests too, before they write the lines.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| set_global_default(OfThread).expect("no test sets another subscriber"));
}

/// Keeps a line if its thread has a [`Heard`].
struct OfThread;

impl Subscriber for OfThread {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        LINES.with_borrow(Option::is_some)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = Line {
            level: *metadata.level(),
            target: metadata.target(),
            message: String::new(),
            fields: BTreeSet::new(),
        };
        event.record(&mut line);
        LINES.with_borrow_mut(|lines| lines.as_mut().map(|lines| lines.push(line)));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => {
                self.fields.insert(name);
            }
        }
    }
}
