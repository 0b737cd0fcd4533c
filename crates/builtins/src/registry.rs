//! The native factories of all built-in plugins.

use std::{marker::PhantomData, sync::Arc};

use berth_framework::{BuildError, Manifest, Plugin, PluginFactory, PluginVersion, Points};

// Plugins are imported by the paths of their modules, because `plugin!` defines macros at the crate's root that have
// the plugins' names.
use crate::{
    built_in::BuiltIn, default_binder::DefaultBinder, default_preemption::DefaultPreemption,
    dynamic_resources::DynamicResources, image_locality::ImageLocality, inter_pod_affinity::InterPodAffinity,
    node_affinity::NodeAffinity, node_declared_features::NodeDeclaredFeatures, node_name::NodeName,
    node_ports::NodePorts, node_resources_balanced_allocation::NodeResourcesBalancedAllocation,
    node_resources_fit::NodeResourcesFit, node_unschedulable::NodeUnschedulable, node_volume_limits::NodeVolumeLimits,
    pod_topology_spread::PodTopologySpread, priority_sort::PrioritySort, scheduling_gates::SchedulingGates,
    taint_toleration::TaintToleration, volume_binding::VolumeBinding, volume_restrictions::VolumeRestrictions,
    volume_zone::VolumeZone,
};

/// Makes native instances of one built-in plugin.
struct NativeFactory<P> {
    manifest: Manifest,
    plugin: PhantomData<fn() -> P>,
}

impl<P: BuiltIn> std::fmt::Debug for NativeFactory<P> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "NativeFactory({})", P::NAME)
    }
}

impl<P: BuiltIn> PluginFactory for NativeFactory<P> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn points(&self) -> Points {
        P::POINTS
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(&self.manifest)
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(P::new(args)?))
    }
}

fn native<P: BuiltIn>() -> Arc<dyn PluginFactory> {
    Arc::new(NativeFactory::<P> { manifest: P::describe(), plugin: PhantomData })
}

/// A native factory for every plugin of this crate, in the order of the default profile.
#[must_use]
pub fn factories() -> Vec<Arc<dyn PluginFactory>> {
    vec![
        native::<SchedulingGates>(),
        native::<PrioritySort>(),
        native::<NodeUnschedulable>(),
        native::<NodeName>(),
        native::<TaintToleration>(),
        native::<NodeAffinity>(),
        native::<NodePorts>(),
        native::<NodeResourcesFit>(),
        native::<VolumeRestrictions>(),
        native::<NodeVolumeLimits>(),
        native::<VolumeBinding>(),
        native::<VolumeZone>(),
        native::<PodTopologySpread>(),
        native::<InterPodAffinity>(),
        native::<DynamicResources>(),
        native::<DefaultPreemption>(),
        native::<NodeResourcesBalancedAllocation>(),
        native::<ImageLocality>(),
        native::<DefaultBinder>(),
        native::<NodeDeclaredFeatures>(),
    ]
}

/// The native factory of the plugin called `name`.
#[must_use]
pub fn factory(name: &str) -> Option<Arc<dyn PluginFactory>> {
    factories().into_iter().find(|factory| factory.manifest().name == name)
}

#[cfg(test)]
mod tests {
    use berth_model::BinaryId;

    use super::*;

    #[test]
    fn few_built_ins_ask_for_effects() {
        let factories = factories();
        let manifests = factories.iter().map(|factory| factory.manifest());
        let asking = manifests.filter(|manifest| !manifest.effects.is_empty() || !manifest.rules.is_empty());
        let asking: Vec<String> = asking
            .map(|manifest| {
                let effects = manifest.effects.iter().map(|effect| effect.as_str().to_owned());
                let all: Vec<String> = effects.chain(manifest.rules.iter().map(ToString::to_string)).collect();
                format!("{}: {}", manifest.name, all.join(" "))
            })
            .collect();
        let expected = [
            "VolumeBinding: wait \
             {apiGroups: [\"\"], kinds: [PersistentVolumeClaim], verbs: [patch], objects: claims} \
             {apiGroups: [\"\"], kinds: [PersistentVolume], verbs: [patch], namespaces: [\"*\"]}",
            "DynamicResources: wait event \
             {apiGroups: [\"\"], kinds: [Pod/status], verbs: [patch], objects: pod} \
             {apiGroups: [resource.k8s.io], kinds: [ResourceClaim], verbs: [patch, create, delete], objects: claims} \
             {apiGroups: [resource.k8s.io], kinds: [ResourceClaim/status], verbs: [patch], objects: claims}",
            "DefaultPreemption: evict nominate",
            "DefaultBinder: bind",
        ];
        assert_eq!(asking, expected);
    }

    #[test]
    fn every_plugin_builds_without_args() {
        for factory in factories() {
            for args in ["null", "", "{}"] {
                let plugin = factory.build(args).unwrap_or_else(|error| panic!("{}: {error}", factory.manifest().name));
                assert_eq!(plugin.manifest(), factory.manifest());
                assert_eq!(plugin.points(), factory.points());
                assert_eq!(plugin.version().binary, Some(BinaryId::Native));
            }
        }
        assert!(factory("NodeAffinity").is_some());
        assert!(factory("Nonsense").is_none());
    }
}
