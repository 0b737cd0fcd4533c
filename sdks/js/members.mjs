// Checks the members of a loaded plugin. It finds members that nothing reads, and members with too many parameters.

import { INTERFACES } from "./src/manifest.js";
import { distance, isMeant } from "./src/nearest.js";

/** The members that Berth reads. */
const ATTRIBUTES = ["name", "version", "columns", "pods", "podJson", "objects", "eventsToRegister"];

/** The parameters of each function, except for functions with the parameters pod and node. */
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

/** The members that Berth calls. */
const FUNCTIONS = ["configure", ...Object.keys(INTERFACES)];

/** The names of a plugin's members, including the members of its classes. */
export function membersOf(plugin) {
  const names = new Set();
  for (let it = plugin; it && it !== Object.prototype; it = Object.getPrototypeOf(it)) {
    for (const name of Object.getOwnPropertyNames(it)) names.add(name);
  }
  names.delete("constructor");
  return [...names];
}

/**
 * A sentence for each member that is probably a misspelling. The plugin must lack the meant member, and its sources must not read
 * the misspelt one.
 */
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

/** A sentence for each function that has more parameters than Berth passes. */
export function miscalled(plugin) {
  return FUNCTIONS.filter((name) => typeof plugin[name] === "function").flatMap((name) => {
    const given = PARAMETERS[name] ?? ["pod", "node"];
    const n = plugin[name].length;
    if (n <= given.length) return [];
    return [[name, `${name} takes ${n} parameters: write ${name}(${given.join(", ")})`]];
  });
}
