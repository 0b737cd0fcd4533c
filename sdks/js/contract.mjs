// Builds a component for a changed contract, and converts it to the real contract. QuickJS' bindings make a value of each
// element of a list, except for lists of 8-bit integers, which become typed arrays. The changed contract differs in two types:
//
// - Bitmaps of nodes are lists of 64-bit words, and a Number cannot hold 64 bits. In the changed contract, a word is a pair of
//   32-bit words, `tuple<u32, u32>`. Both have the same layout in memory.
// - Scores are `list<s8>`, with eight elements for each score. Their memory has the form of a Float64Array: see scores.mjs.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { COMPONENT, CORE_MODULE, TYPES, mapSections, replaceAll } from "./binary.mjs";
import { exportsScores, withNumbers } from "./scores.mjs";

/** The changes of the contract, by file: the text of the real contract and the text of the changed contract. */
const REWRITTEN = {
  types: ["type rows = list<u64>;", "type rows = list<tuple<u32, u32>>;"],
  score: ["list<s64>", "list<s8>"],
  "normalize-score": ["list<s64>", "list<s8>"],
};

// The changed types in the binary format. The contract has no other types with these bytes.
const PAIR = Buffer.from([0x6f, 0x02, 0x79, 0x79]);
const U64 = Buffer.from([0x77]);
const NARROW = Buffer.from([0x70, 0x7e]);
const WIDE = Buffer.from([0x70, 0x78]);

/** Changes the copy of the contract in a folder. */
export function narrow(folder) {
  for (const [name, [contract, build]] of Object.entries(REWRITTEN)) {
    const file = join(folder, `${name}.wit`);
    const text = existsSync(file) ? readFileSync(file, "utf8") : "";
    const isKnown = text.includes(contract) && !text.includes("tuple<u32, u32>") && !text.includes("s8");
    if (!isKnown) throw new Error(`${file}: does not say ${contract}; this SDK is for another contract`);
    writeFileSync(file, text.replaceAll(contract, build));
  }
}

/** Converts the built component to the real contract. */
export function widen(component) {
  return mapSections(component, (id, content) => {
    if (id === TYPES) return replaceAll(replaceAll(content, NARROW, WIDE), PAIR, U64);
    if (id === COMPONENT) return widen(content);
    return id === CORE_MODULE && exportsScores(content) ? withNumbers(content) : content;
  });
}
