//! Kubernetes' CEL library for URLs ("Kubernetes URL library" in the documentation of CEL in Kubernetes).
//!
//! A text is read as Go's `net/url` reads it: first as the URI of a request (`url.ParseRequestURI`), which is absolute or
//! a path that begins with a slash, and then without its fragment (`url.Parse`). The texts of errors are Go's.

use std::{collections::HashMap, net::Ipv6Addr};

use cel::{
    DeclarationError, Env, ExecutionError, add_member_overload, add_overload,
    common::{
        types::{CelBool, CelList, CelMap, CelMapKey, CelString, Type},
        value::Val,
    },
};

use super::library_value::library_value;

static URL: Type = Type::new_unspecified_type("kubernetes.URL");

/// The parts of a URL that the library's functions read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    scheme: String,
    /// The host and the port, with brackets around an IPv6 address.
    host: String,
    escaped_path: String,
    query: String,
}

library_value!(Url: URL);

/// The reason why a text is not a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum UrlError {
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    #[error("empty url")]
    Empty,
    #[error("missing protocol scheme")]
    NoScheme,
    #[error("invalid URI for request")]
    Relative,
    #[error("first path segment in URL cannot contain colon")]
    ColonInPath,
    #[error("net/url: invalid userinfo")]
    User,
    #[error("invalid IP-literal")]
    Address,
    #[error("missing ']' in host")]
    OpenBracket,
    #[error("invalid port {0:?} after host")]
    Port(String),
    #[error("invalid host: ParseAddr({0:?}): unable to parse IP")]
    Host(String),
    #[error("invalid URL escape {0:?}")]
    Escape(String),
    #[error("invalid character {0:?} in host name")]
    Character(String),
}

/// The part of a URL in which escapes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Host,
    /// The zone of an IPv6 address, such as `%25eth0`.
    Zone,
    Path,
    /// A name or value in the query, where a plus sign is a space.
    Query,
    /// The user, the password, or the fragment. Nothing reads them, but their escapes must be correct.
    Unread,
}

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(URL.to_owned())?;
    add_overload!(env, fn url: (CelString) -> Result<Url>)?;
    add_overload!(env, fn is_url: (CelString) -> CelBool, name = "isURL")?;
    add_member_overload!(env, fn get_scheme: (Url) -> CelString)?;
    add_member_overload!(env, fn get_host: (Url) -> CelString)?;
    add_member_overload!(env, fn get_hostname: (Url) -> CelString)?;
    add_member_overload!(env, fn get_port: (Url) -> CelString)?;
    add_member_overload!(env, fn get_escaped_path: (Url) -> CelString)?;
    add_member_overload!(env, fn get_query: (Url) -> CelMap)
}

/// The error in a text that is not the URI of a request, in the words of Go.
pub(super) fn problem(text: &str) -> Option<String> {
    Url::parse(text, true).err().map(|error| in_text(text, &error))
}

fn in_text(text: &str, error: &UrlError) -> String {
    format!("parse {text:?}: {error}")
}

impl Url {
    /// Reads a URI, of a request if `is_request`.
    fn parse(text: &str, is_request: bool) -> Result<Self, UrlError> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(UrlError::ControlCharacter);
        }
        if text.is_empty() && is_request {
            return Err(UrlError::Empty);
        }
        let mut url =
            Self { scheme: String::new(), host: String::new(), escaped_path: String::new(), query: String::new() };
        if text == "*" {
            text.clone_into(&mut url.escaped_path);
            return Ok(url);
        }
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut url.query);
        if !rest.starts_with('/') {
            return match scheme {
                "" => url.with_relative_path(rest, is_request),
                _ => Ok(url),
            };
        }
        let has_host = !scheme.is_empty() || !is_request && !rest.starts_with("///");
        let path = match rest.strip_prefix("//").filter(|_| has_host) {
            Some(after) => {
                let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
                url.host = host_of(&url.scheme, authority)?;
                path
            }
            None => rest,
        };
        url.escaped_path = escaped(path)?;
        Ok(url)
    }

    fn with_relative_path(mut self, path: &str, is_request: bool) -> Result<Self, UrlError> {
        if is_request {
            return Err(UrlError::Relative);
        }
        if path.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err(UrlError::ColonInPath);
        }
        self.escaped_path = escaped(path)?;
        Ok(self)
    }

    /// The host without brackets, and the port.
    fn host_and_port(&self) -> (&str, &str) {
        let colon = self.host.rfind(':').filter(|colon| self.host.get(*colon..).is_some_and(is_port));
        let (host, port) = self.host.split_at(colon.unwrap_or(self.host.len()));
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        (bare.unwrap_or(host), port.strip_prefix(':').unwrap_or_default())
    }
}

/// The scheme, which is empty if there is none, and the rest of the text.
fn split_scheme(text: &str) -> Result<(&str, &str), UrlError> {
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    match text.bytes().position(|byte| !is_of_scheme(byte)) {
        Some(0) if text.starts_with(':') => Err(UrlError::NoScheme),
        Some(end)
            if text.as_bytes().get(end) == Some(&b':') && text.starts_with(|it: char| it.is_ascii_alphabetic()) =>
        {
            let (scheme, rest) = text.split_at(end);
            Ok((scheme, rest.strip_prefix(':').unwrap_or(rest)))
        }
        Some(_) | None => Ok(("", text)),
    }
}

/// The host and port of an authority such as `user:password@example.com:80`.
fn host_of(scheme: &str, authority: &str) -> Result<String, UrlError> {
    let Some((user, host)) = authority.rsplit_once('@') else { return host_with_port(scheme, authority) };
    let host = host_with_port(scheme, host)?;
    let is_of_user = |it: char| it.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(it);
    if !user.chars().all(is_of_user) {
        return Err(UrlError::User);
    }
    unescaped(user, Part::Unread)?;
    Ok(host)
}

fn host_with_port(scheme: &str, host: &str) -> Result<String, UrlError> {
    match host.rfind('[') {
        Some(0) => return bracketed_host(host),
        Some(_) => return Err(UrlError::Address),
        None => {}
    }
    if let (Some(first), Some(last)) = (host.find(':'), host.rfind(':')) {
        // The URLs of some databases have several hosts, separated by commas, each with a port. The schemes `http` and
        // `https` allow one host.
        let colon = if matches!(scheme, "http" | "https") { first } else { last };
        let port = host.get(colon..).unwrap_or_default();
        if !is_port(port) {
            return Err(UrlError::Port(port.to_owned()));
        }
    }
    unescaped(host, Part::Host).map(text_of)
}

/// A host such as `[::1]:80`.
fn bracketed_host(host: &str) -> Result<String, UrlError> {
    let (address, port) = host.rsplit_once(']').ok_or(UrlError::OpenBracket)?;
    if !is_port(port) {
        return Err(UrlError::Port(port.to_owned()));
    }
    let address = address.strip_prefix('[').unwrap_or(address);
    let (bare, zone) = address.split_at(address.find("%25").unwrap_or(address.len()));
    let address = text_of(unescaped(bare, Part::Host)?) + &text_of(unescaped(zone, Part::Zone)?);
    let (bare, zone) = address.split_once('%').map_or((address.as_str(), None), |(bare, zone)| (bare, Some(zone)));
    if bare.parse::<Ipv6Addr>().is_err() || zone == Some("") {
        let is_ipv4 = zone.is_none() && bare.parse::<std::net::Ipv4Addr>().is_ok();
        return Err(if is_ipv4 { UrlError::Address } else { UrlError::Host(address) });
    }
    Ok(format!("[{address}]{port}"))
}

/// Whether the text is empty, or a colon with the digits of a port. The digits may be missing.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The path with escapes. It stays as it is written if it has only characters that a path may have.
fn escaped(path: &str) -> Result<String, UrlError> {
    let bytes = unescaped(path, Part::Path)?;
    if path.bytes().all(|byte| stays_in_path(byte) || b"!'()*[]%".contains(&byte)) {
        return Ok(path.to_owned());
    }
    let mut escaped = String::new();
    for byte in bytes {
        if stays_in_path(byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(escaped)
}

fn stays_in_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte)
}

/// The bytes of the text, with each escape replaced by its byte.
fn unescaped(text: &str, part: Part) -> Result<Vec<u8>, UrlError> {
    let is_of_host = matches!(part, Part::Host | Part::Zone);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'%' => {
                let byte = after.get(..2).and_then(hexadecimal);
                let is_allowed = |byte: u8| match part {
                    Part::Host => byte >= 0x80 || byte == b'%',
                    Part::Zone => byte == b'%' || byte == b' ' || stays_in_host(byte),
                    Part::Path | Part::Query | Part::Unread => true,
                };
                let byte = byte.filter(|byte| is_allowed(*byte)).ok_or_else(|| UrlError::Escape(escape(after)))?;
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            b'+' if part == Part::Query => bytes.push(b' '),
            byte if is_of_host && byte.is_ascii() && !stays_in_host(*byte) => {
                return Err(UrlError::Character(char::from(*byte).to_string()));
            }
            byte => bytes.push(*byte),
        }
    }
    Ok(bytes)
}

/// The byte of two hexadecimal digits.
fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

/// The text of an escape that cannot be read, of which `after` follows the percent sign.
fn escape(after: &[u8]) -> String {
    format!("%{}", String::from_utf8_lossy(after.get(..2).unwrap_or(after)))
}

fn stays_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!\"$&'()*+,:;<=>[]".contains(&byte)
}

/// The text of bytes, which are UTF-8 unless escapes made them something else.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn url(text: &CelString<'_>) -> Result<Url, ExecutionError> {
    let text = text.inner();
    let failed = |text: &str, error: &UrlError| {
        let reason = in_text(text, error);
        ExecutionError::function_error("url", format!("URL parse error during conversion from string: {reason}"))
    };
    // The URI of a request has no fragment, so this reads a fragment as a part of the path or query.
    Url::parse(text, true).map_err(|error| failed(text, &error))?;
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    let url = Url::parse(before, false).map_err(|error| failed(before, &error))?;
    unescaped(fragment, Part::Unread).map_err(|error| failed(text, &error))?;
    Ok(url)
}

fn is_url(text: &CelString<'_>) -> CelBool {
    Url::parse(text.inner(), true).is_ok().into()
}

fn get_scheme(this: &Url) -> CelString<'static> {
    this.scheme.clone().into()
}

fn get_host(this: &Url) -> CelString<'static> {
    this.host.clone().into()
}

fn get_hostname(this: &Url) -> CelString<'static> {
    this.host_and_port().0.to_owned().into()
}

fn get_port(this: &Url) -> CelString<'static> {
    this.host_and_port().1.to_owned().into()
}

fn get_escaped_path(this: &Url) -> CelString<'static> {
    this.escaped_path.clone().into()
}

/// The values of each name in the query. A name or value that cannot be read is left out.
fn get_query(this: &Url) -> CelMap<'static> {
    let mut values: HashMap<String, Vec<Box<dyn Val>>> = HashMap::new();
    for pair in this.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let read = |text: &str| unescaped(text, Part::Query).ok().map(text_of);
        if let (Some(name), Some(value)) = (read(name), read(value)) {
            values.entry(name).or_default().push(Box::new(CelString::from(value)));
        }
    }
    let mut entries: HashMap<CelMapKey<'static>, Box<dyn Val>> = HashMap::new();
    for (name, values) in values {
        entries.insert(CelMapKey::from(name), Box::new(CelList::from(values)));
    }
    CelMap::from(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_problem(text: &str, expected: &str) {
        assert_eq!(problem(text).as_deref(), Some(expected));
    }

    /// The rules of Go's `net/url`, with RFC 3986 and RFC 6874.
    #[test]
    fn a_text_that_is_no_url_has_the_error_of_go() {
        check_problem("", r#"parse "": empty url"#);
        check_problem("../relative-path", r#"parse "../relative-path": invalid URI for request"#);
        check_problem("https://a:b:c/", r#"parse "https://a:b:c/": invalid port ":b:c" after host"#);
        check_problem("db://a:b:c/", r#"parse "db://a:b:c/": invalid port ":c" after host"#);
        check_problem(":80/", r#"parse ":80/": missing protocol scheme"#);
        check_problem("/%zz", r#"parse "/%zz": invalid URL escape "%zz""#);
        check_problem("/%1", r#"parse "/%1": invalid URL escape "%1""#);
        check_problem("http://a b/", r#"parse "http://a b/": invalid character " " in host name"#);
        check_problem("http://a%20b/", r#"parse "http://a%20b/": invalid URL escape "%20""#);
        check_problem("http://[::1/", r#"parse "http://[::1/": missing ']' in host"#);
        check_problem("http://a[::1]/", r#"parse "http://a[::1]/": invalid IP-literal"#);
        check_problem("http://[127.0.0.1]/", r#"parse "http://[127.0.0.1]/": invalid IP-literal"#);
        check_problem("http://[::1]x/", r#"parse "http://[::1]x/": invalid port "x" after host"#);
        check_problem("http://u ser@a/", r#"parse "http://u ser@a/": net/url: invalid userinfo"#);
        check_problem("/\u{7f}", r#"parse "/\u{7f}": net/url: invalid control character in URL"#);
        for text in ["*", "/", "//", "mailto:a@example.com", "db://a:1,b:2/", "http://[fe80::1%25en0]:80/", "x://"] {
            assert_eq!(problem(text), None, "{text}");
        }
    }

    #[test]
    fn a_path_keeps_its_escapes() {
        let path = |text: &str| Url::parse(text, true).unwrap().escaped_path;
        for kept in ["/a%2fb", "/a!b'(c)*[d]", "/a;b=c,d:e@f&g$h+i", ""] {
            assert_eq!(path(&format!("https://example.com{kept}")), kept);
        }
        assert_eq!(path("/with spaces/%2f"), "/with%20spaces//");
        assert_eq!(path("/ä"), "/%C3%A4");
    }
}
