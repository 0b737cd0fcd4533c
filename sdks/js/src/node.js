// A node of the replica. It has the properties that the plugin's columns provide. The first read of another property is logged,
// and the value is empty.

import { log } from "berth:scheduler/host@0.2.0";

import { followsPods, served } from "./plugin.js";

/** For each property, the column that provides it, and a function that makes its empty value. */
const PROPERTIES = {
  name: ["name", () => ""],
  unschedulable: ["unschedulable", () => false],
  labels: ["labels", () => new Map()],
  taints: ["taints", () => []],
  allocatable: ["allocatable", () => new Map()],
  requested: ["requested", () => new Map()],
  nonZeroMilliCpu: ["non-zero-requested", () => 0],
  nonZeroMemory: ["non-zero-requested", () => 0],
  podCount: ["pod-count", () => 0],
  images: ["images", () => []],
  hostPorts: ["host-ports", () => []],
  declaredFeatures: ["declared-features", () => []],
  annotations: ["annotations", () => new Map()],
  pods: ["pods", () => []],
};

const told = new Set();

/**
 * Logs once that the plugin reads a field which the manifest does not request. The scheduler recognizes the log line by its first
 * words.
 */
export function tellUndeclared(what) {
  if (told.has(what)) return;
  told.add(what);
  log("warn", `undeclared read: ${what}`);
}

/** The columns of the manifest, with the names in `PROPERTIES`. The value is the list of requested keys, or null. */
function declaredColumns() {
  const columns = new Map();
  for (const column of served().columns ?? []) {
    if (typeof column === "string") columns.set(column, null);
    else if ("annotation" in column) columns.set("annotations", [...(columns.get("annotations") ?? []), column.annotation]);
    else if (columns.get("labels") !== null) columns.set("labels", [...(columns.get("labels") ?? []), column.label]);
  }
  if (followsPods()) columns.set("pods", null);
  return columns;
}

/** The labels or annotations that the manifest requests by key. */
class Chosen extends Map {
  get(key) {
    const value = super.get(key);
    if (value === undefined && !this.named.includes(key)) tellUndeclared(`${this.what} ${key}`);
    return value;
  }
}

/** The properties that the columns provide, with functions that make their empty values; null before the first node. */
let declared = null;

/** The keys of `labels` and of `annotations` that the manifest requests, if it requests single keys. */
const chosenKeys = {};

function declare() {
  const columns = declaredColumns();
  declared = [];
  for (const [property, [column, empty]] of Object.entries(PROPERTIES)) {
    if (columns.has(column)) {
      declared.push([property, empty]);
      if (columns.get(column)) chosenKeys[property] = columns.get(column);
      continue;
    }
    const what = column === "pods" ? "pods" : `column ${column}`;
    Object.defineProperty(Node.prototype, property, {
      get() {
        tellUndeclared(`${what} (node.${property})`);
        return empty();
      },
    });
  }
}

/** The number of nodes that log undeclared reads of keys. Tests have fewer nodes, and the logging does not slow large clusters. */
const TELLING = 64;

/** Returns a node's labels or annotations for the plugin. They log undeclared reads on the first nodes. */
export function chosen(property, pairs, row) {
  const keys = chosenKeys[property];
  return keys && row < TELLING ? Object.assign(new Chosen(pairs), { named: keys, what: property === "labels" ? "label" : "annotation" }) : pairs;
}

export class Node {
  constructor(row) {
    if (!declared) declare();
    this.row = row;
    for (const [property, empty] of declared) this[property] = empty();
  }

  #has(property) {
    return Object.hasOwn(this, property);
  }

  /** Returns a copy of the node, without some of the node's pods and with additional pods. */
  altered(minus, plus) {
    if (minus.length === 0 && plus.length === 0) return this;
    const node = Object.assign(new Node(this.row), this);
    if (this.#has("pods")) {
      const gone = new Set(minus.map(({ uid }) => uid));
      node.pods = [...this.pods.filter(({ uid }) => !gone.has(uid)), ...plus];
    }
    if (this.#has("requested")) node.requested = new Map(this.requested);
    if (this.#has("hostPorts")) node.hostPorts = [...this.hostPorts];
    for (const pod of minus) node.#count(pod, -1);
    for (const pod of plus) node.#count(pod, 1);
    return node;
  }

  #count(pod, sign) {
    if (this.#has("podCount")) this.podCount += sign;
    if (this.#has("nonZeroMilliCpu")) {
      this.nonZeroMilliCpu += sign * pod.raw.placedNonZero.milliCpu;
      this.nonZeroMemory += sign * pod.raw.placedNonZero.memory;
    }
    if (this.#has("requested")) {
      for (const [name, amount] of pod.placedRequests) {
        this.requested.set(name, (this.requested.get(name) ?? 0) + sign * amount);
      }
    }
    if (this.#has("hostPorts")) for (const port of pod.hostPorts) this.#countPort(port, sign);
  }

  #countPort(port, sign) {
    const isSame = (used) => used.port === port.port && used.protocol === port.protocol && used.address === port.address;
    const used = this.hostPorts.findIndex(isSame);
    if (sign > 0) this.hostPorts.push(port);
    else if (used >= 0) this.hostPorts.splice(used, 1);
  }
}
