"""Refuses a plugin that imports what a component cannot have, and names the file, the line and the module.

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


def is_own(path):
    """Whether a file, by its path in the plugin's folder, is neither the SDK's nor hidden nor built."""
    first = path.parts[0]
    return first not in ("build", "berth") and not first.startswith(".")


def main():
    folder = pathlib.Path(sys.argv[1])
    files = (path for path in sorted(folder.rglob("*.py")) if is_own(path.relative_to(folder)))
    found = [line for path in files for line in complaints(path)]
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    sys.exit(1 if found else 0)


main()
