// Makes the manifest from the plugin's members, and refuses an invalid member with a sentence. The build calls it too.

const COLUMNS = [
  ...["name", "unschedulable", "labels", "taints", "allocatable", "requested", "non-zero-requested", "pod-count", "images"],
  ...["host-ports", "declared-features"],
];

function columnOf(column) {
  if (COLUMNS.includes(column)) return { tag: column };
  if (typeof column?.label === "string") return { tag: "label", val: column.label };
  if (typeof column?.annotation === "string") return { tag: "annotation", val: column.annotation };
  throw new TypeError(
    `columns: ${JSON.stringify(column)} is not a column; there are ${COLUMNS.join(", ")}, {label: key} and {annotation: key}`,
  );
}

function textOf(member, value) {
  if (typeof value !== "string" || value === "") throw new TypeError(`${member}: must be a text`);
  return value;
}

function kindOf(kind) {
  const { apiVersion, kind: name } = kind ?? {};
  if (typeof apiVersion === "string" && typeof name === "string") return { apiVersion, kind: name };
  throw new TypeError(`objects: ${JSON.stringify(kind)} is not a kind; write {apiVersion: "v1", kind: "Service"}`);
}

/** The members for each interface. The plugin must have one member of each list. */
const ANSWERED_BY = {
  score: [["score", "scoreNodes", "scoreColumns"]],
  "normalize-score": [["normalize", "normalizeColumns"]],
  "queue-sort": [["sortKey"]],
  reserve: [["reserve"], ["unreserve"]],
  state: [["snapshot"], ["restore"]],
  reuse: [["reach"]],
};
for (const name of ["filter", "preEnqueue", "preFilter", "postFilter", "preScore", "permit", "preBindPreFlight", "preBind"]) {
  ANSWERED_BY[kebab(name)] = [[name]];
}
for (const name of ["bind", "postBind", "queueingHint", "sign", "explain"]) ANSWERED_BY[kebab(name)] = [[name]];

function kebab(name) {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** The interface that calls each member. */
export const INTERFACES = Object.fromEntries(
  Object.entries(ANSWERED_BY).flatMap(([name, lists]) => lists.flat().map((member) => [member, name])),
);
Object.assign(INTERFACES, { filterNodes: "filter", filterColumns: "filter", podPlaced: "sync", podRemoved: "sync" });

/** The missing members of the exported interfaces: `[interface, member]`. Several names are joined by `or`. */
export function missing(plugin, exported) {
  const isAnswered = (members) => members.some((member) => typeof plugin[member] === "function");
  return exported.flatMap((name) =>
    (ANSWERED_BY[name] ?? []).filter((members) => !isAnswered(members)).map((members) => [name, members.join(" or ")]),
  );
}

function listOf(member, list, read, example) {
  if (!Array.isArray(list)) throw new TypeError(`${member}: must be a list, as ${example}`);
  return list.map(read);
}

function eventOf(event) {
  if (typeof event?.resource === "string" && typeof event?.actions === "object") return event;
  throw new TypeError(`eventsToRegister: ${JSON.stringify(event)} is not an event; write on("Node", "Add")`);
}

/** @throws an error whose message is a sentence that starts with the name of the invalid member */
export function manifestOf(plugin, followsPods) {
  const { columns = [], pods = false, podJson = false, objects = [] } = plugin;
  const eventsToRegister = plugin.eventsToRegister ?? null;
  for (const [member, value] of Object.entries({ pods, podJson })) {
    if (typeof value !== "boolean") throw new TypeError(`${member}: must be true or false`);
  }
  return {
    name: textOf("name", plugin.name),
    version: textOf("version", plugin.version),
    columns: listOf("columns", columns, columnOf, `["name"]`),
    pods: followsPods,
    podJson,
    objects: listOf("objects", objects, kindOf, `[{apiVersion: "v1", kind: "ConfigMap"}]`),
    eventsToRegister: eventsToRegister && listOf("eventsToRegister", eventsToRegister, eventOf, `[on("Node", "Add")]`),
  };
}
