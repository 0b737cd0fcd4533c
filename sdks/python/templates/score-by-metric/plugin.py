"""{{name}}: prefers nodes with a lower load. A monitor writes the load as a number from 0 to 100 into an annotation:

    kubectl annotate --overwrite node node-00001 example.com/load=35
"""

import berth

METRIC = "example.com/load"


def load_of(node: berth.Node) -> int:
    """The load of a node, from 0 to 100. A node without a number has the load 100."""
    text = node.annotations.get(METRIC, "")
    return min(int(text), 100) if text.isascii() and text.isdigit() else 100


@berth.plugin
class Plugin:
    name = "{{name}}"
    version = "0.1.0"
    columns = [berth.annotation(METRIC)]

    def score(self, pod: berth.Pod, node: berth.Node) -> int:
        """Returns 0 to 100, because the plugin has no `normalize`."""
        return 100 - load_of(node)
