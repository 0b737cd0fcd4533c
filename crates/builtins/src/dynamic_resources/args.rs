//! The plugin's args, `DynamicResourcesArgs`.

use berth_model::{Feature, Features, duration::parse_duration};
use serde::Deserialize;

/// The number of steps, each a check of one device, that stand for a millisecond of timeout. Steps make answers
/// independent of the machine. The allocator takes about this many in a millisecond.
const STEPS_PER_MILLISECOND: u64 = 1_000;
const DEFAULT_FILTER_TIMEOUT: u64 = 10_000;
const DEFAULT_BINDING_TIMEOUT: u64 = 600_000;

/// The args in the form in which the plugin uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DynamicResourcesArgs {
    /// The maximum number of steps of the search for devices on one node.
    pub(super) max_steps: u64,
    /// Whether the search on all nodes ends when the time limit of the search for a node is reached.
    pub(super) is_timed: bool,
    /// The maximum time until binding conditions of devices become true, in milliseconds.
    pub(super) binding_timeout: u64,
    pub(super) features: Features,
}

/// The args as a user writes them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawArgs {
    filter_timeout: Option<String>,
    binding_timeout: Option<String>,
}

/// A value that the plugin refuses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidArgs {
    #[error("bindingTimeout: must be at least 1s")]
    BindingTimeout,
    #[error("{field}: invalid duration {text:?}, or below zero")]
    Duration { field: &'static str, text: String },
}

impl DynamicResourcesArgs {
    pub(super) fn new(raw: RawArgs, features: Features) -> Result<Self, InvalidArgs> {
        let filter_timeout = milliseconds("filterTimeout", raw.filter_timeout, DEFAULT_FILTER_TIMEOUT)?;
        let binding_timeout = milliseconds("bindingTimeout", raw.binding_timeout, DEFAULT_BINDING_TIMEOUT)?;
        if binding_timeout == 0 {
            return Err(InvalidArgs::BindingTimeout);
        }
        // 0 means no timeout.
        let is_timed = filter_timeout > 0 && features.has(Feature::DRASchedulerFilterTimeout);
        let max_steps = if is_timed { filter_timeout.saturating_mul(STEPS_PER_MILLISECOND) } else { u64::MAX };
        Ok(Self { max_steps, is_timed, binding_timeout, features })
    }

    /// Whether conditions of devices can keep a pod from being bound.
    pub(super) fn waits_for_devices(&self) -> bool {
        self.features.has(Feature::DRADeviceBindingConditions)
            && self.features.has(Feature::DRAResourceClaimDeviceStatus)
    }
}

fn milliseconds(field: &'static str, text: Option<String>, default: u64) -> Result<u64, InvalidArgs> {
    let Some(text) = text else { return Ok(default) };
    duration(&text).ok_or(InvalidArgs::Duration { field, text })
}

/// The duration in milliseconds, rounded up; `None` if the duration is negative or invalid.
fn duration(text: &str) -> Option<u64> {
    let nanos = u64::try_from(parse_duration(text)?).ok()?;
    Some(nanos.div_ceil(1_000_000))
}

#[cfg(test)]
mod tests {
    use berth_framework::ConfigureError;

    use super::*;

    /// <https://kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1/>, DynamicResourcesArgs.
    #[test]
    fn time_outs_have_defaults_and_bounds() {
        let parse = |args: &str| -> Result<DynamicResourcesArgs, ConfigureError> {
            let raw: RawArgs = crate::args::parse("DynamicResources", args)?;
            DynamicResourcesArgs::new(raw, Features::default()).map_err(ConfigureError::new)
        };
        let (is_timed, features) = (true, Features::default());
        let default = DynamicResourcesArgs { max_steps: 10_000_000, is_timed, binding_timeout: 600_000, features };
        assert_eq!(parse("null"), Ok(default));
        let written = parse(r#"{"filterTimeout":"1m0.5s","bindingTimeout":"1h"}"#);
        assert_eq!(
            written,
            Ok(DynamicResourcesArgs { max_steps: 60_500_000, is_timed, binding_timeout: 3_600_000, features })
        );
        let unlimited = parse(r#"{"filterTimeout":"0s"}"#).unwrap();
        assert_eq!((unlimited.max_steps, unlimited.is_timed), (u64::MAX, false));
        for refused in
            [r#"{"filterTimeout":"-1s"}"#, r#"{"bindingTimeout":"0"}"#, r#"{"filterTimeout":"1"}"#, r#"{"x":1}"#]
        {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn without_its_gate_a_search_has_no_timeout() {
        let parsed = |is_on| {
            let features = Features::default().with(Feature::DRASchedulerFilterTimeout, is_on);
            let args = DynamicResourcesArgs::new(RawArgs::default(), features).unwrap();
            (args.max_steps, args.is_timed)
        };
        assert_eq!((parsed(true), parsed(false)), ((10_000_000, true), (u64::MAX, false)));
    }
}
