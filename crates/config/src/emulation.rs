//! The release of Kubernetes that the scheduler emulates, and the state of its feature gates: `--emulated-version`,
//! `--min-compatibility-version` and `--feature-gates`.
//!
//! By default the scheduler emulates the API server's release, which is known only after the server's first answer.
//! [`Emulation`] has the values of the flags. [`Emulated`] has the release and the gates that result from these values
//! and from the server's version. The result holds until the process ends.

use std::{collections::BTreeMap, fmt, str::FromStr};

use berth_model::Release;

use crate::feature_gates::{Concern, GateError, Gates};

/// The component whose version and gates the flags may set.
const COMPONENT: &str = "kube";

/// The number of releases before the newest one that `--min-compatibility-version` may go back
/// (`kubeEffectiveVersionFloors` in Kubernetes' `pkg/compatibility`).
const OLDER_RELEASES: u32 = 3;

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

    fn back(self, n_releases: u32) -> Self {
        Self { minor: self.minor.saturating_sub(n_releases), ..self }
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
        match *numbers(text)?.as_slice() {
            [] => Err(EmulationError::Malformed(text.to_owned())),
            [_] => Err(EmulationError::Illegal(text.to_owned())),
            [major, minor, ..] => Ok(Self { major, minor }),
        }
    }
}

/// The numbers at the beginning of a version. Whatever follows them is left out (`ParseGeneric` in
/// `k8s.io/apimachinery/pkg/util/version`).
fn numbers(text: &str) -> Result<Vec<u32>, EmulationError> {
    let mut numbers = Vec::new();
    let trimmed = text.trim_start();
    let mut rest = Some(trimmed.strip_prefix('v').unwrap_or(trimmed));
    while let Some(left) = rest {
        let (number, after) = left.split_at(left.bytes().take_while(u8::is_ascii_digit).count());
        if number.is_empty() {
            break;
        }
        if numbers.is_empty() && number.len() > 1 && number.starts_with('0') {
            return Err(EmulationError::ZeroPrefixed { component: number.to_owned(), text: text.to_owned() });
        }
        numbers.push(number.parse().map_err(|_| EmulationError::Illegal(text.to_owned()))?);
        rest = after.strip_prefix('.');
    }
    Ok(numbers)
}

/// The version in the values of a flag, each of which is `1.36` or `kube=1.36` (`toVersionMap` in
/// `k8s.io/component-base/compatibility`).
fn version_of(values: &[&str]) -> Result<Option<KubernetesVersion>, EmulationError> {
    let mut known = BTreeMap::new();
    for value in values.iter().filter(|value| !value.is_empty()) {
        let (component, text) = value.split_once('=').unwrap_or((COMPONENT, *value));
        let (component, text) = (component.trim(), text.trim());
        let version: KubernetesVersion = text.parse()?;
        if let [_, _, patch, ..] = *numbers(text)?.as_slice()
            && patch != 0
        {
            return Err(EmulationError::Patch(format!("{component}={version}.{patch}")));
        }
        if let Some(earlier) = known.insert(component, version) {
            return Err(EmulationError::Twice(format!("{component}={earlier} and {component}={version}")));
        }
    }
    let version = known.remove(COMPONENT);
    match known.keys().next() {
        Some(other) => Err(EmulationError::NotRegistered((*other).to_owned())),
        None => Ok(version),
    }
}

/// The reason why flags cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmulationError {
    #[error("could not parse {0:?} as version")]
    Malformed(String),
    #[error("illegal version string {0:?}")]
    Illegal(String),
    #[error("illegal zero-prefixed version component {component:?} in {text:?}")]
    ZeroPrefixed { component: String, text: String },
    #[error("patch version not allowed, got: {0}")]
    Patch(String),
    #[error("duplicate version flag, {0}")]
    Twice(String),
    #[error("component not registered: {0}")]
    NotRegistered(String),
    #[error("--emulated-version: {0}; expected 1.36 or kube=1.36")]
    Version(Box<EmulationError>),
    #[error("--min-compatibility-version: {0}; expected 1.36 or kube=1.36")]
    MinCompatibility(Box<EmulationError>),
    #[error("--min-compatibility-version: minCompatibilityVersion version {given} is not between [{least}, {release}]")]
    OutOfRange { given: KubernetesVersion, least: KubernetesVersion, release: &'static str },
    #[error("--feature-gates: missing bool value for {0}; write it as Name=true or Name=false")]
    NoValue(String),
    #[error(
        "--feature-gates: invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
    )]
    NoBool { name: String, value: String },
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
    /// Reads the values of the three flags. `--feature-gates` may name a gate several times; the last value counts. A
    /// value that no release accepts is an error.
    ///
    /// # Errors
    /// A value is not valid.
    pub fn new(versions: &[&str], min_compatibility: &[&str], gates: &[&str]) -> Result<Self, EmulationError> {
        let gates = gates.iter().filter(|gate| !gate.is_empty()).map(|gate| setting(gate)).collect::<Result<_, _>>()?;
        let emulation = Self {
            version: version_of(versions).map_err(|error| EmulationError::Version(Box::new(error)))?,
            min_compatibility: version_of(min_compatibility)
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

    /// The value that the flags give this gate; `None` if they do not name the gate. The release may refuse the value.
    #[must_use]
    pub fn asked(&self, gate: &str) -> Option<bool> {
        self.gates.iter().rfind(|(_, name, _)| name == gate).map(|(_, _, value)| *value)
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
        let Some(given) = self.min_compatibility else { return Ok(Gates::of_release(release)) };
        let [.., newest] = Release::ALL;
        let least = KubernetesVersion::from(newest).back(OLDER_RELEASES);
        if given < least || given > KubernetesVersion::from(release) {
            return Err(EmulationError::OutOfRange { given, least, release: release.as_str() });
        }
        Ok(Gates::of_cluster(release, given.minor))
    }
}

/// Reads `Name=true`, or `kube:Name=true` with the name of the component.
fn setting(given: &str) -> Result<(String, String, bool), EmulationError> {
    let of_component = given.strip_prefix("kube:").unwrap_or(given);
    let (name, text) = of_component.split_once('=').ok_or_else(|| EmulationError::NoValue(of_component.to_owned()))?;
    let (name, text) = (name.trim().to_owned(), text.trim());
    match go_bool(text) {
        Some(value) => Ok((given.to_owned(), name, value)),
        None => Err(EmulationError::NoBool { name, value: text.to_owned() }),
    }
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
        for text in ["1.36", "kube=1.36", " kube = v1.36.0"] {
            let emulation = asked(text, "", &[]).expect("a version");
            assert_eq!(on_server(&emulation, "v1.37.0").gates.release(), Release::V1_36, "{text}");
        }
        let newer = on_server(&asked("1.99", "", &[]).expect("a version"), "v1.36.0");
        assert_eq!(newer.gates.release(), Release::V1_37);
        assert!(newer.warnings[0].starts_with("--emulated-version is 1.99, which is not supported"), "{newer:?}");
    }

    /// `toVersionMap` in `k8s.io/component-base/compatibility`.
    #[test]
    fn a_version_is_refused_in_the_words_of_kubernetes() {
        for (values, text) in [
            (&["new"][..], "could not parse \"new\" as version"),
            (&["1"], "illegal version string \"1\""),
            (&["1..37"], "illegal version string \"1..37\""),
            (&["01.37"], "illegal zero-prefixed version component \"01\" in \"01.37\""),
            (&["v1.36.2"], "patch version not allowed, got: kube=1.36.2"),
            (&["wardle=1.2", "kube=1.37"], "component not registered: wardle"),
            (&["1.36", "kube=1.37"], "duplicate version flag, kube=1.36 and kube=1.37"),
        ] {
            let refused = Emulation::new(values, &[], &[]).expect_err("refused").to_string();
            assert_eq!(refused, format!("--emulated-version: {text}; expected 1.36 or kube=1.36"));
            let refused = Emulation::new(&[], values, &[]).expect_err("refused").to_string();
            assert_eq!(refused, format!("--min-compatibility-version: {text}; expected 1.36 or kube=1.36"));
        }
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
            "--feature-gates: missing bool value for StorageCapacityScoring; write it as Name=true or Name=false"
        );
        assert_eq!(
            asked("", "", &["StorageCapacityScoring=on"]).expect_err("no bool").to_string(),
            "--feature-gates: invalid value of StorageCapacityScoring=on, err: strconv.ParseBool: parsing \"on\": invalid \
             syntax"
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
        assert_eq!((fractions("1.34"), fractions("1.35")), (Ok(false), Ok(false)));
        let range = |version: &str, min| asked(version, min, &[]).expect_err("out of range").to_string();
        let text = "--min-compatibility-version: minCompatibilityVersion version";
        assert_eq!(range("1.37", "1.33"), format!("{text} 1.33 is not between [1.34, 1.37]"));
        assert_eq!(range("1.36", "1.37"), format!("{text} 1.37 is not between [1.34, 1.36]"));
        let kept = asked("", "1.37", &[]).expect("1.37 accepts it");
        let refused = kept.resolve(Release::V1_36.into()).expect_err("the API server is older").to_string();
        assert_eq!(refused, format!("{text} 1.37 is not between [1.34, 1.36]"));
        let oldest = |min| on_server(&asked("1.37", min, &[]).expect("in range"), "v1.37.0").gates.oldest_minor();
        assert_eq!([oldest(""), oldest("1.34"), oldest("1.37")], [36, 34, 37]);
    }
}
