"""The columns of the node table, for the attribute `columns` of a plugin."""

from wit_world.exports import lifecycle

NAME = lifecycle.Column_Name()
UNSCHEDULABLE = lifecycle.Column_Unschedulable()
LABELS = lifecycle.Column_Labels()
TAINTS = lifecycle.Column_Taints()
ALLOCATABLE = lifecycle.Column_Allocatable()
REQUESTED = lifecycle.Column_Requested()
NON_ZERO_REQUESTED = lifecycle.Column_NonZeroRequested()
POD_COUNT = lifecycle.Column_PodCount()
IMAGES = lifecycle.Column_Images()
HOST_PORTS = lifecycle.Column_HostPorts()
DECLARED_FEATURES = lifecycle.Column_DeclaredFeatures()


def annotation(key: str) -> lifecycle.Column_Annotation:
    """The column of one annotation."""
    return lifecycle.Column_Annotation(key)


def label(key: str) -> lifecycle.Column_Label:
    """The column of one label. LABELS is the column of all labels."""
    return lifecycle.Column_Label(key)
