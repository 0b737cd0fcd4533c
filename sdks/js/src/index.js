// What a plugin imports from "berth". index.d.ts has the documentation.

import * as host from "berth:scheduler/host@0.1.0";

import { table } from "./table.js";

export class Rejection {
  constructor(code, reason) {
    this.code = code;
    this.reason = String(reason);
  }
}

export const reject = (reason) => new Rejection("unschedulable", reason);
export const rejectUnresolvable = (reason) => new Rejection("unschedulable-and-unresolvable", reason);

export class Refusal extends Error {}

export const log = (message, level = "info") => host.log(level, String(message));
export const now = () => host.now();
export const count = (name, amount = 1) => host.count(name, amount);

export const imageSize = (name) => table.imageSizes.get(name) ?? 0;
export const objects = (apiVersion, kind) => table.objects.get(`${apiVersion}/${kind}`) ?? new Map();
