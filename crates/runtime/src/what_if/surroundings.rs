//! The objects that decide which pods a question makes, and that no plugin reads: DaemonSets, PriorityClasses and
//! RuntimeClasses. The scheduler does not watch them.
//!
//! These objects are listed for the first question, and for a later question if the last list is a minute old. If these
//! objects cannot be listed, the answer uses no such objects, or the objects of the last list. The answer says which
//! objects it used.

use std::{fmt, sync::Arc, time::Duration};

use berth_cluster::{Client, ListError, list};
use berth_model::KindRef;
use berth_what_if::{Cluster, ClusterReader};
use serde_json::Value;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

const KINDS: [(&str, &str); 3] =
    [("apps/v1", "DaemonSet"), ("scheduling.k8s.io/v1", "PriorityClass"), ("node.k8s.io/v1", "RuntimeClass")];

/// The time for which a list is used.
const FRESH_FOR: Duration = Duration::from_secs(60);

/// The time after which a question does without a kind that is being listed.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// The bytes of the objects of one kind, as JSON, beyond which an answer uses no objects of the kind.
const MAX_BYTES: usize = 64 << 20;

/// The objects.
pub(super) struct Surroundings {
    client: Client,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    at: Option<Instant>,
    kinds: [Vec<Value>; KINDS.len()],
    cluster: Arc<Cluster>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Surroundings {
    pub(super) fn of(client: Client) -> Self {
        Self { client, last: Mutex::default() }
    }

    /// The objects as a cluster without nodes and pods.
    pub(super) async fn now(&self) -> Arc<Cluster> {
        let mut last = self.last.lock().await;
        if last.at.is_none_or(|at| at.elapsed() > FRESH_FOR) {
            let mut warnings = Vec::new();
            for (at, (api_version, kind)) in KINDS.into_iter().enumerate() {
                let kind = KindRef::of_kind(api_version, kind);
                let found = timeout(LIST_TIMEOUT, list(&self.client, &kind)).await;
                match found.unwrap_or_else(|_| Err(too_slow(&kind))) {
                    Ok(objects) if size(&objects) > MAX_BYTES => {
                        warnings.push(format!("the simulation does without {}: they are too large", kind.kind));
                    }
                    Ok(mut objects) => {
                        objects.iter_mut().for_each(cut_down);
                        if let Some(known) = last.kinds.get_mut(at) {
                            *known = objects;
                        }
                    }
                    // The server is older.
                    Err(ListError::NotServed { .. }) => {}
                    Err(error @ ListError::Forbidden { .. }) => warnings.push(format!(
                        "the simulation does without {}: the scheduler may not list it: {error}",
                        kind.kind
                    )),
                    Err(error @ ListError::Failed { .. }) => warnings.push(format!(
                        "{} may be out of date or missing, because they were not listed: {error}",
                        kind.kind
                    )),
                }
            }
            last.cluster = Arc::new(cluster(&last.kinds, warnings));
            last.at = Some(Instant::now());
        }
        Arc::clone(&last.cluster)
    }
}

fn too_slow(kind: &KindRef) -> ListError {
    let message = format!("no answer within {} s", LIST_TIMEOUT.as_secs());
    ListError::Failed { plural: kind.likely_plural(), message }
}

/// Removes the parts that change although no pod of a question would differ, so that the cluster keeps its
/// [token](Cluster::state_token).
fn cut_down(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
}

fn size(objects: &[Value]) -> usize {
    objects.iter().map(|object| object.to_string().len()).sum()
}

fn cluster(kinds: &[Vec<Value>], warnings: Vec<String>) -> Cluster {
    let mut reader = ClusterReader::default();
    for object in kinds.iter().flatten() {
        reader.take("the API server", object.clone());
    }
    let (mut cluster, errors) = reader.finish();
    let unreadable = errors.iter().map(|error| format!("the simulation does without an object: {error}"));
    unreadable.chain(warnings).for_each(|warning| cluster.warn(warning));
    cluster
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_token_changes_with_what_pods_are_made_of() {
        let token = |version: &str, ready: u32, cpu: &str| {
            let mut set = json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": {"name": "logs", "namespace": "infra", "uid": "u", "resourceVersion": version},
                "spec": {"selector": {"matchLabels": {"app": "logs"}}, "template": {"metadata": {"labels": {"app": "logs"}},
                    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}},
                "status": {"numberReady": ready},
            });
            cut_down(&mut set);
            cluster(&[vec![set]], Vec::new()).state_token()
        };
        assert_eq!(token("1", 1, "100m"), token("2", 2, "100m"), "one more pod is ready");
        assert_ne!(token("1", 1, "100m"), token("3", 1, "200m"), "the template has changed");
    }
}
