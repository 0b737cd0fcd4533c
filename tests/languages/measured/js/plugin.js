// Keeps nodes with a thousand pods out, and lets the scheduler keep the answers.

import { reject } from "berth";

export default {
  name: "PodCount",
  version: "0.1.0",
  columns: ["requested", "non-zero-requested", "pod-count"],

  filter(pod, node) {
    return node.podCount < 1000 ? null : reject("full");
  },

  reach: () => 7,
};
