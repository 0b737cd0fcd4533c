"""One plugin inside a component: the replica, the open cycles, and the plugin itself."""

import traceback

from wit_world.imports import host

from .answers import rejection
from .pod import Pod
from .table import Table


class Guest:
    def __init__(self):
        self.kind = None
        self.plugin = None
        self.table = Table()
        self.cycles: dict[int, Pod] = {}
        # By cycle: the pods that its dry runs have named.
        self.tried: dict[int, list[Pod]] = {}


guest = Guest()


def plugin(kind):
    """Makes this class the component's plugin."""
    if guest.kind is not None:
        raise TypeError(f"a component holds one plugin; {guest.kind.__name__} is one already")
    guest.kind = kind
    return kind


def log(message: str, level: str = "info") -> None:
    """Writes to the scheduler's log; `level` is debug, info, warn or error."""
    host.log(host.Level[level.upper()], message)


def now() -> int:
    """Milliseconds since 1970, as of the start of this cycle."""
    return host.now()


def count(name: str, amount: int = 1) -> None:
    """Adds to the counter `berth_plugin_custom_total{name}`."""
    host.count(name, amount)


def objects(api_version: str, kind: str) -> dict[tuple[str, str], bytes]:
    """The objects of a kind that the plugin's `objects` names, as JSON by namespace and name."""
    return guest.table.objects.get((api_version, kind), {})


def image_size(name: str) -> int:
    """In bytes; 0 if no node has the image."""
    return guest.table.image_sizes.get(name, 0)


def dry_run(cases: list) -> list:
    """In post_filter: for each pair of a node and pods on it, what the profile's other Filter plugins would say without
    them: None, or a Rejection."""
    statuses = host.dry_run([host.Removal(node.row, [pod.slot for pod in pods]) for node, pods in cases])
    return [rejection(status) for status in statuses]


def failure(error: Exception) -> str:
    """Why an attempt fails; where it happened goes to the log."""
    reason = f"{type(error).__name__}: {error}"
    # Not `traceback.format_exc`: it reads the source, and a component has no files.
    frames = traceback.walk_tb(error.__traceback__)
    places = [f"  {frame.f_code.co_filename}:{line}, in {frame.f_code.co_name}" for frame, line in frames]
    log("\n".join([reason, *places])[:4000], "error")
    return reason
