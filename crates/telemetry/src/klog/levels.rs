//! The lines that are written: `-v`, `--vmodule`, and the value that `/debug/flags/v` sets.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use berth_config::Usage;
use tracing::{Level, Metadata, subscriber::Interest};
use tracing_subscriber::{
    Registry,
    filter::LevelFilter,
    layer::{Context, Filter},
};

use super::{V2, V3, V4, V5, V10};

/// Decides whether lines are written. Clones share one verbosity.
#[derive(Clone, Debug, Default)]
pub struct Verbosity(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    verbosity: AtomicU32,
    modules: Vec<Module>,
}

/// An entry of `--vmodule`.
#[derive(Debug)]
struct Module {
    /// A pattern for the name of a source file without its extension. `*` stands for any text, `?` for a character.
    pattern: String,
    verbosity: u32,
}

impl Verbosity {
    /// A verbosity. `modules` are the entries of `--vmodule`, such as `executor=4`.
    ///
    /// # Errors
    /// An entry does not have this form.
    pub fn new(verbosity: u32, modules: &[&str]) -> Result<Self, Usage> {
        let module = |entry: &&str| {
            let wrong = || Usage(format!("--vmodule {entry}: write pattern=N, as in executor=4"));
            let (pattern, verbosity) = entry.split_once('=').ok_or_else(wrong)?;
            Ok(Module { pattern: pattern.to_owned(), verbosity: verbosity.parse().map_err(|_| wrong())? })
        };
        let modules = modules.iter().filter(|entry| !entry.is_empty()).map(module).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Inner { verbosity: AtomicU32::new(verbosity), modules })))
    }

    /// Changes the verbosity from now on.
    pub fn set(&self, verbosity: u32) {
        self.0.verbosity.store(verbosity, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    fn lets_through(&self, metadata: &Metadata<'_>) -> bool {
        let needed = verbosity_of(metadata);
        needed <= self.0.verbosity.load(Ordering::Relaxed)
            || self.0.modules.iter().any(|module| {
                let file = metadata.file().and_then(|file| file.rsplit('/').next()).unwrap_or_default();
                needed <= module.verbosity && matches(&module.pattern, file.strip_suffix(".rs").unwrap_or(file))
            })
    }
}

/// The lowest verbosity at which the line is written.
pub(super) fn verbosity_of(metadata: &Metadata<'_>) -> u32 {
    let is_ours = metadata.target().starts_with("berth");
    match *metadata.level() {
        // kube logs at each connection that a certificate is not verified; `berth_cluster::connect` logs it once.
        Level::WARN if metadata.target().starts_with("kube_client::client::tls") => 4,
        Level::ERROR | Level::WARN | Level::INFO => 0,
        _ if metadata.target() == V2 => 2,
        _ if metadata.target() == V3 => 3,
        _ if metadata.target() == V4 => 4,
        _ if metadata.target() == V5 => 5,
        _ if metadata.target() == V10 => 10,
        Level::DEBUG if is_ours => 4,
        Level::TRACE if is_ours => 6,
        Level::DEBUG => 8,
        Level::TRACE => 10,
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => text
            .char_indices()
            .map(|(at, _)| at)
            .chain([text.len()])
            .any(|at| text.get(at..).is_some_and(|text| matches(rest.as_str(), text))),
        Some(first) => {
            let mut text = text.chars();
            text.next().is_some_and(|found| first == '?' || first == found) && matches(rest.as_str(), text.as_str())
        }
    }
}

impl Filter<Registry> for Verbosity {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, Registry>) -> bool {
        self.lets_through(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.lets_through(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let highest = self.0.modules.iter().map(|module| module.verbosity).max().unwrap_or(0);
        Some(match highest.max(self.0.verbosity.load(Ordering::Relaxed)) {
            0 | 1 => LevelFilter::INFO,
            2..6 => LevelFilter::DEBUG,
            6.. => LevelFilter::TRACE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_klog() {
        for (pattern, text, is_match) in [
            ("executor", "executor", true),
            ("executor", "executors", false),
            ("exec*", "executor", true),
            ("*", "", true),
            ("?xecutor", "executor", true),
            ("*or", "executor", true),
            ("", "executor", false),
        ] {
            assert_eq!(matches(pattern, text), is_match, "{pattern} {text}");
        }
        for wrong in ["executor", "executor=", "executor=high"] {
            let error = Verbosity::new(0, &[wrong]).expect_err("refused").to_string();
            assert!(error.starts_with(&format!("--vmodule {wrong}: write pattern=N")), "{error}");
        }
    }

    #[test]
    fn the_highest_verbosity_bounds_the_levels() {
        let verbosity = Verbosity::new(0, &["steps=4"]).expect("right");
        assert_eq!(verbosity.max_level_hint(), Some(LevelFilter::DEBUG));
        verbosity.set(6);
        assert_eq!(verbosity.max_level_hint(), Some(LevelFilter::TRACE));
    }
}
