//! The progress of long work: a bar on a terminal, or a few log lines elsewhere.

use std::{
    io::{self, IsTerminal as _},
    sync::atomic::{AtomicUsize, Ordering},
};

use indicatif::{ProgressBar, ProgressStyle};
use tracing::info;

/// Work with fewer parts shows no progress.
const WORTH_SHOWING: usize = 200;

/// The number of log lines for the whole work where standard error is not a terminal.
const LINES: usize = 4;

#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    what: String,
    total: usize,
    done: AtomicUsize,
}

impl Progress {
    pub(crate) fn new(total: usize, what: &str) -> Self {
        let bar = (total >= WORTH_SHOWING && io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX));
            if let Ok(style) = ProgressStyle::with_template("{msg} {bar:40} {pos}/{len} {eta}") {
                bar.set_style(style);
            }
            bar.with_message(what.to_owned())
        });
        Self { bar, what: what.to_owned(), total, done: AtomicUsize::new(0) }
    }

    pub(crate) fn advance(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        match &self.bar {
            Some(bar) => bar.inc(1),
            None if self.total >= WORTH_SHOWING && done.is_multiple_of(self.total.div_ceil(LINES)) => {
                info!("{}: {done} of {}", self.what, self.total);
            }
            None => {}
        }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
