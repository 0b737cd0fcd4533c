// QuickJS' bindings make a value of each element of a list, except of 8-bit integers, which come as a typed array. So the
// component is built for a contract that differs in two types, and made one for the real contract afterwards:
//
// - Bitmaps of nodes are lists of 64-bit words, and a Number loses bits. Here a word is a pair of 32-bit ones,
//   `tuple<u32, u32>`: in memory the two look the same.
// - Scores are `list<s8>`, with eight times as many elements. Their memory is a Float64Array's: see scores.mjs.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { COMPONENT, CORE_MODULE, TYPES, mapSections, replaceAll } from "./binary.mjs";
import { exportsScores, withNumbers } from "./scores.mjs";

/** By file, what the contract says and what the build's says. */
const REWRITTEN = {
  types: ["type rows = list<u64>;", "type rows = list<tuple<u32, u32>>;"],
  score: ["list<s64>", "list<s8>"],
  "normalize-score": ["list<s64>", "list<s8>"],
};

// As the binary format spells them; the contract has no types like these of its own.
const PAIR = Buffer.from([0x6f, 0x02, 0x79, 0x79]);
const U64 = Buffer.from([0x77]);
const NARROW = Buffer.from([0x70, 0x7e]);
const WIDE = Buffer.from([0x70, 0x78]);

/** Rewrites the copy of the contract in a folder. */
export function narrow(folder) {
  for (const [name, [contract, build]] of Object.entries(REWRITTEN)) {
    const file = join(folder, `${name}.wit`);
    const text = existsSync(file) ? readFileSync(file, "utf8") : "";
    const isKnown = text.includes(contract) && !text.includes("tuple<u32, u32>") && !text.includes("s8");
    if (!isKnown) throw new Error(`${file}: does not say ${contract}; this SDK is for another contract`);
    writeFileSync(file, text.replaceAll(contract, build));
  }
}

/** The component that was built, as one for the contract. */
export function widen(component) {
  return mapSections(component, (id, content) => {
    if (id === TYPES) return replaceAll(replaceAll(content, NARROW, WIDE), PAIR, U64);
    if (id === COMPONENT) return widen(content);
    return id === CORE_MODULE && exportsScores(content) ? withNumbers(content) : content;
  });
}
