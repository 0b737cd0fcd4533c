//! The amount of a device's capacities that a request consumes (KEP-5075).

use std::collections::BTreeMap;

use berth_model::{
    Feature, Features,
    quantity::{Format, Quantity},
};

use super::objects::{Capacity, Device, RequestPolicy, SubRequest, ValidRange};

/// The amount of each capacity that `request` would consume of `device`; `None` if the device does not have a requested
/// capacity, or if the amount is more than its policy or the whole device allows. Other shares are not considered.
pub(super) fn consumption(
    request: &SubRequest,
    device: &Device,
    features: Features,
) -> Option<BTreeMap<String, Quantity>> {
    let no_requests = BTreeMap::new();
    let requests = request.capacity.as_ref().map_or(&no_requests, |capacity| &capacity.requests);
    if requests.keys().any(|name| !device.capacity.contains_key(name)) {
        return None;
    }
    let mut consumed = BTreeMap::new();
    for (name, capacity) in &device.capacity {
        let amount = consumed_of(capacity, requests.get(name), features);
        let policy = capacity.request_policy.as_ref();
        if policy.is_some_and(|policy| violates(policy, &amount, features)) || amount > capacity.value {
            return None;
        }
        consumed.insert(name.clone(), amount);
    }
    Some(consumed)
}

fn consumed_of(capacity: &Capacity, requested: Option<&Quantity>, features: Features) -> Quantity {
    let policy = capacity.request_policy.as_ref();
    let Some(requested) = requested else {
        // A claim without a request and without a default consumes the whole capacity.
        return policy.and_then(|policy| policy.default.as_ref()).unwrap_or(&capacity.value).clone();
    };
    match policy {
        Some(RequestPolicy { valid_range: Some(range), .. }) => rounded_up(range, requested, features),
        Some(RequestPolicy { valid_values, .. }) => {
            valid_values.iter().find(|value| *value >= requested).unwrap_or(requested).clone()
        }
        None => requested.clone(),
    }
}

/// Whether the policy forbids the amount. Its default is always allowed.
fn violates(policy: &RequestPolicy, amount: &Quantity, features: Features) -> bool {
    if policy.default.as_ref() == Some(amount) {
        return false;
    }
    let Some(range) = &policy.valid_range else {
        return !policy.valid_values.is_empty() && !policy.valid_values.contains(amount);
    };
    let is_off_step = || {
        let (Some(step), Some(min)) = (&range.step, &range.min) else { return false };
        let unit = Unit::of(range, features);
        unit.amount(amount).saturating_sub(unit.amount(min)) % unit.amount(step).max(1) != 0
    };
    range.max.as_ref().is_some_and(|max| amount > max) || is_off_step()
}

/// The unit in which ranges are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// A fraction of a unit counts as a unit.
    Whole,
    Thousandth,
}

impl Unit {
    /// The unit is a thousandth if the gate DRAFractionalCapacityRange is on and the range needs and allows it.
    fn of(range: &ValidRange, features: Features) -> Self {
        let mut given = range.min.iter().chain(&range.max).chain(&range.step);
        let is_whole = |amount: &Quantity| *amount == Quantity::from_units(amount.value(), amount.format());
        let fits = |amount: &Quantity| amount.value() <= i64::MAX / 1000;
        let is_counted = range.step.as_ref().is_none_or(|step| *step >= Quantity::from_milli(1));
        let needs = given.clone().any(|amount| !is_whole(amount));
        if features.has(Feature::DRAFractionalCapacityRange) && needs && is_counted && given.all(fits) {
            Self::Thousandth
        } else {
            Self::Whole
        }
    }

    fn amount(self, quantity: &Quantity) -> i64 {
        match self {
            Self::Whole => quantity.value(),
            Self::Thousandth => quantity.milli_value(),
        }
    }

    fn quantity(self, amount: i64, format: Format) -> Quantity {
        match self {
            Self::Whole => Quantity::from_units(amount, format),
            Self::Thousandth if amount % 1000 == 0 => Quantity::from_units(amount / 1000, format),
            Self::Thousandth => Quantity::from_milli(amount),
        }
    }
}

/// Rounds up to the minimum, or to a whole number of steps above it.
fn rounded_up(range: &ValidRange, requested: &Quantity, features: Features) -> Quantity {
    let Some(min) = &range.min else { return requested.clone() };
    if requested < min {
        return min.clone();
    }
    let Some(step) = &range.step else { return requested.clone() };
    let unit = Unit::of(range, features);
    let above_min = unit.amount(requested).saturating_sub(unit.amount(min));
    let step_units = unit.amount(step).max(1);
    let n_steps = above_min / step_units + i64::from(above_min % step_units != 0);
    let amount = unit.amount(min).saturating_add(n_steps.saturating_mul(step_units));
    let has_format_of_step = features.has(Feature::RoundedCapacityHasFormatOfStep);
    unit.quantity(amount, if has_format_of_step { step.format() } else { Format::BinarySi })
}

#[cfg(test)]
mod tests {
    use berth_model::Release;

    use super::*;

    fn taken(policy: &str, requested: Option<&str>) -> Option<String> {
        let device = format!(r#"{{"capacity":{{"memory":{{"value":"40Gi","requestPolicy":{policy}}}}}}}"#);
        let device: Device = serde_json::from_str(&device).unwrap();
        let requests = requested.map_or_else(String::new, |amount| format!(r#""memory":"{amount}""#));
        let request: SubRequest =
            serde_json::from_str(&format!(r#"{{"capacity":{{"requests":{{{requests}}}}}}}"#)).unwrap();
        Some(consumption(&request, &device, Features::default())?.get("memory").unwrap().to_string())
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
        let taken = |requested: &str, release| {
            let request = format!(r#"{{"capacity":{{"requests":{{"bandwidth":"{requested}"}}}}}}"#);
            let request: SubRequest = serde_json::from_str(&request).unwrap();
            consumption(&request, &device, Features::of(release)).unwrap().get("bandwidth").unwrap().to_string()
        };
        let (old, new) = (Release::V1_36, Release::V1_37);
        assert_eq!([taken("3500M", old), taken("1G", old)], ["3906250Ki", "1000000000"]);
        assert_eq!([taken("3500M", new), taken("500M", old)], ["4G", "1G"]);
    }

    #[test]
    fn ranges_are_counted_in_thousandths_with_the_gate() {
        let taken = |min: &str, step: &str, requested: &str| {
            let policy = format!(r#"{{"validRange":{{"min":"{min}","step":"{step}"}}}}"#);
            let device = format!(r#"{{"capacity":{{"c":{{"value":"40","requestPolicy":{policy}}}}}}}"#);
            let device: Device = serde_json::from_str(&device).unwrap();
            let request = format!(r#"{{"capacity":{{"requests":{{"c":"{requested}"}}}}}}"#);
            let request: SubRequest = serde_json::from_str(&request).unwrap();
            let [old, new] = Release::ALL.map(Features::of);
            let gate = new.with(Feature::DRAFractionalCapacityRange, true);
            [old, new, gate].map(|features| consumption(&request, &device, features).unwrap()["c"].to_string())
        };
        assert_eq!(taken("100m", "100m", "250m"), ["1", "1", "300m"]);
        assert_eq!(taken("500m", "250m", "1"), ["1", "1", "1"]);
        assert_eq!(taken("1", "2", "4"), ["5", "5", "5"]);
    }

    /// API reference, CapacityRequirements: a capacity that the device does not have makes it ineligible.
    #[test]
    fn a_device_without_the_capacity_is_not_eligible() {
        let request: SubRequest = serde_json::from_str(r#"{"capacity":{"requests":{"bandwidth":"1"}}}"#).unwrap();
        assert_eq!(consumption(&request, &Device::default(), Features::default()), None);
    }
}
