//! Creates device claims from templates. A pod that names a `ResourceClaimTemplate` gets its own claim, and the pod's
//! status gets the name of that claim.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::controllers::collections::{CLAIM_TEMPLATES, PODS, RESOURCE_CLAIMS};
use crate::controllers::controller::{Controller, Observed};
use crate::controllers::owners;
use crate::controllers::owners::is_owned_by_pod;
use crate::controllers::templates::from_template;
use crate::fields::json::{annotate, annotation, child_mut, is_being_deleted, items, metadata_mut, text, uid};
use crate::fields::pods::is_done;
use crate::objects::create::create_object;
use crate::objects::update::edit;
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::{Object, key};

/// An annotation of a generated claim: the name of the entry in the pod's `spec.resourceClaims`.
const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";

/// Generates claims. Its keys are the keys of pods.
pub(in crate::controllers) struct ClaimTemplateController;

impl Controller for ClaimTemplateController {
    fn affected(&self, state: &ClusterState, observed: &Observed<'_>) -> Vec<String> {
        match observed.collection {
            PODS if !observed.gone && from_templates(&observed.object.value).next().is_some() => vec![observed.key()],
            CLAIM_TEMPLATES if !observed.gone => waiting_for(state, observed.object),
            RESOURCE_CLAIMS if observed.gone => {
                let owner = owners::owning_pod(&observed.object.value);
                owner.map(|owner| key(observed.object.namespace(), owner.name)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, state: &ClusterState, pod_key: &str) -> ApiResult<()> {
        let pods = state.collection(PODS);
        let Some(pod) = pods.get(pod_key).filter(|pod| !is_being_deleted(&pod.value) && !is_done(&pod.value)) else {
            return Ok(());
        };
        let mut statuses = Vec::new();
        for (name, template) in from_templates(&pod.value) {
            if let Some(claim) = claim_for(state, &pod, name, template)? {
                statuses.push(json!({"name": name, "resourceClaimName": claim}));
            }
        }
        edit(&pods, pod_key, |value| {
            if uid(value) == pod.uid() && !statuses.is_empty() {
                child_mut(value, "status").insert("resourceClaimStatuses".to_owned(), statuses.clone().into());
            }
        });
        Ok(())
    }
}

/// The name and the template of each claim in the pod's spec that comes from a template.
fn from_templates(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    items(pod, "/spec/resourceClaims")
        .iter()
        .map(|claim| (text(claim, "/name"), text(claim, "/resourceClaimTemplateName")))
        .filter(|(_, template)| !template.is_empty())
}

/// The pods that name a template.
fn waiting_for(state: &ClusterState, template: &Object) -> Vec<String> {
    let (pods, _) = state.collection(PODS).list(template.namespace());
    let names_template = |pod: &&Arc<Object>| from_templates(&pod.value).any(|(_, name)| name == template.name());
    pods.iter().filter(names_template).map(|pod| pod.key()).collect()
}

/// The name of the claim for one entry of a pod's `spec.resourceClaims`. Generates a missing claim. Returns `None`
/// while the template does not exist.
fn claim_for(state: &ClusterState, pod: &Object, name: &str, template: &str) -> ApiResult<Option<String>> {
    let claims = state.collection(RESOURCE_CLAIMS);
    let is_generated = |claim: &Arc<Object>| {
        is_owned_by_pod(&claim.value, pod)
            && annotation(&claim.value, POD_CLAIM_NAME) == name
            && !is_being_deleted(&claim.value)
    };
    let listed = items(&pod.value, "/status/resourceClaimStatuses").iter().find(|status| text(status, "/name") == name);
    let listed = listed.and_then(|status| claims.get(&key(pod.namespace(), text(status, "/resourceClaimName"))));
    let existing =
        listed.filter(is_generated).or_else(|| claims.list(pod.namespace()).0.into_iter().find(is_generated));
    if let Some(existing) = existing {
        return Ok(Some(existing.name().to_owned()));
    }
    let Some(template) = state.collection(CLAIM_TEMPLATES).get(&key(pod.namespace(), template)) else {
        return Ok(None);
    };
    let template = template.value.get("spec").unwrap_or(&Value::Null);
    let mut claim = from_template(template, &["labels", "annotations"]);
    let metadata = metadata_mut(&mut claim);
    metadata.insert("generateName".to_owned(), format!("{}-{name}-", pod.name()).into());
    metadata.insert("ownerReferences".to_owned(), owners::reference(pod));
    annotate(&mut claim, POD_CLAIM_NAME, name);
    let kind = state.built_in_kind("resource.k8s.io", "resourceclaims")?;
    let claim = create_object(state, &kind, pod.namespace(), claim, false)?;
    Ok(Some(claim.name().to_owned()))
}
