//! Compares resource versions of one object.

/// Whether `found` is newer than `base`. Versions that are not numbers have no order, so any other version counts as
/// newer.
pub(super) fn is_newer(found: &str, base: &str) -> bool {
    match (found.parse::<u64>(), base.parse::<u64>()) {
        (Ok(found), Ok(base)) => found > base,
        (Err(_), _) | (_, Err(_)) => found != base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_where_they_can_be() {
        assert!(is_newer("10", "9"));
        assert!(!is_newer("9", "9"));
        assert!(!is_newer("9", "10"));
        assert!(is_newer("b", "a"));
        assert!(!is_newer("a", "a"));
    }
}
