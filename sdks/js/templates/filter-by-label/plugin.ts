// {{name}}: the argument `label` names a label. A pod with this label runs only on nodes with the same value of the label. A pod
// without the label runs on any node.

import { type Plugin, Refusal, on, rejectUnresolvable } from "berth";

let label: string;

const plugin: Plugin = {
  name: "{{name}}",
  version: "0.1.0",
  columns: ["labels"],
  // The events that may make a rejected pod schedulable.
  eventsToRegister: [on("Node", "Add", "UpdateNodeLabel")],

  configure(args) {
    const { label: key, ...others } = args ?? {};
    const isKey = typeof key === "string" && key !== "";
    if (!isKey || Object.keys(others).length > 0) throw new Refusal("label: must be the key of a label");
    label = key;
  },

  filter(pod, node) {
    const wanted = pod.labels.get(label);
    if (wanted === undefined || node.labels.get(label) === wanted) return null;
    return rejectUnresolvable(`node(s) did not have the label ${label}=${wanted}`);
  },
};

export default plugin;
