//! The kinds to watch, and the plugins and extenders that need them.
//!
//! The watch of a kind begins when something needs the kind, and ends when nothing needs it any more. A watch that is
//! ending still takes its objects back. So the next watch of the kind begins only after that end: otherwise the objects
//! of the new watch would be taken back as well.
//!
//! A plugin may name a kind of a CustomResourceDefinition by its kind or by its plural, and only the API server knows
//! that both names mean one kind. The reader sees one kind then, so the watches under both names end together.

use std::collections::{BTreeMap, BTreeSet};

use berth_framework::{Manifest, ObjectKind};
use berth_model::{Features, KindRef};
use berth_plugin_host::watched_kinds::{read, wanted};

/// The kinds, and which of them are watched.
#[derive(Debug)]
pub(super) struct WatchedKinds {
    features: Features,
    kinds: BTreeMap<KindRef, WatchedKind>,
}

#[derive(Debug, Default)]
struct WatchedKind {
    /// The plugins that need the kind.
    plugins: BTreeSet<String>,
    /// The extenders that need the kind, under the name of their manifest.
    extenders: BTreeSet<String>,
    /// Whether one of them reads the objects, or one that needed the kind before. Others only need events.
    is_read: bool,
    watch: WatchState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WatchState {
    #[default]
    Closed,
    Open,
    /// The watch was asked to end, and has not ended yet.
    Ending,
}

/// The groups of users of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    Plugins,
    Extenders,
}

/// A kind, and the name of a user that did not need it before.
pub(super) type NewUse = (KindRef, String);

impl WatchedKinds {
    pub(super) fn new(features: Features) -> Self {
        Self { features, kinds: BTreeMap::new() }
    }

    /// Notes that one more user needs the kinds of its manifest.
    pub(super) fn add(&mut self, users: Users, manifest: &Manifest) -> Vec<NewUse> {
        let mut new = Vec::new();
        for kind in wanted(manifest, self.features) {
            let known = self.kinds.entry(kind.clone()).or_default();
            if known.users_mut(users).insert(manifest.name.clone()) {
                new.push((kind, manifest.name.clone()));
            }
        }
        for ObjectKind { api_version, kind } in read(manifest, self.features) {
            if let Some(known) = self.kinds.get_mut(&KindRef::of_kind(api_version, kind)) {
                known.is_read = true;
            }
        }
        new
    }

    /// Notes that exactly the users with these manifests need kinds.
    pub(super) fn replace(&mut self, users: Users, manifests: &[Manifest]) -> Vec<NewUse> {
        let before: BTreeMap<KindRef, BTreeSet<String>> =
            self.kinds.iter_mut().map(|(kind, it)| (kind.clone(), std::mem::take(it.users_mut(users)))).collect();
        let mut new = Vec::new();
        for manifest in manifests {
            new.extend(self.add(users, manifest));
        }
        new.retain(|(kind, name)| before.get(kind).is_none_or(|names| !names.contains(name)));
        new
    }

    /// The kinds whose watches must begin. They count as watched from now on.
    pub(super) fn begin(&mut self) -> Vec<KindRef> {
        let ending = self.named(|it| it.watch == WatchState::Ending);
        let mut begun = Vec::new();
        for (kind, it) in &mut self.kinds {
            let is_closed =
                it.watch == WatchState::Closed && !ending.iter().any(|ending| may_be_same_kind(ending, kind));
            if is_closed && it.is_needed() {
                it.watch = WatchState::Open;
                begun.push(kind.clone());
            }
        }
        begun
    }

    /// The kinds whose watches must end. They count as watched until [`Self::ended`].
    pub(super) fn end(&mut self) -> Vec<KindRef> {
        let needed = self.named(WatchedKind::is_needed);
        let mut ending = Vec::new();
        for (kind, it) in &mut self.kinds {
            if it.watch == WatchState::Open && !needed.iter().any(|needed| may_be_same_kind(needed, kind)) {
                it.watch = WatchState::Ending;
                ending.push(kind.clone());
            }
        }
        self.forget_unused();
        ending
    }

    /// Notes that the watch of a kind has ended.
    pub(super) fn ended(&mut self, kind: &KindRef) {
        if let Some(it) = self.kinds.get_mut(kind) {
            it.watch = WatchState::Closed;
        }
        self.forget_unused();
    }

    /// Whether the events about this kind are the last events of a watch that is ending.
    pub(super) fn is_ending(&self, kind: &KindRef) -> bool {
        self.kinds.iter().any(|(known, it)| it.watch == WatchState::Ending && is_same_kind(known, kind))
    }

    pub(super) fn is_needed(&self, kind: &ObjectKind) -> bool {
        let kind = KindRef::of_kind(&kind.api_version, &kind.kind);
        self.kinds.iter().any(|(known, it)| it.is_needed() && is_same_kind(known, &kind))
    }

    /// The kinds that extenders need.
    pub(super) fn of_extenders(&self) -> impl Iterator<Item = &KindRef> {
        self.kinds.iter().filter(|(_, it)| !it.extenders.is_empty()).map(|(kind, _)| kind)
    }

    /// Whether a user reads the objects of the kind.
    pub(super) fn is_read(&self, kind: &KindRef) -> bool {
        self.kinds.get(kind).is_some_and(|it| it.is_read)
    }

    /// The kinds that are watched.
    pub(super) fn open(&self) -> impl Iterator<Item = &KindRef> {
        self.kinds.iter().filter(|(_, it)| it.watch == WatchState::Open).map(|(kind, _)| kind)
    }

    /// The names of the plugins and extenders that need the kind, for the log.
    pub(super) fn users(&self, kind: &KindRef) -> String {
        let same = self.kinds.iter().filter(|(known, _)| is_same_kind(known, kind));
        let users: BTreeSet<&str> =
            same.flat_map(|(_, it)| it.plugins.iter().chain(&it.extenders)).map(String::as_str).collect();
        users.into_iter().collect::<Vec<_>>().join(", ")
    }

    fn named(&self, is_it: impl Fn(&WatchedKind) -> bool) -> Vec<KindRef> {
        self.kinds.iter().filter(|(_, it)| is_it(it)).map(|(kind, _)| kind.clone()).collect()
    }

    fn forget_unused(&mut self) {
        self.kinds.retain(|_, it| it.is_needed() || it.watch != WatchState::Closed);
    }
}

impl WatchedKind {
    fn users_mut(&mut self, users: Users) -> &mut BTreeSet<String> {
        match users {
            Users::Plugins => &mut self.plugins,
            Users::Extenders => &mut self.extenders,
        }
    }

    fn is_needed(&self) -> bool {
        !self.plugins.is_empty() || !self.extenders.is_empty()
    }
}

/// Whether both values name the same kind. The API server may have added a name to only one of the two.
pub(super) fn is_same_kind(one: &KindRef, other: &KindRef) -> bool {
    let is_same = |one: &str, other: &str| !one.is_empty() && one == other;
    is_same_version(one, other) && (is_same(&one.kind, &other.kind) || is_same(&one.plural, &other.plural))
}

/// Whether both values name the same kind, or have no name in common by which they can be compared.
fn may_be_same_kind(one: &KindRef, other: &KindRef) -> bool {
    let is_unknown = |one: &str, other: &str| one.is_empty() || other.is_empty();
    let is_incomparable = is_unknown(&one.kind, &other.kind) && is_unknown(&one.plural, &other.plural);
    is_same_kind(one, other) || (is_same_version(one, other) && is_incomparable)
}

fn is_same_version(one: &KindRef, other: &KindRef) -> bool {
    (&one.group, &one.version) == (&other.group, &other.version)
}

#[cfg(test)]
mod tests {
    use berth_framework::{ClusterEvent, Needs};

    use super::*;

    fn reads(plugin: &str, kinds: &[&str]) -> Manifest {
        let object = |kind: &&str| ObjectKind { api_version: "example.com/v1".to_owned(), kind: (*kind).to_owned() };
        let objects = kinds.iter().map(object).collect();
        Manifest {
            name: plugin.to_owned(),
            needs: Needs { objects, ..Needs::default() },
            events_to_register: Some(Vec::new()),
            ..Manifest::default()
        }
    }

    fn hears(plugin: &str, plural: &str) -> Manifest {
        let event = ClusterEvent::new(&format!("{plural}.v1.example.com"), ClusterEvent::ADD);
        Manifest { events_to_register: Some(vec![event]), ..reads(plugin, &[]) }
    }

    fn shown(kinds: &[KindRef]) -> Vec<&str> {
        let mut shown = Vec::new();
        for KindRef { kind, plural, .. } in kinds {
            shown.push(if kind.is_empty() { plural.as_str() } else { kind.as_str() });
        }
        shown
    }

    /// The kinds whose watches begin and end after the plugins were replaced by `plugins`.
    #[track_caller]
    fn check(kinds: &mut WatchedKinds, plugins: &[Manifest], begin: &[&str], end: &[&str]) {
        kinds.replace(Users::Plugins, plugins);
        assert_eq!(shown(&kinds.begin()), begin);
        assert_eq!(shown(&kinds.end()), end);
    }

    #[test]
    fn a_watch_lasts_as_long_as_something_needs_its_kind() {
        let mut kinds = WatchedKinds::new(Features::default());
        check(&mut kinds, &[reads("A", &["Ox", "Cow"]), reads("B", &["Ox"])], &["Cow", "Ox"], &[]);
        check(&mut kinds, &[reads("B", &["Ox"])], &[], &["Cow"]);
        kinds.add(Users::Extenders, &reads("extenders", &["Ox"]));
        check(&mut kinds, &[], &[], &[]);
        assert_eq!(kinds.users(&KindRef::of_kind("example.com/v1", "Ox")), "extenders");
        kinds.replace(Users::Extenders, &[]);
        assert_eq!(shown(&kinds.end()), ["Ox"]);
        assert!(!kinds.is_needed(&ObjectKind { api_version: "example.com/v1".to_owned(), kind: "Ox".to_owned() }));
    }

    #[test]
    fn a_kind_is_watched_again_after_the_end_of_its_watch() {
        let mut kinds = WatchedKinds::new(Features::default());
        let ox = KindRef::of_kind("example.com/v1", "Ox");
        check(&mut kinds, &[reads("A", &["Ox"])], &["Ox"], &[]);
        check(&mut kinds, &[], &[], &["Ox"]);
        check(&mut kinds, &[reads("A", &["Ox"])], &[], &[]);
        assert!(kinds.is_ending(&ox));
        kinds.ended(&ox);
        assert_eq!(shown(&kinds.begin()), ["Ox"]);
        assert_eq!((kinds.is_ending(&ox), kinds.open().count()), (false, 1));
    }

    #[test]
    fn a_kind_under_two_names_ends_and_begins_as_one() {
        let mut kinds = WatchedKinds::new(Features::default());
        check(&mut kinds, &[reads("A", &["Ox"]), hears("B", "oxen")], &["oxen", "Ox"], &[]);
        check(&mut kinds, &[hears("B", "oxen")], &[], &[]);
        check(&mut kinds, &[], &[], &["oxen", "Ox"]);
        check(&mut kinds, &[reads("A", &["Ox"])], &[], &[]);
        kinds.ended(&KindRef::of_kind("example.com/v1", "Ox"));
        assert!(kinds.begin().is_empty(), "the watch of the plural has not ended");
        kinds.ended(&KindRef::of_resource("oxen.v1.example.com").expect("a kind"));
        assert_eq!(shown(&kinds.begin()), ["Ox"]);
    }

    #[test]
    fn only_new_users_are_returned() {
        let mut kinds = WatchedKinds::new(Features::default());
        let names = |new: Vec<NewUse>| new.into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(names(kinds.add(Users::Plugins, &reads("A", &["Ox"]))), ["A"]);
        assert_eq!(names(kinds.replace(Users::Plugins, &[reads("A", &["Ox"]), reads("B", &["Ox"])])), ["B"]);
    }
}
