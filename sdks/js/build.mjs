// Builds a plugin: bundles it with the SDK, and wraps the bundle and QuickJS into a component.
//
// usage: node build.mjs TOOLCHAIN FOLDER NAME

import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { linesOf } from "./lines.mjs";
import { widenWords } from "./words.mjs";

const [toolchain, folder, name] = process.argv.slice(2);
const require = createRequire(join(resolve(toolchain), "package.json"));
const esbuild = require("esbuild");
const { componentize } = require("componentize-qjs");

const sdk = dirname(fileURLToPath(import.meta.url));
const plugin = resolve(folder);
const build = join(plugin, "build");

/** The contract and the plugin's world, with words of bitmaps as pairs. */
function writeWit() {
  // The contract travels with the SDK; in Berth's own repository it lies at the root.
  const contract = [join(sdk, "wit"), join(sdk, "../../wit")].find(existsSync);
  const deps = join(build, "wit/deps/berth");
  mkdirSync(deps, { recursive: true });
  for (const file of readdirSync(contract).filter((file) => file.endsWith(".wit"))) {
    cpSync(join(contract, file), join(deps, file));
  }
  const types = join(deps, "types.wit");
  const text = readFileSync(types, "utf8");
  const pairs = text.replace("type rows = list<u64>;", "type rows = list<tuple<u32, u32>>;");
  if (pairs === text || text.includes("tuple<u32, u32>")) throw new Error(`${types}: bitmaps are no list<u64>; this SDK is for another contract`);
  writeFileSync(types, pairs);
  cpSync(join(plugin, "plugin.wit"), join(build, "wit/plugin.wit"));
}

/** One module of the plugin, the SDK, and the exports that componentize-qjs looks for. */
async function bundle() {
  const source = ["plugin.ts", "plugin.js"].map((file) => join(plugin, file)).find(existsSync);
  if (!source) throw new Error(`${plugin}: neither plugin.ts nor plugin.js`);
  const contents = `
    import plugin from ${JSON.stringify(source)};
    import { serve } from "berth/serve";
    export const {
      lifecycle, sync, cycle, preEnqueue, queueSort, preFilter, filter, postFilter, preScore, score, normalizeScore,
      reserve, permit, preBindPreFlight, preBind, bind, postBind, queueingHint, sign, state,
    } = serve(plugin);
  `;
  const bundled = await esbuild.build({
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
  const text = script.text + linesOf(JSON.parse(map.text), plugin);
  writeFileSync(join(build, "bundle.js"), text);
  return text;
}

rmSync(build, { recursive: true, force: true });
writeWit();
const { component } = await componentize({
  witPath: join(build, "wit"),
  world: "plugin",
  jsSource: await bundle(),
  // The scheduler offers neither WASI nor the asynchronous ABI.
  stubWasi: true,
  sync: true,
});
writeFileSync(join(build, `${name}.wasm`), widenWords(component));
