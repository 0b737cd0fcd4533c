"""What helps `normalize_columns`."""

from array import array
from typing import TYPE_CHECKING

from .views import N_KEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

# By key, in the order of use: the scores that were given, and what was made of them.
_kept: "dict[Hashable, tuple[bytes, array]]" = {}


def kept(key: "Hashable", scores: memoryview, normalize: "Callable[[memoryview], Iterable[int]]") -> array:
    """What the function makes of the scores: worked out anew when they differ from those that came with the key before. `key`
    stands for whatever else the answer depends on. The 16 keys used last are kept."""
    given = scores.tobytes()
    before, answer = _kept.pop(key, (None, None))
    if answer is None or before != given:
        answer = array("q", normalize(scores))
    _kept[key] = given, answer
    if len(_kept) > N_KEPT:
        del _kept[next(iter(_kept))]
    return answer


def default_normalize(scores: memoryview, reverse: bool = False) -> array:
    """In proportion to the highest score, which becomes 100; with `reverse` it becomes 0, and 0 becomes 100. As kube-scheduler's
    plugins do it, for scores that are not negative."""

    def normalize(scores):
        different = set(scores)
        most = max(different, default=0)
        normal = {score: 100 * score // most if most else 0 for score in different}
        if reverse:
            normal = {score: 100 - it for score, it in normal.items()}
        return [normal[score] for score in scores]

    return kept((default_normalize, reverse), scores, normalize)
