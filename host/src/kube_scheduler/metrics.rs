//! The flags about metrics: which are shown, and with which values of their labels.

use std::{collections::BTreeMap, fs};

use berth_config::Usage;
use berth_kube_flags::Given;
use berth_telemetry::metrics::{AllowedLabels, MetricsOptions};

/// The values of `--show-hidden-metrics-for-version`: the release before each release that Berth emulates. Such a
/// release has no metric that Berth hides.
const PREVIOUS: [&str; 2] = ["1.35", "1.36"];

/// Reads the flags. The manifest's entries replace the entries of `--allow-metric-labels` for the same label.
///
/// # Errors
/// A key is not a metric and a label, the manifest cannot be read, or a version is not the previous version.
pub(super) fn read(given: &Given) -> Result<MetricsOptions, Usage> {
    if let Some(version) = given.text("show-hidden-metrics-for-version").filter(|version| !version.is_empty())
        && !PREVIOUS.contains(&version)
    {
        let [first, second] = PREVIOUS;
        return Err(Usage(format!(
            "--show-hidden-metrics-for-version must be omitted or have the value '{first}' or '{second}'. Only the \
             previous minor version is allowed"
        )));
    }
    let mut allowed_labels = AllowedLabels::default();
    for text in given.texts("allow-metric-labels") {
        for (key, values) in pairs(text)? {
            allowed_labels.allow(&key, &values).map_err(|error| Usage(error.to_string()))?;
        }
    }
    if let Some(file) = given.text("allow-metric-labels-manifest").filter(|file| !file.is_empty()) {
        let unreadable = |error: &dyn std::fmt::Display| {
            Usage(format!("--allow-metric-labels-manifest: failed to read allow list manifest {file}: {error}"))
        };
        let text = fs::read_to_string(file).map_err(|error| unreadable(&error))?;
        let entries: BTreeMap<String, String> = serde_saphyr::from_str(&text).map_err(|error| unreadable(&error))?;
        for (key, values) in &entries {
            allowed_labels
                .allow(key, values)
                .map_err(|_| unreadable(&format_args!("{key}: write METRIC,LABEL, as in metric1,label1: v1,v2")))?;
        }
    }
    let disabled = given.texts("disabled-metrics").into_iter().map(str::to_owned).collect();
    Ok(MetricsOptions { disabled, allowed_labels })
}

/// The pairs of one flag, as pflag's `StringToString` reads them: one `KEY=VALUE`, or several, separated by commas.
/// Quotes protect commas.
fn pairs(text: &str) -> Result<Vec<(String, String)>, Usage> {
    let fields = if text.matches('=').count() == 1 { vec![text.trim_matches('"').to_owned()] } else { quoted(text) };
    let pair = |field: &String| {
        let (key, value) = field
            .split_once('=')
            .ok_or_else(|| Usage(format!("--allow-metric-labels: {field} must be formatted as key=value")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    fields.iter().map(pair).collect()
}

/// The fields of a line of comma-separated values. Two quotes inside a quoted field are one quote.
fn quoted(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(flags: &[String]) -> Result<MetricsOptions, Usage> {
        read(&Given::read(flags.iter().cloned()).expect("known flags"))
    }

    #[test]
    fn pairs_are_read_as_pflag_reads_them() {
        let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(pairs("m,l=a,b").expect("a pair"), own(&[("m,l", "a,b")]));
        assert_eq!(pairs("\"m,l=a,b\",\"n,l=c\"").expect("two pairs"), own(&[("m,l", "a,b"), ("n,l", "c")]));
        let error = pairs("m,l").expect_err("no value").0;
        assert_eq!(error, "--allow-metric-labels: m must be formatted as key=value");
    }

    #[test]
    fn a_mistake_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("labels.yaml");
        let manifest = format!("--allow-metric-labels-manifest={}", file.display());
        let error = given(&["--allow-metric-labels=metric=a".to_owned()]).expect_err("no label").0;
        assert!(error.starts_with("--allow-metric-labels must have a list of kv pair"), "{error}");
        let error = given(std::slice::from_ref(&manifest)).expect_err("no file").0;
        assert!(error.contains("failed to read allow list manifest") && error.contains("labels.yaml"), "{error}");
        fs::write(&file, "metric: a\n").expect("a file");
        let error = given(std::slice::from_ref(&manifest)).expect_err("no label").0;
        assert!(error.contains("labels.yaml: metric: write METRIC,LABEL"), "{error}");
        for version in ["", "1.35", "1.36"] {
            given(&[format!("--show-hidden-metrics-for-version={version}")]).expect("a previous version, or none");
        }
        let error = given(&["--show-hidden-metrics-for-version=1.30".to_owned()]).expect_err("too old").0;
        assert!(error.starts_with("--show-hidden-metrics-for-version must be omitted or have the value"), "{error}");
        fs::write(&file, "metric,label: a,b\n").expect("a file");
        given(&[manifest]).expect("a valid manifest");
    }
}
