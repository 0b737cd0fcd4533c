//! Kubernetes' CEL library for named formats: `format.named("dns1123Label")` or `format.dns1123Label()`, and
//! `validate(text)`, which has no value if the text is valid, and the errors of the text otherwise.

use berth_model::qualified_name;
use cel::{
    DeclarationError, Env, add_member_overload, add_overload,
    common::{
        types::{CelList, CelOptional, CelString, Type},
        value::Val,
    },
};
use jiff::civil::Date;

use super::{library_value::library_value, url};

static FORMAT: Type = Type::new_unspecified_type("kubernetes.NamedFormat");

const LABEL_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_1035_REGEX: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
/// The longest DNS label and the longest DNS subdomain, in bytes.
const MAX_LABEL: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

/// Declares the formats, and for each a function that returns it.
macro_rules! formats {
    ($($name:literal: $format:ident, $function:ident;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum NamedFormat {
            $($format,)+
        }

        impl NamedFormat {
            fn with_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$format),)+
                    _ => None,
                }
            }
        }

        $(
            fn $function() -> NamedFormat {
                NamedFormat::$format
            }
        )+

        fn declare_formats(env: &mut Env) -> Result<(), DeclarationError> {
            $(add_overload!(env, fn $function: () -> NamedFormat, name = concat!("format.", $name))?;)+
            Ok(())
        }
    };
}

formats! {
    "dns1123Label": Dns1123Label, dns_1123_label;
    "dns1123Subdomain": Dns1123Subdomain, dns_1123_subdomain;
    "dns1035Label": Dns1035Label, dns_1035_label;
    "qualifiedName": QualifiedName, qualified_name_format;
    "dns1123LabelPrefix": Dns1123LabelPrefix, dns_1123_label_prefix;
    "dns1123SubdomainPrefix": Dns1123SubdomainPrefix, dns_1123_subdomain_prefix;
    "dns1035LabelPrefix": Dns1035LabelPrefix, dns_1035_label_prefix;
    "labelValue": LabelValue, label_value;
    "uri": Uri, uri;
    "uuid": Uuid, uuid;
    "byte": Byte, byte;
    "date": Date, date;
    "datetime": DateTime, date_time;
}

library_value!(NamedFormat: FORMAT);

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(FORMAT.to_owned())?;
    add_overload!(env, fn named: (CelString) -> CelOptional, name = "format.named")?;
    add_member_overload!(env, fn validate: (NamedFormat, CelString) -> CelOptional)?;
    declare_formats(env)
}

fn named(name: &CelString<'_>) -> CelOptional<'static> {
    match NamedFormat::with_name(name.inner()) {
        Some(format) => CelOptional::of(Box::new(format)),
        None => CelOptional::none(),
    }
}

fn validate(this: &NamedFormat, text: &CelString<'_>) -> CelOptional<'static> {
    let problems = this.problems(text.inner());
    if problems.is_empty() {
        return CelOptional::none();
    }
    let problems = problems.into_iter().map(|problem| Box::new(CelString::from(problem)) as Box<dyn Val>);
    CelOptional::of(Box::new(CelList::from(problems.collect::<Vec<_>>())))
}

impl NamedFormat {
    /// The errors in a text, in the words of Kubernetes.
    fn problems(self, text: &str) -> Vec<String> {
        let only_if = |is_wrong: bool, problem: &str| if is_wrong { vec![problem.to_owned()] } else { Vec::new() };
        match self {
            Self::Dns1123Label => problems_of_label(text),
            Self::Dns1123LabelPrefix => problems_of_label(&completed(text)),
            Self::Dns1123Subdomain => problems_of_subdomain(text),
            Self::Dns1123SubdomainPrefix => problems_of_subdomain(&completed(text)),
            Self::Dns1035Label => problems_of_dns_1035_label(text),
            Self::Dns1035LabelPrefix => problems_of_dns_1035_label(&completed(text)),
            Self::QualifiedName => qualified_name::problems(text),
            Self::LabelValue => qualified_name::value_problems(text),
            Self::Uri => url::problem(text).into_iter().collect(),
            Self::Uuid => only_if(!is_uuid(text), "does not match the UUID format"),
            Self::Byte => only_if(!is_base64(text), "invalid base64"),
            Self::Date => only_if(!is_date(text), "invalid date"),
            Self::DateTime => only_if(!is_date_time(text), "invalid datetime"),
        }
    }
}

/// A prefix may end with a hyphen, since something is appended to it: the hyphen and the character before it count as one
/// letter.
fn completed(prefix: &str) -> String {
    match prefix.strip_suffix('-').and_then(|rest| rest.char_indices().next_back()) {
        Some((end, _)) => format!("{}a", prefix.get(..end).unwrap_or_default()),
        None => prefix.to_owned(),
    }
}

fn too_long(text: &str, max_length: usize) -> Vec<String> {
    if text.len() > max_length { vec![format!("must be no more than {max_length} bytes")] } else { Vec::new() }
}

fn is_label(text: &str) -> bool {
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().next_back()];
    ends.iter().all(|end| end.is_some_and(is_lower)) && text.bytes().all(|byte| is_lower(byte) || byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn problems_of_label(text: &str) -> Vec<String> {
    let mut problems = too_long(text, MAX_LABEL);
    if is_label(text) {
        return problems;
    }
    problems.push(if is_subdomain(text) {
        "must not contain dots".to_owned()
    } else {
        format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
             with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL_REGEX}')"
        )
    });
    problems
}

fn problems_of_subdomain(text: &str) -> Vec<String> {
    let mut problems = too_long(text, MAX_SUBDOMAIN);
    if !is_subdomain(text) {
        problems.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{LABEL_REGEX}(\\.{LABEL_REGEX})*')"
        ));
    }
    problems
}

fn problems_of_dns_1035_label(text: &str) -> Vec<String> {
    let mut problems = too_long(text, MAX_LABEL);
    if !is_label(text) || text.starts_with(|first: char| first.is_ascii_digit()) {
        problems.push(format!(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation \
             is '{DNS_1035_REGEX}')"
        ));
    }
    problems
}

/// 32 hexadecimal digits. A hyphen may stand after the eighth, the twelfth, the sixteenth and the twentieth.
fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (index, n_digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((digits, after)) = rest.split_at_checked(n_digits) else { return false };
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Groups of four characters, the last of which may end with one or two equals signs. There is at least one group.
fn is_base64(text: &str) -> bool {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && digits.bytes().all(is_digit)
}

/// A date such as `2024-02-29`.
fn is_date(text: &str) -> bool {
    let of_text = || {
        let (year, rest) = text.split_once('-')?;
        let (month, day) = rest.split_once('-')?;
        let has_digits = |part: &str, n: usize| part.len() == n && part.bytes().all(|byte| byte.is_ascii_digit());
        if !has_digits(year, 4) || !has_digits(month, 2) || !has_digits(day, 2) {
            return None;
        }
        Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
    };
    of_text().is_some()
}

/// A date and a time such as `2024-02-29T12:30:00.5Z`, in letters of any case.
fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

/// A time such as `12:30:00.5z` or `12:30:00+02:00`.
fn is_time(text: &str) -> bool {
    let Some((time, mut rest)) = text.split_at_checked(8) else { return false };
    let parts: Vec<&str> = time.split(':').collect();
    let [hours, minutes, seconds] = parts.as_slice() else { return false };
    if !is_number_up_to(23, hours) || !is_number_up_to(59, minutes) || !is_number_up_to(59, seconds) {
        return false;
    }
    let mut characters = rest.chars();
    // The regular expression of Kubernetes takes any character in place of the point.
    if !is_zone(rest) && characters.next().is_some() {
        let fraction = characters.as_str();
        let zone = fraction.trim_start_matches(|it: char| it.is_ascii_digit());
        if zone.len() == fraction.len() {
            return false;
        }
        rest = zone;
    }
    is_zone(rest)
}

/// Whether the text is a number of two digits that is at most `max`.
fn is_number_up_to(max: u8, text: &str) -> bool {
    is_two_digits(text) && text.parse::<u8>().is_ok_and(|number| number <= max)
}

fn is_zone(text: &str) -> bool {
    let offset = text.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':'));
    text == "z" || offset.is_some_and(|(hours, minutes)| is_two_digits(hours) && is_two_digits(minutes))
}

fn is_two_digits(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(format: NamedFormat, valid: &[&str], invalid: &[&str]) {
        for text in valid {
            assert_eq!(format.problems(text), Vec::<String>::new(), "{text}");
        }
        for text in invalid {
            assert_ne!(format.problems(text), Vec::<String>::new(), "{text}");
        }
    }

    /// The rules of `k8s.io/apimachinery/pkg/util/validation`.
    #[test]
    fn names_are_checked_as_kubernetes_checks_them() {
        let long = "a".repeat(64);
        check(NamedFormat::Dns1123Label, &["my-label-name", "0"], &["", "a.b", "A", "a-", "-a", &long]);
        check(NamedFormat::Dns1123Subdomain, &["apiextensions.k8s.io", "a"], &["", "a..b", "a.B"]);
        check(NamedFormat::Dns1035Label, &["my-label", "a1"], &["1a", "", "a.b"]);
        check(NamedFormat::Dns1123LabelPrefix, &["my-label-prefix-", "a"], &["-", "aB-c-", "a.b-"]);
        check(NamedFormat::Dns1123SubdomainPrefix, &["mysubdomain.prefix.-"], &["a..b"]);
        check(NamedFormat::Dns1035LabelPrefix, &["my-label-prefix-"], &["1-a"]);
        check(NamedFormat::QualifiedName, &["apiextensions.k8s.io/v1beta1", "a"], &["", "a/b/c"]);
        check(NamedFormat::LabelValue, &["", "my-value"], &["-", &long]);
        assert_eq!(NamedFormat::Dns1123Label.problems("a.b"), ["must not contain dots"]);
        let problems = NamedFormat::Dns1035Label.problems(&format!("1{long}"));
        assert_eq!(problems[0], "must be no more than 63 bytes");
        assert!(problems[1].ends_with("regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"), "{problems:?}");
    }

    /// The rules of `k8s.io/kube-openapi/pkg/validation/strfmt`.
    #[test]
    fn formats_of_openapi_are_checked() {
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        let bare = uuid.replace('-', "");
        check(NamedFormat::Uuid, &[uuid, &uuid.to_uppercase(), &bare], &["", "123", &uuid[1..], &format!("{uuid}0")]);
        check(NamedFormat::Byte, &["aGVsbG8=", "aGVsbA==", "aGVs"], &["", "a", "aGVs=", "====", "aG-s"]);
        check(
            NamedFormat::Date,
            &["2021-01-01", "2024-02-29"],
            &["2023-02-29", "2021-1-01", "21-01-01", "2021-01-01T"],
        );
        let times = ["2021-01-01T00:00:00Z", "2021-01-01t23:59:59.123+02:00", "2021-01-01T00:00:00z"];
        check(NamedFormat::DateTime, &times, &["2021-01-01", "2021-01-01T24:00:00Z", "2021-01-01T00:00:00", "T"]);
        check(NamedFormat::Uri, &["http://example.com", "/path"], &["path"]);
        assert_eq!(NamedFormat::Uri.problems("path"), [r#"parse "path": invalid URI for request"#]);
    }
}
