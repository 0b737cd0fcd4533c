// NodeMetadata: prefers nodes by the integer in one of their labels, and can require that label.
//
// Arguments: key (required), order ("ascending", the default: higher values score higher; or "descending"), require (nodes
// without the label are rejected).

import { type Columns, type Node, type Plugin, type Pod, Refusal, kept, rejectUnresolvable } from "berth";

// Lower than the score of any 32-bit value.
const NO_VALUE = -(2 ** 31) - 1;

let key = "";
let sign = 1;
let isRequired = false;

const passes = (node: Node) => !isRequired || node.labels.has(key);

function valueOf(node: Node) {
  const text = node.labels.get(key);
  if (text === undefined || !/^[+-]?[0-9]+$/.test(text)) return NO_VALUE;
  const value = Number(text);
  return value === (value | 0) ? sign * value : NO_VALUE;
}

/** 1 to 100 for nodes with a value, 0 for those without. */
function ranked(scores: Float64Array) {
  const values = scores.filter((score) => score !== NO_VALUE);
  const least = values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return scores.map((score) => {
    if (score === NO_VALUE) return 0;
    return least === most ? 100 : 1 + Math.floor((99 * (score - least)) / (most - least));
  });
}

const nodeMetadata: Plugin = {
  name: "NodeMetadata",
  version: "0.1.0",
  columns: ["labels"],

  configure(args) {
    const { order = "ascending", require = false } = args ?? {};
    key = args?.key;
    if (typeof key !== "string" || key === "") throw new Refusal("key: the name of a node label is required");
    if (order !== "ascending" && order !== "descending") {
      throw new Refusal('order: must be "ascending" or "descending"');
    }
    if (typeof require !== "boolean") throw new Refusal("require: must be true or false");
    sign = order === "descending" ? -1 : 1;
    isRequired = require;
  },

  filter(_pod: Pod, node: Node) {
    return passes(node) ? null : rejectUnresolvable(`node(s) didn't have the label ${key}`);
  },

  filterColumns: (_pod: Pod, columns: Columns) => columns.flags("labelled", passes),

  scoreColumns: (_pod: Pod, columns: Columns) => columns.scores("value", valueOf),

  normalizeColumns: (_pod: Pod, scores: Float64Array) => kept("ranked", scores, ranked),
};

export default nodeMetadata;
