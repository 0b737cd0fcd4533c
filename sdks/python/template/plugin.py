"""{{name}}: rejects nodes of the zone that the argument `avoid` names, and prefers nodes that are not cordoned."""

import berth

ZONE = "topology.kubernetes.io/zone"


@berth.plugin
class Plugin:
    name = "{{name}}"
    version = "0.1.0"
    columns = [berth.UNSCHEDULABLE, berth.label(ZONE)]
    # The events that may make a rejected pod schedulable. Without this line, the pod is retried after every event.
    events_to_register = [berth.on("Node", "Add", "UpdateNodeLabel")]

    def configure(self, args):
        match args or {}:
            case {"avoid": str(zone), **others} if not others:
                self.avoid = zone
            case {**others} if not others:
                self.avoid = None
            case _:
                raise ValueError("avoid: must be the name of a zone")

    def filter(self, pod: berth.Pod, node: berth.Node) -> berth.Rejection | None:
        """Can this node run the pod?"""
        zone = node.labels.get(ZONE)
        if zone is not None and zone == self.avoid:
            return berth.reject_unresolvable(f"node(s) were in the zone {zone}")

    def score(self, pod: berth.Pod, node: berth.Node) -> int:
        """How good is the node for the pod, from 0 to 100?"""
        return 0 if node.unschedulable else 100
