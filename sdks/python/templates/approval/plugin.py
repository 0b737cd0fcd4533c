"""{{name}}: a pod with the label `example.com/approval: wanted` waits at Permit, and is bound after this approval:

    kubectl label --overwrite pod web example.com/approval=given

If the value is `denied`, or after the timeout, the pod is rejected. The operator must grant the effect `wait`.
"""

import berth
from berth import effects

APPROVAL = "example.com/approval"


@berth.plugin
class Plugin:
    name = "{{name}}"
    version = "0.1.0"
    # A rejected pod is retried when its labels change.
    events_to_register = [berth.on("Pod", "UpdatePodLabel")]

    def configure(self, args):
        match args or {}:
            case {"seconds": int(seconds), **others} if not others and 1 <= seconds <= 900:
                self.milliseconds = 1000 * seconds
            case {**others} if not others:
                self.milliseconds = 300_000
            case _:
                raise ValueError("seconds: must be a number from 1 to 900")

    def permit(self, pod: berth.Pod, node: berth.Node):
        match pod.labels.get(APPROVAL):
            case "wanted":
                # Permit is called again when the pod changes.
                itself = ("v1/Pod", pod.namespace, pod.name)
                again = effects.wait([itself], self.milliseconds, "the pod was not approved")
                return berth.Wait(self.milliseconds), [again]
            case "denied":
                return berth.reject_unresolvable("the pod was denied")
