// Which line of the author's files a line of the bundle comes from, so that an exception can name it: the engine knows the
// bundle only. plugin.js reads what stands here.

import { relative, resolve } from "node:path";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The numbers of one segment of a source map: base64 digits of five bits each, the sign in the lowest bit. */
function numbers(segment) {
  const found = [];
  let value = 0;
  let shift = 0;
  for (const digit of segment) {
    const bits = DIGITS.indexOf(digit);
    value += (bits & 31) << shift;
    shift += 5;
    if (bits & 32) continue;
    found.push(value & 1 ? -(value >> 1) : value >> 1);
    value = shift = 0;
  }
  return found;
}

/** For each line of the bundle, the file and the line that it begins with; both count from 0. */
function origins({ mappings }) {
  let [source, line] = [0, 0];
  return mappings.split(";").map((segments) => {
    let origin = null;
    for (const segment of segments.split(",")) {
      const [, sources, lines] = numbers(segment);
      if (sources === undefined) continue;
      source += sources;
      line += lines;
      origin ??= { source, line };
    }
    return origin;
  });
}

/** A statement that leaves `berthLines` behind: the files under `folder`, each with its first line in the bundle and its own. */
export function linesOf(map, folder) {
  const files = new Map();
  const bundle = resolve(folder, "build");
  for (const [at, origin] of origins(map).entries()) {
    if (!origin) continue;
    const file = relative(folder, resolve(bundle, map.sources[origin.source]));
    if (file.startsWith("..") || /^(berth|build)[/]/.test(file) || file === "<stdin>") continue;
    if (!files.has(file)) files.set(file, { file, first: at + 1, lines: [] });
    const { first, lines } = files.get(file);
    lines[at + 1 - first] = origin.line + 1;
  }
  // A line that no statement begins with belongs to the one before it.
  for (const { lines } of files.values()) for (let i = 1; i < lines.length; i++) lines[i] ??= lines[i - 1];
  return `globalThis.berthLines = ${JSON.stringify([...files.values()])};\n`;
}
