//! Quantities as exact numbers (<https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>).

/// The quantity in thousandths. As documented, finer amounts are rounded up, and the maximum is 2^63-1.
pub(super) fn thousandths(text: &str) -> i128 {
    const SUFFIXES: [(&str, i128, i128); 15] = [
        ("Ki", 1 << 10, 1),
        ("Mi", 1 << 20, 1),
        ("Gi", 1 << 30, 1),
        ("Ti", 1 << 40, 1),
        ("Pi", 1 << 50, 1),
        ("Ei", 1 << 60, 1),
        ("k", 1_000, 1),
        ("M", 1_000_000, 1),
        ("G", 1_000_000_000, 1),
        ("T", 1_000_000_000_000, 1),
        ("P", 1_000_000_000_000_000, 1),
        ("E", 1_000_000_000_000_000_000, 1),
        ("m", 1, 1_000),
        ("u", 1, 1_000_000),
        ("n", 1, 1_000_000_000),
    ];
    let split = |(suffix, times, over): (&str, i128, i128)| Some((text.strip_suffix(suffix)?, times, over));
    let (number, times, over) = SUFFIXES.into_iter().find_map(split).unwrap_or((text, 1, 1));
    let number: i128 = number.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let exact = number * times * 1_000;
    let rounded = (exact + over - 1) / over;
    rounded.min(i128::from(i64::MAX) * 1_000)
}
