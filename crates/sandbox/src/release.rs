//! The Kubernetes release that the sandbox emulates.

/// A release, which determines the kinds that are served by default, and the version that the API reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KubernetesRelease {
    /// 1.36.
    #[default]
    V1_36,
    /// 1.37, which also serves DeviceTaintRules.
    V1_37,
}

impl KubernetesRelease {
    /// The second number of its version.
    pub(crate) fn minor(self) -> u32 {
        match self {
            Self::V1_36 => 36,
            Self::V1_37 => 37,
        }
    }

    /// The version as `/version` shows it.
    pub(crate) fn git_version(self) -> &'static str {
        match self {
            Self::V1_36 => "v1.36.2",
            Self::V1_37 => "v1.37.0",
        }
    }
}
