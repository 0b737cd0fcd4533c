//! The extension points of a scheduling profile, sets of them, and who implements which.
//!
//! A [`PluginCatalogue`] is the only thing that expansion needs to know about plugins. Out-of-tree plugins are found at
//! run time, so the program brings its own catalogue and usually falls back on [`crate::InTree`].

use std::fmt;

/// An extension point, in the order in which a pod meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// May the pod enter the active queue?
    PreEnqueue,
    /// Which pod is next?
    QueueSort,
    /// Work done once for a pod before nodes are looked at.
    PreFilter,
    /// Which nodes can run the pod?
    Filter,
    /// What can be done when no node can?
    PostFilter,
    /// Work done once for a pod before nodes are scored.
    PreScore,
    /// How good is each node?
    Score,
    /// The pod is about to take a node's resources.
    Reserve,
    /// May the pod be bound, and when?
    Permit,
    /// Work that must succeed before binding.
    PreBind,
    /// Ties the pod to its node.
    Bind,
    /// The pod is bound.
    PostBind,
}

/// A set of extension points.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct PointSet(u16);

/// Answers which extension points a plugin implements.
pub trait PluginCatalogue {
    /// The points that `plugin` implements, or `None` when nothing of that name exists.
    fn points(&self, plugin: &str) -> Option<PointSet>;

    /// Whether a plugin that does not exist may come later, and implement anything. It may then be named wherever a
    /// plugin can be named; `multiPoint` does not make it sort the queue.
    fn awaits(&self, plugin: &str) -> bool {
        let _ = plugin;
        false
    }
}

impl Point {
    /// Every point, in declaration order.
    pub const ALL: [Self; 12] = [
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PreScore,
        Self::Score,
        Self::Reserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
    ];

    /// The name that operators see in metrics and messages, such as `PreFilter`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PreEnqueue => "PreEnqueue",
            Self::QueueSort => "QueueSort",
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PostFilter => "PostFilter",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
            Self::Reserve => "Reserve",
            Self::Permit => "Permit",
            Self::PreBind => "PreBind",
            Self::Bind => "Bind",
            Self::PostBind => "PostBind",
        }
    }

    /// The key under `plugins` in a configuration file, such as `preFilter`.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::PreEnqueue => "preEnqueue",
            Self::QueueSort => "queueSort",
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::PreScore => "preScore",
            Self::Score => "score",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl PointSet {
    /// No point at all.
    pub const EMPTY: Self = Self(0);

    /// A set of the given points.
    #[must_use]
    pub const fn of(mut points: &[Point]) -> Self {
        let mut bits = 0;
        while let [first, rest @ ..] = points {
            bits |= first.bit();
            points = rest;
        }
        Self(bits)
    }

    /// Whether `point` is in the set.
    #[must_use]
    pub const fn contains(self, point: Point) -> bool {
        self.0 & point.bit() != 0
    }

    /// The points in the set, in declaration order.
    pub fn iter(self) -> impl Iterator<Item = Point> {
        Point::ALL.into_iter().filter(move |point| self.contains(*point))
    }
}

impl FromIterator<Point> for PointSet {
    fn from_iter<I: IntoIterator<Item = Point>>(points: I) -> Self {
        Self(points.into_iter().fold(0, |bits, point| bits | point.bit()))
    }
}

impl fmt::Debug for PointSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_holds_exactly_what_it_was_given() {
        let set = PointSet::of(&[Point::Filter, Point::Bind]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Point::Filter, Point::Bind]);
        assert_eq!(Point::ALL.into_iter().collect::<PointSet>().iter().count(), Point::ALL.len());
        assert_eq!(PointSet::EMPTY.iter().count(), 0);
    }
}
