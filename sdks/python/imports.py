"""Refuses a plugin that imports what a component cannot have, and names the file, the line and the module. Warns of a package
that does not lie in the plugin's folder.

usage: imports.py FOLDER   prints what is wrong and exits with 1 if something is
"""

import ast
import pathlib
import sys

# By module, with all that is below it.
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
    """What a plugin that imports this module would miss, or None."""
    parts = module.split(".")
    return next(filter(None, (REASONS.get(".".join(parts[: n + 1])) for n in range(len(parts)))), None)


def imports(tree):
    """The lines of a file's imports, each with the modules that it may stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def complaints(path):
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError:
        # componentize-py shows the line.
        return []
    found = ((line, module, reason_against(module)) for line, module in imports(tree))
    return [f"{path}:{line}: imports {module}; a plugin has no {reason}" for line, module, reason in found if reason]


# Modules of the Python in the component that the Python of this machine may lack, and what the SDK and the build add.
OTHERS = {"annotationlib", "berth", "compression", "componentize_py_runtime", "componentize_py_types", "wit_world"}


def strangers(path, folder):
    """Warnings of modules that are neither Python's nor the plugin's: packages of this machine are not part of the component."""
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
    """Whether a file, by its path in the plugin's folder, is neither the SDK's nor hidden nor built."""
    first = path.parts[0]
    return first not in ("build", "berth") and not first.startswith(".")


def main():
    folder = pathlib.Path(sys.argv[1])
    files = [path for path in sorted(folder.rglob("*.py")) if is_own(path.relative_to(folder))]
    found = [line for path in files for line in complaints(path)]
    # Packages in the folder import what they may do without.
    for path in (path for path in files if path.parent == folder):
        for warning in strangers(path, folder):
            print(warning, file=sys.stderr)
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    sys.exit(1 if found else 0)


main()
