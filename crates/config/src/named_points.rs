//! The plugins that a configuration enables at an extension point by the point's own list.
//!
//! A configuration that enables a plugin at a point which the plugin does not implement is refused, as in
//! kube-scheduler. If the plugin is loaded later, or if a later binary lacks the point, the configuration cannot be
//! refused, because the scheduler already runs. [`NamedPoints::missed`] returns the text of the refusal for these
//! cases.

use berth_framework::{Point, Points};
use berth_model::PluginName;

use crate::{Settings, expand::does_not_extend};

/// The entries of the points' own lists. A plugin that `multiPoint` enables runs at every point that its binary
/// implements, so it has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedPoints(Vec<NamedPoint>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedPoint {
    scheduler_name: String,
    /// The list, such as `profiles[0].plugins.reserve`.
    field: String,
    point: Point,
    plugin: PluginName,
}

impl NamedPoints {
    /// The entries of all profiles.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let mut entries = Vec::new();
        for (at, profile) in settings.profiles.iter().enumerate() {
            for (point, key, plugin) in profile.enabled_by_point() {
                entries.push(NamedPoint {
                    scheduler_name: profile.scheduler_name.clone(),
                    field: format!("profiles[{at}].plugins.{key}"),
                    point,
                    plugin: plugin.clone(),
                });
            }
        }
        Self(entries)
    }

    /// The lists of this profile that enable the plugin at a point that is not in `points`, each with its mistake.
    /// `points` are the points of the plugin's binary.
    #[must_use]
    pub fn missed(&self, plugin: &str, scheduler_name: &str, points: Points) -> Vec<String> {
        let is_missed = |it: &&NamedPoint| {
            it.scheduler_name == scheduler_name && it.plugin == *plugin && !points.contains(it.point)
        };
        let missed = self.0.iter().filter(is_missed);
        missed.map(|it| format!("{}: {}", it.field, does_not_extend(it.point, plugin, points))).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::in_tree::testing::in_tree;

    #[test]
    fn a_list_is_missed_in_the_words_of_its_refusal() {
        let lists = json!({"score": {"enabled": [{"name": "ImageLocality"}]}});
        let document = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "one"}, {"schedulerName": "two", "plugins": lists}],
        });
        let read = |text: &str| Settings::from_text("file", text, &in_tree());
        let named = NamedPoints::of(&read(&document.to_string()).expect("valid"));
        let filters = Points::of(&[Point::Filter]);
        let told = "profiles[1].plugins.score: plugin \"ImageLocality\" does not extend ScorePlugin plugin: it implements \
                    filter: enable it there, or under multiPoint";
        assert_eq!(named.missed("ImageLocality", "two", filters), [told]);
        assert!(named.missed("ImageLocality", "two", Points::of(&[Point::Score])).is_empty());
        assert!(named.missed("ImageLocality", "one", filters).is_empty(), "multiPoint enables it there");
        let refused = document.to_string().replace("ImageLocality", "NodeName");
        let told = told.replace("ImageLocality", "NodeName");
        assert!(read(&refused).expect_err("refused").to_string().contains(&told));
    }
}
