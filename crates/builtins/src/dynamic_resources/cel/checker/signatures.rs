//! The functions and operators that a device selector may use, with their types: CEL's standard definitions
//! (`common/stdlib/standard.go` in cel-go), cel-go's extensions for strings (version 2), lists (version 3), sets and
//! optional values, and Kubernetes' libraries (`k8s.io/apiserver/pkg/cel/library`).
//!
//! A signature is written as in a mistake that the checker reports: `string.(int) string` is a function of a string that
//! takes an int, and `(string) int` is a function that stands alone. A capital letter is any type, the same wherever it
//! stands in the signature.

use super::{bindings::Bindings, static_type::StaticType};

/// One overload of a function, with new variables for its capital letters.
#[derive(Debug)]
pub(super) struct Signature {
    pub(super) is_member: bool,
    /// The types of the arguments; the first is the target's if `is_member`.
    pub(super) arguments: Vec<StaticType>,
    pub(super) result: StaticType,
}

const COMPARE: &[&str] = &[
    "(bool, bool) bool",
    "(int, int) bool",
    "(int, double) bool",
    "(int, uint) bool",
    "(uint, uint) bool",
    "(uint, double) bool",
    "(uint, int) bool",
    "(double, double) bool",
    "(double, int) bool",
    "(double, uint) bool",
    "(string, string) bool",
    "(bytes, bytes) bool",
    "(timestamp, timestamp) bool",
    "(duration, duration) bool",
];
const PART_OF_DATE: &[&str] = &["timestamp.() int", "timestamp.(string) int"];
const PART_OF_TIME: &[&str] = &["timestamp.() int", "timestamp.(string) int", "duration.() int"];
/// The least or greatest element of a list.
const EXTREME: &[&str] = &[
    "list(int).() int",
    "list(uint).() uint",
    "list(double).() double",
    "list(bool).() bool",
    "list(duration).() duration",
    "list(timestamp).() timestamp",
    "list(string).() string",
    "list(bytes).() bytes",
];
const OF_SETS: &[&str] = &["(list(A), list(A)) bool"];
const OF_ADDRESS: &[&str] = &["net.IP.() bool"];
const PART_OF_URL: &[&str] = &["kubernetes.URL.() string"];
const PART_OF_VERSION: &[&str] = &["kubernetes.Semver.() int"];
const NAMED_FORMAT: &[&str] = &["() kubernetes.NamedFormat"];
const IS_MORE_OR_LESS: &[&str] =
    &["kubernetes.Quantity.(kubernetes.Quantity) bool", "kubernetes.Semver.(kubernetes.Semver) bool"];
const ADD_QUANTITIES: &[&str] =
    &["kubernetes.Quantity.(kubernetes.Quantity) kubernetes.Quantity", "kubernetes.Quantity.(int) kubernetes.Quantity"];
const POSITION: &[&str] = &["string.(string) int", "string.(string, int) int", "list(A).(A) int"];

/// Each function with its overloads. The overloads have the same order as in cel-go.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("_?_:_", &["(bool, A, A) A"]),
    ("_&&_", &["(bool, bool) bool"]),
    ("_||_", &["(bool, bool) bool"]),
    ("!_", &["(bool) bool"]),
    ("@not_strictly_false", &["(bool) bool"]),
    ("_==_", &["(A, A) bool"]),
    ("_!=_", &["(A, A) bool"]),
    (
        "_+_",
        &[
            "(bytes, bytes) bytes",
            "(double, double) double",
            "(duration, duration) duration",
            "(duration, timestamp) timestamp",
            "(timestamp, duration) timestamp",
            "(int, int) int",
            "(list(A), list(A)) list(A)",
            "(string, string) string",
            "(uint, uint) uint",
        ],
    ),
    (
        "_-_",
        &[
            "(double, double) double",
            "(duration, duration) duration",
            "(int, int) int",
            "(timestamp, duration) timestamp",
            "(timestamp, timestamp) duration",
            "(uint, uint) uint",
        ],
    ),
    ("_*_", &["(double, double) double", "(int, int) int", "(uint, uint) uint"]),
    ("_/_", &["(double, double) double", "(int, int) int", "(uint, uint) uint"]),
    ("_%_", &["(int, int) int", "(uint, uint) uint"]),
    ("-_", &["(double) double", "(int) int"]),
    ("_<_", COMPARE),
    ("_<=_", COMPARE),
    ("_>_", COMPARE),
    ("_>=_", COMPARE),
    (
        "_[_]",
        &[
            "(list(A), int) A",
            "(map(A, B), A) B",
            "(optional_type(list(A)), int) optional_type(A)",
            "(optional_type(map(A, B)), A) optional_type(B)",
        ],
    ),
    (
        "_[?_]",
        &[
            "(list(A), int) optional_type(A)",
            "(optional_type(list(A)), int) optional_type(A)",
            "(map(A, B), A) optional_type(B)",
            "(optional_type(map(A, B)), A) optional_type(B)",
        ],
    ),
    ("@in", &["(A, list(A)) bool", "(A, map(A, B)) bool"]),
    (
        "size",
        &[
            "(bytes) int",
            "bytes.() int",
            "(list(A)) int",
            "list(A).() int",
            "(map(A, B)) int",
            "map(A, B).() int",
            "(string) int",
            "string.() int",
        ],
    ),
    ("type", &["(A) type(A)"]),
    ("dyn", &["(A) dyn"]),
    ("bool", &["(bool) bool", "(string) bool"]),
    ("bytes", &["(bytes) bytes", "(string) bytes"]),
    ("double", &["(double) double", "(int) double", "(string) double", "(uint) double"]),
    ("duration", &["(duration) duration", "(string) duration"]),
    ("int", &["(int) int", "(double) int", "(duration) int", "(string) int", "(timestamp) int", "(uint) int"]),
    (
        "string",
        &[
            "(string) string",
            "(bool) string",
            "(bytes) string",
            "(double) string",
            "(duration) string",
            "(int) string",
            "(timestamp) string",
            "(uint) string",
            "(net.IP) string",
            "(net.CIDR) string",
        ],
    ),
    ("timestamp", &["(timestamp) timestamp", "(int) timestamp", "(string) timestamp"]),
    ("uint", &["(uint) uint", "(double) uint", "(int) uint", "(string) uint"]),
    ("contains", &["string.(string) bool"]),
    ("endsWith", &["string.(string) bool"]),
    ("startsWith", &["string.(string) bool"]),
    ("matches", &["(string, string) bool", "string.(string) bool"]),
    ("getFullYear", PART_OF_DATE),
    ("getMonth", PART_OF_DATE),
    ("getDate", PART_OF_DATE),
    ("getDayOfMonth", PART_OF_DATE),
    ("getDayOfWeek", PART_OF_DATE),
    ("getDayOfYear", PART_OF_DATE),
    ("getHours", PART_OF_TIME),
    ("getMinutes", PART_OF_TIME),
    ("getSeconds", PART_OF_TIME),
    ("getMilliseconds", PART_OF_TIME),
    // Optional values.
    ("optional.of", &["(A) optional_type(A)"]),
    ("optional.ofNonZeroValue", &["(A) optional_type(A)"]),
    ("optional.none", &["() optional_type(A)"]),
    ("optional.unwrap", &["(list(optional_type(A))) list(A)"]),
    ("unwrapOpt", &["list(optional_type(A)).() list(A)"]),
    ("value", &["optional_type(A).() A"]),
    ("hasValue", &["optional_type(A).() bool"]),
    ("or", &["optional_type(A).(optional_type(A)) optional_type(A)"]),
    ("orValue", &["optional_type(A).(A) A"]),
    ("first", &["list(A).() optional_type(A)"]),
    ("last", &["list(A).() optional_type(A)"]),
    // Strings.
    ("charAt", &["string.(int) string"]),
    ("indexOf", POSITION),
    ("lastIndexOf", POSITION),
    ("lowerAscii", &["string.() string"]),
    ("upperAscii", &["string.() string"]),
    ("trim", &["string.() string"]),
    ("replace", &["string.(string, string) string", "string.(string, string, int) string"]),
    ("split", &["string.(string) list(string)", "string.(string, int) list(string)"]),
    ("substring", &["string.(int) string", "string.(int, int) string"]),
    ("format", &["string.(list(dyn)) string"]),
    ("strings.quote", &["(string) string"]),
    ("join", &["list(string).() string", "list(string).(string) string"]),
    ("find", &["string.(string) string"]),
    ("findAll", &["string.(string) list(string)", "string.(string, int) list(string)"]),
    // Lists and sets.
    ("slice", &["list(A).(int, int) list(A)"]),
    ("flatten", &["list(list(A)).() list(A)", "list(dyn).(int) list(dyn)"]),
    ("reverse", &["list(A).() list(A)"]),
    ("distinct", &["list(A).() list(A)"]),
    ("lists.range", &["(int) list(int)"]),
    (
        "sort",
        &[
            "list(int).() list(int)",
            "list(uint).() list(uint)",
            "list(double).() list(double)",
            "list(bool).() list(bool)",
            "list(duration).() list(duration)",
            "list(timestamp).() list(timestamp)",
            "list(string).() list(string)",
            "list(bytes).() list(bytes)",
        ],
    ),
    (
        "@sortByAssociatedKeys",
        &[
            "list(A).(list(int)) list(A)",
            "list(A).(list(uint)) list(A)",
            "list(A).(list(double)) list(A)",
            "list(A).(list(bool)) list(A)",
            "list(A).(list(duration)) list(A)",
            "list(A).(list(timestamp)) list(A)",
            "list(A).(list(string)) list(A)",
            "list(A).(list(bytes)) list(A)",
        ],
    ),
    (
        "isSorted",
        &[
            "list(int).() bool",
            "list(uint).() bool",
            "list(double).() bool",
            "list(bool).() bool",
            "list(duration).() bool",
            "list(timestamp).() bool",
            "list(string).() bool",
            "list(bytes).() bool",
        ],
    ),
    ("sum", &["list(int).() int", "list(uint).() uint", "list(double).() double", "list(duration).() duration"]),
    ("min", EXTREME),
    ("max", EXTREME),
    ("sets.contains", OF_SETS),
    ("sets.equivalent", OF_SETS),
    ("sets.intersects", OF_SETS),
    // Attributes of devices.
    ("includes", &["dyn.(dyn) bool"]),
    // Quantities and versions. Kubernetes declares `sign(quantity)` and documents `quantity.sign()`; both are accepted.
    ("quantity", &["(string) kubernetes.Quantity"]),
    ("isQuantity", &["(string) bool"]),
    ("sign", &["(kubernetes.Quantity) int", "kubernetes.Quantity.() int"]),
    ("isInteger", &["kubernetes.Quantity.() bool"]),
    ("asInteger", &["kubernetes.Quantity.() int"]),
    ("asApproximateFloat", &["kubernetes.Quantity.() double"]),
    ("isGreaterThan", IS_MORE_OR_LESS),
    ("isLessThan", IS_MORE_OR_LESS),
    ("compareTo", &["kubernetes.Quantity.(kubernetes.Quantity) int", "kubernetes.Semver.(kubernetes.Semver) int"]),
    ("add", ADD_QUANTITIES),
    ("sub", ADD_QUANTITIES),
    ("semver", &["(string) kubernetes.Semver", "(string, bool) kubernetes.Semver"]),
    ("isSemver", &["(string) bool", "(string, bool) bool"]),
    ("major", PART_OF_VERSION),
    ("minor", PART_OF_VERSION),
    ("patch", PART_OF_VERSION),
    // Addresses.
    ("ip", &["(string) net.IP", "net.CIDR.() net.IP"]),
    ("isIP", &["(string) bool"]),
    ("ip.isCanonical", &["(string) bool"]),
    ("family", &["net.IP.() int"]),
    ("isUnspecified", OF_ADDRESS),
    ("isLoopback", OF_ADDRESS),
    ("isLinkLocalMulticast", OF_ADDRESS),
    ("isLinkLocalUnicast", OF_ADDRESS),
    ("isGlobalUnicast", OF_ADDRESS),
    ("cidr", &["(string) net.CIDR"]),
    ("isCIDR", &["(string) bool"]),
    ("containsIP", &["net.CIDR.(string) bool", "net.CIDR.(net.IP) bool"]),
    ("containsCIDR", &["net.CIDR.(string) bool", "net.CIDR.(net.CIDR) bool"]),
    ("prefixLength", &["net.CIDR.() int"]),
    ("masked", &["net.CIDR.() net.CIDR"]),
    // URLs and named formats.
    ("url", &["(string) kubernetes.URL"]),
    ("isURL", &["(string) bool"]),
    ("getScheme", PART_OF_URL),
    ("getHost", PART_OF_URL),
    ("getHostname", PART_OF_URL),
    ("getPort", PART_OF_URL),
    ("getEscapedPath", PART_OF_URL),
    ("getQuery", &["kubernetes.URL.() map(string, list(string))"]),
    ("format.named", &["(string) optional_type(kubernetes.NamedFormat)"]),
    ("format.dns1123Label", NAMED_FORMAT),
    ("format.dns1123Subdomain", NAMED_FORMAT),
    ("format.dns1035Label", NAMED_FORMAT),
    ("format.qualifiedName", NAMED_FORMAT),
    ("format.dns1123LabelPrefix", NAMED_FORMAT),
    ("format.dns1123SubdomainPrefix", NAMED_FORMAT),
    ("format.dns1035LabelPrefix", NAMED_FORMAT),
    ("format.labelValue", NAMED_FORMAT),
    ("format.uri", NAMED_FORMAT),
    ("format.uuid", NAMED_FORMAT),
    ("format.byte", NAMED_FORMAT),
    ("format.date", NAMED_FORMAT),
    ("format.datetime", NAMED_FORMAT),
    ("validate", &["kubernetes.NamedFormat.(string) optional_type(list(string))"]),
];

/// The signatures of the function with this name. `None` means that there is no such function.
pub(super) fn of_function(name: &str) -> Option<&'static [&'static str]> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, signatures)| *signatures)
}

/// The type that an identifier names as a value, as in `type(1) == int`.
pub(super) fn type_with_name(name: &str) -> Option<StaticType> {
    let named = match name {
        "bool" => StaticType::named("bool"),
        "bytes" => StaticType::named("bytes"),
        "double" => StaticType::named("double"),
        "int" => StaticType::named("int"),
        "list" => StaticType::of("list", vec![StaticType::Dyn]),
        "map" => StaticType::of("map", vec![StaticType::Dyn, StaticType::Dyn]),
        "null_type" => StaticType::named("null"),
        "optional_type" => StaticType::optional(StaticType::Dyn),
        "string" => StaticType::named("string"),
        "type" => StaticType::named("type"),
        "uint" => StaticType::named("uint"),
        _ => return None,
    };
    Some(StaticType::of("type", vec![named]))
}

impl Signature {
    pub(super) fn read(text: &'static str, bindings: &mut Bindings) -> Self {
        let (target, rest) = match text.split_once(".(") {
            Some((target, rest)) => (target, rest),
            None => ("", text.strip_prefix('(').unwrap_or(text)),
        };
        let mut reader = Reader { rest: target, variables: Vec::new(), bindings };
        let is_member = !target.is_empty();
        let mut arguments = if is_member { vec![reader.one()] } else { Vec::new() };
        reader.rest = rest;
        arguments.extend(reader.list());
        reader.rest = reader.rest.trim_start();
        let result = reader.one();
        Self { is_member, arguments, result }
    }
}

/// Reads the types of a signature.
struct Reader<'a> {
    rest: &'static str,
    /// The capital letters with their types.
    variables: Vec<(&'static str, StaticType)>,
    bindings: &'a mut Bindings,
}

impl Reader<'_> {
    /// Reads one type, with its parameters.
    fn one(&mut self) -> StaticType {
        let (name, rest) = self.rest.split_at(self.rest.find(['(', ')', ',', ' ']).unwrap_or(self.rest.len()));
        self.rest = rest;
        if let Some(rest) = rest.strip_prefix('(') {
            self.rest = rest;
            return StaticType::of(name, self.list());
        }
        match name {
            "dyn" => StaticType::Dyn,
            "A" | "B" => self.variable(name),
            _ => StaticType::named(name),
        }
    }

    fn variable(&mut self, letter: &'static str) -> StaticType {
        if let Some((_, known)) = self.variables.iter().find(|(known, _)| *known == letter) {
            return known.clone();
        }
        let variable = self.bindings.variable();
        self.variables.push((letter, variable.clone()));
        variable
    }

    /// Reads types until the closing parenthesis, and this parenthesis.
    fn list(&mut self) -> Vec<StaticType> {
        let mut types = Vec::new();
        loop {
            self.rest = self.rest.trim_start_matches([',', ' ']);
            if let Some(rest) = self.rest.strip_prefix(')') {
                self.rest = rest;
                return types;
            }
            if self.rest.is_empty() {
                return types;
            }
            types.push(self.one());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a signature from what was read of it.
    fn text(signature: &Signature) -> String {
        let texts: Vec<String> = signature.arguments.iter().map(StaticType::text).collect();
        let (target, arguments) = texts.split_at(usize::from(signature.is_member));
        let dot = if signature.is_member { "." } else { "" };
        format!("{}{dot}({}) {}", target.concat(), arguments.join(", "), signature.result.text())
    }

    #[test]
    fn each_signature_is_read_as_it_is_written() {
        for (name, signatures) in FUNCTIONS {
            for signature in *signatures {
                let read = Signature::read(signature, &mut Bindings::default());
                let written = text(&read).replace("_var0", "A").replace("_var1", "B");
                assert_eq!(written, *signature, "{name}");
            }
        }
    }

    #[test]
    fn no_function_is_listed_twice() {
        let mut names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let n_functions = names.len();
        names.dedup();
        assert_eq!(names.len(), n_functions);
    }
}
