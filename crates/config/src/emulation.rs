//! The release of Kubernetes that the scheduler emulates, and the state of its feature gates: `--emulated-version`,
//! `--min-compatibility-version` and `--feature-gates`.
//!
//! By default the scheduler emulates the API server's release, which is known only after the server's first answer.
//! [`Emulation`] has the values of the flags. [`Emulated`] has the release and the gates that result from these values
//! and from the server's version. The result holds until the process ends.

use std::{fmt, str::FromStr};

use berth_model::Release;

use crate::feature_gates::{Concern, GateError, Gates};

/// The first two numbers of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesVersion {
    major: u32,
    minor: u32,
}

impl KubernetesVersion {
    /// The nearest supported release, and whether it is exactly this version.
    #[must_use]
    pub fn nearest(self) -> (Release, bool) {
        let numbered = Release::ALL.map(|release| (release, Self::from(release)));
        let exact = numbered.iter().find(|(_, version)| *version == self);
        let [(oldest, first), .., (newest, _)] = numbered;
        let nearest = if self < first { oldest } else { newest };
        exact.map_or((nearest, false), |(release, _)| (*release, true))
    }

    fn before(self) -> Self {
        Self { minor: self.minor.saturating_sub(1), ..self }
    }
}

impl From<Release> for KubernetesVersion {
    fn from(release: Release) -> Self {
        Self { major: 1, minor: release.minor() }
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Reads `1.36`, and the version that a server reports, such as `v1.36.2+k3s1`.
impl FromStr for KubernetesVersion {
    type Err = EmulationError;

    fn from_str(text: &str) -> Result<Self, EmulationError> {
        let malformed = || EmulationError::Malformed(text.to_owned());
        let mut numbers = text.strip_prefix('v').unwrap_or(text).split('.');
        let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok()).ok_or_else(malformed);
        Ok(Self { major: next()?, minor: next()? })
    }
}

/// The reason why flags cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmulationError {
    #[error("invalid version {0:?}")]
    Malformed(String),
    #[error("--emulated-version: {0}; expected 1.36 or kube=1.36")]
    Version(Box<EmulationError>),
    #[error("--min-compatibility-version: {0}; expected 1.36 or kube=1.36")]
    MinCompatibility(Box<EmulationError>),
    #[error("--min-compatibility-version {given}: with Kubernetes {release} it can be {least} or {release}")]
    OutOfRange { given: KubernetesVersion, least: KubernetesVersion, release: &'static str },
    #[error("--feature-gates {0}: write it as Name=true or Name=false")]
    MalformedGate(String),
    #[error("--feature-gates: {0}")]
    Gate(#[from] GateError),
}

/// The values of the flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emulation {
    version: Option<KubernetesVersion>,
    min_compatibility: Option<KubernetesVersion>,
    /// Each gate: the text on the command line, the name and the value.
    gates: Vec<(String, String, bool)>,
}

/// The release and the gates that result from the flags and from the API server's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulated {
    pub gates: Gates,
    /// Facts that an operator should know: the version differs from the requested version, or gates have no effect.
    pub warnings: Vec<String>,
}

impl Emulation {
    /// Reads the values of the three flags. Each flag may be given several times. A value that no release accepts is an
    /// error.
    ///
    /// # Errors
    /// A value is not valid.
    pub fn new(versions: &[&str], min_compatibility: &[&str], gates: &[&str]) -> Result<Self, EmulationError> {
        let last = |values: &[&str]| {
            let given = values.iter().rfind(|value| !value.is_empty());
            given.map(|value| value.trim_start_matches("kube=").parse::<KubernetesVersion>()).transpose()
        };
        let gates = gates.iter().filter(|gate| !gate.is_empty()).map(|gate| setting(gate)).collect::<Result<_, _>>()?;
        let emulation = Self {
            version: last(versions).map_err(|error| EmulationError::Version(Box::new(error)))?,
            min_compatibility: last(min_compatibility)
                .map_err(|error| EmulationError::MinCompatibility(Box::new(error)))?,
            gates,
        };
        match emulation.version {
            Some(version) => emulation.resolve(version).map(drop)?,
            None => {
                let [oldest, newest] = Release::ALL.map(|release| emulation.resolve(release.into()));
                if newest.is_err() {
                    oldest?;
                }
            }
        }
        Ok(emulation)
    }

    /// The version that the flags ask for. If the flags ask for a version, the API server's version is not needed.
    #[must_use]
    pub fn version(&self) -> Option<KubernetesVersion> {
        self.version
    }

    /// Whether the flags turn this gate on. The release may refuse the gate.
    #[must_use]
    pub fn asks_for(&self, gate: &str) -> bool {
        self.gates.iter().rfind(|(_, name, _)| name == gate).is_some_and(|(_, _, value)| *value)
    }

    /// Determines the release and the gates for a cluster with this version of the API server.
    ///
    /// # Errors
    /// The release does not support a value of the flags.
    pub fn resolve(&self, server: KubernetesVersion) -> Result<Emulated, EmulationError> {
        let version = self.version.unwrap_or(server);
        let (release, is_exact) = version.nearest();
        let mut warnings = Vec::new();
        if !is_exact {
            let whose = if self.version.is_some() { "--emulated-version" } else { "the API server" };
            warnings.push(format!(
                "{whose} is {version}, which is not supported: making the decisions of Kubernetes {}",
                release.as_str()
            ));
        }
        let mut gates = self.defaults(release)?;
        for (given, name, value) in &self.gates {
            let stood = gates.is_on(name);
            if gates.switch(name, *value)? == Concern::Others && *value != stood {
                warnings.push(format!(
                    "--feature-gates {given} has no effect: the scheduler does not use this \
                                       feature gate"
                ));
            }
        }
        gates.check_dependencies()?;
        Ok(Emulated { gates, warnings })
    }

    fn defaults(&self, release: Release) -> Result<Gates, EmulationError> {
        let version = KubernetesVersion::from(release);
        match self.min_compatibility {
            None => Ok(Gates::of_release(release)),
            Some(given) if given == version.before() => Ok(Gates::of_release(release)),
            Some(given) if given == version => Ok(Gates::of_release_alone(release)),
            Some(given) => {
                Err(EmulationError::OutOfRange { given, least: version.before(), release: release.as_str() })
            }
        }
    }
}

/// Reads `Name=true`, or `kube:Name=true` with the name of the component.
fn setting(given: &str) -> Result<(String, String, bool), EmulationError> {
    let malformed = || EmulationError::MalformedGate(given.to_owned());
    let (name, value) = given.split_once('=').ok_or_else(malformed)?;
    let value = go_bool(value).ok_or_else(malformed)?;
    Ok((given.to_owned(), name.strip_prefix("kube:").unwrap_or(name).to_owned(), value))
}

/// Reads the values that Go's `strconv.ParseBool` accepts.
#[must_use]
pub fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use berth_model::Feature;

    use super::*;

    fn asked(version: &str, min: &str, gates: &[&str]) -> Result<Emulation, EmulationError> {
        Emulation::new(&[version], &[min], gates)
    }

    fn on_server(emulation: &Emulation, server: &str) -> Emulated {
        emulation.resolve(server.parse().expect("a version")).expect("it is built")
    }

    #[test]
    fn the_flag_goes_before_the_server_and_another_version_takes_the_nearest() {
        let by_default = Emulation::default();
        for (server, release, is_told) in [
            ("v1.36.2", Release::V1_36, false),
            ("v1.37.0-rc.0", Release::V1_37, false),
            ("v1.35.9+k3s1", Release::V1_36, true),
            ("v1.40.1", Release::V1_37, true),
        ] {
            let Emulated { gates, warnings } = on_server(&by_default, server);
            assert_eq!(gates.release(), release, "{server}");
            assert_eq!(warnings.iter().any(|it| it.contains("the API server is")), is_told, "{server}: {warnings:?}");
        }
        for text in ["1.36", "kube=1.36", "v1.36.1"] {
            let emulation = asked(text, "", &[]).expect("a version");
            assert_eq!(on_server(&emulation, "v1.37.0").gates.release(), Release::V1_36, "{text}");
        }
        let newer = on_server(&asked("1.99", "", &[]).expect("a version"), "v1.36.0");
        assert_eq!(newer.gates.release(), Release::V1_37);
        assert!(newer.warnings[0].starts_with("--emulated-version is 1.99, which is not supported"), "{newer:?}");
        let refused = asked("new", "", &[]).expect_err("not a version").to_string();
        assert_eq!(refused, "--emulated-version: invalid version \"new\"; expected 1.36 or kube=1.36");
    }

    #[test]
    fn gates_are_those_of_the_release() {
        let of_one = asked("", "", &["GangScheduling=false"]).expect("1.36 has it");
        assert!(of_one.resolve(Release::V1_36.into()).is_ok());
        let refused = of_one.resolve(Release::V1_37.into()).expect_err("1.37 has taken it away").to_string();
        assert!(refused.contains("kube-scheduler 1.37 has none of this name"), "{refused}");
        assert!(asked("1.37", "", &["GangScheduling=false"]).is_err());
        assert!(asked("", "", &["NoSuchGate=true"]).is_err() && asked("", "", &["GenericWorkload=true"]).is_err());
        assert_eq!(
            asked("", "", &["StorageCapacityScoring"]).expect_err("no value").to_string(),
            "--feature-gates StorageCapacityScoring: write it as Name=true or Name=false"
        );
        let scores = |gates: &[&str], server| {
            let emulated = on_server(&asked("", "", gates).expect("built"), server);
            emulated.gates.features().has(Feature::StorageCapacityScoring)
        };
        assert_eq!([scores(&[], "v1.36.0"), scores(&[], "v1.37.0")], [false, true]);
        assert_eq!(
            [
                scores(&["StorageCapacityScoring=true"], "v1.36.0"),
                scores(&["kube:StorageCapacityScoring=F"], "v1.37.0")
            ],
            [true, false]
        );
        let of_others = ["RotateKubeletServerCertificate=false", "KubeletPSI=true", "PodsAPI=T"];
        let warnings = on_server(&asked("", "", &of_others).expect("accepted"), "v1.36.0").warnings;
        let told = |gate| format!("--feature-gates {gate} has no effect: the scheduler does not use this feature gate");
        assert_eq!(warnings, [told(of_others[0]), told(of_others[2])]);
    }

    #[test]
    fn a_gate_needs_the_gates_on_which_it_depends() {
        let without_declared = ["NodeDeclaredFeatures=false", "RestartAllContainersOnContainerExits=false"];
        assert_eq!(
            asked("1.36", "", &without_declared).expect_err("a gate depends on it").to_string(),
            "--feature-gates: InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are \
             disabled: [NodeDeclaredFeatures]"
        );
        let both = [&without_declared[..], &["InPlacePodLevelResourcesVerticalScaling=false"]].concat();
        let gates = on_server(&asked("1.36", "", &both).expect("nothing depends on it"), "v1.36.0").gates;
        assert!(!gates.is_on("NodeDeclaredFeatures") && gates.is_on("PodLevelResources"));
        assert!(asked("1.36", "", &["DRADeviceTaints=false"]).is_ok(), "DeviceTaintRules are off in 1.36");
        assert!(asked("1.37", "", &["DRADeviceTaints=false"]).is_err());
        assert!(asked("", "", &["ContainerRestartRules=false"]).is_err());
        assert!(asked("", "", &["MatchLabelKeysInPodTopologySpread=false"]).is_err());
    }

    #[test]
    fn a_min_compatibility_version_turns_on_what_older_components_do_not_know() {
        let fractions = |min| {
            let gates = asked("1.37", min, &[]).map(|emulation| on_server(&emulation, "v1.37.0").gates);
            gates.map(|gates| gates.features().has(Feature::DRAFractionalCapacityRange))
        };
        assert_eq!((fractions(""), fractions("kube=1.36"), fractions("1.37")), (Ok(false), Ok(false), Ok(true)));
        assert_eq!(
            fractions("1.35").expect_err("too old").to_string(),
            "--min-compatibility-version 1.35: with Kubernetes 1.37 it can be 1.36 or 1.37"
        );
    }
}
