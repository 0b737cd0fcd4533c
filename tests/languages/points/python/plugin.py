"""Points: every extension point, with answers that a test knows."""

import berth
from berth import effects


def says_yes(resource, it):
    match resource:
        case "Pod":
            return it is not None and it.labels == {"go": "yes"}
        case "Node":
            return it == berth.EventNode(
                name="d",
                unschedulable=True,
                labels={"go": "yes"},
                taints=(berth.Taint("example.com/busy", "very", "NoExecute"),),
                allocatable={"cpu": 4000, "example.com/gpu": 2},
                allowed_pods=110,
                declared_features=["Naps"],
            )
        case "ConfigMap":
            return it is not None and it.get("data") == {"go": "yes"}
    return False


@berth.plugin
class Points:
    name = "Points"
    version = "0.1.0"
    columns = [berth.NAME]
    pods = True
    objects = [("v1", "ConfigMap")]
    events_to_register = [
        berth.on("Node", "Add", "UpdateNodeLabel"),
        berth.on("Pod"),
        berth.on("ConfigMap", "Add", "Update"),
    ]

    def __init__(self):
        self.diary = []

    def pre_enqueue(self, pod):
        if pod.raw.owner:
            return berth.pending(f"owned by {pod.raw.owner.name}")
        return berth.pending("gated") if pod.name == "gated" else None

    def sort_key(self, pod, queued_at):
        return -pod.priority, queued_at

    def pre_filter(self, pod):
        match pod.name:
            case "nowhere":
                return berth.reject_unresolvable("no place")
            case "pinned":
                return ["a"]
            case "skipped":
                return berth.SKIP
            case "broken":
                return berth.fail("broken")

    def filter(self, pod, node):
        return berth.reject("not c") if node.name == "c" else None

    def post_filter(self, pod, failure):
        if failure.absent:
            return berth.reject(f"absent: {failure.absent.reason}")
        node = failure.rejections[0][1][0]
        if pod.name == "extended":
            [agreed] = berth.ask_extenders([berth.Preemption(node, node.pods, violations=1)])
            message = f"{agreed.violations} violations"
            return berth.Outcome(node=agreed.node, effects=[effects.evict(it, message) for it in agreed.victims])
        [verdict] = berth.dry_run([(node, node.pods)])
        if verdict:
            return verdict
        evictions = [effects.evict(placed, f"for {pod.name}") for placed in node.pods]
        cleared = [effects.nominate(nominated.uid, None) for _, nominated in failure.nominated]
        return berth.Outcome(node=node, effects=evictions + cleared)

    def pre_score(self, pod, nodes):
        return berth.SKIP if pod.name == "unscored" else None

    def score(self, pod, node):
        return node.row * 10

    def normalize(self, pod, scores):
        return [score + 1 for score in scores]

    def reserve(self, pod, node):
        if pod.name == "refused":
            return berth.reject(f"no room on {node.name}")
        self.diary.append(f"reserve {pod.name} {node.name}")
        berth.log("reserved")
        berth.count("reserved")

    def unreserve(self, pod, node):
        self.diary.append(f"unreserve {pod.name} {node.name}")
        if pod.name != "plain":
            body = {"status": {"conditions": [{"$patch": "delete", "type": "Held"}]}}
            return [effects.strategic_patch("v1/Pod", pod.namespace, pod.name, body, subresource="status")]

    def permit(self, pod, node):
        match pod.name:
            case "waits":
                others = [effects.allow("u-1"), effects.reject("u-2", "too late"), effects.activate(["u-3", "u-4"])]
                return berth.Wait(5000), others
            case "denied":
                return berth.reject("not today")

    def pre_bind_pre_flight(self, pod, node):
        return berth.SKIP if pod.name == "plain" else pod.name != "waits"

    def pre_bind(self, pod, node):
        if pod.name == "plain":
            return berth.SKIP
        return [
            effects.patch("v1/ConfigMap", "default", "notes", {"data": {"pod": pod.name}}, subresource="status"),
            effects.create("v1/ConfigMap", "default", {"metadata": {"name": pod.name}}),
            effects.delete("v1/Secret", "default", "old"),
            effects.nominate(pod.uid, "a"),
            effects.wait([("v1/ConfigMap", "default", "notes")], 1500, "no notes"),
        ]

    def bind(self, pod, node):
        if pod.name == "plain":
            return berth.SKIP
        objects = berth.objects("v1", "ConfigMap")
        data = objects["default", "notes"]["data"]
        assert all(object is objects[key] for key, object in objects.items()), "an object was decoded twice"
        size, when = data["größe"]["of"], "in time" if berth.now() > 0 else "no time"
        note = f"{len(objects)} objects, {', '.join(sorted(data))}: {size}, {when}"
        return [effects.bind(), effects.event("Bound", "Binding", note, warning=True)]

    def post_bind(self, pod, node):
        self.diary.append(f"bound {pod.name} {node.name}")

    def queueing_hint(self, pod, event, old, new):
        happened = {"Update"} if event.resource == "ConfigMap" else {"Add"}
        return event.actions == happened and says_yes(event.resource, new) and not says_yes(event.resource, old)

    def sign(self, pod):
        return "twin" if pod.name.startswith("twin") else None

    def explain(self, pod, node):
        if pod.name == "mute":
            return ""
        return f"{pod.name} goes to a or b" if node is None else f"{node.name} is no place\nfor {pod.name}"

    def reach(self, pod):
        return {8: 3, 9: "nothing", 10: "nothing-yet", 11: "nothing-anywhere"}.get(pod.priority, "cluster")

    def snapshot(self):
        return "\n".join(self.diary).encode()

    def restore(self, snapshot):
        if snapshot == b"bad":
            raise ValueError("not a diary")
        self.diary = snapshot.decode().split("\n")
