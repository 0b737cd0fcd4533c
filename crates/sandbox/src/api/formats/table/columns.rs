//! The columns of the built-in kinds.

use crate::kinds::Kind;

/// One column of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// The title.
    pub(super) name: &'static str,
    /// The OpenAPI type of the cells.
    pub(super) data_type: &'static str,
    /// Whether only wide output shows the column.
    pub(super) is_wide: bool,
}

impl Column {
    const fn text(name: &'static str) -> Self {
        Self { name, data_type: "string", is_wide: false }
    }

    const fn integer(name: &'static str) -> Self {
        Self { name, data_type: "integer", is_wide: false }
    }

    const fn wide(name: &'static str) -> Self {
        Self { name, data_type: "string", is_wide: true }
    }
}

const NAME: Column = Column::text("Name");
const AGE: Column = Column::text("Age");

/// The columns of a kind. Kinds without columns of their own have name and age.
pub(super) fn of(kind: &Kind) -> Vec<Column> {
    let narrow = |names: &[&'static str]| names.iter().map(|name| Column::text(name)).collect::<Vec<Column>>();
    let wide = |names: &[&'static str]| names.iter().map(|name| Column::wide(name)).collect::<Vec<Column>>();
    let (shown, more): (Vec<Column>, Vec<Column>) = match kind.plural.as_str() {
        "pods" => (
            narrow(&["Name", "Ready", "Status", "Restarts", "Age"]),
            wide(&["IP", "Node", "Nominated Node", "Readiness Gates"]),
        ),
        "nodes" => (
            narrow(&["Name", "Status", "Roles", "Age", "Version"]),
            wide(&["Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"]),
        ),
        "events" => return event_columns(),
        "namespaces" => (narrow(&["Name", "Status", "Age"]), Vec::new()),
        "leases" => (narrow(&["Name", "Holder", "Age"]), Vec::new()),
        "priorityclasses" => return priority_class_columns(),
        "poddisruptionbudgets" => return budget_columns(),
        "deployments" => {
            (narrow(&["Name", "Ready", "Up-to-date", "Available", "Age"]), wide(&["Containers", "Images", "Selector"]))
        }
        "replicasets" | "replicationcontrollers" => (
            vec![NAME, Column::integer("Desired"), Column::integer("Current"), Column::integer("Ready"), AGE],
            wide(&["Containers", "Images", "Selector"]),
        ),
        "statefulsets" => (narrow(&["Name", "Ready", "Age"]), wide(&["Containers", "Images"])),
        "services" => (narrow(&["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"]), wide(&["Selector"])),
        "configmaps" => (narrow(&["Name", "Data", "Age"]), Vec::new()),
        "persistentvolumeclaims" | "persistentvolumes" => return volume_columns(kind),
        "storageclasses" => (
            narrow(&["Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"]),
            Vec::new(),
        ),
        "resourceclaims" => (narrow(&["Name", "State", "Age"]), Vec::new()),
        "resourceslices" => (narrow(&["Name", "Node", "Driver", "Pool", "Age"]), Vec::new()),
        "networkpolicies" => (narrow(&["Name", "Pod-Selector", "Age"]), Vec::new()),
        "runtimeclasses" => (narrow(&["Name", "Handler", "Age"]), Vec::new()),
        "customresourcedefinitions" => (narrow(&["Name", "Created At"]), Vec::new()),
        _ => (narrow(&["Name", "Age"]), Vec::new()),
    };
    shown.into_iter().chain(more).collect()
}

fn volume_columns(kind: &Kind) -> Vec<Column> {
    const CLAIM: [&str; 8] =
        ["Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age"];
    const VOLUME: [&str; 10] = [
        "Name",
        "Capacity",
        "Access Modes",
        "Reclaim Policy",
        "Status",
        "Claim",
        "StorageClass",
        "VolumeAttributesClass",
        "Reason",
        "Age",
    ];
    let names: &[&'static str] = if kind.plural == "persistentvolumeclaims" { &CLAIM } else { &VOLUME };
    names.iter().map(|name| Column::text(name)).chain([Column::wide("VolumeMode")]).collect()
}

fn event_columns() -> Vec<Column> {
    vec![
        Column::text("Last Seen"),
        Column::text("Type"),
        Column::text("Reason"),
        Column::text("Object"),
        Column::wide("Subobject"),
        Column::wide("Source"),
        Column::text("Message"),
        Column::wide("First Seen"),
        Column::wide("Count"),
        Column::wide("Name"),
    ]
}

fn priority_class_columns() -> Vec<Column> {
    vec![
        NAME,
        Column::integer("Value"),
        Column { name: "Global-Default", data_type: "boolean", is_wide: false },
        AGE,
        Column::text("PreemptionPolicy"),
    ]
}

fn budget_columns() -> Vec<Column> {
    vec![
        NAME,
        Column::text("Min Available"),
        Column::text("Max Unavailable"),
        Column::integer("Allowed Disruptions"),
        AGE,
    ]
}
