// Holds columns to the nodes that they are made of, and answers by both.

import { defaultNormalize, kept, reject } from "berth";

function holdToNodes(columns) {
  const { nodes } = columns;
  // Some of thousands, because a call has a time limit.
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
    const own = columns.scores(pod.priority, (node) => score(node.podCount));
    const computed = Array.from(columns.podCount, score);
    if (computed.some((score, i) => score !== own[i])) throw new Error("scores that are kept differ");
    // A fraction is cut off.
    return pod.priority % 2 ? own : computed.map((score) => score + 0.75);
  },

  normalizeColumns(pod, scores) {
    const most = Math.max(...scores);
    for (const reverse of [false, true]) {
      const normal = defaultNormalize(scores, reverse);
      for (const [i, score] of scores.entries()) {
        const expected = most === 0 ? 0 : Math.floor((100 * score) / most);
        const answered = Math.trunc(normal[i]);
        if (answered !== (reverse ? 100 - expected : expected)) throw new Error(`${score} of ${most} became ${answered}`);
      }
    }
    const doubled = (scores) => scores.map((score) => 2 * score);
    const again = kept("doubled", scores, doubled);
    if (again.some((score, i) => score !== 2 * scores[i])) throw new Error("what is kept belongs to other scores");
    if (kept("doubled", scores, () => []) !== again) throw new Error("what was kept is gone");
    if (!scores.every(Number.isInteger)) throw new Error("scores with fractions");
    return pod.priority % 2 ? defaultNormalize(scores) : Array.from(scores, (score) => Math.min(score, 100));
  },
};
