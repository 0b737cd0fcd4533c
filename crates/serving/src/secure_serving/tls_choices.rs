//! `--tls-cipher-suites` and `--tls-curve-preferences`: what the server offers to clients, by the names of Go's
//! `crypto/tls`, as in kube-scheduler.

use berth_config::Usage;
use rustls::{
    CipherSuite, NamedGroup, SupportedCipherSuite,
    crypto::{CryptoProvider, SupportedKxGroup, ring},
};

/// The cipher suites of TLS 1.2 and the curves that the server offers. By default the server offers all that Berth
/// supports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsChoices {
    /// Empty stands for all. The suites of TLS 1.3 cannot be chosen, as in Go.
    suites: Vec<CipherSuite>,
    /// The preferred curve comes first. Empty stands for all.
    curves: Vec<NamedGroup>,
}

/// The suites of TLS 1.2 that Berth has, by the names of Go.
const SUITES: [(&str, CipherSuite); 8] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// The suites of TLS 1.3, which are always offered.
const ALWAYS: [&str; 3] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// The curves that Berth has, by the numbers of Go's `CurveID`, which are the numbers of TLS.
const CURVES: [(u16, NamedGroup); 3] =
    [(23, NamedGroup::secp256r1), (24, NamedGroup::secp384r1), (29, NamedGroup::X25519)];

impl TlsChoices {
    /// Reads the values of both flags.
    ///
    /// # Errors
    /// A suite or a curve is unknown, or Berth lacks it.
    pub fn read(suites: &[&str], curves: &[&str]) -> Result<Self, Usage> {
        let mut chosen = Self::default();
        for name in suites.iter().filter(|name| !name.is_empty()) {
            if ALWAYS.contains(name) {
                continue;
            }
            let Some((_, suite)) = SUITES.into_iter().find(|(known, _)| known == name) else {
                let known: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
                let text = format!("--tls-cipher-suites: {name} is not available: use some of {}", known.join(", "));
                return Err(Usage(text));
            };
            chosen.suites.push(suite);
        }
        for number in curves.iter().filter(|number| !number.is_empty()) {
            let known =
                number.parse().ok().and_then(|number: u16| CURVES.into_iter().find(|(known, _)| *known == number));
            let Some((_, curve)) = known else {
                let text = "use the numbers 23 (P-256), 24 (P-384) and 29 (X25519)";
                return Err(Usage(format!("--tls-curve-preferences: {number} is not available: {text}")));
            };
            chosen.curves.push(curve);
        }
        Ok(chosen)
    }

    /// The cryptography of the server.
    pub(super) fn provider(&self) -> CryptoProvider {
        let mut provider = ring::default_provider();
        if !self.suites.is_empty() {
            let is_of_tls13 = |suite: &SupportedCipherSuite| suite.tls13().is_some();
            provider.cipher_suites.retain(|suite| is_of_tls13(suite) || self.suites.contains(&suite.suite()));
        }
        if !self.curves.is_empty() {
            let all: Vec<&'static dyn SupportedKxGroup> = provider.kx_groups.clone();
            let chosen = self.curves.iter().filter_map(|curve| all.iter().find(|group| group.name() == *curve));
            provider.kx_groups = chosen.copied().collect();
        }
        provider
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_offered_and_the_suites_of_tls13() {
        let all = TlsChoices::read(&[], &[]).expect("fine").provider();
        let chosen =
            TlsChoices::read(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"], &["24", "29"]);
        let chosen = chosen.expect("fine").provider();
        let suites: Vec<CipherSuite> = chosen.cipher_suites.iter().map(SupportedCipherSuite::suite).collect();
        assert_eq!(suites.len(), 4, "{suites:?}");
        assert!(suites.contains(&CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256), "{suites:?}");
        let curves: Vec<NamedGroup> = chosen.kx_groups.iter().map(|group| group.name()).collect();
        assert_eq!(curves, [NamedGroup::secp384r1, NamedGroup::X25519]);
        // Every suite of TLS 1.2 and every curve has a name.
        let older = all.cipher_suites.iter().filter(|suite| suite.tls13().is_none()).map(SupportedCipherSuite::suite);
        assert!(older.into_iter().all(|suite| SUITES.iter().any(|(_, known)| *known == suite)));
        assert!(all.kx_groups.iter().all(|group| CURVES.iter().any(|(_, known)| *known == group.name())));
    }

    #[test]
    fn what_is_not_available_is_refused() {
        for (suites, curves, part) in [
            (&["TLS_RSA_WITH_AES_128_CBC_SHA"][..], &[][..], "TLS_RSA_WITH_AES_128_CBC_SHA is not available"),
            (&[], &["25"], "25 is not available"),
            (&[], &["P256"], "P256 is not available"),
        ] {
            let error = TlsChoices::read(suites, curves).expect_err("refused").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
