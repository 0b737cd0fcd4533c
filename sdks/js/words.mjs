// Bitmaps of nodes are lists of 64-bit words, and QuickJS' bindings make a Number of each, which loses bits. So the
// component is built for a contract in which a word is a pair of 32-bit ones, `tuple<u32, u32>`: in memory the two look the
// same. What is left is to say `u64` in the component's types again.

const COMPONENT = 4;
const TYPES = 7;
const PREAMBLE = 8;
/** `(tuple u32 u32)` as the binary format spells it; the contract has no such type of its own. */
const PAIR = Buffer.from([0x6f, 0x02, 0x79, 0x79]);
const U64 = Buffer.from([0x77]);

/** The unsigned LEB128 number at `at`, and where it ends. */
function number(bytes, at) {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++];
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return [value, at];
  }
}

function encode(value) {
  const bytes = [];
  for (; value >= 0x80; value = Math.floor(value / 128)) bytes.push((value % 128) | 0x80);
  return Buffer.from([...bytes, value]);
}

function replacePairs(types) {
  const parts = [];
  let from = 0;
  for (let at; (at = types.indexOf(PAIR, from)) >= 0; from = at + PAIR.length) parts.push(types.subarray(from, at), U64);
  return Buffer.concat([...parts, types.subarray(from)]);
}

/** The component with 64-bit words wherever it has pairs. */
export function widenWords(component) {
  const parts = [component.subarray(0, PREAMBLE)];
  for (let at = PREAMBLE; at < component.length; ) {
    const id = component[at];
    const [size, start] = number(component, at + 1);
    at = start + size;
    let content = component.subarray(start, at);
    if (id === TYPES) content = replacePairs(content);
    if (id === COMPONENT) content = widenWords(content);
    parts.push(Buffer.from([id]), encode(content.length), content);
  }
  return Buffer.concat(parts);
}
