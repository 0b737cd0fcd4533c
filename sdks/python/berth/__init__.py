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

    pods = True                      nodes have their pods, and `pods()` all of them.
    pod_placed(self, pod, node)      a pod came to a node, or is about to: it is being bound. Told about each pod once, before
                                     anything is asked about the cluster that has it.
    pod_removed(self, pod, node)     it left. A pod that changed is removed, as it was, and placed. So counts that follow
                                     both are up to date at every call.
    objects = [(api_version, kind)]  these objects are kept, whole, see `objects`; the operator must grant each kind.
    configure(self, args)            the profile's pluginConfig, decoded, or None. Raise ValueError to refuse it.
    filter(self, pod, node)          None if the node can run the pod, else `reject(...)` or `reject_unresolvable(...)`.
    score(self, pod, node)           an int, 0 to 100, or anything if there is `normalize`.
    normalize(self, pod, scores)     the scores of all nodes that passed, brought into 0 to 100.
    filter_nodes(self, pod, nodes)   instead of `filter` for each: the nodes that pass, as a list. `filter` still answers
                                     why a node was rejected, and dry runs.
    score_nodes(self, pod, nodes)    instead of `score` for each: a list of ints.
    filter_columns(self, pod, columns)      the same over columns, see `Columns`: something true or false for each node.
    score_columns(self, pod, columns)       an int for each node: best as `array("q", ...)`.
    normalize_columns(self, pod, scores)    instead of `normalize`, of scores as a view of 64-bit integers: see `kept` and
                                     `default_normalize`.
    events_to_register = [on("Node", "Add")]    events that may make a pod schedulable which this plugin rejected; any, without it.
    pod_json = True                  pending pods have their whole `json`.

and at the other extension points, where `no` is None for yes or `reject(...)`, `pending(...)`, `fail(...)`:

    pre_enqueue(self, pod)           no
    sort_key(self, pod, queued_at)   two ints: smaller comes first.
    pre_filter(self, pod)            None, the names of the nodes that are left, `SKIP`, or no.
    post_filter(self, pod, failure)  an `Outcome`, or no. See `dry_run`.
    pre_score(self, pod, nodes)      None or `SKIP`.
    reserve(self, pod, node)         no
    unreserve(self, pod, node)
    permit(self, pod, node)          `Wait(milliseconds)` or no; with effects: a pair of that and a list.
    pre_bind_pre_flight(self, pod, node)        before permit is waited for: `SKIP` if pre_bind will have nothing to do, else
                                     whether it may run side by side with the pre_bind of the plugins next to it. Without it,
                                     pre_bind always has something to do.
    pre_bind(self, pod, node)        a list of effects, `SKIP`, or no.
    bind(self, pod, node)            the same.
    post_bind(self, pod, node)
    queueing_hint(self, pod, event, old, new)   whether to try the pod again, given what the event changed, before and
                                     after: `Pod`s, `EventNode`s, or the decoded JSON of an object of a kind in
                                     `objects`. None where it does not exist, and for other kinds.
    sign(self, pod)                  a string that pods with the same answers share, or None.
    reach(self, pod)                 what verdicts and scores follow from, so that the scheduler may keep them for pods that differ
                                     in their names alone. A number: from such a pod, from the node's own row, and from
                                     what the number stands for; `pre_filter` and `pre_score` from the pod and the number alone.
                                     "nothing": every node passes and scores 0; "nothing-anywhere": such pods on nodes make no
                                     difference either, and `pods()` may lack them; "nothing-yet": as "nothing" until a pod comes
                                     to a node and this did not answer one of these three about pods like it. "cluster", as
                                     without this method: from anything.
    snapshot(self), restore(self, snapshot)     bytes for the next version. Raise ValueError to refuse them.

Everywhere, `nodes()` and `pods()` show the cluster.

An exception that a method lets go is a fault: the call traps, the scheduler counts it and starts a fresh instance, and a
plugin that keeps faulting is rolled back or quarantined. Answer `fail(...)` to fail one attempt and go on.

plugin.wit must export an interface for each: pre-enqueue, queue-sort (sort_key), pre-filter, filter, post-filter, pre-score,
score, normalize-score (normalize, normalize_columns), reserve, permit, pre-bind-pre-flight, pre-bind, bind, post-bind,
queueing-hint, sign, reuse (reach), state (snapshot, restore).

Clocks, files, sockets and randomness are not there: a plugin that touches them fails.
"""

from . import effects
from .answers import (
    SKIP,
    Event,
    Failure,
    Outcome,
    Preemption,
    Rejection,
    Wait,
    fail,
    on,
    pending,
    reject,
    reject_unresolvable,
)
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
from .guest import ask_extenders, count, dry_run, image_size, log, nodes, now, objects, plugin, pods
from .normalize import default_normalize, kept
from .pod import HostPort, Pod
from .table import EventNode, Node, Taint
from .views import Columns

__all__ = [
    "ALLOCATABLE",
    "annotation",
    "ask_extenders",
    "Columns",
    "count",
    "DECLARED_FEATURES",
    "default_normalize",
    "dry_run",
    "effects",
    "Event",
    "EventNode",
    "fail",
    "Failure",
    "HOST_PORTS",
    "HostPort",
    "image_size",
    "IMAGES",
    "kept",
    "label",
    "LABELS",
    "log",
    "NAME",
    "Node",
    "nodes",
    "NON_ZERO_REQUESTED",
    "now",
    "objects",
    "on",
    "Outcome",
    "pending",
    "plugin",
    "Pod",
    "POD_COUNT",
    "pods",
    "Preemption",
    "reject",
    "reject_unresolvable",
    "Rejection",
    "REQUESTED",
    "SKIP",
    "Taint",
    "TAINTS",
    "UNSCHEDULABLE",
    "Wait",
]
