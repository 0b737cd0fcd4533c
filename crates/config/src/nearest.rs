//! The name that an operator may have meant by a misspelt name.

/// The known name that is closest to another name, if it is close enough: at most a third of the letters may differ.
/// Capital letters count as small letters.
#[must_use]
pub fn nearest(name: &str, known: &[&str]) -> Option<String> {
    let lower = name.to_lowercase();
    let distance = |known: &str| strsim::damerau_levenshtein(&lower, &known.to_lowercase());
    let others = known.iter().filter(|known| **known != name);
    let (distance, nearest) = others.map(|known| (distance(known), *known)).min()?;
    (distance <= name.chars().count() / 3).then(|| nearest.to_owned())
}
