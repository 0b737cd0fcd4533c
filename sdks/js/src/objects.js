// The objects of one kind. Each object is decoded at its first read.

import { decode } from "./text.js";

/** An object: JSON before the first read, the decoded value after it. */
class Entry {
  #json;
  #value;

  constructor(json) {
    this.#json = json;
  }

  get value() {
    if (this.#json !== null) {
      this.#value = JSON.parse(decode(this.#json));
      this.#json = null;
    }
    return this.#value;
  }
}

/** A `ReadonlyMap` from `namespace/name` to the object. */
export class Objects {
  #entries = new Map();

  /** Sets or removes an object. `json` is null for a deleted object. */
  apply(key, json) {
    if (json === null) this.#entries.delete(key);
    else this.#entries.set(key, new Entry(json));
  }

  get size() {
    return this.#entries.size;
  }

  has(key) {
    return this.#entries.has(key);
  }

  get(key) {
    return this.#entries.get(key)?.value;
  }

  keys() {
    return this.#entries.keys();
  }

  *values() {
    for (const entry of this.#entries.values()) yield entry.value;
  }

  *entries() {
    for (const [key, entry] of this.#entries) yield [key, entry.value];
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  forEach(visit) {
    for (const [key, value] of this) visit(value, key, this);
  }
}
