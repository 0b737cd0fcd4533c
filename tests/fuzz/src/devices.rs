//! CEL selectors on arbitrary devices, through the plugin that evaluates them.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{cluster::FuzzCluster, single};

const API_VERSION: &str = "resource.k8s.io/v1";

#[derive(Deserialize)]
struct Case {
    expression: String,
    #[serde(default)]
    device: Value,
}

/// `{expression, device}`, or the expression alone.
pub(crate) fn selector(bytes: &[u8]) {
    let case = serde_json::from_slice(bytes).unwrap_or_else(|_| Case {
        expression: String::from_utf8_lossy(bytes).into_owned(),
        device: json!({"attributes": {"example.com/model": {"string": "a"}, "index": {"int": 1}},
            "capacity": {"memory": {"value": "1Gi"}}}),
    });
    let mut device = case.device;
    if let Some(fields) = device.as_object_mut() {
        fields.entry("name").or_insert_with(|| json!("device"));
    }
    let select = json!([{"cel": {"expression": case.expression}}]);
    let request = json!({"name": "r", "exactly": {"deviceClassName": "class", "selectors": select}});
    let object = |kind: &str, name: &str, namespace: &str, spec: Value| {
        json!({"apiVersion": API_VERSION, "kind": kind, "spec": spec,
            "metadata": {"name": name, "uid": name, "namespace": namespace}})
    };
    let pool = json!({"name": "one", "generation": 1, "resourceSliceCount": 1});
    let document = json!({
        "objects": {
            "nodes": [{"metadata": {"name": "one"}}],
            "deviceclasses": [object("DeviceClass", "class", "", json!({}))],
            "resourceslices": [object("ResourceSlice", "slice", "", json!({
                "driver": "example.com", "nodeName": "one", "pool": pool, "devices": [device],
            }))],
            "resourceclaims": [object("ResourceClaim", "claim", "default", json!({"devices": {"requests": [request]}}))],
        },
        "pod": {
            "metadata": {"name": "p", "namespace": "default", "uid": "p"},
            "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "claim"}]},
        },
    });
    let Some((cluster, pod)) = FuzzCluster::build(&document) else { unreachable!("the pod above decodes") };
    let plugin = berth_builtins::factory("DynamicResources").map(|factory| factory.build("null"));
    if let Some(Ok(mut plugin)) = plugin {
        single::ask(&mut *plugin, &cluster, &pod);
    }
}
