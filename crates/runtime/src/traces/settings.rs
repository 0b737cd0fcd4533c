//! The collector and the rate of sampling, from the file of `--tracing-config-file` and from the environment.

use std::path::Path;

use anyhow::Result;
use berth_config::{TracingSettings, Usage};
use berth_framework::TraceSampling;
use berth_otlp::Destination;

/// The variable for the share of attempts that are traced, from 0 to 1.
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// The collector, and the number of attempts out of a million that are traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceSettings {
    pub(crate) destination: Destination,
    pub(crate) per_million: u32,
}

/// Checks a TracingConfiguration as the start of a scheduler does.
///
/// # Errors
/// The error says what is wrong with the file, or with a variable that completes it.
pub fn check_tracing_config(file: &Path) -> Result<()> {
    TraceSettings::read(file).map(drop)
}

impl TraceSettings {
    /// Reads the file. The environment of the process decides the values that the file leaves open.
    ///
    /// # Errors
    /// The error says what is wrong with the file or with a variable.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let shown = file.display().to_string();
        let text = std::fs::read_to_string(file)
            .map_err(|error| Usage(format!("--tracing-config-file {shown}: cannot be read: {error}")))?;
        Ok(Self::from_text(&shown, &text, |name| std::env::var(name).ok())?)
    }

    fn from_text(file: &str, text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Usage> {
        let in_file = |error: &dyn std::fmt::Display| Usage(format!("--tracing-config-file {error}"));
        let settings = TracingSettings::from_text(file, text).map_err(|error| in_file(&error))?;
        let TracingSettings { endpoint, sampling_rate_per_million } = settings;
        let destination =
            Destination::new(endpoint.as_deref(), &variable).map_err(|error| in_file(&format!("{file}: {error}")))?;
        let per_million = match sampling_rate_per_million {
            Some(rate) => rate,
            None => match variable(SAMPLER_ARG).filter(|value| !value.is_empty()) {
                Some(share) => per_million(&share).ok_or_else(|| {
                    Usage(format!("{SAMPLER_ARG}: Invalid value: {share:?}: must be a number from 0 to 1"))
                })?,
                // Kubernetes' components also trace their own spans only if a rate is given.
                None => 0,
            },
        };
        Ok(Self { destination, per_million })
    }
}

fn per_million(share: &str) -> Option<u32> {
    let share: f64 = share.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share))?;
    #[expect(clippy::cast_possible_truncation, reason = "the product is a whole number from 0 to a million")]
    let rate = (share * f64::from(TraceSampling::ALL)).round() as u32;
    Some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &str, variables: &[(&str, &str)]) -> Result<(u32, String), Usage> {
        let text = format!("{{apiVersion: apiserver.config.k8s.io/v1, kind: TracingConfiguration, {fields}}}");
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let settings = TraceSettings::from_text("t.yaml", &text, variable)?;
        Ok((settings.per_million, settings.destination.to_string()))
    }

    #[test]
    fn the_file_goes_before_the_environment() {
        let variables = [(SAMPLER_ARG, "0.25"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b:4318")];
        let (rate, destination) = read("endpoint: 'a:1', samplingRatePerMillion: 7", &variables).expect("valid");
        assert_eq!(rate, 7);
        assert!(destination.starts_with("http://a:1/"), "{destination}");
        assert_eq!(read("", &variables).expect("valid"), (250_000, "http://b:4318/v1/traces".to_owned()));
        assert_eq!(read("", &[]).expect("valid").0, 0, "nothing is traced unless a rate is given");
    }

    #[test]
    fn mistakes_name_the_file_or_the_variable() {
        let error = read("endpoint: 'ftp://a'", &[]).expect_err("refused").to_string();
        assert!(
            error.starts_with("--tracing-config-file t.yaml: endpoint: Invalid value: \"ftp://a\": use"),
            "{error}"
        );
        let error = read("rate: 1", &[]).expect_err("refused").to_string();
        assert!(error.starts_with("--tracing-config-file t.yaml: rate: unknown field"), "{error}");
        let error = read("", &[(SAMPLER_ARG, "2")]).expect_err("refused").to_string();
        assert_eq!(error, "OTEL_TRACES_SAMPLER_ARG: Invalid value: \"2\": must be a number from 0 to 1");
    }
}
