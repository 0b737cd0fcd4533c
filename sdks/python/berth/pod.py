"""A pod with strings instead of symbols."""

import json
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from . import declared

if TYPE_CHECKING:
    from .table import Node


class HostPort(NamedTuple):
    address: str
    """The address 0.0.0.0 stands for all addresses."""
    protocol: str
    port: int

    @classmethod
    def of(cls, raw, text: Callable[[int], str]) -> "HostPort":
        return cls(text(raw.address), text(raw.protocol), raw.port)


class Pod:
    """A pending pod or a pod on a node. `raw` is the `record pod` of wit/types.wit. It has fields that have no property here.
    `text` converts the symbols of `raw` to strings."""

    def __init__(self, raw, table, slot: int | None = None, node: "Node | None" = None):
        self.raw = raw
        self.slot = slot
        self.node = node
        """The node of the pod, or None for a pending pod."""
        self._table = table

    @property
    def json(self) -> dict | None:
        """The whole pending pod, if the plugin has `pod_json`."""
        return json.loads(self.raw.json) if declared.has_pod_json() and self.raw.json is not None else None

    def text(self, symbol: int) -> str:
        return self._table.text(symbol)

    @property
    def uid(self) -> str:
        return self.raw.uid

    @property
    def name(self) -> str:
        return self.raw.name

    @property
    def namespace(self) -> str:
        return self.text(self.raw.namespace)

    @property
    def priority(self) -> int:
        return self.raw.priority

    @cached_property
    def labels(self) -> dict[str, str]:
        return {self.text(key): self.text(value) for key, value in self.raw.labels}

    @cached_property
    def images(self) -> list[str]:
        """The images of init containers, containers and image volumes. An image without a tag and a digest has the tag `latest`."""
        return [self.text(name) for name in self.raw.images]

    @cached_property
    def host_ports(self) -> list[HostPort]:
        return [HostPort.of(port, self.text) for port in self.raw.host_ports]

    @cached_property
    def requests(self) -> dict[str, int]:
        """The pod's request of each resource: milli-CPU, bytes or units. A resource that is absent has the amount 0."""
        return self._table.amounts(self.raw.requests)

    @cached_property
    def placed_requests(self) -> dict[str, int]:
        """The amounts that the pod adds to the usage of its node, including a resize that is in progress."""
        return self._table.amounts(self.raw.placed_requests)
