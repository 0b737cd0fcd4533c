//! The identity of a component, which is the SHA-256 of its bytes, and the identity of a plugin's binary.
//!
//! Every [`Digest`] was computed from bytes. Code that is linked into the host has no digest, so it has its own
//! [`BinaryId`].

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A SHA-256 digest. It is shown and read as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The identity of a plugin's binary. It is shown as the digest, or as `native`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BinaryId {
    /// The code is linked into this program.
    Native,
    /// The binary is a component.
    Component(Digest),
}

/// The text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a SHA-256 digest: expected 64 hexadecimal digits")]
pub struct DigestError(String);

impl Digest {
    /// The digest with these 32 bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the SHA-256.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 12 digits, which are enough for a person to distinguish two binaries.
    #[must_use]
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let error = || DigestError(text.to_owned());
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(error());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            for &digit in pair {
                *byte = *byte << 4 | value(digit).ok_or_else(error)?;
            }
        }
        Ok(Self(bytes))
    }
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Display for BinaryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BinaryId::Native => formatter.write_str("native"),
            BinaryId::Component(digest) => digest.fmt(formatter),
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_reads_what_it_writes() {
        let digest: Digest = EMPTY.parse().expect("64 digits");
        assert_eq!(digest.to_string(), EMPTY);
        assert_eq!(digest.short(), "e3b0c44298fc");
        assert_eq!(EMPTY.to_uppercase().parse(), Ok(digest));
        assert_eq!(Digest::new(*digest.as_bytes()), digest);
    }

    #[test]
    fn a_binary_is_shown_as_native_or_as_its_digest() {
        let digest: Digest = EMPTY.parse().expect("64 digits");
        assert_eq!(BinaryId::Component(digest).to_string(), EMPTY);
        assert_eq!(BinaryId::Native.to_string(), "native");
    }

    #[test]
    fn other_texts_are_no_digests() {
        for text in ["", "native", &EMPTY[1..], &EMPTY.replace('e', "x"), &EMPTY.replace("e3", "é")] {
            text.parse::<Digest>().expect_err(text);
        }
    }
}
