// {{name}}: rejects nodes of the zone that the argument `avoid` names, and prefers nodes that are not cordoned.

import { type Plugin, Refusal, on, rejectUnresolvable } from "berth";

const ZONE = "topology.kubernetes.io/zone";

let avoid: string | undefined;

const plugin: Plugin = {
  name: "{{name}}",
  version: "0.1.0",
  columns: ["unschedulable", { label: ZONE }],
  // The events that may make a rejected pod schedulable. Without this line, the pod is retried after every event.
  eventsToRegister: [on("Node", "Add", "UpdateNodeLabel")],

  configure(args) {
    const { avoid: zone, ...others } = args ?? {};
    const isZone = zone === undefined || typeof zone === "string";
    if (!isZone || Object.keys(others).length > 0) throw new Refusal("avoid: must be the name of a zone");
    avoid = zone;
  },

  /** Can this node run the pod? */
  filter(_pod, node) {
    const zone = node.labels.get(ZONE);
    if (zone !== undefined && zone === avoid) return rejectUnresolvable(`node(s) were in the zone ${zone}`);
    return null;
  },

  /** How good is the node for the pod, from 0 to 100? */
  score: (_pod, node) => (node.unschedulable ? 0 : 100),
};

export default plugin;
