// Spells what the pods on a node use, and lets the scheduler keep that.

import { reject } from "berth";

export default {
  name: "Usage",
  version: "0.1.0",
  columns: ["requested", "non-zero-requested", "pod-count"],

  filter(pod, node) {
    if (pod.priority > 0) return null;
    const requested = ["cpu", "memory", "example.com/gpu"].map((name) => node.requested.get(name) ?? 0);
    return reject([...requested, node.nonZeroMilliCpu, node.nonZeroMemory, node.podCount].join());
  },

  reach: (pod) => (pod.priority > 0 ? "nothing" : 7),
};
