"""The effects: actions that a plugin asks the scheduler to carry out. Permit, PreBind, Bind and PostFilter return lists of effects.
The operator must grant each kind of effect.

The kind of an object is written `v1/ConfigMap`. `namespace` is empty for kinds without namespaces. `body` is a value that JSON can
represent.
"""

import json

from wit_world.imports import types


def _json(body) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def bind() -> types.Effect_Bind:
    """Binds the pod of this cycle to the node chosen for it."""
    return types.Effect_Bind()


def patch(kind: str, namespace: str, name: str, body, subresource: str | None = None) -> types.Effect_Patch:
    """Applies a JSON merge patch to an object. If the patch contains a `resourceVersion`, it fails if the object has changed since
    that version."""
    return types.Effect_Patch(types.Patch(types.ObjectRef(kind, namespace, name), subresource, _json(body)))


def create(kind: str, namespace: str, body) -> types.Effect_Create:
    """Creates an object from JSON."""
    return types.Effect_Create(types.NewObject(kind, namespace, _json(body)))


def delete(kind: str, namespace: str, name: str) -> types.Effect_Delete:
    """Deletes an object."""
    return types.Effect_Delete(types.ObjectRef(kind, namespace, name))


def evict(pod, message: str) -> types.Effect_Evict:
    """Evicts a pod from its node."""
    return types.Effect_Evict(types.Eviction(types.PodRef(pod.namespace, pod.name, pod.uid), message))


def allow(uid: str) -> types.Effect_Allow:
    """Allows a pod that waits at Permit to continue."""
    return types.Effect_Allow(uid)


def reject(uid: str, reason: str) -> types.Effect_Reject:
    """Rejects a pod that waits at Permit."""
    return types.Effect_Reject((uid, reason))


def activate(uids: list[str]) -> types.Effect_Activate:
    """Moves pods to activeQ."""
    return types.Effect_Activate(uids)


def nominate(uid: str, node: str | None) -> types.Effect_Nominate:
    """Sets a pod's `nominatedNodeName`; None clears it."""
    return types.Effect_Nominate((uid, node))


def event(reason: str, action: str, note: str, warning: bool = False) -> types.Effect_Event:
    """Writes a Kubernetes event about the pod of this cycle."""
    return types.Effect_Event(types.Event(warning, reason, action, note))


def wait(objects: list[tuple[str, str, str]], timeout_ms: int, message: str) -> types.Effect_Wait:
    """Waits until one of the objects, `(kind, namespace, name)`, changes, then the scheduler calls the method again. The attempt
    fails with the message after `timeout_ms`. PreBind may return it, and so may Permit together with `Wait`. The objects may
    include the pod itself, `("v1/Pod", pod.namespace, pod.name)`; the method then gets the changed pod. The manifest's
    `objects` must name all other kinds. `wait` must be the last effect in the list."""
    return types.Effect_Wait(types.Wait([types.ObjectRef(*key) for key in objects], timeout_ms, message))
