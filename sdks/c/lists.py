"""Refuses lists of a plugin in C whose end is missing. It finds lists whose entries the source shows. build.sh runs this script.

usage: lists.py FOLDER   prints the lists and exits with 1 if there are any

Without its end, a list continues into the memory after it. The content of that memory differs from build to build.
"""

import pathlib
import re
import sys

# The lists among the members of berth_plugin, with their last entries.
ENDS = {"label_keys": "NULL", "annotation_keys": "NULL", "objects": "{0}", "events_to_register": "{0}"}

ENTRIES = r"\{(?P<entries>(?:[^{}]|\{[^{}]*\})*)\}"
# A last entry that is a text, or that starts with a text.
NO_END = re.compile(r'("|\{\s*"[^{}]*\})\s*,?\s*$')


def without_comments(text):
    """The source with each comment replaced by spaces. Each line keeps its number."""

    def without(found):
        return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])

    return re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*[\s\S]*?\*/', without, text)


def unended(text):
    """The name of each list without its end, and the line where the list begins."""
    for member in ENDS:
        found = re.search(rf"\.{member}\s*=\s*(?:(?P<name>\w+)|\([^()]*\)\s*{ENTRIES})", text)
        if found and found["name"]:
            found = re.search(rf"\b{found['name']}\s*\[\w*\]\s*=\s*{ENTRIES}", text)
        if found and NO_END.search(found["entries"]):
            yield member, text.count("\n", 0, found.start()) + 1


def main():
    folder = pathlib.Path(sys.argv[1])
    errors = []
    for path in sorted(folder.glob("*.c")):
        for member, line in unended(without_comments(path.read_text(encoding="utf-8"))):
            errors.append(f"error: {path.name}:{line}: the list {member} has no end: write {ENDS[member]} as its last entry")
    for error in errors:
        print(error, file=sys.stderr)
    sys.exit(1 if errors else 0)


main()
