// Passes scores between the host and the plugin as the memory of a Float64Array. It wraps each function that has scores, in the
// module that calls the engine. The wrapper converts 64-bit integers to floating-point numbers before the call, and converts
// the results back after it. A fraction is cut off.

import { FUNCTION, IMPORTS, Reader, encode, encodeList, importsOf, mapSections, sections, sized } from "./binary.mjs";

/** For each exported function, the number of its parameters, and the parameter with the address of scores, if there is one. */
const FUNCTIONS = {
  "berth:scheduler/score@0.2.0#score": { nParameters: 3, scores: null },
  "berth:scheduler/normalize-score@0.2.0#normalize-score": { nParameters: 5, scores: 3 },
};

// Sections of a module.
const FUNCTION_TYPES = 3;
const EXPORTS = 7;
const CODE = 10;

export const exportsScores = (module) => {
  const exported = sections(module).find(([id]) => id === EXPORTS);
  return exported !== undefined && exportsOf(exported[1]).some(({ name }) => name in FUNCTIONS);
};

const exportsOf = (content) => {
  const reader = new Reader(content);
  return reader.list(() => ({ name: reader.text(), kind: reader.byte(), index: reader.number() }));
};

// Instructions.
const get = (local) => [0x20, ...encode(local)];
const set = (local) => [0x21, ...encode(local)];
const int = (value) => [0x41, value];
const loadInt = (offset) => [0x28, 2, offset];
const storeInt = (offset) => [0x36, 2, offset];
const ADD = 0x6a;
const AND = 0x71;
const SHIFT_LEFT = 0x74;
const SHIFT_RIGHT = 0x76;
const AT_LEAST = 0x4f;
const IS_ZERO = 0x45;
const END = 0x0b;
const INTEGER_TO_NUMBER = [0x29, 3, 0, 0xb9, 0x39, 3, 0];
const NUMBER_TO_INTEGER = [0x2b, 3, 0, 0xfc, 6, 0x37, 3, 0];
const MINUS_EIGHT = 0x78;

/** Converts the values between the addresses in two locals. It advances the first local. */
const convert = (at, end, conversion) => [
  ...[0x02, 0x40, 0x03, 0x40, ...get(at), ...get(end), AT_LEAST, 0x0d, 1],
  ...[...get(at), ...get(at), ...conversion],
  ...[...get(at), ...int(8), ADD, ...set(at), 0x0c, 0, END, END],
];

/**
 * The body of a function that wraps another function. The result of the wrapped function is in memory: whether the function
 * failed, the address of the scores, and their number.
 */
function functionAround(original, { nParameters, scores }) {
  const result = nParameters;
  const at = result + 1;
  const end = result + 2;
  const code = [];
  if (scores !== null) {
    // The length is in bytes: eight bytes for each score.
    code.push(...get(scores + 1), ...int(3), SHIFT_LEFT, ...set(scores + 1));
    code.push(...get(scores), ...set(at), ...get(at), ...get(scores + 1), ADD, ...set(end));
    code.push(...convert(at, end, INTEGER_TO_NUMBER));
  }
  for (let parameter = 0; parameter < nParameters; parameter++) code.push(...get(parameter));
  code.push(0x10, ...encode(original), ...set(result));
  code.push(...get(result), 0x2d, 0, 0, IS_ZERO, 0x04, 0x40);
  // The address of an empty list of 8-bit integers may be any number. A list of 64-bit integers must be aligned.
  code.push(...get(result), ...get(result), ...loadInt(4), ...int(MINUS_EIGHT), AND, ...storeInt(4));
  code.push(...get(result), ...loadInt(4), ...set(at), ...get(at), ...get(result), ...loadInt(8), ADD, ...set(end));
  code.push(...convert(at, end, NUMBER_TO_INTEGER));
  code.push(...get(result), ...get(result), ...loadInt(8), ...int(3), SHIFT_RIGHT, ...storeInt(8), END);
  code.push(...get(result), END);
  const threeInts = [1, 3, 0x7f];
  return Buffer.from([...threeInts, ...code]);
}

export function withNumbers(module) {
  const contents = Object.fromEntries(sections(module));
  const nImported = importsOf(contents[IMPORTS]).filter(({ kind }) => kind === FUNCTION).length;
  const types = new Reader(contents[FUNCTION_TYPES]);
  const functions = types.list(() => types.number());
  const code = new Reader(contents[CODE]);
  const bodies = code.list(() => code.take(code.number()));
  const exported = exportsOf(contents[EXPORTS]);
  for (const line of exported) {
    if (!(line.name in FUNCTIONS)) continue;
    bodies.push(functionAround(line.index, FUNCTIONS[line.name]));
    functions.push(functions[line.index - nImported]);
    line.index = nImported + functions.length - 1;
  }
  const lines = exported.map(({ name, kind, index }) =>
    Buffer.concat([sized(Buffer.from(name)), Buffer.from([kind]), encode(index)]),
  );
  const replaced = {
    [FUNCTION_TYPES]: encodeList(functions.map(encode)),
    [EXPORTS]: encodeList(lines),
    [CODE]: encodeList(bodies.map(sized)),
  };
  return mapSections(module, (id, content) => replaced[id] ?? content);
}
