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

/** For each line of the bundle, where its parts come from: the column in the bundle, the file and the line; all count from 0. */
function partsOf({ mappings }) {
  let [source, line] = [0, 0];
  return mappings.split(";").map((segments) => {
    let column = 0;
    const parts = [];
    for (const segment of segments.split(",")) {
      const [columns, sources, lines] = numbers(segment);
      column += columns ?? 0;
      if (sources === undefined) continue;
      source += sources;
      line += lines;
      parts.push({ column, source, line });
    }
    return parts;
  });
}

/** Where a place in the bundle comes from, if that is a file of the author's: its path, and its line. All count from 1. */
export function placeOf(map, folder, line, column) {
  const origin = partsOf(map)[line - 1]?.findLast((part) => part.column < column);
  const file = origin && ownFile(map, folder, origin);
  return file ? { file, line: origin.line + 1 } : null;
}

/** The path within `folder`, or null for files of the SDK. */
function ownFile(map, folder, { source }) {
  const file = relative(folder, resolve(folder, "build", map.sources[source]));
  return file.startsWith("..") || /^(berth|build)[/]/.test(file) || file === "<stdin>" ? null : file;
}

/** What stands in the author's files, one after the other. */
export function ownText(map, folder) {
  return map.sourcesContent.filter((_, source) => ownFile(map, folder, { source }) !== null).join("\n");
}

/** A statement that leaves `berthLines` behind for a bundle's text: the files under `folder`, each with its first line in the bundle and its own. */
export function linesOf(map, folder, text) {
  const files = new Map();
  const bundled = text.split("\n");
  for (const [at, parts] of partsOf(map).entries()) {
    // What stands before the first word belongs to the line before.
    const origin = parts.findLast((part) => part.column <= bundled[at].search(/\S/)) ?? parts[0];
    if (!origin) continue;
    const file = ownFile(map, folder, origin);
    if (file === null) continue;
    if (!files.has(file)) files.set(file, { file, first: at + 1, lines: [] });
    const { first, lines } = files.get(file);
    lines[at + 1 - first] = origin.line + 1;
  }
  // A line that no statement begins with belongs to the one before it.
  for (const { lines } of files.values()) for (let i = 1; i < lines.length; i++) lines[i] ??= lines[i - 1];
  return `globalThis.berthLines = ${JSON.stringify([...files.values()])};\n`;
}
