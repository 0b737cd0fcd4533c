// Each interface of the contract, answered by the plugin.

import { Refusal, Rejection, log, rejectionOf } from "./index.js";
import { Pod } from "./pod.js";
import { table } from "./table.js";
import { decode, encode } from "./text.js";

const SUCCESS = { code: "success", reasons: [] };

const UNSCHEDULABLE = { code: "unschedulable", reasons: [] };

const cycles = new Map();

/** By cycle: the pods that its dry runs have named. */
const tried = new Map();

/** Why an attempt fails; the stack goes to the log. */
function failure(error) {
  log(`${error}\n${error?.stack ?? ""}`.slice(0, 4000), "error");
  return String(error);
}

function podOf(cycle) {
  const pod = cycles.get(cycle);
  if (!pod) throw new Error("called outside a cycle");
  return pod;
}

/** Answers in the place of something that throws. */
function attempt(run, otherwise) {
  try {
    return run();
  } catch (error) {
    return otherwise(failure(error));
  }
}

/** A status that is an answer, and no mistake of the plugin. */
class Answered {
  constructor(status) {
    this.status = status;
  }
}

/** Runs what may answer with a status. What the plugin throws fails the attempt, and not the instance. */
function checked(run) {
  let status;
  try {
    return run();
  } catch (error) {
    status = error instanceof Answered ? error.status : { code: "error", reasons: [failure(error)] };
  }
  throw status;
}

const answer = (cycle, run) => checked(() => run(podOf(cycle)));

/** For a call without an answer: what the plugin throws is logged. */
const told = (cycle, run) => attempt(() => void run(podOf(cycle)), () => undefined);

/** Null goes on; a rejection is the answer. */
function check(rejection) {
  const status = statusOf(rejection);
  if (status !== SUCCESS) throw new Answered(status);
}

function effectsOf(answered) {
  if (answered instanceof Rejection) check(answered);
  return answered;
}

/** The nodes of a bitmap; its words are pairs of 32 bits, see words.mjs. */
function nodesOf(words) {
  const nodes = [];
  for (let i = 0; i < words.length; i++) {
    for (let half = 0; half < 2; half++) {
      const base = i * 64 + half * 32;
      for (let bits = words[i][half] | 0; bits !== 0; bits &= bits - 1) {
        nodes.push(table.node(base + 31 - Math.clz32(bits & -bits)));
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
  if (rejection instanceof Rejection) {
    return { code: rejection.code, reasons: rejection.reason === "" ? [] : [rejection.reason] };
  }
  throw new TypeError(`${rejection} is neither null nor a rejection`);
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

    dryRun: (cycle, keep, pods, cases) =>
      answer(cycle, (pod) => {
        const kept = (tried.get(cycle) ?? []).slice(0, keep);
        const named = kept.concat(pods.map((raw) => new Pod(raw, table)));
        tried.set(cycle, named);
        const pick = (indices) => Array.from(indices, (index) => named[index]);
        const altered = ({ node, minus, plus }) => table.node(node).altered(pick(minus), pick(plus));
        return cases.map((change) => statusOf(plugin.filter(pod, altered(change))));
      }),
  };
}

function permitOf(plugin) {
  const verdictOf = (answered) => {
    if (answered instanceof Rejection) return [{ tag: "deny", val: statusOf(answered) }, []];
    const { wait, reject, effects = [] } = answered ?? {};
    if (reject !== undefined) return [{ tag: "deny", val: statusOf(reject) }, effects];
    return [wait === undefined ? { tag: "allow" } : { tag: "wait", val: wait }, effects];
  };
  const denied = (reason) => [{ tag: "deny", val: { code: "error", reasons: [reason] } }, []];
  return {
    permit: (cycle, row) => attempt(() => verdictOf(plugin.permit(podOf(cycle), table.node(row))), denied),
  };
}

function postFilterOf(plugin) {
  const outcomeOf = (answered) => {
    const keep = { tag: "keep" };
    if (answered === null || answered === undefined) return { status: UNSCHEDULABLE, nomination: keep, effects: [] };
    if (answered instanceof Rejection) return { status: statusOf(answered), nomination: keep, effects: [] };
    const { node = null, clear = false, effects = [] } = answered;
    if (node !== null) return { status: SUCCESS, nomination: { tag: "node", val: node.row }, effects };
    return { status: SUCCESS, nomination: clear ? { tag: "clear" } : keep, effects };
  };
  return {
    postFilter: (cycle, { rejections, absent, nominated }) =>
      answer(cycle, (pod) =>
        outcomeOf(
          plugin.postFilter(pod, {
            rejections: rejections.map(({ status, nodes }) => ({ rejection: rejectionOf(status), nodes: nodesOf(nodes) })),
            absent: absent ? rejectionOf(absent) : null,
            nominated: nominated.map(([row, raw]) => ({ node: table.node(row), pod: new Pod(raw, table) })),
          }),
        ),
      ),
  };
}

function stateOf(plugin) {
  return {
    snapshot: () => attempt(() => encode(plugin.snapshot()), () => new Uint8Array()),
    restore(snapshot) {
      let reason;
      try {
        plugin.restore(decode(snapshot));
        return;
      } catch (error) {
        reason = error instanceof Error ? error.message : String(error);
      }
      throw reason;
    },
  };
}

/** How plugins see what events happen to. */
const SUBJECTS = {
  pod: (raw) => new Pod(raw, table),
  node: (raw) => table.eventNode(raw),
  object: (json) => JSON.parse(decode(json)),
};

/** What an event changed; null where it does not exist or is hidden. */
function beforeAndAfter({ tag, val }) {
  if (tag === "hidden") return [null, null];
  return [val.old, val.new].map((it) => (it ? SUBJECTS[tag](it) : null));
}

/** What is asked about pods outside a cycle. */
function queueOf(plugin) {
  const kebab = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const hint = (raw, { resource, actions }, subject) => {
    const event = { resource, actions: Object.keys(actions).filter((name) => actions[name]).map(kebab) };
    return plugin.queueingHint(new Pod(raw, table), event, ...beforeAndAfter(subject)) ? "queue" : "skip";
  };
  return {
    preEnqueue: { preEnqueue: (raw) => checked(() => check(plugin.preEnqueue(new Pod(raw, table)))) },
    queueSort: {
      sortKey: (raw, queuedAt) => attempt(() => plugin.sortKey(new Pod(raw, table), queuedAt), () => [0, queuedAt]),
    },
    queueingHint: { queueingHint: (...asked) => attempt(() => hint(...asked), () => "queue") },
    sign: { sign: (raw) => attempt(() => plugin.sign(new Pod(raw, table)) ?? null, () => null) },
  };
}

/** The exports of a component that holds this plugin. */
export function serve(plugin) {
  const at = (method) => (cycle, row) => answer(cycle, (pod) => effectsOf(plugin[method](pod, table.node(row))));
  return {
    ...queueOf(plugin),
    lifecycle: {
      describe: () => manifestOf(plugin),
      configure: (args) => configure(plugin, args),
    },
    sync: { apply: (delta) => table.apply(delta) },
    cycle: {
      begin: (cycle, pod) => void cycles.set(cycle, new Pod(pod, table)),
      end: (cycle) => {
        cycles.delete(cycle);
        tried.delete(cycle);
      },
    },
    preFilter: {
      preFilter: (cycle) =>
        answer(cycle, (pod) => {
          const answered = plugin.preFilter(pod);
          if (answered instanceof Rejection) check(answered);
          return answered ?? null;
        }),
    },
    filter: filterOf(plugin),
    postFilter: postFilterOf(plugin),
    preScore: { preScore: (cycle, rows) => answer(cycle, (pod) => check(plugin.preScore(pod, nodesOf(rows)))) },
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
    reserve: {
      reserve: (cycle, row) => answer(cycle, (pod) => check(plugin.reserve(pod, table.node(row)))),
      unreserve: (cycle, row) => told(cycle, (pod) => plugin.unreserve(pod, table.node(row))),
    },
    permit: permitOf(plugin),
    preBindPreFlight: {
      preBindPreFlight: (cycle, row) =>
        answer(cycle, (pod) => {
          const answered = plugin.preBindPreFlight(pod, table.node(row));
          if (answered instanceof Rejection) check(answered);
          return { allowParallel: answered };
        }),
    },
    preBind: { preBind: at("preBind") },
    bind: { bind: at("bind") },
    postBind: { postBind: (cycle, row) => told(cycle, (pod) => plugin.postBind(pod, table.node(row))) },
    state: stateOf(plugin),
  };
}
