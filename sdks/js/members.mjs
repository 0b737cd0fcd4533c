// Looks at the members of a plugin that the build has loaded: those that nothing would read, and those that cannot be called
// as Berth calls them.

import { INTERFACES } from "./src/manifest.js";
import { distance } from "./world.mjs";

/** What Berth reads of a plugin. */
const ATTRIBUTES = ["name", "version", "columns", "pods", "podJson", "objects", "eventsToRegister"];

/** By member, its parameters, where they are not the pod and a node. */
const PARAMETERS = {
  configure: ["args"],
  filterNodes: ["pod", "nodes"],
  scoreNodes: ["pod", "nodes"],
  preScore: ["pod", "nodes"],
  filterColumns: ["pod", "columns"],
  scoreColumns: ["pod", "columns"],
  normalize: ["pod", "scores"],
  normalizeColumns: ["pod", "scores"],
  preEnqueue: ["pod"],
  preFilter: ["pod"],
  sign: ["pod"],
  reach: ["pod"],
  postFilter: ["pod", "failure"],
  sortKey: ["pod", "queuedAt"],
  queueingHint: ["pod", "event", "old", "changed"],
  snapshot: [],
  restore: ["text"],
};

/** What Berth calls. */
const FUNCTIONS = ["configure", ...Object.keys(INTERFACES)];

/** The names of a plugin's members; those of its classes as well, if it is an object of one. */
export function membersOf(plugin) {
  const names = new Set();
  for (let it = plugin; it && it !== Object.prototype; it = Object.getPrototypeOf(it)) {
    for (const name of Object.getOwnPropertyNames(it)) names.add(name);
  }
  names.delete("constructor");
  return [...names];
}

/** Whether a name is so near to a known one that it is taken for a misspelling. */
function isMeant(written, known) {
  const [plain, wanted] = [written, known].map((name) => name.replaceAll("_", "").toLowerCase());
  return plain === wanted || distance(plain, wanted) <= (wanted.length >= 5) + (wanted.length >= 8);
}

/** A sentence for each member that is nearly one that Berth reads, if the plugin lacks that one and its sources do not read it. */
export function misspelt(plugin, text) {
  const names = membersOf(plugin);
  return names.flatMap((name) => {
    const [known, does] = typeof plugin[name] === "function" ? [FUNCTIONS, "calls"] : [ATTRIBUTES, "reads"];
    const isRead = new RegExp(`[.]\\s*${name.replaceAll("$", "\\$")}\\b`).test(text);
    if (FUNCTIONS.includes(name) || ATTRIBUTES.includes(name) || name.startsWith("_") || isRead) return [];
    const meant = known.filter((it) => !names.includes(it) && isMeant(name, it));
    const [nearest] = meant.sort((one, other) => distance(name, one) - distance(name, other));
    return nearest ? [[name, `${name} is nothing that Berth ${does}: did you mean ${nearest}?`]] : [];
  });
}

/** A sentence for each member that wants more than it is given. */
export function miscalled(plugin) {
  return FUNCTIONS.filter((name) => typeof plugin[name] === "function").flatMap((name) => {
    const given = PARAMETERS[name] ?? ["pod", "node"];
    const n = plugin[name].length;
    if (n <= given.length) return [];
    return [[name, `${name} takes ${n} parameters: write ${name}(${given.join(", ")})`]];
  });
}
