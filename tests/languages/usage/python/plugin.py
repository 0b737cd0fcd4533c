"""Spells what the pods on a node use, and lets the scheduler keep that."""

import berth


@berth.plugin
class Usage:
    name = "Usage"
    version = "0.1.0"
    columns = [berth.REQUESTED, berth.NON_ZERO_REQUESTED, berth.POD_COUNT]

    def filter(self, pod, node):
        if pod.priority > 0:
            return None
        requested = [node.requested.get(name, 0) for name in ("cpu", "memory", "example.com/gpu")]
        used = [*requested, node.non_zero_milli_cpu, node.non_zero_memory, node.pod_count]
        return berth.reject(",".join(map(str, used)))

    def reach(self, pod):
        return "nothing" if pod.priority > 0 else 7
