"""Refuses a plugin that imports modules which need features that a component lacks. Each error names the file, the line and the
module. Warns of packages that are not in the plugin's folder.

usage: imports.py FOLDER   prints the mistakes and exits with 1 if there are errors
"""

import ast
import pathlib
import sys

# The modules that need a missing feature. A module stands for its submodules too.
ABSENT = {
    "network": "asyncio ftplib http.client http.server imaplib poplib select selectors smtplib socket socketserver ssl "
    "urllib.request xmlrpc",
    "processes": "multiprocessing pty subprocess",
    "threads": "_thread concurrent.futures threading",
    "files": "fcntl mmap shutil sqlite3 tempfile",
    "signals": "signal",
}
REASONS = {module: reason for reason, modules in ABSENT.items() for module in modules.split()}


def reason_against(module):
    """The missing feature that this module needs, or None."""
    parts = module.split(".")
    return next(filter(None, (REASONS.get(".".join(parts[: n + 1])) for n in range(len(parts)))), None)


def imports(tree):
    """The imported names of a file, each with its line. A name may be a module or a member of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def complaints(path):
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError:
        # componentize-py reports the error with its line.
        return []
    found = ((line, module, reason_against(module)) for line, module in imports(tree))
    return [f"{path}:{line}: imports {module}; a plugin has no {reason}" for line, module, reason in found if reason]


# Other modules in the component: modules that this machine's Python may lack, and the modules of the SDK and the build.
OTHERS = {"annotationlib", "berth", "compression", "componentize_py_runtime", "componentize_py_types", "wit_world"}


def strangers(path, folder):
    """Warnings for modules that are neither Python's nor in the plugin's folder. This machine's packages are not in a component."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError:
        return
    tried = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.Try) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in (name.partition(".")[0] for name in names if id(node) not in tried):
            is_there = (folder / name).is_dir() or (folder / f"{name}.py").is_file()
            if not is_there and name not in OTHERS and name not in sys.stdlib_module_names:
                hint = f"python3 -m pip install --target . {name}"
                yield f"warning: {path.relative_to(folder)}:{node.lineno}: imports {name}, which is not in the plugin's folder: {hint}"


def is_own(path):
    """Whether a file belongs to the plugin. Files of the SDK, hidden files and built files do not."""
    first = path.parts[0]
    return first not in ("build", "berth") and not first.startswith(".")


def main():
    folder = pathlib.Path(sys.argv[1])
    files = [path for path in sorted(folder.rglob("*.py")) if is_own(path.relative_to(folder))]
    found = [line for path in files for line in complaints(path)]
    # Packages in subfolders are not checked, because they often have optional imports.
    for path in (path for path in files if path.parent == folder):
        for warning in strangers(path, folder):
            print(warning, file=sys.stderr)
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    sys.exit(1 if found else 0)


main()
