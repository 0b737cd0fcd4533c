// The exports of the contract. They call the plugin.

import { openConsole } from "./console.js";
import { Checks, shown } from "./checks.js";
import { Columns, checkLength, passed, rowsOf } from "./columns.js";
import { Effect } from "./effects.js";
import { Refusal, Rejection, rejectionOf } from "./index.js";
import { manifestOf, missing } from "./manifest.js";
import { Answered, Unfit, call, followsPods, served, setPlugin } from "./plugin.js";
import { Pod } from "./pod.js";
import { table } from "./table.js";
import { decode, encode } from "./text.js";

const SUCCESS = { code: "success", reasons: [] };

const UNSCHEDULABLE = { code: "unschedulable", reasons: [] };

const cycles = new Map();

/** The pods that the dry runs of each cycle have named. */
const tried = new Map();

/** Wraps a call that has a cycle. The function gets the pod of the cycle. */
const answer = (cycle, run) =>
  call(() => {
    const pod = cycles.get(cycle);
    if (!pod) throw new Error("called outside a cycle");
    return run(pod);
  });

const isNone = (answered) => answered === null || answered === undefined;

/** Throws a rejection as the answer of the call. Null passes. */
function check(member, answered) {
  if (!isNone(answered) && !(answered instanceof Rejection)) {
    throw new Unfit(member, `${shown(answered)}, which is neither null nor a rejection`);
  }
  const status = statusOf(answered);
  if (status !== SUCCESS) throw new Answered(status);
}

/** The checks of an answer of a member. */
const answersOf = (member) => new Checks((rest) => new Unfit(member, rest));

/** The effects of an answer. Null and undefined are no effects. */
function effectsIn(member, given) {
  const is = answersOf(member);
  for (const effect of is.list("effects", given ?? [], "effects")) {
    if (!(effect instanceof Effect)) is.refuse(`the effect ${shown(effect)}, which no function of effects made`);
  }
  return given ?? [];
}

/** The effects of a member that returns a list of effects, or a rejection. */
function effectsOf(member, answered) {
  if (answered instanceof Rejection) check(member, answered);
  if (!Array.isArray(answered)) throw new Unfit(member, `${shown(answered)}, which is neither a list of effects nor a rejection`);
  return effectsIn(member, answered);
}

/** An answer with some of these keys. Null and undefined are an answer without keys. */
function keyed(member, answered, keys) {
  return answersOf(member).object("", answered ?? {}, `neither null, a rejection nor { ${keys.join(", ")} }`, keys);
}

/** The status of a rejection in an answer. */
function rejectionIn(member, name, given) {
  if (!(given instanceof Rejection)) throw new Unfit(member, `${name} ${shown(given)}, which is not a rejection`);
  return statusOf(given);
}

/** The nodes of a bitmap. Its words are pairs of 32-bit words: see contract.mjs. */
const nodesOf = (words) => rowsOf(words).map((row) => table.node(row));

/** The nodes of the call as columns. */
const columnsOf = (words) => new Columns(table, table.columns.selection(words, table));

/** The list has at least one word, because an empty list would not be aligned like a list of 64-bit words. */
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

const NO_SCORES = [NaN, Infinity, -Infinity];

/** The scores in the memory format of scores.mjs. `member` returned one score for each node of the words. */
function packed(member, scores, words, n) {
  checkLength(member, scores, n);
  const numbers = scores instanceof Float64Array ? scores : numbersOf(scores);
  if (numbers === null || NO_SCORES.some((odd) => numbers.includes(odd))) throw unfit(member, scores, words);
  return new Int8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
}

/** Null if a value, such as a BigInt, cannot be converted to a number. */
function numbersOf(scores) {
  try {
    return new Float64Array(scores);
  } catch {
    return null;
  }
}

const isScore = (value) => typeof value !== "bigint" && typeof value !== "symbol" && Number.isFinite(Number(value));

/** The error message for the first invalid score. */
function unfit(member, scores, words) {
  const at = Math.max(Array.from(scores).findIndex((value) => !isScore(value)), 0);
  return new Unfit(member, `${shown(scores[at])} for ${named(nodesOf(words)[at])}, which is not a score`);
}

/** The text of a node in a message. */
function named(node) {
  if (served().columns?.includes("name")) return `node ${node.name}`;
  return `the node in row ${node.row} (with "name" among the columns, its name stands here)`;
}

const unpacked = ({ buffer, byteOffset, byteLength }) => new Float64Array(buffer, byteOffset, byteLength / 8);

/** Repeats checks that the build should have made. */
function describe(plugin, exported) {
  if (typeof plugin !== "object" || plugin === null) throw new TypeError("plugin.js exports no plugin by default");
  for (const [name, members] of missing(plugin, exported)) {
    throw new TypeError(`plugin.wit exports ${name}, and the plugin has no ${members}`);
  }
  return manifestOf(plugin, followsPods());
}

/** Runs a function that may throw a `Refusal`. The message of the `Refusal` is the answer. */
function refusing(run) {
  try {
    run();
  } catch (error) {
    throw error instanceof Refusal ? new Answered(error.message) : error;
  }
}

function filterOf(plugin) {
  const verdictOf = (pod, node) => {
    const answered = plugin.filter(pod, node);
    if (answered !== null && answered !== undefined && !(answered instanceof Rejection)) {
      throw new Unfit("filter", `${shown(answered)} for ${named(node)}, which is neither null nor a rejection`);
    }
    const status = statusOf(answered);
    if (status.code === "error") throw new Answered(status);
    return status;
  };
  return {
    filter: (cycle, candidates) =>
      answer(cycle, (pod) => {
        if (plugin.filterColumns) {
          return passed(table.columns.selection(candidates, table), plugin.filterColumns(pod, columnsOf(candidates)));
        }
        const nodes = nodesOf(candidates);
        const passes = (node) => verdictOf(pod, node) === SUCCESS;
        const left = plugin.filterNodes ? plugin.filterNodes(pod, nodes) : nodes.filter(passes);
        const words = emptyWords(candidates.length);
        for (const node of left) insert(words, node);
        return words;
      }),

    nodeToStatus: (cycle, rejected) =>
      answer(cycle, (pod) => {
        const groups = new Map();
        for (const node of nodesOf(rejected)) {
          const status = verdictOf(pod, node);
          if (status === SUCCESS) continue;
          // A status has at most one reason. The key must be cheap to make, because thousands of nodes may be rejected.
          const key = `${status.code} ${status.reasons[0] ?? ""}`;
          let group = groups.get(key);
          if (!group) groups.set(key, (group = { status, nodes: emptyWords(rejected.length) }));
          insert(group.nodes, node);
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
    const given = keyed("permit", answered, ["wait", "reject", "effects"]);
    const effects = effectsIn("permit", given.effects);
    const [wait, reject] = [given.wait ?? null, given.reject ?? null];
    if (reject !== null) return [{ tag: "deny", val: rejectionIn("permit", "reject", reject) }, effects];
    return [wait === null ? { tag: "allow" } : { tag: "wait", val: answersOf("permit").milliseconds("wait", wait) }, effects];
  };
  return { permit: (cycle, row) => answer(cycle, (pod) => verdictOf(plugin.permit(pod, table.node(row)))) };
}

function postFilterOf(plugin) {
  const outcomeOf = (answered) => {
    const keep = { tag: "keep" };
    if (answered === null || answered === undefined) return { status: UNSCHEDULABLE, nomination: keep, effects: [] };
    if (answered instanceof Rejection) return { status: statusOf(answered), nomination: keep, effects: [] };
    const { node = null, clear = false, effects: given } = keyed("postFilter", answered, ["node", "clear", "effects"]);
    const effects = effectsIn("postFilter", given);
    if (node !== null && !Number.isInteger(node.row)) throw new Unfit("postFilter", `node ${shown(node)}, which is not a node`);
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

function explainOf(plugin) {
  const wordsOf = (pod, row) => {
    const words = plugin.explain(pod, row === null || row === undefined ? null : table.node(row));
    if (typeof words !== "string") throw new Unfit("explain", `${shown(words)}, which is not a text`);
    return words;
  };
  return { explain: (cycle, row) => answer(cycle, (pod) => wordsOf(pod, row)) };
}

function stateOf(plugin) {
  return {
    snapshot: () => call(() => encode(plugin.snapshot())),
    restore: (snapshot) => call(() => refusing(() => plugin.restore(decode(snapshot)))),
  };
}

function reachOf(answered) {
  if (["cluster", "nothing", "nothing-anywhere", "nothing-yet"].includes(answered)) return { tag: answered };
  if (Number.isSafeInteger(answered) && answered >= 0) return { tag: "row", val: answered };
  throw new Unfit("reach", `${shown(answered)}, which is neither a kind of reach nor a number from 0`);
}

/** The answer of `preFilter`: the names of nodes, or null for all nodes. */
function nodeNamesIn(answered) {
  if (isNone(answered)) return null;
  if (answered instanceof Rejection) check("preFilter", answered);
  if (!Array.isArray(answered)) {
    throw new Unfit("preFilter", `${shown(answered)}, which is neither null, a rejection nor a list of the names of nodes`);
  }
  for (const name of answered) {
    if (typeof name !== "string") throw new Unfit("preFilter", `a list with ${shown(name)}, which is not the name of a node`);
  }
  return answered;
}

function sortKeyIn(key) {
  const isNumber = (part) => typeof part === "bigint" || Number.isFinite(part);
  if (Array.isArray(key) && key.length === 2 && key.every(isNumber)) return key;
  throw new Unfit("sortKey", `${shown(key)}, which is not [number, number]`);
}

function signatureIn(signature) {
  if (!isNone(signature) && typeof signature !== "string") {
    throw new Unfit("sign", `${shown(signature)}, which is neither null nor a text`);
  }
  return signature ?? null;
}

/** Converts the object of an event for the plugin. */
const SUBJECTS = {
  pod: (raw) => new Pod(raw, table),
  node: (raw) => table.eventNode(raw),
  object: (json) => JSON.parse(decode(json)),
};

/** The object before and after an event; null for a version that does not exist or is hidden. */
function beforeAndAfter({ tag, val }) {
  if (tag === "hidden") return [null, null];
  return [val.old, val.new].map((it) => (it ? SUBJECTS[tag](it) : null));
}

/** The members that are called for pods outside a cycle. */
function queueOf(plugin) {
  const actionOf = (flag) => flag[0].toUpperCase() + flag.slice(1);
  const hint = (raw, { resource, actions }, subject) => {
    const names = Object.keys(actions).filter((name) => actions[name]).map(actionOf);
    // An update without its own action sets the flags of all update actions.
    const isUpdate = names.length === Object.keys(actions).length - 2 && !names.includes("Add") && !names.includes("Delete");
    const event = { resource, actions: isUpdate ? ["Update"] : names };
    return plugin.queueingHint(new Pod(raw, table), event, ...beforeAndAfter(subject)) ? "queue" : "skip";
  };
  return {
    preEnqueue: { preEnqueue: (raw) => call(() => check("preEnqueue", plugin.preEnqueue(new Pod(raw, table)))) },
    queueSort: { sortKey: (raw, queuedAt) => call(() => sortKeyIn(plugin.sortKey(new Pod(raw, table), queuedAt))) },
    queueingHint: { queueingHint: (...asked) => call(() => hint(...asked)) },
    sign: { sign: (raw) => call(() => signatureIn(plugin.sign(new Pod(raw, table)))) },
  };
}

/** The exports of the component. `exported` are the interfaces that plugin.wit exports. */
export function serve(plugin, exported) {
  setPlugin(plugin);
  const at = (method) => (cycle, row) => answer(cycle, (pod) => effectsOf(method, plugin[method](pod, table.node(row))));
  return {
    ...queueOf(plugin),
    lifecycle: {
      describe: () =>
        call(() => {
          openConsole();
          return describe(plugin, exported);
        }),
      configure: (args) =>
        call(() => {
          openConsole();
          refusing(() => plugin.configure?.(JSON.parse(args)));
        }),
    },
    sync: { apply: (delta) => call(() => table.apply(delta, plugin)) },
    syncPods: {
      place: (pods) => call(() => table.placeAlike(pods, plugin)),
      setUsage: (_generation, usage) => call(() => table.setUsage(usage)),
    },
    cycle: {
      begin: (cycle, pod) => void cycles.set(cycle, new Pod(pod, table)),
      end: (cycle) => {
        cycles.delete(cycle);
        tried.delete(cycle);
      },
    },
    preFilter: {
      preFilter: (cycle) => answer(cycle, (pod) => nodeNamesIn(plugin.preFilter(pod))),
    },
    filter: filterOf(plugin),
    postFilter: postFilterOf(plugin),
    preScore: { preScore: (cycle, rows) => answer(cycle, (pod) => check("preScore", plugin.preScore(pod, nodesOf(rows)))) },
    score: {
      score: (cycle, rows) =>
        answer(cycle, (pod) => {
          if (plugin.scoreColumns) {
            const columns = columnsOf(rows);
            return packed("scoreColumns", plugin.scoreColumns(pod, columns), rows, columns.length);
          }
          const nodes = nodesOf(rows);
          if (plugin.scoreNodes) return packed("scoreNodes", plugin.scoreNodes(pod, nodes), rows, nodes.length);
          return packed("score", nodes.map((node) => plugin.score(pod, node)), rows, nodes.length);
        }),
    },
    normalizeScore: {
      normalizeScore: (cycle, rows, given) =>
        answer(cycle, (pod) => {
          const scores = unpacked(given);
          if (plugin.normalizeColumns) return packed("normalizeColumns", plugin.normalizeColumns(pod, scores), rows, scores.length);
          return packed("normalize", plugin.normalize(pod, Array.from(scores)), rows, scores.length);
        }),
    },
    reserve: {
      reserve: (cycle, row) => answer(cycle, (pod) => check("reserve", plugin.reserve(pod, table.node(row)))),
      unreserve: (cycle, row) => answer(cycle, (pod) => effectsIn("unreserve", plugin.unreserve(pod, table.node(row)))),
    },
    permit: permitOf(plugin),
    preBindPreFlight: {
      preBindPreFlight: (cycle, row) =>
        answer(cycle, (pod) => {
          const answered = plugin.preBindPreFlight(pod, table.node(row));
          if (answered instanceof Rejection) check("preBindPreFlight", answered);
          return { allowParallel: answered };
        }),
    },
    preBind: { preBind: at("preBind") },
    bind: { bind: at("bind") },
    postBind: { postBind: (cycle, row) => answer(cycle, (pod) => void plugin.postBind(pod, table.node(row))) },
    state: stateOf(plugin),
    explain: explainOf(plugin),
    reuse: { reachOf: (cycle) => answer(cycle, (pod) => reachOf(plugin.reach(pod))) },
  };
}
