"""Reads a plugin's plugin.wit and compares it with the contract. methods.py imports it. world.mjs compares it for
JavaScript.

The tools that come later know WIT, but not the needs of the SDK, and the tools of Python do not name the line.
"""

import difflib
import pathlib
import re

PACKAGE = "berth:scheduler"

# The interfaces that each SDK imports or exports for every plugin.
ALWAYS = ("import host", "export lifecycle")


def _contract_folder():
    """The contract is copied together with the SDK. Berth's own repository has it at the root."""
    here = pathlib.Path(__file__).resolve().parent
    return next(folder for folder in (here / "wit", here.parent / "wit") if folder.is_dir())


class Contract:
    def __init__(self):
        folder = _contract_folder()
        text = (folder / "worlds.wit").read_text(encoding="utf-8")
        everything = re.search(r"^world all \{(.*?)^\}", text, re.MULTILINE | re.DOTALL).group(1)
        self.version = re.search(rf"^package {PACKAGE}@(.*);", text, re.MULTILINE).group(1)
        # The interfaces that a plugin may export, and the interfaces that a plugin may import.
        self.known = {word: re.findall(rf"^ *{word} ([a-z-]+);", everything, re.MULTILINE) for word in ("export", "import")}
        # The interfaces whose functions have a cycle.
        self.in_cycle = {
            file.stem for file in folder.glob("*.wit") if "cycle: cycle-id" in file.read_text(encoding="utf-8")
        } - {"cycle"}

    def line(self, word, name):
        return f"{word} {PACKAGE}/{name}@{self.version};"


class Line:
    """A line that imports or exports an interface."""

    PATTERN = re.compile(r"\s*(?:(\S+)\s+)?([\w-]+:[\w-]+)/([^@;\s]+)(?:@([^;\s]+))?\s*(;?)\s*(.*)$")

    def __init__(self, number, found):
        self.number = number
        self.word, self.package, self.name, self.version, self.semicolon, self.rest = found.groups()


class World:
    """The content of plugin.wit. Each entry of `mistakes` is a sentence about one line."""

    def __init__(self, text):
        self.contract = Contract()
        self.mistakes = []
        # The lines that export interfaces, and the lines that import interfaces, by interface.
        self.exported, self.imported = {}, {}
        # The line of the world.
        self.opened = None
        without = re.sub(r"/\*.*?\*/", lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=re.DOTALL)
        self.lines = [line.partition("//")[0].rstrip() for line in without.splitlines()]
        for number, line in enumerate(self.lines, 1):
            self._read(number, line)
        self._check_frame()

    def _tell(self, number, sentence):
        self.mistakes.append(f"plugin.wit:{number}: {sentence}")

    def _read(self, number, line):
        found = Line.PATTERN.match(line)
        if found and not re.match(r"\s*(package|use|include)\b", line):
            self._read_interface(Line(number, found))
        elif (found := re.search(r"\bworld\s+%?([\w-]+)", line)) and self.opened is None:
            self.opened = number
            if found.group(1) != "plugin":
                self._tell(number, f"the world is called {found.group(1)}: write world plugin {{")
        elif re.match(r"\s*(package|import|export|use|include)\b.*[\w}]$", line):
            self._tell(number, f"the line has no semicolon at its end: write {line.strip()};")

    def _read_interface(self, line):
        known = self.contract.known
        if line.word not in known:
            word = "import" if line.name in known["import"] else "export"
            lack = f"{line.word} is neither import nor export" if line.word else "the line begins with neither import nor export"
            return self._tell(line.number, f"{lack}: write {self.contract.line(word, line.name)}")
        if line.package != PACKAGE:
            return self._tell(line.number, f"there is no package {line.package}; a plugin has {PACKAGE} alone")
        self._check_name(line)
        if not line.semicolon:
            at = f"@{line.version}" if line.version else ""
            written = f"{line.word} {PACKAGE}/{line.name}{at}{line.rest};"
            self._tell(line.number, f"the line has no semicolon at its end: write {written}")
        elif line.rest not in ("", "}"):
            self._tell(line.number, "the line has more than one statement: write each on a line of its own")
        found = self.exported if line.word == "export" else self.imported
        if line.name in found:
            self._tell(line.number, f"{line.word}s {line.name} a second time: take the line away")
        found.setdefault(line.name, line.number)

    def _check_name(self, line):
        names = self.contract.known[line.word]
        if line.name not in names:
            alike = difflib.get_close_matches(line.name, names, 1)
            hint = f" (did you mean {alike[0]}?)" if alike else f" to {line.word}; there are {', '.join(names)}"
            self._tell(line.number, f"there is no interface {line.name}{hint}")
        elif line.version != self.contract.version:
            self._tell(line.number, f"this SDK has @{self.contract.version}: write {self.contract.line(line.word, line.name)}")

    def _check_frame(self):
        code = "\n".join(self.lines)
        last = max((number for number, line in enumerate(self.lines, 1) if line.strip()), default=1)
        if not re.search(r"^\s*package\s", code, re.MULTILINE):
            self._tell(1, "the package has no name: write package local:plugin;")
        if self.opened is None:
            self._tell(last, "there is no world: write world plugin { before the lines and } after them")
        elif code.count("{") > code.count("}"):
            self._tell(last, "the world is not closed: write } after this line")
        elif code.count("{") < code.count("}"):
            self._tell(last, "there are more } than {: take one away")

    def lacking(self, because=None):
        """A sentence for each line that plugin.wit lacks. `because` is the reason why the plugin needs sync, or None."""
        for line in ALWAYS:
            word, name = line.split()
            if name not in (self.exported if word == "export" else self.imported):
                line = self.contract.line(word, name)
                yield f"plugin.wit:{self.opened}: the world lacks a line that every plugin needs: {line}"
        if "cycle" not in self.exported:
            for name, number in self.exported.items():
                if name in self.contract.in_cycle:
                    yield f"plugin.wit:{number}: exports {name}, which needs one more line: {self.contract.line('export', 'cycle')}"
                    break
        if "sync" not in self.exported:
            line = self.contract.line("export", "sync")
            if "sync-pods" in self.exported:
                yield f"plugin.wit:{self.exported['sync-pods']}: exports sync-pods, which needs one more line: {line}"
            elif because:
                yield f"plugin.wit:{self.opened}: the world lacks a line, since {because}: {line}"
