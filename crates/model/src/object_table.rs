//! Objects other than pods and nodes. Each object is stored whole, as JSON, and typed views decode it.
//!
//! A table keeps the decoded value of an object together with the object's JSON. All views of one type therefore decode
//! each version of an object once and share the result. The value is decoded when the first view asks for it.

use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
};

use serde::de::DeserializeOwned;

use crate::delta::ObjectChange;

/// The number of changes of one kind that a view may miss. A view that missed more must decode everything again.
const JOURNAL_CAPACITY: usize = 4096;

/// Objects by namespace and name. The namespace is empty for kinds without namespaces.
type ByName<T> = BTreeMap<String, BTreeMap<String, T>>;

/// Objects by `apiVersion` and kind, then namespace and name.
#[derive(Clone, Debug, Default)]
pub struct ObjectTable {
    kinds: BTreeMap<String, BTreeMap<String, Objects>>,
    /// The number of changes of all kinds so far.
    position: u64,
    is_shared: bool,
    report_absent: Option<fn(&str, &str)>,
}

#[derive(Clone, Debug, Default)]
struct Objects {
    by_name: ByName<StoredObject>,
    /// The namespaces and names of changed objects, the oldest change first.
    journal: VecDeque<(String, String)>,
    /// The number of changes so far.
    position: u64,
}

/// One version of an object.
#[derive(Clone, Debug)]
struct StoredObject {
    json: Arc<[u8]>,
    /// The decoded object, in the type of the view that asked first.
    decoded: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl StoredObject {
    fn new(json: Arc<[u8]>) -> Self {
        Self { json, decoded: OnceLock::new() }
    }

    /// The decoded value, if the value has this type.
    fn decoded<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(self.decoded.get()?).downcast().ok()
    }

    /// The decoded value. If no view has asked before, this call decodes the JSON and keeps the value for the next
    /// view.
    fn decode<T: DeserializeOwned + Send + Sync + 'static>(&self) -> Result<Arc<T>, serde_json::Error> {
        if let Some(decoded) = self.decoded() {
            return Ok(decoded);
        }
        let decoded: Arc<T> = Arc::new(serde_json::from_slice(&self.json)?);
        // If the table already keeps a value of another type, that value stays. Each view of the second type then
        // decodes for itself.
        let kept: &Arc<dyn Any + Send + Sync> = self.decoded.get_or_init(|| decoded.clone());
        Ok(Arc::clone(kept).downcast().unwrap_or(decoded))
    }
}

impl ObjectTable {
    /// Notes that several plugins read this table. The table then keeps the whole decoded object for views that keep a
    /// part of it ([`ObjectView::of_parts`]). Otherwise only that part stays in memory.
    pub fn set_shared(&mut self) {
        self.is_shared = true;
    }

    /// Calls `report` with `apiVersion` and kind whenever a caller reads a kind of which the table has never had an
    /// object.
    pub fn report_absent_kinds(&mut self, report: fn(&str, &str)) {
        self.report_absent = Some(report);
    }

    /// The object's JSON, if it exists and the plugin asked for its kind.
    #[must_use]
    pub fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<&Arc<[u8]>> {
        Some(&self.of_kind(api_version, kind)?.by_name.get(namespace)?.get(name)?.json)
    }

    /// Namespace, name and JSON of all objects of one kind.
    pub fn iter(&self, api_version: &str, kind: &str) -> impl Iterator<Item = (&str, &str, &Arc<[u8]>)> {
        let objects = self.of_kind(api_version, kind).into_iter().flat_map(|objects| iter(&objects.by_name));
        objects.map(|(namespace, name, object)| (namespace, name, &object.json))
    }

    /// Stores an object in place of its previous version, or removes it. The JSON is not decoded.
    pub fn apply(&mut self, change: &ObjectChange) {
        let kinds = self.kinds.entry(change.api_version.clone()).or_default();
        let objects = kinds.entry(change.kind.clone()).or_default();
        let object = change.json.clone().map(StoredObject::new);
        put(&mut objects.by_name, &change.namespace, &change.name, object);
        if objects.journal.len() >= JOURNAL_CAPACITY {
            objects.journal.pop_front();
        }
        objects.journal.push_back((change.namespace.clone(), change.name.clone()));
        objects.position += 1;
        self.position += 1;
    }

    /// Empties the table. Views then decode everything again.
    pub(crate) fn clear(&mut self) {
        self.position += 1;
        for objects in self.kinds.values_mut().flat_map(BTreeMap::values_mut) {
            let position = objects.position + 1;
            *objects = Objects { position, ..Objects::default() };
        }
    }

    fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Objects> {
        let objects = self.kinds.get(api_version).and_then(|kinds| kinds.get(kind));
        if let (None, Some(report)) = (objects, self.report_absent) {
            report(api_version, kind);
        }
        objects
    }
}

fn iter<T>(by_name: &ByName<T>) -> impl Iterator<Item = (&str, &str, &T)> {
    by_name.iter().flat_map(|(namespace, objects)| {
        objects.iter().map(move |(name, object)| (namespace.as_str(), name.as_str(), object))
    })
}

fn entry<'a, T>(by_name: &'a ByName<T>, namespace: &str, name: &str) -> Option<&'a T> {
    by_name.get(namespace)?.get(name)
}

fn put<T>(by_name: &mut ByName<T>, namespace: &str, name: &str, object: Option<T>) {
    if let Some(object) = object {
        by_name.entry(namespace.to_owned()).or_default().insert(name.to_owned(), object);
    } else if let Some(objects) = by_name.get_mut(namespace) {
        objects.remove(name);
        if objects.is_empty() {
            by_name.remove(namespace);
        }
    }
}

/// The result of [`ObjectView::catch_up`]: what changed in the table since the last call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Catchup {
    /// No object changed.
    Nothing,
    /// Namespaces and names of the objects that were added, changed or removed; an object may be listed more than once.
    Some(Vec<(String, String)>),
    /// Any object may have been added, changed or removed.
    Everything,
}

/// The decoded objects of one kind. [`Self::refresh`] updates them from a table, at a cost that depends on the number
/// of changes.
///
/// Views of one type share the decoded objects of their table. An object that does not decode counts as absent, and
/// [`Self::problems`] says why.
#[derive(Clone, Debug)]
pub struct ObjectView<T> {
    api_version: &'static str,
    kind: &'static str,
    decode: Decode<T>,
    by_name: ByName<Arc<T>>,
    problems: ByName<String>,
    /// The namespaces and names of the objects whose problem appeared or changed in the last refresh.
    new_problems: Vec<(String, String)>,
    /// The position up to which this view has followed the changes of its kind; `None` if the table does not have the
    /// kind.
    seen: Option<u64>,
    /// The position up to which this view has followed all changes of the table. While the table is at this position,
    /// the view does not look up its kind.
    seen_of_table: Option<u64>,
    version: u64,
}

/// A function that decodes an object, or a part of it, for a view. The flag says whether several plugins read the table
/// ([`ObjectTable::set_shared`]).
type Decode<T> = fn(&StoredObject, bool) -> Result<Arc<T>, serde_json::Error>;

impl<T: DeserializeOwned + Send + Sync + 'static> ObjectView<T> {
    /// A view that keeps whole decoded objects. It is empty until [`Self::refresh`].
    #[must_use]
    pub fn new(api_version: &'static str, kind: &'static str) -> Self {
        Self::with(api_version, kind, |object, _| object.decode())
    }
}

impl<T> ObjectView<T> {
    fn with(api_version: &'static str, kind: &'static str, decode: Decode<T>) -> Self {
        let (by_name, problems, new_problems) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (seen, seen_of_table) = (None, None);
        Self { api_version, kind, decode, by_name, problems, new_problems, seen, seen_of_table, version: 0 }
    }

    /// A view that keeps a part `T` of each object `O`, for plugins that must save memory. It shares the decoded
    /// objects with the views that keep them whole.
    #[must_use]
    pub fn of_parts<O>(api_version: &'static str, kind: &'static str) -> Self
    where
        O: DeserializeOwned + Send + Sync + 'static,
        T: for<'a> From<&'a O>,
    {
        Self::with(api_version, kind, |object, is_shared| {
            if is_shared {
                return Ok(Arc::new(T::from(&*object.decode::<O>()?)));
            }
            match object.decoded::<O>() {
                Some(whole) => Ok(Arc::new(T::from(&whole))),
                None => Ok(Arc::new(T::from(&serde_json::from_slice(&object.json)?))),
            }
        })
    }

    /// Updates the view from `table`. Returns whether anything changed.
    pub fn refresh(&mut self, table: &ObjectTable) -> bool {
        self.catch_up(table) != Catchup::Nothing
    }

    /// Updates the view from `table`. Returns what changed, for callers that keep data about each object.
    pub fn catch_up(&mut self, table: &ObjectTable) -> Catchup {
        self.follow(table, |_, _, _| {})
    }

    /// Like [`Self::refresh`], but also calls `report` for each change. `report` gets the namespace, the name, and the
    /// present object, or `None` if the object was removed. An object may be reported several times, even if it did not
    /// change.
    pub fn refresh_with(&mut self, table: &ObjectTable, report: impl FnMut(&str, &str, Option<&Arc<T>>)) -> bool {
        self.follow(table, report) != Catchup::Nothing
    }

    fn follow(&mut self, table: &ObjectTable, report: impl FnMut(&str, &str, Option<&Arc<T>>)) -> Catchup {
        self.new_problems.clear();
        if self.seen_of_table.replace(table.position) == Some(table.position) {
            return Catchup::Nothing;
        }
        self.follow_kind(table, report)
    }

    fn follow_kind(&mut self, table: &ObjectTable, mut report: impl FnMut(&str, &str, Option<&Arc<T>>)) -> Catchup {
        let Some(objects) = table.of_kind(self.api_version, self.kind) else {
            let had_objects = !self.by_name.is_empty() || !self.problems.is_empty();
            iter(&self.by_name).for_each(|(namespace, name, _)| report(namespace, name, None));
            self.by_name.clear();
            self.problems.clear();
            self.seen = None;
            self.version += u64::from(had_objects);
            return if had_objects { Catchup::Everything } else { Catchup::Nothing };
        };
        if self.seen == Some(objects.position) {
            return Catchup::Nothing;
        }
        let n_missed = self.seen.and_then(|seen| objects.position.checked_sub(seen));
        let found = match n_missed.and_then(|n_missed| usize::try_from(n_missed).ok()) {
            Some(n_missed) if n_missed <= objects.journal.len() => {
                let changed: Vec<_> = objects.journal.iter().skip(objects.journal.len() - n_missed).cloned().collect();
                for (namespace, name) in &changed {
                    let object = objects.by_name.get(namespace).and_then(|objects| objects.get(name));
                    self.take(namespace, name, object, table.is_shared);
                    report(namespace, name, self.get(namespace, name));
                }
                Catchup::Some(changed)
            }
            Some(_) | None => {
                let known = std::mem::take(&mut self.by_name);
                let known_problems = std::mem::take(&mut self.problems);
                for (namespace, name, object) in iter(&objects.by_name) {
                    self.take(namespace, name, Some(object), table.is_shared);
                }
                self.new_problems.retain(|(namespace, name)| {
                    entry(&known_problems, namespace, name) != entry(&self.problems, namespace, name)
                });
                let gone = iter(&known).filter(|(namespace, name, _)| self.get(namespace, name).is_none());
                gone.for_each(|(namespace, name, _)| report(namespace, name, None));
                self.iter().for_each(|(namespace, name, object)| report(namespace, name, Some(object)));
                Catchup::Everything
            }
        };
        self.seen = Some(objects.position);
        self.version += 1;
        found
    }

    fn take(&mut self, namespace: &str, name: &str, object: Option<&StoredObject>, is_shared: bool) {
        let (object, problem) = match object.map(|object| (self.decode)(object, is_shared)) {
            None => (None, None),
            Some(Ok(object)) => (Some(object), None),
            Some(Err(error)) => (None, Some(error.to_string())),
        };
        if problem.is_some() && entry(&self.problems, namespace, name) != problem.as_ref() {
            self.new_problems.push((namespace.to_owned(), name.to_owned()));
        }
        put(&mut self.by_name, namespace, name, object);
        put(&mut self.problems, namespace, name, problem);
    }

    /// A number that grows whenever [`Self::refresh`] changed something.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The object, if it exists and decodes. The namespace of a cluster-scoped kind is empty.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        entry(&self.by_name, namespace, name)
    }

    /// The objects with namespace and name, ordered by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &Arc<T>)> {
        iter(&self.by_name)
    }

    /// The objects of one namespace with their names.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&str, &Arc<T>)> {
        let objects = self.by_name.get(namespace);
        objects.into_iter().flatten().map(|(name, object)| (name.as_str(), object))
    }

    /// The objects that could not be decoded, with namespace, name and reason.
    pub fn problems(&self) -> impl Iterator<Item = (&str, &str, &String)> {
        iter(&self.problems)
    }

    /// The objects that the last refresh could not decode, with namespace, name and reason. An object that had the same
    /// problem before is not included.
    pub fn new_problems(&self) -> impl Iterator<Item = (&str, &str, &String)> {
        let problem = |(namespace, name): &(String, String)| entry(&self.problems, namespace, name);
        self.new_problems.iter().filter_map(move |it| Some((it.0.as_str(), it.1.as_str(), problem(it)?)))
    }

    /// `apiVersion/kind` of the objects.
    #[must_use]
    pub fn shown_kind(&self) -> String {
        format!("{}/{}", self.api_version, self.kind)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn change(name: &str, json: Option<&str>) -> ObjectChange {
        ObjectChange {
            api_version: "v1".to_owned(),
            kind: "Number".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            json: json.map(|json| Arc::from(json.as_bytes())),
        }
    }

    fn picture(view: &ObjectView<i64>) -> Vec<(String, i64)> {
        view.iter().map(|(_, name, number)| (name.to_owned(), **number)).collect()
    }

    #[test]
    fn a_read_of_a_kind_without_objects_is_reported() {
        thread_local! {
            static REPORTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
        }
        let reported = || REPORTED.take();
        let mut table = ObjectTable::default();
        table.report_absent_kinds(|api_version, kind| {
            REPORTED.with_borrow_mut(|reported| reported.push(format!("{api_version}/{kind}")));
        });
        let mut view = ObjectView::<i64>::new("v1", "Number");
        view.refresh(&table);
        assert_eq!(reported(), ["v1/Number"]);
        assert!(table.get("v1", "Letter", "default", "one").is_none() && table.iter("v1", "Letter").next().is_none());
        assert_eq!(reported(), ["v1/Letter", "v1/Letter"]);
        table.apply(&change("one", Some("1")));
        view.refresh(&table);
        assert_eq!(reported(), Vec::<String>::new());
    }

    #[test]
    fn a_view_follows_its_table() {
        let mut table = ObjectTable::default();
        let mut view = ObjectView::<i64>::new("v1", "Number");
        assert!(!view.refresh(&table));
        table.apply(&change("one", Some("1")));
        table.apply(&change("two", Some("2")));
        assert!(view.refresh(&table));
        assert!(!view.refresh(&table));
        table.apply(&change("one", None));
        table.apply(&change("two", Some("22")));
        table.apply(&change("three", Some("\"three\"")));
        let changed = ["one", "two", "three"].map(|name| ("default".to_owned(), name.to_owned()));
        assert_eq!(view.catch_up(&table), Catchup::Some(changed.to_vec()));
        assert_eq!(picture(&view), [("two".to_owned(), 22)]);
        assert_eq!(view.problems().count(), 1);
        table.clear();
        table.apply(&change("four", Some("4")));
        assert!(view.refresh(&table));
        assert_eq!(picture(&view), [("four".to_owned(), 4)]);
        assert_eq!(view.problems().count(), 0);
    }

    #[test]
    fn a_problem_is_new_once() {
        let mut table = ObjectTable::default();
        let mut view = ObjectView::<i64>::new("v1", "Number");
        let mut refresh = |table: &ObjectTable| {
            view.refresh(table);
            view.new_problems().map(|(_, name, _)| name.to_owned()).collect::<Vec<_>>()
        };
        table.apply(&change("one", Some("1")));
        table.apply(&change("two", Some("\"two\"")));
        assert_eq!(refresh(&table), ["two"]);
        assert_eq!(refresh(&table), [""; 0], "nothing has changed");
        table.apply(&change("two", Some("\"two\"")));
        assert_eq!(refresh(&table), [""; 0], "it is the same problem");
        table.apply(&change("two", Some("[]")));
        assert_eq!(refresh(&table), ["two"], "it is another problem");
        table.clear();
        table.apply(&change("two", Some("[]")));
        table.apply(&change("three", Some("\"three\"")));
        assert_eq!(refresh(&table), ["three"]);
    }

    #[test]
    fn a_view_tells_what_changed() {
        let mut table = ObjectTable::default();
        let mut view = ObjectView::<i64>::new("v1", "Number");
        let mut told = |table: &ObjectTable| {
            let mut changes = Vec::new();
            view.refresh_with(table, |_, name, number| {
                changes.push((name.to_owned(), number.map(|number| **number)));
            });
            changes
        };
        table.apply(&change("one", Some("1")));
        table.apply(&change("two", Some("2")));
        assert_eq!(told(&table), [("one".to_owned(), Some(1)), ("two".to_owned(), Some(2))]);
        table.apply(&change("one", None));
        assert_eq!(told(&table), [("one".to_owned(), None)]);
        table.apply(&change("two", Some("\"broken\"")));
        assert_eq!(told(&table), [("two".to_owned(), None)]);
        table.apply(&change("two", Some("2")));
        assert_eq!(told(&table), [("two".to_owned(), Some(2))]);
        table.clear();
        table.apply(&change("three", Some("3")));
        for _ in 0..=JOURNAL_CAPACITY {
            table.apply(&change("four", Some("4")));
        }
        let expected = [("two".to_owned(), None), ("four".to_owned(), Some(4)), ("three".to_owned(), Some(3))];
        assert_eq!(told(&table), expected);
    }

    /// A number that counts its decodings.
    #[derive(Clone, Debug)]
    struct Counted(i64);

    /// Half of the number.
    #[derive(Debug, PartialEq)]
    struct Half(i64);

    thread_local! {
        static N_DECODED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }

    impl<'de> serde::Deserialize<'de> for Counted {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            N_DECODED.set(N_DECODED.get() + 1);
            i64::deserialize(deserializer).map(Self)
        }
    }

    impl From<&Counted> for Half {
        fn from(number: &Counted) -> Self {
            Self(number.0 / 2)
        }
    }

    #[test]
    fn views_of_a_shared_table_decode_each_version_once() {
        let mut table = ObjectTable::default();
        table.set_shared();
        let mut halves = ObjectView::<Half>::of_parts::<Counted>("v1", "Number");
        let mut views = [(); 3].map(|()| ObjectView::<Counted>::new("v1", "Number"));
        let mut others = ObjectView::<i64>::new("v1", "Number");
        for (json, n_decoded) in [("2", 1), ("4", 2)] {
            table.apply(&change("one", Some(json)));
            halves.refresh(&table);
            views.iter_mut().for_each(|view| assert!(view.refresh(&table)));
            others.refresh(&table);
            assert_eq!(N_DECODED.get(), n_decoded);
        }
        let objects = views.each_ref().map(|view| view.get("default", "one").unwrap());
        assert!(objects.iter().all(|object| Arc::ptr_eq(object, objects[0])));
        assert_eq!((objects[0].0, halves.get("default", "one").unwrap().0), (4, 2));
        assert_eq!(picture(&others), [("one".to_owned(), 4)]);
    }

    #[test]
    fn a_view_of_parts_keeps_nothing_else_in_a_table_of_its_own() {
        let mut table = ObjectTable::default();
        table.apply(&change("one", Some("2")));
        let mut halves = ObjectView::<Half>::of_parts::<Counted>("v1", "Number");
        halves.refresh(&table);
        assert_eq!(**halves.get("default", "one").unwrap(), Half(1));
        let stored = &table.of_kind("v1", "Number").unwrap().by_name["default"]["one"];
        assert!(stored.decoded::<Counted>().is_none());
    }

    #[test]
    fn a_view_that_fell_behind_decodes_everything() {
        let mut table = ObjectTable::default();
        let mut view = ObjectView::<i64>::new("v1", "Number");
        table.apply(&change("gone", Some("0")));
        view.refresh(&table);
        table.apply(&change("gone", None));
        for _ in 0..=JOURNAL_CAPACITY {
            table.apply(&change("one", Some("1")));
        }
        assert!(view.refresh(&table));
        assert_eq!(picture(&view), [("one".to_owned(), 1)]);
    }
}
