//! Names of components in registries: `registry.example/team/zone:1.2`, with a tag, a digest, or both.
//!
//! A reference must name the registry, and there is no default. A plugin from another registry than its operator
//! expects would be an attack.

use std::{fmt, str::FromStr};

use berth_model::Digest;

/// A component in a registry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Hex>,
}

/// A digest as text, which can be ordered.
type Hex = String;

/// The version that a reference names within its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Version {
    /// A tag, which may name something else later.
    Tag(String),
    /// The digest of the manifest; it always names the same bytes.
    Digest(Digest),
}

/// The reason why a text does not name a component in a registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error(
        "invalid reference {0:?}: the registry is missing: write the reference with its registry, as in registry.example/team/zone:1.2"
    )]
    NoRegistry(String),
    #[error(
        "invalid reference {0:?}: the version is missing; add a tag, as in {0}:1.2, or a digest, as in {0}@sha256:…"
    )]
    NoVersion(String),
    #[error(
        "invalid reference {reference:?}: invalid repository {part:?}: use lowercase letters, digits and . _ - between \
         slashes"
    )]
    Repository { reference: String, part: String },
    #[error("invalid reference {reference:?}: invalid tag {tag:?}: use letters, digits and . _ -, at most 128")]
    Tag { reference: String, tag: String },
    #[error("invalid reference {reference:?}: invalid digest {digest:?}: expected sha256: and 64 hexadecimal digits")]
    Digest { reference: String, digest: String },
}

impl Reference {
    /// The host and, if there is one, the port.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path below the registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digest if there is one, otherwise the tag.
    #[must_use]
    pub fn version(&self) -> Version {
        let digest = self.digest.as_deref().and_then(|digest| digest.parse().ok());
        match (digest, &self.tag) {
            (Some(digest), _) => Version::Digest(digest),
            (None, tag) => Version::Tag(tag.clone().unwrap_or_default()),
        }
    }

    /// Whether the reference always names the same bytes.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.digest.is_some()
    }

    /// The reference to the repository, with this digest.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Self {
        Self { tag: None, digest: Some(digest.to_string()), ..self.clone() }
    }

    /// The name without the version: `registry.example/team/zone`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(formatter, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(formatter, "@sha256:{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let reference = || text.to_owned();
        let (registry, rest) = text.split_once('/').ok_or_else(|| ReferenceError::NoRegistry(reference()))?;
        if !is_registry(registry) {
            return Err(ReferenceError::NoRegistry(reference()));
        }
        let (rest, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, text)) => {
                let digest = parse_digest(text)
                    .ok_or_else(|| ReferenceError::Digest { reference: reference(), digest: text.to_owned() })?;
                (rest, Some(digest.to_string()))
            }
        };
        let (repository, tag) = match rest.split_once(':') {
            None => (rest, None),
            Some((repository, tag)) if is_tag(tag) => (repository, Some(tag.to_owned())),
            Some((_, tag)) => return Err(ReferenceError::Tag { reference: reference(), tag: tag.to_owned() }),
        };
        if let Some(part) = repository.split('/').find(|part| !is_path_part(part)) {
            return Err(ReferenceError::Repository { reference: reference(), part: part.to_owned() });
        }
        if tag.is_none() && digest.is_none() {
            return Err(ReferenceError::NoVersion(reference()));
        }
        Ok(Self { registry: registry.to_owned(), repository: repository.to_owned(), tag, digest })
    }
}

/// Reads a digest in the form of registries: `sha256:` and the digits.
pub(crate) fn parse_digest(text: &str) -> Option<Digest> {
    text.strip_prefix("sha256:")?.parse().ok()
}

/// Whether the text names a registry. Docker's clients treat a first part without a dot or a port as a user's name on
/// their default registry.
pub(crate) fn is_registry(text: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | ':' | '[' | ']');
    let names_host = text.contains(['.', ':']) || text == "localhost";
    names_host && text.chars().all(is_allowed) && !text.starts_with([':', '.', '-'])
}

fn is_path_part(part: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    part.starts_with(is_plain)
        && part.ends_with(is_plain)
        && part.chars().all(|letter| is_plain(letter) || matches!(letter, '.' | '_' | '-'))
        && !part.contains("..")
}

fn is_tag(tag: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    (1..=128).contains(&tag.len())
        && tag.starts_with(is_plain)
        && tag.chars().all(|letter| is_plain(letter) || matches!(letter, '.' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "6c3c624b58dbbcd3c0dd82b4c53f04194d1247c6eebdaab7c610cf7d66709b3b";

    #[test]
    fn references_are_read_and_written() {
        for text in ["registry.example/zone:1.2", "localhost:5000/a/b-c:latest", "[::1]:5000/a:1"] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
            assert!(!reference.is_pinned());
        }
        let text = format!("registry.example:5000/a/b:1@sha256:{DIGEST}");
        let reference: Reference = text.parse().unwrap();
        assert_eq!(reference.to_string(), text);
        assert_eq!(reference.version(), Version::Digest(DIGEST.parse().unwrap()));
        assert_eq!(reference.name(), "registry.example:5000/a/b");
    }

    #[test]
    fn what_names_no_component_is_refused() {
        for (text, words) in [
            ("zone:1.2", "the registry is missing"),
            ("team/zone:1.2", "the registry is missing"),
            ("registry.example/zone", "the version is missing"),
            ("registry.example/Zone:1", "invalid repository"),
            ("registry.example/../zone:1", "invalid repository"),
            ("registry.example//zone:1", "invalid repository"),
            ("registry.example/zone:a/b", "invalid tag"),
            ("registry.example/zone@sha256:12", "invalid digest"),
            ("registry.example/zone@md5:12", "invalid digest"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(words) && error.contains(text), "{text}: {error}");
        }
    }
}
