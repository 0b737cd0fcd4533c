"""One plugin inside a component: the replica, the open cycles, and the plugin itself."""

import sys
import traceback
from collections.abc import Mapping

from wit_world.imports import host

from . import declared, manifest
from .answers import Preemption, Rejection, rejection
from .pod import Pod
from .table import Node, Table


class Guest:
    def __init__(self):
        self.kind = None
        # The interfaces that plugin.wit exports, as the build says.
        self.exported: list[str] = []
        self.plugin = None
        self.table = Table()
        self.cycles: dict[int, Pod] = {}
        # By cycle: the pods that its dry runs have named.
        self.tried: dict[int, list[Pod]] = {}

    def follows_pods(self) -> bool:
        """Whether the replica has the pods on nodes."""
        return getattr(self.kind, "pods", False) or any(hasattr(self.kind, it) for it in ("pod_placed", "pod_removed"))


guest = Guest()


def plugin(kind):
    """Makes this class the component's plugin."""
    if guest.kind is not None:
        raise TypeError(f"a component holds one plugin; {guest.kind.__name__} is one already")
    guest.kind = kind
    manifest.check(kind)
    declared.declare(manifest.columns(kind), guest.follows_pods(), getattr(kind, "pod_json", False), getattr(kind, "objects", []))
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


def nodes() -> list[Node]:
    """All nodes of the cluster, with the plugin's `columns`."""
    if not guest.follows_pods() and not getattr(guest.kind, "columns", []):
        raise RuntimeError("nodes() needs `columns`")
    return guest.table.nodes()


def pods() -> list[Pod]:
    """All pods on nodes, those that are being bound included."""
    if not guest.follows_pods():
        raise RuntimeError("pods() needs `pods = True`")
    return list(guest.table.pods.values())


def objects(api_version: str, kind: str) -> Mapping[tuple[str, str], dict]:
    """The objects of a kind that the plugin's `objects` names, by namespace and name; the namespace is empty for kinds without
    namespaces. Each is decoded when it is first looked at, and not to be changed."""
    kept = guest.table.objects.get((api_version, kind))
    if kept is None:
        declared.expect_kind(api_version, kind)
        return {}
    return kept


def image_size(name: str) -> int:
    """In bytes; 0 if no node has the image."""
    return guest.table.image_sizes.get(name, 0)


def dry_run(cases: list[tuple[Node, list[Pod]]]) -> list[Rejection | None]:
    """In post_filter: for each pair of a node and pods on it, what the profile's other Filter plugins would say without
    them: None, or a Rejection."""
    statuses = host.dry_run([host.Removal(node.row, [pod.slot for pod in pods]) for node, pods in cases])
    return [rejection(status) for status in statuses]


def ask_extenders(preemptions: list[Preemption]) -> list[Preemption]:
    """In post_filter: what is left of these after the HTTP extenders with a `preemptVerb`, which leave nodes out and may name
    other pods of a node."""
    asked = [host.Preemption(it.node.row, [pod.slot for pod in it.victims], it.violations) for it in preemptions]
    table = guest.table
    return [
        Preemption(table.node(it.node), [table.pods[slot] for slot in it.victims], it.violations)
        for it in host.ask_extenders(asked)
    ]


def tell(error: BaseException) -> None:
    """Says what went wrong, and where in the plugin's own files. What a call logs as an error before it traps is the reason
    of the fault."""
    text = " ".join(str(error).splitlines()[:3])
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    log(f"{reason}{_place(error) or _place_of(getattr(error, 'method', None))}", "error")


def unfit(method: str, gave: str) -> TypeError:
    """What is raised for an answer that a method must not give. No frame of the traceback is the author's then: `tell` says
    the line of the method."""
    error = TypeError(f"{method} gave {gave}")
    error.method = method
    return error


def _place(error: BaseException) -> str:
    # Not `traceback.extract_tb`: it reads the source, and a component has no files.
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
