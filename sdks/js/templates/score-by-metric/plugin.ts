// {{name}}: prefers nodes with a lower load. A monitor writes the load as a number from 0 to 100 into an annotation:
//
//     kubectl annotate --overwrite node node-00001 example.com/load=35

import type { Node, Plugin } from "berth";

const METRIC = "example.com/load";

/** The load of a node, from 0 to 100. A node without a number has the load 100. */
function loadOf(node: Node): number {
  const text = node.annotations.get(METRIC) ?? "";
  const load = /^[0-9]+$/.test(text) ? Number(text) : 100;
  return Math.min(load, 100);
}

const plugin: Plugin = {
  name: "{{name}}",
  version: "0.1.0",
  columns: [{ annotation: METRIC }],

  // Returns 0 to 100, because the plugin has no `normalize`.
  score: (_pod, node) => 100 - loadOf(node),
};

export default plugin;
