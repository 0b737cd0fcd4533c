//! The flags about the streams of the log: `--log-text-split-stream`, `--log-json-split-stream`, and their buffers.

use std::time::Duration;

use berth_config::Usage;
use berth_kube_flags::Given;
use berth_model::quantity::Quantity;
use berth_telemetry::klog::{KlogFormat, LogStreams};

use super::emulation;

/// The gate without which kube-scheduler refuses these flags.
const GATE: &str = "LoggingAlphaOptions";

/// The interval at which a buffer is written, without `--log-flush-frequency`.
const FLUSH_EVERY: Duration = Duration::from_secs(5);

/// The maximum size of a buffer, as in kube-scheduler.
const MAX_BUFFER: i64 = 2 << 30;

/// Reads the flags. The flags of the other format are also checked, and have no effect.
///
/// # Errors
/// A value is wrong, or the gate is off.
pub(super) fn read(given: &Given, format: KlogFormat) -> Result<LogStreams, Usage> {
    let flush_every = given.duration("log-flush-frequency").unwrap_or(FLUSH_EVERY);
    if flush_every.is_zero() {
        return Err(Usage("--log-flush-frequency: Must be greater than zero".to_owned()));
    }
    let (text, json) = (FormatFlags::read(given, "text")?, FormatFlags::read(given, "json")?);
    let FormatFlags { is_split, n_bytes } = match format {
        KlogFormat::Text => text,
        KlogFormat::Json => json,
    };
    if !is_split {
        return Ok(LogStreams::default());
    }
    LogStreams::split(n_bytes, flush_every)
        .map_err(|error| Usage(format!("cannot start the thread that writes the buffered log: {error}")))
}

/// The flags about the streams of one format.
struct FormatFlags {
    is_split: bool,
    /// The size of the buffer.
    n_bytes: usize,
}

impl FormatFlags {
    fn read(given: &Given, format: &str) -> Result<Self, Usage> {
        let (split, buffer) = (format!("log-{format}-split-stream"), format!("log-{format}-info-buffer-size"));
        let is_split = given.switch(&split).unwrap_or_default();
        let size = given.text(&buffer).unwrap_or("0");
        let size = size.parse::<Quantity>().map_err(|error| Usage(format!("--{buffer} {size}: {error}")))?;
        let n_bytes = usize::try_from(size.value().min(MAX_BUFFER)).unwrap_or(0);
        // A wrong gate is reported later, with all other flags of the scheduler.
        let has_gate = || emulation(given).is_ok_and(|emulation| emulation.asked(GATE) == Some(true));
        for (flag, is_used) in [(&split, is_split), (&buffer, n_bytes > 0)] {
            if is_used && !has_gate() {
                let text = format!("--{flag}: Feature {GATE} is disabled: add --feature-gates={GATE}=true");
                return Err(Usage(text));
            }
        }
        Ok(Self { is_split, n_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_streams_are_split_only_with_the_gate() {
        let read = |flags: &[&str], format| {
            let given = Given::read(flags.iter().map(|flag| (*flag).to_owned())).expect("known flags");
            read(&given, format)
        };
        let refused = |flags: &[&str]| read(flags, KlogFormat::Text).expect_err("refused").0;
        for flag in [
            "log-text-split-stream",
            "log-json-split-stream",
            "log-text-info-buffer-size=1Ki",
            "log-json-info-buffer-size=512",
        ] {
            let name = flag.split('=').next().unwrap_or_default();
            let expected = format!(
                "--{name}: Feature LoggingAlphaOptions is disabled: add --feature-gates=LoggingAlphaOptions=true"
            );
            assert_eq!(refused(&[&format!("--{flag}")]), expected);
        }
        assert_eq!(refused(&["--log-flush-frequency=0s"]), "--log-flush-frequency: Must be greater than zero");
        assert!(
            refused(&["--log-text-info-buffer-size=big"]).starts_with("--log-text-info-buffer-size big: quantities")
        );
        let gate = "--feature-gates=kube:LoggingAlphaOptions=true";
        read(&[gate, "--log-text-split-stream"], KlogFormat::Text).expect("accepted");
        for format in [KlogFormat::Text, KlogFormat::Json] {
            read(&["--log-text-split-stream=false", "--log-json-info-buffer-size=0"], format).expect("the defaults");
        }
    }
}
