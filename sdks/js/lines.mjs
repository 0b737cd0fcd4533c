// Maps the lines of the bundle to the lines of the author's files. The engine knows only the lines of the bundle, and an
// exception should name the author's line. plugin.js reads the map.

import { relative, resolve } from "node:path";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The numbers of one segment of a source map. Each base64 digit has five bits, and the lowest bit of a number is its sign. */
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

/** The origins of each line of the bundle: for each part, the column in the bundle, the file and the line, counted from 0. */
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

/** The origin of a place in the bundle: the path and the line, counted from 1. It is null if the file is not the author's. */
export function placeOf(map, folder, line, column) {
  const origin = partsOf(map)[line - 1]?.findLast((part) => part.column < column);
  const file = origin && ownFile(map, folder, origin);
  return file ? { file, line: origin.line + 1 } : null;
}

/** The path of a file within `folder`, or null for files of the SDK. */
function ownFile(map, folder, { source }) {
  const file = relative(folder, resolve(folder, "build", map.sources[source]));
  return file.startsWith("..") || /^(berth|build)[/]/.test(file) || file === "<stdin>" ? null : file;
}

/** The text of all files of the author. */
export function ownText(map, folder) {
  return map.sourcesContent.filter((_, source) => ownFile(map, folder, { source }) !== null).join("\n");
}

/** A statement that sets `berthLines`: for each file under `folder`, its first line in the bundle, and its own lines. */
export function linesOf(map, folder, text) {
  const files = new Map();
  const bundled = text.split("\n");
  for (const [at, parts] of partsOf(map).entries()) {
    // Text before the first word belongs to the previous line.
    const origin = parts.findLast((part) => part.column <= bundled[at].search(/\S/)) ?? parts[0];
    if (!origin) continue;
    const file = ownFile(map, folder, origin);
    if (file === null) continue;
    if (!files.has(file)) files.set(file, { file, first: at + 1, lines: [] });
    const { first, lines } = files.get(file);
    lines[at + 1 - first] = origin.line + 1;
  }
  // A line without the start of a statement belongs to the line of the previous statement.
  for (const { lines } of files.values()) for (let i = 1; i < lines.length; i++) lines[i] ??= lines[i - 1];
  return `globalThis.berthLines = ${JSON.stringify([...files.values()])};\n`;
}
