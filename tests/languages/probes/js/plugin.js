// Probe: rejects every node, and spells what it sees of it.

import { fail, imageSize, nodes, pods, reject } from "berth";

const EFFECTS = { "no-schedule": "NoSchedule", "prefer-no-schedule": "PreferNoSchedule", "no-execute": "NoExecute" };
const RESOURCES = ["cpu", "memory", "pods", "example.com/gpu"];

const pairs = (map) => [...map].map(([key, value]) => `${key}=${value}`).join();
const amounts = (map) => RESOURCES.map((name) => map.get(name) ?? 0).join();

const placement = (pod) => `${pod.namespace}/${pod.name}@${pod.node.name}`;

let asked;

const followed = new Set();

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

  configure(args) {
    asked = args;
  },

  podPlaced: (pod) => void followed.add(placement(pod)),

  podRemoved(pod) {
    if (!followed.delete(placement(pod))) throw new Error(`${placement(pod)} was never placed`);
  },

  filter(pod, node) {
    if (asked === "fault") throw new Error("on demand");
    if (asked === "error") return fail("on purpose");
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
    if (node.name === "bare") {
      columns.push(nodes().map(({ name }) => name).join(), pods().map(placement).join(), [...followed].join());
    }
    return reject(columns.map((column) => `${column};`).join(""));
  },
};
