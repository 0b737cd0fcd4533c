// Each interface of the contract, answered by the plugin.

import { Refusal, Rejection, log } from "./index.js";
import { Pod } from "./pod.js";
import { table } from "./table.js";

const SUCCESS = { code: "success", reasons: [] };

const cycles = new Map();

/** Why an attempt fails; the stack goes to the log. */
function failure(error) {
  log(`${error}\n${error?.stack ?? ""}`.slice(0, 4000), "error");
  return String(error);
}

/** Runs an answer about a pod. What the plugin throws fails the attempt, and not the instance. */
function answer(cycle, run) {
  let reason;
  try {
    const pod = cycles.get(cycle);
    if (!pod) throw new Error("called outside a cycle");
    return run(pod);
  } catch (error) {
    reason = failure(error);
  }
  throw { code: "error", reasons: [reason] };
}

/** The nodes of a bitmap; its words are pairs of 32 bits, see words.mjs. */
function nodesOf(words) {
  const nodes = [];
  for (let i = 0; i < words.length; i++) {
    for (let half = 0; half < 2; half++) {
      const base = i * 64 + half * 32;
      for (let bits = words[i][half] | 0; bits !== 0; bits &= bits - 1) {
        nodes.push(table.nodes[base + 31 - Math.clz32(bits & -bits)]);
      }
    }
  }
  return nodes;
}

/** At least one word: an empty list would not be aligned like one of 64-bit words. */
const emptyWords = (n) => Array.from({ length: Math.max(n, 1) }, () => [0, 0]);

function insert(words, { row }) {
  words[row >> 6][(row >> 5) & 1] |= 1 << (row & 31);
}

function statusOf(rejection) {
  if (rejection === null || rejection === undefined) return SUCCESS;
  if (rejection instanceof Rejection) return { code: rejection.code, reasons: [rejection.reason] };
  throw new TypeError(`filter gave ${rejection}, which is neither null nor a rejection`);
}

function checkScores(scores, n) {
  if (!Array.isArray(scores) || scores.length !== n) throw new TypeError(`${scores} are not ${n} scores`);
  const wrong = scores.find((score) => !Number.isSafeInteger(score));
  if (wrong !== undefined) throw new TypeError(`${wrong} is no integer score`);
  return scores;
}

function manifestOf(plugin) {
  const { name, version, columns = [], pods = false, podJson = false, objects = [], requeue = null } = plugin;
  const column = (column) => {
    if (typeof column === "string") return { tag: column };
    return "label" in column ? { tag: "label", val: column.label } : { tag: "annotation", val: column.annotation };
  };
  return { name, version, columns: columns.map(column), pods, podJson, objects, requeue };
}

function configure(plugin, args) {
  let reason;
  try {
    plugin.configure?.(JSON.parse(args));
    return;
  } catch (error) {
    reason = error instanceof Refusal ? error.message : failure(error);
  }
  throw reason;
}

function filterOf(plugin) {
  return {
    filter: (cycle, candidates) =>
      answer(cycle, (pod) => {
        const nodes = nodesOf(candidates);
        const passes = (node) => statusOf(plugin.filter(pod, node)) === SUCCESS;
        const passed = plugin.filterNodes ? plugin.filterNodes(pod, nodes) : nodes.filter(passes);
        const words = emptyWords(candidates.length);
        for (const node of passed) insert(words, node);
        return words;
      }),

    explain: (cycle, rejected) =>
      answer(cycle, (pod) => {
        const groups = new Map();
        for (const node of nodesOf(rejected)) {
          const status = statusOf(plugin.filter(pod, node));
          if (status === SUCCESS) continue;
          const key = JSON.stringify(status);
          if (!groups.has(key)) groups.set(key, { status, nodes: emptyWords(rejected.length) });
          insert(groups.get(key).nodes, node);
        }
        return [...groups.values()];
      }),

    dryRun: (cycle, pods, cases) =>
      answer(cycle, (pod) => {
        const all = pods.map((raw) => new Pod(raw, table));
        const pick = (indices) => Array.from(indices, (index) => all[index]);
        const tried = ({ node, minus, plus }) => table.nodes[node].altered(pick(minus), pick(plus));
        return cases.map((change) => statusOf(plugin.filter(pod, tried(change))));
      }),
  };
}

/** The exports of a component that holds this plugin. */
export function serve(plugin) {
  return {
    lifecycle: {
      describe: () => manifestOf(plugin),
      configure: (args) => configure(plugin, args),
    },
    sync: { apply: (delta) => table.apply(delta) },
    cycle: {
      begin: (cycle, pod) => void cycles.set(cycle, new Pod(pod, table)),
      end: (cycle) => void cycles.delete(cycle),
    },
    filter: filterOf(plugin),
    score: {
      score: (cycle, rows) =>
        answer(cycle, (pod) => {
          const nodes = nodesOf(rows);
          const scores = plugin.scoreNodes?.(pod, nodes) ?? nodes.map((node) => plugin.score(pod, node));
          return checkScores(scores, nodes.length);
        }),
    },
    normalizeScore: {
      normalizeScore: (cycle, rows, scores) =>
        answer(cycle, (pod) => checkScores(plugin.normalize(pod, Array.from(scores)), scores.length)),
    },
  };
}
