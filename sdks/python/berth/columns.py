"""The parts of the node table that a plugin can ask for in `columns`."""

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
    """One annotation."""
    return lifecycle.Column_Annotation(key)


def label(key: str) -> lifecycle.Column_Label:
    """Instead of LABELS: this label only."""
    return lifecycle.Column_Label(key)
