"""Write a Berth plugin in Python.

    import berth

    @berth.plugin
    class Even:
        name = "Even"
        version = "0.1.0"
        columns = [berth.POD_COUNT]

        def filter(self, pod, node):
            if node.pod_count % 2:
                return berth.reject("node(s) had an odd number of pods")

        def score(self, pod, node):
            return 100 - min(100, node.pod_count)

The class is made once. It may have:

    pods = True                      nodes have their pods.
    objects = [(api_version, kind)]  these objects are kept, whole, see `objects`; the operator must grant each kind.
    configure(self, args)            the profile's pluginConfig, decoded, or None. Raise ValueError to refuse it.
    filter(self, pod, node)          None if the node can run the pod, else `reject(...)` or `reject_unresolvable(...)`.
    score(self, pod, node)           an int, 0 to 100, or anything if there is `normalize`.
    normalize(self, pod, scores)     the scores of all nodes that passed, brought into 0 to 100.
    filter_nodes(self, pod, nodes)   instead of `filter` for each: the nodes that pass, as a list. `filter` still answers
                                     why a node was rejected, and dry runs.
    score_nodes(self, pod, nodes)    instead of `score` for each: a list of ints.

plugin.wit must export an interface for each: filter, score, normalize-score.

Clocks, files, sockets and randomness are not there: a plugin that touches them fails.
"""

from .answers import Rejection, reject, reject_unresolvable
from .columns import (
    ALLOCATABLE,
    DECLARED_FEATURES,
    HOST_PORTS,
    IMAGES,
    LABELS,
    NAME,
    NON_ZERO_REQUESTED,
    POD_COUNT,
    REQUESTED,
    TAINTS,
    UNSCHEDULABLE,
    annotation,
    label,
)
from .guest import count, image_size, log, now, objects, plugin
from .pod import HostPort, Pod
from .table import Node, Taint

__all__ = [
    "ALLOCATABLE",
    "DECLARED_FEATURES",
    "HOST_PORTS",
    "HostPort",
    "IMAGES",
    "LABELS",
    "NAME",
    "NON_ZERO_REQUESTED",
    "Node",
    "POD_COUNT",
    "Pod",
    "REQUESTED",
    "Rejection",
    "TAINTS",
    "Taint",
    "UNSCHEDULABLE",
    "annotation",
    "count",
    "image_size",
    "label",
    "log",
    "now",
    "objects",
    "plugin",
    "reject",
    "reject_unresolvable",
]
