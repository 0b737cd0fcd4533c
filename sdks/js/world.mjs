// What plugin.wit says, compared with the contract.

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const sdk = dirname(fileURLToPath(import.meta.url));

/** The contract travels with the SDK; in Berth's own repository it lies at the root. */
export const CONTRACT = [join(sdk, "wit"), join(sdk, "../../wit")].find(existsSync);

const linesOf = (plugin) => readFileSync(join(plugin, "plugin.wit"), "utf8").split("\n");

/** The interfaces that plugin.wit exports, each with its line. */
export function exportedInterfaces(plugin) {
  const found = linesOf(plugin).map((text, at) => [/^ *export berth:scheduler\/([a-z-]+)@/.exec(text)?.[1], at + 1]);
  return new Map(found.filter(([name]) => name !== undefined));
}

/** The contract's version, the interfaces that a plugin may export, and those that it may import. */
function contract() {
  const text = readFileSync(join(CONTRACT, "worlds.wit"), "utf8");
  const [, everything] = /^world all \{(.*?)^\}/ms.exec(text);
  const named = (word) => Array.from(everything.matchAll(new RegExp(`^ *${word} ([a-z-]+);`, "gm")), ([, name]) => name);
  return { version: /^package berth:scheduler@(.*);/m.exec(text)[1], export: named("export"), import: named("import") };
}

/** How many letters have to be added, taken away or changed to make one word of the other. */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (const [y, letter] of [...one].entries()) {
    const next = [y + 1];
    for (let x = 0; x < other.length; x++) {
      next.push(Math.min(next[x] + 1, row[x + 1] + 1, row[x] + (letter === other[x] ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1);
}

/** A sentence for each line of plugin.wit that names an interface or a version that the contract does not have. */
export function unknownInterfaces(plugin) {
  const known = contract();
  return linesOf(plugin).flatMap((line, at) => {
    const found = /^\s*(export|import) berth:scheduler\/([^@;\s]+)(?:@([^;\s]+))?\s*;/.exec(line);
    if (!found) return [];
    const [, word, name, version] = found;
    const place = `plugin.wit:${at + 1}`;
    if (!known[word].includes(name)) {
      const [near] = [...known[word]].sort((one, other) => distance(name, one) - distance(name, other));
      const isAlike = distance(name, near) * 2 <= name.length;
      const hint = isAlike ? ` (did you mean ${near}?)` : ` to ${word}; there are ${known[word].join(", ")}`;
      return [`${place}: there is no interface ${name}${hint}`];
    }
    if (version === known.version) return [];
    return [`${place}: this SDK has @${known.version}: write ${word} berth:scheduler/${name}@${known.version};`];
  });
}
