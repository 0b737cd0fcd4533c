"""TenantQuota: a tenant has so many pods and no more. The value of a label names a pod's tenant."""

import berth


@berth.plugin
class TenantQuota:
    name = "TenantQuota"
    version = "0.1.0"
    requeue = [berth.on("Pod", "delete")]

    def __init__(self):
        # By tenant: uids of the pods that have a node, or hold a place on one.
        self.held: dict[str, set[str]] = {}

    def configure(self, args):
        match args:
            case {"label": str(label), "limit": int(limit)}:
                self.label, self.limit = label, limit
            case _:
                raise ValueError("label and limit: must be the key of a label and a number of pods")

    def hold(self, pod):
        tenant = pod.labels.get(self.label)
        if tenant is not None:
            self.held.setdefault(tenant, set()).add(pod.uid)

    def give_back(self, pod):
        tenant = pod.labels.get(self.label)
        self.held.get(tenant, set()).discard(pod.uid)

    def pod_placed(self, pod, node):
        self.hold(pod)

    def pod_removed(self, pod, node):
        self.give_back(pod)

    def pre_filter(self, pod):
        tenant = pod.labels.get(self.label)
        n_held = len(self.held.get(tenant, ()))
        if tenant is not None and n_held >= self.limit:
            return berth.reject_unresolvable(f"tenant {tenant} has {n_held} of {self.limit} pods")

    def reserve(self, pod, node):
        self.hold(pod)

    def unreserve(self, pod, node):
        self.give_back(pod)
