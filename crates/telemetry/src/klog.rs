//! Log lines in the form of Kubernetes' components: klog's text, or component-base's JSON.
//!
//! klog has verbosities instead of levels. Lines that kube-scheduler also writes have its words, keys and verbosity
//! ([`lines`]); their targets are [`V2`], [`V3`], [`V4`], [`V5`] and [`V10`]. For all other lines, the level determines the verbosity: 0 for INFO
//! and above, 4 for DEBUG, and 6 for TRACE. Libraries, which include requests to the API server, have 8 and 10.

mod format;
mod levels;
pub mod lines;
mod streams;

use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, filter::FilterExt as _, fmt, layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use self::format::{KlogJson, KlogText};
pub use self::{
    levels::Verbosity,
    streams::{LogStreams, StreamWriter},
};
use crate::log_rate::{LogRate, SCORES};
use berth_config::Usage;

/// The target of lines that are written at verbosity 2 and above, such as the line for each bound pod.
pub const V2: &str = "berth::v2";
/// The target of lines that are written at verbosity 3 and above.
pub const V3: &str = "berth::v3";
/// The target of lines that are written at verbosity 4 and above.
pub const V4: &str = "berth::v4";
/// The target of lines that are written at verbosity 5 and above.
pub const V5: &str = "berth::v5";
/// The target of lines that are written at verbosity 10 and above.
pub const V10: &str = SCORES;

/// `--logging-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KlogFormat {
    Text,
    Json,
}

/// Logs to these streams from now on. `BERTH_LOG` takes precedence over the verbosity.
///
/// # Errors
/// `BERTH_LOG` is invalid.
pub fn start(verbosity: &Verbosity, format: KlogFormat, streams: &LogStreams) -> Result<(), Usage> {
    let filter: Box<dyn tracing_subscriber::layer::Filter<Registry> + Send + Sync> = match std::env::var("BERTH_LOG") {
        Ok(text) => {
            let filter = EnvFilter::try_new(&text).map_err(|error| Usage(format!("BERTH_LOG {text}: {error}")))?;
            Box::new(filter)
        }
        Err(_) => Box::new(verbosity.clone()),
    };
    let filter = filter.and(LogRate::default());
    let lines = fmt::layer().with_writer(streams.clone()).with_ansi(false);
    match format {
        KlogFormat::Text => {
            let lines = lines.event_format(KlogText).with_filter(filter);
            tracing_subscriber::registry().with(lines).init();
        }
        KlogFormat::Json => {
            let lines = lines.event_format(KlogJson).with_filter(filter);
            tracing_subscriber::registry().with(lines).init();
        }
    }
    Ok(())
}
