"""Checks the plugin's package. Without these checks, Go would report the mistakes in files that the author never sees.

usage: package.py FOLDER   prints the mistakes and exits with 1 if there are any
"""

import pathlib
import re
import sys

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def clause(path):
    """The name in a file's package clause and the line of the clause. None without a clause, which Go reports well."""
    text = COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), path.read_text(encoding="utf-8"))
    found = re.search(r"^\s*package\s+(\w+)", text, re.MULTILINE)
    return found and (found.group(1), text.count("\n", 0, found.start(1)) + 1)


def mistakes(folder):
    module = folder / "go.mod"
    text = module.read_text(encoding="utf-8") if module.is_file() else ""
    if not re.search(r"^module\s+\S", text, re.MULTILINE):
        lack = "has no line with the module's path" if text else "is not there; a new project has one"
        yield f"go.mod:1: the file {lack}: write module example.com/plugin"
    files = [path for path in sorted(folder.glob("*.go")) if not path.name.endswith("_test.go")]
    if not files:
        yield f"{folder} has no file that ends in .go"
    clauses = {path: found for path in files if (found := clause(path))}
    names = [name for name, _ in clauses.values() if name != "main"]
    wanted = max(names, key=names.count, default="plugin")
    for path, (name, line) in clauses.items():
        if name == "main":
            yield f"{path.name}:{line}: the package is main, and the build makes the main package itself: write package {wanted}"
        elif name != wanted:
            yield f"{path.name}:{line}: the package is {name}, and that of the other files is {wanted}: write package {wanted}"
    own = (path for path in folder.rglob("*.go") if path.relative_to(folder).parts[0] not in ("berth", "build"))
    if files and not any(re.search(r"\bRegister\(", path.read_text(encoding="utf-8")) for path in own):
        yield f"{files[0].name}: nothing calls berth.Register: write func init() {{ berth.Register(&plugin{{}}) }}"


def main():
    found = list(mistakes(pathlib.Path(sys.argv[1])))
    for sentence in found:
        print(f"error: {sentence}", file=sys.stderr)
    sys.exit(1 if found else 0)


main()
