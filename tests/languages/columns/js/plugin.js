// Holds columns to the nodes that they are made of, and answers by both.

import { reject } from "berth";

function holdToNodes(columns) {
  const { nodes } = columns;
  // Of thousands, some: a call has its time.
  const step = 1 + Math.floor(columns.length / 200);
  for (const [column, read] of [
    [columns.allocatable("cpu"), (node) => node.allocatable.get("cpu") ?? 0],
    [columns.allocatable("pods"), (node) => node.allocatable.get("pods") ?? 0],
    [columns.requested("memory"), (node) => node.requested.get("memory") ?? 0],
    [columns.nonZeroMilliCpu, (node) => node.nonZeroMilliCpu],
    [columns.nonZeroMemory, (node) => node.nonZeroMemory],
    [columns.podCount, (node) => node.podCount],
    [columns.unschedulable, (node) => Number(node.unschedulable)],
    [columns.label("zone"), (node) => node.labels.get("zone")],
    [columns.annotation("example.com/note"), (node) => node.annotations.get("example.com/note")],
  ]) {
    if (column.length !== columns.length) throw new Error(`${column.length} values for ${columns.length} nodes`);
    for (let i = 0; i < nodes.length; i += step) {
      const ofNode = read(nodes[i]);
      if (column[i] !== ofNode) throw new Error(`${column[i]} differs from ${ofNode} of row ${nodes[i].row}`);
    }
  }
}

export default {
  name: "Columns",
  version: "0.1.0",
  columns: [
    ...["unschedulable", "labels", "allocatable", "requested", "non-zero-requested", "pod-count"],
    { annotation: "example.com/note" },
  ],

  filter: (pod, node) => (node.podCount % 3 === pod.priority % 3 ? reject("node(s) had another number of pods") : null),

  filterColumns(pod, columns) {
    holdToNodes(columns);
    const rest = pod.priority % 3;
    if (pod.priority % 2) return columns.podCount.map((count) => count % 3 !== rest);
    const [none, one, two] = [0, 1, 2].map((n) => columns.flags(`rest ${n}`, (node) => node.podCount % 3 === n));
    return [one.or(two), none.or(two), none.or(one).and(two.not())][rest];
  },

  scoreColumns(pod, columns) {
    holdToNodes(columns);
    const score = (count) => (count + pod.priority) % 101;
    const kept = columns.scores(pod.priority, (node) => score(node.podCount));
    const computed = Array.from(columns.podCount, score);
    if (computed.some((score, i) => BigInt(score) !== kept[i])) throw new Error("scores that are kept differ");
    return pod.priority % 2 ? kept : computed;
  },
};
