"""Each interface of the contract, answered by the plugin. componentize-py finds the classes by their names."""

import functools
import json
import operator

from componentize_py_types import Err
from wit_world.exports import lifecycle
from wit_world.imports.types import Code, Explanation, Status

from .answers import Rejection
from .guest import failure, guest
from .pod import Pod

__all__ = ["Cycle", "Filter", "Lifecycle", "NormalizeScore", "Score", "Sync"]

_SUCCESS = Status(Code.SUCCESS, [])


class Lifecycle:
    def describe(self) -> lifecycle.Manifest:
        kind = guest.kind
        if kind is None:
            raise TypeError("plugin.py has no class with @berth.plugin")
        objects = getattr(kind, "objects", [])
        return lifecycle.Manifest(
            name=kind.name,
            version=kind.version,
            columns=list(getattr(kind, "columns", [])),
            pods=getattr(kind, "pods", False),
            pod_json=getattr(kind, "pod_json", False),
            objects=[lifecycle.ObjectKind(api_version, name) for api_version, name in objects],
            requeue=getattr(kind, "requeue", None),
        )

    def configure(self, args: str) -> None:
        try:
            plugin = guest.kind()
            if hasattr(plugin, "configure"):
                plugin.configure(json.loads(args))
        except ValueError as error:
            raise Err(str(error)) from error
        except Exception as error:
            raise Err(failure(error)) from error
        guest.plugin = plugin


class Sync:
    def apply(self, delta) -> None:
        guest.table.apply(delta)


class Cycle:
    def begin(self, cycle: int, pod) -> None:
        guest.cycles[cycle] = Pod(pod, guest.table)

    def end(self, cycle: int) -> None:
        guest.cycles.pop(cycle, None)


def _answer(function):
    """Passes plugin and pod instead of the cycle. What the plugin raises fails the attempt, and not the instance."""

    @functools.wraps(function)
    def answer(self, cycle, *arguments):
        try:
            pod = guest.cycles.get(cycle)
            if guest.plugin is None or pod is None:
                raise RuntimeError("called outside a cycle")
            return function(guest.plugin, pod, *arguments)
        except Exception as error:
            raise Err(Status(Code.ERROR, [failure(error)])) from error

    return answer


def _nodes(words: list[int]) -> list:
    nodes = guest.table.nodes
    found = []
    base = 0
    for word in words:
        while word:
            low = word & -word
            found.append(nodes[base + low.bit_length() - 1])
            word ^= low
        base += 64
    return found


def _status(rejection: Rejection | None) -> Status:
    if rejection is None:
        return _SUCCESS
    if not isinstance(rejection, Rejection):
        raise TypeError(f"filter gave {rejection!r}, which is neither None nor a rejection")
    return Status(rejection.code, [rejection.reason])


class Filter:
    @_answer
    def filter(plugin, pod, candidates):
        nodes = _nodes(candidates)
        if hasattr(plugin, "filter_nodes"):
            passed = plugin.filter_nodes(pod, nodes)
        else:
            passed = [node for node in nodes if _status(plugin.filter(pod, node)) is _SUCCESS]
        words = [0] * len(candidates)
        for node in passed:
            words[node.row >> 6] |= 1 << (node.row & 63)
        return words

    @_answer
    def explain(plugin, pod, rejected):
        groups = {}
        for node in _nodes(rejected):
            status = _status(plugin.filter(pod, node))
            if status is not _SUCCESS:
                group = groups.setdefault((status.code, *status.reasons), Explanation(status, [0] * len(rejected)))
                group.nodes[node.row >> 6] |= 1 << (node.row & 63)
        return list(groups.values())

    @_answer
    def dry_run(plugin, pod, pods, cases):
        pods = [Pod(raw, guest.table) for raw in pods]

        def answer(case):
            node = guest.table.nodes[case.node]
            node = node.altered([pods[index] for index in case.minus], [pods[index] for index in case.plus])
            return _status(plugin.filter(pod, node))

        return [answer(case) for case in cases]


class Score:
    @_answer
    def score(plugin, pod, nodes):
        nodes = _nodes(nodes)
        if hasattr(plugin, "score_nodes"):
            return [operator.index(score) for score in plugin.score_nodes(pod, nodes)]
        return [operator.index(plugin.score(pod, node)) for node in nodes]


class NormalizeScore:
    @_answer
    def normalize_score(plugin, pod, nodes, scores):
        return [operator.index(score) for score in plugin.normalize(pod, list(scores))]
