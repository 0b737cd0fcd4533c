// TenantQuota: a tenant may have only a fixed number of pods. The value of a label names a pod's tenant.

import { type Plugin, type Pod, Refusal, on, rejectUnresolvable } from "berth";

let label: string;
let limit: number;

/** The uids of each tenant's pods that are on a node or have a reserved node. */
const held = new Map<string, Set<string>>();

function hold(pod: Pod): void {
  const tenant = pod.labels.get(label);
  if (tenant === undefined) return;
  if (!held.has(tenant)) held.set(tenant, new Set());
  held.get(tenant)?.add(pod.uid);
}

function giveBack(pod: Pod): void {
  held.get(pod.labels.get(label) ?? "")?.delete(pod.uid);
}

const plugin: Plugin = {
  name: "TenantQuota",
  version: "0.1.0",
  eventsToRegister: [on("Pod", "Delete")],

  configure(args) {
    const { label: key, limit: most, ...others } = args ?? {};
    const isWhole = typeof key === "string" && key !== "" && Number.isInteger(most) && most > 0;
    if (!isWhole || Object.keys(others).length > 0) {
      throw new Refusal("label and limit: must be the key of a label and a number of pods");
    }
    [label, limit] = [key, most];
  },

  podPlaced: hold,
  podRemoved: giveBack,

  preFilter(pod) {
    const tenant = pod.labels.get(label);
    if (tenant === undefined) return null;
    const nHeld = held.get(tenant)?.size ?? 0;
    return nHeld < limit ? null : rejectUnresolvable(`tenant ${tenant} has ${nHeld} of ${limit} pods`);
  },

  reserve: hold,
  unreserve: giveBack,
};

export default plugin;
