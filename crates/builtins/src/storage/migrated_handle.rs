//! The handle under which a CSI driver knows a volume of the in-tree plugin that the driver replaced. Volumes with the
//! same handle are one volume, whether a pod, an in-tree `PersistentVolume` or a `PersistentVolume` of the driver names
//! the volume.
//!
//! The rules are the same as in the plugins of `k8s.io/csi-translation-lib`.

use std::collections::BTreeSet;

use berth_model::pod::Volume;

use super::{
    PersistentVolume,
    migration::{self, AWS_EBS, AZURE_FILE, GCE_PD, Migration},
};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// The separator between zones in the label of a volume in several zones.
pub(super) const SEPARATOR: &str = "__";
/// The project and the zone of a GCE disk for which no object names them.
const UNSPECIFIED: &str = "UNSPECIFIED";
const RESOURCE_GROUP: &str = "kubernetes.io/azure-file-resource-group";

/// The reason why a volume cannot be translated, in kube-scheduler's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TranslationError {
    #[error(
        "could not translate pv: failed to get region from zones: zone in unexpected format, \
         expected: {{locale}}-{{region}}-{{zone}}, got: {0}"
    )]
    ZoneFormat(String),
    #[error(
        "could not translate pv: failed to get region from zones: multiple or no regions gotten from zones, got: map[{0}]"
    )]
    Regions(String),
    #[error(
        "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({0})"
    )]
    EbsVolumeId(String),
    #[error("could not translate pv: could not find a secret namespace in PersistentVolumeSource or ClaimRef")]
    NoSecretNamespace,
}

/// The migration that covers a `PersistentVolume`, and the volume's handle. `None` if no driver replaced the plugin of
/// the volume.
pub(crate) fn of_volume(volume: &PersistentVolume) -> Option<(&'static Migration, Result<String, TranslationError>)> {
    let (migration, id) = volume.spec.migration()?;
    let handle = match migration.plugin {
        AWS_EBS => ebs_volume(volume.spec.ebs_id()),
        GCE_PD => place_of_disk(volume).map(|place| gce_disk(&place, id)),
        AZURE_FILE => azure_share(volume, id),
        _ => Ok(id.to_owned()),
    };
    Some((migration, handle))
}

/// The migration and the handle of an inline volume of a pod in this namespace. The storage account of an Azure share
/// is not known here, and does not count.
pub(crate) fn of_inline(volume: &Volume, namespace: &str) -> Option<(&'static Migration, String)> {
    let (migration, id) = migration::of_inline(&volume.source)?;
    let handle = match migration.plugin {
        GCE_PD => gce_disk(&format!("zones/{UNSPECIFIED}"), id),
        AZURE_FILE => format!("##{id}#{}#{namespace}", volume.name),
        _ => id.to_owned(),
    };
    Some((migration, handle))
}

/// The id of an EBS volume, which may be a URL: `aws://zone/vol-1`. The zone may be empty.
fn ebs_volume(id: &str) -> Result<String, TranslationError> {
    let Some(url) = id.strip_prefix("aws://") else { return Ok(id.to_owned()) };
    let volume = url.split_once('/').map_or("", |(_, path)| path).trim_matches('/');
    let is_known = volume.starts_with("vol-") && !volume.contains('/');
    if is_known { Ok(volume.to_owned()) } else { Err(TranslationError::EbsVolumeId(id.to_owned())) }
}

fn gce_disk(place: &str, name: &str) -> String {
    format!("projects/{UNSPECIFIED}/{place}/disks/{name}")
}

/// The zone or region of a GCE disk according to its labels. A disk in several zones must be in one region.
fn place_of_disk(volume: &PersistentVolume) -> Result<String, TranslationError> {
    let label = |key: &str| volume.metadata.labels.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let zones: Vec<&str> = label(BETA_ZONE).or_else(|| label(ZONE)).unwrap_or(UNSPECIFIED).split(SEPARATOR).collect();
    if let [zone] = zones.as_slice() {
        return Ok(format!("zones/{zone}"));
    }
    let mut regions = BTreeSet::new();
    for zone in zones {
        let parts: Vec<&str> = zone.split('-').collect();
        let [locale, region, _] = parts.as_slice() else { return Err(TranslationError::ZoneFormat(zone.to_owned())) };
        regions.insert(format!("{locale}-{region}"));
    }
    if let (1, Some(region)) = (regions.len(), regions.first()) {
        return Ok(format!("regions/{region}"));
    }
    let regions: Vec<String> = regions.iter().map(|region| format!("{region}:{{}}")).collect();
    Err(TranslationError::Regions(regions.join(" ")))
}

fn azure_share(volume: &PersistentVolume, share: &str) -> Result<String, TranslationError> {
    let (secret, namespace) = volume.spec.secret_of_azure_file();
    let of_claim = || volume.spec.claim_ref.as_ref().map(|claim| claim.namespace.as_str());
    let namespace = namespace.or_else(of_claim).filter(|namespace| !namespace.is_empty());
    let namespace = namespace.ok_or(TranslationError::NoSecretNamespace)?;
    let group = volume.metadata.annotations.get(RESOURCE_GROUP).map_or("", String::as_str);
    Ok(format!("{group}#{}#{share}#{}#{namespace}", account_of(secret), volume.metadata.name))
}

/// The storage account in the name of a secret, such as `azure-storage-account-NAME-secret`.
fn account_of(secret: &str) -> &str {
    let named = secret.split_once("azure-storage-account-").and_then(|(_, rest)| rest.rsplit_once("-secret"));
    named.map(|(account, _)| account).filter(|account| !account.is_empty()).unwrap_or(secret)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn handle(volume: Value) -> String {
        let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
        of_volume(&volume).unwrap().1.unwrap_or_else(|error| format!("error: {error}"))
    }

    #[test]
    fn a_disk_of_gce_has_its_place_in_its_handle() {
        let disk = |labels: Value| {
            handle(json!({"metadata": {"name": "v", "labels": labels}, "spec": {"gcePersistentDisk": {"pdName": "d"}}}))
        };
        let cases = [
            (json!({}), "zones/UNSPECIFIED"),
            (json!({ZONE: "z"}), "zones/z"),
            (json!({BETA_ZONE: "old", ZONE: "new"}), "zones/old"),
            (json!({ZONE: "us-east1-a__us-east1-b"}), "regions/us-east1"),
        ];
        for (labels, place) in cases {
            assert_eq!(disk(labels), format!("projects/UNSPECIFIED/{place}/disks/d"));
        }
        assert!(disk(json!({ZONE: "z1__z2"})).ends_with("expected: {locale}-{region}-{zone}, got: z1"));
        let regions = disk(json!({ZONE: "us-east1-a__us-east2-a"}));
        assert!(regions.ends_with("got: map[us-east1:{} us-east2:{}]"), "{regions}");
    }

    #[test]
    fn a_share_of_azure_has_five_parts() {
        let share = |source: Value, claim: Value| {
            let metadata = json!({"name": "v", "annotations": {RESOURCE_GROUP: "group"}});
            handle(json!({"metadata": metadata, "spec": {"azureFile": source, "claimRef": claim}}))
        };
        let source = json!({"shareName": "s", "secretName": "azure-storage-account-a-secret"});
        let claim = json!({"namespace": "of-claim", "name": "c"});
        assert_eq!(share(source.clone(), claim.clone()), "group#a#s#v#of-claim");
        let source_with_namespace = json!({"shareName": "s", "secretName": "mine", "secretNamespace": "other"});
        assert_eq!(share(source_with_namespace, claim), "group#mine#s#v#other");
        assert!(share(source, Value::Null).starts_with("error: could not translate pv: could not find a secret"));
    }

    #[test]
    fn other_volumes_have_their_ids() {
        let volume = |spec: Value| handle(json!({"metadata": {"name": "v"}, "spec": spec}));
        assert_eq!(volume(json!({"awsElasticBlockStore": {"volumeID": "aws://zone/vol-1"}})), "vol-1");
        assert_eq!(volume(json!({"azureDisk": {"diskName": "d", "diskURI": "/a/b"}})), "/a/b");
        assert_eq!(volume(json!({"awsElasticBlockStore": {"volumeID": "aws:///vol-1/"}})), "vol-1");
        for id in ["aws://zone/disk", "aws://vol-1", "aws://zone/a/vol-1"] {
            let invalid = format!(
                "error: could not translate pv: failed to translate Kubernetes ID to EBS Volume ID Invalid format for \
                 AWS volume ({id})"
            );
            assert_eq!(volume(json!({"awsElasticBlockStore": {"volumeID": id}})), invalid);
        }
    }
}
