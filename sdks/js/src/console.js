// `console`, for whoever is used to it: its lines go to the scheduler's log, at most 20 a second as all of a plugin's. What
// a module says while the build runs it, before there is a scheduler, is kept until the first call.

import { log } from "berth:scheduler/host@0.2.0";

/** What was said before the first call; null from there on. */
let early = [];

function text(value) {
  if (typeof value === "string") return value;
  if (value instanceof Error) return String(value.stack ? `${value}\n${value.stack}` : value);
  if (value instanceof Map) return `Map ${text(Object.fromEntries(value))}`;
  if (value instanceof Set) return `Set ${text([...value])}`;
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value);
  } catch {
    return String(value);
  }
}

function say(level, values) {
  const line = values.map(text).join(" ");
  if (early) early.push([level, line]);
  else log(level, line);
}

/** A scheduler is there from here on: the first call of an instance has come. */
export function openConsole() {
  const lines = early ?? [];
  early = null;
  for (const [level, line] of lines) log(level, line);
}

const at = (level) => (...values) => say(level, values);

globalThis.console = {
  debug: at("debug"),
  trace: at("debug"),
  log: at("info"),
  info: at("info"),
  dir: at("info"),
  warn: at("warn"),
  error: at("error"),
  assert: (isSo, ...values) => void (isSo || say("error", ["assertion failed:", ...values])),
};
