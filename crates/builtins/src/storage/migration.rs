//! In-tree volume types that CSI drivers replaced ("CSI migration" on the documentation page
//! <https://kubernetes.io/docs/concepts/storage/volumes/>).
//!
//! For most of these types, migration cannot be turned off any more. A volume of the other types counts for its driver
//! only on some nodes: the nodes with a `CSINode` that says that the in-tree plugin was migrated there
//! (`isCSIMigrationOn` in `pkg/scheduler/framework/plugins/nodevolumelimits/utils.go` of kube-scheduler).

use berth_model::pod::VolumeSource;
use serde::Deserialize;

use super::{CsiNode, VolumeSpec};

const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// An in-tree plugin, and the driver that replaced it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    pub(crate) plugin: &'static str,
    pub(crate) driver: &'static str,
    field: &'static str,
    pub(crate) scope: Scope,
    /// The label of nodes with the driver's zones; `None` if the zones of its volumes are not translated.
    pub(crate) topology_key: Option<&'static str>,
}

/// The nodes on which an in-tree plugin was migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    AllNodes,
    /// The nodes with the plugin in their `CSINode`.
    NamedByCsiNode,
}

/// Plugins whose volumes have handles of several parts, or have ids that may be URLs.
pub(super) const AWS_EBS: &str = "kubernetes.io/aws-ebs";
pub(super) const GCE_PD: &str = "kubernetes.io/gce-pd";
pub(super) const AZURE_FILE: &str = "kubernetes.io/azure-file";

/// The field of vSphere's volumes, and the driver of these volumes.
const VSPHERE: (&str, &str) = ("vsphereVolume", "csi.vsphere.vmware.com");

/// The in-tree plugins whose volumes are translated. vSphere is missing, because kube-scheduler translates no vSphere
/// volumes.
static MIGRATIONS: [Migration; 6] = [
    Migration {
        plugin: AWS_EBS,
        driver: "ebs.csi.aws.com",
        field: "awsElasticBlockStore",
        scope: Scope::AllNodes,
        topology_key: Some("topology.ebs.csi.aws.com/zone"),
    },
    Migration {
        plugin: GCE_PD,
        driver: "pd.csi.storage.gke.io",
        field: "gcePersistentDisk",
        scope: Scope::AllNodes,
        topology_key: Some("topology.gke.io/zone"),
    },
    Migration {
        plugin: "kubernetes.io/azure-disk",
        driver: "disk.csi.azure.com",
        field: "azureDisk",
        scope: Scope::AllNodes,
        topology_key: None,
    },
    Migration {
        plugin: AZURE_FILE,
        driver: "file.csi.azure.com",
        field: "azureFile",
        scope: Scope::NamedByCsiNode,
        topology_key: None,
    },
    Migration {
        plugin: "kubernetes.io/cinder",
        driver: "cinder.csi.openstack.org",
        field: "cinder",
        scope: Scope::AllNodes,
        topology_key: Some("topology.cinder.csi.openstack.org/zone"),
    },
    Migration {
        plugin: "kubernetes.io/portworx-volume",
        driver: "pxd.portworx.com",
        field: "portworxVolume",
        scope: Scope::AllNodes,
        topology_key: None,
    },
];

/// The identity of the volume at its provider.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InTreeSource {
    #[serde(alias = "volumeID", alias = "pdName", alias = "diskURI", alias = "shareName")]
    id: String,
    /// The secret of an Azure share.
    #[serde(rename = "secretName")]
    secret_name: String,
    #[serde(rename = "secretNamespace")]
    secret_namespace: Option<String>,
}

impl VolumeSpec {
    /// The id of an EBS volume, as the source has it.
    pub(super) fn ebs_id(&self) -> &str {
        self.aws_elastic_block_store.as_ref().map_or("", |source| source.id.as_str())
    }

    /// The name of an Azure share's secret, and its namespace if the volume names one.
    pub(super) fn secret_of_azure_file(&self) -> (&str, Option<&str>) {
        let source = self.azure_file.as_ref();
        let namespace = source.and_then(|source| source.secret_namespace.as_deref());
        (source.map_or("", |source| source.secret_name.as_str()), namespace)
    }

    /// The migration that covers the volume, and its id.
    pub(super) fn migration(&self) -> Option<(&'static Migration, &str)> {
        let sources = [
            &self.aws_elastic_block_store,
            &self.gce_persistent_disk,
            &self.azure_disk,
            &self.azure_file,
            &self.cinder,
            &self.portworx_volume,
        ];
        let mut known = MIGRATIONS.iter().zip(sources);
        known.find_map(|(migration, source)| Some((migration, bare_id(&source.as_ref()?.id))))
    }
}

/// The migration of an in-tree plugin, by its name as a provisioner.
pub(crate) fn of_plugin(plugin: &str) -> Option<&'static Migration> {
    MIGRATIONS.iter().find(|migration| migration.plugin == plugin)
}

/// The in-tree plugin with volumes that count for this driver only on some nodes.
pub(crate) fn partly_migrated_to(driver: &str) -> Option<&'static Migration> {
    MIGRATIONS.iter().find(|migration| migration.driver == driver && migration.scope == Scope::NamedByCsiNode)
}

/// The migration that covers an inline volume of a pod, and the volume's id.
pub(super) fn of_inline(source: &VolumeSource) -> Option<(&'static Migration, &str)> {
    let of_field = |field: &str| MIGRATIONS.iter().find(|migration| migration.field == field);
    match source {
        VolumeSource::AwsElasticBlockStore { volume_id } => {
            Some((of_field("awsElasticBlockStore")?, bare_id(volume_id)))
        }
        VolumeSource::GcePersistentDisk { pd_name, .. } => Some((of_field("gcePersistentDisk")?, pd_name)),
        VolumeSource::InTree { field, id } => Some((of_field(field)?, id)),
        VolumeSource::Claim(_)
        | VolumeSource::Ephemeral
        | VolumeSource::Iscsi { .. }
        | VolumeSource::Rbd { .. }
        | VolumeSource::Csi { .. } => None,
    }
}

/// Whether kube-scheduler counts the inline volume among the volumes that drivers took over, even if it does not
/// translate the volume.
pub(crate) fn may_be_migrated(source: &VolumeSource) -> bool {
    of_inline(source).is_some() || matches!(source, VolumeSource::InTree { field, .. } if **field == *VSPHERE.0)
}

/// The driver that took over an inline volume.
pub(crate) fn driver_of_inline(source: &VolumeSource) -> Option<&'static str> {
    if may_be_migrated(source) {
        return Some(of_inline(source).map_or(VSPHERE.1, |(migration, _)| migration.driver));
    }
    None
}

/// The id of a volume: `aws://zone/vol-1` is the volume `vol-1`.
fn bare_id(id: &str) -> &str {
    id.strip_prefix("aws://").and_then(|rest| rest.rsplit('/').next()).unwrap_or(id)
}

impl CsiNode {
    /// The in-tree plugins that were migrated on this node.
    pub(crate) fn migrated_plugins(&self) -> impl Iterator<Item = &str> {
        let plugins = self.metadata.annotations.get(MIGRATED_PLUGINS);
        plugins.into_iter().flat_map(|plugins| plugins.split(',')).filter(|plugin| !plugin.is_empty())
    }
}
