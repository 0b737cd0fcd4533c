//! The extension points that a configuration file can name, and the plugins that implement each point.
//!
//! The framework has more points than a file can name. Normalize, PreBindPreFlight, QueueingHint, Sign and Explain are
//! not enabled in a file: a plugin runs at these points if it implements them. A [`PluginCatalogue`] has the data about
//! plugins that the expansion needs. Out-of-tree plugins are found at run time, so the program has its own catalogue.
//! [`crate::InTree`] is kube-scheduler's catalogue.

use berth_framework::{Point, Points};
use berth_model::{Features, PluginName};

/// Says which extension points a plugin implements.
pub trait PluginCatalogue {
    /// The points that `plugin` implements, or `None` if no plugin of that name exists.
    fn points(&self, plugin: &str) -> Option<Points>;

    /// The names of all plugins that exist, including plugins that this build lacks.
    fn names(&self) -> Vec<PluginName>;

    /// The features that differ from the oldest release that this program knows. They decide defaults and the allowed
    /// arguments.
    fn features(&self) -> Features {
        Features::default()
    }

    /// Whether a plugin that does not exist may be loaded later and may implement any point. A configuration may name
    /// such a plugin wherever a plugin can be named. If `multiPoint` names it, the plugin sorts the queue unless an
    /// existing plugin sorts the queue.
    fn awaits(&self, plugin: &str) -> bool {
        let _ = plugin;
        false
    }

    /// Whether the plugin does not exist, but may be loaded later.
    fn awaits_only(&self, plugin: &str) -> bool {
        self.points(plugin).is_none() && self.awaits(plugin)
    }
}

/// The points at which a configuration file can enable and disable plugins, in the order in which a pod reaches them.
pub fn configurable_points() -> impl Iterator<Item = Point> {
    points_with_keys().map(|(point, _)| point)
}

/// The points of [`configurable_points`] with their keys under `plugins` in a configuration file, such as `preFilter`.
pub(crate) fn points_with_keys() -> impl Iterator<Item = (Point, &'static str)> {
    Point::ALL.into_iter().filter_map(|point| Some((point, key(point)?)))
}

fn key(point: Point) -> Option<&'static str> {
    match point {
        Point::PreEnqueue => Some("preEnqueue"),
        Point::QueueSort => Some("queueSort"),
        Point::PreFilter => Some("preFilter"),
        Point::Filter => Some("filter"),
        Point::PostFilter => Some("postFilter"),
        Point::PreScore => Some("preScore"),
        Point::Score => Some("score"),
        Point::Reserve => Some("reserve"),
        Point::Permit => Some("permit"),
        Point::PreBind => Some("preBind"),
        Point::Bind => Some("bind"),
        Point::PostBind => Some("postBind"),
        Point::Normalize | Point::PreBindPreFlight | Point::QueueingHint | Point::Sign | Point::Explain => None,
    }
}
