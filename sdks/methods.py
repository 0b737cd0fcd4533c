"""Compares the plugin's methods with the interfaces that plugin.wit exports. The SDKs' build.sh call this.

usage: methods.py LANGUAGE FOLDER   LANGUAGE is c, go or python

An interface that the contract lacks, or that no method answers, is an error, and this exits with 1. A method that is never
called, since plugin.wit does not export the interface that it belongs to, is worth a warning.
"""

import ast
import difflib
import pathlib
import re
import sys

# The methods that answer each interface, by their names in Python. One method of each group must exist.
ANSWERED_BY = {
    "score": [("score", "score_nodes", "score_columns")],
    "normalize-score": [("normalize", "normalize_columns")],
    "queue-sort": [("sort_key",)],
    "reserve": [("reserve",), ("unreserve",)],
    "state": [("snapshot",), ("restore",)],
    "reuse": [("reach",)],
}
ALIKE = """filter pre_enqueue pre_filter post_filter pre_score permit pre_bind_pre_flight pre_bind bind post_bind
queueing_hint sign"""
ANSWERED_BY.update((name.replace("_", "-"), [(name,)]) for name in ALIKE.split())

# The interface that calls each method.
INTERFACES = {name: interface for interface, groups in ANSWERED_BY.items() for group in groups for name in group}
INTERFACES.update(filter_nodes="filter", filter_columns="filter", pod_placed="sync", pod_removed="sync")

# The methods that exist only in Python.
COLUMNS = ("filter_columns", "score_columns", "normalize_columns")


class Methods:
    """What a plugin's files define: for each method its place and how it is written there."""

    def __init__(self):
        self.found = []
        # Names of methods that may be no answers, by what they take and give.
        self.others = set()
        # Whether more methods may come from elsewhere: a base class, an embedded value.
        self.may_have_more = False

    def add(self, path, line, written, name):
        self.found.append((path, line, written, name))

    @property
    def names(self):
        return {name for *_, name in self.found} | self.others


def of_python(folder):
    """Methods of the class that is decorated with `plugin`, and what is assigned there."""
    methods = Methods()
    path = folder / "plugin.py"
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        # componentize-py reports the error.
        return None
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    plugins = [it for it in classes.values() if any(ast.unparse(made).endswith("plugin") for made in it.decorator_list)]
    if not plugins:
        return None
    left = plugins
    while left:
        kind = left.pop()
        for base in map(ast.unparse, kind.bases):
            if base in classes:
                left.append(classes[base])
            else:
                methods.may_have_more = True
        for member in kind.body:
            if isinstance(member, ast.FunctionDef):
                methods.add(path, member.lineno, member.name, member.name)
            elif isinstance(member, ast.Assign):
                for target in member.targets:
                    if isinstance(target, ast.Name):
                        methods.add(path, member.lineno, target.id, target.id)
    return methods


def of_go(folder):
    """Methods of any type. A method with a type of the SDK or with bytes in its signature is meant as an answer; compile.py has
    the compiler look at the signatures."""
    methods = Methods()
    files = [path for path in sorted(folder.glob("*.go")) if not path.name.endswith("_test.go")]
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r"func \([^)]*\) (\w+)\((.*)", line)
            if found:
                written, signature = found.groups()
                name = re.sub(r"(?<!^)(?=[A-Z])", "_", written).lower()
                if re.search(r"\*berth\.|\[\]byte", signature):
                    methods.add(path, number, written, name)
                else:
                    methods.others.add(name)
            # An embedded value: a type alone on a line of a struct.
            if re.match(r"\t\*?[\w.]+$", line):
                methods.may_have_more = True
    return methods if files else None


def of_c(folder):
    """Members that are set: `.pre_filter = pre_filter`."""
    methods = Methods()
    for path in sorted(folder.glob("*.c")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for written in re.findall(r"(?:^|[{,])\s*\.(\w+)\s*=", line):
                methods.add(path, number, written, written)
    # If there is not a single name, the members are set in another way.
    return methods if "name" in methods.names else None


# The fields that only nodes have, with the columns that contain them. Fields cannot report reads, so the sources are
# searched.
GO_FIELDS = {
    "Unschedulable": ["Unschedulable"],
    "Taints": ["Taints"],
    "Allocatable": ["Allocatable"],
    "Requested": ["Requested"],
    "PodCount": ["PodCount"],
    "DeclaredFeatures": ["DeclaredFeatures"],
    "Annotations": ["Annotation"],
}
# The fields that pods have as well. They are searched with the name that node variables usually have.
GO_NODE_FIELDS = {"Name": ["Name"], "Labels": ["Labels", "Label"], "Images": ["Images"], "HostPorts": ["HostPorts"]}


# Members of a manifest in Go, each with the read that needs it. Without the member, the read returns nothing.
GO_MEMBERS = {"PodJSON": r"\bpod\.JSON\b", "Pods": r"\bnode\.Pods\b", "Objects": r"\bberth\.Objects\("}


def undeclared_in_go(folder, methods):
    """Fields of nodes that the plugin reads, with their places, though no column brings them. Nodes of events have some of them
    whatever the manifest says: a plugin with a hint is not searched. One that follows pods has those of nodes without more."""
    files = [path for path in sorted(folder.glob("*.go")) if not path.name.endswith("_test.go")]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    everything = "\n".join(texts.values())
    if "QueueingHint(" in everything:
        return
    for pattern, fields in ((r"(?<![\w.])(?!berth\.)\w+\.{}\b", GO_FIELDS), (r"\bnode\.{}\b", GO_NODE_FIELDS)):
        for field, columns in fields.items():
            if any(re.search(rf"\bberth\.{column}\b", everything) for column in columns):
                continue
            for path, text in texts.items():
                for number, line in enumerate(text.splitlines(), 1):
                    if re.search(pattern.format(field), line.partition("//")[0]):
                        yield path, number, f".{field}", columns[0]
    for member, read in GO_MEMBERS.items():
        follows = member == "Pods" and {"pod_placed", "pod_removed"} <= methods.names
        if follows or re.search(rf"\b{member}\s*:", everything):
            continue
        for path, text in texts.items():
            for number, line in enumerate(text.splitlines(), 1):
                found = re.search(read, line.partition("//")[0])
                if found:
                    yield path, number, found.group(0), member


def spelled(language, name):
    return "".join(part.capitalize() for part in name.split("_")) if language == "go" else name


def contract():
    """The contract's version, the interfaces that a plugin may export, and those that it may import. It travels with the SDK; in
    Berth's own repository it lies at the root."""
    here = pathlib.Path(__file__).resolve().parent
    text = next(file for file in (here / "wit/worlds.wit", here.parent / "wit/worlds.wit") if file.exists()).read_text()
    everything = re.search(r"^world all \{(.*?)^\}", text, re.MULTILINE | re.DOTALL).group(1)
    version = re.search(r"^package berth:scheduler@(.*);", text, re.MULTILINE).group(1)
    return version, {word: re.findall(rf"^ *{word} ([a-z-]+);", everything, re.MULTILINE) for word in ("export", "import")}


def unknown(lines):
    """A sentence for each line of plugin.wit that names an interface or a version that the contract does not have."""
    version, known = contract()
    for number, line in enumerate(lines, 1):
        found = re.match(r"\s*(export|import) berth:scheduler/([^@;\s]+)(?:@([^;\s]+))?\s*;", line)
        if not found:
            continue
        word, name, written = found.groups()
        if name not in known[word]:
            alike = difflib.get_close_matches(name, known[word], 1)
            hint = f" (did you mean {alike[0]}?)" if alike else f" to {word}; there are {', '.join(known[word])}"
            yield f"plugin.wit:{number}: there is no interface {name}{hint}"
        elif written != version:
            yield f"plugin.wit:{number}: this SDK has @{version}: write {word} berth:scheduler/{name}@{version};"


def missing(language, methods, exported):
    """A sentence for each exported interface that lacks a method."""
    where = {"c": "berth_plugin has no .", "go": "the plugin has no method ", "python": "plugin.py has no method "}[language]
    for interface, number in exported.items():
        for group in ANSWERED_BY.get(interface, []):
            if methods.names.isdisjoint(group):
                known = [spelled(language, name) for name in group if language == "python" or name not in COLUMNS]
                yield f"plugin.wit:{number}: exports {interface}, and {where}{' or '.join(known)}: write it, or take the line away"


def refuse(errors):
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    if errors:
        sys.exit(1)


def main():
    language, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    lines = (folder / "plugin.wit").read_text(encoding="utf-8").splitlines()
    refuse(list(unknown(lines)))
    found = ((re.match(r" *export berth:scheduler/([a-z-]+)@", line), number) for number, line in enumerate(lines, 1))
    exported = {match.group(1): number for match, number in found if match}
    methods = {"c": of_c, "go": of_go, "python": of_python}[language](folder)
    if methods is None:
        return
    for path, number, written, name in methods.found:
        interface = INTERFACES.get(name)
        if interface and interface not in exported:
            print(f"warning: {path.name}:{number}: {written} is never called: plugin.wit lacks the line", file=sys.stderr)
            print(f"    export berth:scheduler/{interface}@0.2.0;", file=sys.stderr)
    if language == "go":
        for path, number, field, column in undeclared_in_go(folder, methods):
            lack = f"the member {column}" if column in GO_MEMBERS else f"berth.{column} among its Columns"
            print(f"warning: {path.name}:{number}: reads {field}, which is always empty: the manifest lacks {lack}", file=sys.stderr)
    refuse([] if methods.may_have_more else list(missing(language, methods, exported)))


main()
