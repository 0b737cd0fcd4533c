"""Compiles the module that the build made. Error messages of Go then name the plugin's own files.

usage: compile.py GO FOLDER MODULE OUTPUT   compiles MODULE, which is inside the plugin's FOLDER, to OUTPUT

If the signature of a method differs from the SDK's, Go compiles the method, but the SDK never calls it. To report the mistake,
the option `-overlay` adds a file to the plugin's package. The file asserts the SDK's interfaces of which the plugin has a method.
"""

import json
import pathlib
import re
import subprocess
import sys

SDK = pathlib.Path(__file__).resolve().parent / "berth"
# The name of the added file. The file is never in the plugin's folder.
ADDED = "berth-signatures.go"


class Plugin:
    """A type of the plugin's package. `methods` has the place of each method, by the method's name."""

    def __init__(self, name, package):
        self.name, self.package = name, package
        self.methods = {}
        # Whether `berth.Register` gets a value. A value does not have the methods of its pointer.
        self.is_value = False


def plugins(folder):
    """The registered type. If the source does not show the type, all types with the method Describe."""
    types, text = {}, ""
    for path in sorted(folder.glob("*.go")):
        if path.name.endswith("_test.go"):
            continue
        source = path.read_text(encoding="utf-8")
        text += source
        package = re.search(r"^package (\w+)", source, re.MULTILINE)
        for found in re.finditer(r"^func \((?:\w+ )?\*?(\w+)\) (\w+)\(", source, re.MULTILINE):
            plugin = types.setdefault(found.group(1), Plugin(found.group(1), package and package.group(1)))
            line = source.count("\n", 0, found.start()) + 1
            plugin.methods[found.group(2)] = f"{path.name}:{line}"
    registered = re.search(r"\bRegister\((&|new\()?(\w+)\b", text)
    if registered and registered.group(2) in types:
        plugin = types[registered.group(2)]
        plugin.is_value = not registered.group(1)
        return [plugin]
    return [plugin for plugin in types.values() if "Describe" in plugin.methods]


def interfaces(module):
    """The methods of the SDK's interfaces that the module tests a plugin for, by the interface's name."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in SDK.glob("*.go"))
    declared = re.findall(r"^type (\w+) interface \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    methods = {name: re.findall(r"^\t(\w+)\(", body, re.MULTILINE) for name, body in declared}
    glue = "\n".join(path.read_text(encoding="utf-8") for path in module.rglob("*.go"))
    return {name: methods[name] for name in sorted(set(re.findall(r"\.\(berth\.(\w+)\)", glue)))}


class Check:
    """A check that a plugin implements one of the SDK's interfaces."""

    def __init__(self, plugin, interface, methods):
        self.plugin, self.interface = plugin, interface
        self.found = [name for name in methods if name in plugin.methods]

    def line(self):
        value = f"*new({self.plugin.name})" if self.plugin.is_value else f"(*{self.plugin.name})(nil)"
        return f"var _ berth.{self.interface} = {value}\n"

    def error(self, reason, wanted):
        """The error message for Go's reason, such as `wrong type for method Score` or `missing method PodRemoved`."""
        method = re.search(r"method (\w+)", reason).group(1)
        place = self.plugin.methods.get(method)
        if place is None:
            method, lacking = self.found[0], method
            return f"{self.plugin.methods[method]}: {method} is never called: the plugin has no {lacking}"
        if "pointer receiver" in reason:
            name = self.plugin.name
            return f"{place}: {method} is never called: write berth.Register(&{name}{{..}}), since {method} is a method of *{name}"
        return f"{place}: {method} has another signature than the SDK's: {wanted}"


def overlay(folder, module, checks):
    # The file is in a folder of its own, because the module's folder is a package.
    home = module / "signatures"
    home.mkdir()
    lines = [f'package {checks[0].plugin.package}; import "berth"\n', *(check.line() for check in checks)]
    (home / ADDED).write_text("".join(lines))
    file = home / "overlay.json"
    file.write_text(json.dumps({"Replace": {str(folder / ADDED): str(home / ADDED)}}))
    return file


def in_own_terms(said, folder, checks):
    """Go's output with two changes: paths are relative to the plugin's folder, and the errors of the checks are sentences."""

    def in_words(found):
        line, reason, wanted = found.groups()
        # The first line of the added file is not a check.
        return f"error: {checks[int(line) - 2].error(reason, wanted)}\n"

    said = re.sub(r"^# .*\n", "", said, flags=re.MULTILINE)
    said = re.sub(rf"^\S*{ADDED}:(\d+):.*\((.*)\)\n(?:\t\thave .*\n\t\twant (.*)\n)?", in_words, said, flags=re.MULTILINE)
    said = re.sub(r"^go: module \.\./\.\. requires", "go.mod: the module requires", said, flags=re.MULTILINE)
    # If a package of the plugin's own module is missing, Go searches for another module with that path.
    own = re.escape(re.search(r"^module\s+(\S+)", (folder / "go.mod").read_text(encoding="utf-8"), re.MULTILINE).group(1))
    said = re.sub(rf"^go: finding module for package {own}/.*\n", "", said, flags=re.MULTILINE)
    absent = rf"^(\S+:\d+:\d+): .*?\bmodule\b.*?\b{own}/([\w./-]*\w).*"
    said = re.sub(absent, r"\1: there is no package in the folder \2", said, flags=re.MULTILINE)
    return re.sub(rf"(?<![\w/])(?:\.\./\.\./|{re.escape(str(folder))}/)(?=[^\s:]+\.(?:go|mod):\d)", "", said)


def main():
    go, folder, module, output = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    asked = interfaces(module).items()
    checks = [Check(plugin, interface, methods) for plugin in plugins(folder) for interface, methods in asked]
    checks = [check for check in checks if check.found]
    # The names of functions stay in the component, for the stacks of faults. They are 2 % of its bytes.
    command = [go, "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-w", "-o", output]
    if checks:
        command.append(f"-overlay={overlay(folder, module, checks)}")
    ended = subprocess.run([*command, "."], cwd=module, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(in_own_terms(ended.stderr, folder, checks))
    sys.exit(ended.returncode)


main()
