//! Makes a cluster from objects, with the changes that the API server and the controllers would make.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::api;
use serde_json::{Value, json};

use super::{Cluster, ClusterNode, ClusterPod};
use crate::{
    admission::Admission,
    fields::{fields, items, letters, text},
    manifest::{Manifest, Place, ReadError},
    workloads::{self, Controlled, daemon_sets::DaemonSet, namespace_of},
};

/// The maximum number of pods in a cluster. It is several times the number that Kubernetes supports
/// (<https://kubernetes.io/docs/setup/best-practices/cluster-large/>).
const MAX_PODS: u64 = 1_000_000;

/// A cluster that is being made.
#[derive(Debug)]
pub(super) struct Builder {
    cluster: Cluster,
    errors: Vec<ReadError>,
    admission: Admission,
    controlled: Controlled,
    /// ResourceClaimTemplates by namespace and name.
    claim_templates: BTreeMap<(String, String), Value>,
    /// The DaemonSets, each with its place in the manifests.
    daemon_sets: Vec<(DaemonSet, Place)>,
    namespaces: BTreeSet<String>,
}

impl Builder {
    pub(super) fn new(errors: Vec<ReadError>) -> Self {
        Self {
            cluster: Cluster::default(),
            errors,
            admission: Admission::default(),
            controlled: Controlled::default(),
            claim_templates: BTreeMap::new(),
            daemon_sets: Vec::new(),
            namespaces: BTreeSet::new(),
        }
    }

    /// Gives new pods uids with this prefix.
    pub(super) fn with_uids_below(mut self, prefix: &'static str) -> Self {
        self.admission = Admission::with_uids_below(prefix);
        self
    }

    /// Examines an object. All objects are examined before any object is added, because an object may need objects that
    /// come later.
    pub(super) fn look_at(&mut self, object: &Value) {
        self.admission.see(object);
        self.controlled.see(object);
        if text(object, "/kind") == "ResourceClaimTemplate" {
            let key = (namespace_of(object).to_owned(), text(object, "/metadata/name").to_owned());
            self.claim_templates.insert(key, object.clone());
        }
    }

    pub(super) fn add(&mut self, manifest: Manifest) {
        let added = match text(&manifest.object, "/kind") {
            "Node" => self.add_node(&manifest),
            "Pod" => self.add_pod(manifest.object, &manifest.place, ""),
            "DaemonSet" => self.add_daemon_set(manifest),
            _ if workloads::is_workload(&manifest.object) => self.add_workload(manifest),
            _ => {
                self.add_object(manifest.object);
                Ok(())
            }
        };
        self.errors.extend(added.err());
    }

    fn add_node(&mut self, manifest: &Manifest) -> Result<(), ReadError> {
        let node = decode_node(manifest)?;
        self.cluster.nodes.push(node);
        Ok(())
    }

    /// Adds a pod. `prefix` is the place of the pod's fields in the object.
    fn add_pod(&mut self, mut object: Value, place: &Place, prefix: &str) -> Result<(), ReadError> {
        let number = self.cluster.pods.len();
        self.admission
            .admit(&mut object, number)
            .map_err(|refusal| place.error_at(&object, &format!("{prefix}{}", refusal.field), refusal.reason))?;
        let mut pod: api::Pod = place.decode_below(&object, prefix)?;
        if matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
            return Ok(());
        }
        if is_lost(&pod) {
            let reason = "a pod needs at least one container";
            return Err(place.error_at(&object, &format!("{prefix}/spec/containers"), reason));
        }
        if pod.spec.node_name.is_empty() {
            self.make_claims(&mut object, &mut pod);
        }
        self.namespaces.insert(pod.metadata.namespace.clone());
        self.cluster.pods.push(ClusterPod { pod: Arc::new(pod), object: Arc::new(object), known: None });
        Ok(())
    }

    fn add_daemon_set(&mut self, manifest: Manifest) -> Result<(), ReadError> {
        let template = manifest.object.pointer("/spec/template/spec").cloned().unwrap_or_else(|| json!({}));
        let spec = manifest.place.decode_at(&manifest.object, &template, "/spec/template/spec")?;
        self.daemon_sets.push((DaemonSet::new(manifest.object.clone(), spec), manifest.place));
        self.add_object(manifest.object);
        Ok(())
    }

    fn add_workload(&mut self, manifest: Manifest) -> Result<(), ReadError> {
        let n_most = MAX_PODS.saturating_sub(self.cluster.pods.len() as u64);
        let made = workloads::expand(&manifest.object, &self.controlled, n_most)
            .map_err(|bad| manifest.error(bad.field, bad.reason))?;
        for pod in made.pods {
            // A mistake in one pod is a mistake in all pods of the workload.
            self.add_pod(pod, &manifest.place, "/spec/template")?;
        }
        made.objects.into_iter().for_each(|object| self.add_object(object));
        self.add_object(manifest.object);
        Ok(())
    }

    fn add_object(&mut self, object: Value) {
        match text(&object, "/kind") {
            "CronJob" => self.cluster.warnings.push(format!(
                "CronJob {}/{}: ignored, since its Jobs start on a schedule",
                namespace_of(&object),
                text(&object, "/metadata/name")
            )),
            "LimitRange" => self.cluster.warnings.push(format!(
                "LimitRange {}/{}: its defaults are not applied to pods without requests",
                namespace_of(&object),
                text(&object, "/metadata/name")
            )),
            "ResourceQuota" => self.cluster.warnings.push(format!(
                "ResourceQuota {}/{}: not enforced, so pods are placed beyond this quota",
                namespace_of(&object),
                text(&object, "/metadata/name")
            )),
            _ => {}
        }
        let mut object = object;
        if is_namespaced(&object) && text(&object, "/metadata/namespace").is_empty() {
            object["metadata"]["namespace"] = json!("default");
        }
        if text(&object, "/metadata/uid").is_empty() {
            let uid = format!("{}/{}", text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
            object["metadata"]["uid"] = json!(uid);
        }
        self.cluster.objects.push(Arc::new(object));
    }

    /// Makes the claims that controllers create for a pod: for ephemeral volumes and from claim templates.
    fn make_claims(&mut self, object: &mut Value, pod: &mut api::Pod) {
        let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        let owner =
            json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.metadata.uid, "controller": true});
        for volume in items(object, "/spec/volumes") {
            let Some(template) = volume.pointer("/ephemeral/volumeClaimTemplate") else { continue };
            let claim = format!("{name}-{}", text(volume, "/name"));
            if !self.controlled.has("PersistentVolumeClaim", &namespace, &claim) {
                let claim = workloads::claim(&namespace, &claim, template, Some(owner.clone()));
                self.cluster.objects.push(Arc::new(claim));
            }
        }
        let mut statuses = Vec::new();
        for reference in &pod.spec.resource_claims {
            let Some(template) = &reference.resource_claim_template_name else { continue };
            if pod.status.resource_claim_statuses.iter().any(|status| status.name == reference.name) {
                continue;
            }
            let Some(claim) = self.device_claim(&namespace, &name, &reference.name, template, &owner) else { continue };
            let resource_claim_name = Some(text(&claim, "/metadata/name").to_owned());
            statuses.push(api::PodResourceClaimStatus { name: reference.name.clone(), resource_claim_name });
            self.cluster.objects.push(Arc::new(claim));
        }
        if !statuses.is_empty() {
            pod.status.resource_claim_statuses.extend(statuses);
            let status = fields(fields(object).entry("status").or_insert(Value::Null));
            status.insert("resourceClaimStatuses".to_owned(), json!(pod.status.resource_claim_statuses));
        }
    }

    /// The claim from a template. `None` while the template does not exist. The pod waits for the template.
    fn device_claim(&self, namespace: &str, pod: &str, name: &str, template: &str, owner: &Value) -> Option<Value> {
        let template = self.claim_templates.get(&(namespace.to_owned(), template.to_owned()))?;
        let claim = format!("{pod}-{name}-{}", letters((namespace, pod, name), 5));
        Some(json!({
            "apiVersion": template["apiVersion"], "kind": "ResourceClaim",
            "metadata": {"namespace": namespace, "name": claim, "uid": format!("{namespace}/{claim}"),
                "annotations": {"resource.kubernetes.io/pod-claim-name": name}, "ownerReferences": [owner]},
            "spec": template.pointer("/spec/spec").cloned().unwrap_or_else(|| json!({})),
        }))
    }

    pub(super) fn finish(mut self) -> (Cluster, Vec<ReadError>) {
        for (set, place) in std::mem::take(&mut self.daemon_sets) {
            let served = self.nodes_with_pod_of(&set);
            let nodes = self.cluster.nodes.iter().filter(|node| !served.contains(&*node.node.metadata.name));
            let pods: Vec<Value> = nodes.filter_map(|node| set.pod_for(&node.node)).collect();
            for pod in pods {
                if let Err(error) = self.add_pod(pod, &place, "/spec/template") {
                    self.errors.push(error);
                    break;
                }
            }
            self.cluster.daemon_sets.push(Arc::new(set));
        }
        self.add_namespaces();
        (self.cluster, self.errors)
    }

    /// The nodes on which the DaemonSet has a pod, or for which a pod of the DaemonSet waits.
    fn nodes_with_pod_of(&self, set: &DaemonSet) -> BTreeSet<String> {
        let is_of_set = |pod: &&ClusterPod| {
            let mut owners = pod.pod.metadata.owner_references.iter();
            pod.pod.metadata.namespace == set.namespace()
                && owners.any(|owner| owner.kind == "DaemonSet" && owner.name == set.name())
        };
        let pods = self.cluster.pods.iter().filter(is_of_set);
        pods.flat_map(|pod| match pod.pod.spec.node_name.as_str() {
            "" => bound_for(&pod.pod),
            node => vec![node.to_owned()],
        })
        .collect()
    }

    /// Adds the namespaces of pods, even if the manifests do not contain them.
    fn add_namespaces(&mut self) {
        for name in std::mem::take(&mut self.namespaces) {
            if !self.controlled.has("Namespace", "default", &name) {
                let labels = json!({"kubernetes.io/metadata.name": name});
                let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "labels": labels}});
                self.cluster.objects.push(Arc::new(namespace));
            }
        }
    }
}

/// A node in the scheduler's form. If there is no `status.allocatable`, all of `status.capacity` may be used.
pub(super) fn decode_node(manifest: &Manifest) -> Result<ClusterNode, ReadError> {
    let mut object = manifest.object.clone();
    if object.pointer("/status/allocatable").is_none_or(Value::is_null) {
        let capacity = object.pointer("/status/capacity").cloned();
        let Some(capacity) = capacity else {
            let reason = "a node needs this field or status.capacity: the resources that pods may use, as in {cpu: \
                          \"4\", memory: 16Gi, pods: \"110\"}";
            return Err(manifest.error("/status/allocatable", reason));
        };
        object["status"]["allocatable"] = capacity;
    }
    let node = manifest.place.decode(&object)?;
    Ok(ClusterNode { node: Arc::new(node), object: Arc::new(object) })
}

fn is_lost(pod: &api::Pod) -> bool {
    pod.spec.containers.is_empty() && pod.spec.node_name.is_empty()
}

/// The names of the nodes on which the pod of a DaemonSet may run.
fn bound_for(pod: &api::Pod) -> Vec<String> {
    let affinity = pod.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let terms = affinity.and_then(|affinity| affinity.required.as_ref()).map(|required| &required.node_selector_terms);
    let fields = terms.into_iter().flatten().flat_map(|term| &term.match_fields);
    fields.flat_map(|field| &field.values).cloned().collect()
}

/// Whether objects of the kind have a namespace. The list contains the cluster-scoped kinds that plugins read.
fn is_namespaced(object: &Value) -> bool {
    !matches!(
        text(object, "/kind"),
        "Namespace"
            | "PersistentVolume"
            | "StorageClass"
            | "CSINode"
            | "CSIDriver"
            | "VolumeAttachment"
            | "PriorityClass"
            | "RuntimeClass"
            | "DeviceClass"
            | "ResourceSlice"
            | "DeviceTaintRule"
    )
}
