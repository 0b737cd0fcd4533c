//! Serialization of shared texts, and of bytes that are usually text (`#[serde(with = "…")]`).

/// Serializes an `Arc<str>` as a string.
pub mod shared_text {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serializer};

    /// Writes the text.
    ///
    /// # Errors
    /// The serializer failed.
    pub fn serialize<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text)
    }

    /// Reads a string.
    ///
    /// # Errors
    /// The value is not a string.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
        String::deserialize(deserializer).map(Arc::from)
    }
}

/// Serializes bytes as a string if they are UTF-8, as JSON is, and otherwise as a list of numbers.
pub mod text_or_bytes {
    use std::fmt;

    use serde::{
        Deserializer, Serializer,
        de::{SeqAccess, Visitor},
    };

    /// Writes a string or a list.
    ///
    /// # Errors
    /// The serializer failed.
    pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(bytes.as_ref()) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(bytes.as_ref()),
        }
    }

    /// Reads a string or a list.
    ///
    /// # Errors
    /// The value is neither a string nor a list, or a number of the list is not a byte.
    pub fn deserialize<'de, D: Deserializer<'de>, T: From<Vec<u8>>>(deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(Bytes).map(T::from)
    }

    struct Bytes;

    impl<'de> Visitor<'de> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a string, or a list of bytes")
        }

        fn visit_str<E>(self, text: &str) -> Result<Vec<u8>, E> {
            Ok(text.as_bytes().to_owned())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u8>, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = list.next_element()? {
                bytes.push(byte);
            }
            Ok(bytes)
        }
    }
}
