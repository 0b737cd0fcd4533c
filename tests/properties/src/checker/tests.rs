//! Tests of each rule, with a placement that violates it and a placement that does not.

use serde_json::json;

use super::*;

/// Two zones: `a1` and `a2`, `b1`.
struct Place {
    nodes: BTreeMap<String, Value>,
    placed: Vec<(Value, String)>,
    objects: BTreeMap<(Kind, String, String), Value>,
}

fn place() -> Place {
    let node = |name: &str, zone: &str| {
        let labels = json!({"zone": zone, "kubernetes.io/hostname": name});
        let allocatable = json!({"cpu": "2", "memory": "1Gi", "pods": "3"});
        let node =
            json!({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": allocatable}});
        (name.to_owned(), node)
    };
    let nodes = [node("a1", "a"), node("a2", "a"), node("b1", "b")].into();
    Place { nodes, placed: Vec::new(), objects: BTreeMap::new() }
}

fn pod(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "red", "uid": name, "labels": {"app": "web"}}, "spec": spec})
}

fn asking(requests: &Value) -> Value {
    json!({"containers": [{"resources": {"requests": requests}}]})
}

impl Place {
    fn with(mut self, node: &str, pod: Value) -> Self {
        self.placed.push((pod, node.to_owned()));
        self
    }

    fn edit(mut self, node: &str, edit: impl FnOnce(&mut Value)) -> Self {
        self.nodes.entry(node.to_owned()).and_modify(edit);
        self
    }

    fn object(mut self, kind: Kind, object: Value) -> Self {
        let key = (kind, text(&object, "/metadata/namespace").to_owned(), text(&object, "/metadata/name").to_owned());
        self.objects.insert(key, object);
        self
    }

    fn ask(&self, rules: fn(&Facts<'_>, &Value, &str) -> Vec<String>, pod: &Value, node: &str) -> Vec<String> {
        let placed: Vec<(&Value, &str)> = self.placed.iter().map(|(pod, node)| (pod, node.as_str())).collect();
        rules(&Facts { nodes: &self.nodes, placed: &placed, objects: &self.objects }, pod, node)
    }

    #[track_caller]
    fn fits(&self, pod: &Value, node: &str) {
        assert_eq!(self.ask(violations, pod, node), Vec::<String>::new());
    }

    /// One rule is violated, with these words.
    #[track_caller]
    fn breaks(&self, pod: &Value, node: &str, words: &str) {
        let broken = self.ask(violations, pod, node);
        assert!(broken.len() == 1 && broken[0].contains(words), "{words}: {broken:?}");
    }
}

#[test]
fn a_node_must_be_there() {
    place().breaks(&pod("p", json!({})), "c1", "no node");
}

#[test]
fn resources_are_summed() {
    let half = place().with("a1", pod("other", asking(&json!({"cpu": "1500m", "memory": "512Mi"}))));
    half.fits(&pod("p", asking(&json!({"cpu": "500m", "memory": "512Mi"}))), "a1");
    half.breaks(&pod("p", asking(&json!({"cpu": "501m"}))), "a1", "of cpu");
    half.breaks(&pod("p", asking(&json!({"memory": "600Mi"}))), "a1", "of memory");
    half.breaks(&pod("p", asking(&json!({"example.com/gpu": "1"}))), "a1", "of example.com/gpu");
    half.fits(&pod("p", asking(&json!({"cpu": "2"}))), "a2");
}

#[test]
fn init_containers_sidecars_overhead_and_pods_as_a_whole_count() {
    let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
    let sidecar = |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
    let cases = [
        (json!({"containers": [container("1"), container("1")]}), true),
        (json!({"containers": [container("1"), container("1001m")]}), false),
        (json!({"containers": [container("1")], "initContainers": [container("2")]}), true),
        (json!({"containers": [container("1")], "initContainers": [container("2001m")]}), false),
        (json!({"containers": [container("1")], "initContainers": [sidecar("1")]}), true),
        (json!({"containers": [container("1")], "initContainers": [sidecar("1001m")]}), false),
        (json!({"containers": [container("1")], "initContainers": [sidecar("1"), container("1001m")]}), false),
        (json!({"containers": [container("1")], "initContainers": [container("2"), sidecar("1")]}), true),
        (json!({"containers": [container("1")], "overhead": {"cpu": "1001m"}}), false),
        (json!({"containers": [container("3")], "resources": {"requests": {"cpu": "2"}}}), true),
        (json!({"containers": [container("1")], "resources": {"requests": {"cpu": "2001m"}}}), false),
    ];
    for (spec, fits) in cases {
        let broken = place().ask(violations, &pod("p", spec.clone()), "a1");
        assert_eq!(broken.is_empty(), fits, "{spec}: {broken:?}");
    }
}

#[test]
fn places_for_pods_are_counted() {
    let other = |name: &str| pod(name, json!({}));
    let two = place().with("a1", other("x")).with("a1", other("y"));
    two.fits(&pod("p", json!({})), "a1");
    two.with("a1", other("z")).breaks(&pod("p", json!({})), "a1", "places");
}

#[test]
fn ports_are_taken_once() {
    let with_port = |port: Value| pod("p", json!({"containers": [{"ports": [port]}]}));
    let taken = place().with("a1", with_port(json!({"hostPort": 80, "hostIP": "10.0.0.1"})));
    taken.breaks(&with_port(json!({"hostPort": 80})), "a1", "port 80");
    taken.breaks(&with_port(json!({"hostPort": 80, "hostIP": "10.0.0.1", "protocol": "TCP"})), "a1", "port 80");
    taken.fits(&with_port(json!({"hostPort": 80, "hostIP": "10.0.0.2"})), "a1");
    taken.fits(&with_port(json!({"hostPort": 80, "protocol": "UDP"})), "a1");
    taken.fits(&with_port(json!({"hostPort": 81})), "a1");
    taken.fits(&with_port(json!({"hostPort": 80})), "a2");
    let sidecar = pod("p", json!({"initContainers": [{"restartPolicy": "Always", "ports": [{"hostPort": 80}]}]}));
    taken.breaks(&sidecar, "a1", "port 80");
}

#[test]
fn pods_choose_nodes() {
    let words = "not among those";
    place().breaks(&pod("p", json!({"nodeSelector": {"zone": "a"}})), "b1", words);
    place().fits(&pod("p", json!({"nodeSelector": {"zone": "b"}})), "b1");
    let wants = |terms: Value| {
        let required = json!({"nodeSelectorTerms": terms});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        pod("p", json!({"affinity": affinity}))
    };
    let zone = |operator: &str, zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": operator, "values": [zone]}]});
    place().breaks(&wants(json!([zone("In", "a")])), "b1", words);
    place().breaks(&wants(json!([zone("NotIn", "b")])), "b1", words);
    place().fits(&wants(json!([zone("In", "a"), zone("In", "b")])), "b1");
    place().breaks(&wants(json!([{}])), "b1", words);
    let named = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a1"]}]}]);
    place().breaks(&wants(named.clone()), "b1", words);
    place().fits(&wants(named), "a1");
    let ranked = place().edit("a1", |node| node["metadata"]["labels"]["rank"] = json!("5"));
    let rank = |operator: &str, than: &str| json!([{"matchExpressions": [{"key": "rank", "operator": operator, "values": [than]}]}]);
    ranked.fits(&wants(rank("Gt", "4")), "a1");
    ranked.breaks(&wants(rank("Gt", "5")), "a1", words);
    ranked.breaks(&wants(rank("Lt", "6")), "a2", words);
}

#[test]
fn taints_keep_away() {
    for effect in ["NoSchedule", "NoExecute"] {
        let tainted =
            place().edit("a1", |node| node["spec"]["taints"] = json!([{"key": "k", "value": "v", "effect": effect}]));
        tainted.breaks(&pod("p", json!({})), "a1", "not tolerated");
        let other = json!({"tolerations": [{"key": "k", "value": "other"}]});
        tainted.breaks(&pod("p", other), "a1", "not tolerated");
        tainted.fits(&pod("p", json!({"tolerations": [{"key": "k", "value": "v", "effect": effect}]})), "a1");
        tainted.fits(&pod("p", json!({"tolerations": [{"operator": "Exists"}]})), "a1");
    }
    let preferred = json!([{"key": "k", "effect": "PreferNoSchedule"}]);
    place().edit("a1", |node| node["spec"]["taints"] = preferred).fits(&pod("p", json!({})), "a1");
}

#[test]
fn cordoned_nodes_take_no_pods() {
    let cordoned = place().edit("a1", |node| node["spec"]["unschedulable"] = json!(true));
    cordoned.breaks(&pod("p", json!({})), "a1", "cordoned");
    let tolerant = json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]});
    cordoned.fits(&pod("p", tolerant), "a1");
}

fn with_term(kind: &str, term: &Value) -> Value {
    pod("p", json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}))
}

#[test]
fn pods_want_company() {
    let db = json!({"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"});
    let mut company = pod("db", json!({}));
    company["metadata"]["labels"]["app"] = json!("db");
    let wants = with_term("podAffinity", &db);
    place().breaks(&wants, "a1", "no pod to be near to");
    let near = place().with("a2", company.clone());
    near.fits(&wants, "a1");
    near.breaks(&wants, "b1", "no pod to be near to");
    company["metadata"]["namespace"] = json!("blue");
    let elsewhere = place().with("a2", company);
    elsewhere.breaks(&wants, "a1", "no pod to be near to");
    let mut anywhere = db.clone();
    anywhere["namespaceSelector"] = json!({});
    elsewhere.fits(&with_term("podAffinity", &anywhere), "a1");
    let first =
        with_term("podAffinity", &json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}));
    place().fits(&first, "a1");
    place().with("a1", pod("web", json!({}))).breaks(&first, "b1", "no pod to be near to");
    let nowhere = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "row"});
    place().breaks(&with_term("podAffinity", &nowhere), "a1", "in no row");
}

#[test]
fn pods_avoid_each_other_both_ways() {
    let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"});
    let shy = with_term("podAntiAffinity", &term);
    let other = place().with("a2", pod("web", json!({})));
    other.breaks(&shy, "a1", "too near");
    other.fits(&shy, "b1");
    let with_shy = place().with("a2", shy);
    with_shy.breaks(&pod("web", json!({})), "a1", "does not want it near");
    with_shy.fits(&pod("web", json!({})), "b1");
}

#[test]
fn pods_are_spread() {
    let spread = |edit: fn(&mut Value)| {
        let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}});
        edit(&mut constraint);
        pod("p", json!({"topologySpreadConstraints": [constraint]}))
    };
    let one = place().with("a2", pod("web", json!({})));
    one.breaks(&spread(|_| {}), "a1", "2 pods in a, 0 elsewhere");
    one.fits(&spread(|_| {}), "b1");
    one.fits(&spread(|it| it["maxSkew"] = json!(2)), "a1");
    one.fits(&spread(|it| it["whenUnsatisfiable"] = json!("ScheduleAnyway")), "a1");
    let both = place().with("a2", pod("web", json!({}))).with("b1", pod("web-2", json!({})));
    both.fits(&spread(|_| {}), "a1");
    both.breaks(&spread(|it| it["minDomains"] = json!(3)), "a1", "0 elsewhere");
    place().breaks(&spread(|it| it["topologyKey"] = json!("row")), "a1", "in no row");
    let tainted = one.edit("b1", |node| node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]));
    tainted.breaks(&spread(|_| {}), "a1", "0 elsewhere");
    tainted.fits(&spread(|it| it["nodeTaintsPolicy"] = json!("Honor")), "a1");
}

fn claim(mode: &str, volume: &str) -> Value {
    json!({"metadata": {"name": "c", "namespace": "red"}, "spec": {"accessModes": [mode], "volumeName": volume}})
}

fn with_claim(name: &str) -> Value {
    pod(name, json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}))
}

#[test]
fn a_claim_for_one_pod_serves_one_pod() {
    let shared = place().with("a2", with_claim("other")).object(Kind::Claim, claim("ReadWriteOnce", ""));
    shared.fits(&with_claim("p"), "a1");
    let exclusive = place().with("a2", with_claim("other")).object(Kind::Claim, claim("ReadWriteOncePod", ""));
    exclusive.breaks(&with_claim("p"), "a1", "in use by another pod");
}

#[test]
fn volumes_must_be_within_reach() {
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}});
    let volume = json!({"metadata": {"name": "volume"}, "spec": {"nodeAffinity": affinity}});
    let bound = place().object(Kind::Claim, claim("ReadWriteOnce", "volume"));
    assert!(bound.ask(volume_violations, &with_claim("p"), "a1")[0].contains("has no volume"));
    let bound = bound.object(Kind::Volume, volume);
    assert!(bound.ask(volume_violations, &with_claim("p"), "a1").is_empty());
    assert!(bound.ask(volume_violations, &with_claim("p"), "b1")[0].contains("cannot be used from the node"));
}

#[test]
fn devices_belong_to_one_claim_and_to_a_node() {
    let selector =
        json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a1"]}]}]});
    let result = json!({"request": "r", "driver": "d", "pool": "p", "device": "one"});
    let claim = |name: &str| {
        let allocation = json!({"devices": {"results": [result]}, "nodeSelector": selector});
        json!({"metadata": {"name": name, "namespace": "red"}, "status": {"allocation": allocation}})
    };
    let user = pod("p", json!({"resourceClaims": [{"name": "x", "resourceClaimName": "mine"}]}));
    let words = |place: &Place, node: &str| place.ask(device_violations, &user, node).concat();
    assert!(words(&place(), "a1").contains("not at hand"));
    let mine = place().object(Kind::DeviceClaim, claim("mine"));
    assert_eq!(words(&mine, "a1"), "");
    assert!(words(&mine, "b1").contains("not at hand"));
    assert!(words(&mine.object(Kind::DeviceClaim, claim("yours")), "a1").contains("d/p/one of"));
}
