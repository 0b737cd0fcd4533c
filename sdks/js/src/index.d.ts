/**
 * The SDK for Berth plugins in JavaScript and TypeScript. The default export of plugin.js or plugin.ts is the plugin:
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
 * plugin.wit must export the interface of each member: pre-enqueue, queue-sort (sortKey), pre-filter, filter, post-filter,
 * pre-score, score, normalize-score (normalize, normalizeColumns), reserve, permit, pre-bind-pre-flight, pre-bind, bind,
 * post-bind, queueing-hint, sign, reuse (reach), state (snapshot, restore), explain.
 *
 * Every member may call `nodes()` and `pods()` to read the cluster.
 *
 * An uncaught exception is a fault: the call traps, the scheduler counts the fault and starts a fresh instance, and a plugin
 * that keeps faulting is rolled back or quarantined. Return `fail(...)` to fail one attempt without a fault.
 *
 * Amounts are numbers: milli-CPU and bytes are below 2^53. A plugin has no clock, no files, no sockets and no randomness.
 */
declare module "berth" {
  /** A part of the node table. `{ label }` is the column of one label, "labels" is the column of all labels. */
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
    /** The address 0.0.0.0 stands for all addresses. */
    address: string;
    protocol: string;
    port: number;
  }

  /** A node. A field is empty if the plugin's `columns` do not request it. */
  interface Node {
    readonly row: number;
    readonly name: string;
    readonly unschedulable: boolean;
    readonly labels: ReadonlyMap<string, string>;
    readonly taints: readonly Taint[];
    /** The amount of each resource: milli-CPU, bytes or units. A resource that is absent has the amount 0. */
    readonly allocatable: ReadonlyMap<string, number>;
    readonly requested: ReadonlyMap<string, number>;
    /** The sums of the pods' requests. A container without a request counts with a default. */
    readonly nonZeroMilliCpu: number;
    readonly nonZeroMemory: number;
    readonly podCount: number;
    readonly images: readonly string[];
    readonly hostPorts: readonly HostPort[];
    readonly declaredFeatures: readonly string[];
    readonly annotations: ReadonlyMap<string, string>;
    /** The pods on the node, if the plugin has `pods`, `podPlaced` or `podRemoved`. */
    readonly pods: readonly Pod[];
  }

  /** A set of nodes. */
  interface Flags {
    and(other: Flags): Flags;
    or(other: Flags): Flags;
    not(): Flags;
  }

  /**
   * The nodes of a call as columns of the same length, in the order of their rows. A column is 0 or undefined if the plugin's
   * `columns` do not request it. Read the columns in this call only, and do not change them.
   */
  interface Columns {
    readonly length: number;
    readonly nodes: Node[];
    /** The amounts of a resource: milli-CPU, bytes or units. `pods` is also a resource. */
    allocatable(resource: string): Float64Array;
    requested(resource: string): Float64Array;
    /** The sums of the pods' requests. A container without a request counts with a default. */
    readonly nonZeroMilliCpu: Float64Array;
    readonly nonZeroMemory: Float64Array;
    readonly podCount: Float64Array;
    /** 0 or 1. */
    readonly unschedulable: Uint8Array;
    label(key: string): readonly (string | undefined)[];
    annotation(key: string): readonly (string | undefined)[];
    /**
     * The nodes for which the function returns true. The function is called when a node has changed, and not for each pod. It
     * must depend only on the node and on the data that `key` stands for. The results for the 16 most recently used keys are
     * kept.
     */
    flags(key: string, test: (node: Node) => boolean): Flags;
    /** The score of each node. The function is called as for `flags`. `scoreColumns` may return the result unchanged. */
    scores(key: string, score: (node: Node) => number): Float64Array;
  }

  /**
   * A node before or after an event, in a call of `queueingHint`. It has no annotations: find the node by its name in `nodes()`,
   * where it already has the values after the event.
   */
  interface EventNode {
    readonly name: string;
    readonly unschedulable: boolean;
    readonly labels: ReadonlyMap<string, string>;
    readonly taints: readonly Taint[];
    /** The amount of each resource except pods: milli-CPU, bytes or units. A resource that is absent has the amount 0. */
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
    /** The images of init containers, containers and image volumes. An image without a tag and a digest has the tag `latest`. */
    readonly images: readonly string[];
    readonly hostPorts: readonly HostPort[];
    /** The pod's request of each resource: milli-CPU, bytes or units. A resource that is absent has the amount 0. */
    readonly requests: ReadonlyMap<string, number>;
    /** The amounts that the pod adds to the usage of its node, including a resize that is in progress. */
    readonly placedRequests: ReadonlyMap<string, number>;
    /** The node of the pod, or null for a pending pod. */
    readonly node: Node | null;
    /** The whole pending pod, if the plugin has `podJson`. */
    readonly json: any;
    /** The `record pod` of wit/types.wit. It has fields that have no property here. */
    readonly raw: any;
    /** The string of a symbol in `raw`. */
    text(symbol: number): string;
  }

  /** Rejects the pod, or a node for the pod. */
  class Rejection {
    private constructor();
    readonly code: string;
    readonly reason: string;
  }

  /** An action that a plugin asks the scheduler to carry out. The operator must grant each kind of effect. */
  type Effect = { readonly tag: string };

  /** The name of an object. The kind is written `v1/ConfigMap`. The namespace is empty for kinds without namespaces. */
  interface ObjectRef {
    kind: string;
    namespace: string;
    name: string;
  }

  const effects: {
    /** Binds the pod of this cycle to the node chosen for it. */
    bind(): Effect;
    /**
     * Applies a JSON merge patch to an object. If the patch contains a `resourceVersion`, it fails if the object has changed
     * since that version.
     */
    patch(kind: string, namespace: string, name: string, body: any, subresource?: string): Effect;
    /**
     * Applies a strategic merge patch. It can change or remove single elements of a list. The API server accepts it only for
     * kinds that are built into Kubernetes.
     */
    strategicPatch(kind: string, namespace: string, name: string, body: any, subresource?: string): Effect;
    /** Creates an object from JSON. */
    create(kind: string, namespace: string, body: any): Effect;
    /** Deletes an object. */
    delete(kind: string, namespace: string, name: string): Effect;
    /** Evicts a pod from its node. */
    evict(pod: Pod, message: string): Effect;
    /** Allows a pod that waits at Permit to continue. */
    allow(uid: string): Effect;
    /** Rejects a pod that waits at Permit. */
    reject(uid: string, reason: string): Effect;
    /** Moves pods to activeQ. */
    activate(uids: string[]): Effect;
    /** Sets a pod's `nominatedNodeName`; null clears it. */
    nominate(uid: string, node: string | null): Effect;
    /** Writes a Kubernetes event about the pod of this cycle. */
    event(event: { warning?: boolean; reason: string; action: string; note: string }): Effect;
    /**
     * Waits until one of the objects changes, then the scheduler calls the member again. The attempt fails with the message
     * after `timeoutMs`. `preBind` may return this effect. `permit` may return it together with its own `wait`. The
     * objects may include the pod itself, `{ kind: "v1/Pod", namespace, name }`; the member then gets the changed pod. The
     * plugin's `objects` must name all other kinds. `wait` must be the last effect in the list.
     */
    wait(objects: ObjectRef[], timeoutMs: number, message: string): Effect;
  };

  /**
   * A change of an object, with the names of kube-scheduler's `ActionType`. `Update` is all update actions. It is the only
   * update action for kinds other than pods and nodes.
   */
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

  /** Returns an entry of `eventsToRegister`: `on("Node", "Add", "UpdateNodeLabel")`. Without actions, it has all actions. */
  function on(resource: string, ...actions: Action[]): ClusterEvent;

  type ClusterEvent = { readonly resource: string };

  type No = Rejection | null | undefined | void;

  /** The reasons why no node passed. */
  interface Failure {
    rejections: { rejection: Rejection; nodes: Node[] }[];
    /** The rejection of all other nodes, if `preFilter` rejected them or the pod. */
    absent: Rejection | null;
    /** The pods that are nominated to nodes. */
    nominated: { node: Node; pod: Pod }[];
  }

  /** A node on which the pod fits after the eviction of the victims. */
  interface Preemption {
    node: Node;
    /** The pods to evict, the most important pod first. */
    victims: readonly Pod[];
    /** The number of evictions that violate a disruption budget. */
    violations?: number;
  }

  interface Plugin {
    /** The plugin's name in profiles. It must equal the file's name without `.wasm`. */
    name: string;
    /** The version is shown to users. The scheduler does not compare versions. */
    version: string;
    /** The parts of the node table that the plugin reads. */
    columns?: Column[];
    /** Requests the pods on nodes: `node.pods` and `pods()`. */
    pods?: boolean;
    /**
     * It is called once for each pod that is on the node or is being bound to it. It is called before any other member sees the
     * cluster with this pod.
     */
    podPlaced?(pod: Pod, node: Node): void;
    /**
     * It is called for each pod that left its node. If a pod changed, podRemoved gets the old pod, then podPlaced gets the new
     * one. Counts that both members maintain are up to date at every other call.
     */
    podRemoved?(pod: Pod, node: Node): void;
    /** The kinds of which the plugin reads the whole objects. The operator must grant each kind. */
    objects?: { apiVersion: string; kind: string }[];
    /** Requests the whole JSON of pending pods. */
    podJson?: boolean;
    /**
     * The events that may make a pod schedulable after this plugin rejected it. A plugin without this member stands for any
     * event. See `on`.
     */
    eventsToRegister?: ClusterEvent[];
    /**
     * Gets the args in the profile's pluginConfig, decoded, or null if the profile has none. A thrown Refusal refuses the args.
     */
    configure?(args: any): void;
    /** Returns null if the node can run the pod. */
    filter?(pod: Pod, node: Node): No;
    /** Returns 0 to 100, or any number below 2^53 if the plugin has `normalize`. A fraction is cut off. */
    score?(pod: Pod, node: Node): number;
    /** Returns the scores of all nodes that passed, changed to the range from 0 to 100. */
    normalize?(pod: Pod, scores: number[]): number[];
    /** Replaces `normalize`. The scores are a typed array. See `kept` and `defaultNormalize`. */
    normalizeColumns?(pod: Pod, scores: Float64Array): number[] | Float64Array;
    /**
     * Filters all nodes in one call: returns the nodes that pass. `filter` is still called to explain why a node was rejected,
     * and in dry runs.
     */
    filterNodes?(pod: Pod, nodes: Node[]): Node[];
    /** Scores all nodes in one call: returns one score for each node, in the order of the nodes. */
    scoreNodes?(pod: Pod, nodes: Node[]): number[];
    /** Filters all nodes in one call: returns the nodes that pass, or a true or false value for each node. */
    filterColumns?(pod: Pod, columns: Columns): Flags | ArrayLike<boolean | number>;
    /** Scores all nodes in one call: returns one score for each node. A `Float64Array` is fastest. */
    scoreColumns?(pod: Pod, columns: Columns): number[] | Float64Array;

    /** Returns null if the pod may enter activeQ. */
    preEnqueue?(pod: Pod): No;
    /** Returns the pod's sort key. The pod with the smallest key comes first. `queuedAt` is in milliseconds since 1970. */
    sortKey?(pod: Pod, queuedAt: number): [number, number];
    /**
     * It is called once for the pod, before `filter`. It returns the names of the only nodes to consider, or null for all
     * nodes. After SKIP, `filter` is not called.
     */
    preFilter?(pod: Pod): string[] | No;
    /**
     * It is called if no node passed. It returns a node to nominate, or `clear` to remove the pod's nomination, and effects. If
     * it returns a rejection, the next plugin is called. See `dryRun` and `askExtenders`.
     */
    postFilter?(pod: Pod, failure: Failure): { node?: Node; clear?: boolean; effects?: Effect[] } | No;
    /** It is called once for the pod, before `score`. After SKIP, `score` is not called. */
    preScore?(pod: Pod, nodes: Node[]): No;
    /** Returns null if the node still has the resources for the pod. */
    reserve?(pod: Pod, node: Node): No;
    /**
     * Releases the reservation. It must do nothing if there is no reservation. It may return effects, for example to remove
     * what `preBind` wrote.
     */
    unreserve?(pod: Pod, node: Node): Effect[] | void;
    /** Returns null if the pod may be bound. `wait` is the maximum time in milliseconds for which Permit holds the pod. */
    permit?(pod: Pod, node: Node): { wait?: number; reject?: Rejection; effects?: Effect[] } | No;
    /**
     * Says whether `preBind` will have something to do. It is asked before the wait at Permit. It returns SKIP if `preBind` has
     * nothing to do. Otherwise it says whether `preBind` may run in parallel with the `preBind` of the plugins next to this one.
     * A plugin that has `preBind` without this member always counts as having something to do.
     */
    preBindPreFlight?(pod: Pod, node: Node): boolean | Rejection;
    /** Returns effects, or SKIP if it has nothing to do. */
    preBind?(pod: Pod, node: Node): Effect[] | Rejection;
    /** Returns effects, or SKIP to leave the pod to the next Bind plugin. */
    bind?(pod: Pod, node: Node): Effect[] | Rejection;
    /** It is called after the pod was bound. */
    postBind?(pod: Pod, node: Node): void;
    /**
     * Returns true to retry the pod that the plugin rejected. `old` and `changed` are the object of the event, before and after
     * the event: a `Pod`, an `EventNode`, or the decoded JSON of an object of a kind in `objects`. A version that does not exist
     * is null. Both are null for other kinds.
     */
    queueingHint?(pod: Pod, event: { resource: string; actions: string[] }, old: any, changed: any): boolean;
    /** Returns the same string for all pods that get the same answers, or null. */
    sign?(pod: Pod): string | null;
    /**
     * Says in the plugin's own words why it answers about the pod as it does. It is called only if a user asks, as with
     * `berth explain`. It returns one line about the node, or about the pod as a whole if the node is null. An empty text says
     * nothing. The text is cut after 1024 bytes.
     */
    explain?(pod: Pod, node: Node | null): string;
    /**
     * Says on which data the verdicts and scores for the pod depend, so that the scheduler may keep answers for pods that differ
     * only in their names.
     *
     * - "cluster": the answers may depend on any data. A plugin without this member always counts as this.
     * - A number: the answers depend only on the pod without its names, on the node's own columns, and on the data that the
     *   number stands for. The answers of `preFilter`, `preScore` and `bind` depend only on the pod and the number.
     * - "nothing": the plugin has nothing to do for the pod: every node passes and scores 0.
     * - "nothing-anywhere": "nothing" for a pod that changes no answer when it is on a node either: `pods()` may lack the pod.
     * - "nothing-yet": "nothing" until a pod is placed on a node or nominated to a node, and `reach` has returned none of these
     *   three values for such a pod.
     */
    reach?(pod: Pod): number | "cluster" | "nothing" | "nothing-anywhere" | "nothing-yet";
    /** Returns the state of this version for the next version. */
    snapshot?(): string;
    /** Gets the snapshot of the previous version. A thrown Refusal refuses the snapshot. */
    restore?(snapshot: string): void;
  }

  /**
   * For `normalizeColumns`: returns the result of the function for the scores. The function is called only if the scores differ
   * from the previous scores with the same key. It must depend only on the scores and on the data that `key` stands for. The
   * results for the 16 most recently used keys are kept.
   */
  function kept(key: string, scores: Float64Array, normalize: (scores: Float64Array) => ArrayLike<number>): Float64Array;
  /**
   * For `normalizeColumns`: scales the scores so that the highest score becomes 100. With `reverse`, the highest score becomes 0,
   * and 0 becomes 100. It works like kube-scheduler's `DefaultNormalizeScore`. The scores must not be negative.
   */
  function defaultNormalize(scores: Float64Array, reverse?: boolean): Float64Array;

  /** Rejects the pod or the node. The eviction of pods may help. */
  function reject(reason: string): Rejection;
  /** Rejects the pod or the node. The eviction of pods cannot help. */
  function rejectUnresolvable(reason: string): Rejection;

  /** Rejects the pod until an event outside the scheduler. After that event, the pod skips its backoff. */
  function pending(reason: string): Rejection;
  /**
   * Fails the attempt with this reason. The attempt is repeated after a backoff. The error counts in
   * `berth_plugin_errors_total`. It is not a fault, in contrast to an exception.
   */
  function fail(reason: string): Rejection;
  /**
   * Says that the plugin has nothing to do for this pod. `preFilter`, `preScore`, `preBindPreFlight`, `preBind` and `bind` may
   * return it.
   */
  const SKIP: Rejection;

  /**
   * Asks the profile's other Filter plugins about nodes without some of their pods. It returns one answer for each case; null
   * means that the node passes. Call it in `postFilter` only.
   */
  function dryRun(cases: { node: Node; pods: readonly Pod[] }[]): (Rejection | null)[];

  /**
   * Asks the HTTP extenders that have a `preemptVerb`, and returns the preemptions that they keep. An extender may remove nodes
   * and name other victims on a node. Call it in `postFilter` only.
   */
  function askExtenders(preemptions: Preemption[]): Preemption[];

  /** Returns all nodes of the cluster, with the plugin's `columns`. */
  function nodes(): Node[];
  /**
   * Returns all pods on nodes, including the pods that are being bound. The plugin must have `pods`, `podPlaced` or
   * `podRemoved`.
   */
  function pods(): Pod[];

  /** An error that `configure` and `restore` throw to refuse their argument. The message is the reason. */
  class Refusal extends Error {}

  /** Writes a line to the scheduler's log. */
  function log(message: string, level?: "debug" | "info" | "warn" | "error"): void;
  /** Returns the time at the start of this cycle, in milliseconds since 1970. */
  function now(): number;
  /** Adds to the counter `berth_plugin_custom_total{name}`. */
  function count(name: string, amount?: number): void;
  /** Returns the size of an image in bytes, or 0 if no node has the image. */
  function imageSize(name: string): number;
  /**
   * Returns the objects of a kind, by `namespace/name`, or by `/name` for kinds without namespaces. The plugin's `objects` must
   * name the kind. Each object is decoded at its first read. Do not change an object.
   */
  function objects(apiVersion: string, kind: string): ReadonlyMap<string, any>;
}
