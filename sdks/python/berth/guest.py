"""The data of a component between calls: the replica, the open cycles, and the plugin."""

import sys
import traceback
from collections.abc import Mapping

from wit_world.imports import host

from . import declared, manifest
from .answers import Preemption, Rejection, rejection
from .pod import Pod
from .table import Node, Table

LEVELS = ("debug", "info", "warn", "error")


class Guest:
    def __init__(self):
        self.kind = None
        # The interfaces that plugin.wit exports. The build sets the list.
        self.exported: list[str] = []
        self.plugin = None
        self.table = Table()
        self.cycles: dict[int, Pod] = {}
        # The pods that the dry runs of each cycle have named.
        self.tried: dict[int, list[Pod]] = {}

    def follows_pods(self) -> bool:
        """Says whether the replica has the pods on nodes."""
        return getattr(self.kind, "pods", False) or any(hasattr(self.kind, it) for it in ("pod_placed", "pod_removed"))


guest = Guest()


def plugin(kind):
    """Sets the class of the component's plugin."""
    if guest.kind is not None:
        raise TypeError(f"a component holds one plugin; {guest.kind.__name__} is one already")
    guest.kind = kind
    manifest.check(kind)
    declared.declare(manifest.columns(kind), guest.follows_pods(), getattr(kind, "pod_json", False), getattr(kind, "objects", []))
    return kind


def log(message: str, level: str = "info") -> None:
    """Writes a line to the scheduler's log. `level` is debug, info, warn or error."""
    if level not in LEVELS:
        raise ValueError(f"log got level {level!r}, which is none of {', '.join(LEVELS)}; write log(message, level)")
    host.log(host.Level[level.upper()], message)


def now() -> int:
    """Returns the time at the start of this cycle, in milliseconds since 1970."""
    return host.now()


def count(name: str, amount: int = 1) -> None:
    """Adds to the counter `berth_plugin_custom_total{name}`."""
    host.count(name, amount)


def nodes() -> list[Node]:
    """Returns all nodes of the cluster, with the plugin's `columns`."""
    if not guest.follows_pods() and not getattr(guest.kind, "columns", []):
        raise RuntimeError("nodes() needs `columns`")
    return guest.table.nodes()


def pods() -> list[Pod]:
    """Returns all pods on nodes, including the pods that are being bound. The plugin must have `pods`, `pod_placed` or
    `pod_removed`."""
    if not guest.follows_pods():
        raise RuntimeError("pods() needs `pods = True`")
    return list(guest.table.pods.values())


def objects(api_version: str, kind: str) -> Mapping[tuple[str, str], dict]:
    """Returns the objects of a kind, by namespace and name. The namespace is empty for kinds without namespaces. The plugin's
    `objects` must name the kind. Each object is decoded at its first read. Do not change an object."""
    kept = guest.table.objects.get((api_version, kind))
    if kept is None:
        declared.expect_kind(api_version, kind)
        return {}
    return kept


def image_size(name: str) -> int:
    """Returns the size of an image in bytes, or 0 if no node has the image."""
    return guest.table.image_sizes.get(name, 0)


def dry_run(cases: list[tuple[Node, list[Pod]]]) -> list[Rejection | None]:
    """Asks the profile's other Filter plugins about nodes without some of their pods. It returns one answer for each case; None
    means that the node passes. Call it in post_filter only."""
    statuses = host.dry_run([host.Removal(node.row, [pod.slot for pod in pods]) for node, pods in cases])
    return [rejection(status) for status in statuses]


def ask_extenders(preemptions: list[Preemption]) -> list[Preemption]:
    """Asks the HTTP extenders that have a `preemptVerb`, and returns the preemptions that they keep. An extender may remove nodes
    and name other victims on a node. Call it in post_filter only."""
    asked = [host.Preemption(it.node.row, [pod.slot for pod in it.victims], it.violations) for it in preemptions]
    table = guest.table
    return [
        Preemption(table.node(it.node), [table.pods[slot] for slot in it.victims], it.violations)
        for it in host.ask_extenders(asked)
    ]


def tell(error: BaseException) -> None:
    """Logs an exception as an error, with its place in the plugin's own files. The last error that a call logs before it traps is
    the reason of the fault."""
    text = " ".join(str(error).splitlines()[:3])
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    log(f"{reason}{_place(error) or _place_of(getattr(error, 'method', None))}", "error")


def unfit(method: str, gave: str) -> TypeError:
    """An exception for an invalid answer of a method. Its traceback has no line of the author, so `tell` logs the line of the
    method."""
    error = TypeError(f"{method} gave {gave}")
    error.method = method
    return error


def _place(error: BaseException) -> str:
    # `traceback.extract_tb` would read the source, and a component has no files.
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(code, line) for code, line in frames if code.co_filename.startswith(_folder())]
    return _named(*own[-1]) if own else ""


def _place_of(method: str | None) -> str:
    code = getattr(getattr(guest.kind, method or "", None), "__code__", None)
    return _named(code, code.co_firstlineno) if code and code.co_filename.startswith(_folder()) else ""


def _folder() -> str:
    """The folder of plugin.py."""
    return sys.modules[guest.kind.__module__].__file__.rpartition("/")[0] + "/" if guest.kind else ""


def _named(code, line: int) -> str:
    folder = _folder()
    return f", at {code.co_filename.removeprefix(folder)}:{line} in {code.co_name}"
