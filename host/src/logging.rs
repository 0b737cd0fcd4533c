//! Log lines go to standard error, because results go to standard output.

use std::io::{self, IsTerminal as _};

use anyhow::{Context as _, Result};
use berth_config::Usage;
use berth_telemetry::log_rate::LogRate;
use clap::ValueEnum;
use tracing_subscriber::{
    EnvFilter, Layer as _, filter::FilterExt as _, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// kube warns at each connection that it does not verify the server's certificate. `berth_cluster::connect` logs this
/// once, so kube's warnings are filtered out.
const REPEATED: &str = "kube_client::client::tls=error";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Logs the lines that `filter` lets through from this call on, without the lines of the target `left_out`.
///
/// # Errors
/// The filter is invalid.
pub(crate) fn start_logging(filter: &str, format: LogFormat, left_out: Option<&str>) -> Result<()> {
    let mut filter = EnvFilter::try_new(filter)
        .map_err(|error| Usage(format!("--log {filter}: {error}; try `info` or `berth_cluster=debug,warn`")))?;
    filter = filter.add_directive(REPEATED.parse().context("cannot parse the filter of repeated lines")?);
    if let Some(target) = left_out {
        filter =
            filter.add_directive(format!("{target}=off").parse().context("cannot parse the filter of one target")?);
    }
    let filter = filter.and(LogRate::default());
    let lines = fmt::layer().with_writer(io::stderr);
    match format {
        LogFormat::Text => {
            let lines = lines.with_ansi(io::stderr().is_terminal()).with_filter(filter);
            tracing_subscriber::registry().with(lines).init();
        }
        LogFormat::Json => tracing_subscriber::registry().with(lines.json().with_filter(filter)).init(),
    }
    Ok(())
}
