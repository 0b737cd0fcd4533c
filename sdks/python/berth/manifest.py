"""Checks the attributes of a plugin's class, and makes the manifest. The build runs the checks when it loads the class."""

from wit_world.exports import lifecycle
from wit_world.imports.types import ClusterEvent


def check(kind) -> None:
    """Refuses a class with an invalid attribute.

    :raises TypeError: a sentence with the class, the attribute and a correction
    """
    for attribute, is_right, wanted in (
        ("name", lambda it: isinstance(it, str) and it, "must be a text"),
        ("version", lambda it: isinstance(it, str) and it, "must be a text"),
        ("columns", _is_list, "must be a list, as [berth.NAME]"),
        ("pods", lambda it: isinstance(it, bool), "must be True or False"),
        ("pod_json", lambda it: isinstance(it, bool), "must be True or False"),
        ("objects", _is_list, 'must be a list, as [("v1", "ConfigMap")]'),
        ("events_to_register", lambda it: it is None or _is_list(it), 'must be a list, as [berth.on("Node", "Add")]'),
    ):
        if not is_right(getattr(kind, attribute, _DEFAULTS.get(attribute))):
            raise TypeError(f"{kind.__name__}.{attribute}: {wanted}")
    for column in columns(kind):
        if not type(column).__name__.startswith("Column_"):
            lack = f"{column!r} is not a column; write berth.LABELS, berth.label(key) and the like, without quotes"
            raise TypeError(f"{kind.__name__}.columns: {lack}")
    for pair in getattr(kind, "objects", []):
        if not (_is_list(pair) and len(pair) == 2 and all(isinstance(it, str) for it in pair)):
            lack = f'{pair!r} is not a kind; write [("v1", "ConfigMap")], the apiVersion and the kind'
            raise TypeError(f"{kind.__name__}.objects: {lack}")
    for event in getattr(kind, "events_to_register", None) or []:
        if not isinstance(event, ClusterEvent):
            lack = f'{event!r} is not an event; write berth.on("Node", "Add")'
            raise TypeError(f"{kind.__name__}.events_to_register: {lack}")


_DEFAULTS = {"columns": [], "pods": False, "pod_json": False, "objects": []}


def _is_list(it) -> bool:
    return isinstance(it, list | tuple)


def columns(kind) -> list:
    return list(getattr(kind, "columns", []))


def of(kind, follows_pods: bool) -> lifecycle.Manifest:
    """The manifest of a checked class."""
    return lifecycle.Manifest(
        name=kind.name,
        version=kind.version,
        columns=columns(kind),
        pods=follows_pods,
        pod_json=getattr(kind, "pod_json", False),
        objects=[lifecycle.ObjectKind(api_version, name) for api_version, name in getattr(kind, "objects", [])],
        events_to_register=getattr(kind, "events_to_register", None),
    )
