"""Reads the members of the class with `@berth.plugin` from its source, including the members of its base classes in the plugin's
folder. methods.py compares the members with plugin.wit.

usage: members.py FOLDER   prints the mistakes and exits with 1 if there are any
"""

import ast
import pathlib
import sys

# The attributes that Berth reads.
ATTRIBUTES = ("name", "version", "columns", "pods", "pod_json", "objects", "events_to_register")

# The methods that Berth calls, by their parameters after `self`.
CALLED_WITH = {
    "pod, node": "filter score pod_placed pod_removed reserve unreserve permit pre_bind_pre_flight pre_bind bind post_bind explain",
    "pod, nodes": "filter_nodes score_nodes pre_score",
    "pod, columns": "filter_columns score_columns",
    "pod, scores": "normalize normalize_columns",
    "pod": "pre_enqueue pre_filter sign reach",
    "pod, failure": "post_filter",
    "pod, queued_at": "sort_key",
    "pod, event, old, new": "queueing_hint",
    "args": "configure",
    "snapshot": "restore",
    "": "snapshot",
}
METHODS = {name: taken.split(", ") if taken else [] for taken, names in CALLED_WITH.items() for name in names.split()}

# Base classes and decorators that add no member of a plugin.
HARMLESS_BASES = ("object", "ABC", "abc.ABC", "Generic", "typing.Generic", "Protocol", "typing.Protocol")
HARMLESS_DECORATORS = ("dataclass", "dataclasses.dataclass", "final", "typing.final")


class Member:
    def __init__(self, path, name, node):
        self.path, self.name, self.node = path, name, node

    @property
    def place(self):
        return f"{self.path}:{self.node.lineno}"

    @property
    def value(self):
        """The assigned value; None for a method."""
        return getattr(self.node, "value", None)


class Plugin:
    """The plugin's class. `members` has each member once, even if the class overrides it."""

    def __init__(self, name):
        self.name = name
        self.members = []
        # Whether the class may have members that the folder does not show, such as members from a package.
        self.may_have_more = False

    @property
    def names(self):
        return {member.name for member in self.members}

    def add(self, path, name, node):
        if name not in self.names:
            self.members.append(Member(path, name, node))


class Module:
    """A file of the plugin: its classes, and the names that it imports from other files of the folder."""

    def __init__(self, folder, path):
        self.path = path.relative_to(folder)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        # For each imported name, the module and the name in that module. The second is None for an imported module.
        self.imported = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = alias.name, None
            elif isinstance(node, ast.ImportFrom) and node.level < 2:
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = node.module or "", alias.name

    def origin(self, written):
        """The module and the name of a base class, written `Base` or `module.Base`; None if it is not imported."""
        module, _, name = written.rpartition(".")
        if module:
            found = self.imported.get(module)
            return found and (".".join(filter(None, found)), name)
        return self.imported.get(name)


class Folder:
    def __init__(self, folder):
        self.folder = folder
        self.modules = {}

    def module(self, name):
        """The module of the folder with a dotted name, or None."""
        if name not in self.modules:
            base = self.folder.joinpath(*name.split("."))
            files = (base.with_suffix(".py"), base / "__init__.py")
            path = next((file for file in files if file.is_file()), None)
            self.modules[name] = path and Module(self.folder, path)
        return self.modules[name]

    def collect(self, plugin, module, kind, seen):
        """Adds the members of a class, and then the members of its base classes."""
        if (module.path, kind.name) in seen:
            return
        seen.add((module.path, kind.name))
        for node in kind.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                plugin.add(module.path, node.name, node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        plugin.add(module.path, target.id, node)
            elif isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
                plugin.add(module.path, node.target.id, node)
            elif isinstance(node, ast.If | ast.Try | ast.For | ast.With | ast.Match):
                plugin.may_have_more = True
        decorators = [ast.unparse(made.func if isinstance(made, ast.Call) else made) for made in kind.decorator_list]
        if any(not made.endswith("plugin") and made not in HARMLESS_DECORATORS for made in decorators):
            plugin.may_have_more = True
        for base in kind.bases:
            written = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            found = self.find(module, written)
            if found:
                self.collect(plugin, *found, seen)
            elif written not in HARMLESS_BASES:
                plugin.may_have_more = True

    def find(self, module, written, depth=0):
        """The module and the class with a name, if the class is in the folder."""
        if written in module.classes:
            return module, module.classes[written]
        home, name = module.origin(written) or (None, None)
        other = self.module(home) if home and name else None
        return self.find(other, name, depth + 1) if other and depth < 9 else None

    def plugin(self):
        """The plugin's class. None without a class, or if a file cannot be parsed, which componentize-py reports."""
        try:
            module = self.module("plugin")
            decorated = [it for it in (module.classes if module else {}).values() if is_plugin(it)]
            if not decorated:
                return None
            plugin = Plugin(decorated[0].name)
            self.collect(plugin, module, decorated[0], set())
            return plugin
        except (OSError, SyntaxError, ValueError):
            return None

    def trees(self):
        """The syntax trees of the plugin's own files. A file that cannot be read is left out, because componentize-py reports it."""
        for path in self.folder.rglob("*.py"):
            inside = path.relative_to(self.folder)
            if inside.parts[0] in ("build", "berth") or inside.parts[0].startswith("."):
                continue
            try:
                yield ast.parse(path.read_text(encoding="utf-8"))
            except (OSError, SyntaxError, ValueError):
                continue

    def names_decorator(self):
        """Whether a file of the folder mentions `berth.plugin`, also under another name or as a function that is called."""
        for node in (node for tree in self.trees() for node in ast.walk(tree)):
            if isinstance(node, ast.Attribute) and node.attr == "plugin":
                return True
            if isinstance(node, ast.ImportFrom) and any(alias.name in ("plugin", "*") for alias in node.names):
                return True
        return False

    def undecorated(self):
        """A sentence about a plugin none of whose classes has the decorator; None if one has it or may have it."""
        try:
            module = self.module("plugin")
        except (OSError, SyntaxError, ValueError):
            return None
        if module is None or self.names_decorator():
            return None
        kind = max(module.classes.values(), key=n_members, default=None)
        if kind is None:
            return f"{module.path}: has no class with @berth.plugin: write the plugin as a class with it"
        return f"{module.path}:{kind.lineno}: class {kind.name} lacks @berth.plugin: write it on the line before the class"

    def read_names(self):
        """The names of members that the plugin's own files use, such as `self.name`."""
        names = set()
        for tree in self.trees():
            names.update(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
            names.update(node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
            names.update(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        return names


def n_members(kind):
    """How many members of a plugin a class defines."""
    targets = [target for node in kind.body for target in getattr(node, "targets", [])]
    names = [getattr(node, "name", None) for node in kind.body] + [getattr(target, "id", None) for target in targets]
    return sum(name in METHODS or name in ATTRIBUTES for name in names)


def is_plugin(kind):
    return any(ast.unparse(made).endswith("plugin") for made in kind.decorator_list)


def distance(one, other):
    """The number of letters to add, remove or change to turn one word into the other."""
    row = list(range(len(other) + 1))
    for y, letter in enumerate(one, 1):
        following = [y]
        for x, beside in enumerate(other):
            following.append(min(following[x] + 1, row[x + 1] + 1, row[x] + (letter != beside)))
        row = following
    return row[-1]


def is_meant(written, known):
    """Whether a name is probably a misspelling of a known name."""
    plain, wanted = (name.replace("_", "").lower() for name in (written, known))
    return plain == wanted or distance(plain, wanted) <= (len(wanted) >= 5) + (len(wanted) >= 8)


def misspelt(plugin, read):
    """A sentence for each member that is probably a misspelling. The class must lack the meant member, and nothing must read the
    misspelt one."""
    for member in plugin.members:
        known, does = (METHODS, "calls") if member.value is None else (ATTRIBUTES, "reads")
        if member.name.startswith("_") or member.name in METHODS or member.name in ATTRIBUTES or member.name in read:
            continue
        meant = [name for name in known if name not in plugin.names and is_meant(member.name, name)]
        if meant:
            nearest = min(meant, key=lambda name: distance(member.name, name))
            yield f"{member.place}: {plugin.name}.{member.name} is nothing that Berth {does}: did you mean {nearest}?"


def takes(arguments, n_given):
    """Whether a function can be called with `n_given` positional arguments."""
    positional = len(arguments.posonlyargs) + len(arguments.args)
    needs_more = any(default is None for default in arguments.kw_defaults)
    most = sys.maxsize if arguments.vararg else positional
    return positional - len(arguments.defaults) <= n_given <= most and not needs_more


def miscalled(plugin):
    """A sentence for each method that does not accept Berth's arguments."""
    for member in plugin.members:
        taken = METHODS.get(member.name)
        function = member.value if isinstance(member.value, ast.Lambda) else member.node
        if taken is None or not hasattr(function, "args"):
            continue
        decorators = [ast.unparse(made) for made in getattr(function, "decorator_list", [])]
        if any(made not in ("staticmethod", "classmethod", "override", "typing.override") for made in decorators):
            continue
        given = taken if "staticmethod" in decorators else ["self", *taken]
        wanted = f"{member.name}({', '.join(given)})"
        written = f"{plugin.name}.{member.name}"
        if isinstance(function, ast.AsyncFunctionDef):
            yield f"{member.place}: {written} is async, and nothing waits for it: write def {wanted}"
        elif not takes(function.args, len(given)):
            yield f"{member.place}: {written} takes ({ast.unparse(bare(function.args))}): write {wanted}"


def bare(arguments):
    """The parameters without their types."""
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    return arguments


def main():
    folder = Folder(pathlib.Path(sys.argv[1]))
    plugin = folder.plugin()
    if plugin is None:
        error = folder.undecorated()
        if error:
            print(f"error: {error}", file=sys.stderr)
        sys.exit(1 if error else 0)
    errors = list(miscalled(plugin))
    if not plugin.may_have_more:
        errors += misspelt(plugin, folder.read_names())
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
