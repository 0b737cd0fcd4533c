//! Whether the proxy of the environment is used for the API server.
//!
//! `kube` takes `HTTPS_PROXY` from the environment for any server. kubectl doesn't use it for plain http, for the host
//! itself, or for the hosts that `NO_PROXY` lists.

use std::net::IpAddr;

use http::Uri;
use kube::config::Kubeconfig;

/// Whether the kubeconfig itself names a proxy.
pub(super) fn is_asked_for(config: &Kubeconfig, context: Option<&str>) -> bool {
    let name = context.or(config.current_context.as_deref()).unwrap_or_default();
    let context = config.contexts.iter().find(|named| named.name == name).and_then(|named| named.context.as_ref());
    let cluster = context.and_then(|context| config.clusters.iter().find(|named| named.name == context.cluster));
    let proxy = cluster.and_then(|named| named.cluster.as_ref()?.proxy_url.as_ref());
    proxy.is_some_and(|url| !url.is_empty())
}

/// Whether requests to `server` bypass the environment's proxy.
pub(super) fn is_bypassed(server: &Uri, no_proxy: Option<&str>) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let address: Option<IpAddr> = host.parse().ok();
    if server.scheme_str() == Some("http") || host == "localhost" || address.is_some_and(|ip| ip.is_loopback()) {
        return true;
    }
    let rules = no_proxy.unwrap_or_default().split(',').map(str::trim).filter(|rule| !rule.is_empty());
    rules.into_iter().any(|rule| match (rule, address) {
        ("*", _) => true,
        (rule, Some(address)) => rule.parse() == Ok(address) || is_in_range(address, rule),
        (rule, None) => is_in_domain(host, rule),
    })
}

fn is_in_domain(host: &str, rule: &str) -> bool {
    let domain = rule.trim_start_matches("*").trim_start_matches('.');
    let rest = host.strip_suffix(domain);
    rest.is_some_and(|rest| rest.ends_with('.') || rest.is_empty() && !rule.starts_with(['.', '*']))
}

fn is_in_range(address: IpAddr, range: &str) -> bool {
    let Some((network, n_bits)) = range.split_once('/') else { return false };
    let (Ok(network), Ok(n_bits)) = (network.parse::<IpAddr>(), n_bits.parse::<u32>()) else { return false };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(n_bits)).unwrap_or(0);
            a.to_bits() & mask == b.to_bits() & mask
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(n_bits)).unwrap_or(0);
            a.to_bits() & mask == b.to_bits() & mask
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bypassed(server: &str, no_proxy: &str) -> bool {
        is_bypassed(&server.parse().unwrap(), Some(no_proxy))
    }

    #[test]
    fn the_proxy_is_passed_by_where_kubectl_does() {
        for (server, no_proxy) in [
            ("http://api.example.com", ""),
            ("https://127.0.0.1:6443", ""),
            ("https://[::1]:6443", ""),
            ("https://api.example.com", "other.org, example.com"),
            ("https://api.example.com", ".example.com"),
            ("https://10.1.2.3:443", "10.0.0.0/8"),
            ("https://10.1.2.3", "10.1.2.3"),
            ("https://api.example.com", "*"),
        ] {
            assert!(bypassed(server, no_proxy), "{server} with {no_proxy:?}");
        }
        for (server, no_proxy) in [
            ("https://api.example.com", ""),
            ("https://api.badexample.com", "example.com"),
            ("https://example.com", ".example.com"),
            ("https://11.1.2.3", "10.0.0.0/8"),
        ] {
            assert!(!bypassed(server, no_proxy), "{server} with {no_proxy:?}");
        }
    }
}
