//! Signatures: the parts of a pod that each plugin reads. Pods with equal signatures get equal answers, so the
//! scheduler may reuse the answers (KEP-5598).
//!
//! Signatures contain symbols, not strings, because they are compared only within one scheduler.

use std::fmt::Debug;

use berth_framework::Sign;
use berth_model::{Pod, pod::VolumeSource};

use crate::{
    image_locality::ImageLocality, node_affinity::NodeAffinity, node_declared_features::NodeDeclaredFeatures,
    node_name::NodeName, node_ports::NodePorts, node_resources_balanced_allocation::NodeResourcesBalancedAllocation,
    node_resources_fit::NodeResourcesFit, node_unschedulable::NodeUnschedulable, node_volume_limits::NodeVolumeLimits,
    taint_toleration::TaintToleration, volume_binding::VolumeBinding, volume_restrictions::VolumeRestrictions,
    volume_zone::VolumeZone,
};

/// Implements Sign for plugins that read one part of a pod.
macro_rules! sign {
    ($($plugin:ident: $part:expr),* $(,)?) => {
        $(impl Sign for $plugin {
            fn sign(&mut self, pod: &Pod) -> Option<String> {
                ($part)(pod)
            }
        })*
    };
}

sign! {
    NodeUnschedulable: |pod: &Pod| text(&pod.tolerations),
    TaintToleration: |pod: &Pod| text(&pod.tolerations),
    NodeName: |pod: &Pod| text(&pod.node_name),
    NodeAffinity: |pod: &Pod| text(&pod.node_rules),
    NodePorts: |pod: &Pod| text(&pod.host_ports),
    NodeDeclaredFeatures: |pod: &Pod| text(&pod.required_features),
    NodeResourcesFit: |pod: &Pod| text(&(&pod.requests, &pod.scoring_requests)),
    NodeResourcesBalancedAllocation: |pod: &Pod| text(&pod.balanced_requests),
    ImageLocality: |pod: &Pod| text(&(&pod.images, pod.n_containers)),
    VolumeRestrictions: volumes,
    NodeVolumeLimits: volumes,
    VolumeBinding: volumes,
    VolumeZone: volumes,
}

/// The signature of one part of a pod.
pub(crate) fn text(part: &dyn Debug) -> Option<String> {
    Some(format!("{part:?}"))
}

/// The signature of volumes. Pods with generic ephemeral volumes have no signature, because each pod has a separate
/// claim for such a volume, and the claims may be bound to different volumes.
fn volumes(pod: &Pod) -> Option<String> {
    let mut sources: Vec<&VolumeSource> = pod.volumes.iter().map(|volume| &volume.source).collect();
    if sources.contains(&&VolumeSource::Ephemeral) {
        return None;
    }
    if sources.is_empty() {
        return Some(String::new());
    }
    sources.sort_by_cached_key(|source| format!("{source:?}"));
    text(&(pod.namespace, sources))
}

#[cfg(test)]
mod tests {
    use berth_model::{
        Sym,
        pod::{PodTerm, SpreadConstraint, Volume, WeightedPodTerm},
    };

    use crate::factory;

    use super::*;

    fn signature(plugin: &str, args: &str, pod: &Pod) -> Option<String> {
        factory(plugin).unwrap().build(args).unwrap().sign().unwrap().sign(pod)
    }

    fn volume(source: VolumeSource) -> Volume {
        Volume { name: "data".into(), source }
    }

    #[test]
    fn signatures_differ_only_in_what_a_plugin_reads() {
        let plain = Pod::default();
        let named = Pod { name: "other".into(), uid: "2".into(), ..Pod::default() };
        let big = |amount| {
            let resources = berth_model::pod::Resources { milli_cpu: amount, ..Default::default() };
            Pod { requests: resources.clone(), balanced_requests: resources, ..Pod::default() }
        };
        let with_claim = |namespace, claim: &str| Pod {
            namespace: Sym(namespace),
            volumes: [volume(VolumeSource::Claim(claim.into()))].into(),
            ..Pod::default()
        };
        for factory in crate::factories() {
            let name = &factory.manifest().name;
            let mut plugin = factory.build("null").unwrap();
            let Some(point) = plugin.sign() else { continue };
            assert_eq!(point.sign(&plain), point.sign(&named), "{name}");
        }
        for plugin in ["NodeResourcesFit", "NodeResourcesBalancedAllocation"] {
            assert_ne!(signature(plugin, "null", &big(1)), signature(plugin, "null", &big(2)), "{plugin}");
        }
        for plugin in ["VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"] {
            let one = signature(plugin, "null", &with_claim(20, "a"));
            assert_eq!(one, signature(plugin, "null", &with_claim(20, "a")), "{plugin}");
            assert_ne!(one, signature(plugin, "null", &with_claim(20, "b")), "{plugin}");
            assert_ne!(one, signature(plugin, "null", &with_claim(21, "a")), "{plugin}");
        }
    }

    #[test]
    fn pods_that_change_later_answers_have_no_signature() {
        let constraint = SpreadConstraint {
            max_skew: 1,
            topology_key: Sym::HOSTNAME_LABEL,
            is_hard: true,
            selector: None,
            min_domains: 1,
            honor_node_affinity: true,
            honor_node_taints: false,
        };
        let spread = Pod { topology_spread: [constraint].into(), ..Pod::default() };
        let list = r#"{"defaultingType": "List"}"#;
        assert_eq!(signature("PodTopologySpread", "null", &Pod::default()), None, "the system's default constraints");
        assert_eq!(signature("PodTopologySpread", list, &Pod::default()), Some(String::new()));
        assert_eq!(signature("PodTopologySpread", list, &spread), None);

        let mut near = Pod::default();
        near.affinity.preferred = [WeightedPodTerm { weight: 1, term: PodTerm::default() }].into();
        assert_eq!(signature("InterPodAffinity", "null", &near), None);
        assert!(signature("InterPodAffinity", "null", &Pod::default()).is_some());

        let ephemeral = Pod { volumes: [volume(VolumeSource::Ephemeral)].into(), ..Pod::default() };
        assert_eq!(signature("VolumeBinding", "null", &ephemeral), None);
    }
}
