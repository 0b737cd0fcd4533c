// Changes the engine of componentize-qjs so that each build of a source yields the same component. componentize-qjs stores the
// engine's memory after the engine ran the plugin's module. That memory contains the seed of the hash tables and the times of
// the build. Therefore the changed engine imports other functions for these: they have the same parameters and return constants.
// In the finished component, these imports are stubs like all of WASI.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { IMPORTS, Reader, encodeList, importsOf, mapSections, sections, sized } from "./binary.mjs";

const ENVIRONMENT = "wasi:cli/environment@0.2.0";
const MONOTONIC = "wasi:clocks/monotonic-clock@0.2.0";

/**
 * The imports that replace other imports. The build has no arguments and no directory, so the first two functions leave the
 * memory for their results almost unchanged. That memory is the same in each build.
 */
const REPLACED = {
  "wasi:random/insecure-seed@0.2.9": { "insecure-seed": ["wasi:cli/environment@0.2.9", "get-arguments"] },
  "wasi:clocks/wall-clock@0.2.0": { now: [ENVIRONMENT, "initial-cwd"] },
  [MONOTONIC]: { now: [MONOTONIC, "resolution"] },
};

const MAGIC = Buffer.from([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00]);
const CUSTOM = 0;
const LAST_KIND = 13;

/** The module at `start`, up to the last section that the compiler writes; null if there is no module. */
function moduleAt(bytes, start) {
  const reader = new Reader(bytes, start + MAGIC.length);
  while (!reader.isAtEnd) {
    const id = reader.byte();
    const content = reader.take(reader.number());
    if (id > LAST_KIND || reader.at > bytes.length) return null;
    if (id === CUSTOM && new Reader(content).text() === "target_features") return bytes.subarray(start, reader.at);
  }
  return null;
}

function importsOfModule(module) {
  const section = sections(module).find(([id]) => id === IMPORTS);
  return section ? importsOf(section[1]) : [];
}

/** The engine of componentize-qjs that has no asynchronous ABI and is optimized for speed, not for size. */
function builtIn(bytes) {
  const found = [];
  for (let at = bytes.indexOf(MAGIC); at >= 0; at = bytes.indexOf(MAGIC, at + 1)) {
    const module = moduleAt(bytes, at);
    const names = module ? importsOfModule(module).map(({ module }) => module) : [];
    if (names.includes("local:init/module-loader") && !names.includes("$root")) found.push(module);
  }
  return found.sort((a, b) => b.length - a.length)[0];
}

function replaceImports(content) {
  const imports = importsOf(content).map(({ module, name, description }) => {
    const [otherModule, otherName] = REPLACED[module]?.[name] ?? [module, name];
    return Buffer.concat([sized(Buffer.from(otherModule)), sized(Buffer.from(otherName)), description]);
  });
  return encodeList(imports);
}

/** Returns the changed engine, for `runtimeBytes` of componentize-qjs. */
export function engine(toolchain) {
  // npm installs only the package for this machine.
  const packages = join(toolchain, "node_modules/@andreiltd");
  const files = readdirSync(packages).flatMap((name) => readdirSync(join(packages, name)).map((file) => join(packages, name, file)));
  const file = files.find((file) => file.endsWith(".node"));
  const module = file && builtIn(readFileSync(file));
  const imports = module ? importsOfModule(module) : [];
  for (const [name, functions] of Object.entries(REPLACED)) {
    const isThere = imports.some((it) => it.module === name && it.name in functions);
    if (!isThere) throw new Error(`${file ?? packages}: no engine that imports ${name}; this SDK is for another componentize-qjs`);
  }
  return mapSections(module, (id, content) => (id === IMPORTS ? replaceImports(content) : content));
}
