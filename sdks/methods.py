"""Compares the plugin's methods with the interfaces that plugin.wit exports. The SDKs' build.sh call this.

usage: methods.py LANGUAGE FOLDER [NAME]   LANGUAGE is c, go or python, NAME the name of the component

A name of the plugin that is not the component's is an error, because the scheduler refuses such a component. An interface is an error
if the contract lacks it, or if the plugin lacks its methods. After an error the script exits with 1. A method is a warning if plugin.wit
does not export its interface, because the method is never called.
"""

import ast
import pathlib
import re
import sys

from world import World

# The module members is in the SDK for Python. A plugin's copy of the SDK has it beside this file.
sys.path.append(str(pathlib.Path(__file__).resolve().parent / "python"))

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
queueing_hint sign explain"""
ANSWERED_BY.update((name.replace("_", "-"), [(name,)]) for name in ALIKE.split())

# The interface that calls each method.
INTERFACES = {name: interface for interface, groups in ANSWERED_BY.items() for group in groups for name in group}
INTERFACES.update(filter_nodes="filter", filter_columns="filter", pod_placed="sync", pod_removed="sync")

# The members for which the plugin has a replica of the cluster.
KEPT_IN_STEP = "columns label_keys annotation_keys pods objects pod_placed pod_removed".split()

# The methods that exist only in Python.
COLUMNS = ("filter_columns", "score_columns", "normalize_columns")


class Methods:
    """The methods of a plugin's files: for each method, its place and its name in the plugin's language."""

    def __init__(self):
        self.found = []
        # The names of methods with signatures that the plugin's methods do not have. They may belong to another type.
        self.others = set()
        # Whether the plugin may have methods that the files do not show, from a base class or an embedded value.
        self.may_have_more = False

    def add(self, path, line, written, name):
        self.found.append((path, line, written, name))

    @property
    def names(self):
        return {name for *_, name in self.found} | self.others


def of_python(folder):
    """The members of the class with the decorator `plugin`, and of its base classes in the folder."""
    from members import Folder

    plugin = Folder(folder).plugin()
    if plugin is None:
        return None
    methods = Methods()
    methods.may_have_more = plugin.may_have_more
    for member in plugin.members:
        # An empty list and False request nothing.
        is_empty = isinstance(member.value, ast.List | ast.Tuple) and not member.value.elts
        if not is_empty and not (isinstance(member.value, ast.Constant) and member.value.value is False):
            methods.add(str(member.path), member.node.lineno, member.name, member.name)
    return methods


def sources(language, folder):
    """The plugin's files in C or Go, without its tests."""
    return [path for path in sorted(folder.glob(f"*.{language}")) if not path.name.endswith("_test.go")]


def of_go(folder):
    """The methods of all types. A method belongs to the plugin if its signature has a type of the SDK or bytes. compile.py checks
    the signatures with the compiler."""
    methods = Methods()
    files = sources("go", folder)
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = re.match(r"func \([^)]*\) (\w+)\((.*)", line)
            if found:
                written, signature = found.groups()
                name = re.sub(r"(?<!^)(?=[A-Z])", "_", written).lower()
                if re.search(r"\*berth\.|\[\]byte", signature):
                    methods.add(path.name, number, written, name)
                else:
                    methods.others.add(name)
            # An embedded value is a type alone on a line of a struct.
            if re.match(r"\t\*?[\w.]+$", line):
                methods.may_have_more = True
    return methods if files else None


# A member in C that is set to nothing is no member.
SET_TO_NOTHING = r"\s*(?:NULL|0|false|\(void\s*\*\)\s*0)\s*(?:[,}]|/[/*]|$)"


def of_c(folder):
    """The members that the source sets: `.pre_filter = pre_filter`."""
    methods = Methods()
    for path in sources("c", folder):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for written in re.findall(rf"(?:^|[{{,])\s*\.(\w+)\s*=(?!{SET_TO_NOTHING})", line):
                methods.add(path.name, number, written, written)
    # If the source has no name of a member, it sets the members in another way.
    return methods if "name" in methods.names else None


# The fields that only nodes have, with the columns that contain them. The sources are searched for these fields, because the SDKs
# for C and Go cannot log reads of fields.
GO_FIELDS = {
    "Unschedulable": ["Unschedulable"],
    "Taints": ["Taints"],
    "Allocatable": ["Allocatable"],
    "Requested": ["Requested"],
    "PodCount": ["PodCount"],
    "DeclaredFeatures": ["DeclaredFeatures"],
    "Annotations": ["Annotation"],
}
# The fields that nodes and pods have. The sources are searched for them after the usual name of a node variable.
GO_NODE_FIELDS = {"Name": ["Name"], "Labels": ["Labels", "Label"], "Images": ["Images"], "HostPorts": ["HostPorts"]}


# The members of a manifest in Go, with the reads that need them. Without the member, the read returns nothing.
GO_MEMBERS = {"PodJSON": r"\bpod\.JSON\b", "Pods": r"\bnode\.Pods\b", "Objects": r"\bberth\.Objects\("}

# The functions that panic without a member of the manifest. A plugin that follows pods needs neither member.
GO_PANICS = {"berth.Pods": "Pods", "berth.Nodes": "Columns"}


# The fields that the node of an event has without a request, as `record node` in wit/types.wit. It has no other fields.
GO_EVENT_NODE_FIELDS = {"Name", "Unschedulable", "Labels", "Taints", "Allocatable", "DeclaredFeatures"}
# A read of a field that the node of an event lacks.
GO_EVENT_NODE = re.compile(
    r"\b(?:Old|New)Node\.(?:Annotations|Requested|NonZeroMilliCPU|NonZeroMemory|PodCount|Images|HostPorts|Pods)\b"
)


def lacking_of_event_nodes_in_go(folder):
    """The fields that the plugin reads of a node of an event although such nodes lack them, with the places of the reads."""
    for path in sources("go", folder):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for read in GO_EVENT_NODE.findall(line.partition("//")[0]):
                yield path, number, read


# The methods that get nodes of the table.
GO_NODE_METHODS = "Filter Score Reserve Unreserve Permit PreBindPreFlight PreBind Bind PostBind PodPlaced PodRemoved Explain".split()


def table_nodes_in_go(text):
    """The lines of a file without their comments. With each line come its number and the variables that are nodes of the table, and
    not nodes of events: parameters of the plugin's methods, and variables of loops over berth.Nodes()."""
    lists, nodes = set(), set()
    for number, line in enumerate(text.splitlines(), 1):
        code = line.partition("//")[0]
        method = re.match(r"func \([^)]*\) (\w+)\(", code)
        if re.match(r"func\b", code):
            lists = {"berth.Nodes()", *re.findall(r"\b(\w+) \[\]\*berth\.Node\b", code)}
            nodes = set(re.findall(r"\b(\w+) \*berth\.Node\b", code) if method and method.group(1) in GO_NODE_METHODS else ())
        lists.update(re.findall(r"\b(\w+) :?= berth\.Nodes\(\)", code))
        nodes.update(node for node, ranged in re.findall(r"\bfor \w+, (\w+) := range ([\w.]+(?:\(\))?)", code) if ranged in lists)
        if any(f"({given}, func(" in code for given in lists):
            # A function that is called with each node: slices.IndexFunc(berth.Nodes(), func(node *berth.Node) bool { .. }).
            nodes.update(re.findall(r"\bfunc\((\w+) \*berth\.Node\)", code))
        yield number, code, nodes


def reads_in_go(text, pattern, field, is_of_events):
    """The numbers of the lines that read a field of a node. If nodes of events have the field, only nodes of the table count."""
    for number, code, nodes in table_nodes_in_go(text):
        patterns = [rf"(?<![\w.]){node}\.{field}\b" for node in sorted(nodes)] if is_of_events else [pattern.format(field)]
        if any(re.search(it, code) for it in patterns):
            yield number


def undeclared_in_go(folder, methods):
    """The fields of nodes that the plugin reads without requesting their columns, with the places of the reads. In a plugin with
    a hint, a node may be the node of an event, which has some fields without a request. A plugin that follows pods has node.Pods
    without a request."""
    files = sources("go", folder)
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    everything = "\n".join(texts.values())
    unasked = GO_EVENT_NODE_FIELDS if "QueueingHint(" in everything else set()
    for pattern, fields in ((r"(?<![\w.])(?!berth\.)\w+\.{}\b", GO_FIELDS), (r"\bnode\.{}\b", GO_NODE_FIELDS)):
        for field, columns in fields.items():
            if any(re.search(rf"\bberth\.{column}\b", everything) for column in columns):
                continue
            for path, text in texts.items():
                for number in reads_in_go(text, pattern, field, field in unasked):
                    yield path, number, f".{field}", columns[0]
    for member, read in GO_MEMBERS.items():
        follows = member == "Pods" and follows_pods(methods)
        if follows or requests_in_go(texts.values(), member):
            continue
        for path, text in texts.items():
            for number, line in enumerate(text.splitlines(), 1):
                found = re.search(read, line.partition("//")[0])
                if found:
                    yield path, number, found.group(0), member


def panicking_in_go(folder, methods):
    """The calls that panic because the manifest lacks a member, with the places of the calls."""
    if follows_pods(methods):
        return
    texts = {path: path.read_text(encoding="utf-8") for path in sources("go", folder)}
    for function, member in GO_PANICS.items():
        if requests_in_go(texts.values(), member):
            continue
        for path, text in texts.items():
            for number, line in enumerate(text.splitlines(), 1):
                if re.search(rf"\b{re.escape(function)}\(", line.partition("//")[0]):
                    yield path, number, function, member


def follows_pods(methods):
    return {"pod_placed", "pod_removed"} <= methods.names


def requests_in_go(texts, member):
    """Whether the manifest has the member. A value of another type, such as berth.Removal, may have a member of the same name."""
    in_manifest = any(re.search(rf"\b{member}\s*:", within(text, r"\bManifest\{")) for text in texts)
    return in_manifest or any(re.search(rf"\.{member}\s*=[^=]", text) for text in texts)


def spelled(language, name):
    return "".join(part.capitalize() for part in name.split("_")) if language == "go" else name


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


def needs_of_replica(language, folder, methods):
    """The member for which the plugin needs the interface sync, as a sentence, or None."""
    if language != "c":
        for path, _, written, name in methods.found:
            if name in KEPT_IN_STEP:
                return f"{path} has {written}"
    member, opened = {
        "c": (rf"\.({'|'.join(KEPT_IN_STEP)})\s*=(?!{SET_TO_NOTHING})", r"\bberth_plugin\s*=\s*\{"),
        "go": (r"\b(Columns|Pods|Objects):", r"\bManifest\{"),
        "python": (None, None),
    }[language]
    for path in sources(language, folder) if member else ():
        found = re.search(member, within(path.read_text(encoding="utf-8"), opened))
        if found:
            return f"{path.name} has {found.group(1)}"
    return None


def within(text, opened):
    """The text between the braces after a match of `opened`. Only this text is searched for members, because other values may have
    members of the same names."""
    found = re.search(opened, text)
    if not found:
        return ""
    depth = 1
    for at in range(found.end(), len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[found.end() : at]
    return text[found.end() :]


def names(language, folder):
    """The plugin's name, with its place, where the source shows it."""
    if language == "python":
        from members import Folder

        plugin = Folder(folder).plugin()
        for member in plugin.members if plugin else ():
            if member.name == "name" and isinstance(member.value, ast.Constant):
                yield str(member.path), member.node.lineno, member.value.value
        return
    opened, name = {
        "c": (r"\bberth_plugin\s*=\s*\{", r'\.name\s*=\s*"([^"\\]*)"'),
        "go": (r"\bManifest\{", r'\bName:\s*"([^"\\]*)"'),
    }[language]
    for path in sources(language, folder):
        text = path.read_text(encoding="utf-8")
        found = re.search(name, within(text, opened))
        if found:
            at = re.search(opened, text).end() + found.start()
            yield path.name, text.count("\n", 0, at) + 1, found.group(1)


def misnamed(language, folder, component):
    """A sentence for each name that is not the component's."""
    for path, number, name in names(language, folder):
        if name != component:
            yield f'{path}:{number}: the name is "{name}", and build.sh makes {component}.wasm: write the same name in both'


def main():
    language, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    file = folder / "plugin.wit"
    if not file.is_file():
        refuse([f"{folder} has no plugin.wit"])
    world = World(file.read_text(encoding="utf-8"))
    refuse(world.mistakes)
    exported = world.exported
    methods = {"c": of_c, "go": of_go, "python": of_python}[language](folder)
    refuse(list(world.lacking(needs_of_replica(language, folder, methods) if methods else None)))
    if methods is None:
        return
    for path, number, written, name in methods.found:
        interface = INTERFACES.get(name)
        if interface and interface not in exported:
            print(f"warning: {path}:{number}: {written} is never called: plugin.wit lacks the line", file=sys.stderr)
            print(f"    {world.contract.line('export', interface)}", file=sys.stderr)
    if language == "go":
        for path, number, field, column in undeclared_in_go(folder, methods):
            lack = f"the member {column}" if column in GO_MEMBERS else f"berth.{column} among its Columns"
            print(f"warning: {path.name}:{number}: reads {field}, which is always empty: the manifest lacks {lack}", file=sys.stderr)
        for path, number, function, member in panicking_in_go(folder, methods):
            print(f"warning: {path.name}:{number}: calls {function}(), which panics: the manifest lacks {member}", file=sys.stderr)
        for path, number, read in lacking_of_event_nodes_in_go(folder):
            print(
                f"warning: {path.name}:{number}: reads {read}, which is always empty: look the node up by its name in berth.Nodes()",
                file=sys.stderr,
            )
    refuse([] if methods.may_have_more else list(missing(language, methods, exported)))
    for component in sys.argv[3:]:
        refuse(list(misnamed(language, folder, component)))


main()
