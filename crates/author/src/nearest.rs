//! The known name that an author probably meant by an unknown name.

/// The nearest of the known names. A third of the letters may differ, and capital letters count as small letters.
pub(crate) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let lower = name.to_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&lower, &known.to_lowercase());
    let nearest = known.into_iter().map(|known| (distance(known), known)).min();
    let near = nearest.filter(|(distance, _)| *distance <= name.chars().count() / 3);
    near.map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_far_from_all_others_means_none() {
        assert_eq!(nearest("lables", ["name", "labels"]), Some("labels"));
        assert_eq!(nearest("nodename", ["nodeName"]), Some("nodeName"));
        assert_eq!(nearest("whatever", ["name", "labels"]), None);
    }
}
