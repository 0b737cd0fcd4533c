// Checks the arguments and the answers of a plugin. Each message is a sentence about the value and its place.

import { nearest } from "./nearest.js";

/** The text of a value in a message. */
export function shown(value) {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (typeof value !== "object" || value === null) return String(value);
  return Array.isArray(value) ? "a list" : "an object";
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Checks the values of one argument list or one answer. `refusal` makes the exception from a message without its beginning. */
export class Checks {
  constructor(refusal) {
    this.refuse = (rest) => {
      throw refusal(rest);
    };
  }

  text(name, value, hint = "") {
    if (typeof value !== "string") this.refuse(`${name} ${shown(value)}, which is not a text${hint}`);
    return value;
  }

  /** An undefined or null text is null. */
  textOrNull(name, value) {
    return value === undefined || value === null ? null : this.text(name, value);
  }

  list(name, value, what) {
    if (!Array.isArray(value)) this.refuse(`${name} ${shown(value)}, which is not a list of ${what}`);
    return value;
  }

  /** A whole number of milliseconds. A fraction is cut off. */
  milliseconds(name, value) {
    const isTime = typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
    if (!isTime) this.refuse(`${name} ${shown(value)}, which is not a number of milliseconds`);
    return Math.trunc(value);
  }

  /** An object. `keys` are the keys that Berth reads in it, or null if it may have any keys. */
  object(name, value, what, keys = null) {
    if (!isObject(value)) this.refuse(`${name}${shown(value)}, which is ${what}`);
    const unknown = keys && Object.keys(value).find((key) => !keys.includes(key));
    if (typeof unknown !== "string") return value;
    const meant = nearest(unknown, keys);
    const hint = meant ? `did you mean ${meant}?` : `it reads ${keys.join(", ")}`;
    return this.refuse(`${name}${unknown}, which is nothing that Berth reads (${hint})`);
  }
}
