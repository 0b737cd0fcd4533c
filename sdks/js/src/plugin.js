// The plugin of this component, and the handling of errors in its calls.

import { log } from "berth:scheduler/host@0.2.0";

let plugin;

export function setPlugin(it) {
  plugin = it;
}

export const served = () => plugin;

/** Says whether the replica has the pods on nodes. */
export const followsPods = () => Boolean(plugin.pods || plugin.podPlaced || plugin.podRemoved);

/** An exception whose status is the answer of the call. It is not a fault of the plugin. */
export class Answered {
  constructor(status) {
    this.status = status;
  }
}

/** An exception for an invalid answer of a member. Its stack has no line of the author, so the line of the member is logged. */
export class Unfit extends TypeError {
  constructor(member, gave) {
    super(`${member} gave ${gave}`);
    this.name = "TypeError";
    this.member = member;
  }
}

/** Calls the host. If the host returns a status as an error, that status is the answer of the current call. */
export function asking(question) {
  try {
    return question();
  } catch (error) {
    const status = error?.payload ?? error;
    throw typeof status?.code === "string" ? new Answered(status) : error;
  }
}

/**
 * The place in the author's files for a line of the bundle. build.mjs adds `berthLines` to the bundle: a list of files with their
 * lines in the bundle.
 */
function placeOf(line) {
  for (const { file, first, lines } of globalThis.berthLines ?? []) {
    const at = lines[line - first];
    if (at) return `${file}:${at}`;
  }
  return null;
}

/** The innermost call in one of the author's files. A frame has the form `at name (bundle:line:column)`. */
function placeIn(stack) {
  for (const frame of stack.split("\n")) {
    const [, name, line] = /^\s*at (?:(.*) \()?\S*?:(\d+)(?::\d+)?\)?$/.exec(frame) ?? [];
    const place = line && placeOf(Number(line));
    if (place) return `, at ${place}${name && name !== "<anonymous>" ? ` in ${name}` : ""}`;
  }
  return "";
}

/** The place of a member, for the line number that the engine reports. */
function placeOfMember(member) {
  const place = placeOf(plugin[member]?.lineNumber);
  return place ? `, at ${place} in ${member}` : "";
}

/** Logs an exception as an error. The last error that a call logs before it traps is the reason of the fault. */
function tell(error) {
  const text = String(error).split("\n").slice(0, 3).join(" ");
  const place = error instanceof Unfit ? placeOfMember(error.member) : placeIn(String(error?.stack ?? ""));
  log("error", `${text}${place}`);
}

/**
 * Wraps a call of the scheduler. An exception of the plugin is a fault: it is logged, then the call traps. Only an exception with
 * a status is an answer.
 */
export function call(run) {
  let status;
  try {
    return run();
  } catch (error) {
    if (!(error instanceof Answered)) {
      tell(error);
      // The thrown value is neither a status nor a text. The bindings would return those as an answer.
      throw Symbol("fault");
    }
    status = error.status;
  }
  throw status;
}
