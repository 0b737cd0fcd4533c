"""The effects: actions that a plugin asks the scheduler to carry out. Unreserve, Permit, PreBind, Bind and PostFilter return lists of
effects. The operator must grant each kind of effect.

The kind of an object is written `v1/ConfigMap`. `namespace` is empty for kinds without namespaces. `body` is a value that JSON can
represent.
"""

import json
from collections.abc import Iterable

from wit_world.imports import types

from .answers import is_time

MADE = (
    types.Effect_Bind,
    types.Effect_Patch,
    types.Effect_Create,
    types.Effect_Delete,
    types.Effect_Evict,
    types.Effect_Allow,
    types.Effect_Reject,
    types.Effect_Activate,
    types.Effect_Nominate,
    types.Effect_Event,
    types.Effect_Wait,
)
"""The types of the effects that the functions of this module make."""


def _json(body) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def _texts(function: str, **arguments) -> None:
    """Raises an error for the first argument that is not a text. Its traceback has the line of the plugin that calls the function."""
    for name, value in arguments.items():
        if not isinstance(value, str):
            lack = '; it is "" for a kind without namespaces' if name == "namespace" else ""
            raise TypeError(f"effects.{function} got {name} {value!r}, which is not a text{lack}")


def _list(function: str, name: str, value, what: str) -> list:
    if not isinstance(value, Iterable) or isinstance(value, str | dict):
        raise TypeError(f"effects.{function} got {name} {value!r}, which is not a list of {what}")
    return list(value)


def _reference(key) -> types.ObjectRef:
    if not isinstance(key, tuple | list) or len(key) != 3:
        raise TypeError(f"effects.wait got the object {key!r}, which is not a tuple (kind, namespace, name)")
    _texts("wait", **dict(zip(("kind", "namespace", "name"), key, strict=True)))
    return types.ObjectRef(*key)


def bind() -> types.Effect_Bind:
    """Binds the pod of this cycle to the node chosen for it."""
    return types.Effect_Bind()


def patch(kind: str, namespace: str, name: str, body, subresource: str | None = None) -> types.Effect_Patch:
    """Applies a JSON merge patch to an object. If the patch contains a `resourceVersion`, it fails if the object has changed since
    that version."""
    _texts("patch", kind=kind, namespace=namespace, name=name)
    if subresource is not None:
        _texts("patch", subresource=subresource)
    reference = types.ObjectRef(kind, namespace, name)
    return types.Effect_Patch(types.Patch(reference, subresource, _json(body), types.PatchType.MERGE))


def strategic_patch(kind: str, namespace: str, name: str, body, subresource: str | None = None) -> types.Effect_Patch:
    """Applies a strategic merge patch. It can change or remove single elements of a list. The API server accepts it only for kinds
    that are built into Kubernetes."""
    _texts("strategic_patch", kind=kind, namespace=namespace, name=name)
    if subresource is not None:
        _texts("strategic_patch", subresource=subresource)
    reference = types.ObjectRef(kind, namespace, name)
    return types.Effect_Patch(types.Patch(reference, subresource, _json(body), types.PatchType.STRATEGIC_MERGE))


def create(kind: str, namespace: str, body) -> types.Effect_Create:
    """Creates an object from JSON."""
    _texts("create", kind=kind, namespace=namespace)
    return types.Effect_Create(types.NewObject(kind, namespace, _json(body)))


def delete(kind: str, namespace: str, name: str) -> types.Effect_Delete:
    """Deletes an object."""
    _texts("delete", kind=kind, namespace=namespace, name=name)
    return types.Effect_Delete(types.ObjectRef(kind, namespace, name))


def evict(pod, message: str) -> types.Effect_Evict:
    """Evicts a pod from its node."""
    _texts("evict", message=message)
    return types.Effect_Evict(types.Eviction(types.PodRef(pod.namespace, pod.name, pod.uid), message))


def allow(uid: str) -> types.Effect_Allow:
    """Allows a pod that waits at Permit to continue."""
    _texts("allow", uid=uid)
    return types.Effect_Allow(uid)


def reject(uid: str, reason: str) -> types.Effect_Reject:
    """Rejects a pod that waits at Permit."""
    _texts("reject", uid=uid, reason=reason)
    return types.Effect_Reject((uid, reason))


def activate(uids: list[str]) -> types.Effect_Activate:
    """Moves pods to activeQ."""
    uids = _list("activate", "uids", uids, "texts")
    for uid in uids:
        _texts("activate", uid=uid)
    return types.Effect_Activate(uids)


def nominate(uid: str, node: str | None) -> types.Effect_Nominate:
    """Sets a pod's `nominatedNodeName`; None clears it."""
    _texts("nominate", uid=uid)
    if node is not None:
        _texts("nominate", node=node)
    return types.Effect_Nominate((uid, node))


def event(reason: str, action: str, note: str, warning: bool = False) -> types.Effect_Event:
    """Writes a Kubernetes event about the pod of this cycle."""
    _texts("event", reason=reason, action=action, note=note)
    if not isinstance(warning, bool):
        raise TypeError(f"effects.event got warning {warning!r}, which is neither True nor False")
    return types.Effect_Event(types.Event(warning, reason, action, note))


def wait(objects: list[tuple[str, str, str]], timeout_ms: int, message: str) -> types.Effect_Wait:
    """Waits until one of the objects, `(kind, namespace, name)`, changes, then the scheduler calls the method again. The attempt
    fails with the message after `timeout_ms`. PreBind may return this effect. Permit may return it together with `Wait`. The
    objects may include the pod itself, `("v1/Pod", pod.namespace, pod.name)`; the method then gets the changed pod. The manifest's
    `objects` must name all other kinds. `wait` must be the last effect in the list."""
    references = [_reference(key) for key in _list("wait", "objects", objects, "(kind, namespace, name)")]
    if not is_time(timeout_ms):
        raise TypeError(f"effects.wait got timeout_ms {timeout_ms!r}, which is not a number of milliseconds")
    _texts("wait", message=message)
    return types.Effect_Wait(types.Wait(references, timeout_ms, message))
