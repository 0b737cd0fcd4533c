//! Log lines as Kubernetes' components write them: klog's text, or component-base's JSON.
//!
//! klog knows verbosities instead of levels. Lines that kube-scheduler writes have its words, keys and verbosity; their targets
//! are [`V2`], [`V3`] and [`V10`]. For all others, the level says the verbosity: 0 for INFO and above, 4 for DEBUG, 6 for TRACE, and for
//! libraries, requests to the API server among them, 8 and 10.

mod format;
mod levels;

use std::io;

use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, filter::FilterExt as _, fmt, layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use self::format::{KlogJson, KlogText};
pub use self::levels::Verbosity;
use crate::log_rate::{LogRate, SCORES};
use berth_config::Usage;

/// The target of lines that are written from verbosity 2 on, such as one for each bound pod.
pub const V2: &str = "berth::v2";
/// The target of lines that are written from verbosity 3 on.
pub const V3: &str = "berth::v3";
/// The target of lines that are written from verbosity 10 on.
pub const V10: &str = SCORES;

/// `--logging-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KlogFormat {
    Text,
    Json,
}

/// Logs to standard error from here on. `BERTH_LOG` goes before the verbosity.
///
/// # Errors
/// `BERTH_LOG` makes no sense.
pub fn start(verbosity: &Verbosity, format: KlogFormat) -> Result<(), Usage> {
    let filter: Box<dyn tracing_subscriber::layer::Filter<Registry> + Send + Sync> = match std::env::var("BERTH_LOG") {
        Ok(text) => {
            let filter = EnvFilter::try_new(&text).map_err(|error| Usage(format!("BERTH_LOG {text}: {error}")))?;
            Box::new(filter)
        }
        Err(_) => Box::new(verbosity.clone()),
    };
    let filter = filter.and(LogRate::default());
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(false);
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
