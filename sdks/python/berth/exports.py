"""The exports of the contract. They call the plugin. componentize-py finds the classes by their names."""

import functools
import json
import operator
from array import array
from collections.abc import Iterable

from componentize_py_types import Err
from wit_world.exports import lifecycle
from wit_world.imports.types import Code, RejectedNodes

from . import declared, effects, manifest
from .answers import Event, Failure, Outcome, Rejection, Wait, rejection, status
from .guest import guest, tell, unfit
from .pod import Pod

# A module exists if the plugin's world exports its interface.
try:
    from wit_world.exports import permit as wit_permit
except ImportError:
    wit_permit = None
try:
    from wit_world.exports import post_filter as wit_post_filter
except ImportError:
    wit_post_filter = None
try:
    from wit_world.exports import queueing_hint as wit_hint
except ImportError:
    wit_hint = None
try:
    from wit_world.exports import pre_bind_pre_flight as wit_flight
except ImportError:
    wit_flight = None
try:
    from wit_world.exports import reuse as wit_reuse
except ImportError:
    wit_reuse = None

__all__ = [
    "Bind",
    "Cycle",
    "Explain",
    "Filter",
    "Lifecycle",
    "NormalizeScore",
    "Permit",
    "PostBind",
    "PostFilter",
    "PreBind",
    "PreBindPreFlight",
    "PreEnqueue",
    "PreFilter",
    "PreScore",
    "QueueSort",
    "QueueingHint",
    "Reserve",
    "Reuse",
    "Score",
    "Sign",
    "State",
    "Sync",
    "SyncPods",
]


def _call(function):
    """Wraps a call of the scheduler. An exception of the plugin is a fault: it is logged, then the call traps."""

    @functools.wraps(function)
    def call(*arguments):
        try:
            return function(*arguments)
        except Err:
            raise
        except BaseException as error:
            tell(error)
            raise

    return call


def _in_cycle(function):
    """Wraps a call that has a cycle. The function gets the plugin and the pod of the cycle instead of the cycle."""

    @_call
    @functools.wraps(function)
    def call(self, cycle, *arguments):
        pod = guest.cycles.get(cycle)
        if guest.plugin is None or pod is None:
            raise RuntimeError("called outside a cycle")
        return function(guest.plugin, pod, *arguments)

    return call


def _about_pod(function):
    """Wraps a call about a pod outside a cycle."""

    @_call
    @functools.wraps(function)
    def call(self, raw, *arguments):
        return function(guest.plugin, Pod(raw, guest.table), *arguments)

    return call


_ANSWERED_BY = {
    "filter": [("filter",)],
    "score": [("score", "score_nodes", "score_columns")],
    "normalize-score": [("normalize", "normalize_columns")],
    "queue-sort": [("sort_key",)],
    "reserve": [("reserve",), ("unreserve",)],
    "state": [("snapshot",), ("restore",)],
    "reuse": [("reach",)],
}
_ALIKE = """pre-enqueue pre-filter post-filter pre-score permit pre-bind-pre-flight pre-bind bind post-bind queueing-hint
sign explain"""


def missing_methods(kind, exported):
    """The exported interfaces without a method of the plugin, with the names of the missing methods."""
    for interface in exported:
        alike = [(interface.replace("-", "_"),)] if interface in _ALIKE.split() else []
        for methods in _ANSWERED_BY.get(interface, alike):
            if not any(callable(getattr(kind, method, None)) for method in methods):
                yield interface, " or ".join(methods)


class Lifecycle:
    @_call
    def describe(self) -> lifecycle.Manifest:
        kind = guest.kind
        if kind is None:
            raise TypeError("plugin.py has no class with @berth.plugin")
        for interface, method in missing_methods(kind, guest.exported):
            raise TypeError(f"plugin.wit exports {interface}, and {kind.__name__} has no method {method}")
        return manifest.of(kind, guest.follows_pods())

    @_call
    def configure(self, args: str) -> None:
        try:
            plugin = guest.kind()
            if hasattr(plugin, "configure"):
                plugin.configure(json.loads(args))
        except ValueError as error:
            raise Err(str(error)) from error
        guest.plugin = plugin


class Sync:
    @_call
    def apply(self, delta) -> None:
        guest.table.apply(delta, guest.plugin)


class SyncPods:
    @_call
    def place(self, pods) -> None:
        guest.table.place_alike(pods, guest.plugin)

    @_call
    def set_usage(self, generation: int, usage) -> None:
        guest.table.set_usage(usage)


class Cycle:
    def begin(self, cycle: int, pod) -> None:
        guest.cycles[cycle] = Pod(pod, guest.table)

    def end(self, cycle: int) -> None:
        guest.cycles.pop(cycle, None)
        guest.tried.pop(cycle, None)


def _check(method: str, answer: Rejection | None) -> None:
    """Raises a status that is not a success."""
    if answer is None:
        return
    if not isinstance(answer, Rejection):
        raise unfit(method, f"{answer!r}, which is neither None nor a rejection")
    raise Err(status(answer))


def _effects(method: str, answer) -> list:
    """The effects of a method that returns effects, or a rejection."""
    if isinstance(answer, Rejection):
        raise Err(status(answer))
    return _effects_in(method, answer)


def _effects_in(method: str, given) -> list:
    if not isinstance(given, Iterable) or isinstance(given, str | dict):
        raise unfit(method, f"{given!r}, which is not a list of effects")
    wanted = list(given)
    for effect in wanted:
        if not isinstance(effect, effects.MADE):
            raise unfit(method, f"the effect {effect!r}, which no function of berth.effects made")
    return wanted


def _nodes(words: list[int]) -> list:
    return guest.table.nodes_of(guest.table.selection(words))


class PreEnqueue:
    @_about_pod
    def pre_enqueue(plugin, pod):
        _check("pre_enqueue", plugin.pre_enqueue(pod))


class QueueSort:
    @_about_pod
    def sort_key(plugin, pod, queued_at):
        key = plugin.sort_key(pod, queued_at)
        try:
            first, second = key
            return operator.index(first), operator.index(second)
        except (TypeError, ValueError):
            raise unfit("sort_key", f"{key!r}, which is not a pair of ints") from None


class PreFilter:
    @_in_cycle
    def pre_filter(plugin, pod):
        answer = plugin.pre_filter(pod)
        if answer is None or isinstance(answer, Rejection):
            return _check("pre_filter", answer)
        if isinstance(answer, str) or not isinstance(answer, Iterable):
            raise unfit("pre_filter", f"{answer!r}, which is neither None, a rejection nor a list of the names of nodes")
        names = list(answer)
        for name in names:
            if not isinstance(name, str):
                raise unfit("pre_filter", f"a list with {name!r}, which is not the name of a node")
        return names


def _passes(answer: Rejection | None, node) -> bool:
    if answer is None:
        return True
    if not isinstance(answer, Rejection):
        raise unfit("filter", f"{answer!r} for {_node_named([node])}, which is neither None nor a rejection")
    if answer.code is Code.ERROR:
        raise Err(status(answer))
    return False


class Filter:
    @_in_cycle
    def filter(plugin, pod, candidates):
        if hasattr(plugin, "filter_columns"):
            columns = guest.table.columns(candidates)
            flags = _checked("filter_columns", plugin.filter_columns(pod, columns), len(columns))
            return guest.table.selection(candidates).passed(flags)
        nodes = _nodes(candidates)
        if hasattr(plugin, "filter_nodes"):
            passed = plugin.filter_nodes(pod, nodes)
        else:
            passed = [node for node in nodes if _passes(plugin.filter(pod, node), node)]
        words = [0] * len(candidates)
        for node in passed:
            words[node.row >> 6] |= 1 << (node.row & 63)
        return words

    @_in_cycle
    def node_to_status(plugin, pod, rejected):
        groups = {}
        for node in _nodes(rejected):
            answer = plugin.filter(pod, node)
            if not _passes(answer, node):
                group = groups.setdefault(answer, RejectedNodes(status(answer), [0] * len(rejected)))
                group.nodes[node.row >> 6] |= 1 << (node.row & 63)
        return list(groups.values())

    def dry_run(self, cycle, keep, pods, cases):
        tried = guest.tried.setdefault(cycle, [])
        tried[keep:] = [Pod(raw, guest.table) for raw in pods]
        return self._verdicts(cycle, tried, cases)

    @_in_cycle
    def _verdicts(plugin, pod, tried, cases):
        def answer(case):
            node = guest.table.node(case.node)
            node = node.altered([tried[index] for index in case.minus], [tried[index] for index in case.plus])
            return status(plugin.filter(pod, node))

        return [answer(case) for case in cases]


class PostFilter:
    @_in_cycle
    def post_filter(plugin, pod, raw):
        told = Failure(
            rejections=[(rejection(it.status), _nodes(it.nodes)) for it in raw.rejections],
            absent=None if raw.absent is None else rejection(raw.absent),
            nominated=[(guest.table.node(row), Pod(it, guest.table)) for row, it in raw.nominated],
        )
        answer = plugin.post_filter(pod, told)
        if answer is not None and not isinstance(answer, Outcome | Rejection):
            raise unfit("post_filter", f"{answer!r}, which is neither None, a rejection nor an Outcome")
        if not isinstance(answer, Outcome):
            kept = wit_post_filter.Nomination_Keep()
            return wit_post_filter.Outcome(status(answer or Rejection(Code.UNSCHEDULABLE, "")), kept, [])
        if answer.node is not None:
            nomination = wit_post_filter.Nomination_Node(answer.node.row)
        else:
            nomination = wit_post_filter.Nomination_Clear() if answer.clear else wit_post_filter.Nomination_Keep()
        return wit_post_filter.Outcome(status(None), nomination, _effects_in("post_filter", answer.effects))


class PreScore:
    @_in_cycle
    def pre_score(plugin, pod, nodes):
        _check("pre_score", plugin.pre_score(pod, _nodes(nodes)))


def _checked(method: str, answers, n_nodes: int):
    if not hasattr(answers, "__len__"):
        raise unfit(method, f"{answers!r}, which is not a list")
    if len(answers) != n_nodes:
        raise unfit(method, f"{len(answers)} answers about {n_nodes} nodes")
    return answers


def _packed(method: str, scores, rows: list[int]) -> bytes:
    """The scores in the memory format of scores.py. `method` returned one score for each node of `rows`."""
    if isinstance(scores, array | memoryview) and memoryview(scores).format == "q":
        return scores.tobytes()
    if not isinstance(scores, Iterable):
        raise unfit(method, f"{scores!r}, which is not a list of ints")
    scores = list(scores)
    try:
        return array("q", scores).tobytes()
    except (TypeError, OverflowError):
        raise _unfit(method, scores, rows) from None


def _unfit(method: str, scores: list, rows: list[int]) -> TypeError:
    """The error message for the first score that is not a 64-bit int."""
    for number, score in enumerate(scores):
        try:
            array("q", [score])
        except (TypeError, OverflowError) as error:
            lack = "is not an int" if isinstance(error, TypeError) else "does not fit into 64 bits"
            return unfit(method, f"{score!r} for {_node_named(_nodes(rows)[number:])}, which {lack}")
    return unfit(method, "what is not a list of ints")


def _node_named(nodes: list) -> str:
    """The text of the first of these nodes in a message."""
    if not nodes:
        return "a node more than there are"
    if any(name == "name" for name, _ in declared.parts()):
        return f"node {nodes[0].name}"
    return f"the node in row {nodes[0].row} (with berth.NAME among the columns, its name stands here)"


class Score:
    @_in_cycle
    def score(plugin, pod, nodes):
        if hasattr(plugin, "score_columns"):
            columns = guest.table.columns(nodes)
            return _packed("score_columns", _checked("score_columns", plugin.score_columns(pod, columns), len(columns)), nodes)
        if hasattr(plugin, "score_nodes"):
            return _packed("score_nodes", plugin.score_nodes(pod, _nodes(nodes)), nodes)
        return _packed("score", [plugin.score(pod, node) for node in _nodes(nodes)], nodes)


class NormalizeScore:
    @_in_cycle
    def normalize_score(plugin, pod, nodes, scores):
        scores = memoryview(scores).cast("q")
        if hasattr(plugin, "normalize_columns"):
            return _packed("normalize_columns", plugin.normalize_columns(pod, scores), nodes)
        return _packed("normalize", plugin.normalize(pod, scores.tolist()), nodes)


class Reserve:
    @_in_cycle
    def reserve(plugin, pod, node):
        _check("reserve", plugin.reserve(pod, guest.table.node(node)))

    @_in_cycle
    def unreserve(plugin, pod, node):
        given = plugin.unreserve(pod, guest.table.node(node))
        return [] if given is None else _effects_in("unreserve", given)


class Permit:
    @_in_cycle
    def permit(plugin, pod, node):
        answer = plugin.permit(pod, guest.table.node(node))
        if isinstance(answer, tuple) and len(answer) != 2:
            raise unfit("permit", f"a tuple of {len(answer)}, which is not a pair of a verdict and a list of effects")
        verdict, given = answer if isinstance(answer, tuple) else (answer, [])
        wanted = _effects_in("permit", given)
        if isinstance(verdict, Wait):
            return wit_permit.Verdict_Wait(verdict.milliseconds), wanted
        if isinstance(verdict, Rejection):
            return wit_permit.Verdict_Deny(status(verdict)), wanted
        if verdict is not None:
            raise unfit("permit", f"{verdict!r}, which is neither None, a rejection nor a Wait")
        return wit_permit.Verdict_Allow(), wanted


class PreBindPreFlight:
    @_in_cycle
    def pre_bind_pre_flight(plugin, pod, node):
        answer = plugin.pre_bind_pre_flight(pod, guest.table.node(node))
        if isinstance(answer, Rejection):
            _check("pre_bind_pre_flight", answer)
        return wit_flight.PreFlight(allow_parallel=bool(answer))


class PreBind:
    @_in_cycle
    def pre_bind(plugin, pod, node):
        return _effects("pre_bind", plugin.pre_bind(pod, guest.table.node(node)))


class Bind:
    @_in_cycle
    def bind(plugin, pod, node):
        return _effects("bind", plugin.bind(pod, guest.table.node(node)))


class PostBind:
    @_in_cycle
    def post_bind(plugin, pod, node):
        plugin.post_bind(pod, guest.table.node(node))


def _before_and_after(subject) -> tuple:
    """The object before and after an event; None for a version that does not exist or is hidden."""
    match subject:
        case wit_hint.EventSubject_Pod(change):
            decode = functools.partial(Pod, table=guest.table)
        case wit_hint.EventSubject_Node(change):
            decode = guest.table.event_node
        case wit_hint.EventSubject_Object(change):
            decode = json.loads
        case wit_hint.EventSubject_Hidden():
            return None, None
    return tuple(None if it is None else decode(it) for it in (change.old, change.new))


class QueueingHint:
    @_about_pod
    def queueing_hint(plugin, pod, event, subject):
        old, new = _before_and_after(subject)
        return wit_hint.Hint.QUEUE if plugin.queueing_hint(pod, Event.of(event), old, new) else wit_hint.Hint.SKIP


class Sign:
    @_about_pod
    def sign(plugin, pod):
        signature = plugin.sign(pod)
        if signature is not None and not isinstance(signature, str):
            raise unfit("sign", f"{signature!r}, which is neither None nor a text")
        return signature


class Explain:
    @_in_cycle
    def explain(plugin, pod, row):
        words = plugin.explain(pod, None if row is None else guest.table.node(row))
        if not isinstance(words, str):
            raise unfit("explain", f"{words!r}, which is not a text")
        return words


class Reuse:
    @_in_cycle
    def reach_of(plugin, pod):
        match plugin.reach(pod):
            case "cluster":
                return wit_reuse.Reach_Cluster()
            case "nothing":
                return wit_reuse.Reach_Nothing()
            case "nothing-anywhere":
                return wit_reuse.Reach_NothingAnywhere()
            case "nothing-yet":
                return wit_reuse.Reach_NothingYet()
            case int(version) if version >= 0:
                return wit_reuse.Reach_Row(version)
            case other:
                raise unfit("reach", f"{other!r}, which is neither a kind of reach nor a number from 0")


class State:
    @_call
    def snapshot(self) -> bytes:
        return guest.plugin.snapshot()

    @_call
    def restore(self, snapshot: bytes) -> None:
        try:
            guest.plugin.restore(snapshot)
        except ValueError as error:
            raise Err(str(error)) from error
