// The nodes of a call as columns: the argument of filterColumns and scoreColumns. index.d.ts has the documentation.

import { Unfit } from "./plugin.js";

/** The number of keys whose results `flags` and `scores` together keep, and the number of keys of `kept`. */
export const KEPT = 16;

/** Converts a bitmap of nodes to 32-bit words, two words for each 64-bit word of the contract. */
const bitsOf = (words) => {
  const bits = new Uint32Array(2 * words.length);
  for (let i = 0; i < words.length; i++) {
    bits[2 * i] = words[i][0];
    bits[2 * i + 1] = words[i][1];
  }
  return bits;
};

const wordsOf = (bits) => {
  // The list has at least one word, because an empty list would not be aligned like a list of 64-bit words.
  const words = Array.from({ length: Math.max(bits.length >> 1, 1) }, () => [0, 0]);
  // The words are signed, because the bindings limit values to the range of a signed integer.
  for (let i = 0; i < bits.length; i++) words[i >> 1][i & 1] = bits[i] | 0;
  return words;
};

/** The rows of a bitmap, in ascending order. */
export function rowsOf(words) {
  const rows = [];
  for (let i = 0; i < words.length; i++) {
    for (let half = 0; half < 2; half++) {
      const base = i * 64 + half * 32;
      let bits = words[i][half] | 0;
      if (bits === -1) {
        for (let row = base; row < base + 32; row++) rows.push(row);
        continue;
      }
      for (; bits !== 0; bits &= bits - 1) rows.push(base + 31 - Math.clz32(bits & -bits));
    }
  }
  return rows;
}

/** The candidates of a call. */
class Selection {
  #rows;

  constructor(words, table) {
    this.words = words;
    this.bits = bitsOf(words);
    this.n = 0;
    for (const bits of this.bits) this.n += ones(bits);
    /** Whether exactly all rows of the table are selected. */
    this.isEverything = this.n === table.nodes.length && this.n === table.nNodes && this.#coversFirst(this.n);
  }

  #coversFirst(n) {
    for (let i = 0; i < n >> 5; i++) if (this.bits[i] !== 0xffffffff) return false;
    return n % 32 === 0 || this.bits[n >> 5] === 2 ** (n % 32) - 1;
  }

  get rows() {
    return (this.#rows ??= rowsOf(this.words));
  }

  /** Returns the values of the selected rows. `values` has one value for each row of the table. */
  of(values) {
    if (this.isEverything) return values.length === this.n ? values : values.slice(0, this.n);
    const chosen = new values.constructor(this.n);
    let at = 0;
    for (let i = 0; i < this.bits.length; i++) {
      const base = 32 * i;
      let bits = this.bits[i] | 0;
      // Usually all 32 bits are equal.
      if (bits === -1 && chosen.set) {
        chosen.set(values.subarray(base, base + 32), at);
        at += 32;
        continue;
      }
      for (; bits !== 0; bits &= bits - 1) chosen[at++] = values[base + 31 - Math.clz32(bits & -bits)];
    }
    return chosen;
  }
}

function ones(bits) {
  bits -= (bits >>> 1) & 0x55555555;
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
  return (((bits + (bits >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}

/** A set of nodes: a bitmap of their rows. */
class Flags {
  constructor(bits) {
    this.bits = bits;
  }

  and(other) {
    return new Flags(this.bits.map((bits, i) => bits & (other.bits[i] ?? 0)));
  }

  or(other) {
    const [long, short] = this.bits.length < other.bits.length ? [other.bits, this.bits] : [this.bits, other.bits];
    return new Flags(long.map((bits, i) => bits | (short[i] ?? 0)));
  }

  not() {
    return new Flags(this.bits.map((bits) => ~bits));
  }
}

/** The bitmap of the selected rows that passed. */
export function passed(selection, flags) {
  const bits = new Uint32Array(selection.bits.length);
  if (flags instanceof Flags) {
    for (let i = 0; i < bits.length; i++) bits[i] = selection.bits[i] & (flags.bits[i] ?? 0);
    return wordsOf(bits);
  }
  checkLength("filterColumns", flags, selection.n);
  const { rows } = selection;
  for (let i = 0; i < rows.length; i++) if (flags[i]) bits[rows[i] >> 5] |= 1 << (rows[i] & 31);
  return wordsOf(bits);
}

export function checkLength(member, answers, n) {
  if (answers?.length !== n) throw new Unfit(member, `${answers?.length} answers about ${n} nodes`);
}

/** One value for each row. It is kept up to date after its first read. */
class Column {
  constructor(make, read) {
    this.make = make;
    this.read = read;
    this.values = make(0);
  }

  refresh(rows, nodes) {
    if (this.values.length < nodes.length) this.#grow(nodes.length);
    for (const row of rows) if (nodes[row]) this.values[row] = this.read(nodes[row]);
  }

  #grow(n) {
    const before = this.values;
    this.values = this.make(n);
    if (before.set) this.values.set(before);
    else for (let row = 0; row < before.length; row++) this.values[row] = before[row];
  }
}

/** A set of nodes. It is kept up to date after its first read. */
class FlagColumn {
  constructor(test) {
    this.test = test;
    this.values = new Flags(new Uint32Array(0));
  }

  refresh(rows, nodes) {
    const n = (nodes.length + 31) >> 5;
    if (this.values.bits.length < n) {
      const before = this.values.bits;
      this.values = new Flags(new Uint32Array(n));
      this.values.bits.set(before);
    }
    const { bits } = this.values;
    for (const row of rows) {
      if (nodes[row] && this.test(nodes[row])) bits[row >> 5] |= 1 << (row & 31);
      else bits[row >> 5] &= ~(1 << (row & 31));
    }
  }
}

const allRows = ({ nodes }) => Array.from(nodes, (_, row) => row);

/** The columns that the plugin has read. */
export class ColumnStore {
  #parts = new Map();
  /** The columns with keys, in the order of their last use. */
  #kept = new Map();
  #selection = null;

  get isEmpty() {
    return this.#parts.size + this.#kept.size === 0;
  }

  /** It is called after nodes were added or removed, because `isEverything` may have changed. */
  forgetSelection() {
    this.#selection = null;
  }

  refresh(table, rows) {
    for (const column of this.#parts.values()) column.refresh(rows, table.nodes);
    for (const column of this.#kept.values()) column.refresh(rows, table.nodes);
  }

  /** The last selection is kept, because Score and NormalizeScore usually get the nodes that passed Filter. */
  selection(words, table) {
    const isSame = (last) =>
      last.words.length === words.length && last.words.every(([a, b], i) => a === words[i][0] && b === words[i][1]);
    if (!this.#selection || !isSame(this.#selection)) this.#selection = new Selection(words, table);
    return this.#selection;
  }

  part(key, table, make) {
    let column = this.#parts.get(key);
    if (!column) {
      column = make();
      column.refresh(allRows(table), table.nodes);
      this.#parts.set(key, column);
    }
    return column.values;
  }

  kept(key, table, make) {
    const column = this.#kept.get(key) ?? make();
    const isNew = !this.#kept.delete(key);
    if (isNew) column.refresh(allRows(table), table.nodes);
    this.#kept.set(key, column);
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value);
    return column.values;
  }
}

const amounts = (n) => new Float64Array(n);

export class Columns {
  #table;
  #selection;

  constructor(table, selection) {
    this.#table = table;
    this.#selection = selection;
  }

  get length() {
    return this.#selection.n;
  }

  get nodes() {
    return this.#selection.rows.map((row) => this.#table.node(row));
  }

  allocatable(resource) {
    return this.#part(`allocatable ${resource}`, amounts, (node) => node.allocatable.get(resource) ?? 0);
  }

  requested(resource) {
    return this.#part(`requested ${resource}`, amounts, (node) => node.requested.get(resource) ?? 0);
  }

  get nonZeroMilliCpu() {
    return this.#part("nonZeroMilliCpu", amounts, (node) => node.nonZeroMilliCpu);
  }

  get nonZeroMemory() {
    return this.#part("nonZeroMemory", amounts, (node) => node.nonZeroMemory);
  }

  get podCount() {
    return this.#part("podCount", amounts, (node) => node.podCount);
  }

  get unschedulable() {
    return this.#part("unschedulable", (n) => new Uint8Array(n), (node) => node.unschedulable);
  }

  label(key) {
    return this.#part(`label ${key}`, (n) => new Array(n), (node) => node.labels.get(key));
  }

  annotation(key) {
    return this.#part(`annotation ${key}`, (n) => new Array(n), (node) => node.annotations.get(key));
  }

  flags(key, test) {
    return this.#table.columns.kept(`flags ${key}`, this.#table, () => new FlagColumn(test));
  }

  scores(key, score) {
    const make = () => new Column((n) => new Float64Array(n), score);
    return this.#selection.of(this.#table.columns.kept(`scores ${key}`, this.#table, make));
  }

  #part(key, make, read) {
    return this.#selection.of(this.#table.columns.part(key, this.#table, () => new Column(make, read)));
  }
}
