//! How much of a device's capacities a request consumes (KEP-5075).

use std::collections::BTreeMap;

use berth_model::quantity::{Format, Quantity};

use super::objects::{Capacity, Device, RequestPolicy, SubRequest, ValidRange};

/// The amount of each capacity that `request` would consume of `device`; `None` if the device does not have a requested
/// capacity, or if the amount is more than its policy or the whole device allows. Other shares are not considered.
pub(super) fn consumption(request: &SubRequest, device: &Device) -> Option<BTreeMap<String, Quantity>> {
    let no_requests = BTreeMap::new();
    let requests = request.capacity.as_ref().map_or(&no_requests, |capacity| &capacity.requests);
    if requests.keys().any(|name| !device.capacity.contains_key(name)) {
        return None;
    }
    let mut consumed = BTreeMap::new();
    for (name, capacity) in &device.capacity {
        let amount = consumed_of(capacity, requests.get(name))?;
        if amount > capacity.value {
            return None;
        }
        consumed.insert(name.clone(), amount);
    }
    Some(consumed)
}

fn consumed_of(capacity: &Capacity, requested: Option<&Quantity>) -> Option<Quantity> {
    let policy = capacity.request_policy.as_ref();
    let Some(requested) = requested else {
        // Without a request and a default, all of the capacity is consumed.
        return Some(policy.and_then(|policy| policy.default.as_ref()).unwrap_or(&capacity.value).clone());
    };
    match policy {
        Some(RequestPolicy { valid_range: Some(range), .. }) => rounded_up(range, requested),
        Some(RequestPolicy { valid_values, .. }) if !valid_values.is_empty() => {
            valid_values.iter().filter(|value| *value >= requested).min().cloned()
        }
        Some(_) | None => Some(requested.clone()),
    }
}

/// Rounds up to the minimum, or to a whole number of steps above it.
fn rounded_up(range: &ValidRange, requested: &Quantity) -> Option<Quantity> {
    let zero = Quantity::default();
    let min = range.min.as_ref().unwrap_or(&zero);
    let amount = if requested <= min {
        min.clone()
    } else {
        match &range.step {
            Some(step) if step.signum() > 0 => min + &whole_steps(&(requested - min), step),
            Some(_) | None => requested.clone(),
        }
    };
    range.max.as_ref().is_none_or(|max| amount <= *max).then_some(amount)
}

/// The smallest multiple of `step` that is at least `amount`. The API server requires whole units in ranges; a fraction
/// of a unit in `amount` counts as a unit.
fn whole_steps(amount: &Quantity, step: &Quantity) -> Quantity {
    let (amount_units, step_units) = (amount.value(), step.value().max(1));
    let n_steps = amount_units / step_units + i64::from(amount_units % step_units != 0);
    let format: Format = amount.format();
    Quantity::from_units(n_steps.saturating_mul(step_units), format)
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
        Some(consumption(&request, &device)?.get("memory").unwrap().to_string())
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
    }

    /// API reference, CapacityRequirements: a capacity that the device does not have makes it ineligible.
    #[test]
    fn a_device_without_the_capacity_is_not_eligible() {
        let request: SubRequest = serde_json::from_str(r#"{"capacity":{"requests":{"bandwidth":"1"}}}"#).unwrap();
        assert_eq!(consumption(&request, &Device::default()), None);
    }
}
