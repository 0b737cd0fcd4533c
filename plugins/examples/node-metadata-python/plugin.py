"""NodeMetadata: prefers nodes by the integer in one of their labels, and can require that label.

Arguments: key (required), order ("ascending", the default: higher values score higher; or "descending"), require (nodes
without the label are rejected).
"""

import re

import berth

# Lower than the score of any 32-bit value.
NO_VALUE = -(2**31) - 1


@berth.plugin
class NodeMetadata:
    name = "NodeMetadata"
    version = "0.1.0"
    columns = [berth.LABELS]

    def configure(self, args):
        args = args or {}
        self.key = args.get("key")
        if not isinstance(self.key, str) or not self.key:
            raise ValueError("key: the name of a node label is required")
        order = args.get("order", "ascending")
        if order not in ("ascending", "descending"):
            raise ValueError('order: must be "ascending" or "descending"')
        self.sign = -1 if order == "descending" else 1
        self.is_required = args.get("require", False)
        if not isinstance(self.is_required, bool):
            raise ValueError("require: must be true or false")

    def passes(self, node):
        return not self.is_required or self.key in node.labels

    def value(self, node):
        text = node.labels.get(self.key, "")
        if not re.fullmatch("[+-]?[0-9]{1,63}", text) or not -(2**31) <= int(text) < 2**31:
            return NO_VALUE
        return self.sign * int(text)

    def filter(self, pod, node):
        if not self.passes(node):
            return berth.reject_unresolvable(f"node(s) didn't have the label {self.key}")

    def filter_columns(self, pod, columns):
        return columns.flags("labelled", self.passes)

    def score_columns(self, pod, columns):
        return columns.scores("value", self.value)

    def normalize_columns(self, pod, scores):
        return berth.kept("ranked", scores, self.ranked)

    def ranked(self, scores):
        """1 to 100 for nodes with a value, 0 for those without."""
        different = set(scores)
        values = different - {NO_VALUE}
        least, most = min(values, default=0), max(values, default=0)

        def normal(score):
            if score == NO_VALUE:
                return 0
            return 100 if least == most else 1 + 99 * (score - least) // (most - least)

        normalized = {score: normal(score) for score in different}
        return [normalized[score] for score in scores]
