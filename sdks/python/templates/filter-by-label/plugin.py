"""{{name}}: the argument `label` names a label. A pod with this label runs only on nodes with the same value of the label. A pod
without the label runs on any node."""

import berth


@berth.plugin
class Plugin:
    name = "{{name}}"
    version = "0.1.0"
    columns = [berth.LABELS]
    # The events that may make a rejected pod schedulable.
    events_to_register = [berth.on("Node", "Add", "UpdateNodeLabel")]

    def configure(self, args):
        match args:
            case {"label": str(label), **others} if label and not others:
                self.label = label
            case _:
                raise ValueError("label: must be the key of a label")

    def filter(self, pod: berth.Pod, node: berth.Node) -> berth.Rejection | None:
        wanted = pod.labels.get(self.label)
        if wanted is not None and node.labels.get(self.label) != wanted:
            return berth.reject_unresolvable(f"node(s) did not have the label {self.label}={wanted}")
