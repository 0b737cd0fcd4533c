//! The proxies that the environment names for requests to registries.
//!
//! The rules are those of programs in Go (<https://pkg.go.dev/golang.org/x/net/http/httpproxy>), so that one environment
//! serves Berth, kube-scheduler and the tools of registries. Only proxies that speak HTTP are supported, over TCP or over
//! TLS. A value that is not the address of such a proxy fails the requests that it is for: a mistake in it never lets
//! Berth bypass the proxy.

use std::{env, fmt, net::IpAddr};

use http::{HeaderValue, Uri, uri::Scheme};
use hyper_util::client::proxy::matcher::Matcher;

/// The proxies for requests to registries, and the hosts that Berth asks without a proxy.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    for_https: Option<Result<Proxy, InvalidProxy>>,
    for_http: Option<Result<Proxy, InvalidProxy>>,
    exceptions: Vec<Exception>,
}

/// A proxy that a variable names. It is displayed without its credentials.
#[derive(Clone, Debug)]
pub(super) struct Proxy {
    variable: &'static str,
    /// Scheme, host and port, without the credentials.
    pub address: Uri,
    /// The value of `Proxy-Authorization`.
    pub authorization: Option<HeaderValue>,
}

/// The value of a variable is not shown, because it may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} is not the address of an http or https proxy, such as http://proxy.example:3128")]
pub(super) struct InvalidProxy {
    variable: &'static str,
}

/// An entry of `NO_PROXY`. Hosts are in lower case, addresses of IPv4 in the form of IPv6 are addresses of IPv4, and no
/// port stands for every port.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exception {
    Everything,
    Network {
        network: IpAddr,
        n_bits: u32,
    },
    Address {
        address: IpAddr,
        port: Option<u16>,
    },
    /// The hosts of a domain. `suffix` begins with a dot.
    Domain {
        suffix: String,
        has_domain_itself: bool,
        port: Option<u16>,
    },
}

impl Proxies {
    /// The proxies that the environment of the process names.
    #[must_use]
    pub fn of_process() -> Self {
        // A value that is not text must not count as unset, because Berth would then bypass the proxy. The replacement
        // characters make it an invalid address.
        Self::from_variables(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// The proxies that these variables name. The name in capital letters takes precedence, and an empty value counts as
    /// unset.
    #[must_use]
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| Some((name, variable(name).filter(|value| !value.is_empty())?)))
        };
        let proxy = |names| first(names).map(|(name, value)| Proxy::parse(name, &value));
        let (_, exceptions) = first(["NO_PROXY", "no_proxy"]).unwrap_or_default();
        Self {
            for_https: proxy(["HTTPS_PROXY", "https_proxy"]),
            for_http: proxy(["HTTP_PROXY", "http_proxy"]),
            exceptions: exceptions.split(',').filter_map(Exception::parse).collect(),
        }
    }

    /// The proxy for a request to `target`; `None` if Berth sends the request to the host itself.
    pub(super) fn proxy_for(&self, target: &Uri) -> Result<Option<&Proxy>, InvalidProxy> {
        let configured = if is_plain_http(target) { &self.for_http } else { &self.for_https };
        match configured {
            Some(proxy) if !self.is_excepted(target) => proxy.as_ref().map(Some).map_err(|error| *error),
            Some(_) | None => Ok(None),
        }
    }

    /// Whether Berth speaks TLS with a proxy.
    pub(super) fn use_tls(&self) -> bool {
        [&self.for_https, &self.for_http].into_iter().flatten().flatten().any(|proxy| !is_plain_http(&proxy.address))
    }

    fn is_excepted(&self, target: &Uri) -> bool {
        let host = target.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let is_loopback = host == "localhost" || address.is_some_and(|address| address.is_loopback());
        is_loopback || self.exceptions.iter().any(|exception| exception.covers(&host, address, port_of(target)))
    }
}

impl Proxy {
    /// Reads an address such as `http://user:password@proxy.example:3128`. Without a scheme, it is the address of an http
    /// proxy.
    fn parse(variable: &'static str, value: &str) -> Result<Self, InvalidProxy> {
        let value = value.trim();
        let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
        let scheme = scheme.to_ascii_lowercase();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let address = match authority.rsplit_once('@') {
            // As in Go, a password may contain an `@`.
            Some((user, host)) => format!("{scheme}://{}@{host}", user.replace('@', "%40")),
            None => format!("{scheme}://{authority}"),
        };
        let parsed = Matcher::builder().all(address).build().intercept(&Uri::from_static("https://any"));
        let is_usable = |uri: &Uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
        };
        let parsed = parsed.filter(|parsed| is_usable(parsed.uri())).ok_or(InvalidProxy { variable })?;
        Ok(Self { variable, address: parsed.uri().clone(), authorization: parsed.basic_auth().cloned() })
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.address.authority().map_or("", |authority| authority.as_str());
        write!(formatter, "the proxy {authority} of {}", self.variable)
    }
}

impl Exception {
    /// `None` for an entry that covers no host.
    fn parse(entry: &str) -> Option<Self> {
        let entry = entry.trim().to_ascii_lowercase();
        if entry == "*" {
            return Some(Self::Everything);
        }
        if let Some((network, n_bits)) = entry.split_once('/') {
            let (network, n_bits) = (network.parse::<IpAddr>().ok()?, n_bits.parse::<u32>().ok()?);
            let width = if network.is_ipv4() { 32 } else { 128 };
            return (n_bits <= width).then(|| Self::network(network, n_bits));
        }
        let (host, port) = match entry.rsplit_once(':') {
            // An IPv6 address with a port has brackets.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port.parse::<u16>().ok()?)),
            Some(_) | None => (entry.as_str(), None),
        };
        let host = host.trim_matches(['[', ']']);
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Self::Address { address: address.to_canonical(), port });
        }
        let domain = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
        let has_domain_itself = !domain.starts_with('.');
        let suffix = if has_domain_itself { format!(".{domain}") } else { domain.to_owned() };
        (suffix != ".").then_some(Self::Domain { suffix, has_domain_itself, port })
    }

    /// As in Go, a network of IPv4 addresses in the form of IPv6 is a network of IPv4.
    fn network(network: IpAddr, n_bits: u32) -> Self {
        match (network.to_canonical(), n_bits.checked_sub(96)) {
            (canonical @ IpAddr::V4(_), Some(n_bits)) if network.is_ipv6() => {
                Self::Network { network: canonical, n_bits }
            }
            (IpAddr::V4(_) | IpAddr::V6(_), _) => Self::Network { network, n_bits },
        }
    }

    /// `address` is the address that `host` is, in its canonical form.
    fn covers(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        let is_at = |only: Option<u16>| only.is_none_or(|only| only == port);
        match self {
            Self::Everything => true,
            Self::Network { network, n_bits } => address.is_some_and(|address| is_in(address, *network, *n_bits)),
            Self::Address { address: excepted, port } => address == Some(*excepted) && is_at(*port),
            Self::Domain { suffix, has_domain_itself, port } => {
                let is_domain_itself = suffix.strip_prefix('.') == Some(host);
                is_at(*port) && (host.ends_with(suffix) || *has_domain_itself && is_domain_itself)
            }
        }
    }
}

/// The port of a request to `target`.
pub(super) fn port_of(target: &Uri) -> u16 {
    target.port_u16().unwrap_or(if is_plain_http(target) { 80 } else { 443 })
}

/// Whether a request to `target` is sent without TLS.
pub(super) fn is_plain_http(target: &Uri) -> bool {
    target.scheme() == Some(&Scheme::HTTP)
}

fn is_in(address: IpAddr, network: IpAddr, n_bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(n_bits)).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(n_bits)).unwrap_or(0);
            address.to_bits() & mask == network.to_bits() & mask
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Proxies::from_variables(value)
    }

    /// The proxy for a target, or the error.
    fn chosen(proxies: &Proxies, target: &str) -> Option<String> {
        match proxies.proxy_for(&target.parse().unwrap()) {
            Ok(proxy) => proxy.map(ToString::to_string),
            Err(error) => Some(error.to_string()),
        }
    }

    #[test]
    fn each_scheme_has_its_variable_and_capital_letters_take_precedence() {
        let both = proxies(&[
            ("HTTPS_PROXY", "http://a.example:1"),
            ("https_proxy", "http://b.example:2"),
            ("HTTP_PROXY", ""),
            ("http_proxy", "c.example:3/"),
        ]);
        assert_eq!(chosen(&both, "https://r.example").as_deref(), Some("the proxy a.example:1 of HTTPS_PROXY"));
        assert_eq!(chosen(&both, "http://r.example").as_deref(), Some("the proxy c.example:3 of http_proxy"));
        assert_eq!(chosen(&proxies(&[("HTTP_PROXY", "http://a.example")]), "https://r.example"), None);
        assert_eq!(chosen(&Proxies::default(), "https://r.example"), None);
    }

    #[test]
    fn a_proxy_is_shown_without_its_credentials() {
        let addresses = [
            "http://user:pa%40ss@proxy.example:3128",
            "HTTP://user:pa%40ss@proxy.example:3128",
            "user:pa@ss@proxy.example:3128",
        ];
        for value in addresses {
            let named = proxies(&[("HTTPS_PROXY", value)]);
            let proxy = named.proxy_for(&Uri::from_static("https://r.example")).unwrap().unwrap();
            assert_eq!(proxy.authorization.as_ref().unwrap(), "Basic dXNlcjpwYUBzcw==");
            assert_eq!(proxy.to_string(), "the proxy proxy.example:3128 of HTTPS_PROXY");
            assert!(!format!("{named:?}").contains("dXNlcj"), "{named:?}");
        }
    }

    #[test]
    fn a_value_that_is_no_address_of_a_proxy_is_an_error_that_does_not_repeat_it() {
        for value in [
            "socks5://user:secret@proxy.example:1080",
            "http://",
            "http://user:se cret@proxy.example",
            "http://:1",
            "http://proxy\u{fffd}.example",
            "http://user:\u{fffd}@proxy.example",
        ] {
            let error = chosen(&proxies(&[("https_proxy", value)]), "https://r.example").unwrap();
            assert!(error.starts_with("https_proxy is not the address of"), "{error}");
        }
        let unusable = proxies(&[("HTTPS_PROXY", "socks5://proxy.example"), ("NO_PROXY", "r.example")]);
        assert_eq!(chosen(&unusable, "https://r.example"), None);
    }

    #[test]
    fn hosts_are_excepted_as_in_go() {
        let is_direct = |target: &str, no_proxy: &str| {
            chosen(&proxies(&[("HTTPS_PROXY", "p"), ("HTTP_PROXY", "p"), ("no_proxy", no_proxy)]), target).is_none()
        };
        for (target, no_proxy) in [
            ("https://localhost:5000", ""),
            ("http://127.1.2.3", ""),
            ("https://[::1]:5000", ""),
            ("https://r.example", "*"),
            ("https://r.example", "other.org, R.example,"),
            ("https://a.r.example", "r.example"),
            ("https://a.r.example", ".r.example"),
            ("https://a.r.example", "*.r.example"),
            ("https://r.example", "r.example:443"),
            ("http://r.example", "r.example:80"),
            ("https://10.1.2.3", "10.0.0.0/8"),
            ("https://10.1.2.3", "0.0.0.0/0"),
            ("https://10.1.2.3:5000", "10.1.2.3"),
            ("https://10.1.2.3:5000", "10.1.2.3:5000"),
            ("https://[fd00::1]", "fd00::/8"),
            ("https://[fd00::1]", "[fd00::1]:443"),
            ("https://[fd00::1]", "fd00::1"),
            ("https://[::ffff:127.0.0.1]", ""),
            ("https://[::ffff:10.1.2.3]", "10.0.0.0/8"),
            ("https://[::ffff:10.1.2.3]", "10.1.2.3"),
            ("https://10.1.2.3", "::ffff:10.1.2.3"),
            ("https://10.1.2.3", "::ffff:10.0.0.0/104"),
        ] {
            assert!(is_direct(target, no_proxy), "{target} with {no_proxy:?}");
        }
        for (target, no_proxy) in [
            ("https://r.example", ""),
            ("https://r.example", ",, :,[],/"),
            ("https://r.example", ".r.example"),
            ("https://r.example", "*.r.example"),
            ("https://bad-r.example", "r.example"),
            ("https://r.example:5000", "r.example:443"),
            ("https://11.1.2.3", "10.0.0.0/8"),
            ("https://10.1.2.3", "10.1.2.3:5000"),
            ("https://[fd00::1]", "10.0.0.0/8,10.0.0.0/64"),
            ("https://[::ffff:10.1.2.3]", "::/0"),
            ("https://11.1.2.3", "::ffff:10.0.0.0/104"),
        ] {
            assert!(!is_direct(target, no_proxy), "{target} with {no_proxy:?}");
        }
    }
}
