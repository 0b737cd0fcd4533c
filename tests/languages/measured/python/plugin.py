"""Keeps nodes with a thousand pods out, and lets the scheduler keep the answers."""

import berth


@berth.plugin
class PodCount:
    name = "PodCount"
    version = "0.1.0"
    columns = [berth.REQUESTED, berth.NON_ZERO_REQUESTED, berth.POD_COUNT]

    def filter(self, pod, node):
        return None if node.pod_count < 1000 else berth.reject("full")

    def reach(self, pod):
        return 7
