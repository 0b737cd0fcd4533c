//! The behaviour that depends on the Kubernetes release or on a feature gate. Each such behaviour is a [`Feature`].
//!
//! The code of a rule asks [`Features`] whether a feature is on, and never compares the text of a release or gate. A
//! feature is either a feature gate, or a change that came with a release and that cannot be switched alone. The table
//! below is the only place that says which features a release has on. The guide's page of differences is made from this
//! table.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A Kubernetes release whose scheduler this program can replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// Kubernetes 1.36.
    #[default]
    V1_36,
    /// Kubernetes 1.37.
    V1_37,
}

impl Release {
    /// All releases, the oldest first.
    pub const ALL: [Self; 2] = [Self::V1_36, Self::V1_37];

    /// The release as flags and messages write it, for example `1.36`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1_36 => "1.36",
            Self::V1_37 => "1.37",
        }
    }

    /// The second number of the release's version.
    #[must_use]
    pub fn minor(self) -> u32 {
        match self {
            Self::V1_36 => 36,
            Self::V1_37 => 37,
        }
    }

    /// The release for which [`Self::as_str`] returns this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|release| release.as_str() == name)
    }
}

/// The ways to switch a [`Feature`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureKind {
    /// A feature gate with this name, or the release, switches the feature.
    Gate,
    /// Only the release switches the feature.
    Change,
}

macro_rules! features {
    ($($(#[doc = $doc:literal])+ $feature:ident: $kind:ident, $in_1_36:literal, $in_1_37:literal;)+) => {
        /// A decision that differs between releases, or that a feature gate switches.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Feature {
            $($(#[doc = $doc])+ $feature,)+
        }

        impl Feature {
            /// All features, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$feature,)+];

            /// The name of the gate, or of the change.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$feature => stringify!($feature),)+ }
            }

            /// Whether a gate or only the release switches the feature.
            #[must_use]
            pub fn kind(self) -> FeatureKind {
                match self { $(Self::$feature => FeatureKind::$kind,)+ }
            }

            /// Whether the feature is on in this release by default.
            #[must_use]
            pub fn is_on_in(self, release: Release) -> bool {
                match (self, release) {
                    $((Self::$feature, Release::V1_36) => $in_1_36, (Self::$feature, Release::V1_37) => $in_1_37,)+
                }
            }

            /// The behaviour while the feature is on, in Markdown.
            #[must_use]
            pub fn explanation(self) -> &'static str {
                match self { $(Self::$feature => concat!($($doc,)+).trim_ascii(),)+ }
            }
        }
    };
}

features! {
    /// A request of a ResourceClaim may say how much of a device's capacity it takes, and several claims may share a device.
    DRAConsumableCapacity: Gate, true, true;
    /// Devices may have conditions that must be true before the pod is bound.
    DRADeviceBindingConditions: Gate, true, true;
    /// Taints of devices keep requests away that do not tolerate them.
    DRADeviceTaints: Gate, true, true;
    /// DeviceTaintRules add taints to devices.
    DRADeviceTaintRules: Gate, false, true;
    /// Extended resources of pods may be served by devices.
    DRAExtendedResource: Gate, true, true;
    /// Ranges and steps of a device's capacity may be fractions of a unit, counted in thousandths.
    DRAFractionalCapacityRange: Gate, false, false;
    /// Lists are attributes of devices in selectors.
    DRAListTypeAttributes: Gate, false, false;
    /// Devices may take CPU, memory and huge pages of their node. These amounts count among the requests of the pods that
    /// use the devices.
    DRANodeAllocatableResources: Gate, false, false;
    /// Devices may consume counters that their pool shares, and have their own node selections.
    DRAPartitionableDevices: Gate, true, true;
    /// A request may list alternatives in the order of preference.
    DRAPrioritizedList: Gate, true, true;
    /// Drivers report conditions of devices in the status of claims.
    DRAResourceClaimDeviceStatus: Gate, true, true;
    /// The search for devices on a node ends after the `filterTimeout` of DynamicResources.
    DRASchedulerFilterTimeout: Gate, true, true;
    /// The resources that a pod requests as a whole may be resized.
    InPlacePodLevelResourcesVerticalScaling: Gate, true, true;
    /// A pod's own values of `matchLabelKeys` narrow the selectors of its spread constraints.
    MatchLabelKeysInPodTopologySpread: Gate, true, true;
    /// The plugin NodeDeclaredFeatures is among the default plugins.
    NodeDeclaredFeatures: Gate, true, true;
    /// A pod may request resources as a whole, besides those of its containers.
    PodLevelResources: Gate, true, true;
    /// VolumeBinding scores nodes by the storage capacity that a pod leaves.
    StorageCapacityScoring: Gate, false, true;
    /// Tolerations may compare numbers with the operators `Lt` and `Gt`.
    TaintTolerationComparisonOperators: Gate, false, false;
    /// NodeVolumeLimits keeps pods off nodes that lack a CSI driver whose CSIDriver says `preventPodSchedulingIfMissing`.
    VolumeLimitScaling: Gate, false, true;
    /// A claim's allocation contains each configuration once, and lists no requests for a configuration that applies to
    /// all requests.
    AllocatedConfigOnce: Change, false, true;
    /// A request for all devices fails if a device has too little capacity left. Without the feature, the request is
    /// served without that device.
    AllDevicesNeedCapacity: Change, false, true;
    /// The search for devices returns the counters of choices that it gives up. Without the feature, these counters
    /// stay taken until the search on the node ends.
    CountersAreGivenBack: Change, false, true;
    /// Pools of different drivers have their own counters, even if the pools have one name. Without the feature, pools
    /// of one name have the counters of the pool that the search meets first.
    CountersAreOfOneDriver: Change, false, true;
    /// A slice with counters is for the nodes that it names. Without the feature, it is for all nodes: while its pool is
    /// incomplete or invalid, a request for all devices fails on every node.
    CounterSlicesAreForTheirNodes: Change, false, true;
    /// With the gate DRANodeAllocatableResources, the field `nodeAllocatableResources` of a device has the amounts
    /// that the device takes from its node. Without the feature, the field is `nodeAllocatableResourceMappings`, and a
    /// container must use each claim with such a device.
    DevicesMayHaveOverhead: Change, false, true;
    /// DeviceTaintRules are read as `resource.k8s.io/v1`. Without the feature, they are read as
    /// `resource.k8s.io/v1beta2`.
    DeviceTaintRulesAreV1: Change, false, true;
    /// With `distinctAttribute`, all devices of a request must differ. Without the feature, a device is compared only
    /// with the last device of each request.
    DistinctAmongAllDevices: Change, false, true;
    /// Amounts of capacity that are rounded up have the format of the step. Without the feature, they have a binary
    /// suffix.
    RoundedCapacityHasFormatOfStep: Change, false, true;
    /// Device selectors see attributes that are lists, with the gate DRAListTypeAttributes on or off.
    SelectorsSeeListAttributes: Change, false, true;
    /// Errors of device selectors that run name the device, and give advice if a key is missing.
    SelectorErrorsNameDevices: Change, false, true;
    /// InterPodAffinity tries a pod again when a pod leaves that matched any of its required anti-affinity terms.
    /// Without the feature, the pod that left must match all of these terms.
    AnyAntiAffinityTermWakesPods: Change, false, true;
    /// NodeDeclaredFeatures asks for `VolumeBindMountOptions` if a container mounts a volume with `bindMountOptions`.
    BindMountOptionsNeedFeature: Change, false, true;
    /// The age at which an unschedulable pod is tried again is counted from its last flush if the flush came after its
    /// last attempt. Without the feature, the age is always counted from the last attempt.
    FlushesCountForAge: Change, false, true;
    /// The nomination of a pod counts while a PreEnqueue plugin gates the pod. Without the feature, it counts only
    /// after the pod has come to activeQ.
    GatedPodsKeepNominations: Change, false, true;
    /// ImageLocality divides by the number of containers and image volumes. Without the feature, it divides by the
    /// number of containers.
    ImageVolumesCountAsContainers: Change, false, true;
    /// Events of pods without a node have the labels `UnscheduledPod…`, and events of the waiting pod itself have the
    /// labels `TargetPod…`. Without the feature, all of these events have the labels `UnschedulablePod…`.
    PodEventsByKind: Change, false, true;
    /// A configuration may name plugins for `podGroupPostFilter`. No plugin runs at this point, because groups of pods
    /// are not scheduled together.
    PodGroupPostFilterIsAPoint: Change, false, true;
    /// The pod's condition and event name the node and the number of victims of a successful preemption.
    PreemptionHasMessage: Change, false, true;
    /// During a resize, a pod requests the largest of three totals: of its spec, of its allocated resources and of its
    /// actual resources. Without the feature, it requests the sum of each container's largest amounts.
    ResizedPodsTakeMaximumOfTotals: Change, false, true;
}

/// The set of features that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// The field of a built-in plugin's args that contains the features.
    pub const IN_ARGS: &str = "features";

    /// The features in the args of a built-in plugin, as JSON. Args without them, or without a valid form, have the features
    /// of the oldest release.
    #[must_use]
    pub fn in_args(args: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Args {
            features: Features,
        }
        serde_json::from_str::<Option<Args>>(args).ok().flatten().unwrap_or_default().features
    }

    /// The features that are on in `release` by default.
    #[must_use]
    pub fn of(release: Release) -> Self {
        Feature::ALL.iter().fold(Self(0), |features, feature| features.with(*feature, feature.is_on_in(release)))
    }

    /// Whether `feature` is on.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        self.0 & Self::bit(feature) != 0
    }

    /// A copy of the features with `feature` on or off.
    #[must_use]
    pub fn with(self, feature: Feature, is_on: bool) -> Self {
        let others = self.0 & !Self::bit(feature);
        Self(if is_on { others | Self::bit(feature) } else { others })
    }

    /// The features whose state differs from the oldest release.
    pub fn differing(self) -> impl Iterator<Item = (Feature, bool)> {
        let oldest = Self::default();
        let states = Feature::ALL.iter().map(move |feature| (*feature, self.has(*feature)));
        states.filter(move |(feature, is_on)| oldest.has(*feature) != *is_on)
    }

    fn bit(feature: Feature) -> u64 {
        1 << feature as u32
    }
}

/// The features of the oldest release.
impl Default for Features {
    fn default() -> Self {
        Self::of(Release::default())
    }
}

/// Serializes a map from names to `true` or `false`. It contains the features that differ from the oldest release.
impl Serialize for Features {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.differing().map(|(feature, is_on)| (feature.name(), is_on)))
    }
}

/// Deserializes a map of features. An unknown name is refused.
impl<'de> Deserialize<'de> for Features {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut features = Self::default();
        for (name, is_on) in BTreeMap::<String, bool>::deserialize(deserializer)? {
            let feature = Feature::ALL.iter().find(|feature| feature.name() == name);
            let unknown = || serde::de::Error::custom(format_args!("unknown feature {name}"));
            features = features.with(*feature.ok_or_else(unknown)?, is_on);
        }
        Ok(features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_has_a_bit() {
        assert!(Feature::ALL.len() <= 64);
        let on = Feature::ALL.iter().fold(Features(0), |features, feature| features.with(*feature, true));
        assert_eq!(on.0.count_ones() as usize, Feature::ALL.len());
    }

    #[test]
    fn releases_differ() {
        let [old, new] = Release::ALL.map(Features::of);
        assert!(!old.has(Feature::StorageCapacityScoring) && new.has(Feature::StorageCapacityScoring));
        assert_eq!(old, Features::default());
        assert_eq!(Release::from_name("1.37"), Some(Release::V1_37));
        assert_eq!(Release::from_name("1.35"), None);
    }

    #[test]
    fn features_are_found_in_the_args_of_a_plugin() {
        let on = Features::default().with(Feature::VolumeLimitScaling, true);
        assert_eq!(Features::in_args(r#"{"other": 1, "features": {"VolumeLimitScaling": true}}"#), on);
        assert_eq!([r#"{"other": 1}"#, "null", "", "no JSON"].map(Features::in_args), [Features::default(); 4]);
    }

    #[test]
    fn what_differs_is_written_and_read() {
        let features =
            Features::default().with(Feature::VolumeLimitScaling, true).with(Feature::DRADeviceTaints, false);
        let text = serde_json::to_string(&features).unwrap();
        assert_eq!(text, r#"{"DRADeviceTaints":false,"VolumeLimitScaling":true}"#);
        assert_eq!(serde_json::from_str::<Features>(&text).unwrap(), features);
        assert!(serde_json::from_str::<Features>(r#"{"Nonsense":true}"#).is_err());
    }
}
