"""TenantQuota: a tenant may have only a fixed number of pods. The value of a label names a pod's tenant."""

import berth


@berth.plugin
class TenantQuota:
    name = "TenantQuota"
    version = "0.1.0"
    events_to_register = [berth.on("Pod", "Delete")]

    def __init__(self):
        # The uids of each tenant's pods that are on a node or have a reserved node.
        self.held: dict[str, set[str]] = {}

    def configure(self, args):
        match args:
            case {"label": str(label), "limit": int(limit), **others} if label and limit > 0 and not others:
                self.label, self.limit = label, limit
            case _:
                raise ValueError("label and limit: must be the key of a label and a number of pods")

    def hold(self, pod: berth.Pod) -> None:
        tenant = pod.labels.get(self.label)
        if tenant is not None:
            self.held.setdefault(tenant, set()).add(pod.uid)

    def give_back(self, pod: berth.Pod) -> None:
        self.held.get(pod.labels.get(self.label, ""), set()).discard(pod.uid)

    def pod_placed(self, pod: berth.Pod, node: berth.Node) -> None:
        self.hold(pod)

    def pod_removed(self, pod: berth.Pod, node: berth.Node) -> None:
        self.give_back(pod)

    def pre_filter(self, pod: berth.Pod) -> berth.Rejection | None:
        tenant = pod.labels.get(self.label)
        n_held = len(self.held.get(tenant or "", ()))
        if tenant is not None and n_held >= self.limit:
            return berth.reject_unresolvable(f"tenant {tenant} has {n_held} of {self.limit} pods")

    def reserve(self, pod: berth.Pod, node: berth.Node) -> None:
        self.hold(pod)

    def unreserve(self, pod: berth.Pod, node: berth.Node) -> None:
        self.give_back(pod)
