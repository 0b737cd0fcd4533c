// Builds a plugin: bundles it with the SDK, and wraps the bundle and QuickJS into a component.
//
// usage: node build.mjs TOOLCHAIN FOLDER NAME

import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { narrow, widen } from "./contract.mjs";
import { engine } from "./engine.mjs";
import { linesOf, placeOf } from "./lines.mjs";

const [toolchain, folder, name] = process.argv.slice(2);
const require = createRequire(join(resolve(toolchain), "package.json"));
const esbuild = require("esbuild");
const { componentize } = require("componentize-qjs");

const sdk = dirname(fileURLToPath(import.meta.url));
const plugin = resolve(folder);
const build = join(plugin, "build");

/** The contract as the build takes it, and the plugin's world. */
function writeWit() {
  // The contract travels with the SDK; in Berth's own repository it lies at the root.
  const contract = [join(sdk, "wit"), join(sdk, "../../wit")].find(existsSync);
  const deps = join(build, "wit/deps/berth");
  mkdirSync(deps, { recursive: true });
  for (const file of readdirSync(contract).filter((file) => file.endsWith(".wit"))) {
    cpSync(join(contract, file), join(deps, file));
  }
  narrow(deps);
  cpSync(join(plugin, "plugin.wit"), join(build, "wit/plugin.wit"));
}

function source() {
  const file = ["plugin.ts", "plugin.js"].map((name) => join(plugin, name)).find(existsSync);
  if (!file) throw new Error(`${plugin}: neither plugin.ts nor plugin.js`);
  return file;
}

/** One module of the plugin, the SDK, and the exports that componentize-qjs looks for. */
async function bundle() {
  const contents = `
    import plugin from ${JSON.stringify(source())};
    import { serve } from "berth/serve";
    export const {
      lifecycle, sync, cycle, preEnqueue, queueSort, preFilter, filter, postFilter, preScore, score, normalizeScore,
      reserve, permit, preBindPreFlight, preBind, bind, postBind, queueingHint, sign, state, reuse,
    } = serve(plugin);
  `;
  const bundled = await esbuild.build({
    // Paths in the bundle are told from here, so that it is the same wherever the plugin lies.
    absWorkingDir: plugin,
    stdin: { contents, resolveDir: plugin },
    alias: { "berth/serve": join(sdk, "src/serve.js"), berth: join(sdk, "src/index.js") },
    bundle: true,
    write: false,
    format: "esm",
    target: "es2022",
    external: ["berth:*"],
    logLevel: "warning",
    sourcemap: "external",
    outfile: join(build, "bundle.js"),
  });
  const [map, script] = bundled.outputFiles;
  const sources = JSON.parse(map.text);
  const text = script.text + linesOf(sources, plugin, script.text);
  writeFileSync(join(build, "bundle.js"), text);
  return { text, sources };
}

/** Says what the module threw when the engine ran it for the first time, and where, as esbuild tells its errors. */
function tell(error, sources) {
  const text = String(error.message ?? error);
  const frames = Array.from(text.matchAll(/user\.js:(\d+):(\d+)/g), ([, ...at]) => placeOf(sources, plugin, ...at.map(Number)));
  const own = frames.find((place) => place !== null);
  if (!own) throw error;
  const message = text.split("\n")[0].replace(/^.*Failed to finish JavaScript module evaluation: /, "");
  const place = `${own.file}:${own.line}`;
  const source = readFileSync(join(plugin, own.file), "utf8").split("\n")[own.line - 1].trim();
  console.error(`✘ [ERROR] ${message}\n\n    ${place}:\n      ${own.line} │ ${source}\n\n${place}: ERROR: ${message}`);
  process.exit(1);
}

/** The interfaces that members belong to, where they are not spelled alike. */
const INTERFACES = {
  filterNodes: "filter",
  filterColumns: "filter",
  scoreNodes: "score",
  scoreColumns: "score",
  normalize: "normalize-score",
  normalizeColumns: "normalize-score",
  sortKey: "queue-sort",
  unreserve: "reserve",
  snapshot: "state",
  restore: "state",
  reach: "reuse",
  podPlaced: "sync",
  podRemoved: "sync",
};
for (const name of [
  ...["filter", "score", "preEnqueue", "preFilter", "postFilter", "preScore", "reserve", "permit", "preBindPreFlight"],
  ...["preBind", "bind", "postBind", "queueingHint", "sign"],
]) {
  INTERFACES[name] = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Warns of members that are never called, since plugin.wit does not export the interface that they belong to. */
async function warnOfMembers() {
  const bundled = await esbuild.build({
    stdin: { contents: `export { default } from ${JSON.stringify(source())};`, resolveDir: plugin },
    alias: { berth: join(sdk, "src/index.js"), "berth:scheduler/host@0.2.0": join(sdk, "host.mjs") },
    bundle: true,
    write: false,
    format: "esm",
    logLevel: "silent",
  });
  const url = `data:text/javascript;base64,${Buffer.from(bundled.outputFiles[0].text).toString("base64")}`;
  // What fails here fails in the component as well, and is told then.
  const { default: members } = await import(url).catch(() => ({}));
  const exported = readFileSync(join(plugin, "plugin.wit"), "utf8").matchAll(/^ *export berth:scheduler\/([a-z-]+)@/gm);
  const interfaces = new Set(Array.from(exported, ([, name]) => name));
  for (const name of Object.keys(members ?? {})) {
    const needed = INTERFACES[name];
    if (needed === undefined || interfaces.has(needed)) continue;
    console.error(`warning: ${basename(source())}: ${name} is never called: plugin.wit lacks the line`);
    console.error(`    export berth:scheduler/${needed}@0.2.0;`);
  }
}

rmSync(build, { recursive: true, force: true });
writeWit();
const { text, sources } = await bundle();
await warnOfMembers();
const { component } = await componentize({
  witPath: join(build, "wit"),
  world: "plugin",
  jsSource: text,
  // The scheduler offers no WASI.
  stubWasi: true,
  runtimeBytes: engine(resolve(toolchain)),
}).catch((error) => tell(error, sources));
writeFileSync(join(build, `${name}.wasm`), widen(component));
