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
 * plugin.wit must export the interface of each member that the plugin has: `filter`, `score`, `normalize`
 * (normalize-score), `preEnqueue` (pre-enqueue) and so on; `snapshot` and `restore` are `state`, `sortKey` is queue-sort.
 *
 * Everywhere, `nodes()` and `pods()` show the cluster.
 *
 * An exception that a member lets go is a fault: the call traps, the scheduler counts it and starts a fresh instance, and a
 * plugin that keeps faulting is rolled back or quarantined. Answer `fail(...)` to fail one attempt and go on.
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
    /** If the plugin has `pods`, `podPlaced` or `podRemoved`. */
    readonly pods: readonly Pod[];
  }

  /** A set of nodes. */
  interface Flags {
    and(other: Flags): Flags;
    or(other: Flags): Flags;
    not(): Flags;
  }

  /**
   * The nodes that a call is about, as columns of the same length, in the order of their rows. What the plugin's `columns`
   * don't name is 0. Read it in this call only, and do not change it.
   */
  interface Columns {
    readonly length: number;
    readonly nodes: Node[];
    /** Milli-CPU, bytes or units; `pods` is a resource as well. */
    allocatable(resource: string): Float64Array;
    requested(resource: string): Float64Array;
    /** Requests with defaults for containers that request none. */
    readonly nonZeroMilliCpu: Float64Array;
    readonly nonZeroMemory: Float64Array;
    readonly podCount: Float64Array;
    /** 0 or 1. */
    readonly unschedulable: Uint8Array;
    label(key: string): readonly (string | undefined)[];
    annotation(key: string): readonly (string | undefined)[];
    /**
     * The nodes for which the function says true: asked when a node has changed, and not for each pod. It looks at the node
     * alone; `key` stands for whatever else it depends on. What was said for the 16 keys used last is kept.
     */
    flags(key: string, test: (node: Node) => boolean): Flags;
    /** The same with a score for each node: what `scoreColumns` may answer as it is. */
    scores(key: string, score: (node: Node) => number): Float64Array;
  }

  /** A node before or after an event, as `queueingHint` sees it. */
  interface EventNode {
    readonly name: string;
    readonly unschedulable: boolean;
    readonly labels: ReadonlyMap<string, string>;
    readonly taints: readonly Taint[];
    /** By resource, without pods: milli-CPU, bytes, units. What is not there is 0. */
    readonly allocatable: ReadonlyMap<string, number>;
    /** `status.allocatable.pods`. */
    readonly allowedPods: number;
    readonly declaredFeatures: readonly string[];
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
    /** Where the pod is, of those that a node has. */
    readonly node: Node | null;
    /** The whole pending pod, if the plugin's `podJson` asks for it. */
    readonly json: any;
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

  /** Something that a plugin wants done; the operator must grant each sort. */
  type Effect = { readonly tag: string };

  /** `v1/ConfigMap`; the namespace is empty for kinds without one. */
  interface ObjectRef {
    kind: string;
    namespace: string;
    name: string;
  }

  const effects: {
    /** Bind the pod of this cycle to the node chosen for it. */
    bind(): Effect;
    /** A JSON merge patch. A `resourceVersion` in it makes it fail when the object has changed since. */
    patch(kind: string, namespace: string, name: string, body: any, subresource?: string): Effect;
    create(kind: string, namespace: string, body: any): Effect;
    delete(kind: string, namespace: string, name: string): Effect;
    /** Make room by evicting a pod from its node. */
    evict(pod: Pod, message: string): Effect;
    /** Let a pod that waits on Permit go on. */
    allow(uid: string): Effect;
    /** Turn down a pod that waits on Permit. */
    reject(uid: string, reason: string): Effect;
    /** Move pods to activeQ. */
    activate(uids: string[]): Effect;
    /** Set a pod's `nominatedNodeName`; null clears it. */
    nominate(uid: string, node: string | null): Effect;
    /** A Kubernetes event about the pod of this cycle. */
    event(event: { warning?: boolean; reason: string; action: string; note: string }): Effect;
    /**
     * An effect of `preBind`, and of `permit` together with its `wait`. The plugin is asked again when one of the objects has changed,
     * and the attempt fails with the message after `timeoutMs`. The objects may include the pod itself,
     * `{ kind: "v1/Pod", namespace, name }`; the plugin is then asked with the pod as it is after the change. `wait` must be the last
     * effect of the answer.
     */
    wait(objects: ObjectRef[], timeoutMs: number, message: string): Effect;
  };

  /** What happened to an object, as kube-scheduler's `ActionType` spells it. `Update` is every update: the only one that kinds besides pods and nodes have. */
  type Action =
    | "Add"
    | "Delete"
    | "Update"
    | "UpdateNodeAllocatable"
    | "UpdateNodeLabel"
    | "UpdateNodeTaint"
    | "UpdateNodeCondition"
    | "UpdateNodeAnnotation"
    | "UpdateNodeDeclaredFeature"
    | "UpdatePodLabel"
    | "UpdatePodScaleDown"
    | "UpdatePodToleration"
    | "UpdatePodSchedulingGatesEliminated"
    | "UpdatePodGeneratedResourceClaim";

  /** An entry of `eventsToRegister`: `on("Node", "Add", "UpdateNodeLabel")`. Without actions: all of them. */
  function on(resource: string, ...actions: Action[]): ClusterEvent;

  type ClusterEvent = { readonly resource: string };

  type No = Rejection | null | undefined | void;

  /** Why no node passed. */
  interface Failure {
    rejections: { rejection: Rejection; nodes: Node[] }[];
    /** The rejection of all other nodes, when `preFilter` turned them or the pod down. */
    absent: Rejection | null;
    /** Pods that hold a nomination. */
    nominated: { node: Node; pod: Pod }[];
  }

  /** A node on which the pod fits once these pods are gone. */
  interface Preemption {
    node: Node;
    /** The most important first. */
    victims: readonly Pod[];
    /** How many of the evictions violate a disruption budget. */
    violations?: number;
  }

  interface Plugin {
    /** The name that profiles use. It must equal the file's name without `.wasm`. */
    name: string;
    /** For people. */
    version: string;
    columns?: Column[];
    /** Nodes have their pods, and `pods()` all of them. */
    pods?: boolean;
    /**
     * A pod came to a node, or is about to: it is being bound. Told about each pod once, before anything is asked about the
     * cluster that has it.
     */
    podPlaced?(pod: Pod, node: Node): void;
    /**
     * It left. A pod that changed is removed, as it was, and placed. So counts that follow both are up to date at every
     * call.
     */
    podRemoved?(pod: Pod, node: Node): void;
    /** Kinds of objects to keep, whole; the operator must grant each. */
    objects?: { apiVersion: string; kind: string }[];
    /** Pending pods have their whole `json`. */
    podJson?: boolean;
    /** Events that may make a pod schedulable which this plugin rejected; without it, any. See `on`. */
    eventsToRegister?: ClusterEvent[];
    /** The profile's pluginConfig, decoded, or null. Throw a Refusal to refuse it. */
    configure?(args: any): void;
    /** Null if the node can run the pod. */
    filter?(pod: Pod, node: Node): No;
    /** From 0 to 100, or any below 2^53 if there is `normalize`. What stands behind the point is cut off. */
    score?(pod: Pod, node: Node): number;
    /** The scores of all nodes that passed, brought into 0 to 100. */
    normalize?(pod: Pod, scores: number[]): number[];
    /** The same over a typed array: see `kept` and `defaultNormalize`. */
    normalizeColumns?(pod: Pod, scores: Float64Array): number[] | Float64Array;
    /**
     * Instead of `filter` for each: the nodes that pass. `filter` still answers why a node was rejected, and dry runs.
     */
    filterNodes?(pod: Pod, nodes: Node[]): Node[];
    /** Instead of `score` for each. */
    scoreNodes?(pod: Pod, nodes: Node[]): number[];
    /** The same over columns: the nodes that pass, or something true or false for each. */
    filterColumns?(pod: Pod, columns: Columns): Flags | ArrayLike<boolean | number>;
    /** A score for each node. A `Float64Array` costs least. */
    scoreColumns?(pod: Pod, columns: Columns): number[] | Float64Array;

    /** Null lets the pod into activeQ. */
    preEnqueue?(pod: Pod): No;
    /** Smaller comes first. `queuedAt` is milliseconds since 1970. */
    sortKey?(pod: Pod, queuedAt: number): [number, number];
    /** Names: only these nodes are left. SKIP: `filter` is not asked. */
    preFilter?(pod: Pod): string[] | No;
    /** A node to nominate, or the nomination to clear, and effects; a rejection passes on to the next plugin. */
    postFilter?(pod: Pod, failure: Failure): { node?: Node; clear?: boolean; effects?: Effect[] } | No;
    /** SKIP: `score` is not asked. */
    preScore?(pod: Pod, nodes: Node[]): No;
    reserve?(pod: Pod, node: Node): No;
    unreserve?(pod: Pod, node: Node): void;
    /** `wait`: hold the pod for at most so many milliseconds. */
    permit?(pod: Pod, node: Node): { wait?: number; reject?: Rejection; effects?: Effect[] } | No;
    /**
     * Before `permit` is waited for: SKIP if `preBind` will have nothing to do, else whether it may run side by side with the
     * `preBind` of the plugins next to it. Without it, `preBind` always has something to do.
     */
    preBindPreFlight?(pod: Pod, node: Node): boolean | Rejection;
    /** SKIP: nothing to do. */
    preBind?(pod: Pod, node: Node): Effect[] | Rejection;
    /** SKIP: another plugin's pod. */
    bind?(pod: Pod, node: Node): Effect[] | Rejection;
    postBind?(pod: Pod, node: Node): void;
    /**
     * Whether to try the pod again, given what the event changed, before and after: a `Pod` each, an `EventNode`, or the
     * decoded JSON of an object of a kind in `objects`. Null where it does not exist, and for other kinds.
     */
    queueingHint?(pod: Pod, event: { resource: string; actions: string[] }, old: any, changed: any): boolean;
    /** What pods with the same answers share. */
    sign?(pod: Pod): string | null;
    /**
     * What verdicts and scores follow from, so that the scheduler may keep them for pods that differ in their names alone. A
     * number: from such a pod, from the node's own row, and from what the number stands for; `preFilter` and `preScore` from
     * the pod and the number alone. "nothing": every node passes and scores 0; "nothing-anywhere": such pods on nodes make no
     * difference either, and `pods()` may lack them; "nothing-yet": as "nothing" until a pod comes to a node and this did not
     * answer one of these three about pods like it. "cluster", as without this method: from anything.
     */
    reach?(pod: Pod): number | "cluster" | "nothing" | "nothing-anywhere" | "nothing-yet";
    /** For the next version of this plugin. */
    snapshot?(): string;
    /** Throw a Refusal to refuse it. */
    restore?(snapshot: string): void;
  }

  /**
   * For `normalizeColumns`: what the function makes of the scores, worked out anew when they differ from those that came with
   * the key before. `key` stands for whatever else the answer depends on. The 16 keys used last are kept.
   */
  function kept(key: string, scores: Float64Array, normalize: (scores: Float64Array) => ArrayLike<number>): Float64Array;
  /**
   * For `normalizeColumns`: in proportion to the highest score, which becomes 100; with `reverse` it becomes 0, and 0 becomes
   * 100. As kube-scheduler's plugins do it, for scores that are not negative.
   */
  function defaultNormalize(scores: Float64Array, reverse?: boolean): Float64Array;

  /** The node cannot run the pod; evicting pods may help. */
  function reject(reason: string): Rejection;
  /** The node cannot run the pod, whatever is evicted. */
  function rejectUnresolvable(reason: string): Rejection;

  /** Not until something outside the scheduler happens; that event skips the pod's backoff. */
  function pending(reason: string): Rejection;
  /**
   * Something broke: the attempt fails with this reason and is repeated after a backoff. It counts in
   * `berth_plugin_errors_total` and is not a fault, as an exception would be.
   */
  function fail(reason: string): Rejection;
  /** `preFilter`, `preScore`, `preBindPreFlight`, `preBind` and `bind`: nothing to say about this pod. */
  const SKIP: Rejection;

  /**
   * In `postFilter`: what the profile's other Filter plugins would say about nodes without some of their pods. Null: they
   * pass.
   */
  function dryRun(cases: { node: Node; pods: readonly Pod[] }[]): (Rejection | null)[];

  /**
   * In `postFilter`: what is left of these after the HTTP extenders with a `preemptVerb`, which leave nodes out and may name
   * other pods of a node.
   */
  function askExtenders(preemptions: Preemption[]): Preemption[];

  /** All nodes of the cluster, with the plugin's `columns`. */
  function nodes(): Node[];
  /** All pods on nodes, those that are being bound included, if the plugin has `pods`, `podPlaced` or `podRemoved`. */
  function pods(): Pod[];

  /** Thrown in `configure` and `restore`: what was given is refused for this reason. */
  class Refusal extends Error {}

  /** Writes to the scheduler's log. */
  function log(message: string, level?: "debug" | "info" | "warn" | "error"): void;
  /** Milliseconds since 1970, as of the start of this cycle. */
  function now(): number;
  /** Adds to the counter `berth_plugin_custom_total{name}`. */
  function count(name: string, amount?: number): void;
  /** In bytes; 0 if no node has the image. */
  function imageSize(name: string): number;
  /**
   * The objects of a kind that the plugin's `objects` names, by `namespace/name`; `/name` for kinds without namespaces. Each is
   * decoded when it is first looked at, and not to be changed.
   */
  function objects(apiVersion: string, kind: string): ReadonlyMap<string, any>;
}
