//! Makes the profile that a scheduler runs from a configured profile.
//!
//! The caller provides the plugins one by one. The configuration decides the place of each plugin and the weight of its
//! scores. This module is the only code that makes a scheduler's profile from a configured profile.

use berth_framework::{Grants, Plugin};
use berth_model::{Features, PluginName};
use serde_json::{Value, json};

use crate::{point::configurable_points, profile::Profile};

/// The built-in plugins with rules that depend on features.
const WITH_FEATURES: [&str; 9] = [
    "DefaultPreemption",
    "DynamicResources",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "TaintToleration",
    "VolumeBinding",
];

/// A plugin, and its place in a profile.
#[derive(Debug)]
pub struct ProvidedPlugin {
    /// The plugin, built with the arguments that the profile gives it. Its manifest has the name that was asked for.
    pub plugin: Box<dyn Plugin>,
    /// The permissions of the plugin.
    pub grants: Grants,
}

impl Profile {
    /// Builds the profile. `provide` is called once for each plugin that the profile enables, in order. `provide` gets
    /// the plugin's name and its arguments as JSON (`null` if there are none). If `provide` returns `None`, the plugin
    /// is left out.
    ///
    /// The profile registers a plugin at every point at which the configuration enables the plugin. The plugin runs at
    /// these points as long as its binary implements them.
    ///
    /// # Errors
    /// The first error of `provide`.
    pub fn build<E>(
        &self,
        mut provide: impl FnMut(&PluginName, &str) -> Result<Option<ProvidedPlugin>, E>,
    ) -> Result<berth_framework::Profile, E> {
        let mut profile = berth_framework::Profile::new(&self.scheduler_name);
        profile.percentage_of_nodes_to_score = self.percentage_of_nodes_to_score.map(i32::from);
        for name in self.plugins.named() {
            let args = self.args_of(name);
            let Some(ProvidedPlugin { plugin, grants }) = provide(name, &args)? else { continue };
            let plugin = profile.add(plugin, &args, grants);
            profile.plugins.set_weight(plugin, self.plugins.weight(name));
        }
        for point in configurable_points() {
            for name in self.plugins.wanted_at(point) {
                if let Some(plugin) = profile.find(name) {
                    profile.want(point, plugin);
                }
            }
        }
        Ok(profile)
    }

    /// The plugin's arguments as text. For a built-in plugin with rules that depend on features, a field of the
    /// arguments contains the features that differ from the default.
    fn args_of(&self, plugin: &PluginName) -> String {
        let mut args = self.plugin_config.get(plugin).cloned().unwrap_or(Value::Null);
        if self.features != Features::default() && WITH_FEATURES.contains(&plugin.as_str()) {
            if args.is_null() {
                args = json!({});
            }
            args[Features::IN_ARGS] = json!(self.features);
        }
        args.to_string()
    }
}

#[cfg(test)]
mod tests {
    use berth_framework::{Manifest, PluginVersion, Point, PointRef, Points};
    use serde_json::json;

    use super::*;
    use crate::in_tree::testing::in_tree;

    #[derive(Debug)]
    struct FilterAndScore(Manifest);

    impl Plugin for FilterAndScore {
        fn manifest(&self) -> &Manifest {
            &self.0
        }
        fn points(&self) -> Points {
            Points::of(&[Point::Filter, Point::Score])
        }
        fn at(&mut self, _point: Point) -> Option<PointRef<'_>> {
            None
        }
        berth_framework::hooks!();
        fn version(&self) -> PluginVersion {
            PluginVersion::default()
        }
    }

    fn provided(name: &str) -> ProvidedPlugin {
        let manifest = Manifest { name: name.to_owned(), ..Manifest::default() };
        ProvidedPlugin { plugin: Box::new(FilterAndScore(manifest)), grants: Grants::ALL }
    }

    #[test]
    fn plugins_stand_where_the_configuration_wants_them_and_their_binary_can() {
        let entry = json!({
            "schedulerName": "main",
            "percentageOfNodesToScore": 30,
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity", "weight": 7}]}},
            "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 3}}],
        });
        let configured = Profile::from_json(Some(&entry), &in_tree()).expect("valid");
        let mut args_of_affinity = String::new();
        let profile = configured.build(|name, args| {
            if *name == "InterPodAffinity" {
                args.clone_into(&mut args_of_affinity);
            }
            Ok::<_, ()>((*name != "NodePorts").then(|| provided(name)))
        });
        let profile = profile.expect("nothing fails");
        assert_eq!((profile.scheduler_name.as_str(), profile.percentage_of_nodes_to_score), ("main", Some(30)));
        assert!(args_of_affinity.contains("\"hardPodAffinityWeight\":3"), "{args_of_affinity}");
        assert!(profile.find("NodePorts").is_none(), "left out");
        let affinity = profile.find("NodeAffinity").expect("provided");
        assert_eq!(profile.plugins.at(Point::Score), [affinity]);
        assert_eq!(profile.plugins.weight(affinity), 7);
        assert!(profile.plugins.at(Point::Filter).contains(&affinity));
        assert!(profile.plugins.at(Point::PreFilter).is_empty(), "no binary implements it");
    }

    #[test]
    fn the_first_plugin_that_cannot_be_provided_ends_it() {
        let configured = Profile::from_json(None, &in_tree()).expect("valid");
        let mut n_asked = 0;
        let error = configured.build(|name, _| {
            n_asked += 1;
            Err::<Option<ProvidedPlugin>, _>(name.to_owned())
        });
        assert_eq!((error.expect_err("fails"), n_asked), (configured.plugins.named()[0].clone(), 1));
    }
}
