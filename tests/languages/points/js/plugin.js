// Points: every extension point, with answers that a test knows.

import { Refusal, SKIP, askExtenders, count, dryRun, effects, fail, log, now, objects, on, pending, reject, rejectUnresolvable } from "berth";

let diary = [];

function saysYes(resource, it) {
  if (it === null) return false;
  if (resource === "Pod") return it.labels.get("go") === "yes";
  if (resource === "ConfigMap") return it.data?.go === "yes";
  if (resource !== "Node") return false;
  const [{ key, value, effect }] = it.taints;
  const texts = [it.name, it.labels.get("go"), key, value, effect, ...it.declaredFeatures].join();
  const amounts = [it.allocatable.get("cpu"), it.allocatable.get("example.com/gpu"), it.allowedPods].join();
  return it.unschedulable && texts === "d,yes,example.com/busy,very,no-execute,Naps" && amounts === "4000,2,110";
}

export default {
  name: "Points",
  version: "0.1.0",
  columns: ["name"],
  pods: true,
  objects: [{ apiVersion: "v1", kind: "ConfigMap" }],
  eventsToRegister: [on("Node", "Add", "UpdateNodeLabel"), on("Pod"), on("ConfigMap", "Add", "Update")],

  preEnqueue(pod) {
    if (pod.raw.owner) return pending(`owned by ${pod.raw.owner.name}`);
    return pod.name === "gated" ? pending("gated") : null;
  },

  sortKey: (pod, queuedAt) => [-pod.priority, queuedAt],

  preFilter(pod) {
    if (pod.name === "nowhere") return rejectUnresolvable("no place");
    if (pod.name === "pinned") return ["a"];
    if (pod.name === "broken") return fail("broken");
    return pod.name === "skipped" ? SKIP : null;
  },

  filter: (_pod, node) => (node.name === "c" ? reject("not c") : null),

  postFilter(pod, { rejections, absent, nominated }) {
    if (absent) return reject(`absent: ${absent.reason}`);
    const node = rejections[0].nodes[0];
    if (pod.name === "extended") {
      const [agreed] = askExtenders([{ node, victims: node.pods, violations: 1 }]);
      const message = `${agreed.violations} violations`;
      return { node: agreed.node, effects: agreed.victims.map((victim) => effects.evict(victim, message)) };
    }
    const [verdict] = dryRun([{ node, pods: node.pods }]);
    if (verdict) return verdict;
    const evictions = node.pods.map((placed) => effects.evict(placed, `for ${pod.name}`));
    return { node, effects: [...evictions, ...nominated.map(({ pod }) => effects.nominate(pod.uid, null))] };
  },

  preScore: (pod) => (pod.name === "unscored" ? SKIP : null),
  score: (_pod, node) => node.row * 10,
  normalize: (_pod, scores) => scores.map((score) => score + 1),

  reserve(pod, node) {
    if (pod.name === "refused") return reject(`no room on ${node.name}`);
    diary.push(`reserve ${pod.name} ${node.name}`);
    log("reserved");
    count("reserved");
    return null;
  },

  unreserve(pod, node) {
    diary.push(`unreserve ${pod.name} ${node.name}`);
    if (pod.name === "plain") return;
    const body = { status: { conditions: [{ $patch: "delete", type: "Held" }] } };
    return [effects.strategicPatch("v1/Pod", pod.namespace, pod.name, body, "status")];
  },

  permit(pod) {
    if (pod.name === "denied") return reject("not today");
    if (pod.name !== "waits") return null;
    return {
      wait: 5000,
      effects: [effects.allow("u-1"), effects.reject("u-2", "too late"), effects.activate(["u-3", "u-4"])],
    };
  },

  preBindPreFlight: (pod) => (pod.name === "plain" ? SKIP : pod.name !== "waits"),

  preBind(pod) {
    if (pod.name === "plain") return SKIP;
    return [
      effects.patch("v1/ConfigMap", "default", "notes", { data: { pod: pod.name } }, "status"),
      effects.create("v1/ConfigMap", "default", { metadata: { name: pod.name } }),
      effects.delete("v1/Secret", "default", "old"),
      effects.nominate(pod.uid, "a"),
      effects.wait([{ kind: "v1/ConfigMap", namespace: "default", name: "notes" }], 1500, "no notes"),
    ];
  },

  bind(pod) {
    if (pod.name === "plain") return SKIP;
    const configMaps = objects("v1", "ConfigMap");
    const { data } = configMaps.get("default/notes");
    for (const [key, object] of configMaps) if (object !== configMaps.get(key)) throw new Error(`${key} was decoded twice`);
    const keys = Object.keys(data).sort().join(", ");
    const note = `${configMaps.size} objects, ${keys}: ${data.größe.of}, ${now() > 0 ? "in time" : "no time"}`;
    return [effects.bind(), effects.event({ warning: true, reason: "Bound", action: "Binding", note })];
  },

  postBind: (pod, node) => void diary.push(`bound ${pod.name} ${node.name}`),

  queueingHint: (_pod, { resource, actions }, old, changed) =>
    actions.join() === (resource === "ConfigMap" ? "Update" : "Add") && saysYes(resource, changed) && !saysYes(resource, old),

  sign: (pod) => (pod.name.startsWith("twin") ? "twin" : null),

  explain(pod, node) {
    if (pod.name === "mute") return "";
    return node === null ? `${pod.name} goes to a or b` : `${node.name} is no place\nfor ${pod.name}`;
  },

  reach: (pod) => ({ 8: 3, 9: "nothing", 10: "nothing-yet", 11: "nothing-anywhere" })[pod.priority] ?? "cluster",

  snapshot: () => diary.join("\n"),

  restore(snapshot) {
    if (snapshot === "bad") throw new Refusal("not a diary");
    diary = snapshot.split("\n");
  },
};
