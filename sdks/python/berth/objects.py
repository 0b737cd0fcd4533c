"""The objects of the kinds that the plugin requests. Each object is decoded at its first read."""

import json
from collections.abc import Iterator, Mapping


class Objects(Mapping[tuple[str, str], dict]):
    """The objects of one kind by namespace and name."""

    def __init__(self):
        # Each value is `bytes` before its first read.
        self._objects: dict[tuple[str, str], bytes | dict] = {}

    def apply(self, key: tuple[str, str], text: bytes | None) -> None:
        """Sets or removes an object. `text` is None for a deleted object."""
        if text is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = text

    def __getitem__(self, key: tuple[str, str]) -> dict:
        object = self._objects[key]
        if isinstance(object, bytes):
            object = self._objects[key] = json.loads(object)
        return object

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)
