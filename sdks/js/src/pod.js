// A pod, with strings instead of symbols, each made when it is first asked for.

import { decode } from "./text.js";

export class Pod {
  #table;
  #memory = {};

  constructor(raw, table, slot = null, node = null) {
    this.raw = raw;
    this.slot = slot;
    this.node = node;
    this.#table = table;
  }

  #once(key, make) {
    return (this.#memory[key] ??= make());
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
    return this.#once("json", () => (this.raw.json ? JSON.parse(decode(this.raw.json)) : null));
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
