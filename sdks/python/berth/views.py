"""The nodes that a call is about, as columns: what filter_columns and score_columns are given."""

from array import array
from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .table import Node, Table

# Bytes 0 and 1 for the digits of a binary number, and the digits for bytes.
_FLAGS = bytes(int(byte == ord("1")) for byte in range(256))
_DIGITS = b"0" + b"1" * 255


N_KEPT = 16
"""Of `Columns.flags` and `Columns.scores`, and of `kept`, so many keys are kept."""


class Selection:
    """A bitmap of nodes: bit `i % 64` of word `i / 64` is row `i`."""

    def __init__(self, words: list[int], n_rows: int):
        self.words = words
        whole = int.from_bytes(array("Q", words).tobytes(), "little")
        self.mask = f"{whole:0{64 * len(words)}b}".encode()[::-1].translate(_FLAGS)
        self.n = whole.bit_count()
        self.is_everything = self.n == n_rows and self.mask[:n_rows].find(0) < 0
        """Whether all rows of a table with so many are selected, and none beyond."""

    def of(self, values: "Iterable") -> "Iterable":
        """Those of the selected rows, out of one for each row."""
        return compress(values, self.mask)

    def passed(self, flags: "Sequence") -> list[int]:
        """The bitmap of the selected rows for which there is something true."""
        if self.is_everything:
            digits = (flags if isinstance(flags, bytes) else bytes(map(bool, flags))).translate(_DIGITS)
        else:
            digits = bytearray(b"0") * len(self.mask)
            for row in compress(compress(range(len(self.mask)), self.mask), flags):
                digits[row] = ord("1")
        whole = int(bytes(digits[::-1]) or b"0", 2)
        return memoryview(whole.to_bytes(8 * len(self.words), "little")).cast("Q").tolist()


class Columns:
    """The nodes that a call is about, as columns of the same length, in the order of their rows. Amounts are views of 64-bit
    integers; what the plugin's `columns` don't name is 0. To be read in this call only."""

    def __init__(self, table: "Table", selection: Selection):
        self._table = table
        self._selection = selection

    def __len__(self) -> int:
        return self._selection.n

    @property
    def nodes(self) -> "list[Node]":
        return self._table.nodes_of(self._selection)

    def allocatable(self, resource: str) -> memoryview:
        """Milli-CPU, bytes or units; `pods` is a resource as well."""
        return self._amounts(("allocatable", resource), lambda node: node.allocatable.get(resource, 0))

    def requested(self, resource: str) -> memoryview:
        """Milli-CPU, bytes or units that the node's pods request."""
        return self._amounts(("requested", resource), lambda node: node.requested.get(resource, 0))

    @property
    def non_zero_milli_cpu(self) -> memoryview:
        """Requests with defaults for containers that request none."""
        return self._amounts("non_zero_milli_cpu", lambda node: node.non_zero_milli_cpu)

    @property
    def non_zero_memory(self) -> memoryview:
        return self._amounts("non_zero_memory", lambda node: node.non_zero_memory)

    @property
    def pod_count(self) -> memoryview:
        return self._amounts("pod_count", lambda node: node.pod_count)

    @property
    def unschedulable(self) -> memoryview:
        """Bytes: 0 or 1."""
        return self._view("B", "unschedulable", lambda node: node.unschedulable)

    def label(self, key: str) -> list[str | None]:
        return self._list(("label", key), lambda node: node.labels.get(key))

    def annotation(self, key: str) -> list[str | None]:
        return self._list(("annotation", key), lambda node: node.annotations.get(key))

    def flags(self, key, test: "Callable[[Node], bool]") -> bytes:
        """What the function says about each node, as bytes 0 and 1: worked out when the node has changed and not for each
        pod. It looks at the node alone; `key` stands for whatever else it depends on. What was said for the 16 keys used last is
        kept."""
        return bytes(self._kept("B", ("flags", key), lambda node: bool(test(node))))

    def scores(self, key, score: "Callable[[Node], int]") -> array:
        """The same with an integer for each node: what `score_columns` may answer as it is."""
        return self._kept("q", ("scores", key), score)

    def _kept(self, typecode, key, read) -> array:
        values = self._table.kept(key, read, lambda n: array(typecode, bytes(n * array(typecode).itemsize)))
        return values if self._selection.is_everything else array(typecode, self._selection.of(values))

    def _amounts(self, key, read) -> memoryview:
        return self._view("q", key, read)

    def _view(self, typecode, key, read) -> memoryview:
        values = self._table.column(key, read, lambda n: array(typecode, bytes(n * array(typecode).itemsize)))
        if not self._selection.is_everything:
            values = array(typecode, self._selection.of(values))
        return memoryview(values).toreadonly()

    def _list(self, key, read) -> list:
        return list(self._selection.of(self._table.column(key, read, lambda n: [None] * n)))


class Column:
    """One value for each row, kept up to date once somebody has asked for it."""

    def __init__(self, read, empty):
        self.read = read
        self.empty = empty
        self.values = empty(0)

    def refresh(self, rows: "Iterable[int]", nodes: "list[Node | None]") -> None:
        missing = len(nodes) - len(self.values)
        if missing > 0:
            self.values += self.empty(missing)
        for row in rows:
            node = nodes[row]
            if node is not None:
                self.values[row] = self.read(node)
