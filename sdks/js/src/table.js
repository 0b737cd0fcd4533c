// The replica of the node table, with strings instead of symbols. `sync.apply` updates it.

import { ColumnStore } from "./columns.js";
import { Node, chosen } from "./node.js";
import { Objects } from "./objects.js";
import { Pod } from "./pod.js";

// The symbols 0 to 10, which are the same in every table.
const WELL_KNOWN = [
  "",
  "cpu",
  "memory",
  "ephemeral-storage",
  "pods",
  "TCP",
  "0.0.0.0",
  "kubernetes.io/hostname",
  "topology.kubernetes.io/zone",
  "topology.kubernetes.io/region",
  "node.kubernetes.io/unschedulable",
];

export class Table {
  texts = [...WELL_KNOWN];

  constructor() {
    this.clear();
  }

  /** Removes all data except the symbols. */
  clear() {
    /** The node of each row; undefined for a row without a node. */
    this.nodes = [];
    this.nNodes = 0;
    this.columns = new ColumnStore();
    this.imageSizes = new Map();
    this.objects = new Map();
    this.taintSets = new Map();
    /** The pod of each slot. */
    this.pods = new Map();
  }

  text(symbol) {
    return this.texts[symbol] ?? "";
  }

  /**
   * Returns the node of a row. It returns a node without data if the plugin has no columns, because the scheduler does not send
   * such a plugin the list of nodes.
   */
  node(row) {
    return this.nodes[row] ?? new Node(row);
  }

  hostPort({ address, protocol, port }) {
    return { address: this.text(address), protocol: this.text(protocol), port };
  }

  pairs(items) {
    const map = new Map();
    for (const [key, value] of items) map.set(this.text(key), this.text(value));
    return map;
  }

  taints(items) {
    return items.map(({ key, value, effect }) => ({ key: this.text(key), value: this.text(value), effect }));
  }

  /** Converts `record resources` to amounts by name. A resource that is absent has the amount 0. */
  amounts({ milliCpu, memory, ephemeralStorage, scalars }) {
    const named = scalars.map(([name, amount]) => [this.text(name), amount]);
    const all = [["cpu", milliCpu], ["memory", memory], ["ephemeral-storage", ephemeralStorage], ...named];
    return new Map(all.filter(([, amount]) => amount !== 0));
  }

  /** Converts `record node` for `queueingHint`. */
  eventNode({ name, unschedulable, labels, taints, allocatable, allowedPods, declaredFeatures }) {
    return {
      name: this.text(name),
      unschedulable,
      labels: this.pairs(labels),
      taints: this.taints(taints),
      allocatable: this.amounts(allocatable),
      allowedPods,
      declaredFeatures: Array.from(declaredFeatures, (feature) => this.text(feature)),
    };
  }

  /** Applies a delta to the replica, and calls podRemoved and podPlaced. */
  apply(delta, plugin) {
    // Pods are removed before the symbols change, because a symbol of a removed pod may get another string.
    const touched = new Set();
    for (const slot of delta.full ? [...this.pods.keys()] : delta.podsRemoved) this.removePod(slot, plugin, touched);
    for (const [symbol, text] of delta.symbols) {
      // The symbol may have stood for another string, which no object of the cluster contains any more.
      this.imageSizes.delete(this.text(symbol));
      this.texts[symbol] = text;
    }
    if (delta.full) this.clear();
    for (const row of delta.removed) this.removeNode(row);
    for (const row of delta.added) this.addNode(row);
    for (const [id, taints] of delta.taintSets) this.taintSets.set(id, this.taints(taints));
    for (const { rows, data } of delta.columns) this.applyColumn(rows, data.tag, data.val);
    for (const { slot, node, pod } of delta.podsPlaced) this.placePod(slot, this.nodes[node], pod, plugin);
    this.refreshColumns(delta, touched);
    for (const [image, size] of delta.imageSizes) this.imageSizes.set(this.text(image), size);
    for (const { apiVersion, kind, namespace, name, json } of delta.objects) {
      const key = `${apiVersion}/${kind}`;
      if (!this.objects.has(key)) this.objects.set(key, new Objects());
      this.objects.get(key).apply(`${namespace}/${name}`, json);
    }
  }

  removeNode(row) {
    if (this.nodes[row]) this.nNodes--;
    this.nodes[row] = undefined;
  }

  addNode(row) {
    if (this.nodes[row]) return;
    this.nNodes++;
    this.nodes[row] = new Node(row);
  }

  refreshColumns({ added, removed, columns, podsPlaced }, touched) {
    if (added.length + removed.length > 0) this.columns.forgetSelection();
    if (this.columns.isEmpty) return;
    for (const row of added) touched.add(row);
    for (const { rows } of columns) for (const row of rows) touched.add(row);
    for (const { node } of podsPlaced) touched.add(node);
    this.columns.refresh(this, touched);
  }

  removePod(slot, plugin, touched) {
    const pod = this.pods.get(slot);
    if (!pod) return;
    touched.add(pod.node.row);
    this.pods.delete(slot);
    const { pods } = pod.node;
    pods.splice(pods.indexOf(pod), 1);
    plugin.podRemoved?.(pod, pod.node);
  }

  placePod(slot, node, raw, plugin, like = null) {
    if (!node) return;
    const pod = new Pod(raw, this, slot, node, like);
    this.pods.set(slot, pod);
    node.pods.push(pod);
    plugin.podPlaced?.(pod, node);
  }

  /** Places pods on nodes. Each pod equals a placed pod, except for the fields in `record alike-pod`. */
  placeAlike(pods, plugin) {
    const touched = new Set();
    for (const { slot, node, like, ...own } of pods) {
      const other = this.pods.get(like);
      this.placePod(slot, this.nodes[node], Object.setPrototypeOf(own, other.common), plugin, other);
      touched.add(node);
    }
    if (!this.columns.isEmpty) this.columns.refresh(this, touched);
  }

  /** Sets new values of the usage of pods on nodes. */
  setUsage(usage) {
    const touched = new Set();
    for (const { node: row, requested, nonZeroRequested, podCount } of usage) {
      const node = this.nodes[row];
      if (requested) node.requested = this.amounts(requested);
      if (nonZeroRequested) {
        node.nonZeroMilliCpu = nonZeroRequested.milliCpu;
        node.nonZeroMemory = nonZeroRequested.memory;
      }
      if (typeof podCount === "number") node.podCount = podCount;
      touched.add(row);
    }
    if (!this.columns.isEmpty) this.columns.refresh(this, touched);
  }

  /** Skips columns that only a newer scheduler knows. The SDK never requests such columns. */
  applyColumn(rows, tag, data) {
    const text = (symbol) => this.text(symbol);
    switch (tag) {
      case "name":
        return this.set(rows, "name", (i) => this.text(data[i]));
      case "unschedulable":
        return this.set(rows, "unschedulable", (i) => data[i]);
      case "labels":
        return this.setLists(rows, "labels", data, (items, row) => chosen("labels", this.pairs(items), row));
      case "taints":
        return this.set(rows, "taints", (i) => this.taintSets.get(data[i]) ?? []);
      case "allocatable":
      case "requested":
        return this.setResources(rows, tag, data);
      case "non-zero-requested":
        this.set(rows, "nonZeroMilliCpu", (i) => data.milliCpu[i]);
        return this.set(rows, "nonZeroMemory", (i) => data.memory[i]);
      case "pod-count":
        return this.set(rows, "podCount", (i) => data[i]);
      case "images":
        return this.setLists(rows, "images", data, (items) => items.map(text));
      case "host-ports":
        return this.setLists(rows, "hostPorts", data, (items) => items.map((port) => this.hostPort(port)));
      case "annotations":
        return this.set(rows, "annotations", (i) => chosen("annotations", new Map(data[i]), rows[i]));
      case "declared-features":
        return this.setLists(rows, "declaredFeatures", data, (items) => items.map(text));
    }
  }

  set(rows, property, value) {
    for (let i = 0; i < rows.length; i++) this.nodes[rows[i]][property] = value(i);
  }

  setLists(rows, property, { ends, items }, decode) {
    let start = 0;
    for (let i = 0; i < rows.length; i++) {
      this.nodes[rows[i]][property] = decode(items.slice(start, ends[i]), rows[i]);
      start = ends[i];
    }
  }

  setResources(rows, property, { names, values }) {
    const texts = Array.from(names, (name) => this.text(name));
    this.set(rows, property, (i) => {
      const amounts = new Map();
      for (let c = 0; c < texts.length; c++) if (values[c][i] !== 0) amounts.set(texts[c], values[c][i]);
      return amounts;
    });
  }
}

export const table = new Table();
