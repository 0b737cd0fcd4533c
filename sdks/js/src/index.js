// The exports of the module "berth". index.d.ts has the documentation.

import * as host from "berth:scheduler/host@0.2.0";

import { tellUndeclared } from "./node.js";
import { Objects } from "./objects.js";
import { asking, followsPods, served } from "./plugin.js";
import { table } from "./table.js";

export { effects } from "./effects.js";
export { defaultNormalize, kept } from "./normalize.js";

export class Rejection {
  constructor(code, reason) {
    this.code = code;
    this.reason = String(reason);
  }
}

export const reject = (reason) => new Rejection("unschedulable", reason);
export const rejectUnresolvable = (reason) => new Rejection("unschedulable-and-unresolvable", reason);

export const pending = (reason) => new Rejection("pending", reason);
export const fail = (reason) => new Rejection("error", reason);
export const SKIP = new Rejection("skip", "");

/** The flags of `actions` in wit/types.wit, with the names of kube-scheduler's `ActionType`. */
const ACTIONS = [
  "Add",
  "Delete",
  "UpdateNodeAllocatable",
  "UpdateNodeLabel",
  "UpdateNodeTaint",
  "UpdateNodeCondition",
  "UpdateNodeAnnotation",
  "UpdateNodeDeclaredFeature",
  "UpdatePodLabel",
  "UpdatePodScaleDown",
  "UpdatePodToleration",
  "UpdatePodSchedulingGatesEliminated",
  "UpdatePodGeneratedResourceClaim",
];

const flag = (action) => action[0].toLowerCase() + action.slice(1);

export function on(resource, ...actions) {
  const unknown = actions.find((action) => action !== "Update" && !ACTIONS.includes(action));
  if (unknown !== undefined) {
    throw new TypeError(`${JSON.stringify(unknown)} is not an action; there are Update, ${ACTIONS.join(", ")}`);
  }
  const updates = actions.includes("Update") ? ACTIONS.filter((name) => name.startsWith("Update")) : [];
  const chosen = actions.length === 0 ? ACTIONS : [...actions, ...updates];
  return { resource, actions: Object.fromEntries(ACTIONS.map((name) => [flag(name), chosen.includes(name)])) };
}

export const rejectionOf = ({ code, reasons }) => (code === "success" ? null : new Rejection(code, reasons.join(", ")));

const slotsOf = (pods) => pods.map(({ slot }) => slot);

export const dryRun = (cases) =>
  asking(() => host.dryRun(cases.map(({ node, pods }) => ({ node: node.row, pods: slotsOf(pods) })))).map(rejectionOf);

export function askExtenders(preemptions) {
  const asked = preemptions.map(({ node, victims, violations = 0 }) => ({
    node: node.row,
    victims: slotsOf(victims),
    violations,
  }));
  return asking(() => host.askExtenders(asked)).map(({ node, victims, violations }) => ({
    node: table.node(node),
    victims: Array.from(victims, (slot) => table.pods.get(slot)),
    violations,
  }));
}

export class Refusal extends Error {}

export const log = (message, level = "info") => host.log(level, String(message));
export const now = () => host.now();
export const count = (name, amount = 1) => host.count(name, amount);

export const imageSize = (name) => table.imageSizes.get(name) ?? 0;

export function objects(apiVersion, kind) {
  const kept = table.objects.get(`${apiVersion}/${kind}`);
  if (kept) return kept;
  const isNamed = (served().objects ?? []).some((named) => named.apiVersion === apiVersion && named.kind === kind);
  if (!isNamed) tellUndeclared(`objects ${apiVersion}/${kind}`);
  return new Objects();
}

export function nodes() {
  if (!followsPods() && !served().columns?.length) throw new Error("nodes() needs `columns`");
  return table.nodes.filter((node) => node !== undefined);
}

export function pods() {
  if (!followsPods()) throw new Error("pods() needs `pods: true`");
  return [...table.pods.values()];
}
