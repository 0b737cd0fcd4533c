//! The authorities that the cluster names. The API server publishes its own authorities for other components that serve
//! requests (`pkg/server/options/authentication.go` of the generic API server). They are read once, at the start.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use berth_telemetry::chain;
use tracing::{info, warn};

use super::{Authorities, FrontProxy, Lookup, SecureServing, access::reviewer};

/// Asks the cluster for the authorities that no flag names.
///
/// # Errors
/// There is no answer, and it is required.
pub(super) async fn add_authorities(serving: &mut SecureServing) -> Result<()> {
    let is_needed = serving.client_ca.is_none() || serving.front_proxy.is_none();
    if serving.lookup == Lookup::None || !is_needed {
        return Ok(());
    }
    let asked = serving.authentication.as_ref();
    let Some(reviewer) = reviewer(asked, "--authentication-kubeconfig").await? else { return Ok(()) };
    let published = match reviewer.authorities().await {
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
                 authenticate clients"
            );
            return Ok(());
        }
    };
    let pem = |key: &str| published.get(key).filter(|pem| !pem.is_empty()).cloned().map(Authorities::Pem);
    if serving.client_ca.is_none() {
        serving.client_ca = pem("client-ca-file");
    }
    if serving.front_proxy.is_none() {
        serving.front_proxy = pem("requestheader-client-ca-file").map(|authority| front_proxy(authority, &published));
    }
    let (clients, front_proxies) = (serving.client_ca.is_some(), serving.front_proxy.is_some());
    info!(clients, front_proxies, "looked up the certificate authorities for clients");
    Ok(())
}

fn front_proxy(authority: Authorities, published: &BTreeMap<String, String>) -> FrontProxy {
    let list = |key: &str| {
        let text = published.get(key).map(String::as_str).unwrap_or_default();
        serde_json::from_str::<Vec<String>>(text).unwrap_or_default()
    };
    FrontProxy {
        authority,
        allowed_names: list("requestheader-allowed-names"),
        username_headers: list("requestheader-username-headers"),
        uid_headers: list("requestheader-uid-headers"),
        group_headers: list("requestheader-group-headers"),
        extra_header_prefixes: list("requestheader-extra-headers-prefix"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_proxy_is_read_as_the_api_server_writes_it() {
        let published = [
            ("requestheader-allowed-names", "[\"front-proxy-client\"]"),
            ("requestheader-username-headers", "[\"X-Remote-User\"]"),
            ("requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]"),
        ];
        let published = published.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
        let proxy = front_proxy(Authorities::Pem(String::new()), &published);
        assert_eq!(
            (&*proxy.allowed_names, &*proxy.username_headers),
            (&["front-proxy-client".to_owned()][..], &["X-Remote-User".to_owned()][..])
        );
        assert!(proxy.group_headers.is_empty());
    }
}
