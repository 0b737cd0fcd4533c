"""Functions for `normalize_columns`."""

from array import array
from typing import TYPE_CHECKING

from .views import N_KEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

# The scores and the result of each key, in the order of the last use.
_kept: "dict[Hashable, tuple[bytes, array]]" = {}


def kept(key: "Hashable", scores: memoryview, normalize: "Callable[[memoryview], Iterable[int]]") -> array:
    """Returns the result of the function for the scores. The function is called only if the scores differ from the previous scores
    with the same key. It must depend only on the scores and on the data that `key` stands for. The results for the 16 most
    recently used keys are kept."""
    given = scores.tobytes()
    before, answer = _kept.pop(key, (None, None))
    if answer is None or before != given:
        answer = array("q", normalize(scores))
    _kept[key] = given, answer
    if len(_kept) > N_KEPT:
        del _kept[next(iter(_kept))]
    return answer


def default_normalize(scores: memoryview, reverse: bool = False) -> array:
    """Scales the scores so that the highest score becomes 100. With `reverse`, the highest score becomes 0, and 0 becomes 100. It
    works like kube-scheduler's `DefaultNormalizeScore`. The scores must not be negative."""

    def normalize(scores):
        different = set(scores)
        most = max(different, default=0)
        normal = {score: 100 * score // most if most else 0 for score in different}
        if reverse:
            normal = {score: 100 - it for score, it in normal.items()}
        return [normal[score] for score in scores]

    return kept((default_normalize, reverse), scores, normalize)
