// A pod with strings instead of symbols. Each property is made at its first read.

import { tellUndeclared } from "./node.js";
import { served } from "./plugin.js";
import { decode } from "./text.js";

export class Pod {
  #table;
  /** The properties that were made from the record. Equal pods share them, because none of these properties contains names. */
  #memory = {};

  /** `like` is an equal pod, or null. `raw` then has only this pod's own fields, and inherits all other fields from `like`. */
  constructor(raw, table, slot = null, node = null, like = null) {
    this.raw = raw;
    if (like) this.#memory = like.#memory;
    this.slot = slot;
    this.node = node;
    this.#table = table;
  }

  #once(key, make) {
    return (this.#memory[key] ??= make());
  }

  /** The record with the fields that equal pods share. */
  get common() {
    const prototype = Object.getPrototypeOf(this.raw);
    return prototype === Object.prototype || prototype === null ? this.raw : prototype;
  }

  text(symbol) {
    return this.#table.text(symbol);
  }

  get uid() {
    return this.raw.uid;
  }

  get name() {
    return this.raw.name;
  }

  get namespace() {
    return this.text(this.raw.namespace);
  }

  get json() {
    return this.#once("json", () => {
      if (!served().podJson) tellUndeclared("pod-json (pod.json)");
      return this.raw.json ? JSON.parse(decode(this.raw.json)) : null;
    });
  }

  get priority() {
    return this.raw.priority;
  }

  get labels() {
    return this.#once("labels", () => this.#table.pairs(this.raw.labels));
  }

  get images() {
    return this.#once("images", () => this.raw.images.map((name) => this.text(name)));
  }

  get hostPorts() {
    return this.#once("hostPorts", () => this.raw.hostPorts.map((port) => this.#table.hostPort(port)));
  }

  get requests() {
    return this.#once("requests", () => this.#table.amounts(this.raw.requests));
  }

  get placedRequests() {
    return this.#once("placedRequests", () => this.#table.amounts(this.raw.placedRequests));
  }
}
