// A pod, with strings instead of symbols, each made when it is first asked for.

import { tellUndeclared } from "./node.js";
import { served } from "./plugin.js";
import { decode } from "./text.js";

export class Pod {
  #table;
  /** What was worked out of the record; pods that are alike share it, since none of it is about names. */
  #memory = {};

  /** `like` is a pod that this one is like: its `raw` has what is its own, and the rest from that. */
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

  /** The record that pods like this one have their values from. */
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
