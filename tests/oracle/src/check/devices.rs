//! Compares the writes to the pod's claims on each feasible node, and the claims that PostFilter releases. The check
//! reserves on the node, reads the claims from the effects that PreBind returns, and reverts the reservation.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use berth_framework::{Effect, Status, run::PostFilterRun};
use berth_model::NodeIdx;
use json_patch::merge;
use serde_json::{Value, json};

use super::{CYCLE, Check, show_status};
use crate::{case::PostFilter, findings::Findings};

const PLUGIN: &str = "DynamicResources";
const CLAIM: &str = "resource.k8s.io/v1/ResourceClaim";
/// The name in records of the claim that is created for extended resources.
const EXTENDED: &str = "<extended-resources>";

/// The claims by name, in the form of the record.
type Claims = BTreeMap<String, Value>;

impl Check<'_> {
    pub(super) fn devices(&mut self, findings: &mut Findings) {
        let case = self.case;
        let Some(expected) = &case.expect.devices else { return };
        if self.subject.lacks(PLUGIN) {
            return findings.leave_out(PLUGIN);
        }
        for name in &case.expect.feasible {
            let what = format!("devices {name}");
            let expected = expected.get(name).cloned().unwrap_or_default();
            // kube-scheduler creates a claim without requests in this case, and then fails. Berth writes nothing.
            let fails = expected.get(EXTENDED).is_some_and(|claim| claim.get("requestMappings").is_none());
            let Some(node) = self.cluster.node(name) else {
                findings.differ(what, "a feasible node", "no node of this name");
                continue;
            };
            match self.claims_on(node) {
                Ok(got) => drop(findings.compare(what, &shown(&expected), &shown(&got))),
                Err(status) if fails => {
                    let got = status.message();
                    let is_no_mapping = got.starts_with("nil or empty request mappings, no update of pod ");
                    let expected = case.expect.pre_bind_error.clone().filter(|_| is_no_mapping).unwrap_or(got.clone());
                    findings.compare("preBindError", &expected, &got);
                    findings.compare("the claim has no mappings", &true, &is_no_mapping);
                }
                Err(status) => findings.differ(what, format!("{expected:?}"), show_status(PLUGIN, &status)),
            }
        }
    }

    fn claims_on(&mut self, node: NodeIdx) -> Result<Claims, Status> {
        let call = self.cluster.call(CYCLE, &self.pod);
        let plugin = self.subject.profile.find(PLUGIN);
        let Some(plugin) = plugin.and_then(|plugin| self.subject.profile.get(plugin)) else {
            return Ok(Claims::new());
        };
        let status = plugin.reserve().map_or_else(Status::success, |point| point.reserve(&call, node));
        let effects = match plugin.pre_bind().map(|point| point.pre_bind(&call, node)) {
            Some(Err(status)) if status.code != berth_framework::Code::Skip => Err(status),
            Some(Ok(effects)) => Ok(effects),
            Some(Err(_)) | None => Ok(Vec::new()),
        };
        self.unreserve(node)?;
        if !status.is_success() {
            return Err(status);
        }
        self.read(&effects?).map_err(|error| Status::error(format!("{error:#}")))
    }

    /// Reverts the reservation. Then deletes and creates the claims that the effects of Unreserve would change, so that the
    /// plugin expects no effect any more, and the next node finds the claims as they are recorded.
    fn unreserve(&mut self, node: NodeIdx) -> Result<(), Status> {
        let effects = self.ask_unreserve(node);
        let case = self.case;
        let is_changed = |claim: &&Value| {
            effects.iter().any(|effect| match effect {
                Effect::Patch { kind, namespace, name, .. } if kind == CLAIM => {
                    claim["kind"] == "ResourceClaim"
                        && claim["metadata"]["namespace"] == **namespace
                        && claim["metadata"]["name"] == **name
                }
                _ => false,
            })
        };
        let changed: Vec<&Value> = case.objects.others.values().flatten().filter(is_changed).collect();
        if changed.is_empty() {
            return Ok(());
        }
        for claim in &changed {
            self.cluster.remove_object(claim);
        }
        self.sync()?;
        // A native plugin reads the changes when it is asked.
        self.ask_unreserve(node);
        for claim in &changed {
            self.cluster.set_object(claim);
        }
        self.sync()
    }

    fn ask_unreserve(&mut self, node: NodeIdx) -> Vec<Effect> {
        let call = self.cluster.call(CYCLE, &self.pod);
        let plugin = self.subject.profile.find(PLUGIN).and_then(|plugin| self.subject.profile.get(plugin));
        let point = plugin.and_then(|plugin| plugin.reserve());
        point.map_or_else(Vec::new, |point| point.unreserve(&call, node))
    }

    fn sync(&mut self) -> Result<(), Status> {
        self.subject.profile.sync(self.cluster.cache()).map_err(|refusal| refusal.status)
    }

    /// The claims that the pod names, with the changes by the effects.
    fn read(&self, effects: &[Effect]) -> Result<Claims> {
        let untouched = json!({"allocate": false, "reserve": false});
        let named = self.case.expect.devices.iter().flat_map(BTreeMap::values).flat_map(BTreeMap::keys);
        let of_pod = named.filter(|name| name.as_str() != EXTENDED).map(|name| (name.clone(), untouched.clone()));
        let mut claims: Claims = of_pod.collect();
        let mut made = None;
        for effect in effects {
            match effect {
                Effect::Create { kind, body, .. } if kind == CLAIM => {
                    let body: Value = serde_json::from_slice(body)?;
                    made = body.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
                    let mut claim = json!({"extendedResource": true});
                    claim["requests"] = body.pointer("/spec/devices/requests").context("no requests")?.clone();
                    claims.insert(EXTENDED.to_owned(), claim);
                }
                Effect::Patch { kind, name, subresource: Some(_), patch, .. } if kind == CLAIM => {
                    let name = if made.as_ref() == Some(name) { EXTENDED } else { name };
                    let claim = claims.entry(name.to_owned()).or_insert_with(|| untouched.clone());
                    written(claim, serde_json::from_slice(patch)?);
                }
                Effect::Patch { kind, patch, .. } if kind == "v1/Pod" => {
                    let patch: Value = serde_json::from_slice(patch)?;
                    let status = patch.pointer("/status/extendedResourceClaimStatus").context("another status")?;
                    ensure!(status["resourceClaimName"].as_str() == made.as_deref(), "another claim: {status}");
                    let claim = claims.get_mut(EXTENDED).context("no claim was made")?;
                    claim["requestMappings"] = status["requestMappings"].clone();
                }
                _ => {}
            }
        }
        Ok(claims)
    }

    /// The changes that PostFilter makes to the claims. The list of claims that PostFilter may release shows the claims
    /// that some node could not use.
    pub(super) fn claims_after(&self, expected: &PostFilter, run: &PostFilterRun, findings: &mut Findings) {
        let mut deallocated = BTreeMap::new();
        let mut deleted = Vec::new();
        for (_, effect) in &run.effects {
            match effect {
                Effect::Patch { kind, name, subresource: Some(_), patch, .. } if kind == CLAIM => {
                    deallocated.insert(name.clone(), self.patched(name, patch));
                }
                Effect::Delete { kind, name, .. } if kind == CLAIM => deleted.push(name.clone()),
                _ => {}
            }
        }
        findings.compare("deletedClaims", &expected.deleted_claims, &deleted);
        if expected.claims_after.is_empty() {
            let is_one_of = deallocated.keys().all(|name| expected.deallocatable_claims.contains(name));
            let must_be = !expected.deallocatable_claims.is_empty() && deleted.is_empty();
            let got: Vec<&String> = deallocated.keys().collect();
            if !is_one_of || must_be != (got.len() == 1) {
                findings.differ(
                    "deallocated claim",
                    format!("one of {:?}", expected.deallocatable_claims),
                    format!("{got:?}"),
                );
            }
        } else {
            findings.compare("claimsAfter", &shown(&expected.claims_after), &shown(&deallocated));
        }
    }

    /// The status of a claim with a patch.
    fn patched(&self, name: &str, patch: &[u8]) -> Value {
        let claims = self.case.objects.others.get("resourceclaims").into_iter().flatten();
        let mut claims = claims.filter(|claim| claim.pointer("/metadata/name").and_then(Value::as_str) == Some(name));
        let mut claim = claims.next().cloned().unwrap_or_default();
        merge(&mut claim, &serde_json::from_slice(patch).unwrap_or_default());
        json!({"status": claim["status"]})
    }
}

/// Adds the content of a patch of a claim's status. Random values and the current time are left out.
fn written(claim: &mut Value, mut patch: Value) {
    let status = &mut patch["status"];
    let allocates = status["allocation"].is_object();
    if allocates {
        let mut allocation = status["allocation"].take();
        if let Some(allocation) = allocation.as_object_mut() {
            allocation.remove("allocationTimestamp");
        }
        let results = allocation.pointer_mut("/devices/results").and_then(Value::as_array_mut);
        for result in results.into_iter().flatten().filter(|result| result.get("shareID").is_some()) {
            result["shareID"] = "<generated>".into();
        }
        claim["allocation"] = allocation;
    }
    claim["allocate"] = allocates.into();
    claim["reserve"] = true.into();
    claim["reservedFor"] = status["reservedFor"].take();
}

/// Objects with their keys in order.
fn shown(claims: &Claims) -> BTreeMap<&str, String> {
    claims.iter().map(|(name, claim)| (name.as_str(), claim.to_string())).collect()
}
