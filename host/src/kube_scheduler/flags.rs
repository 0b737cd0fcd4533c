//! kube-scheduler 1.36's flags, and what each means here. `kube-scheduler --help` of 1.36.2 lists them; the test compares.
//!
//! Values are read as Go reads them: `--flag=value` and `--flag value`, switches also bare, `_` like `-`, and the last of
//! several counts.

use clap::{Arg, ArgAction, ArgMatches, Command, builder::ValueParser, error::ErrorKind};

/// One flag.
#[derive(Debug)]
pub(super) struct Flag {
    pub name: &'static str,
    kind: Kind,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Switch,
    Text,
    Number,
    Fraction,
    Duration,
    /// Repeatable, and several with commas.
    List,
    /// Repeatable, commas are part of the value.
    Repeated,
}

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Used,
    /// Not with `--config`: the file says it.
    WithoutConfig,
    /// Accepted, with one warning that says this.
    WithoutEffect(&'static str),
    /// Refused, for it would change what the scheduler does. This value is the default, and accepted.
    Refused {
        default: &'static str,
    },
}

use Kind::{Duration, Fraction, List, Number, Repeated, Switch, Text};
use Role::{Refused, Used, WithoutConfig, WithoutEffect};

const CHOICES: &str = "TLS 1.2 and 1.3 are served with suites and curves that are sound, and no others";
const METRICS: &str = "all metrics are shown, with all labels";
const ONE_STREAM: &str = "all log lines go to standard error, unbuffered";

const fn flag(name: &'static str, kind: Kind, role: Role) -> Flag {
    Flag { name, kind, role }
}

/// All of them, in the order of `--help`, then Berth's own.
pub(super) const FLAGS: &[Flag] = &[
    flag("config", Text, Used),
    flag("master", Text, Used),
    flag("unsupported-kube-api-over-localhost", Switch, Refused { default: "false" }),
    flag("write-config-to", Text, Used),
    flag("bind-address", Text, Used),
    flag("cert-dir", Text, Used),
    flag("disable-http2-serving", Switch, Used),
    flag("http2-max-streams-per-connection", Number, Used),
    flag(
        "permit-address-sharing",
        Switch,
        WithoutEffect("the address is shared as far as the system allows it by default"),
    ),
    flag("permit-port-sharing", Switch, WithoutEffect("the port is not shared")),
    flag("secure-port", Number, Used),
    flag("tls-cert-file", Text, Used),
    flag("tls-cipher-suites", List, WithoutEffect(CHOICES)),
    flag("tls-curve-preferences", List, WithoutEffect(CHOICES)),
    flag("tls-min-version", Text, Used),
    flag("tls-private-key-file", Text, Used),
    flag("tls-sni-cert-key", Repeated, Used),
    flag("authentication-kubeconfig", Text, Used),
    flag("authentication-skip-lookup", Switch, Used),
    flag("authentication-token-webhook-cache-ttl", Duration, Used),
    flag("authentication-tolerate-lookup-failure", Switch, Used),
    flag("client-ca-file", Text, Used),
    flag("requestheader-allowed-names", List, Used),
    flag("requestheader-client-ca-file", Text, Used),
    flag("requestheader-extra-headers-prefix", List, Used),
    flag("requestheader-group-headers", List, Used),
    flag("requestheader-uid-headers", List, Used),
    flag("requestheader-username-headers", List, Used),
    flag("authorization-always-allow-paths", List, Used),
    flag("authorization-kubeconfig", Text, Used),
    flag("authorization-webhook-cache-authorized-ttl", Duration, Used),
    flag("authorization-webhook-cache-unauthorized-ttl", Duration, Used),
    flag("contention-profiling", Switch, WithoutConfig),
    flag("kube-api-burst", Number, WithoutConfig),
    flag("kube-api-content-type", Text, WithoutConfig),
    flag("kube-api-qps", Fraction, WithoutConfig),
    flag("kubeconfig", Text, WithoutConfig),
    flag("pod-max-in-unschedulable-pods-duration", Duration, Used),
    flag("profiling", Switch, WithoutConfig),
    flag("leader-elect", Switch, Used),
    flag("leader-elect-lease-duration", Duration, Used),
    flag("leader-elect-renew-deadline", Duration, Used),
    flag("leader-elect-resource-lock", Text, Used),
    flag("leader-elect-resource-name", Text, Used),
    flag("leader-elect-resource-namespace", Text, Used),
    flag("leader-elect-retry-period", Duration, Used),
    flag("emulated-version", List, Refused { default: "1.36" }),
    flag("feature-gates", List, Used),
    flag(
        "min-compatibility-version",
        List,
        WithoutEffect("decisions are those of 1.36 whatever the other components are"),
    ),
    flag("allow-metric-labels", Repeated, WithoutEffect(METRICS)),
    flag("allow-metric-labels-manifest", Text, WithoutEffect(METRICS)),
    flag("disabled-metrics", List, WithoutEffect(METRICS)),
    flag("show-hidden-metrics-for-version", Text, WithoutEffect("no metric is hidden")),
    flag("log-flush-frequency", Duration, WithoutEffect(ONE_STREAM)),
    flag("log-json-info-buffer-size", Text, WithoutEffect(ONE_STREAM)),
    flag("log-json-split-stream", Switch, WithoutEffect(ONE_STREAM)),
    flag("log-text-info-buffer-size", Text, WithoutEffect(ONE_STREAM)),
    flag("log-text-split-stream", Switch, WithoutEffect(ONE_STREAM)),
    flag("logging-format", Text, Used),
    flag("v", Number, Used),
    flag("vmodule", List, Used),
    flag("version", Text, Used),
    flag("plugins-dir", Text, Used),
    flag("plugin-config", Text, Used),
    flag("artifact-cache", Text, Used),
    flag("plugin-state", Text, Used),
    flag("audit-log", Text, Used),
    flag("metrics-address", Text, Used),
    flag("admin-socket", Text, Used),
    flag("kept-decisions-mib", Number, Used),
];

const ABOUT: &str = "Berth in kube-scheduler's place: takes kube-scheduler 1.36's flags, with their meaning. Flags that have none here are accepted \
with a warning; what would change decisions and is not built is refused. --plugins-dir, --plugin-config, --artifact-cache, \
--plugin-state, --audit-log, --metrics-address, --admin-socket and --kept-decisions-mib are those of `berth run`.";

/// The flags that were given.
#[derive(Debug)]
pub(super) struct Given(ArgMatches);

impl Given {
    /// Reads arguments, the program's name not among them.
    pub(super) fn read(arguments: impl IntoIterator<Item = String>) -> Result<Self, clap::Error> {
        let arguments = arguments.into_iter().map(|argument| normalized(&argument));
        command().try_get_matches_from(std::iter::once("kube-scheduler".to_owned()).chain(arguments)).map(Self)
    }

    pub(super) fn is_given(&self, name: &str) -> bool {
        self.0.contains_id(name)
    }

    /// The last value.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        Some(self.0.get_many::<String>(name)?.next_back()?.as_str())
    }

    /// The last value, if it is not empty.
    pub(super) fn path(&self, name: &str) -> Option<std::path::PathBuf> {
        self.text(name).filter(|text| !text.is_empty()).map(Into::into)
    }

    pub(super) fn texts(&self, name: &str) -> Vec<&str> {
        self.0.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect()
    }

    /// All flags that were given, by name, with their values.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        let given = FLAGS.iter().filter(|flag| self.is_given(flag.name));
        let mut all: Vec<_> = given.map(|flag| (flag.name.to_owned(), self.texts(flag.name).join(","))).collect();
        all.sort();
        all
    }

    /// Values were checked when they were read.
    pub(super) fn switch(&self, name: &str) -> Option<bool> {
        go_bool(self.text(name)?)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    pub(super) fn fraction(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    pub(super) fn duration(&self, name: &str) -> Option<std::time::Duration> {
        let nanos = berth_model::duration::parse_duration(self.text(name)?)?;
        Some(std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
    }
}

/// `--leader_elect` is `--leader-elect`.
fn normalized(argument: &str) -> String {
    if !argument.starts_with("--") {
        return argument.to_owned();
    }
    let (name, value) = argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)));
    let name = name.replace('_', "-");
    value.map_or(name.clone(), |value| format!("{name}={value}"))
}

fn command() -> Command {
    let arguments = FLAGS.iter().map(|flag| {
        let argument = Arg::new(flag.name).long(flag.name).action(ArgAction::Append).help(flag.help());
        let argument = match (flag.name, flag.kind) {
            ("version", _) | (_, Switch) => {
                argument.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL")
            }
            (_, List) => argument.value_delimiter(',').value_name("LIST").allow_hyphen_values(true),
            (_, Text | Repeated) => argument.value_name("TEXT").allow_hyphen_values(true),
            (_, Number | Fraction) => argument.value_name("NUMBER").allow_hyphen_values(true),
            (_, Duration) => argument.value_name("DURATION").allow_hyphen_values(true),
        };
        let argument = if flag.name == "v" { argument.short('v') } else { argument };
        argument.value_parser(flag.parser())
    });
    Command::new("kube-scheduler").about(ABOUT).args(arguments)
}

impl Flag {
    fn help(&self) -> String {
        match self.role {
            Used => String::new(),
            WithoutConfig => "Ignored with --config".to_owned(),
            WithoutEffect(why) => format!("Without effect: {why}"),
            Refused { default } => format!("Not built; only {default:?} is accepted"),
        }
    }

    fn parser(&self) -> ValueParser {
        let is_right: fn(&str) -> bool = match (self.name, self.kind) {
            ("version", _) | (_, Text | List | Repeated) => |_| true,
            (_, Switch) => |text| go_bool(text).is_some(),
            (_, Number) => |text| text.parse::<i64>().is_ok(),
            (_, Fraction) => |text| text.parse::<f64>().is_ok(),
            (_, Duration) => |text| berth_model::duration::parse_duration(text).is_some(),
        };
        let kind = self.kind;
        ValueParser::new(move |text: &str| {
            if is_right(text) {
                return Ok(text.to_owned());
            }
            let expected = match kind {
                Switch => "true or false",
                Number => "a whole number",
                Fraction => "a number",
                Text | List | Repeated | Duration => "a duration such as 15s or 1m30s",
            };
            Err(clap::Error::raw(ErrorKind::ValueValidation, format!("{text:?} is not {expected}")))
        })
    }
}

/// What Go's `strconv.ParseBool` takes.
pub(super) fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Given, clap::Error> {
        Given::read(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    /// The flags of kube-scheduler 1.36.2, one a line, as its `--help` lists them.
    const THEIRS: &str = include_str!("flags_1.36.txt");

    #[test]
    fn every_flag_of_kube_scheduler_is_known() {
        let ours: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
        let mut n_flags = 0;
        for line in THEIRS.lines() {
            let (name, kind) = line.split_once(' ').unwrap_or((line, "bool"));
            n_flags += 1;
            if name == "help" {
                continue;
            }
            assert!(ours.contains(&name), "--{name} is not known");
            let value = match kind {
                "bool" => "true",
                "duration" => "15s",
                "int" | "int32" | "Level" => "3",
                "float32" => "1.5",
                _ => "text",
            };
            let given = read(&[&format!("--{name}={value}")]).unwrap_or_else(|error| panic!("--{name}: {error}"));
            assert_eq!(given.text(name), Some(value), "--{name}");
            if kind != "bool" && name != "version" {
                let given = read(&[&format!("--{name}"), value]).unwrap_or_else(|error| panic!("--{name}: {error}"));
                assert_eq!(given.text(name), Some(value), "--{name}");
            }
        }
        assert_eq!(n_flags, 63);
    }

    #[test]
    fn values_are_read_as_go_reads_them() {
        let given = read(&["--leader_elect", "--profiling=F", "-v=4", "--v", "5", "--feature-gates", "A=true,B=false"]);
        let given = given.expect("all known");
        assert_eq!((given.switch("leader-elect"), given.switch("profiling")), (Some(true), Some(false)));
        assert_eq!(given.number("v"), Some(5));
        assert_eq!(given.texts("feature-gates"), ["A=true", "B=false"]);
        assert!(!given.is_given("config"));
        for (wrong, part) in [
            (&["--leader-elect=maybe"][..], "true or false"),
            (&["--leader-elect", "false"], "false"),
            (&["--leader-elect-lease-duration", "15"], "duration"),
            (&["--no-such-flag"], "--no-such-flag"),
            (&["file.yaml"], "file.yaml"),
        ] {
            let error = read(wrong).expect_err("refused").to_string();
            assert!(error.contains(part), "{wrong:?}: {error}");
        }
    }
}
