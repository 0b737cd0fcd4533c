// Reads a plugin's plugin.wit and compares it with the contract. world.py does the same for the other languages.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { distance } from "./src/nearest.js";

const sdk = dirname(fileURLToPath(import.meta.url));

/** The contract is copied together with the SDK. Berth's own repository has it at the root. */
export const CONTRACT = [join(sdk, "wit"), join(sdk, "../../wit")].find(existsSync);

const PACKAGE = "berth:scheduler";

const textOf = (file) => readFileSync(join(CONTRACT, file), "utf8");

/** The version, the interfaces that a plugin may export or import, and the interfaces whose functions have a cycle. */
function readContract() {
  const text = textOf("worlds.wit");
  const [, everything] = /^world all \{(.*?)^\}/ms.exec(text);
  const named = (word) => Array.from(everything.matchAll(new RegExp(`^ *${word} ([a-z-]+);`, "gm")), ([, name]) => name);
  const files = readdirSync(CONTRACT).filter((file) => file.endsWith(".wit") && file !== "cycle.wit");
  const inCycle = files.filter((file) => textOf(file).includes("cycle: cycle-id")).map((file) => file.slice(0, -".wit".length));
  return { version: /^package berth:scheduler@(.*);/m.exec(text)[1], export: named("export"), import: named("import"), inCycle };
}

/** A line that imports or exports an interface: the keyword, package, name, version, semicolon, and the text after it. */
const INTERFACE = /^\s*(?:(\S+)\s+)?([\w-]+:[\w-]+)\/([^@;\s]+)(?:@([^;\s]+))?\s*(;?)\s*(.*)$/;

/** The content of plugin.wit. Each entry of `mistakes` is a sentence about one line. */
export class World {
  mistakes = [];
  /** The lines that export interfaces, and the lines that import interfaces, by interface. */
  exported = new Map();
  imported = new Map();
  /** The line of the world. */
  opened = null;
  #contract = readContract();

  constructor(text) {
    const without = text.replace(/\/\*[^]*?\*\//g, (comment) => comment.replace(/[^\n]/g, " "));
    const lines = without.replace(/\n$/, "").split("\n").map((line) => line.replace(/\/\/.*/, "").trimEnd());
    lines.forEach((line, at) => this.#read(at + 1, line));
    this.#checkFrame(lines);
  }

  line(word, name) {
    return `${word} ${PACKAGE}/${name}@${this.#contract.version};`;
  }

  #tell(number, sentence) {
    this.mistakes.push(`plugin.wit:${number}: ${sentence}`);
  }

  #read(number, line) {
    const found = INTERFACE.exec(line);
    if (found && !/^\s*(package|use|include)\b/.test(line)) {
      this.#readInterface(number, found);
      return;
    }
    const world = /\bworld\s+%?([\w-]+)/.exec(line);
    if (world && this.opened === null) {
      this.opened = number;
      if (world[1] !== "plugin") this.#tell(number, `the world is called ${world[1]}: write world plugin {`);
    } else if (/^\s*(package|import|export|use|include)\b.*[\w}]$/.test(line)) {
      this.#tell(number, `the line has no semicolon at its end: write ${line.trim()};`);
    }
  }

  #readInterface(number, [, word, home, name, version, semicolon, rest]) {
    if (word !== "import" && word !== "export") {
      const meant = this.#contract.import.includes(name) ? "import" : "export";
      const lack = word ? `${word} is neither import nor export` : "the line begins with neither import nor export";
      this.#tell(number, `${lack}: write ${this.line(meant, name)}`);
      return;
    }
    if (home !== PACKAGE) {
      this.#tell(number, `there is no package ${home}; a plugin has ${PACKAGE} alone`);
      return;
    }
    this.#checkName(number, word, name, version);
    if (!semicolon) {
      const written = `${word} ${PACKAGE}/${name}${version ? `@${version}` : ""}${rest};`;
      this.#tell(number, `the line has no semicolon at its end: write ${written}`);
    } else if (rest !== "" && rest !== "}") {
      this.#tell(number, "the line has more than one statement: write each on a line of its own");
    }
    const found = word === "export" ? this.exported : this.imported;
    if (found.has(name)) this.#tell(number, `${word}s ${name} a second time: take the line away`);
    else found.set(name, number);
  }

  #checkName(number, word, name, version) {
    const names = this.#contract[word];
    if (!names.includes(name)) {
      const [near] = [...names].sort((one, other) => distance(name, one) - distance(name, other));
      const isAlike = distance(name, near) * 2 <= name.length;
      const hint = isAlike ? ` (did you mean ${near}?)` : ` to ${word}; there are ${names.join(", ")}`;
      this.#tell(number, `there is no interface ${name}${hint}`);
    } else if (version !== this.#contract.version) {
      this.#tell(number, `this SDK has @${this.#contract.version}: write ${this.line(word, name)}`);
    }
  }

  #checkFrame(lines) {
    const code = lines.join("\n");
    const last = Math.max(lines.findLastIndex((line) => line.trim() !== "") + 1, 1);
    const count = (letter) => code.split(letter).length - 1;
    if (!/^\s*package\s/m.test(code)) this.#tell(1, "the package has no name: write package local:plugin;");
    if (this.opened === null) {
      this.#tell(last, "there is no world: write world plugin { before the lines and } after them");
    } else if (count("{") > count("}")) {
      this.#tell(last, "the world is not closed: write } after this line");
    } else if (count("{") < count("}")) {
      this.#tell(last, "there are more } than {: take one away");
    }
  }

  /** A sentence for each line that plugin.wit lacks. `because` is the reason why the plugin needs sync, if it needs sync. */
  lacking(because) {
    const sentences = [];
    const lacks = (number, reason, line) => sentences.push(`plugin.wit:${number}: ${reason}: ${line}`);
    const always = "the world lacks a line that every plugin needs";
    if (!this.imported.has("host")) lacks(this.opened, always, this.line("import", "host"));
    if (!this.exported.has("lifecycle")) lacks(this.opened, always, this.line("export", "lifecycle"));
    const needing = this.exported.has("cycle") ? undefined : [...this.exported.keys()].find((name) => this.#contract.inCycle.includes(name));
    if (needing) lacks(this.exported.get(needing), `exports ${needing}, which needs one more line`, this.line("export", "cycle"));
    if (!this.exported.has("sync")) {
      const line = this.line("export", "sync");
      const pods = this.exported.get("sync-pods");
      if (pods) lacks(pods, "exports sync-pods, which needs one more line", line);
      else if (because) lacks(this.opened, `the world lacks a line, since ${because}`, line);
    }
    return sentences;
  }
}
