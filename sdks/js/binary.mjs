// Reads and writes the sections of WebAssembly modules and components.

// Sections of a component.
export const CORE_MODULE = 1;
export const COMPONENT = 4;
export const TYPES = 7;

/** The section of a module that names its imports. */
export const IMPORTS = 2;

const PREAMBLE = 8;

// The kinds of imports.
export const FUNCTION = 0;
const TABLE = 1;
const GLOBAL = 3;
const TAG = 4;

/** Reads the values of a binary in their order. */
export class Reader {
  constructor(bytes, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  get isAtEnd() {
    return this.at >= this.bytes.length;
  }

  byte() {
    return this.bytes[this.at++];
  }

  /** An unsigned LEB128 number. */
  number() {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  }

  take(length) {
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  text() {
    return this.take(this.number()).toString();
  }

  /** A list: a count, followed by the items. */
  list(read) {
    return Array.from({ length: this.number() }, read);
  }
}

export function encode(value) {
  const bytes = [];
  for (; value >= 0x80; value = Math.floor(value / 128)) bytes.push((value % 128) | 0x80);
  return Buffer.from([...bytes, value]);
}

/** Encodes a list: the count, followed by the bytes of each item. */
export const encodeList = (items) => Buffer.concat([encode(items.length), ...items]);

export const sized = (bytes) => Buffer.concat([encode(bytes.length), bytes]);

/** The sections of a module or component, as `[id, content]`. */
export function sections(binary) {
  const reader = new Reader(binary, PREAMBLE);
  const found = [];
  while (!reader.isAtEnd) found.push([reader.byte(), reader.take(reader.number())]);
  return found;
}

/** The imports of a module: the names, the kind, and the bytes of the whole description. */
export function importsOf(content) {
  const reader = new Reader(content);
  return reader.list(() => {
    const [module, name, start] = [reader.text(), reader.text(), reader.at];
    const kind = reader.byte();
    if (kind === FUNCTION) reader.number();
    else if (kind === GLOBAL || kind === TAG) reader.take(2);
    else {
      // Limits: a memory, or a table, which starts with the type of its elements.
      if (kind === TABLE) reader.byte();
      const hasMost = reader.number() & 1;
      reader.number();
      if (hasMost) reader.number();
    }
    return { module, name, kind, description: content.subarray(start, reader.at) };
  });
}

/** Replaces the content of each section of a binary. */
export function mapSections(binary, replace) {
  const parts = sections(binary).map(([id, content]) => Buffer.concat([Buffer.from([id]), sized(replace(id, content))]));
  return Buffer.concat([binary.subarray(0, PREAMBLE), ...parts]);
}

export function replaceAll(bytes, from, to) {
  const parts = [];
  let start = 0;
  for (let at; (at = bytes.indexOf(from, start)) >= 0; start = at + from.length) parts.push(bytes.subarray(start, at), to);
  return Buffer.concat([...parts, bytes.subarray(start)]);
}
