// Probe: rejects every node, and spells what it sees of it.

import { imageSize, reject } from "berth";

const EFFECTS = { "no-schedule": "NoSchedule", "prefer-no-schedule": "PreferNoSchedule", "no-execute": "NoExecute" };
const RESOURCES = ["cpu", "memory", "pods", "example.com/gpu"];

const pairs = (map) => [...map].map(([key, value]) => `${key}=${value}`).join();
const amounts = (map) => RESOURCES.map((name) => map.get(name) ?? 0).join();

let fails = false;

export default {
  name: "Probe",
  version: "0.1.0",
  columns: [
    "name",
    "unschedulable",
    "labels",
    "taints",
    "allocatable",
    "requested",
    "non-zero-requested",
    "pod-count",
    "images",
    "host-ports",
    "declared-features",
    { annotation: "example.com/note" },
    { annotation: "example.com/empty" },
  ],
  pods: true,

  configure(args) {
    fails = args === "fail";
  },

  filter(pod, node) {
    if (fails) throw new Error("on demand");
    const columns = [
      node.name,
      Number(node.unschedulable),
      pairs(node.labels),
      node.taints.map(({ key, value, effect }) => `${key}=${value}:${EFFECTS[effect]}`).join(),
      amounts(node.allocatable),
      amounts(node.requested),
      `${node.nonZeroMilliCpu},${node.nonZeroMemory}`,
      node.podCount,
      node.images.map((name) => `${name}=${imageSize(name)}`).join(),
      node.hostPorts.map(({ address, protocol, port }) => `${address}/${protocol}/${port}`).join(),
      node.declaredFeatures.join(),
      `${pod.namespace}/${pod.name}`,
      pairs(pod.labels),
      pairs(node.annotations),
      `${pod.priority},${pod.requests.get("cpu") ?? 0},${pod.requests.get("memory") ?? 0}`,
      node.pods.map(({ namespace, name }) => `${namespace}/${name}`).join(),
    ];
    return reject(columns.map((column) => `${column};`).join(""));
  },
};
