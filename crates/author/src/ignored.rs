//! The parts of an answer that the scheduler refuses, cannot send or ignores regardless of grants, waits that nothing would
//! end, and events about which it never asks.

use berth_framework::{Call, ClusterEvent, Effect, Manifest, Needs, Point};
use berth_model::{KindRef, ObjectKey};
use serde_json::Value;

use crate::nearest::nearest;

/// The mistakes in the effects of an answer at this point, a line for each mistake. `holds` says whether Permit holds
/// the pod.
pub(crate) fn ignored(point: Point, needs: &Needs, call: &Call<'_>, effects: &[Effect], holds: bool) -> Vec<String> {
    let at = point.shown_with_effects();
    let mut lines = not_objects(point, effects);
    if point != Point::Bind && effects.contains(&Effect::Bind) {
        lines.push(format!("{at}: the scheduler refuses the effect bind outside of Bind: leave it out"));
    }
    let Some(position) = effects.iter().position(|effect| matches!(effect, Effect::Wait { .. })) else { return lines };
    if !matches!(point, Point::Permit | Point::PreBind) {
        lines.push(format!("{at}: the effect wait is allowed only at Permit and PreBind: leave it out"));
        return lines;
    }
    if point == Point::Permit && !holds {
        lines.push(format!(
            "{at}: the scheduler ignores the effect wait, because the plugin does not hold the pod: answer `wait` with a \
             time as well, or leave the effect out"
        ));
    }
    if position + 1 != effects.len() {
        lines.push(format!(
            "{at}: the effect wait is not the last effect, and the scheduler ignores changes of objects after it: put it \
             at the end"
        ));
    }
    if let Some(Effect::Wait { objects, .. }) = effects.get(position) {
        if objects.is_empty() {
            lines.push(format!(
                "{at}: the effect wait names no objects, so the plugin would never be asked again: name them, or leave \
                 the effect out"
            ));
        }
        let own = own_key(call);
        let keys = objects.iter().map(|object| ObjectKey::named(&object.kind, &*object.namespace, &*object.name));
        let unheard = keys.filter(|key| !needs.end_wait_for(key, &own));
        lines.extend(unheard.map(|key| format!("{at}: {}", in_vain(needs, &key))));
    }
    lines
}

/// The patches and new objects that the scheduler cannot send, because they are not JSON objects. A line for each.
pub(crate) fn not_objects(point: Point, effects: &[Effect]) -> Vec<String> {
    let at = point.shown_with_effects();
    let mut lines = Vec::new();
    for effect in effects {
        let (what, json) = match effect {
            Effect::Patch { kind, namespace, name, patch, .. } => {
                (format!("the patch of {kind} {}", place(namespace, name)), patch)
            }
            Effect::Create { kind, body, .. } => (format!("the new {kind}"), body),
            Effect::Bind
            | Effect::Delete { .. }
            | Effect::Evict { .. }
            | Effect::Allow { .. }
            | Effect::Reject { .. }
            | Effect::Activate { .. }
            | Effect::Nominate { .. }
            | Effect::Event { .. }
            | Effect::Wait { .. } => continue,
        };
        match serde_json::from_slice::<Value>(json) {
            Ok(Value::Object(_)) => {}
            Ok(_) => lines.push(format!("{at}: {what} is not a JSON object, so the scheduler cannot send it")),
            Err(error) => lines.push(format!("{at}: {what} is not JSON, so the scheduler cannot send it: {error}")),
        }
    }
    lines
}

/// The line about an event about which the scheduler never asks a hint: there is no such resource, or the manifest's list
/// does not have the event.
pub(crate) fn unasked(manifest: &Manifest, event: &ClusterEvent) -> Option<String> {
    let (at, resource) = (Point::QueueingHint.shown(), &event.resource);
    if KindRef::of_resource(resource).is_none() {
        let known: Vec<String> = KindRef::well_known().collect();
        let meant = nearest(resource, known.iter().map(String::as_str));
        let meant = meant.map(|name| format!(": did you mean {name:?}?")).unwrap_or_default();
        return Some(format!("{at}: no event has the resource {resource:?}{meant}"));
    }
    let registered = manifest.events_to_register.as_ref()?;
    let is_it = |known: &ClusterEvent| {
        (known.resource == "*" || known.resource == *resource) && known.actions & event.actions != 0
    };
    if registered.iter().any(is_it) {
        return None;
    }
    let actions = event.action_names().join(", ");
    Some(format!(
        "{at}: the scheduler does not ask about {resource} {actions}, because the events of the manifest do not have it: add \
         it to them, or take the event out of the case"
    ))
}

fn place(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// The pod of the cycle as an object.
pub(crate) fn own_key(call: &Call<'_>) -> ObjectKey {
    ObjectKey::named("v1/Pod", call.table.symbols.text(call.pod.namespace), &*call.pod.name)
}

/// The line about a wait for an object of a kind that the manifest does not name.
fn in_vain(needs: &Needs, ObjectKey { api_version, kind, namespace, name }: &ObjectKey) -> String {
    let of_version = needs.objects.iter().filter(|known| known.api_version == *api_version);
    let fix = match nearest(kind, of_version.map(|known| known.kind.as_str())) {
        Some(meant) => format!("write {api_version}/{meant}, which they name"),
        None => format!("add {api_version}/{kind} to `objects`, and grant `reads: [{api_version}/{kind}]`"),
    };
    let place = place(namespace, name);
    format!(
        "the plugin waits for {api_version}/{kind} {place}, and its manifest's `objects` do not name {api_version}/{kind}, \
         so it would never be asked again when that object changes: {fix}"
    )
}

#[cfg(test)]
mod tests {
    use berth_framework::PatchType;

    use super::*;

    #[test]
    fn an_event_that_no_list_has_is_named() {
        fn told(registered: Option<(&str, u32)>, resource: &str, actions: u32) -> Option<String> {
            let events = registered.map(|(resource, actions)| vec![ClusterEvent::new(resource, actions)]);
            let manifest = Manifest { events_to_register: events, ..Manifest::default() };
            unasked(&manifest, &ClusterEvent::new(resource, actions))
        }
        let (add, delete) = (ClusterEvent::ADD, ClusterEvent::DELETE);
        let registered = Some(("Pod", delete));
        assert_eq!(told(registered, "Pod", delete), None);
        assert_eq!(told(Some(("*", add)), "Node", add), None);
        assert_eq!(told(None, "ConfigMap", add), None, "without a list, every event counts");
        let missing = "QueueingHint: the scheduler does not ask about Pod Add, because the events of the manifest do not have \
                       it: add it to them, or take the event out of the case";
        assert_eq!(told(registered, "Pod", add).as_deref(), Some(missing));
        let misspelt = "QueueingHint: no event has the resource \"Pods\": did you mean \"Pod\"?";
        assert_eq!(told(registered, "Pods", delete).as_deref(), Some(misspelt));
    }

    #[test]
    fn a_patch_that_was_cut_off_is_named() {
        let patch = |json: &str| Effect::Patch {
            kind: "v1/Pod".to_owned(),
            namespace: "team".to_owned(),
            name: "web".to_owned(),
            subresource: None,
            patch: json.as_bytes().to_vec(),
            patch_type: PatchType::Merge,
        };
        let told = not_objects(Point::PreBind, &[patch("{}"), patch("{\"metadata\":"), Effect::Bind]);
        let [line] = told.as_slice() else { panic!("{told:?}") };
        let start =
            "PreBind: the patch of v1/Pod team/web is not JSON, so the scheduler cannot send it: EOF while parsing";
        assert!(line.starts_with(start), "{line}");
    }
}
