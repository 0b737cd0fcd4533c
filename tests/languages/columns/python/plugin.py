"""Holds columns to the nodes that they are made of, and answers by both."""

import berth


@berth.plugin
class Columns:
    name = "Columns"
    version = "0.1.0"
    columns = [
        berth.UNSCHEDULABLE,
        berth.LABELS,
        berth.ALLOCATABLE,
        berth.REQUESTED,
        berth.NON_ZERO_REQUESTED,
        berth.POD_COUNT,
        berth.annotation("example.com/note"),
    ]

    def filter(self, pod, node):
        if node.pod_count % 3 == pod.priority % 3:
            return berth.reject("node(s) had another number of pods")

    def filter_columns(self, pod, columns):
        hold_to_nodes(columns)
        rest = pod.priority % 3
        if pod.priority % 2:
            return [count % 3 != rest for count in columns.pod_count]
        return columns.flags(rest, lambda node: node.pod_count % 3 != rest)

    def score_columns(self, pod, columns):
        hold_to_nodes(columns)
        kept = columns.scores(pod.priority, lambda node: (node.pod_count + pod.priority) % 101)
        if list(kept) != [(count + pod.priority) % 101 for count in columns.pod_count]:
            raise AssertionError("scores that are kept differ")
        return kept if pod.priority % 2 else list(kept)

    def normalize_columns(self, pod, scores):
        most = max(scores)
        for reverse in (False, True):
            expected = [100 * score // most if most else 0 for score in scores]
            if list(berth.default_normalize(scores, reverse)) != [100 - it if reverse else it for it in expected]:
                raise AssertionError(f"{most} as the highest score is not normalised")
        again = berth.kept("doubled", scores, lambda scores: [2 * score for score in scores])
        if list(again) != [2 * score for score in scores]:
            raise AssertionError("what is kept belongs to other scores")
        if berth.kept("doubled", scores, lambda scores: []) is not again:
            raise AssertionError("what was kept is gone")
        return berth.default_normalize(scores) if pod.priority % 2 else scores


def hold_to_nodes(columns):
    # Some of thousands, because a call has a time limit.
    step = 1 + len(columns) // 200
    nodes = columns.nodes[::step]
    for column, of_nodes in (
        (columns.allocatable("cpu"), [node.allocatable.get("cpu", 0) for node in nodes]),
        (columns.allocatable("pods"), [node.allocatable.get("pods", 0) for node in nodes]),
        (columns.requested("memory"), [node.requested.get("memory", 0) for node in nodes]),
        (columns.non_zero_milli_cpu, [node.non_zero_milli_cpu for node in nodes]),
        (columns.non_zero_memory, [node.non_zero_memory for node in nodes]),
        (columns.pod_count, [node.pod_count for node in nodes]),
        (columns.unschedulable, [int(node.unschedulable) for node in nodes]),
        (columns.label("zone"), [node.labels.get("zone") for node in nodes]),
        (columns.annotation("example.com/note"), [node.annotations.get("example.com/note") for node in nodes]),
    ):
        some = list(column)[::step]
        if some != of_nodes or len(column) != len(columns):
            raise AssertionError(f"{some[:10]} differs from {of_nodes[:10]}")
