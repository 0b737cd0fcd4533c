//! A plugin, and the tables of the extension points and hooks that it may have.
//!
//! Each extension point is declared once, in the table below: [`Point`], [`PointRef`] and the accessors of `dyn Plugin`
//! are made from it. A plugin lists its points and hooks once, with [`plugin!`](crate::plugin).

use std::fmt;

use berth_model::{BinaryId, ClusterTable};
use serde::{Deserialize, Serialize};

use crate::{
    hooks::{DeltaSource, EndCycle, Fact, Follow, Hosted, Reach, Reuse, ShareFacts, State},
    manifest::Manifest,
    points::{
        Bind, Call, CycleId, Explain, Filter, Normalize, Permit, PostBind, PostFilter, PreBind, PreBindPreFlight,
        PreEnqueue, PreFilter, PreScore, QueueSort, QueueingHint, Reserve, Score, Sign,
    },
    status::Status,
};

/// A plugin of one profile, configured. [`Self::at`] and [`Self::hook`] give access to its points and hooks.
///
/// A type that implements [`Configure`](crate::Configure) gets this trait from [`plugin!`](crate::plugin). A type that
/// implements it by hand uses [`points!`](crate::points) and [`hooks!`](crate::hooks) for the last three methods.
pub trait Plugin: Send + 'static {
    /// The plugin's own description.
    fn manifest(&self) -> &Manifest;

    /// The binary that answers.
    fn version(&self) -> PluginVersion;

    /// The points at which [`Self::at`] answers.
    fn points(&self) -> Points;

    /// The plugin at one of its points; `None` if the plugin does not implement the point.
    fn at(&mut self, point: Point) -> Option<PointRef<'_>>;

    /// The plugin's hook of this kind; `None` for a plugin without it.
    fn hook(&mut self, hook: Hook) -> Option<HookRef<'_>>;
}

/// Makes three things from a table of traits: the enum of the traits' names, the enum of references to the traits, and
/// an accessor for each trait.
macro_rules! declare {
    (
        $(#[$kind_doc:meta])*
        enum $kind:ident;
        $(#[$reference_doc:meta])*
        enum $reference:ident from $lookup:ident;
        $($(#[$doc:meta])* $name:ident $accessor:ident $($text:literal)?;)*
    ) => {
        $(#[$kind_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $kind {
            $($(#[$doc])* $name,)*
        }

        impl $kind {
            /// Every value, in the order of declaration.
            pub const ALL: [Self; [$(Self::$name),*].len()] = [$(Self::$name),*];
        }

        $(#[$reference_doc])*
        pub enum $reference<'a> {
            $(#[doc = concat!("The plugin as [`trait@", stringify!($name), "`].")] $name(&'a mut (dyn $name + 'static)),)*
        }

        impl $reference<'_> {
            /// The kind of this reference.
            #[must_use]
            pub fn kind(&self) -> $kind {
                match self {
                    $(Self::$name(_) => $kind::$name,)*
                }
            }
        }

        impl<'a> $reference<'a> {
            /// A reference to the trait `kind`, for a plugin that implements all of these traits.
            pub fn of_all<P: $($name +)* 'static>(plugin: &'a mut P, kind: $kind) -> Self {
                match kind {
                    $($kind::$name => Self::$name(plugin),)*
                }
            }
        }

        impl fmt::Debug for $reference<'_> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}::{:?}", stringify!($reference), self.kind())
            }
        }

        impl dyn Plugin + '_ {
            $(
                #[doc = concat!("The plugin as [`trait@", stringify!($name), "`], if it has that.")]
                pub fn $accessor(&mut self) -> Option<&mut (dyn $name + 'static)> {
                    match self.$lookup($kind::$name)? {
                        $reference::$name(it) => Some(it),
                        other => {
                            debug_assert!(false, "asked for {:?}, got {other:?}", $kind::$name);
                            None
                        }
                    }
                }
            )*
        }

        declare!(@texts $kind $($name $accessor $($text)?,)*);
    };
    (@texts $kind:ident $($name:ident $accessor:ident $text:literal,)*) => {
        impl $kind {
            /// The name that Kubernetes' metrics and messages use.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        $(
            impl ExtensionPoint for dyn $name {
                const POINT: $kind = $kind::$name;

                fn of<'p>(plugin: &'p mut (dyn Plugin + 'static)) -> Option<&'p mut Self> {
                    plugin.$accessor()
                }
            }
        )*
    };
    (@texts $kind:ident $($name:ident $accessor:ident,)*) => {};
}

declare! {
    /// An extension point that the scheduler calls, in the order in which a pod reaches them.
    enum Point;
    /// A plugin at one of its extension points.
    enum PointRef from at;
    /// Decides whether the pod may enter activeQ.
    PreEnqueue pre_enqueue "PreEnqueue";
    /// Decides which pod is next.
    QueueSort queue_sort "QueueSort";
    /// Prepares the work for a pod once, before nodes are considered.
    PreFilter pre_filter "PreFilter";
    /// Decides which nodes can run the pod.
    Filter filter "Filter";
    /// Decides what to do when no node can run the pod.
    PostFilter post_filter "PostFilter";
    /// Prepares scoring for a pod once, before nodes are scored.
    PreScore pre_score "PreScore";
    /// Scores each node.
    Score score "Score";
    /// Brings the plugin's own scores into 0 to 100.
    Normalize normalize "ScoreExtensionNormalize";
    /// Learns that the pod is about to take a node's resources.
    Reserve reserve "Reserve";
    /// Decides whether and when the pod may be bound.
    Permit permit "Permit";
    /// Says whether PreBind will have work for the pod.
    PreBindPreFlight pre_bind_pre_flight "PreBindPreFlight";
    /// Does work that must succeed before binding.
    PreBind pre_bind "PreBind";
    /// Binds the pod to its node.
    Bind bind "Bind";
    /// Learns that the pod was bound.
    PostBind post_bind "PostBind";
    /// Says whether an event makes another attempt of a rejected pod worthwhile.
    QueueingHint queueing_hint "QueueingHint";
    /// Says which pods get the same answers.
    Sign sign "Sign";
    /// Explains the plugin's answers to people.
    Explain explain "Explain";
}

impl Point {
    /// The name for people, which is the name of the Go method and of the contract's interface. Metrics have another
    /// name for Normalize.
    #[must_use]
    pub const fn shown(self) -> &'static str {
        if matches!(self, Self::Normalize) { "NormalizeScore" } else { self.as_str() }
    }

    /// The name for people of the call that returned effects at this point. At Reserve only Unreserve returns effects.
    #[must_use]
    pub const fn shown_with_effects(self) -> &'static str {
        if matches!(self, Self::Reserve) { "Unreserve" } else { self.shown() }
    }

    /// The name for people of the point that has this name in metrics.
    #[must_use]
    pub fn shown_of(in_metrics: &str) -> &str {
        if in_metrics == Self::Normalize.as_str() { Self::Normalize.shown() } else { in_metrics }
    }
}

declare! {
    /// A hook: something that a plugin may do besides its extension points.
    enum Hook;
    /// A plugin as one of its hooks.
    enum HookRef from hook;
    /// Forgets a cycle that is over.
    EndCycle cycle_end;
    /// Follows the changes to the replica, inside a component.
    Follow follower;
    /// Passes the plugin's state to the next binary.
    State state;
    /// Is updated and supervised by the scheduler.
    Hosted hosted;
    /// Says which of the plugin's answers hold for later pods.
    Reuse reuse;
    /// Shares what the plugin reserved with other plugins and profiles.
    ShareFacts sharing;
}

/// The trait of an extension point, such as `dyn Filter`, for code that treats all points alike.
pub trait ExtensionPoint {
    /// The point.
    const POINT: Point;

    /// The plugin at this point; `None` if the plugin does not implement it.
    fn of<'p>(plugin: &'p mut (dyn Plugin + 'static)) -> Option<&'p mut Self>;
}

impl fmt::Debug for dyn Plugin + '_ {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Plugin({})", self.manifest().name)
    }
}

/// The hooks. A call does nothing, or returns a default, if the plugin does not have the hook.
impl dyn Plugin + '_ {
    /// [`EndCycle::end_cycle`].
    pub fn end_cycle(&mut self, cycle: CycleId) {
        if let Some(hook) = self.cycle_end() {
            hook.end_cycle(cycle);
        }
    }

    /// [`Follow::follow`].
    pub fn follow(&mut self, table: &ClusterTable) {
        if let Some(hook) = self.follower() {
            hook.follow(table);
        }
    }

    /// [`ShareFacts::take_facts`].
    pub fn take_facts(&mut self) -> Vec<Fact> {
        self.sharing().map(ShareFacts::take_facts).unwrap_or_default()
    }

    /// [`Reuse::reach`].
    pub fn reach(&mut self, call: &Call<'_>) -> Reach {
        self.reuse().map_or(Reach::Cluster, |hook| hook.reach(call))
    }

    /// [`Hosted::sync`]. A native plugin reads the host's own table, so it is always up to date.
    ///
    /// # Errors
    /// The plugin cannot be brought up to date, or is out of service.
    pub fn sync(&mut self, source: &dyn DeltaSource) -> Result<(), Status> {
        self.hosted().map_or(Ok(()), |hook| hook.sync(source))
    }

    /// [`Hosted::out_of_service`].
    pub fn out_of_service(&mut self) -> Option<Status> {
        self.hosted()?.out_of_service()
    }

    /// [`Hosted::has_time`]. A native plugin always has time.
    ///
    /// # Errors
    /// The plugin has used up its share of the scheduling thread.
    pub fn has_time(&mut self) -> Result<(), Status> {
        self.hosted().map_or(Ok(()), Hosted::has_time)
    }

    /// [`Hosted::is_out_of_time`].
    pub fn is_out_of_time(&mut self) -> bool {
        self.hosted().is_some_and(|hook| hook.is_out_of_time())
    }

    /// [`Hosted::knows`].
    pub fn knows(&mut self, cycle: CycleId) -> bool {
        self.hosted().is_none_or(|hook| hook.knows(cycle))
    }

    /// [`Hosted::keep_changes`]. A native plugin is always up to date.
    pub fn keep_changes(&mut self, source: &dyn DeltaSource) -> bool {
        self.hosted().is_some_and(|hook| hook.keep_changes(source))
    }

    /// [`Hosted::tell_kept_changes`].
    pub fn tell_kept_changes(&mut self) {
        if let Some(hook) = self.hosted() {
            hook.tell_kept_changes();
        }
    }

    /// [`Hosted::pass_over`]. A native plugin is never passed over.
    pub fn pass_over(&mut self) -> bool {
        self.hosted().is_some_and(Hosted::pass_over)
    }

    /// [`Hosted::answered_badly`].
    pub fn answered_badly(&mut self, reason: &str) {
        if let Some(hook) = self.hosted() {
            hook.answered_badly(reason);
        }
    }
}

/// The extension points that a plugin implements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Points(u32);

impl Points {
    /// No point at all.
    pub const NONE: Points = Points(0);

    /// The points at which a plugin can reject a pod, so that an event brings the pod back.
    pub const REJECTING: Points =
        Points::of(&[Point::PreEnqueue, Point::PreFilter, Point::Filter, Point::Reserve, Point::Permit]);

    /// A set of exactly these points, for constants.
    #[must_use]
    pub const fn of(mut points: &[Point]) -> Self {
        let mut bits = 0;
        while let [first, rest @ ..] = points {
            bits |= 1 << (*first as u32);
            points = rest;
        }
        Self(bits)
    }

    /// Whether `point` is in the set.
    #[must_use]
    pub const fn contains(self, point: Point) -> bool {
        self.0 >> (point as u32) & 1 == 1
    }

    /// Adds `point`.
    pub fn insert(&mut self, point: Point) {
        self.0 |= 1 << (point as u32);
    }

    /// The points of the set, in the order of [`Point::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Point> {
        Point::ALL.into_iter().filter(move |&point| self.contains(point))
    }
}

impl FromIterator<Point> for Points {
    fn from_iter<T: IntoIterator<Item = Point>>(points: T) -> Self {
        let mut set = Self::default();
        for point in points {
            set.insert(point);
        }
        set
    }
}

/// A plugin's position in its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginIdx(pub u32);

impl PluginIdx {
    /// The value for a rejection that comes from no plugin.
    pub const NOBODY: PluginIdx = PluginIdx(u32::MAX);

    /// The position as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The identity of the binary that answers under a plugin's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginVersion {
    /// The plugin's name.
    pub name: String,
    /// The version in the manifest, for people.
    pub version: String,
    /// The binary; `None` for a placeholder, because its plugin has no binary in service.
    pub binary: Option<BinaryId>,
}

impl PluginVersion {
    /// The version of a plugin that is linked into this program.
    #[must_use]
    pub fn native(manifest: &Manifest) -> Self {
        Self { name: manifest.name.clone(), version: manifest.version.clone(), binary: Some(BinaryId::Native) }
    }
}
