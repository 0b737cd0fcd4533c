"""What a plugin wants done: Permit, PreBind, Bind and PostFilter answer with lists of these. The operator must grant each sort.

Kinds are written `v1/ConfigMap`; `namespace` is empty for kinds without one; `body` is anything that JSON can hold.
"""

import json

from wit_world.imports import types


def _json(body) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def bind() -> types.Effect_Bind:
    """Binds the pod of this cycle to the node chosen for it."""
    return types.Effect_Bind()


def patch(kind: str, namespace: str, name: str, body, subresource: str | None = None) -> types.Effect_Patch:
    """A JSON merge patch. A `resourceVersion` in it makes it fail when the object has changed since."""
    return types.Effect_Patch(types.Patch(types.ObjectRef(kind, namespace, name), subresource, _json(body)))


def create(kind: str, namespace: str, body) -> types.Effect_Create:
    return types.Effect_Create(types.NewObject(kind, namespace, _json(body)))


def delete(kind: str, namespace: str, name: str) -> types.Effect_Delete:
    return types.Effect_Delete(types.ObjectRef(kind, namespace, name))


def evict(pod, message: str) -> types.Effect_Evict:
    """Makes room by evicting a pod from its node."""
    return types.Effect_Evict(types.Eviction(types.PodRef(pod.namespace, pod.name, pod.uid), message))


def allow(uid: str) -> types.Effect_Allow:
    """Lets a pod that waits on Permit go on."""
    return types.Effect_Allow(uid)


def reject(uid: str, reason: str) -> types.Effect_Reject:
    """Turns down a pod that waits on Permit."""
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
    """An effect of PreBind, and of Permit together with `Wait`. The plugin is asked again when one of the objects,
    `(kind, namespace, name)`, has changed, and the attempt fails with the message after `timeout_ms`. The objects may include the
    pod itself, `("v1/Pod", pod.namespace, pod.name)`; the plugin is then asked with the pod as it is after the change. `wait` must
    be the last effect of the answer."""
    return types.Effect_Wait(types.Wait([types.ObjectRef(*key) for key in objects], timeout_ms, message))
