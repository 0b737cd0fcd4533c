// The plugin of this component, and how its calls end.

import { log } from "berth:scheduler/host@0.2.0";

let plugin;

export function setPlugin(it) {
  plugin = it;
}

export const served = () => plugin;

/** Whether the replica has the pods on nodes. */
export const followsPods = () => Boolean(plugin.pods || plugin.podPlaced || plugin.podRemoved);

/** A status that is the answer of a call, and no mistake of the plugin. */
export class Answered {
  constructor(status) {
    this.status = status;
  }
}

/** What a member answered, and must not. The stack has no line of the author's then: the line of the member is told. */
export class Unfit extends TypeError {
  constructor(member, gave) {
    super(`${member} gave ${gave}`);
    this.name = "TypeError";
    this.member = member;
  }
}

/** Asks the host. What it fails with is the answer of the call that is under way. */
export function asking(question) {
  try {
    return question();
  } catch (error) {
    const status = error?.payload ?? error;
    throw typeof status?.code === "string" ? new Answered(status) : error;
  }
}

/**
 * Where in the author's files a line of the bundle comes from: `berthLines` is what build.mjs adds to the bundle, a list of
 * files, each with the lines that it has there.
 */
function placeOf(line) {
  for (const { file, first, lines } of globalThis.berthLines ?? []) {
    const at = lines[line - first];
    if (at) return `${file}:${at}`;
  }
  return null;
}

/** The innermost call in one of the author's files: frames read `at name (bundle:line:column)`. */
function placeIn(stack) {
  for (const frame of stack.split("\n")) {
    const [, name, line] = /^\s*at (?:(.*) \()?\S*?:(\d+)(?::\d+)?\)?$/.exec(frame) ?? [];
    const place = line && placeOf(Number(line));
    if (place) return `, at ${place}${name && name !== "<anonymous>" ? ` in ${name}` : ""}`;
  }
  return "";
}

/** The line of a member, which the engine knows. */
function placeOfMember(member) {
  const place = placeOf(plugin[member]?.lineNumber);
  return place ? `, at ${place} in ${member}` : "";
}

/** What a call logs as an error before it traps is the reason of the fault. */
function tell(error) {
  const text = String(error).split("\n").slice(0, 3).join(" ");
  const place = error instanceof Unfit ? placeOfMember(error.member) : placeIn(String(error?.stack ?? ""));
  log("error", `${text}${place}`);
}

/**
 * A call of the scheduler. What the plugin throws is a fault: said to the scheduler before the call traps. Only a status is an
 * answer.
 */
export function call(run) {
  let status;
  try {
    return run();
  } catch (error) {
    if (!(error instanceof Answered)) {
      tell(error);
      // Neither a status nor a text, which the bindings would take for an answer.
      throw Symbol("fault");
    }
    status = error.status;
  }
  throw status;
}
