//! What all built-in plugins have in common: a [`Card`] that describes them, and the registry of native factories.

use std::{marker::PhantomData, sync::Arc};

use berth_framework::{
    BuildError, ClusterEvent, Configure, ConfigureError, Manifest, Needs, ObjectKind, Plugin, PluginFactory,
    PluginVersion, Point, Points,
};
use berth_model::Column;

use crate::{
    DefaultBinder, DefaultPreemption, DynamicResources, ImageLocality, InterPodAffinity, NodeAffinity,
    NodeDeclaredFeatures, NodeName, NodePorts, NodeResourcesBalancedAllocation, NodeResourcesFit, NodeUnschedulable,
    NodeVolumeLimits, PodTopologySpread, PrioritySort, SchedulingGates, TaintToleration, VolumeBinding,
    VolumeRestrictions, VolumeZone,
};

/// A plugin's description as constants.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    pub name: &'static str,
    pub points: &'static [Point],
    /// The columns that its rule reads, and no other.
    pub columns: &'static [Column],
    /// Whether it looks at pods on nodes.
    pub pods: bool,
    /// `apiVersion` and kind of the other objects that it reads.
    pub objects: &'static [(&'static str, &'static str)],
    /// Resources and action bits of the events that may make a pod schedulable which the plugin rejected. A plugin that
    /// rejects nothing has none.
    pub requeue: &'static [(&'static str, u32)],
}

/// A plugin of this crate.
pub trait BuiltIn: Configure {
    const CARD: Card;
    /// The name by which profiles refer to it.
    const NAME: &'static str = Self::CARD.name;

    /// A new instance configured with `args`, the plugin's args object of `KubeSchedulerConfiguration` as JSON. Absent
    /// fields, `null` and the empty text stand for the defaults.
    ///
    /// # Errors
    /// An unknown field, or a value that Kubernetes refuses.
    fn new(args: &str) -> Result<Self, ConfigureError>;
}

impl Card {
    /// A plugin that looks at nothing.
    pub(crate) const BLANK: Card =
        Card { name: "", points: &[], columns: &[], pods: false, objects: &[], requeue: &[] };

    pub(crate) fn manifest(&self) -> Manifest {
        let columns = self.columns.iter().copied().collect();
        let objects = self
            .objects
            .iter()
            .map(|&(api_version, kind)| ObjectKind { api_version: api_version.to_owned(), kind: kind.to_owned() });
        let events = self.requeue.iter().map(|(resource, actions)| ClusterEvent::new(resource, *actions));
        Manifest {
            name: self.name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            needs: Needs { columns, pods: self.pods, objects: objects.collect(), ..Needs::default() },
            requeue: Some(events.collect()),
        }
    }

    pub(crate) fn points(&self) -> Points {
        self.points.iter().copied().collect()
    }

    pub(crate) fn version(&self) -> PluginVersion {
        PluginVersion {
            name: self.name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            digest: "native".to_owned(),
        }
    }
}

/// Implements `Plugin` and `Configure` for a [`BuiltIn`]: which accessor answers for which trait is all that differs,
/// and for some what they do at the end of a cycle, which then follows as a method.
macro_rules! plugin {
    ($plugin:ty { $($accessor:ident: $point:ident),* $(,)? } $($method:tt)*) => {
        impl berth_framework::Plugin for $plugin {
            fn manifest(&self) -> &berth_framework::Manifest {
                static MANIFEST: std::sync::LazyLock<berth_framework::Manifest> =
                    std::sync::LazyLock::new(|| <$plugin as $crate::BuiltIn>::CARD.manifest());
                &MANIFEST
            }

            fn points(&self) -> berth_framework::Points {
                <$plugin as $crate::BuiltIn>::CARD.points()
            }

            fn version(&self) -> berth_framework::PluginVersion {
                <$plugin as $crate::BuiltIn>::CARD.version()
            }

            $(fn $accessor(&mut self) -> Option<&mut dyn berth_framework::$point> {
                Some(self)
            })*

            $($method)*
        }

        impl berth_framework::Configure for $plugin {
            fn describe() -> berth_framework::Manifest {
                <$plugin as $crate::BuiltIn>::CARD.manifest()
            }

            fn configure(args: &str) -> Result<Self, berth_framework::ConfigureError> {
                <$plugin as $crate::BuiltIn>::new(args)
            }
        }
    };
}
pub(crate) use plugin;

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
        P::CARD.points()
    }

    fn version(&self) -> PluginVersion {
        P::CARD.version()
    }

    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(P::new(args)?))
    }
}

fn native<P: BuiltIn>() -> Arc<dyn PluginFactory> {
    Arc::new(NativeFactory::<P> { manifest: P::CARD.manifest(), plugin: PhantomData })
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
    use super::*;

    #[test]
    fn every_plugin_builds_without_args() {
        for factory in factories() {
            for args in ["null", "", "{}"] {
                let plugin = factory.build(args).unwrap_or_else(|error| panic!("{}: {error}", factory.manifest().name));
                assert_eq!(plugin.manifest(), factory.manifest());
                assert_eq!(plugin.points(), factory.points());
                assert_eq!(plugin.version().digest, "native");
            }
        }
        assert!(factory("NodeAffinity").is_some());
        assert!(factory("Nonsense").is_none());
    }

    /// A point that is announced must have an accessor that answers, and no other may.
    #[test]
    fn announced_points_are_those_that_answer() {
        for factory in factories() {
            let mut plugin = factory.build("null").unwrap();
            let answers = [
                (Point::PreEnqueue, plugin.pre_enqueue().is_some()),
                (Point::QueueSort, plugin.queue_sort().is_some()),
                (Point::PreFilter, plugin.pre_filter().is_some()),
                (Point::Filter, plugin.filter().is_some()),
                (Point::PreScore, plugin.pre_score().is_some()),
                (Point::Score, plugin.score().is_some()),
                (Point::Normalize, plugin.normalize().is_some()),
                (Point::PostFilter, plugin.post_filter().is_some()),
                (Point::Reserve, plugin.reserve().is_some()),
                (Point::PreBind, plugin.pre_bind().is_some()),
                (Point::Bind, plugin.bind().is_some()),
                (Point::QueueingHint, plugin.queueing_hint().is_some()),
                (Point::Sign, plugin.sign().is_some()),
            ];
            for (point, answered) in answers {
                assert_eq!(factory.points().contains(point), answered, "{} {point:?}", factory.manifest().name);
            }
        }
    }
}
