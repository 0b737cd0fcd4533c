// Builds a plugin: bundles it with the SDK, and makes a component of the bundle and QuickJS.
//
// usage: node build.mjs TOOLCHAIN FOLDER NAME

import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { narrow, widen } from "./contract.mjs";
import { engine } from "./engine.mjs";
import { linesOf, ownText, placeOf } from "./lines.mjs";
import { membersOf, miscalled, misspelt } from "./members.mjs";
import { INTERFACES, manifestOf, missing } from "./src/manifest.js";
import { CONTRACT, World } from "./world.mjs";

const [toolchain, folder, name] = process.argv.slice(2);
const require = createRequire(join(resolve(toolchain), "package.json"));
const esbuild = require("esbuild");
const { componentize } = require("componentize-qjs");

const sdk = dirname(fileURLToPath(import.meta.url));
const plugin = resolve(folder);
const world = readWorld();
const build = join(plugin, "build");

function readWorld() {
  const file = join(plugin, "plugin.wit");
  if (!existsSync(file)) refuse([`${plugin} has no plugin.wit`]);
  const read = new World(readFileSync(file, "utf8"));
  refuse(read.mistakes);
  return read;
}

/** Writes the contract with the types of the build, and the plugin's world. */
function writeWit() {
  const deps = join(build, "wit/deps/berth");
  mkdirSync(deps, { recursive: true });
  for (const file of readdirSync(CONTRACT).filter((file) => file.endsWith(".wit"))) {
    cpSync(join(CONTRACT, file), join(deps, file));
  }
  narrow(deps);
  cpSync(join(plugin, "plugin.wit"), join(build, "wit/plugin.wit"));
}

function source() {
  const [file, other] = ["plugin.ts", "plugin.js"].map((name) => join(plugin, name)).filter(existsSync);
  if (other) refuse([`${plugin}: has plugin.ts and plugin.js; a plugin is one of them, so delete the other`]);
  if (!file) refuse([`${plugin}: has neither plugin.ts nor plugin.js`]);
  return file;
}

/** Refuses a plugin that exports nothing by default. esbuild would name an import that is in no file of the author's. */
async function checkDefaultExport() {
  const lacks = ({ text, location }) => location?.file === "<stdin>" && /^No matching export .* for import "default"$/.test(text);
  // All other errors are told when the bundle is made.
  const errors = await bundleOfPlugin().then(() => [], (error) => error.errors ?? []);
  const text = readFileSync(source(), "utf8");
  // A file without imports and exports is a script, for which esbuild makes up an empty default.
  const exportsNothing = errors.length === 0 && !/\bexports?\b/.test(text);
  if (!exportsNothing && !errors.some(lacks)) return;
  const [, own] = /\b(?:const|let|var)\s+(\w+)\s*:\s*Plugin\b/.exec(text) ?? /\b(?:const|let|var)\s+(\w+)\s*=\s*\{/.exec(text) ?? [];
  refuse([`${basename(source())}: exports no plugin: write export default ${own ?? "plugin"};`]);
}

/** Bundles the plugin, the SDK and the exports for componentize-qjs into one module. */
async function bundle() {
  const contents = `
    import "berth/console";
    import plugin from ${JSON.stringify(source())};
    import { serve } from "berth/serve";
    export const {
      lifecycle, sync, cycle, preEnqueue, queueSort, preFilter, filter, postFilter, preScore, score, normalizeScore,
      reserve, permit, preBindPreFlight, preBind, bind, postBind, queueingHint, sign, state, reuse, syncPods,
      explain,
    } = serve(plugin, ${JSON.stringify([...world.exported.keys()])});
  `;
  const bundled = await esbuild.build({
    // Paths in the bundle are relative to this folder. The bundle then does not depend on the folder's place.
    absWorkingDir: plugin,
    stdin: { contents, resolveDir: plugin },
    alias: {
      "berth/console": join(sdk, "src/console.js"),
      "berth/serve": join(sdk, "src/serve.js"),
      berth: join(sdk, "src/index.js"),
    },
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

/** Reports the exception of the module's first run in the engine, in the format of esbuild's errors. */
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

/** Bundles the plugin without the SDK's exports, for Node.js. */
function bundleOfPlugin() {
  return esbuild.build({
    stdin: { contents: `export { default } from ${JSON.stringify(source())};`, resolveDir: plugin },
    alias: { berth: join(sdk, "src/index.js"), "berth:scheduler/host@0.2.0": join(sdk, "host.mjs") },
    bundle: true,
    write: false,
    format: "esm",
    logLevel: "silent",
  });
}

/** Loads the plugin in Node.js. The result is undefined if the plugin does not load in Node.js. */
async function members() {
  const bundled = await bundleOfPlugin();
  const url = `data:text/javascript;base64,${Buffer.from(bundled.outputFiles[0].text).toString("base64")}`;
  // A failure here is ignored, because it happens again in the engine and is reported then.
  const { default: found } = await import(url).catch(() => ({}));
  return found;
}

/** The first line of the source with the quoted text of the message, otherwise with the member, as `:12`, otherwise "". */
function lineWith(message, member) {
  const quoted = /"[^"]*"/.exec(message)?.[0];
  const lines = readFileSync(source(), "utf8").split("\n");
  const ofText = quoted ? lines.findIndex((line) => line.replaceAll("'", '"').includes(quoted)) : -1;
  const written = new RegExp(`^\\s*(?:(?:async|static|get)\\s+)?${member.replaceAll("$", "\\$")}\\s*[:=(,]`);
  const at = ofText < 0 ? lines.findIndex((line) => written.test(line)) : ofText;
  return at < 0 ? "" : `:${at + 1}`;
}

/** The member for which the plugin needs the interface sync, as a sentence; undefined if it does not need sync. */
function needsOfReplica(found) {
  const member = ["columns", "objects"].find((name) => found?.[name]?.length > 0);
  const ofPods = ["pods", "podPlaced", "podRemoved"].find((name) => found?.[name]);
  return member || ofPods ? `${basename(source())} has ${member ?? ofPods}` : undefined;
}

/** Refuses a plugin with an invalid manifest or without the members of its exports. Warns of members that are never called. */
function checkMembers(found, text) {
  refuse(world.lacking(needsOfReplica(found)));
  if (typeof found !== "object" || found === null) return;
  const { exported } = world;
  const file = basename(source());
  const errors = missing(found, [...exported.keys()]).map(
    ([name, member]) =>
      `plugin.wit:${exported.get(name)}: exports ${name}, and ${file} has no ${member}: write it, or take the line away`,
  );
  try {
    manifestOf(found, false);
  } catch (error) {
    errors.push(`${file}${lineWith(error.message, error.message.split(":")[0])}: ${error.message}`);
  }
  if (typeof found.name === "string" && found.name !== name) {
    const both = `the name is "${found.name}", and build.sh makes ${name}.wasm: write the same name in both`;
    errors.push(`${file}${lineWith(both, "name")}: ${both}`);
  }
  for (const [name, sentence] of [...miscalled(found), ...misspelt(found, text)]) {
    errors.push(`${file}${lineWith("", name)}: ${sentence}`);
  }
  for (const name of membersOf(found)) {
    const needed = INTERFACES[name];
    if (needed === undefined || exported.has(needed)) continue;
    console.error(`warning: ${file}${lineWith("", name)}: ${name} is never called: plugin.wit lacks the line`);
    console.error(`    ${world.line("export", needed)}`);
  }
  refuse(errors);
}

function refuse(errors) {
  if (errors.length === 0) return;
  for (const error of errors) console.error(`error: ${error}`);
  process.exit(1);
}

/** Checks the plugin with the compiler of TypeScript. In plugin.js, it finds only errors that are certain without types. */
function checkTypes() {
  const isTypeScript = source().endsWith(".ts");
  const own = join(plugin, "tsconfig.json");
  const options = {
    ...(isTypeScript && existsSync(own) ? { extends: own } : {}),
    compilerOptions: {
      ...(isTypeScript && existsSync(own) ? {} : { strict: isTypeScript }),
      // A plugin has only the language, without the functions of browsers and Node.js.
      lib: ["es2023"],
      types: [],
      target: "es2023",
      module: "esnext",
      moduleResolution: "bundler",
      allowJs: true,
      checkJs: true,
      noEmit: true,
      skipLibCheck: true,
    },
    files: [source(), join(sdk, "src/index.d.ts"), join(sdk, "src/console.d.ts")],
    include: [],
  };
  const file = join(build, "tsconfig.json");
  writeFileSync(file, JSON.stringify(options));
  const compiler = join(resolve(toolchain), "node_modules/typescript/bin/tsc");
  const { status, stdout, stderr } = spawnSync(process.execPath, [compiler, "--project", file, "--pretty", "false"], {
    cwd: plugin,
    encoding: "utf8",
  });
  if (status === 0) return;
  const places = stdout.split("\n").map((line) => /^(.+)\((\d+),(\d+)\): error (TS\d+): (.*)$/.exec(line) ?? line);
  const errors = places.filter((it) => it !== "").map((place) => (typeof place === "string" ? `    ${place.trim()}` : typeError(place)));
  console.error(errors.length > 0 ? errors.join("\n") : stderr);
  process.exit(1);
}

function typeError([, file, line, column, code, message]) {
  const text = readFileSync(resolve(plugin, file), "utf8").split("\n")[line - 1].trim();
  return `error: ${file}:${line}:${column}: ${message} (${code})\n    ${text}`;
}

rmSync(build, { recursive: true, force: true });
writeWit();
await checkDefaultExport();
const { text, sources } = await bundle();
checkMembers(await members(), ownText(sources, plugin));
checkTypes();
const { component } = await componentize({
  witPath: join(build, "wit"),
  world: "plugin",
  jsSource: text,
  // The scheduler has no WASI.
  stubWasi: true,
  runtimeBytes: engine(resolve(toolchain)),
}).catch((error) => tell(error, sources));
writeFileSync(join(build, `${name}.wasm`), widen(component));
