//! `TracingConfiguration`, the document with which Kubernetes' components get the address of a collector of traces
//! (`k8s.io/apiserver/pkg/apis/apiserver/v1`, `k8s.io/component-base/tracing/api/v1`).

use berth_framework::TraceSampling;
use serde_json::Value;

use crate::{
    error::{ConfigError, Problems},
    fields::Fields,
};

/// The versions of the group that kube-apiserver reads. All versions have the same fields.
const API_VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const KIND: &str = "TracingConfiguration";

/// The content of a `TracingConfiguration`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracingSettings {
    /// The address of the collector. This crate does not check the address.
    pub endpoint: Option<String>,
    /// The number of traces for a million attempts, at most [`TraceSampling::ALL`].
    pub sampling_rate_per_million: Option<u32>,
}

impl TracingSettings {
    /// Reads a document. `file_name` appears in errors.
    ///
    /// # Errors
    /// The text is not YAML or JSON, or is not a valid `TracingConfiguration`.
    pub fn from_text(file_name: &str, text: &str) -> Result<Self, ConfigError> {
        let document: Value = serde_saphyr::from_str(text)
            .map_err(|error| ConfigError::Syntax { file: file_name.to_owned(), source: Box::new(error) })?;
        let problems = Problems::default();
        let fields = Fields::new("", Some(&document), &problems);
        read_identity(&fields);
        let settings = Self {
            endpoint: fields.text("endpoint").map(str::to_owned),
            sampling_rate_per_million: read_rate(&fields),
        };
        fields.finish();
        problems.settle(file_name)?;
        Ok(settings)
    }
}

fn read_identity(fields: &Fields<'_>) {
    match fields.text("apiVersion") {
        Some(found) if API_VERSIONS.contains(&found) => {}
        Some(found) => fields.problems.unsupported(&fields.at("apiVersion"), found, &API_VERSIONS),
        None => fields.required("apiVersion", &format!("begin the document with \"apiVersion: {}\"", API_VERSIONS[0])),
    }
    match fields.text("kind") {
        Some(KIND) => {}
        Some(found) => fields.problems.unsupported(&fields.at("kind"), found, &[KIND]),
        None => fields.required("kind", &format!("begin the document with \"kind: {KIND}\"")),
    }
}

fn read_rate(fields: &Fields<'_>) -> Option<u32> {
    let rate = fields.whole32("samplingRatePerMillion")?;
    let read = u32::try_from(rate).ok().filter(|rate| *rate <= TraceSampling::ALL);
    if read.is_none() {
        fields.invalid("samplingRatePerMillion", rate, "must be between 0 and 1000000 inclusive; 1000000 traces all");
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &str) -> Result<TracingSettings, ConfigError> {
        let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n{fields}");
        TracingSettings::from_text("tracing.yaml", &text)
    }

    #[test]
    fn a_document_of_kube_apiserver_is_read() {
        let settings = read("endpoint: collector:4317\nsamplingRatePerMillion: 100\n").expect("valid");
        let expected =
            TracingSettings { endpoint: Some("collector:4317".to_owned()), sampling_rate_per_million: Some(100) };
        assert_eq!(settings, expected);
        assert_eq!(read("").expect("valid"), TracingSettings::default());
        let earlier = "{apiVersion: apiserver.config.k8s.io/v1beta1, kind: TracingConfiguration}";
        assert_eq!(TracingSettings::from_text("t", earlier).expect("valid"), TracingSettings::default());
    }

    #[test]
    fn all_mistakes_are_told_with_file_field_and_remedy() {
        let error = read("samplingRatePerMillion: 1000001\nendPoint: x\n").expect_err("refused").to_string();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(
            lines,
            [
                "tracing.yaml: samplingRatePerMillion: Invalid value: 1000001: must be between 0 and 1000000 inclusive; \
                 1000000 traces all",
                "tracing.yaml: endPoint: unknown field; remove it or use one of: apiVersion, kind, endpoint, \
                 samplingRatePerMillion",
            ]
        );
        let error = TracingSettings::from_text("t", "kind: Pod").expect_err("refused").to_string();
        assert!(error.contains("t: apiVersion: Required value: begin the document with"), "{error}");
        assert!(
            error.contains("t: kind: Unsupported value: \"Pod\": supported values: \"TracingConfiguration\""),
            "{error}"
        );
        assert!(read("samplingRatePerMillion: [").expect_err("refused").to_string().contains("correct the syntax"));
    }

    #[test]
    fn the_guide_names_each_field_and_no_other() {
        let page = include_str!("../../../docs/src/tracing.md");
        let table = page.split("\n| field | |\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a table");
        let listed: Vec<&str> = table.lines().filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect();
        let error = read("zzz: 1\n").expect_err("refused").to_string();
        let (_, known) = error.split_once("use one of: ").expect("the known fields");
        let known: Vec<&str> = known.split(", ").filter(|name| !["apiVersion", "kind"].contains(name)).collect();
        assert_eq!(listed, known);
    }
}
