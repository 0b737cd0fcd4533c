//! Amounts of several resources.

use std::collections::BTreeMap;

use berth_sdk::model::{
    Sym, Symbols,
    pod::Resources,
    quantity::{Format, Quantity},
};

/// Amounts by resource: milli-CPU for `cpu`, bytes for memory and storage, and a number of units for other resources.
pub(crate) type Amounts = BTreeMap<String, i64>;

/// The requests of a pod.
pub(crate) fn of_pod(requests: &Resources, symbols: &Symbols) -> Amounts {
    let known = [
        (Sym::CPU, requests.milli_cpu),
        (Sym::MEMORY, requests.memory),
        (Sym::EPHEMERAL_STORAGE, requests.ephemeral_storage),
    ];
    let all = known.into_iter().chain(requests.scalars.iter().copied());
    let some = all.filter(|(_, amount)| *amount > 0);
    some.map(|(resource, amount)| (symbols.text(resource).to_owned(), amount)).collect()
}

pub(crate) fn of_quantities(quantities: &BTreeMap<String, Quantity>) -> Amounts {
    let units =
        |resource: &str, amount: &Quantity| if resource == "cpu" { amount.milli_value() } else { amount.value() };
    quantities.iter().map(|(resource, amount)| (resource.clone(), units(resource, amount))).collect()
}

pub(crate) fn add(sum: &mut Amounts, more: &Amounts) {
    for (resource, amount) in more {
        *sum.entry(resource.clone()).or_default() += amount;
    }
}

/// Subtracts the amounts of `less`. A resource that `sum` does not have gets a negative amount.
pub(crate) fn subtract(sum: &mut Amounts, less: &Amounts) {
    for (resource, amount) in less {
        *sum.entry(resource.clone()).or_default() -= amount;
    }
}

/// The first wanted resource whose sum would exceed the limit, in words: `cpu would be 12 of 10`. A resource that the
/// limit does not name is not limited.
pub(crate) fn first_excess(used: &Amounts, wanted: &Amounts, limit: &Amounts) -> Option<String> {
    wanted.iter().find_map(|(resource, wanted)| {
        let limit = *limit.get(resource)?;
        let would_be = used.get(resource).copied().unwrap_or_default() + wanted;
        let show = |amount| shown(resource, amount);
        (would_be > limit).then(|| format!("{resource} would be {} of {}", show(would_be), show(limit)))
    })
}

fn shown(resource: &str, amount: i64) -> Quantity {
    match resource {
        "cpu" => Quantity::from_milli(amount),
        "memory" | "ephemeral-storage" => Quantity::from_units(amount, Format::BinarySi),
        _ => Quantity::from_units(amount, Format::DecimalSi),
    }
}
