"""The answers of a plugin."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wit_world.imports.types import Actions, ClusterEvent, Code, Status

if TYPE_CHECKING:
    from .pod import Pod
    from .table import Node


@dataclass(frozen=True)
class Rejection:
    """Rejects the pod, or a node for the pod."""

    code: Code
    reason: str


def reject(reason: str) -> Rejection:
    """Rejects the pod or the node. The eviction of pods may help."""
    return Rejection(Code.UNSCHEDULABLE, reason)


def reject_unresolvable(reason: str) -> Rejection:
    """Rejects the pod or the node. The eviction of pods cannot help."""
    return Rejection(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)


def pending(reason: str) -> Rejection:
    """Rejects the pod until an event outside the scheduler. After that event, the pod skips its backoff."""
    return Rejection(Code.PENDING, reason)


def fail(reason: str) -> Rejection:
    """Fails the attempt with this reason. The attempt is repeated after a backoff. The error counts in
    `berth_plugin_errors_total`. It is not a fault, in contrast to an exception."""
    return Rejection(Code.ERROR, reason)


SKIP = Rejection(Code.SKIP, "")
"""Says that the plugin has nothing to do for this pod. pre_filter, pre_score, pre_bind_pre_flight, pre_bind and bind may return
it."""


def is_time(milliseconds) -> bool:
    """Says whether the value is a number of milliseconds that fits into the contract's type."""
    return isinstance(milliseconds, int) and not isinstance(milliseconds, bool) and 0 <= milliseconds < 1 << 64


@dataclass(frozen=True)
class Wait:
    """An answer of permit. `milliseconds` is the maximum time for which Permit holds the pod."""

    milliseconds: int

    def __post_init__(self):
        if not is_time(self.milliseconds):
            raise TypeError(f"Wait got {self.milliseconds!r}, which is not a number of milliseconds")


@dataclass(frozen=True)
class Failure:
    """The reasons why no node passed. post_filter gets them."""

    rejections: "list[tuple[Rejection, list[Node]]]"
    """Each rejection with the rejected nodes."""
    absent: Rejection | None
    """The rejection of all other nodes, if pre_filter rejected them or the pod."""
    nominated: "list[tuple[Node, Pod]]"
    """The pods that are nominated to nodes, with these nodes."""


@dataclass(frozen=True)
class Preemption:
    """A node on which the pod fits after the eviction of the victims."""

    node: "Node"
    victims: "list[Pod]"
    """The pods to evict, the most important pod first."""
    violations: int = 0
    """The number of evictions that violate a disruption budget."""


@dataclass(frozen=True)
class Outcome:
    """The result of a successful post_filter."""

    node: "Node | None" = None
    """The node to nominate for the pod, or None."""
    clear: bool = False
    """Removes the pod's nomination."""
    effects: list = field(default_factory=list)


Action = Literal[
    "Add",
    "Delete",
    "Update",
    "UpdateNodeAllocatable",
    "UpdateNodeLabel",
    "UpdateNodeTaint",
    "UpdateNodeCondition",
    "UpdateNodeAnnotation",
    "UpdateNodeDeclaredFeature",
    "UpdatePodLabel",
    "UpdatePodScaleDown",
    "UpdatePodToleration",
    "UpdatePodSchedulingGatesEliminated",
    "UpdatePodGeneratedResourceClaim",
]
"""A change of an object, with the names of kube-scheduler's `ActionType`. `Update` is all update actions. It is the only update
action for kinds other than pods and nodes."""

ACTIONS = {known.name.title().replace("_", ""): known for known in Actions}
UPDATE = ~(Actions.ADD | Actions.DELETE)


@dataclass(frozen=True)
class Event:
    """A change in the cluster. queueing_hint gets it."""

    resource: str
    """`Pod`, `Node`, `PersistentVolumeClaim`, `<plural>.<version>.<group>` or `*`."""
    actions: frozenset[str]
    """The actions of the change, usually one. An update that has no action of its own is `Update`."""

    @classmethod
    def of(cls, raw: ClusterEvent) -> "Event":
        if raw.actions == UPDATE:
            return cls(raw.resource, frozenset(["Update"]))
        return cls(raw.resource, frozenset(name for name, action in ACTIONS.items() if action in raw.actions))


def on(resource: str, *actions: Action) -> ClusterEvent:
    """Returns an entry of `events_to_register`: `on("Node", "Add", "UpdateNodeLabel")`. Without actions, it has all actions."""
    mask = Actions(0)
    for action in actions or ACTIONS:
        if action != "Update" and action not in ACTIONS:
            raise ValueError(f"{action!r} is not an action; there are Update, {', '.join(ACTIONS)}")
        mask |= UPDATE if action == "Update" else ACTIONS[action]
    return ClusterEvent(resource, mask)


def status(answer: Rejection | None) -> Status:
    if answer is None:
        return Status(Code.SUCCESS, [])
    if not isinstance(answer, Rejection):
        raise TypeError(f"{answer!r} is neither None nor a rejection")
    return Status(answer.code, [answer.reason] if answer.reason else [])


def rejection(raw: Status) -> Rejection | None:
    return None if raw.code is Code.SUCCESS else Rejection(raw.code, ", ".join(raw.reasons))
