// The effects. index.d.ts has the documentation.

import { Checks, shown } from "./checks.js";
import { encode } from "./text.js";

/** An effect in the form of the bindings. */
export class Effect {
  constructor(tag, val) {
    this.tag = tag;
    if (val !== undefined) this.val = val;
  }
}

/** The checks of the arguments of a function. The stack of the exception has the line of the plugin that calls the function. */
const argumentsOf = (name) => new Checks((rest) => new TypeError(`effects.${name} got ${rest}`));

function json(is, body) {
  if (body instanceof Uint8Array) return body;
  const text = JSON.stringify(body);
  return text === undefined ? is.refuse(`body ${shown(body)}, which JSON cannot represent`) : encode(text);
}

const namespaceOf = (is, namespace) => is.text("namespace", namespace, `; it is "" for a kind without namespaces`);

const refOf = (is, kind, namespace, name) => ({
  kind: is.text("kind", kind),
  namespace: namespaceOf(is, namespace),
  name: is.text("name", name),
});

function watched(is, object) {
  const { kind, namespace, name } = is.object("the object ", object, "no { kind, namespace, name }", ["kind", "namespace", "name"]);
  return refOf(is, kind, namespace, name);
}

function patched(is, patchType, kind, namespace, name, body, subresource) {
  const object = refOf(is, kind, namespace, name);
  return new Effect("patch", { object, subresource: is.textOrNull("subresource", subresource), body: json(is, body), patchType });
}

export const effects = {
  bind: () => new Effect("bind"),

  patch: (kind, namespace, name, body, subresource = null) =>
    patched(argumentsOf("patch"), "merge", kind, namespace, name, body, subresource),

  strategicPatch: (kind, namespace, name, body, subresource = null) =>
    patched(argumentsOf("strategicPatch"), "strategic-merge", kind, namespace, name, body, subresource),

  create(kind, namespace, body) {
    const is = argumentsOf("create");
    return new Effect("create", { kind: is.text("kind", kind), namespace: namespaceOf(is, namespace), body: json(is, body) });
  },

  delete: (kind, namespace, name) => new Effect("delete", refOf(argumentsOf("delete"), kind, namespace, name)),

  evict(pod, message) {
    const is = argumentsOf("evict");
    const { namespace, name, uid } = is.object("the pod ", pod, "no pod");
    const named = { namespace: is.text("namespace", namespace), name: is.text("name", name), uid: is.text("uid", uid) };
    return new Effect("evict", { pod: named, message: is.text("message", message) });
  },

  allow: (uid) => new Effect("allow", argumentsOf("allow").text("uid", uid)),

  reject(uid, reason) {
    const is = argumentsOf("reject");
    return new Effect("reject", [is.text("uid", uid), is.text("reason", reason)]);
  },

  activate(uids) {
    const is = argumentsOf("activate");
    return new Effect("activate", Array.from(is.list("uids", uids, "texts"), (uid) => is.text("uid", uid)));
  },

  nominate(uid, node) {
    const is = argumentsOf("nominate");
    return new Effect("nominate", [is.text("uid", uid), is.textOrNull("node", node)]);
  },

  event(event) {
    const is = argumentsOf("event");
    const keys = ["warning", "reason", "action", "note"];
    const { warning = false, reason, action, note } = is.object("", event, `no { ${keys.join(", ")} }`, keys);
    if (typeof warning !== "boolean") is.refuse(`warning ${shown(warning)}, which is neither true nor false`);
    const texts = { reason: is.text("reason", reason), action: is.text("action", action), note: is.text("note", note) };
    return new Effect("event", { warning, ...texts });
  },

  wait(objects, timeoutMs, message) {
    const is = argumentsOf("wait");
    return new Effect("wait", {
      objects: Array.from(is.list("objects", objects, "{ kind, namespace, name }"), (object) => watched(is, object)),
      timeoutMs: is.milliseconds("timeoutMs", timeoutMs),
      timeoutMessage: is.text("message", message),
    });
  },
};
