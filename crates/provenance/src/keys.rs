//! Keys that sign and keys that verify: Ed25519, and ECDSA on P-256 with SHA-256, which `cosign` creates.
//!
//! The arithmetic is ring's. This module reads keys from the PEM of `openssl` and `cosign`, and writes the same form.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use berth_model::Digest;
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
        UnparsedPublicKey, VerificationAlgorithm,
    },
};
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer, pem::PemObject as _};
use x509_parser::{oid_registry, prelude::FromDer as _, x509::SubjectPublicKeyInfo};

use crate::artifact::digest_of;

/// The bytes before the 32 bytes of a public Ed25519 key (RFC 8410).
const ED25519_SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// The bytes before the 32 bytes of a private Ed25519 key.
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// The bytes before the 65 bytes of a point on P-256 (RFC 5480).
const P256_SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A key that verifies signatures.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    algorithm: Algorithm,
    /// The key itself.
    bytes: Vec<u8>,
    /// The key with its algorithm, as DER.
    info: Vec<u8>,
}

/// A key that makes signatures.
pub struct PrivateKey {
    pair: Pair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Ed25519,
    P256,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair, SystemRandom),
}

/// The reason why a text is not a usable key. The text of the reason continues the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("contains no PUBLIC KEY in PEM; `openssl pkey -in KEY -pubout` writes one")]
    NoPublicKey,
    #[error("contains no PRIVATE KEY in PEM (PKCS #8); `berth plugin keygen` makes one")]
    NoPrivateKey,
    #[error("is encrypted, and Berth cannot ask for the passphrase: decrypt the key, or sign with `cosign sign --key`")]
    Encrypted,
    #[error("contains a key that is neither Ed25519 nor ECDSA on P-256")]
    Algorithm,
    #[error("cannot be generated: the system provides no random numbers")]
    NoRandomness,
}

impl PublicKey {
    /// Reads the only key of a PEM file.
    ///
    /// # Errors
    /// The file contains no key, or a key of another kind.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).map_err(|_| KeyError::NoPublicKey)?;
        Self::from_der(&der)
    }

    /// Reads a key from DER (SubjectPublicKeyInfo).
    pub(crate) fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let (_, info) = SubjectPublicKeyInfo::from_der(der).map_err(|_| KeyError::NoPublicKey)?;
        let curve = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
        let algorithm = match (&info.algorithm.algorithm, curve) {
            (oid, _) if *oid == oid_registry::OID_SIG_ED25519 => Algorithm::Ed25519,
            (oid, Some(curve)) if *oid == oid_registry::OID_KEY_TYPE_EC_PUBLIC_KEY => {
                if curve != oid_registry::OID_EC_P256 {
                    return Err(KeyError::Algorithm);
                }
                Algorithm::P256
            }
            _ => return Err(KeyError::Algorithm),
        };
        Ok(Self::new(algorithm, &info.subject_public_key.data))
    }

    fn new(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let prefix = match algorithm {
            Algorithm::Ed25519 => &ED25519_SPKI[..],
            Algorithm::P256 => &P256_SPKI[..],
        };
        Self { algorithm, bytes: bytes.to_vec(), info: [prefix, bytes].concat() }
    }

    /// Whether the signature of this message was made with the private key.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn VerificationAlgorithm = match self.algorithm {
            Algorithm::Ed25519 => &ED25519,
            Algorithm::P256 => &ECDSA_P256_SHA256_ASN1,
        };
        UnparsedPublicKey::new(algorithm, &self.bytes).verify(message, signature).is_ok()
    }

    /// The SHA-256 of the key with its algorithm. Transparency logs use it as a log's id.
    #[must_use]
    pub fn id(&self) -> Digest {
        digest_of(&self.info)
    }

    #[must_use]
    pub fn to_pem(&self) -> String {
        pem("PUBLIC KEY", &self.info)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PublicKey({:?}, {})", self.algorithm, self.id().short())
    }
}

impl PrivateKey {
    /// Reads the only key of a PEM file (PKCS #8).
    ///
    /// # Errors
    /// The file contains no key, an encrypted key, or a key of another kind.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        if text.contains("-----BEGIN ENCRYPTED") {
            return Err(KeyError::Encrypted);
        }
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).map_err(|_| KeyError::NoPrivateKey)?;
        let der = der.secret_pkcs8_der();
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(Self { pair: Pair::Ed25519(pair) });
        }
        let random = SystemRandom::new();
        match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der, &random) {
            Ok(pair) => Ok(Self { pair: Pair::P256(pair, random) }),
            Err(_) => Err(KeyError::Algorithm),
        }
    }

    /// Creates an Ed25519 key, as PEM.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn generate_pem() -> Result<String, KeyError> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| KeyError::NoRandomness)?;
        Ok(pem("PRIVATE KEY", &[&ED25519_PKCS8[..], &seed].concat()))
    }

    /// # Errors
    /// The system provides no random numbers, which ECDSA needs.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        match &self.pair {
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Pair::P256(pair, random) => {
                let signature = pair.sign(random, message).map_err(|_| KeyError::NoRandomness)?;
                Ok(signature.as_ref().to_vec())
            }
        }
    }

    #[must_use]
    pub fn public(&self) -> PublicKey {
        match &self.pair {
            Pair::Ed25519(pair) => PublicKey::new(Algorithm::Ed25519, pair.public_key().as_ref()),
            Pair::P256(pair, _) => PublicKey::new(Algorithm::P256, pair.public_key().as_ref()),
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PrivateKey(of {:?})", self.public())
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, left) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = left;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`.
    const P256: &str = include_str!("../tests/keys/p256.pem");

    #[test]
    fn a_new_key_signs_what_its_public_half_verifies() {
        let private = PrivateKey::from_pem(&PrivateKey::generate_pem().unwrap()).unwrap();
        let public = PublicKey::from_pem(&private.public().to_pem()).unwrap();
        assert_eq!(public, private.public());
        let signature = private.sign(b"component").unwrap();
        assert!(public.verifies(b"component", &signature));
        assert!(!public.verifies(b"c0mponent", &signature));
        let other = PrivateKey::from_pem(&PrivateKey::generate_pem().unwrap()).unwrap();
        assert!(!other.public().verifies(b"component", &signature));
    }

    #[test]
    fn keys_that_openssl_wrote_are_read() {
        let private = PrivateKey::from_pem(P256).unwrap();
        let public = PublicKey::from_pem(include_str!("../tests/keys/p256.pub")).unwrap();
        assert_eq!(private.public(), public);
        assert_eq!(public.to_pem(), include_str!("../tests/keys/p256.pub"));
        assert!(public.verifies(b"x", &private.sign(b"x").unwrap()));
        let ed25519 = PrivateKey::from_pem(include_str!("../tests/keys/ed25519.pem")).unwrap();
        assert_eq!(ed25519.public().to_pem(), include_str!("../tests/keys/ed25519.pub"));
    }

    #[test]
    fn what_is_no_key_is_refused_with_a_reason() {
        assert_eq!(PublicKey::from_pem(P256).unwrap_err(), KeyError::NoPublicKey);
        assert_eq!(PublicKey::from_pem(include_str!("../tests/keys/p384.pub")).unwrap_err(), KeyError::Algorithm);
        assert_eq!(PrivateKey::from_pem("").unwrap_err(), KeyError::NoPrivateKey);
        let encrypted =
            "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n";
        assert_eq!(PrivateKey::from_pem(encrypted).unwrap_err(), KeyError::Encrypted);
    }
}
