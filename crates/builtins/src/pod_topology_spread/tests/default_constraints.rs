//! Default constraints, for pods without constraints.

use super::*;
use crate::testing::scores;

const LIST: &str = r#"{"defaultingType":"List","defaultConstraints":[
    {"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]}"#;

fn object(api_version: &str, kind: &str, name: &str, selector: &Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "metadata": { "namespace": "ns", "name": name },
        "spec": { "selector": selector },
    })
}

/// A pod with label `app: web`. Its controller is the `kind` with the name `owner`.
fn owned(api_version: &str, kind: &str) -> Value {
    let mut pod = web(&json!([]));
    let owner = json!({ "apiVersion": api_version, "kind": kind, "name": "owner", "uid": "1", "controller": true });
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod
}

/// The verdicts of one listed default constraint on two nodes in different zones. The first node has a web pod.
fn default_verdicts(objects: &[Value], pod: &Value) -> Result<Vec<String>, Status> {
    let mut world = World::zones(&["a", "b"]);
    world.place_web(0, 1);
    objects.iter().for_each(|object| world.cluster.set_object(object));
    let pod = world.pod(pod);
    let mut plugin = plugin(LIST);
    plugin.pre_filter(&world.cluster.call(1, &pod))?;
    Ok(verdicts(&mut plugin, &world.cluster, &pod))
}

#[test]
fn services_and_controllers_give_the_selector() {
    let web_labels = json!({ "app": "web" });
    let matching = json!({ "matchLabels": { "app": "web" } });
    let other = json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": ["web"] }] });
    let spread = || Ok(vec![SKEWED.to_owned(), String::new()]);
    let all_pass = || Ok(vec![String::new(), String::new()]);
    let skip = || Err(Status::skip());
    let service = |selector: &Value| object("v1", "Service", "service", selector);
    let controller = |selector: &Value| object("v1", "ReplicationController", "owner", selector);
    let set = |kind: &str, selector: &Value| object("apps/v1", kind, "owner", selector);
    let replicas = || owned("apps/v1", "ReplicaSet");
    let cases = [
        (vec![], web(&json!([])), skip()),
        (vec![service(&web_labels)], web(&json!([])), spread()),
        (vec![service(&json!({ "app": "db" }))], web(&json!([])), skip()),
        (vec![service(&json!({ "app": "web", "tier": "none" }))], web(&json!([])), skip()),
        (vec![service(&json!({}))], web(&json!([])), skip()),
        (vec![service(&Value::Null)], web(&json!([])), skip()),
        (vec![set("ReplicaSet", &matching)], replicas(), spread()),
        (vec![set("ReplicaSet", &matching)], web(&json!([])), skip()),
        (vec![set("StatefulSet", &matching)], replicas(), skip()),
        (vec![set("StatefulSet", &matching)], owned("apps/v1", "StatefulSet"), spread()),
        (vec![set("ReplicaSet", &matching)], owned("apps/v1beta1", "ReplicaSet"), skip()),
        (vec![controller(&web_labels)], owned("v1", "ReplicationController"), spread()),
        // The controller's value replaces the service's, and set-based requirements are added.
        (
            vec![service(&web_labels), controller(&json!({ "app": "db" }))],
            owned("v1", "ReplicationController"),
            all_pass(),
        ),
        (vec![service(&web_labels), set("ReplicaSet", &other)], replicas(), all_pass()),
        (vec![service(&web_labels), set("ReplicaSet", &json!({}))], replicas(), spread()),
        // Objects that do not parse are ignored.
        (vec![service(&json!([1])), set("ReplicaSet", &json!("text"))], replicas(), skip()),
        (vec![service(&web_labels), set("ReplicaSet", &json!({ "matchLabels": { "a b": "" } }))], replicas(), spread()),
    ];
    for (objects, pod, expected) in cases {
        assert_eq!(default_verdicts(&objects, &pod), expected, "{objects:?} {pod}");
    }
}

#[test]
fn services_are_followed() {
    let mut world = World::zones(&["a", "b"]);
    world.place_web(0, 1);
    let mut plugin = plugin(LIST);
    let pod = world.pod(&web(&json!([])));
    assert_eq!(plugin.pre_filter(&world.cluster.call(1, &pod)), Err(Status::skip()));
    world.cluster.set_object(&object("v1", "Service", "service", &json!({ "tier": "front" })));
    assert_eq!(plugin.pre_filter(&world.cluster.call(1, &pod)), Err(Status::skip()));
    // The service's label gets a symbol with the first pod that has the label.
    let mut front = web(&json!([]));
    front["metadata"]["labels"]["tier"] = json!("front");
    let pod = world.pod(&front);
    assert_eq!(verdicts(&mut plugin, &world.cluster, &pod), ["", ""]);
    world.place(0, &front);
    assert_eq!(verdicts(&mut plugin, &world.cluster, &pod), [SKEWED, ""]);
    world.cluster.set_object(&object("v1", "Service", "service", &json!({ "tier": "back" })));
    assert_eq!(plugin.pre_filter(&world.cluster.call(1, &pod)), Err(Status::skip()));
}

#[test]
fn own_constraints_replace_the_defaults() {
    let soft = hard("zone", 1, &json!({ "whenUnsatisfiable": "ScheduleAnyway" }));
    let service = object("v1", "Service", "service", &json!({ "app": "web" }));
    assert_eq!(default_verdicts(&[service], &web(&json!([soft]))), Err(Status::skip()));
}

#[test]
fn system_defaults_score_nodes_without_a_zone() {
    let mut world = World::default();
    for (name, zone) in [("n0", Some("a")), ("n1", None), ("n2", None)] {
        let labels = json!({ "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone });
        let labels: serde_json::Map<String, Value> =
            labels.as_object().unwrap().clone().into_iter().filter(|(_, value)| !value.is_null()).collect();
        world.node(&json!({ "metadata": { "name": name, "labels": labels } }));
    }
    world.place_web(0, 2);
    world.place_web(1, 1);
    world.cluster.set_object(&object("v1", "Service", "service", &json!({ "app": "web" })));
    let pod = world.pod(&web(&json!([])));
    // The penalty of n0 is 2 ln 5 + 2 on the host and 2 ln 4 + 4 in the zone. The zone adds nothing on the other nodes.
    let expected = (vec![12, 4, 2], vec![16, 83, 100]);
    assert_eq!(scores(&mut plugin("null"), &world.cluster, &pod), Ok(expected));
    let all_keys = r#"{"defaultingType":"List","defaultConstraints":[
        {"maxSkew":5,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"ScheduleAnyway"}]}"#;
    // The only zone has a penalty of 2 ln 3 + 4. Nodes without a zone are left out.
    assert_eq!(scores(&mut plugin(all_keys), &world.cluster, &pod), Ok((vec![6, 0, 0], vec![100, 0, 0])));
}
