// {{name}}: prefers nodes with the lower load. Whatever measures it writes a number from 0 to 100 into an annotation:
//
//     kubectl annotate --overwrite node node-00001 example.com/load=35

import type { Node, Plugin } from "berth";

const METRIC = "example.com/load";

/** From 0 to 100. A node without a number counts as full. */
function loadOf(node: Node): number {
  const text = node.annotations.get(METRIC) ?? "";
  const load = /^[0-9]+$/.test(text) ? Number(text) : 100;
  return Math.min(load, 100);
}

const plugin: Plugin = {
  name: "{{name}}",
  version: "0.1.0",
  columns: [{ annotation: METRIC }],

  // From 0 to 100: without `normalize` this is the score.
  score: (_pod, node) => 100 - loadOf(node),
};

export default plugin;
