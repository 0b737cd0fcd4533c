//! Asks a queueing hint about the events for which its plugin registered, as the scheduler asks it: one action at a time,
//! with the object before and after the event.

use berth_framework::{ClusterEvent, EventSubject, HintCall, Manifest, Plugin, Status};
use berth_model::{ClusterTable, KindRef, Node, ObjectKey, Pod};

const NODE_UPDATES: [u32; 6] = [
    ClusterEvent::UPDATE_NODE_ALLOCATABLE,
    ClusterEvent::UPDATE_NODE_LABEL,
    ClusterEvent::UPDATE_NODE_TAINT,
    ClusterEvent::UPDATE_NODE_CONDITION,
    ClusterEvent::UPDATE_NODE_ANNOTATION,
    ClusterEvent::UPDATE_NODE_DECLARED_FEATURE,
];

const POD_UPDATES: [u32; 5] = [
    ClusterEvent::UPDATE_POD_LABEL,
    ClusterEvent::UPDATE_POD_SCALE_DOWN,
    ClusterEvent::UPDATE_POD_TOLERATION,
    ClusterEvent::UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    ClusterEvent::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
];

/// The objects that the events are about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventObjects<'a> {
    /// The pod of each question, which waits. An event may also be about this pod.
    pub(crate) pod: &'a Pod,
    /// Another pod, which is on a node.
    pub(crate) placed: &'a Pod,
    pub(crate) node: &'a Node,
    /// Objects of other kinds, with their JSON.
    pub(crate) others: &'a [(ObjectKey, Vec<u8>)],
}

/// Asks about every event. The answers are not checked. A plugin without a hint is not asked.
///
/// # Errors
/// The plugin lost its instance.
pub(crate) fn ask_hint(
    plugin: &mut dyn Plugin,
    table: &ClusterTable,
    objects: &EventObjects<'_>,
) -> Result<(), Status> {
    for (event, subject) in questions(plugin.manifest(), objects) {
        let Some(point) = plugin.queueing_hint() else { return Ok(()) };
        point.queueing_hint(&HintCall { table, pod: objects.pod, event: &event, subject });
        if let Some(status) = plugin.out_of_service() {
            return Err(status);
        }
    }
    Ok(())
}

/// The events, and the object that the plugin sees of each. A plugin that registered for no event of nodes is asked about
/// one, without the node.
fn questions<'a>(manifest: &Manifest, objects: &EventObjects<'a>) -> Vec<(ClusterEvent, EventSubject<'a>)> {
    let any = [ClusterEvent::new("*", ClusterEvent::ALL)];
    let registered = manifest.events_to_register.as_deref().unwrap_or(&any);
    let mut asked = Vec::new();
    for ClusterEvent { resource, actions } in registered {
        let is_any = resource == "*";
        if is_any || resource == "Pod" {
            asked.extend(about_pods(*actions, objects));
        }
        if is_any || resource == "Node" {
            asked.extend(about_node(*actions, objects.node));
        }
        if is_any {
            let mut resources: Vec<String> = objects.others.iter().map(|(key, _)| resource_of(key)).collect();
            resources.sort_unstable();
            resources.dedup();
            for resource in resources {
                asked.extend(about_others(&ClusterEvent::new(&resource, *actions), manifest, objects));
            }
        } else {
            asked.extend(about_others(&ClusterEvent::new(resource, *actions), manifest, objects));
        }
    }
    if !registered.iter().any(|event| matches!(event.resource.as_str(), "Node" | "*")) {
        asked.push((ClusterEvent::new("Node", ClusterEvent::ADD), EventSubject::Hidden));
    }
    asked
}

fn about_pods<'a>(actions: u32, objects: &EventObjects<'a>) -> Vec<(ClusterEvent, EventSubject<'a>)> {
    let mut asked = Vec::new();
    for action in each_action(actions, &POD_UPDATES) {
        for pod in [objects.placed, objects.pod] {
            // A pod that waits has come to no node. It may give its place on a node back, and it may be updated.
            if action != ClusterEvent::ADD || pod.uid != objects.pod.uid {
                let (old, new) = sides(action, pod);
                asked.push((ClusterEvent::new("Pod", action), EventSubject::Pod { old, new }));
            }
        }
    }
    asked
}

fn about_node(actions: u32, node: &Node) -> Vec<(ClusterEvent, EventSubject<'_>)> {
    let about = |action| {
        let (old, new) = sides(action, node);
        (ClusterEvent::new("Node", action), EventSubject::Node { old, new })
    };
    each_action(actions, &NODE_UPDATES).into_iter().map(about).collect()
}

/// Questions about a kind other than pods and nodes. The plugin sees an object if its manifest names the kind. If there
/// is no object of such a kind, the plugin is not asked, because the object would have to be invented.
fn about_others<'a>(
    event: &ClusterEvent,
    manifest: &Manifest,
    objects: &EventObjects<'a>,
) -> Vec<(ClusterEvent, EventSubject<'a>)> {
    if matches!(event.resource.as_str(), "Pod" | "Node") {
        return Vec::new();
    }
    let actions = each_action(event.actions, &[]);
    let is_seen = manifest.needs.objects.iter().any(|kind| {
        let key = ObjectKey { api_version: kind.api_version.clone(), kind: kind.kind.clone(), ..ObjectKey::default() };
        resource_of(&key) == event.resource
    });
    if !is_seen {
        let hidden = |action| (ClusterEvent::new(&event.resource, action), EventSubject::Hidden);
        return actions.into_iter().map(hidden).collect();
    }
    let mut asked = Vec::new();
    for (key, json) in objects.others.iter().filter(|(key, _)| resource_of(key) == event.resource) {
        for action in &actions {
            let (old, new) = sides(*action, json.as_slice());
            asked.push((ClusterEvent::new(&event.resource, *action), EventSubject::Object { key, old, new }));
        }
    }
    asked
}

/// The name under which plugins register for events of the object.
fn resource_of(key: &ObjectKey) -> String {
    let mut kind = KindRef::of_kind(&key.api_version, &key.kind);
    kind.plural = kind.likely_plural();
    kind.resource()
}

/// The actions that a question may be about. An update without an action of its own has all update bits.
fn each_action(actions: u32, updates: &[u32]) -> Vec<u32> {
    let single = [ClusterEvent::ADD, ClusterEvent::DELETE].into_iter().chain(updates.iter().copied());
    let update = (actions & ClusterEvent::UPDATE == ClusterEvent::UPDATE).then_some(ClusterEvent::UPDATE);
    single.filter(|action| actions & action != 0).chain(update).collect()
}

/// The object before and after the event.
fn sides<T: Copy>(action: u32, object: T) -> (Option<T>, Option<T>) {
    ((action != ClusterEvent::ADD).then_some(object), (action != ClusterEvent::DELETE).then_some(object))
}

#[cfg(test)]
mod tests {
    use berth_framework::ObjectKind;
    use berth_model::PodUid;

    use super::*;

    /// The questions of a plugin with these events, whose manifest names `v1/ConfigMap`.
    fn asked(events: Option<&[ClusterEvent]>) -> Vec<String> {
        let mut manifest = Manifest { events_to_register: events.map(<[_]>::to_vec), ..Manifest::default() };
        manifest.needs.objects = vec![ObjectKind { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() }];
        let [pod, placed] = ["waits", "placed"].map(|uid| Pod { uid: PodUid::from(uid.to_owned()), ..Pod::default() });
        let others = ["v1/ConfigMap", "v1/Service"].map(|kind| (ObjectKey::named(kind, "team", "it"), b"{}".to_vec()));
        let node = Node::default();
        let objects = EventObjects { pod: &pod, placed: &placed, node: &node, others: &others };
        questions(&manifest, &objects).iter().map(|(event, subject)| told(event, subject)).collect()
    }

    fn told(event: &ClusterEvent, subject: &EventSubject<'_>) -> String {
        let side = |name: &str, is_there: bool| if is_there { format!(" {name}") } else { String::new() };
        let sides = |old: bool, new: bool| side("old", old) + &side("new", new);
        let seen = match subject {
            EventSubject::Pod { old, new } => {
                let uid = old.or(*new).map_or("", |pod| pod.uid.as_str());
                format!(" {uid}{}", sides(old.is_some(), new.is_some()))
            }
            EventSubject::Node { old, new } => sides(old.is_some(), new.is_some()),
            EventSubject::Object { key, old, new } => {
                format!(" {}{}", key.name, sides(old.is_some(), new.is_some()))
            }
            EventSubject::Hidden => " hidden".to_owned(),
        };
        format!("{}/{}{seen}", event.resource, event.action_name().unwrap_or("?"))
    }

    fn of(resource: &str, actions: u32) -> Vec<String> {
        asked(Some(&[ClusterEvent::new(resource, actions)]))
    }

    /// A hint may rely on the object of an event for which its plugin registered.
    #[test]
    fn a_hint_is_asked_as_the_scheduler_asks_it() {
        let label = ClusterEvent::UPDATE_NODE_LABEL;
        assert_eq!(of("Node", ClusterEvent::ADD | label), ["Node/Add new", "Node/UpdateNodeLabel old new"]);
        assert_eq!(of("Node", ClusterEvent::DELETE), ["Node/Delete old"]);
        assert_eq!(
            of("Pod", ClusterEvent::ADD | ClusterEvent::DELETE | ClusterEvent::UPDATE_POD_LABEL),
            [
                "Pod/Add placed new",
                "Pod/Delete placed old",
                "Pod/Delete waits old",
                "Pod/UpdatePodLabel placed old new",
                "Pod/UpdatePodLabel waits old new",
                "Node/Add hidden",
            ]
        );
        let update = ClusterEvent::UPDATE;
        assert_eq!(
            of("ConfigMap", ClusterEvent::ADD | update)[..2],
            ["ConfigMap/Add it new", "ConfigMap/Update it old new"]
        );
        assert_eq!(of("Service", update)[..1], ["Service/Update hidden"], "the manifest does not name the kind");
        assert_eq!(of("Node", update).last().map(String::as_str), Some("Node/Update old new"));
    }

    #[test]
    fn a_plugin_without_a_list_is_asked_about_every_kind() {
        let asked = asked(None);
        for question in ["Pod/Add placed new", "Node/Delete old", "ConfigMap/Update it old new", "Service/Add hidden"] {
            assert!(asked.iter().any(|it| it == question), "{question}: {asked:?}");
        }
        assert!(!asked.contains(&"Node/Add hidden".to_owned()));
    }
}
