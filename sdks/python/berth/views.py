"""The nodes of a call as columns: the argument of filter_columns and score_columns."""

from array import array
from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .table import Node, Table

# Translation tables: from the digits of a binary number to bytes 0 and 1, and from bytes to digits.
_FLAGS = bytes(int(byte == ord("1")) for byte in range(256))
_DIGITS = b"0" + b"1" * 255


N_KEPT = 16
"""The number of keys whose results `Columns.flags` and `Columns.scores` together keep, and the number of keys of `kept`."""


class Selection:
    """A bitmap of nodes. Bit `i % 64` of word `i / 64` stands for row `i`."""

    def __init__(self, words: list[int], n_rows: int):
        self.words = words
        whole = int.from_bytes(array("Q", words).tobytes(), "little")
        self.mask = f"{whole:0{64 * len(words)}b}".encode()[::-1].translate(_FLAGS)
        self.n = whole.bit_count()
        self.is_everything = self.n == n_rows and self.mask[:n_rows].find(0) < 0
        """Whether exactly all rows of a table with `n_rows` rows are selected."""

    def of(self, values: "Iterable") -> "Iterable":
        """The values of the selected rows. `values` has one value for each row of the table."""
        return compress(values, self.mask)

    def passed(self, flags: "Sequence") -> list[int]:
        """The bitmap of the selected rows whose flag is true."""
        if self.is_everything:
            digits = (flags if isinstance(flags, bytes) else bytes(map(bool, flags))).translate(_DIGITS)
        else:
            digits = bytearray(b"0") * len(self.mask)
            for row in compress(compress(range(len(self.mask)), self.mask), flags):
                digits[row] = ord("1")
        whole = int(bytes(digits[::-1]) or b"0", 2)
        return memoryview(whole.to_bytes(8 * len(self.words), "little")).cast("Q").tolist()


class Columns:
    """The nodes of a call as columns of the same length, in the order of their rows. Amounts are views of 64-bit integers. A column
    is 0 or None if the plugin's `columns` do not request it. Read the columns in this call only."""

    def __init__(self, table: "Table", selection: Selection):
        self._table = table
        self._selection = selection

    def __len__(self) -> int:
        return self._selection.n

    @property
    def nodes(self) -> "list[Node]":
        return self._table.nodes_of(self._selection)

    def allocatable(self, resource: str) -> memoryview:
        """The amounts of a resource: milli-CPU, bytes or units. `pods` is also a resource."""
        return self._amounts(("allocatable", resource), lambda node: node.allocatable.get(resource, 0))

    def requested(self, resource: str) -> memoryview:
        """The sums of the pods' requests of a resource: milli-CPU, bytes or units."""
        return self._amounts(("requested", resource), lambda node: node.requested.get(resource, 0))

    @property
    def non_zero_milli_cpu(self) -> memoryview:
        """The sums of the pods' requests. A container without a request counts with a default."""
        return self._amounts("non_zero_milli_cpu", lambda node: node.non_zero_milli_cpu)

    @property
    def non_zero_memory(self) -> memoryview:
        return self._amounts("non_zero_memory", lambda node: node.non_zero_memory)

    @property
    def pod_count(self) -> memoryview:
        return self._amounts("pod_count", lambda node: node.pod_count)

    @property
    def unschedulable(self) -> memoryview:
        """One byte for each node: 0 or 1."""
        return self._view("B", "unschedulable", lambda node: node.unschedulable)

    def label(self, key: str) -> list[str | None]:
        return self._list(("label", key), lambda node: node.labels.get(key))

    def annotation(self, key: str) -> list[str | None]:
        return self._list(("annotation", key), lambda node: node.annotations.get(key))

    def flags(self, key, test: "Callable[[Node], bool]") -> bytes:
        """The result of the function for each node, as bytes 0 and 1. The function is called when a node has changed, and not for
        each pod. It must depend only on the node and on the data that `key` stands for. The results for the 16 most recently used
        keys are kept."""
        return bytes(self._kept("B", ("flags", key), lambda node: bool(test(node))))

    def scores(self, key, score: "Callable[[Node], int]") -> array:
        """The score of each node. The function is called as for `flags`. `score_columns` may return the result unchanged."""
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
    """One value for each row. It is kept up to date after its first read."""

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
