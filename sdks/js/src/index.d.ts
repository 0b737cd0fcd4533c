/**
 * Write a Berth plugin in JavaScript or TypeScript: plugin.js or plugin.ts exports it by default.
 *
 *     import { reject } from "berth";
 *
 *     export default {
 *       name: "Even",
 *       version: "0.1.0",
 *       columns: ["pod-count"],
 *       filter: (pod, node) => (node.podCount % 2 ? reject("node(s) had an odd number of pods") : null),
 *       score: (pod, node) => 100 - Math.min(100, node.podCount),
 *     };
 *
 * plugin.wit must export an interface for each of `filter`, `score` and `normalize` (normalize-score).
 *
 * Amounts are numbers: milli-CPU and bytes stay below 2^53. Clocks, files, sockets and randomness are not there.
 */
declare module "berth" {
  /** A part of the node table. `{ label }` is instead of "labels": this label only. */
  type Column =
    | "name"
    | "unschedulable"
    | "labels"
    | { label: string }
    | "taints"
    | "allocatable"
    | "requested"
    | "non-zero-requested"
    | "pod-count"
    | "images"
    | "host-ports"
    | "declared-features"
    | { annotation: string };

  interface Taint {
    key: string;
    value: string;
    effect: "no-schedule" | "prefer-no-schedule" | "no-execute";
  }

  interface HostPort {
    /** `0.0.0.0` stands for every address. */
    address: string;
    protocol: string;
    port: number;
  }

  /** A node; what the plugin's `columns` don't name stays empty. */
  interface Node {
    readonly row: number;
    readonly name: string;
    readonly unschedulable: boolean;
    readonly labels: ReadonlyMap<string, string>;
    readonly taints: readonly Taint[];
    /** By resource: milli-CPU, bytes, units. What is not there is 0. */
    readonly allocatable: ReadonlyMap<string, number>;
    readonly requested: ReadonlyMap<string, number>;
    /** Requests with defaults for containers that request none. */
    readonly nonZeroMilliCpu: number;
    readonly nonZeroMemory: number;
    readonly podCount: number;
    readonly images: readonly string[];
    readonly hostPorts: readonly HostPort[];
    readonly declaredFeatures: readonly string[];
    readonly annotations: ReadonlyMap<string, string>;
    /** If the plugin's `pods` asks for them. */
    readonly pods: readonly Pod[];
  }

  interface Pod {
    readonly uid: string;
    readonly name: string;
    readonly namespace: string;
    readonly priority: number;
    readonly labels: ReadonlyMap<string, string>;
    readonly images: readonly string[];
    readonly hostPorts: readonly HostPort[];
    /** What the pod asks for, by resource: milli-CPU, bytes, units. What is not there is 0. */
    readonly requests: ReadonlyMap<string, number>;
    /** What the usage of its node grows by: a resize under way counts. */
    readonly placedRequests: ReadonlyMap<string, number>;
    /** `record pod` of wit/types.wit, for what has no property here. */
    readonly raw: any;
    /** The string behind a symbol of `raw`. */
    text(symbol: number): string;
  }

  class Rejection {
    private constructor();
    readonly code: string;
    readonly reason: string;
  }

  interface Plugin {
    /** The name that profiles use. It must equal the file's name without `.wasm`. */
    name: string;
    /** For people. */
    version: string;
    columns?: Column[];
    /** Nodes have their pods. */
    pods?: boolean;
    /** Kinds of objects to keep, whole; the operator must grant each. */
    objects?: { apiVersion: string; kind: string }[];
    /** The profile's pluginConfig, decoded, or null. Throw a Refusal to refuse it. */
    configure?(args: any): void;
    /** Null if the node can run the pod. */
    filter?(pod: Pod, node: Node): Rejection | null | undefined;
    /** An integer from 0 to 100, or any if there is `normalize`. */
    score?(pod: Pod, node: Node): number;
    /** The scores of all nodes that passed, brought into 0 to 100. */
    normalize?(pod: Pod, scores: number[]): number[];
    /**
     * Instead of `filter` for each: the nodes that pass. `filter` still answers why a node was rejected, and dry runs.
     */
    filterNodes?(pod: Pod, nodes: Node[]): Node[];
    /** Instead of `score` for each. */
    scoreNodes?(pod: Pod, nodes: Node[]): number[];
  }

  /** The node cannot run the pod; evicting pods may help. */
  function reject(reason: string): Rejection;
  /** The node cannot run the pod, whatever is evicted. */
  function rejectUnresolvable(reason: string): Rejection;

  /** Thrown in `configure`: the arguments are refused for this reason. */
  class Refusal extends Error {}

  /** Writes to the scheduler's log. */
  function log(message: string, level?: "debug" | "info" | "warn" | "error"): void;
  /** Milliseconds since 1970, as of the start of this cycle. */
  function now(): number;
  /** Adds to the counter `berth_plugin_custom_total{name}`. */
  function count(name: string, amount?: number): void;
  /** In bytes; 0 if no node has the image. */
  function imageSize(name: string): number;
  /** The objects of a kind that `objects` names, as JSON by `namespace/name`. */
  function objects(apiVersion: string, kind: string): ReadonlyMap<string, Uint8Array>;
}
