"""The SDK for Berth plugins in Python. The class with the decorator `berth.plugin` is the plugin:

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

Each instance of the component makes one object of the class. The class must have:

    name = "Even"                    The plugin's name in profiles. It must equal the file's name without `.wasm`.
    version = "0.1.0"                The version is shown to users. The scheduler does not compare versions.

The class may have these attributes:

    columns = [NAME, label(key)]     The parts of the node table that the plugin reads.
    pods = True                      Requests the pods on nodes: `node.pods` and `pods()`.
    objects = [(api_version, kind)]  The kinds of which the plugin reads the whole objects. The operator must grant each kind.
    pod_json = True                  Requests the whole JSON of pending pods.
    events_to_register = [on("Node", "Add")]
                                     The events that may make a pod schedulable after this plugin rejected it. A plugin
                                     without this attribute stands for any event.

The class may have these methods:

    configure(self, args)            Gets the args in the profile's pluginConfig, decoded, or None if the profile has none. A
                                     raised ValueError refuses the args.
    pod_placed(self, pod, node)      Is called once for each pod that is on the node or is being bound to it. It is called
                                     before any other method sees the cluster with this pod.
    pod_removed(self, pod, node)     Is called for each pod that left its node. If a pod changed, pod_removed gets the old pod,
                                     then pod_placed gets the new one. Counts that both methods maintain are up to date at
                                     every other call.
    filter(self, pod, node)          Returns None if the node can run the pod, or a rejection.
    score(self, pod, node)           Returns an int from 0 to 100, or any int if the plugin has `normalize`.
    normalize(self, pod, scores)     Returns the scores of all nodes that passed, changed to the range from 0 to 100.
    filter_nodes(self, pod, nodes)   Filters all nodes in one call: returns the nodes that pass. `filter` is still called to
                                     explain why a node was rejected, and in dry runs.
    score_nodes(self, pod, nodes)    Scores all nodes in one call: returns one int for each node, in the order of the nodes.
    filter_columns(self, pod, columns)
                                     Filters all nodes in one call: returns a true or false value for each node. See `Columns`.
    score_columns(self, pod, columns)
                                     Scores all nodes in one call: returns one int for each node. `array("q", ...)` is fastest.
    normalize_columns(self, pod, scores)
                                     Replaces `normalize`. The scores are a view of 64-bit integers. See `kept` and
                                     `default_normalize`.

The class may have these methods of other extension points. A rejection is the result of `reject(...)`,
`reject_unresolvable(...)`, `pending(...)` or `fail(...)`. A method that can reject returns None to accept the pod or the node:

    pre_enqueue(self, pod)           Returns None if the pod may enter activeQ, or a rejection.
    sort_key(self, pod, queued_at)   Returns the pod's sort key, two ints. The pod with the smallest key comes first.
                                     `queued_at` is in milliseconds since 1970.
    pre_filter(self, pod)            Is called once for the pod, before `filter`. It returns the names of the only nodes to
                                     consider, None for all nodes, or a rejection. After `SKIP`, `filter` is not called.
    post_filter(self, pod, failure)  Is called if no node passed. It returns an `Outcome`, or a rejection, after which the
                                     next plugin is called. See `dry_run` and `ask_extenders`.
    pre_score(self, pod, nodes)      Is called once for the pod, before `score`. After `SKIP`, `score` is not called.
    reserve(self, pod, node)         Returns None if the node still has the resources for the pod, or a rejection.
    unreserve(self, pod, node)       Releases the reservation. It must do nothing if there is no reservation. It returns None or
                                     a list of effects, for example to remove what pre_bind wrote.
    permit(self, pod, node)          Returns None if the pod may be bound, a `Wait`, or a rejection. With effects, it returns a
                                     pair of one of these and a list of effects.
    pre_bind_pre_flight(self, pod, node)
                                     Says whether pre_bind will have something to do. It is asked before the wait at Permit. It
                                     returns `SKIP` if pre_bind has nothing to do. Otherwise it says whether pre_bind may run in
                                     parallel with the pre_bind of the plugins next to this one. A plugin that has pre_bind
                                     without this method always counts as having something to do.
    pre_bind(self, pod, node)        Returns a list of effects, `SKIP` if it has nothing to do, or a rejection.
    bind(self, pod, node)            Returns a list of effects, `SKIP` to leave the pod to the next Bind plugin, or a rejection.
    post_bind(self, pod, node)       Is called after the pod was bound.
    queueing_hint(self, pod, event, old, new)
                                     Returns true to retry the pod that the plugin rejected. `old` and `new` are the object of
                                     the event, before and after the event: a `Pod`, an `EventNode`, or the decoded JSON of an
                                     object of a kind in `objects`. A version that does not exist is None. Both are None for
                                     other kinds.
    sign(self, pod)                  Returns the same string for all pods that get the same answers, or None.
    explain(self, pod, node)         Says in the plugin's own words why it answers about the pod as it does. It is called only
                                     if a user asks, as with `berth explain`. It returns one line about the node, or about the
                                     pod as a whole if `node` is None. An empty text says nothing. The text is cut after 1024
                                     bytes.
    reach(self, pod)                 Says on which data the verdicts and scores for the pod depend, so that the scheduler may
                                     keep answers for pods that differ only in their names.
                                     "cluster": the answers may depend on any data. A plugin without this method always counts
                                     as this.
                                     A number: the answers depend only on the pod without its names, on the node's own columns,
                                     and on the data that the number stands for. The answers of `pre_filter`, `pre_score` and
                                     `bind` depend only on the pod and the number.
                                     "nothing": the plugin has nothing to do for the pod: every node passes and scores 0.
                                     "nothing-anywhere": "nothing" for a pod that changes no answer when it is on a node
                                     either: `pods()` may lack the pod.
                                     "nothing-yet": "nothing" until a pod is placed on a node or nominated to a node, and
                                     `reach` has returned none of these three values for such a pod.
    snapshot(self)                   Returns the state of this version for the next version, as bytes.
    restore(self, snapshot)          Gets the snapshot of the previous version. A raised ValueError refuses the snapshot.

Every method may call `nodes()` and `pods()` to read the cluster.

An uncaught exception is a fault: the call traps, the scheduler counts the fault and starts a fresh instance, and a plugin that
keeps faulting is rolled back or quarantined. Return `fail(...)` to fail one attempt without a fault.

plugin.wit must export the interface of each method: pre-enqueue, queue-sort (sort_key), pre-filter, filter, post-filter,
pre-score, score, normalize-score (normalize, normalize_columns), reserve, permit, pre-bind-pre-flight, pre-bind, bind,
post-bind, queueing-hint, sign, reuse (reach), state (snapshot, restore), explain.

A plugin has no clock, no files, no sockets and no randomness. A plugin that uses one of these fails.
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
