// The effects. index.d.ts has the documentation.

import { encode } from "./text.js";

const json = (body) => (body instanceof Uint8Array ? body : encode(JSON.stringify(body)));

const effect = (tag, val) => ({ tag, val });

export const effects = {
  bind: () => ({ tag: "bind" }),
  patch: (kind, namespace, name, body, subresource = null) =>
    effect("patch", { object: { kind, namespace, name }, subresource, body: json(body) }),
  create: (kind, namespace, body) => effect("create", { kind, namespace, body: json(body) }),
  delete: (kind, namespace, name) => effect("delete", { kind, namespace, name }),
  evict: ({ namespace, name, uid }, message) => effect("evict", { pod: { namespace, name, uid }, message }),
  allow: (uid) => effect("allow", uid),
  reject: (uid, reason) => effect("reject", [uid, reason]),
  activate: (uids) => effect("activate", uids),
  nominate: (uid, node) => effect("nominate", [uid, node]),
  event: ({ warning = false, reason, action, note }) => effect("event", { warning, reason, action, note }),
  wait: (objects, timeoutMs, timeoutMessage) => effect("wait", { objects, timeoutMs, timeoutMessage }),
};
