//! Defaults and limits of each built-in plugin's arguments.

use serde_json::{Value, json};

use berth_model::{Features, Release};

use super::complete_args;
use crate::error::Problems;

fn check(plugin: &str, raw: &Value, expected: &Value) {
    let problems = Problems::default();
    let args = complete_args(plugin, Features::default(), "args", Some(raw), &problems);
    problems.settle("f").expect("the arguments are valid");
    assert_eq!(args.as_ref(), Some(expected), "{plugin} {raw}");
}

fn check_refused(plugin: &str, raw: &Value, expected: &[&str]) {
    let problems = Problems::default();
    complete_args(plugin, Features::default(), "args", Some(raw), &problems);
    let error = problems.settle("f").expect_err("must be refused").to_string();
    let lines: Vec<_> = error.lines().map(|line| line.trim_start_matches("f: args")).collect();
    assert_eq!(lines, expected, "{plugin} {raw}");
}

#[test]
fn missing_arguments_take_kube_scheduler_defaults() {
    let cpu_and_memory = json!([{ "name": "cpu", "weight": 1 }, { "name": "memory", "weight": 1 }]);
    let cases = [
        ("DefaultPreemption", json!({ "minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100 })),
        ("DynamicResources", json!({ "filterTimeout": "10s", "bindingTimeout": "10m0s" })),
        ("InterPodAffinity", json!({ "hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": false })),
        ("NodeAffinity", json!({})),
        ("NodeResourcesBalancedAllocation", json!({ "resources": cpu_and_memory })),
        (
            "NodeResourcesFit",
            json!({
                "ignoredResources": [], "ignoredResourceGroups": [],
                "scoringStrategy": { "type": "LeastAllocated", "resources": cpu_and_memory },
            }),
        ),
        ("PodTopologySpread", json!({ "defaultingType": "System", "defaultConstraints": [] })),
        ("VolumeBinding", json!({ "bindTimeoutSeconds": 600 })),
    ];
    for (plugin, expected) in cases {
        check(plugin, &json!({}), &expected);
        let kind = format!("{plugin}Args");
        check(plugin, &json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": kind }), &expected);
    }
}

#[test]
fn given_arguments_are_kept() {
    let shape = json!([{ "utilization": 0, "score": 0 }, { "utilization": 70, "score": 10 }]);
    let strategy = json!({
        "type": "RequestedToCapacityRatio", "resources": [{ "name": "nvidia.com/gpu", "weight": 5 }],
        "requestedToCapacityRatio": { "shape": shape },
    });
    check(
        "NodeResourcesFit",
        &json!({ "ignoredResources": ["example.com/widget"], "scoringStrategy": strategy }),
        &json!({
            "ignoredResources": ["example.com/widget"], "ignoredResourceGroups": [], "scoringStrategy": strategy,
        }),
    );
    let spread = json!({
        "defaultingType": "List",
        "defaultConstraints": [{ "maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule" }],
    });
    check("PodTopologySpread", &spread, &spread);
    let affinity = json!({ "addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "disktype", "operator": "In", "values": ["ssd"] }] },
        ] },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 7, "preference": { "matchFields": [
                { "key": "metadata.name", "operator": "NotIn", "values": ["n1"] },
            ] } },
        ],
    } });
    check("NodeAffinity", &affinity, &affinity);
    check(
        "NodeResourcesBalancedAllocation",
        &json!({ "resources": [{ "name": "cpu", "weight": 0 }] }),
        &json!({ "resources": [{ "name": "cpu", "weight": 1 }] }),
    );
}

#[test]
fn small_arguments_out_of_range_are_refused() {
    check_refused(
        "DefaultPreemption",
        &json!({ "minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1 }),
        &[
            ".minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
            ".minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ],
    );
    check_refused(
        "DefaultPreemption",
        &json!({ "minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0 }),
        &[
            ".minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as \
             args.minCandidateNodesAbsolute",
            ".minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as \
             args.minCandidateNodesPercentage",
        ],
    );
    check_refused(
        "InterPodAffinity",
        &json!({ "hardPodAffinityWeight": 101, "weight": 1 }),
        &[
            ".hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
            ".weight: unknown field; remove it or use one of: apiVersion, kind, hardPodAffinityWeight, \
             ignorePreferredTermsOfExistingPods",
        ],
    );
    check_refused(
        "DynamicResources",
        &json!({ "filterTimeout": "-1s", "bindingTimeout": "10ms" }),
        &[
            ".filterTimeout: Invalid value: \"-1s\": must be zero (no timeout) or positive",
            ".bindingTimeout: Invalid value: \"10ms\": must be at least 1 second",
        ],
    );
    check_refused(
        "VolumeBinding",
        &json!({ "kind": "OtherArgs", "bindTimeoutSeconds": -1, "shape": [] }),
        &[
            ".kind: Unsupported value: \"OtherArgs\": supported values: \"VolumeBindingArgs\"",
            ".bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
            ".shape: Forbidden: unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
        ],
    );
}

#[test]
fn resource_lists_and_shapes_are_checked() {
    check_refused(
        "NodeResourcesBalancedAllocation",
        &json!({ "resources": [{ "name": "cpu", "weight": 2 }, { "name": "cpu" }] }),
        &[
            ".resources[0].weight: Invalid value: 2: resource weight of cpu should be 1, got 2",
            ".resources[1].name: Duplicate value: \"cpu\": keep one of them",
        ],
    );
    check_refused(
        "NodeResourcesFit",
        &json!({
            "ignoredResourceGroups": ["a/b"],
            "scoringStrategy": {
                "type": "Best", "resources": [{ "name": "cpu", "weight": 101 }],
                "requestedToCapacityRatio": { "shape": [
                    { "utilization": 50, "score": 0 }, { "utilization": 50, "score": 11 },
                ] },
            },
        }),
        &[
            ".ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
            ".scoringStrategy.type: Unsupported value: \"Best\": supported values: \"LeastAllocated\", \
             \"MostAllocated\", \"RequestedToCapacityRatio\"",
            ".scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
            ".scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 50: utilization values \
             must be sorted in increasing order",
            ".scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: 11: not in valid range [0, 10]",
        ],
    );
    check_refused(
        "NodeResourcesFit",
        &json!({ "scoringStrategy": { "type": "RequestedToCapacityRatio" } }),
        &[".scoringStrategy.requestedToCapacityRatio: Required value: this scoring strategy needs a shape"],
    );
}

#[test]
fn constraints_and_selectors_are_checked() {
    let constraint = json!({ "maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway" });
    check_refused(
        "PodTopologySpread",
        &json!({ "defaultConstraints": [constraint] }),
        &[".defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty, use List"],
    );
    check_refused(
        "PodTopologySpread",
        &json!({ "defaultingType": "List", "defaultConstraints": [
            constraint, constraint, { "whenUnsatisfiable": "Never", "labelSelector": {} },
        ] }),
        &[
            ".defaultConstraints[1]: Duplicate value: \"{\\\"rack\\\", \\\"ScheduleAnyway\\\"}\": keep one of them",
            ".defaultConstraints[2].maxSkew: Invalid value: 0: not in valid range (0, inf)",
            ".defaultConstraints[2].topologyKey: Required value: can not be empty",
            ".defaultConstraints[2].whenUnsatisfiable: Unsupported value: \"Never\": supported values: \
             \"DoNotSchedule\", \"ScheduleAnyway\"",
            ".defaultConstraints[2].labelSelector: Forbidden: constraint must not define a selector, as they deduced \
             for each pod",
        ],
    );
    check_refused(
        "PodTopologySpread",
        &json!({ "defaultingType": "List", "defaultConstraints": [
            { "maxSkew": 1, "topologyKey": "a b", "whenUnsatisfiable": "ScheduleAnyway" },
        ] }),
        &[".defaultConstraints[0].topologyKey: Invalid value: \"a b\": name part must be 1 to 63 letters, digits, \
             '-', '_' or '.', beginning and ending with a letter or digit"],
    );
    check_refused(
        "NodeAffinity",
        &json!({ "addedAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "disk", "operator": "In" }, { "key": "disk", "operator": "Gt" }] },
        ] } } }),
        &[
            ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]\
             .values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[1]\
             .values: Required value: must be one whole number when `operator` is 'Lt' or 'Gt'",
        ],
    );
}

/// The gate StorageCapacityScoring is on by default from 1.37 on.
#[test]
fn volume_binding_may_have_a_shape_from_1_37_on() {
    let read = |raw: Value| {
        Release::ALL.map(|release| {
            let problems = Problems::default();
            let args = complete_args("VolumeBinding", Features::of(release), "args", Some(&raw), &problems);
            let shape = args.unwrap_or_default()["shape"].clone();
            problems.settle("f").map(|()| shape).map_err(|error| error.to_string())
        })
    };
    let point = |utilization: i64, score: i64| json!({"utilization": utilization, "score": score});
    let default = json!([point(0, 10), point(100, 0)]);
    assert_eq!(read(json!({})), [Ok(Value::Null), Ok(default.clone())]);
    let forbidden = "f: args.shape: Forbidden: unexpected field `shape`, remove it or turn on the feature gate \
                     StorageCapacityScoring";
    assert_eq!(read(json!({"shape": []})), [Err(forbidden.to_owned()), Ok(default)]);
    let given = json!([point(0, 0), point(50, 10), point(100, 10)]);
    assert_eq!(read(json!({ "shape": given })), [Err(forbidden.to_owned()), Ok(given)]);
    for (wrong, text) in [
        (json!([point(50, 0), point(50, 10)]), "args.shape[1].utilization: Invalid value: 50"),
        (json!([point(0, 11)]), "args.shape[0].score: Invalid value: 11"),
        (json!("steep"), "args.shape: "),
    ] {
        let [_, refused] = read(json!({ "shape": wrong }));
        let refused = refused.expect_err("refused");
        assert!(refused.contains(text), "{refused}");
    }
}
