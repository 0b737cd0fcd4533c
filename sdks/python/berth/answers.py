"""What a plugin says about a pod on a node."""

from dataclasses import dataclass

from wit_world.imports.types import Code


@dataclass(frozen=True)
class Rejection:
    """The node cannot run the pod."""

    code: Code
    reason: str


def reject(reason: str) -> Rejection:
    """The node cannot run the pod; evicting pods may help."""
    return Rejection(Code.UNSCHEDULABLE, reason)


def reject_unresolvable(reason: str) -> Rejection:
    """The node cannot run the pod, whatever is evicted."""
    return Rejection(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
