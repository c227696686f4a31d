"""Many records in little memory: held as bytes, and made anew whenever they are looked at."""

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar, overload

R = TypeVar("R")


class Held(Sequence[R], Generic[R]):
    """A sequence whose items are held as bytes; as records they would take several times as much.

    Parameters
    ----------
    parts : sequence of bytes
        An item each.
    load : callable
        Makes an item of its bytes.
    """

    def __init__(self, parts: Sequence[bytes], load: Callable[[bytes], R]) -> None:
        self._parts, self._load = parts, load

    @classmethod
    def of(cls, items: Iterable[R]) -> "Held[R]":
        """Hold items of any kind."""
        return cls([pickle.dumps(item) for item in items], pickle.loads)

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, index: int) -> R: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[R]: ...

    def __getitem__(self, index: int | slice) -> R | Sequence[R]:
        if isinstance(index, slice):
            return Held(self._parts[index], self._load)
        return self._load(self._parts[index])
