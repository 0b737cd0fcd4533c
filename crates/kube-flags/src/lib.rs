//! The flags of kube-scheduler 1.36, and their meaning in Berth. `kube-scheduler --help` of 1.36.2 lists them; a test
//! compares the lists. The flags about serving HTTPS are also flags of `berth run` ([`ServingFlags`]).
//!
//! Values are read as Go reads them: `--flag=value` and `--flag value`, switches also without a value, and `_` like
//! `-`. If a flag is given several times, the last value counts.

mod defaults;

use self::defaults::default_of;
use std::fmt;

use berth_config::emulation::go_bool;
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches,
    builder::ValueParser,
    error::{ContextKind, ErrorKind},
};

/// One flag.
#[derive(Debug)]
pub struct Flag {
    /// The name without dashes.
    pub name: &'static str,
    kind: Kind,
    /// The effect of the flag.
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Switch,
    Text,
    Number,
    Fraction,
    Duration,
    /// The flag may be repeated, and a value may have several parts with commas.
    List,
    /// The flag may be repeated. Commas are part of the value.
    Repeated,
}

/// The effect of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The flag has the same meaning as in kube-scheduler.
    Used,
    /// kube-scheduler does not have the flag. It has the same meaning as in `berth run`.
    Own,
    /// The flag is about serving HTTPS, and `berth run` has it as well. The text is its help.
    Serving(&'static str),
    /// The flag has an effect only without `--config`, because the file has the same setting.
    WithoutConfig,
    /// The flag is accepted, with one warning of this text.
    WithoutEffect(&'static str),
    /// The flag is refused because it would change the scheduler's behaviour. Only its default value is accepted.
    Refused {
        /// The only value that is accepted.
        default: &'static str,
    },
}

use Kind::{Duration, Fraction, List, Number, Repeated, Switch, Text};
use Role::{Own, Refused, Serving, Used, WithoutConfig, WithoutEffect};

const PROGRAM: &str = "kube-scheduler";

const fn flag(name: &'static str, kind: Kind, role: Role) -> Flag {
    Flag { name, kind, role }
}

/// All flags, in the order of `--help`, followed by Berth's own flags.
pub const FLAGS: &[Flag] = &[
    flag("config", Text, Used),
    flag("master", Text, Used),
    flag("unsupported-kube-api-over-localhost", Switch, Refused { default: "false" }),
    flag("write-config-to", Text, Used),
    flag("bind-address", Text, Serving("IP address that HTTPS is served on [default: 0.0.0.0]")),
    flag(
        "cert-dir",
        Text,
        Serving("Folder for a self-signed certificate if --tls-cert-file is not set [default: in memory]"),
    ),
    flag("disable-http2-serving", Switch, Serving("Serve only HTTP/1.1")),
    flag(
        "http2-max-streams-per-connection",
        Number,
        Serving("Requests that a connection over HTTP/2 may have open at a time [default: 100]"),
    ),
    flag(
        "permit-address-sharing",
        Switch,
        WithoutEffect("the address is shared as far as the system allows it by default"),
    ),
    flag(
        "permit-port-sharing",
        Switch,
        Serving("Let other processes listen on the same port; the kernel spreads connections over them"),
    ),
    flag("secure-port", Number, Serving("Port for HTTPS; 0 serves none [default: 10259; for `berth run` 0]")),
    flag(
        "tls-cert-file",
        Text,
        Serving("Certificates of the server and of intermediate authorities, as PEM; read again when the file changes"),
    ),
    flag("tls-cipher-suites", List, Serving("Cipher suites of TLS 1.2, by Go's names [default: all that Berth has]")),
    flag(
        "tls-curve-preferences",
        List,
        Serving(
            "Curves by Go's numbers, the preferred curve first: 23 (P-256), 24 (P-384), 29 (X25519) [default: all]",
        ),
    ),
    flag(
        "tls-min-version",
        Text,
        Serving("Oldest version of TLS: VersionTLS12 or VersionTLS13 [default: VersionTLS12]"),
    ),
    flag("tls-private-key-file", Text, Serving("Private key of --tls-cert-file, as PEM")),
    flag(
        "tls-sni-cert-key",
        Repeated,
        Serving(
            "CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,NAME: a certificate for clients that ask for these names; repeatable",
        ),
    ),
    flag(
        "authentication-kubeconfig",
        Text,
        Serving(
            "kubeconfig of the API server that authenticates bearer tokens (TokenReview) [default: the pod's service \
             account; for `berth run` the cluster that it schedules]",
        ),
    ),
    flag(
        "authentication-skip-lookup",
        Switch,
        Serving("Do not ask the cluster for the certificate authorities of clients"),
    ),
    flag(
        "authentication-token-webhook-cache-ttl",
        Duration,
        Serving("How long an answer about a token is cached [default: 10s]"),
    ),
    flag(
        "authentication-tolerate-lookup-failure",
        Switch,
        Serving("Start even if the cluster's certificate authorities for clients cannot be looked up [default: true]"),
    ),
    flag(
        "client-ca-file",
        Text,
        Serving(
            "Certificate authorities for client certificates, as PEM; the common name is the user, organizations are \
             groups",
        ),
    ),
    flag(
        "requestheader-allowed-names",
        List,
        Serving("Common names that certificates of front proxies may have [default: any]"),
    ),
    flag(
        "requestheader-client-ca-file",
        Text,
        Serving("Certificate authorities for front proxies, which name the user in headers"),
    ),
    flag(
        "requestheader-extra-headers-prefix",
        List,
        Serving("Prefixes of headers with extra attributes of the user [default: x-remote-extra-]"),
    ),
    flag("requestheader-group-headers", List, Serving("Headers with the user's groups [default: x-remote-group]")),
    flag("requestheader-uid-headers", List, Serving("Headers with the user's uid [default: none]")),
    flag("requestheader-username-headers", List, Serving("Headers with the user's name [default: x-remote-user]")),
    flag(
        "authorization-always-allow-paths",
        List,
        Serving("Paths that need no authorization; `*` at the end matches anything [default: /healthz,/readyz,/livez]"),
    ),
    flag(
        "authorization-kubeconfig",
        Text,
        Serving(
            "kubeconfig of the API server that authorizes callers (SubjectAccessReview) [default: as for \
             --authentication-kubeconfig]",
        ),
    ),
    flag(
        "authorization-webhook-cache-authorized-ttl",
        Duration,
        Serving("How long a permission is cached [default: 10s]"),
    ),
    flag(
        "authorization-webhook-cache-unauthorized-ttl",
        Duration,
        Serving("How long a refusal is cached [default: 10s]"),
    ),
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
    flag("emulated-version", List, Used),
    flag("feature-gates", List, Used),
    flag("min-compatibility-version", List, Used),
    flag("allow-metric-labels", Repeated, Used),
    flag("allow-metric-labels-manifest", Text, Used),
    flag("disabled-metrics", List, Used),
    flag("show-hidden-metrics-for-version", Text, Used),
    flag("log-flush-frequency", Duration, Used),
    flag("log-json-info-buffer-size", Text, Used),
    flag("log-json-split-stream", Switch, Used),
    flag("log-text-info-buffer-size", Text, Used),
    flag("log-text-split-stream", Switch, Used),
    flag("logging-format", Text, Used),
    flag("v", Number, Used),
    flag("vmodule", List, Used),
    flag("version", Text, Used),
    flag("plugins-dir", Text, Own),
    flag("plugin-config", Text, Own),
    flag("artifact-cache", Text, Own),
    flag("plugin-state", Text, Own),
    flag("audit-log", Text, Own),
    flag("tracing-config-file", Text, Own),
    flag("metrics-address", Text, Own),
    flag("admin-socket", Text, Own),
    flag("kept-decisions-mib", Number, Own),
];

const ABOUT: &str = "Berth in kube-scheduler's place. Takes the flags of kube-scheduler 1.36 with the same meaning. A flag without a meaning in Berth \
is accepted with a warning; a value that would change decisions and is not implemented is refused. --plugins-dir, --plugin-config, --artifact-cache, \
--plugin-state, --audit-log, --tracing-config-file, --metrics-address, --admin-socket and --kept-decisions-mib are those of `berth run`.";

/// The flags that were given.
#[derive(Clone, Debug)]
pub struct Given(ArgMatches);

/// The flags about serving HTTPS, as options of another command.
#[derive(Clone, Debug)]
pub struct ServingFlags(
    /// The flags about serving, and no others.
    pub Given,
);

/// The reason why flags cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagError {
    /// `--help` asks for this text.
    Help(String),
    /// A flag is wrong. The text has the form of kube-scheduler's.
    Wrong(String),
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Help(text) | Self::Wrong(text) => f.write_str(text),
        }
    }
}

impl FlagError {
    fn of(error: &clap::Error) -> Self {
        let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
        let named = context(ContextKind::InvalidArg);
        // The name of a flag comes with the name of its value: `--config <TEXT>`, `--profiling[=<BOOL>]`.
        let flag = named.split(['=', '[', ' ']).next().unwrap_or_default();
        Self::Wrong(match error.kind() {
            ErrorKind::DisplayHelp => return Self::Help(error.render().to_string()),
            ErrorKind::UnknownArgument if flag.starts_with("--") => format!("unknown flag: {flag}"),
            ErrorKind::UnknownArgument if named.starts_with('-') => format!("unknown shorthand flag: {named}"),
            ErrorKind::UnknownArgument => format!("{PROGRAM:?} does not take any arguments, got [{named:?}]"),
            ErrorKind::InvalidValue => format!("flag needs an argument: {flag}"),
            ErrorKind::ValueValidation => {
                let reason = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
                let value = context(ContextKind::InvalidValue);
                format!("invalid argument {value:?} for {flag:?} flag: {}", reason.trim_end())
            }
            _ => error.to_string(),
        })
    }
}

impl FromArgMatches for ServingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(Given(matches.clone())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ServingFlags {
    fn augment_args(command: Command) -> Command {
        command.args(serving_flags().map(|flag| flag.argument().help_heading("Serving HTTPS, as kube-scheduler")))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The flags about serving HTTPS.
fn serving_flags() -> impl Iterator<Item = &'static Flag> {
    FLAGS.iter().filter(|flag| matches!(flag.role, Serving(_)))
}

impl Given {
    /// Reads arguments, without the program's name.
    ///
    /// # Errors
    /// A flag is not known, its value has another type, or the help is asked for.
    pub fn read(arguments: impl IntoIterator<Item = String>) -> Result<Self, FlagError> {
        let arguments = arguments.into_iter().map(|argument| normalized(&argument));
        let all = std::iter::once(PROGRAM.to_owned()).chain(arguments);
        command().try_get_matches_from(all).map(Self).map_err(|error| FlagError::of(&error))
    }

    /// The first flag about serving HTTPS that was given.
    #[must_use]
    pub fn first_about_serving(&self) -> Option<&'static str> {
        serving_flags().map(|flag| flag.name).find(|name| self.is_given(name))
    }

    /// Whether the flag is on the command line.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.0.contains_id(name)
    }

    /// The last value.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        Some(self.0.get_many::<String>(name)?.next_back()?.as_str())
    }

    /// The last value; `None` if it is empty.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<std::path::PathBuf> {
        self.text(name).filter(|text| !text.is_empty()).map(Into::into)
    }

    /// All values, in their order.
    #[must_use]
    pub fn texts(&self, name: &str) -> Vec<&str> {
        self.0.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect()
    }

    /// All flags by name, with the values that were given or else with their defaults.
    #[must_use]
    pub fn all(&self) -> Vec<(String, String)> {
        let value = |flag: &Flag| match flag.kind {
            _ if !self.is_given(flag.name) => default_of(flag.name).to_owned(),
            List | Repeated => format!("[{}]", self.texts(flag.name).join(",")),
            Switch | Text | Number | Fraction | Duration => self.text(flag.name).unwrap_or_default().to_owned(),
        };
        let mut all: Vec<_> = FLAGS.iter().map(|flag| (flag.name.to_owned(), value(flag))).collect();
        all.sort();
        all
    }

    /// The value of a switch. Values were checked while the flags were read.
    #[must_use]
    pub fn switch(&self, name: &str) -> Option<bool> {
        go_bool(self.text(name)?)
    }

    /// The value as a whole number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// The value as a number.
    #[must_use]
    pub fn fraction(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok()
    }

    /// The value as a duration, in the form of Go.
    #[must_use]
    pub fn duration(&self, name: &str) -> Option<std::time::Duration> {
        let nanos = berth_model::duration::parse_duration(self.text(name)?)?;
        Some(std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
    }
}

/// Changes `--leader_elect` to `--leader-elect`.
fn normalized(argument: &str) -> String {
    if !argument.starts_with("--") {
        return argument.to_owned();
    }
    let (name, value) = argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)));
    let name = name.replace('_', "-");
    value.map_or(name.clone(), |value| format!("{name}={value}"))
}

/// The command line of the program, with all flags.
#[must_use]
pub fn command() -> Command {
    Command::new(PROGRAM).about(ABOUT).args(FLAGS.iter().map(Flag::argument))
}

impl Flag {
    fn argument(&self) -> Arg {
        let argument = Arg::new(self.name).long(self.name).action(ArgAction::Append).help(self.help());
        let argument = match (self.name, self.kind) {
            ("version", _) | (_, Switch) => {
                argument.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("BOOL")
            }
            (_, List) => argument.value_delimiter(',').value_name("LIST").allow_hyphen_values(true),
            (_, Text | Repeated) => argument.value_name("TEXT").allow_hyphen_values(true),
            (_, Number | Fraction) => argument.value_name("NUMBER").allow_hyphen_values(true),
            (_, Duration) => argument.value_name("DURATION").allow_hyphen_values(true),
        };
        let argument = if self.name == "v" { argument.short('v') } else { argument };
        argument.value_parser(self.parser())
    }

    fn help(&self) -> String {
        match self.role {
            Used => "As in kube-scheduler".to_owned(),
            Own => "As in `berth run`".to_owned(),
            Serving(help) => help.to_owned(),
            WithoutConfig => "Ignored with --config".to_owned(),
            WithoutEffect(why) => format!("Without effect: {why}"),
            Refused { default } => format!("Not implemented; only {default:?} is accepted"),
        }
    }

    fn parser(&self) -> ValueParser {
        let is_right: fn(&str) -> bool = match (self.name, self.kind) {
            ("version", _) => |text| text == "raw" || text.starts_with('v') || go_bool(text).is_some(),
            (_, Text | List | Repeated) => |_| true,
            (_, Switch) => |text| go_bool(text).is_some(),
            (_, Number) => |text| text.parse::<i64>().is_ok(),
            (_, Fraction) => |text| text.parse::<f64>().is_ok(),
            (_, Duration) => |text| berth_model::duration::parse_duration(text).is_some(),
        };
        let (kind, is_version) = (self.kind, self.name == "version");
        ValueParser::new(move |text: &str| {
            if is_right(text) {
                return Ok(text.to_owned());
            }
            let expected = match kind {
                _ if is_version => "true, false, raw or a version that begins with v",
                Switch => "true or false",
                Number => "a whole number",
                Fraction => "a number",
                Text | List | Repeated | Duration => "a duration such as 15s or 1m30s",
            };
            Err(format!("want {expected}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Given, FlagError> {
        Given::read(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    /// The flags of kube-scheduler 1.36.2, one per line, as its `--help` lists them.
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
                _ if name == "version" => "raw",
                "version" => "raw",
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
    fn all_flags_have_the_values_that_count() {
        let all = read(&["--v=4", "--disabled-metrics=a,b", "--kubeconfig", "k"]).expect("all known").all();
        let value = |name: &str| all.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        for (name, expected) in
            [("v", "4"), ("disabled-metrics", "[a,b]"), ("kubeconfig", "k"), ("leader-elect", "true"), ("config", "")]
        {
            assert_eq!(value(name), Some(expected), "--{name}");
        }
        assert!(all.is_sorted());
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

    #[test]
    fn mistakes_are_named_as_kube_scheduler_names_them() {
        for (wrong, message) in [
            (&["--no-such-flag=1"][..], "unknown flag: --no-such-flag"),
            (&["-x"], "unknown shorthand flag: -x"),
            (&["--config"], "flag needs an argument: --config"),
            (&["--profiling=maybe"], "invalid argument \"maybe\" for \"--profiling\" flag: want true or false"),
            (&["--kube-api-burst", "x"], "invalid argument \"x\" for \"--kube-api-burst\" flag: want a whole number"),
            (
                &["--version=new"],
                "invalid argument \"new\" for \"--version\" flag: want true, false, raw or a version that begins with v",
            ),
            (&["file.yaml"], "\"kube-scheduler\" does not take any arguments, got [\"file.yaml\"]"),
        ] {
            assert_eq!(read(wrong).expect_err("refused"), FlagError::Wrong(message.to_owned()), "{wrong:?}");
        }
        let Err(FlagError::Help(help)) = read(&["--leader-elect", "--help"]) else { panic!("help was asked for") };
        assert!(help.contains("--leader-elect-lease-duration"), "{help}");
    }
}
