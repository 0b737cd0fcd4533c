//! Kubernetes 1.36 and 1.37 allocate these cases differently. Each test allocates its case by the rules of both releases.

use berth_model::Release;

use super::*;

/// The results in 1.36 and in 1.37.
fn in_each(inventory: impl Fn() -> TestInventory, devices: &Value) -> [Vec<String>; 2] {
    Release::ALL.map(|release| {
        let mut inventory = inventory();
        inventory.features = Features::of(release);
        inventory.selectors = Selectors::new(inventory.features);
        inventory.shown(devices.clone())
    })
}

#[test]
fn distinct_attributes_differ_among_all_devices_of_a_request() {
    let numa = |node: i64| json!({"attributes": {"example.com/numa": {"int": node}}});
    let mut devices = requests(&[one("r", json!({"count": 3}))]);
    devices["constraints"] = json!([{"distinctAttribute": "example.com/numa"}]);
    let [old, new] = in_each(|| TestInventory::new(&[slice("p", gpus(&[numa(0), numa(1), numa(0)]))]), &devices);
    assert_eq!(old, ["r: gpu-0", "r: gpu-1", "r: gpu-2"], "the first and the third are alike");
    assert_eq!(new, ["nothing"]);
}

#[test]
fn all_devices_need_capacity() {
    let shared = json!({"allowMultipleAllocations": true, "capacity": {"memory": {"value": "10Gi"}}});
    let held = json!([{"driver": "gpu.example.com", "pool": "p", "device": "gpu-0", "shareID": "s",
        "consumedCapacity": {"memory": "10Gi"}}]);
    let all = json!({"allocationMode": "All", "count": 0, "capacity": {"requests": {"memory": "1Gi"}}});
    let inventory =
        || TestInventory::new(&[slice("p", gpus(&[shared.clone(), shared.clone()]))]).with_held(held.clone());
    let [old, new] = in_each(inventory, &requests(&[one("r", all)]));
    assert_eq!(old, ["r: gpu-1"], "a part of all devices");
    assert_eq!(new, ["nothing"]);
}

#[test]
fn counters_of_a_failed_try_are_given_back() {
    let counters = json!([{"counterSet": "gpu", "counters": {"memory": {"value": "40Gi"}}}]);
    let tainted = json!({"consumesCounters": counters, "taints": [{"key": "bad", "effect": "NoSchedule"}]});
    let mut spec = slice("p", gpus(&[tainted, json!({"consumesCounters": counters})]));
    spec["sharedCounters"] = json!([{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]);
    let [old, new] = in_each(|| TestInventory::new(&[spec.clone()]), &requests(&[one("r", json!({}))]));
    assert_eq!(old, ["nothing"], "the device with the taint keeps its counters");
    assert_eq!(new, ["r: gpu-1"]);
}

/// 1.36 finds the counters of a pool by the pool's name, without the driver.
#[test]
fn pools_of_one_name_have_their_own_counters() {
    let slice_of = |driver: &str, n_devices: usize| {
        let consuming = json!({"consumesCounters": [{"counterSet": driver, "counters": {"c": {"value": "1"}}}]});
        let devices = gpus(&vec![consuming; n_devices]);
        json!({"driver": driver, "pool": {"name": "p"}, "nodeName": "node-1", "devices": devices,
            "sharedCounters": [{"name": driver, "counters": {"c": {"value": "1"}}}]})
    };
    let inventory = || TestInventory::new(&[slice_of("a.example.com", 1), slice_of("b.example.com", 2)]);
    let first = one("x", json!({"selectors": cel("device.driver == 'a.example.com'")}));
    let two = one("y", json!({"selectors": cel("device.driver == 'b.example.com'"), "count": 2}));
    assert_eq!(in_each(inventory, &requests(std::slice::from_ref(&two))), [["nothing"]; 2]);
    let [old, new] = in_each(inventory, &requests(&[first, two]));
    assert_eq!(old, ["x: gpu-0", "y: gpu-0", "y: gpu-1"], "the counters of b.example.com do not count");
    assert_eq!(new, ["nothing"]);
}

/// The pools of another node with counters: one that is incomplete, and one with wrong counters.
#[test]
fn slices_with_counters_are_for_their_nodes() {
    let on_node_2 = |more: Value| {
        let mut slice = json!({"driver": "gpu.example.com", "pool": {"name": "other", "resourceSliceCount": 2},
            "nodeName": "node-2"});
        slice.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        slice
    };
    let counters =
        || on_node_2(json!({"sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]}));
    let here = || slice("p", gpus(&[json!({})]));
    let incomplete = || TestInventory::new(&[counters(), here()]);
    let all = requests(&[one("r", json!({"allocationMode": "All", "count": 0}))]);
    let [old, new] = in_each(incomplete, &all);
    let updated = "claim default/claim, request r: asks for all devices, but resource pool gpu.example.com/other is \
                   currently being updated";
    assert_eq!(old, [updated]);
    assert_eq!(new, ["r: gpu-0"]);
    assert_eq!(in_each(incomplete, &requests(&[one("r", json!({}))])), [["r: gpu-0"]; 2]);

    let consuming = json!([{"counterSet": "gone", "counters": {"memory": {"value": "40Gi"}}}]);
    let wrong = || on_node_2(json!({"devices": [{"name": "gpu-0", "consumesCounters": consuming}]}));
    let invalid = || TestInventory::new(&[counters(), here(), wrong()]);
    let [old, new] = in_each(invalid, &requests(&[one("r", json!({"count": 2}))]));
    assert_eq!(old, ["nothing without an invalid pool"]);
    assert_eq!(new, ["nothing"]);
    let complete = || {
        let device = on_node_2(json!({"devices": [{"name": "gpu-0"}]}));
        TestInventory::new(&[counters(), here(), device])
    };
    assert_eq!(in_each(complete, &all), [["r: gpu-0"]; 2]);
}

#[test]
fn a_configuration_is_written_once() {
    let mut devices = requests(&[one("x", json!({})), one("y", json!({}))]);
    let opaque = json!({"driver": "d", "parameters": 1});
    devices["config"] = json!([{"requests": ["x", "y"], "opaque": opaque}]);
    let written = Release::ALL.map(|release| {
        let mut inventory = TestInventory::new(&[slice("p", gpus(&[json!({}), json!({})]))]);
        inventory.features = Features::of(release);
        serde_json::to_value(inventory.first(devices.clone()).allocation.devices.config).unwrap()
    });
    let for_both = json!({"source": "FromClaim", "requests": ["x", "y"], "opaque": opaque});
    let for_all = json!({"source": "FromClaim", "opaque": opaque});
    assert_eq!(written, [json!([for_both, for_both]), json!([for_all])]);
}

#[test]
fn errors_of_selectors_name_the_device() {
    let selectors = cel("device.attributes['gpu.example.com'].nope == 1");
    let devices = requests(&[one("r", json!({ "selectors": selectors }))]);
    let errors = in_each(|| TestInventory::new(&[slice("p", gpus(&[json!({})]))]), &devices);
    let advice = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for \
                  optional fields";
    let expected = [("", ""), (" on device gpu.example.com/p/gpu-0", advice)];
    for (error, (place, advice)) in errors.iter().zip(expected) {
        let start = format!("claim default/claim: selector #0{place}: CEL runtime error: no such key: nope{advice}");
        assert!(error[0].starts_with(&start), "{error:?}");
    }
}

#[test]
fn a_selector_that_cannot_be_compiled_names_no_device() {
    let devices = requests(&[one("r", json!({ "selectors": cel("device.drivr == 'a'") }))]);
    for error in in_each(|| TestInventory::new(&[slice("p", gpus(&[json!({})]))]), &devices) {
        let start = "claim default/claim: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:7: undefined \
                     field 'drivr'";
        assert!(error[0].starts_with(start), "{error:?}");
    }
}

#[test]
fn selectors_see_attributes_that_are_lists() {
    let models = json!({"attributes": {"models": {"strings": ["a", "b"]}}});
    let selectors = cel("device.attributes['gpu.example.com'].models.includes('b')");
    let devices = requests(&[one("r", json!({ "selectors": selectors }))]);
    let [old, new] = in_each(|| TestInventory::new(&[slice("p", gpus(std::slice::from_ref(&models)))]), &devices);
    assert!(old[0].contains("no such key: models"), "{old:?}");
    assert_eq!(new, ["r: gpu-0"]);
}
