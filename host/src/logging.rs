//! Log lines, on standard error: standard output belongs to results.

use std::io::{self, IsTerminal as _};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::failure::Usage;

/// kube warns with each connection that the server's certificate is not verified; `berth_cluster::connect` says it once.
const REPEATED: &str = "kube_client::client::tls=error";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Logs what `filter` lets through, from here on.
///
/// # Errors
/// The filter makes no sense.
pub(crate) fn start_logging(filter: &str, format: LogFormat) -> Result<()> {
    let mut filter = EnvFilter::try_new(filter)
        .map_err(|error| Usage(format!("--log {filter}: {error}; try `info` or `berth_cluster=debug,warn`")))?;
    filter = filter.add_directive(REPEATED.parse().context("the filter of repeated lines")?);
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Text => logs.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}
