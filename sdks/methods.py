"""Warns of methods that are never called, since plugin.wit does not export the interface that they belong to. The SDKs'
build.sh call this.

usage: methods.py LANGUAGE FOLDER   LANGUAGE is c, go or python
"""

import ast
import pathlib
import re
import sys

# Methods by their names in Python, and their interfaces where these are not spelled alike.
INTERFACES = {
    "filter_nodes": "filter",
    "filter_columns": "filter",
    "score_nodes": "score",
    "score_columns": "score",
    "normalize": "normalize-score",
    "normalize_columns": "normalize-score",
    "sort_key": "queue-sort",
    "unreserve": "reserve",
    "snapshot": "state",
    "restore": "state",
    "pod_placed": "sync",
    "pod_removed": "sync",
}
ALIKE = """filter score pre_enqueue pre_filter post_filter pre_score reserve permit pre_bind_pre_flight pre_bind bind post_bind
queueing_hint sign"""
INTERFACES.update((name, name.replace("_", "-")) for name in ALIKE.split())


def of_python(folder):
    """Methods of the class that is decorated with `plugin`, and what is assigned there."""
    path = folder / "plugin.py"
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        # componentize-py tells.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(ast.unparse(it).endswith("plugin") for it in node.decorator_list):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    yield path, member.lineno, member.name, member.name
                elif isinstance(member, ast.Assign):
                    yield from ((path, member.lineno, it.id, it.id) for it in member.targets if isinstance(it, ast.Name))


def of_go(folder):
    """Methods of any type whose parameters are the SDK's, or bytes."""
    for path in sorted(folder.glob("*.go")):
        if path.name.endswith("_test.go"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r"func \([^)]*\) (\w+)\(.*(\*berth\.|\[\]byte)", line)
            if found:
                name = found.group(1)
                yield path, number, name, re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def of_c(folder):
    """Members that are set: `.pre_filter = pre_filter`."""
    for path in sorted(folder.glob("*.c")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r"\s*\.(\w+)\s*=", line)
            if found:
                yield path, number, found.group(1), found.group(1)


def main():
    language, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if language == "python":
        # The SDKs for C and Go do not have it.
        INTERFACES["reach"] = "reuse"
    exported = re.findall(r"^ *export berth:scheduler/([a-z-]+)@", (folder / "plugin.wit").read_text(), re.MULTILINE)
    for path, number, name, method in {"c": of_c, "go": of_go, "python": of_python}[language](folder):
        interface = INTERFACES.get(method)
        if interface and interface not in exported:
            print(f"warning: {path.name}:{number}: {name} is never called: plugin.wit lacks the line", file=sys.stderr)
            print(f"    export berth:scheduler/{interface}@0.2.0;", file=sys.stderr)


main()
