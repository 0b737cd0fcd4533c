//! The common part of all built-in plugins: a [`Descriptor`] that describes them.

use berth_framework::{
    ClusterEvent, ConfigureError, Manifest, Namespaces, Needs, ObjectKind, ObjectRule, Permission, PluginType,
    RuleObjects, Verb,
};
use berth_model::{Column, ObjectView};
use serde::de::DeserializeOwned;

/// The plugin's description of itself, as constants.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// The name by which profiles refer to the plugin.
    pub name: &'static str,
    /// The columns that the plugin's rule reads. The rule reads no other columns.
    pub columns: &'static [Column],
    /// Whether the plugin reads pods on nodes.
    pub pods: bool,
    /// The kinds of other objects that the plugin reads.
    pub objects: &'static [StaticKind],
    /// Resources and action bits of the events that may make a rejected pod schedulable. A plugin that never rejects
    /// pods has no registrations.
    pub events_to_register: &'static [(&'static str, u32)],
    /// The names of the effects that the plugin needs for its work. They are granted to this program's own binaries of
    /// the plugin.
    pub effects: &'static [Permission],
    /// The changes of objects that the plugin needs for its work. They are granted to this program's own binaries of
    /// the plugin.
    pub rules: &'static [Rule],
}

/// A kind of object that a built-in plugin reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticKind {
    pub api_version: &'static str,
    pub kind: &'static str,
}

/// Objects that a built-in plugin changes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The API group; empty for the core group.
    pub api_group: &'static str,
    /// The kind, or a kind with a subresource such as `ResourceClaim/status`.
    pub kind: &'static str,
    /// The verbs of the changes.
    pub verbs: &'static [Verb],
    /// The objects of the kind that the rule covers.
    pub objects: Objects,
}

/// The objects of a [`Rule`].
#[derive(Clone, Copy, Debug)]
pub enum Objects {
    /// The pod of the cycle.
    Pod,
    /// The claims of the pod of the cycle.
    Claims,
    /// All objects of the kind, which has no namespaces.
    Any,
}

/// A plugin of this crate.
pub trait BuiltIn: PluginType {
    /// The plugin's description.
    const DESCRIPTOR: Descriptor;
    /// The name by which profiles refer to the plugin.
    const NAME: &'static str = Self::DESCRIPTOR.name;

    /// A new instance configured with `args`, the plugin's args object of `KubeSchedulerConfiguration` as JSON. Absent
    /// fields, `null` and the empty text stand for the defaults.
    ///
    /// # Errors
    /// An unknown field, or a value that Kubernetes refuses.
    fn new(args: &str) -> Result<Self, ConfigureError>;
}

impl Descriptor {
    /// The description of a plugin that reads no data and needs no grants.
    pub(crate) const BLANK: Descriptor = Descriptor {
        name: "",
        columns: &[],
        pods: false,
        objects: &[],
        events_to_register: &[],
        effects: &[],
        rules: &[],
    };

    pub(crate) fn manifest(&self) -> Manifest {
        let columns = self.columns.iter().copied().collect();
        let objects = self.objects.iter().map(|read| read.to_object_kind());
        let events = self.events_to_register.iter().map(|(resource, actions)| ClusterEvent::new(resource, *actions));
        Manifest {
            name: self.name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            needs: Needs { columns, pods: self.pods, objects: objects.collect(), ..Needs::default() },
            events_to_register: Some(events.collect()),
            effects: self.effects.to_vec(),
            rules: self.rules.iter().map(ObjectRule::from).collect(),
        }
    }
}

impl StaticKind {
    pub(crate) const fn new(api_version: &'static str, kind: &'static str) -> Self {
        Self { api_version, kind }
    }

    /// A view of the objects of this kind.
    pub(crate) fn view<T>(self) -> ObjectView<T>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        ObjectView::new(self.api_version, self.kind)
    }

    /// A view that keeps a part of each object `O`.
    pub(crate) fn view_of_parts<O, T>(self) -> ObjectView<T>
    where
        O: DeserializeOwned + Send + Sync + 'static,
        T: for<'a> From<&'a O> + Send + Sync + 'static,
    {
        ObjectView::of_parts::<O>(self.api_version, self.kind)
    }

    fn to_object_kind(self) -> ObjectKind {
        ObjectKind { api_version: self.api_version.to_owned(), kind: self.kind.to_owned() }
    }
}

impl From<&Rule> for ObjectRule {
    fn from(rule: &Rule) -> Self {
        Self {
            api_groups: vec![rule.api_group.to_owned()],
            kinds: vec![rule.kind.to_owned()],
            verbs: rule.verbs.to_vec(),
            objects: match rule.objects {
                Objects::Pod => RuleObjects::Pod,
                Objects::Claims => RuleObjects::Claims,
                Objects::Any => RuleObjects::Any(Namespaces::All),
            },
        }
    }
}

/// Makes a plugin of a [`BuiltIn`]. The arguments are the extension points that it implements and, after a semicolon,
/// its hooks.
macro_rules! plugin {
    ($plugin:ident: $($traits:tt)*) => {
        berth_framework::plugin!($plugin: $($traits)*);

        impl berth_framework::Configure for $plugin {
            fn describe() -> berth_framework::Manifest {
                <$plugin as $crate::BuiltIn>::DESCRIPTOR.manifest()
            }

            fn configure(args: &str) -> Result<Self, berth_framework::ConfigureError> {
                <$plugin as $crate::BuiltIn>::new(args)
            }
        }
    };
}
pub(crate) use plugin;
