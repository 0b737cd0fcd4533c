"""The properties that the plugin's columns provide. The first read of another property of a node is logged, and the value is
empty."""

from wit_world.exports import lifecycle
from wit_world.imports import host

PARTS = {
    "name": ("NAME", str),
    "unschedulable": ("UNSCHEDULABLE", bool),
    "labels": ("LABELS", dict),
    "taints": ("TAINTS", tuple),
    "allocatable": ("ALLOCATABLE", dict),
    "requested": ("REQUESTED", dict),
    "non_zero_milli_cpu": ("NON_ZERO_REQUESTED", int),
    "non_zero_memory": ("NON_ZERO_REQUESTED", int),
    "pod_count": ("POD_COUNT", int),
    "images": ("IMAGES", list),
    "host_ports": ("HOST_PORTS", list),
    "declared_features": ("DECLARED_FEATURES", list),
    "annotations": ("annotation(key)", dict),
    "pods": ("pods", list),
}
"""For each property of a node, the column that provides it, and the type of its empty value."""

_told: set[str] = set()

# `declare` sets these values when the plugin's class is known.
_parts: list[tuple[str, type]] = []
_keys: dict[str, set[str]] = {}
_pod_json = False
_kinds: set[tuple[str, str]] = set()


def declare(columns: list, pods: bool, pod_json: bool, kinds: list) -> None:
    """Stores the columns, fields and kinds that the manifest requests. The kinds are pairs of apiVersion and kind."""
    global _pod_json
    _pod_json = pod_json
    _kinds.update(tuple(kind) for kind in kinds)
    names = {type(column).__name__.removeprefix("Column_").lower() for column in columns}
    named = {PARTS_BY_COLUMN.get(name, ()) for name in names}
    properties = {property for properties in named for property in properties} | ({"pods"} if pods else set())
    _parts[:] = [(name, empty) for name, (_, empty) in PARTS.items() if name in properties]
    if "labels" not in names:
        _keys["labels"] = {column.value for column in columns if isinstance(column, lifecycle.Column_Label)}
    _keys["annotations"] = {column.value for column in columns if isinstance(column, lifecycle.Column_Annotation)}


PARTS_BY_COLUMN = {
    "name": ("name",),
    "unschedulable": ("unschedulable",),
    "labels": ("labels",),
    "label": ("labels",),
    "taints": ("taints",),
    "allocatable": ("allocatable",),
    "requested": ("requested",),
    "nonzerorequested": ("non_zero_milli_cpu", "non_zero_memory"),
    "podcount": ("pod_count",),
    "images": ("images",),
    "hostports": ("host_ports",),
    "declaredfeatures": ("declared_features",),
    "annotation": ("annotations",),
}


def parts() -> list[tuple[str, type]]:
    """The properties that nodes have, with the types of their empty values."""
    return _parts


def has_pod_json() -> bool:
    if not _pod_json:
        tell("pod_json (pod.json)")
    return _pod_json


def expect_kind(api_version: str, kind: str) -> None:
    """Checks a read of objects of which there are none."""
    if (api_version, kind) not in _kinds:
        tell(f"objects {api_version}/{kind}")


def tell(what: str) -> None:
    """Logs an undeclared read once. The scheduler recognizes the log line by its first words."""
    if what not in _told:
        _told.add(what)
        host.log(host.Level.WARN, f"undeclared read: {what}")


class _Chosen(dict):
    """The labels or annotations that the manifest requests by key."""

    def __init__(self, pairs, what: str):
        super().__init__(pairs)
        self._what = what

    def get(self, key, default=None):
        if key not in self and key not in _keys[self._what]:
            tell(f"{self._what.removesuffix('s')} {key}")
        return super().get(key, default)


# The number of nodes that log undeclared reads of keys. Tests have fewer nodes, and the logging does not slow large clusters.
_TELLING = 64


def chosen(what: str, pairs: dict[str, str], row: int) -> dict[str, str]:
    """Returns a node's labels or annotations for the plugin. They log undeclared reads on the first nodes."""
    return _Chosen(pairs, what) if row < _TELLING and _keys.get(what) else pairs
