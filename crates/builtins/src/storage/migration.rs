//! In-tree volume types that CSI drivers replaced ("CSI migration" on the documentation page
//! <https://kubernetes.io/docs/concepts/storage/volumes/>).
//!
//! For most of them migration cannot be turned off any more. A volume of the others counts for its driver on the nodes
//! whose `CSINode` says that the in-tree plugin was migrated there (`isCSIMigrationOn` in
//! `pkg/scheduler/framework/plugins/nodevolumelimits/utils.go` of kube-scheduler).

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
}

/// On which nodes an in-tree plugin was migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    AllNodes,
    /// Those whose `CSINode` names the plugin.
    NamedByCsiNode,
}

static MIGRATIONS: [Migration; 7] = [
    migration("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "awsElasticBlockStore", Scope::AllNodes),
    migration("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "gcePersistentDisk", Scope::AllNodes),
    migration("kubernetes.io/azure-disk", "disk.csi.azure.com", "azureDisk", Scope::AllNodes),
    migration("kubernetes.io/azure-file", "file.csi.azure.com", "azureFile", Scope::NamedByCsiNode),
    migration("kubernetes.io/cinder", "cinder.csi.openstack.org", "cinder", Scope::AllNodes),
    migration("kubernetes.io/portworx-volume", "pxd.portworx.com", "portworxVolume", Scope::AllNodes),
    migration("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", "vsphereVolume", Scope::NamedByCsiNode),
];

const fn migration(plugin: &'static str, driver: &'static str, field: &'static str, scope: Scope) -> Migration {
    Migration { plugin, driver, field, scope }
}

/// What names the volume at its provider.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InTreeSource {
    #[serde(alias = "volumeID", alias = "pdName", alias = "diskURI", alias = "shareName", alias = "volumePath")]
    id: String,
}

impl VolumeSpec {
    /// The migration that covers the volume, and its id.
    pub(crate) fn migration(&self) -> Option<(&'static Migration, &str)> {
        let sources = [
            &self.aws_elastic_block_store,
            &self.gce_persistent_disk,
            &self.azure_disk,
            &self.azure_file,
            &self.cinder,
            &self.portworx_volume,
            &self.vsphere_volume,
        ];
        let mut known = MIGRATIONS.iter().zip(sources);
        known.find_map(|(migration, source)| Some((migration, bare_id(&source.as_ref()?.id))))
    }
}

/// The migration of an in-tree plugin, by its name as a provisioner.
pub(crate) fn of_plugin(plugin: &str) -> Option<&'static Migration> {
    MIGRATIONS.iter().find(|migration| migration.plugin == plugin)
}

/// The in-tree plugin whose volumes count for this driver on some nodes and not on others.
pub(crate) fn partly_migrated_to(driver: &str) -> Option<&'static Migration> {
    MIGRATIONS.iter().find(|migration| migration.driver == driver && migration.scope == Scope::NamedByCsiNode)
}

/// The migration that covers an inline volume of a pod, and the volume's id.
pub(crate) fn of_inline(source: &VolumeSource) -> Option<(&'static Migration, &str)> {
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

/// `aws://zone/vol-1` is the volume `vol-1`.
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
