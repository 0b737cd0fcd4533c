// `console` writes lines to the scheduler's log. The scheduler limits a plugin to 20 lines per second. The build runs the
// module before a scheduler exists: lines from that run are kept until the first call.

import { log } from "berth:scheduler/host@0.2.0";

/** The lines before the first call of the instance; null after it. */
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

/** Writes the kept lines. It is called at the first call of an instance, because the scheduler exists then. */
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
