"""What a plugin says about a pod."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from wit_world.imports.types import Actions, ClusterEvent, Code, Status

if TYPE_CHECKING:
    from .pod import Pod
    from .table import Node


@dataclass(frozen=True)
class Rejection:
    """No: the pod, or the node for it."""

    code: Code
    reason: str


def reject(reason: str) -> Rejection:
    """The node cannot run the pod; evicting pods may help."""
    return Rejection(Code.UNSCHEDULABLE, reason)


def reject_unresolvable(reason: str) -> Rejection:
    """The node cannot run the pod, whatever is evicted."""
    return Rejection(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)


def pending(reason: str) -> Rejection:
    """Not until something outside the scheduler happens; that event skips the pod's backoff."""
    return Rejection(Code.PENDING, reason)


def fail(reason: str) -> Rejection:
    """Something broke: the attempt fails with this reason and is repeated after a backoff. It counts in
    `berth_plugin_errors_total` and is not a fault, as an exception would be."""
    return Rejection(Code.ERROR, reason)


SKIP = Rejection(Code.SKIP, "")
"""pre_filter, pre_score, pre_bind_pre_flight, pre_bind and bind: nothing to say about this pod."""


@dataclass(frozen=True)
class Wait:
    """permit: hold the pod for at most so many milliseconds."""

    milliseconds: int


@dataclass(frozen=True)
class Failure:
    """What post_filter is told: why no node passed."""

    rejections: "list[tuple[Rejection, list[Node]]]"
    """Each with the nodes that it is about."""
    absent: Rejection | None
    """Of all other nodes, when pre_filter turned them or the pod down."""
    nominated: "list[tuple[Node, Pod]]"
    """Nodes with pods that hold a nomination there."""


@dataclass(frozen=True)
class Preemption:
    """A node on which the pod fits once these pods are gone."""

    node: "Node"
    victims: "list[Pod]"
    """The most important first."""
    violations: int = 0
    """How many of the evictions violate a disruption budget."""


@dataclass(frozen=True)
class Outcome:
    """What post_filter has come to: success, with a node to nominate or not, and effects."""

    node: "Node | None" = None
    clear: bool = False
    """Clear the pod's nomination."""
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
"""What happened to an object, as kube-scheduler's `ActionType` spells it. `Update` is every update: the only one that kinds besides pods and nodes have."""

ACTIONS = {known.name.title().replace("_", ""): known for known in Actions}
UPDATE = ~(Actions.ADD | Actions.DELETE)


@dataclass(frozen=True)
class Event:
    """What a queueing hint is asked about."""

    resource: str
    """`Pod`, `Node`, ..., as in `on`."""
    actions: frozenset[str]
    """What happened, as in `on`: one action, as a rule. An update that has no action of its own is `Update`."""

    @classmethod
    def of(cls, raw: ClusterEvent) -> "Event":
        if raw.actions == UPDATE:
            return cls(raw.resource, frozenset(["Update"]))
        return cls(raw.resource, frozenset(name for name, action in ACTIONS.items() if action in raw.actions))


def on(resource: str, *actions: Action) -> ClusterEvent:
    """An entry of `events_to_register`: `on("Node", "Add", "UpdateNodeLabel")`. Without actions: all of them."""
    mask = Actions(0)
    for action in actions or ACTIONS:
        if action != "Update" and action not in ACTIONS:
            raise ValueError(f"{action!r} is no action; there are Update, {', '.join(ACTIONS)}")
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
