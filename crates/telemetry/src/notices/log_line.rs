//! A line of the log, with the fields of lines about plugins.

use berth_scheduler::{CodePlace, Level};
use tracing::{debug, error, info, warn};

use crate::log_rate;

/// A line that is not written yet.
#[derive(Debug)]
pub(super) struct LogLine {
    pub(super) level: Level,
    /// The row that the line comes from. Lines of the same row about the same plugin are similar.
    pub(super) place: CodePlace,
    pub(super) fields: Fields,
    pub(super) message: String,
}

/// Fields in addition to the plugin. Absent fields are not written.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) profile: Option<String>,
    pub(super) version: Option<String>,
    pub(super) digest: Option<String>,
    pub(super) to: Option<String>,
    pub(super) pod: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) effect: Option<&'static str>,
    pub(super) order: Option<&'static str>,
    pub(super) by: Option<String>,
    pub(super) file: Option<String>,
    pub(super) milliseconds: Option<u64>,
    pub(super) total: Option<u64>,
    pub(super) reason: Option<String>,
}

impl Fields {
    pub(super) fn reason(reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::default() }
    }
}

impl LogLine {
    /// Adds the number of similar lines so far, including lines that were not written.
    pub(super) fn with_total(mut self, total: u64) -> Self {
        self.fields.total = Some(total);
        self
    }

    /// The message with the fields that say why, about which pod, and for which binary.
    pub(super) fn text(&self) -> String {
        let Fields { profile, digest, pod, reason, .. } = &self.fields;
        let fields = [("profile", profile), ("digest", digest), ("pod", pod)];
        let fields = fields.into_iter().filter_map(|(name, value)| {
            let value = value.as_ref().filter(|value| !value.is_empty())?;
            Some(format!("{name} {value}"))
        });
        let fields: Vec<String> = fields.collect();
        let mut text = self.message.clone();
        if !fields.is_empty() {
            text = format!("{text} ({})", fields.join(", "));
        }
        if let Some(reason) = reason {
            text = format!("{text}: {reason}");
        }
        text
    }

    /// Writes the line about this plugin. An empty name stands for no plugin.
    pub(super) fn write(self, plugin: &str) {
        let Self { level, place, fields, message } = self;
        let Fields {
            profile,
            version,
            digest,
            to,
            pod,
            namespace,
            effect,
            order,
            by,
            file,
            milliseconds,
            total,
            reason,
        } = fields;
        let plugin = (!plugin.is_empty()).then_some(plugin);
        let _alike = log_rate::lines_of(place);
        macro_rules! write {
            ($line:ident) => {
                $line!(
                    plugin,
                    profile,
                    version,
                    digest,
                    to,
                    pod,
                    namespace,
                    effect,
                    order,
                    by,
                    file,
                    milliseconds,
                    total,
                    reason,
                    "{message}"
                )
            };
        }
        match level {
            Level::Debug => write!(debug),
            Level::Info => write!(info),
            Level::Warn => write!(warn),
            Level::Error => write!(error),
        }
    }
}
