"""Probe: rejects every node, and spells what it sees of it."""

import berth


@berth.plugin
class Probe:
    name = "Probe"
    version = "0.1.0"
    columns = [
        berth.NAME,
        berth.UNSCHEDULABLE,
        berth.LABELS,
        berth.TAINTS,
        berth.ALLOCATABLE,
        berth.REQUESTED,
        berth.NON_ZERO_REQUESTED,
        berth.POD_COUNT,
        berth.IMAGES,
        berth.HOST_PORTS,
        berth.DECLARED_FEATURES,
        berth.annotation("example.com/note"),
        berth.annotation("example.com/empty"),
    ]

    def __init__(self):
        self.followed = set()

    def configure(self, args):
        self.args = args

    def pod_placed(self, pod, node):
        self.followed.add(f"{pod.namespace}/{pod.name}@{node.name}")

    def pod_removed(self, pod, node):
        self.followed.remove(f"{pod.namespace}/{pod.name}@{node.name}")

    def filter(self, pod, node):
        if self.args == "fault":
            raise RuntimeError("on demand")
        if self.args == "error":
            return berth.fail("on purpose")
        resources = ("cpu", "memory", "pods", "example.com/gpu")
        columns = [
            node.name,
            int(node.unschedulable),
            ",".join(f"{key}={value}" for key, value in node.labels.items()),
            ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in node.taints),
            ",".join(str(node.allocatable.get(name, 0)) for name in resources),
            ",".join(str(node.requested.get(name, 0)) for name in resources),
            f"{node.non_zero_milli_cpu},{node.non_zero_memory}",
            node.pod_count,
            ",".join(f"{image}={berth.image_size(image)}" for image in node.images),
            ",".join(f"{port.address}/{port.protocol}/{port.port}" for port in node.host_ports),
            ",".join(node.declared_features),
            f"{pod.namespace}/{pod.name}",
            ",".join(f"{key}={value}" for key, value in pod.labels.items()),
            ",".join(f"{key}={value}" for key, value in node.annotations.items()),
            f"{pod.priority},{pod.requests.get('cpu', 0)},{pod.requests.get('memory', 0)}",
            ",".join(f"{placed.namespace}/{placed.name}" for placed in node.pods),
        ]
        if node.name == "bare":
            columns += [
                ",".join(other.name for other in berth.nodes()),
                ",".join(f"{placed.namespace}/{placed.name}@{placed.node.name}" for placed in berth.pods()),
                ",".join(sorted(self.followed)),
            ]
        return berth.reject("".join(f"{column};" for column in columns))
