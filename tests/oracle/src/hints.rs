//! Compares queueing hints: the events that lead to another attempt of a pod that the plugin rejected.

use std::collections::{BTreeMap, btree_map::Entry};

use anyhow::{Context, Result, anyhow};
use berth_framework::{ClusterEvent, EventSubject, HintCall, PluginIdx, run::Refusal};
use berth_model::{Features, Node, ObjectKey, Pod, api};
use berth_testing::TestCluster;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    case::{Case, Objects, RecordedEvent, RecordedHint},
    cluster,
    execution::Execution,
    findings::Findings,
    tested_profile::TestedProfile,
};

/// A cluster, a rejected pod, events, and the answers of each plugin's hint function about them.
#[derive(Debug, Deserialize)]
pub(crate) struct HintRow {
    objects: Objects,
    pod: api::Pod,
    events: Vec<RecordedEvent>,
    hints: Vec<RecordedHint>,
}

/// A change to an object, as an owned value.
enum Change {
    Pod(Option<Box<Pod>>, Option<Box<Pod>>),
    Node(Option<Box<Node>>, Option<Box<Node>>),
    Object(ObjectKey, Option<Vec<u8>>, Option<Vec<u8>>),
}

struct HintCheck {
    cluster: TestCluster,
    pod: Pod,
    subject: TestedProfile,
    plugins: BTreeMap<String, PluginIdx>,
    events: Vec<(ClusterEvent, Change)>,
}

pub(crate) fn check(row: &HintRow, features: Features, execution: &dyn Execution, findings: &mut Findings) {
    let checked = cluster::of_objects(&row.objects, features).map_err(Into::into).and_then(|cluster| {
        let subject = TestedProfile::build(None, features, execution)?;
        HintCheck::prepare(cluster, &row.pod, &row.events, subject)
    });
    match checked {
        Ok(mut check) => row.hints.iter().for_each(|hint| check.compare(hint, findings)),
        Err(error) => findings.differ("setting up", "a cluster and a profile", format!("{error:#}")),
    }
}

/// The events of a case. Each is in its own cluster, which already knows the event's object.
pub(crate) fn check_case(case: &Case, features: Features, execution: &dyn Execution, findings: &mut Findings) {
    for (ev, event) in case.events.iter().enumerate() {
        let checked = cluster::of_objects(&case.objects, features).map_err(Into::into).and_then(|mut cluster| {
            if let Some(new) = &event.new {
                cluster.set_object(&typed(event, new));
            }
            let subject = TestedProfile::build(case.profile.as_ref(), features, execution)?;
            HintCheck::prepare(cluster, &case.pod, std::slice::from_ref(event), subject)
        });
        match checked {
            Ok(mut check) => {
                let of_event = case.hints.iter().filter(|hint| hint.ev == ev);
                of_event.for_each(|hint| check.compare(&RecordedHint { ev: 0, ..hint.clone() }, findings));
            }
            Err(error) => findings.differ("setting up", "a cluster and a profile", format!("{error:#}")),
        }
    }
}

impl HintCheck {
    fn prepare(
        mut cluster: TestCluster,
        pod: &api::Pod,
        events: &[RecordedEvent],
        mut subject: TestedProfile,
    ) -> Result<Self> {
        let pod = cluster.intern(pod);
        let events = events.iter().map(|event| change(event, &mut cluster)).collect::<Result<_>>()?;
        cluster.settle();
        if let Err(Refusal { plugin, status }) = subject.profile.sync(cluster.cache()) {
            return Err(anyhow!("{}: {}", subject.name(plugin), status.message()));
        }
        Ok(Self { cluster, pod, subject, plugins: BTreeMap::new(), events })
    }

    fn compare(&mut self, recorded: &RecordedHint, findings: &mut Findings) {
        let RecordedHint { plugin: name, ev, action, hint } = recorded;
        let Some((event, change)) = self.events.get(*ev) else {
            return findings.differ("hint", "an event", format!("no event {ev}"));
        };
        let plugin = match self.plugins.entry(name.clone()) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(unknown) => self.subject.profile.find(name).map(|plugin| *unknown.insert(plugin)),
        };
        let Some(plugin) = plugin.and_then(|plugin| self.subject.profile.get(plugin)) else {
            return findings.leave_out(name);
        };
        let subject = change.subject(plugin.manifest());
        let call = HintCall { table: self.cluster.table(), pod: &self.pod, event, subject };
        let queues = plugin.queueing_hint().is_none_or(|point| point.queueing_hint(&call));
        let what = format!("hint of {name} for {} {action}, event {ev}", event.resource);
        findings.compare(what, hint.as_str(), if queues { "Queue" } else { "QueueSkip" });
    }
}

impl Change {
    fn subject(&self, manifest: &berth_framework::Manifest) -> EventSubject<'_> {
        match self {
            Self::Pod(old, new) => EventSubject::Pod { old: old.as_deref(), new: new.as_deref() },
            Self::Node(old, new) => EventSubject::Node { old: old.as_deref(), new: new.as_deref() },
            Self::Object(key, old, new) if manifest.needs.has_objects_like(key) => {
                EventSubject::Object { key, old: old.as_deref(), new: new.as_deref() }
            }
            Self::Object(..) => EventSubject::Hidden,
        }
    }
}

fn change(event: &RecordedEvent, cluster: &mut TestCluster) -> Result<(ClusterEvent, Change)> {
    let RecordedEvent { resource, old, new } = event;
    let change = match resource.as_str() {
        "Pod" => {
            let [old, new] = [old, new].map(|it| it.as_ref().map(decode::<api::Pod>).transpose());
            let mut intern = |pod: Option<api::Pod>| pod.map(|pod| Box::new(cluster.intern(&pod)));
            Change::Pod(intern(old?), intern(new?))
        }
        "Node" => {
            let [old, new] = [old, new].map(|it| it.as_ref().map(decode::<api::Node>).transpose());
            let mut intern = |node: Option<api::Node>| node.map(|node| Box::new(cluster.intern_node(&node)));
            Change::Node(intern(old?), intern(new?))
        }
        _ => {
            let [old, new] = [old, new].map(|it| it.as_ref().map(|object| typed(event, object)));
            let key = ObjectKey::of(new.as_ref().or(old.as_ref()).context("an event without an object")?);
            let [old, new] = [old, new].map(|it| it.map(|object| object.to_string().into_bytes()));
            Change::Object(key, old, new)
        }
    };
    let action = match (old, new) {
        (None, _) => ClusterEvent::ADD,
        (Some(_), Some(_)) => ClusterEvent::UPDATE,
        (Some(_), None) => ClusterEvent::DELETE,
    };
    Ok((ClusterEvent::new(resource, action), change))
}

/// The object with `apiVersion` and `kind`, which recorded claims lack.
fn typed(event: &RecordedEvent, object: &Value) -> Value {
    let mut object = object.clone();
    if event.resource == "ResourceClaim" {
        object["apiVersion"] = "resource.k8s.io/v1".into();
        object["kind"] = event.resource.as_str().into();
    }
    object
}

fn decode<T: DeserializeOwned>(object: &Value) -> Result<T> {
    Ok(T::deserialize(object)?)
}
