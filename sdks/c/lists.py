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


TEXT_OR_NAME = re.compile(r'"(?:\\.|[^"\\\n])*"|\b[A-Za-z_]\w*')


def constants(text):
    """The names of the source that stand for something else, each with what it stands for: macros without parameters, and
    arrays with a text."""
    macros = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.*?)[ \t]*$", text, re.MULTILINE)
    return dict(macros + re.findall(r'\bchar\s+(\w+)\s*\[\w*\]\s*=\s*("(?:\\.|[^"\\\n])*")', text))


def written_out(entries, known):
    """The entries with what their names stand for. A name that the source does not define stays."""
    # A macro may name others, and one that names itself must not go on for ever.
    for _ in range(9):
        entries = TEXT_OR_NAME.sub(lambda found: known.get(found[0], found[0]), entries)
    return entries


def unended(text, known):
    """The name of each list without its end, and the line where the list begins."""
    for member in ENDS:
        found = re.search(rf"\.{member}\s*=\s*(?:(?P<name>\w+)|\([^()]*\)\s*{ENTRIES})", text)
        if found and found["name"]:
            found = re.search(rf"\b{found['name']}\s*\[\w*\]\s*=\s*{ENTRIES}", text)
        if found and NO_END.search(written_out(found["entries"], known)):
            yield member, text.count("\n", 0, found.start()) + 1


def main():
    folder = pathlib.Path(sys.argv[1])
    errors = []
    files = [*sorted(folder.glob("*.h")), *sorted(folder.glob("*.c"))]
    sources = {path: without_comments(path.read_text(encoding="utf-8")) for path in files}
    known = {name: value for text in sources.values() for name, value in constants(text).items()}
    for path, text in sources.items():
        for member, line in unended(text, known):
            errors.append(f"error: {path.name}:{line}: the list {member} has no end: write {ENDS[member]} as its last entry")
    for error in errors:
        print(error, file=sys.stderr)
    sys.exit(1 if errors else 0)


main()
