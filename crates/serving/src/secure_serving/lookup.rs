//! The authorities that the cluster publishes. The API server writes its own authorities into a ConfigMap for other
//! components that serve requests (`pkg/server/options/authentication.go` of the generic API server). The ConfigMap is
//! read at the start and followed from then on. Each key counts for itself: unusable content leaves the authorities as
//! they are.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result, anyhow};
use berth_cluster::ConfigMapWatch;
use berth_telemetry::chain;
use rustls::crypto::CryptoProvider;
use tracing::{info, warn};

use super::{
    Authorities, FrontProxy, Lookup,
    access::client,
    current_tls::CurrentTls,
    trust::{CLIENT_CA, CONFIG_MAP, NAMESPACE, PROXY_CA, TrustedAuthorities, TrustedProxies, published_under},
};

/// The remedy for unusable content. The API server adds its authorities to those of the ConfigMap, and cannot do so
/// either.
const FIX: &str = "delete the ConfigMap: the API server creates it again with its own authorities";

/// The key of the front proxies' names.
const ALLOWED_NAMES: &str = "requestheader-allowed-names";

/// The data of the ConfigMap.
type Data = BTreeMap<String, String>;

/// The published authorities, as far as they are known.
#[derive(Debug)]
pub(super) struct Published {
    watch: ConfigMapWatch,
    last: Data,
}

/// The outcome of new data.
#[derive(Debug, Default)]
struct Taken {
    has_changed: bool,
    /// Whether there are authorities for clients and for front proxies.
    clients: bool,
    front_proxies: bool,
    /// The reasons why authorities cannot be used.
    unusable: Vec<anyhow::Error>,
}

/// Asks the cluster for the authorities that no flag names; `None` if the cluster is not asked.
///
/// # Errors
/// There is no usable answer, and it is required.
pub(super) async fn look_up(tls: &CurrentTls) -> Result<Option<Published>> {
    let serving = &tls.serving;
    let is_needed = serving.client_ca.is_none() || serving.front_proxy.is_none();
    if serving.lookup == Lookup::None || !is_needed {
        return Ok(None);
    }
    let asked = serving.authentication.as_ref();
    let Some(client) = client(asked, "--authentication-kubeconfig").await? else { return Ok(None) };
    let mut watch = ConfigMapWatch::new(client, NAMESPACE, CONFIG_MAP);
    let last = match watch.read().await {
        Ok(published) => published,
        Err(error) if serving.lookup == Lookup::Strict => {
            return Err(error).context(
                "cannot look up the certificate authorities for clients; --authentication-skip-lookup skips this",
            );
        }
        Err(error) => {
            let reason = chain(&error);
            warn!(
                reason,
                "cannot look up certificate authorities for clients; only tokens and the certificates of the flags \
                 authenticate clients until the cluster answers"
            );
            return Ok(Some(Published { watch, last: Data::new() }));
        }
    };
    let Taken { clients, front_proxies, mut unusable, has_changed: _ } = take(tls, &last)?;
    if serving.lookup == Lookup::Strict
        && let Some(error) = unusable.pop()
    {
        return Err(error.context(format!("the cluster publishes unusable certificate authorities; {FIX}")));
    }
    warn_of(&unusable);
    info!(clients, front_proxies, "looked up the certificate authorities for clients");
    Ok(Some(Published { watch, last }))
}

impl Published {
    /// Uses the authorities of each later version of the ConfigMap. The future never ends.
    pub(super) async fn follow(self, tls: Arc<CurrentTls>) {
        let Self { watch, mut last } = self;
        let changed = |published: Data| {
            if published == last {
                return;
            }
            match take(&tls, &published) {
                Ok(Taken { has_changed, clients, front_proxies, unusable }) => {
                    warn_of(&unusable);
                    if has_changed {
                        info!(clients, front_proxies, "using the new certificate authorities for clients");
                    }
                }
                Err(error) => warn_of(&[error]),
            }
            last = published;
        };
        watch.follow(changed).await;
    }
}

fn warn_of(unusable: &[anyhow::Error]) {
    for error in unusable {
        let reason = format!("{error:#}");
        warn!(reason, fix = FIX, "cannot use published certificate authorities; the previous ones, if any, stay valid");
    }
}

/// Takes over the authorities that no flag names.
///
/// # Errors
/// The server cannot use the authorities.
fn take(tls: &CurrentTls, published: &Data) -> Result<Taken> {
    tls.change_trust(|trust| {
        let mut taken = Taken::default();
        if tls.serving.client_ca.is_none() {
            taken.replace(&mut trust.clients, CLIENT_CA, clients(published, &tls.provider));
        }
        if tls.serving.front_proxy.is_none() {
            let proxies = front_proxies(published, trust.front_proxies.as_ref(), &tls.provider);
            taken.replace(&mut trust.front_proxies, PROXY_CA, proxies);
        }
        (taken.clients, taken.front_proxies) = (trust.clients.is_some(), trust.front_proxies.is_some());
        taken
    })
}

impl Taken {
    fn replace<T: PartialEq>(&mut self, current: &mut Option<T>, key: &str, published: Result<Option<T>>) {
        match published {
            Ok(None) if current.is_some() => {
                self.unusable.push(anyhow!("{}: it contains no certificate", published_under(key)));
            }
            Ok(new) if *current == new => {}
            Ok(new) => {
                *current = new;
                self.has_changed = true;
            }
            Err(error) => self.unusable.push(error),
        }
    }
}

/// The clients' authorities; `None` if the cluster publishes none.
fn clients(published: &Data, provider: &Arc<CryptoProvider>) -> Result<Option<Arc<TrustedAuthorities>>> {
    let Some(authorities) = authorities(published, CLIENT_CA) else { return Ok(None) };
    TrustedAuthorities::read(CLIENT_CA, &authorities, provider).map(Some)
}

/// The front proxies; `None` if the cluster publishes no authorities for them. `current` has the front proxies so far.
///
/// # Errors
/// The content cannot be used, or only the key with the names of the front proxies is missing now. Without names, every
/// certificate of the authorities would be a front proxy.
fn front_proxies(
    published: &Data,
    current: Option<&TrustedProxies>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<TrustedProxies>> {
    let Some(authority) = authorities(published, PROXY_CA) else { return Ok(None) };
    let has_names = published.get(ALLOWED_NAMES).is_some_and(|text| !text.is_empty());
    if !has_names && current.is_some_and(|proxies| !proxies.settings.allowed_names.is_empty()) {
        return Err(anyhow!("{}: the key is missing", published_under(ALLOWED_NAMES)));
    }
    let authorities = TrustedAuthorities::read(PROXY_CA, &authority, provider)?;
    let settings = Arc::new(front_proxy(authority, published)?);
    Ok(Some(TrustedProxies { authorities, settings }))
}

fn authorities(published: &Data, key: &str) -> Option<Authorities> {
    published.get(key).filter(|pem| !pem.is_empty()).cloned().map(Authorities::Pem)
}

/// Reads the settings of front proxies. A list that is missing or null is empty.
///
/// # Errors
/// A list is not a list of texts in JSON.
fn front_proxy(authority: Authorities, published: &Data) -> Result<FrontProxy> {
    let list = |key: &str| match published.get(key).filter(|text| !text.is_empty()) {
        Some(text) => {
            let list = serde_json::from_str::<Option<Vec<String>>>(text).with_context(|| published_under(key))?;
            anyhow::Ok(list.unwrap_or_default())
        }
        None => Ok(Vec::new()),
    };
    Ok(FrontProxy {
        authority,
        allowed_names: list(ALLOWED_NAMES)?,
        username_headers: list("requestheader-username-headers")?,
        uid_headers: list("requestheader-uid-headers")?,
        group_headers: list("requestheader-group-headers")?,
        extra_header_prefixes: list("requestheader-extra-headers-prefix")?,
    })
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        net::{IpAddr, Ipv4Addr},
    };

    use super::*;
    use crate::secure_serving::SecureServing;

    fn authority() -> String {
        let authority = rcgen::generate_simple_self_signed(["authority.example".to_owned()]);
        authority.expect("a certificate").cert.pem()
    }

    fn data(pairs: &[(&str, &str)]) -> Data {
        pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    }

    fn serving() -> SecureServing {
        SecureServing::on(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
    }

    fn take_in(tls: &CurrentTls, published: &Data) -> Taken {
        take(tls, published).expect("the server can use it")
    }

    #[test]
    fn a_front_proxy_is_read_as_the_api_server_writes_it() {
        let published = data(&[
            (ALLOWED_NAMES, "[\"front-proxy-client\"]"),
            ("requestheader-username-headers", "[\"X-Remote-User\"]"),
            ("requestheader-group-headers", "null"),
            ("requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]"),
        ]);
        let proxy = front_proxy(Authorities::Pem(String::new()), &published).expect("lists");
        assert_eq!(
            (&*proxy.allowed_names, &*proxy.username_headers),
            (&["front-proxy-client".to_owned()][..], &["X-Remote-User".to_owned()][..])
        );
        assert!(proxy.group_headers.is_empty());
    }

    #[test]
    fn unusable_content_leaves_the_authorities_as_they_are() {
        let tls = CurrentTls::read(&serving()).expect("a certificate of its own");
        let taken = take_in(&tls, &Data::new());
        assert!(!taken.has_changed && taken.unusable.is_empty(), "the cluster need not publish authorities");
        let (clients, proxies) = (authority(), authority());
        let good = data(&[(CLIENT_CA, &clients), (PROXY_CA, &proxies), (ALLOWED_NAMES, "[\"front\"]")]);
        let taken = take_in(&tls, &good);
        assert!(taken.has_changed && taken.clients && taken.front_proxies && taken.unusable.is_empty(), "{taken:?}");
        let settings = tls.get();
        assert!(!take_in(&tls, &good).has_changed);
        assert!(Arc::ptr_eq(&settings, &tls.get()), "connections need no other settings");
        for (key, text, part) in [
            (CLIENT_CA, "no PEM", "extension-apiserver-authentication, key client-ca-file: it contains no certificate"),
            (CLIENT_CA, "", "key client-ca-file: it contains no certificate"),
            (PROXY_CA, "no PEM", "key requestheader-client-ca-file: it contains no certificate"),
            // Without allowed names, every certificate of the authority would do.
            (ALLOWED_NAMES, "front", "key requestheader-allowed-names: "),
            (ALLOWED_NAMES, "", "key requestheader-allowed-names: the key is missing"),
        ] {
            let mut bad = good.clone();
            bad.insert(key.to_owned(), text.to_owned());
            let taken = take_in(&tls, &bad);
            let unusable: Vec<String> = taken.unusable.iter().map(|error| format!("{error:#}")).collect();
            assert!(!taken.has_changed && taken.clients && taken.front_proxies, "{taken:?}");
            assert!(unusable.len() == 1 && unusable[0].contains(part), "{unusable:?}");
        }
        // A bad key does not keep back the other key.
        let other = authority();
        let half = data(&[(CLIENT_CA, &other), (PROXY_CA, "no PEM")]);
        let taken = take_in(&tls, &half);
        assert!(taken.has_changed && taken.unusable.len() == 1, "{taken:?}");
    }

    #[test]
    fn a_file_that_a_flag_names_counts_and_not_the_cluster() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("ca.crt");
        fs::write(&file, authority()).expect("a file");
        let serving = SecureServing { client_ca: Some(Authorities::File(file)), ..serving() };
        let tls = CurrentTls::read(&serving).expect("certificates");
        let other = authority();
        let taken = take_in(&tls, &data(&[(CLIENT_CA, &other)]));
        assert!(!taken.has_changed && taken.clients && !taken.front_proxies, "{taken:?}");
        let taken = take_in(&tls, &data(&[(CLIENT_CA, &other), (PROXY_CA, &other)]));
        assert!(taken.has_changed && taken.front_proxies, "{taken:?}");
    }
}
