//! How much of a device's capacities a request consumes (KEP-5075).

use std::collections::BTreeMap;

use berth_model::quantity::{Format, Quantity};

use super::objects::{Capacity, Device, RequestPolicy, SubRequest, ValidRange};

/// The amount of each capacity that `request` would consume of `device`; `None` if the device does not have a requested
/// capacity, or if the amount is more than its policy or the whole device allows. Other shares are not considered. Amounts
/// that are rounded up get the format of the policy's step if `format_of_step`, else that of binary suffixes.
pub(super) fn consumption(
    request: &SubRequest,
    device: &Device,
    format_of_step: bool,
) -> Option<BTreeMap<String, Quantity>> {
    let no_requests = BTreeMap::new();
    let requests = request.capacity.as_ref().map_or(&no_requests, |capacity| &capacity.requests);
    if requests.keys().any(|name| !device.capacity.contains_key(name)) {
        return None;
    }
    let mut consumed = BTreeMap::new();
    for (name, capacity) in &device.capacity {
        let amount = consumed_of(capacity, requests.get(name), format_of_step);
        let policy = capacity.request_policy.as_ref();
        if policy.is_some_and(|policy| violates(policy, &amount)) || amount > capacity.value {
            return None;
        }
        consumed.insert(name.clone(), amount);
    }
    Some(consumed)
}

fn consumed_of(capacity: &Capacity, requested: Option<&Quantity>, format_of_step: bool) -> Quantity {
    let policy = capacity.request_policy.as_ref();
    let Some(requested) = requested else {
        // Without a request and a default, all of the capacity is consumed.
        return policy.and_then(|policy| policy.default.as_ref()).unwrap_or(&capacity.value).clone();
    };
    match policy {
        Some(RequestPolicy { valid_range: Some(range), .. }) => rounded_up(range, requested, format_of_step),
        Some(RequestPolicy { valid_values, .. }) => {
            valid_values.iter().find(|value| *value >= requested).unwrap_or(requested).clone()
        }
        None => requested.clone(),
    }
}

/// Whether the policy forbids the amount. Its default is always allowed.
fn violates(policy: &RequestPolicy, amount: &Quantity) -> bool {
    if policy.default.as_ref() == Some(amount) {
        return false;
    }
    let Some(range) = &policy.valid_range else {
        return !policy.valid_values.is_empty() && !policy.valid_values.contains(amount);
    };
    let is_off_step = || {
        let (Some(step), Some(min)) = (&range.step, &range.min) else { return false };
        amount.value().saturating_sub(min.value()) % step.value().max(1) != 0
    };
    range.max.as_ref().is_some_and(|max| amount > max) || is_off_step()
}

/// Rounds up to the minimum, or to a whole number of steps above it. The API server requires whole units in ranges; a
/// fraction of a unit counts as a unit.
fn rounded_up(range: &ValidRange, requested: &Quantity, format_of_step: bool) -> Quantity {
    let Some(min) = &range.min else { return requested.clone() };
    if requested < min {
        return min.clone();
    }
    let Some(step) = &range.step else { return requested.clone() };
    let (above_min, step_units) = (requested.value().saturating_sub(min.value()), step.value().max(1));
    let n_steps = above_min / step_units + i64::from(above_min % step_units != 0);
    let units = min.value().saturating_add(n_steps.saturating_mul(step_units));
    Quantity::from_units(units, if format_of_step { step.format() } else { Format::BinarySi })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(policy: &str, requested: Option<&str>) -> Option<String> {
        let device = format!(r#"{{"capacity":{{"memory":{{"value":"40Gi","requestPolicy":{policy}}}}}}}"#);
        let device: Device = serde_json::from_str(&device).unwrap();
        let requests = requested.map_or_else(String::new, |amount| format!(r#""memory":"{amount}""#));
        let request: SubRequest =
            serde_json::from_str(&format!(r#"{{"capacity":{{"requests":{{{requests}}}}}}}"#)).unwrap();
        Some(consumption(&request, &device, false)?.get("memory").unwrap().to_string())
    }

    #[track_caller]
    fn check(policy: &str, requested: Option<&str>, expected: Option<&str>) {
        assert_eq!(taken(policy, requested).as_deref(), expected, "{policy} {requested:?}");
    }

    /// API reference, CapacityRequestPolicy: default, validValues and validRange with min, max and step.
    #[test]
    fn a_policy_rounds_requests_up() {
        check("null", None, Some("40Gi"));
        check("null", Some("3Gi"), Some("3Gi"));
        check("null", Some("41Gi"), None);
        check(r#"{"default":"1Gi"}"#, None, Some("1Gi"));
        let values = r#"{"default":"8Gi","validValues":["8Gi","16Gi"]}"#;
        check(values, None, Some("8Gi"));
        check(values, Some("1"), Some("8Gi"));
        check(values, Some("9Gi"), Some("16Gi"));
        check(values, Some("17Gi"), None);
        let range = r#"{"default":"2Gi","validRange":{"min":"2Gi","max":"10Gi","step":"4Gi"}}"#;
        check(range, Some("1Gi"), Some("2Gi"));
        check(range, Some("3Gi"), Some("6Gi"));
        check(range, Some("6Gi"), Some("6Gi"));
        check(range, Some("7Gi"), Some("10Gi"));
        check(range, Some("11Gi"), None);
        check(r#"{"validRange":{"min":"1Gi"}}"#, Some("5Gi"), Some("5Gi"));
        check(r#"{"validRange":{"max":"10Gi"}}"#, None, None);
    }

    /// Kubernetes 1.36 writes whole amounts with binary suffixes, 1.37 in the format of the step.
    #[test]
    fn rounded_amounts_have_a_format() {
        let device = r#"{"capacity":{"bandwidth":{"value":"10G","requestPolicy":{"default":"1G",
            "validRange":{"min":"1G","step":"1G"}}}}}"#;
        let device: Device = serde_json::from_str(device).unwrap();
        let taken = |requested: &str, format_of_step| {
            let request = format!(r#"{{"capacity":{{"requests":{{"bandwidth":"{requested}"}}}}}}"#);
            let request: SubRequest = serde_json::from_str(&request).unwrap();
            consumption(&request, &device, format_of_step).unwrap().get("bandwidth").unwrap().to_string()
        };
        assert_eq!([taken("3500M", false), taken("1G", false)], ["3906250Ki", "1000000000"]);
        assert_eq!([taken("3500M", true), taken("500M", false)], ["4G", "1G"]);
    }

    /// API reference, CapacityRequirements: a capacity that the device does not have makes it ineligible.
    #[test]
    fn a_device_without_the_capacity_is_not_eligible() {
        let request: SubRequest = serde_json::from_str(r#"{"capacity":{"requests":{"bandwidth":"1"}}}"#).unwrap();
        assert_eq!(consumption(&request, &Device::default(), false), None);
    }
}
