"""The replica of the node table, with strings instead of symbols. `sync.apply` updates it."""

import copy
from typing import TYPE_CHECKING, NamedTuple

from . import declared
from .declared import PARTS as _PARTS
from .objects import Objects
from .pod import HostPort, Pod
from .views import N_KEPT, Column, Columns, Selection

# The symbols 0 to 10, which are the same in every table.
_WELL_KNOWN = (
    "",
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "TCP",
    "0.0.0.0",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/unschedulable",
)

_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}


class Taint(NamedTuple):
    key: str
    value: str
    effect: str
    """`NoSchedule`, `PreferNoSchedule` or `NoExecute`."""


class Node:
    """A node. A property is empty if the plugin's `columns` do not request it, and its first read is logged."""

    __slots__ = (
        "row",
        "name",
        "unschedulable",
        "labels",
        "taints",
        "allocatable",
        "requested",
        "non_zero_milli_cpu",
        "non_zero_memory",
        "pod_count",
        "images",
        "host_ports",
        "declared_features",
        "annotations",
        "pods",
    )

    if TYPE_CHECKING:
        row: int
        name: str
        unschedulable: bool
        labels: dict[str, str]
        taints: tuple[Taint, ...]
        # The amount of each resource: milli-CPU, bytes or units. A resource that is absent has the amount 0.
        allocatable: dict[str, int]
        requested: dict[str, int]
        # The sums of the pods' requests. A container without a request counts with a default.
        non_zero_milli_cpu: int
        non_zero_memory: int
        pod_count: int
        images: list[str]
        host_ports: list[HostPort]
        declared_features: list[str]
        annotations: dict[str, str]
        pods: list[Pod]

    def __init__(self, row: int):
        self.row = row
        for name, empty in declared.parts():
            setattr(self, name, empty())

    def __getattr__(self, name: str):
        """The empty value of a property that no column of the plugin provides."""
        if name not in _PARTS:
            raise AttributeError(f"a node has no {name!r}", name=name, obj=self)
        column, empty = _PARTS[name]
        declared.tell(f"{'pods' if name == 'pods' else f'column {column}'} (node.{name})")
        return empty()

    def altered(self, minus: list[Pod], plus: list[Pod]) -> "Node":
        """Returns a copy of the node, without some of the node's pods and with additional pods."""
        if not minus and not plus:
            return self
        node = Node(self.row)
        names = [name for name, _ in declared.parts()]
        for name in names:
            setattr(node, name, getattr(self, name))
        if "pods" in names:
            gone = {pod.uid for pod in minus}
            node.pods = [pod for pod in self.pods if pod.uid not in gone] + plus
        if "requested" in names:
            node.requested = dict(self.requested)
        if "host_ports" in names:
            node.host_ports = list(self.host_ports)
        for pods, sign in ((minus, -1), (plus, 1)):
            for pod in pods:
                node._count(names, pod, sign)
        return node

    def _count(self, names: list[str], pod: Pod, sign: int) -> None:
        if "pod_count" in names:
            self.pod_count += sign
        if "non_zero_memory" in names:
            self.non_zero_milli_cpu += sign * pod.raw.placed_non_zero.milli_cpu
            self.non_zero_memory += sign * pod.raw.placed_non_zero.memory
        if "requested" in names:
            for name, amount in pod.placed_requests.items():
                self.requested[name] = self.requested.get(name, 0) + sign * amount
        if "host_ports" in names:
            for port in pod.host_ports:
                if sign > 0:
                    self.host_ports.append(port)
                elif port in self.host_ports:
                    self.host_ports.remove(port)


class EventNode(NamedTuple):
    """A node before or after an event, in a call of `queueing_hint`. It has no annotations: find the node by its name in
    `berth.nodes()`, where it already has the values after the event."""

    name: str
    unschedulable: bool
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    allocatable: dict[str, int]
    """The amount of each resource except pods: milli-CPU, bytes or units. A resource that is absent has the amount 0."""
    allowed_pods: int
    """`status.allocatable.pods`."""
    declared_features: list[str]


class Table:
    def __init__(self):
        self.texts: list[str] = list(_WELL_KNOWN)
        # The node of each row; None for a row without a node.
        self.rows: list[Node | None] = []
        self.image_sizes: dict[str, int] = {}
        # The objects of each kind, by apiVersion and kind.
        self.objects: dict[tuple[str, str], Objects] = {}
        # The pod of each slot.
        self.pods: dict[int, Pod] = {}
        self._taint_sets: dict[int, tuple[Taint, ...]] = {}
        # The columns that the plugin has read.
        self._columns: dict[object, Column] = {}
        # The columns with keys, in the order of their last use.
        self._kept: dict[object, Column] = {}
        self._selected = Selection([], 0)

    def text(self, symbol: int) -> str:
        return self.texts[symbol] if symbol < len(self.texts) else ""

    def node(self, row: int) -> Node:
        """Returns the node of a row. It returns a node without data if the plugin has no columns, because the scheduler does not
        send such a plugin the list of nodes."""
        node = self.rows[row] if row < len(self.rows) else None
        return node or Node(row)

    def nodes(self) -> list[Node]:
        return [node for node in self.rows if node is not None]

    def selection(self, words: list[int]) -> Selection:
        """Returns the selection of a bitmap. The last selection is kept, because Score and NormalizeScore usually get the nodes
        that passed Filter."""
        if self._selected.words != words:
            self._selected = Selection(words, len(self.rows))
        return self._selected

    def nodes_of(self, selection: Selection) -> list[Node]:
        nodes = list(selection.of(self.rows))
        if len(nodes) == selection.n and None not in nodes:
            return nodes
        return [self.node(row) for row in selection.of(range(len(selection.mask)))]

    def columns(self, words: list[int]) -> Columns:
        return Columns(self, self.selection(words))

    def column(self, key, read, empty):
        """Returns the values of a column, one value for each row."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = Column(read, empty)
            column.refresh(range(len(self.rows)), self.rows)
        return column.values

    def kept(self, key, read, empty):
        """Returns the values of a column with a key. The columns of the most recently used keys are kept."""
        column = self._kept.pop(key, None)
        if column is None:
            column = Column(read, empty)
            column.refresh(range(len(self.rows)), self.rows)
        self._kept[key] = column
        if len(self._kept) > N_KEPT:
            del self._kept[next(iter(self._kept))]
        return column.values

    def event_node(self, raw) -> EventNode:
        return EventNode(
            name=self.text(raw.name),
            unschedulable=raw.unschedulable,
            labels={self.text(key): self.text(value) for key, value in raw.labels},
            taints=self._taints(raw.taints),
            allocatable=self.amounts(raw.allocatable),
            allowed_pods=raw.allowed_pods,
            declared_features=[self.text(feature) for feature in raw.declared_features],
        )

    def amounts(self, raw) -> dict[str, int]:
        """Converts `record resources` to amounts by name. A resource that is absent has the amount 0."""
        amounts = {"cpu": raw.milli_cpu, "memory": raw.memory, "ephemeral-storage": raw.ephemeral_storage}
        amounts |= {self.text(name): amount for name, amount in raw.scalars}
        return {name: amount for name, amount in amounts.items() if amount}

    def apply(self, delta, plugin) -> None:
        """Applies a delta to the replica, and calls pod_removed and pod_placed."""
        # Pods are removed before the symbols change, because a symbol of a removed pod may get another string.
        left = [self.pods[slot].node.row for slot in delta.pods_removed if slot in self.pods]
        for slot in list(self.pods) if delta.full else delta.pods_removed:
            self._remove_pod(slot, plugin)
        for symbol, text in delta.symbols:
            while symbol >= len(self.texts):
                self.texts.append("")
            # The symbol may have stood for another string, which no object of the cluster contains any more.
            self.image_sizes.pop(self.texts[symbol], None)
            self.texts[symbol] = text
        if delta.full:
            texts = self.texts
            self.__init__()
            self.texts = texts
        for row in delta.removed:
            # A node may have come and gone since the last delta.
            if row < len(self.rows):
                self.rows[row] = None
        if delta.added:
            self.rows += [None] * (max(delta.added) + 1 - len(self.rows))
        for row in delta.added:
            self.rows[row] = self.rows[row] or Node(row)
        for id, taints in delta.taint_sets:
            self._taint_sets[id] = self._taints(taints)
        for change in delta.columns:
            # Columns that only a newer scheduler knows are skipped. The SDK never requests such columns.
            apply = _APPLY.get(type(change.data).__name__.removeprefix("ColumnData_"))
            if apply:
                apply(self, change.rows, change.data.value)
        for placed in delta.pods_placed:
            self._place_pod(placed, plugin)
        self._refresh_columns(delta, left)
        for image, size in delta.image_sizes:
            self.image_sizes[self.text(image)] = size
        for object in delta.objects:
            kind = self.objects.setdefault((object.api_version, object.kind), Objects())
            kind.apply((object.namespace, object.name), object.json)

    def _refresh_columns(self, delta, left: list[int]) -> None:
        if delta.removed or delta.added:
            # `is_everything` may have changed.
            self._selected = Selection([], 0)
        if self._columns or self._kept:
            changed = {row for change in delta.columns for row in change.rows}
            changed.update(delta.added, left, (placed.node for placed in delta.pods_placed))
            self._refresh_rows(changed)

    def _refresh_rows(self, changed: set[int]) -> None:
        known = [row for row in changed if row < len(self.rows)]
        for column in (*self._columns.values(), *self._kept.values()):
            column.refresh(known, self.rows)

    def _taints(self, raw) -> tuple[Taint, ...]:
        return tuple(Taint(self.text(it.key), self.text(it.value), _EFFECTS[it.effect.name]) for it in raw)

    def _remove_pod(self, slot: int, plugin) -> None:
        pod = self.pods.pop(slot, None)
        if pod is None:
            return
        pod.node.pods.remove(pod)
        if hasattr(plugin, "pod_removed"):
            plugin.pod_removed(pod, pod.node)

    def place_alike(self, pods, plugin) -> None:
        """Places pods on nodes. Each pod equals a placed pod, except for the fields in `record alike-pod`."""
        for alike in pods:
            raw = copy.copy(self.pods[alike.like].raw)
            raw.uid, raw.name, raw.node_name = alike.uid, alike.name, alike.node_name
            raw.nominated_node_name, raw.started_at = alike.nominated_node_name, alike.started_at
            self._put_pod(raw, alike.slot, alike.node, plugin)
        self._refresh_rows({alike.node for alike in pods})

    def set_usage(self, usage) -> None:
        """Sets new values of the usage of pods on nodes."""
        for change in usage:
            node = self.rows[change.node]
            if change.requested is not None:
                node.requested = self.amounts(change.requested)
            if change.non_zero_requested is not None:
                node.non_zero_milli_cpu = change.non_zero_requested.milli_cpu
                node.non_zero_memory = change.non_zero_requested.memory
            if change.pod_count is not None:
                node.pod_count = change.pod_count
        self._refresh_rows({change.node for change in usage})

    def _place_pod(self, placed, plugin) -> None:
        self._put_pod(placed.pod, placed.slot, placed.node, plugin)

    def _put_pod(self, raw, slot: int, row: int, plugin) -> None:
        node = self.rows[row] if row < len(self.rows) else None
        if node is None:
            return
        pod = Pod(raw, self, slot, node)
        self.pods[slot] = pod
        node.pods.append(pod)
        if hasattr(plugin, "pod_placed"):
            plugin.pod_placed(pod, node)

    def _apply_values(self, rows, values, attribute, decode) -> None:
        for row, value in zip(rows, values):
            setattr(self.rows[row], attribute, decode(value))

    def _apply_lists(self, rows, lists, attribute, decode) -> None:
        start = 0
        for row, end in zip(rows, lists.ends):
            setattr(self.rows[row], attribute, decode(lists.items[start:end]))
            start = end

    def _apply_labels(self, rows, lists) -> None:
        texts = self.texts
        start = 0
        for row, end in zip(rows, lists.ends):
            labels = {texts[key]: texts[value] for key, value in lists.items[start:end]}
            self.rows[row].labels = declared.chosen("labels", labels, row)
            start = end

    def _apply_annotations(self, rows, data) -> None:
        for row, annotations in zip(rows, data):
            self.rows[row].annotations = declared.chosen("annotations", dict(annotations), row)

    def _apply_texts(self, rows, lists, attribute) -> None:
        self._apply_lists(rows, lists, attribute, lambda items: [self.text(symbol) for symbol in items])

    def _apply_resources(self, rows, columns, attribute) -> None:
        names = [self.text(name) for name in columns.names]
        for index, row in enumerate(rows):
            amounts = {name: values[index] for name, values in zip(names, columns.values) if values[index]}
            setattr(self.rows[row], attribute, amounts)

    def _apply_non_zero(self, rows, columns) -> None:
        self._apply_values(rows, columns.milli_cpu, "non_zero_milli_cpu", int)
        self._apply_values(rows, columns.memory, "non_zero_memory", int)

    def _apply_taints(self, rows, ids) -> None:
        self._apply_values(rows, ids, "taints", lambda id: self._taint_sets.get(id, ()))

    def _apply_host_ports(self, rows, lists) -> None:
        self._apply_lists(rows, lists, "host_ports", lambda items: [HostPort.of(port, self.text) for port in items])


_APPLY = {
    "Name": lambda table, rows, data: table._apply_values(rows, data, "name", table.text),
    "Unschedulable": lambda table, rows, data: table._apply_values(rows, data, "unschedulable", bool),
    "Labels": Table._apply_labels,
    "Taints": Table._apply_taints,
    "Allocatable": lambda table, rows, data: table._apply_resources(rows, data, "allocatable"),
    "Requested": lambda table, rows, data: table._apply_resources(rows, data, "requested"),
    "NonZeroRequested": Table._apply_non_zero,
    "PodCount": lambda table, rows, data: table._apply_values(rows, data, "pod_count", int),
    "Images": lambda table, rows, data: table._apply_texts(rows, data, "images"),
    "HostPorts": Table._apply_host_ports,
    "Annotations": Table._apply_annotations,
    "DeclaredFeatures": lambda table, rows, data: table._apply_texts(rows, data, "declared_features"),
}
