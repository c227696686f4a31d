"""Seeds that go over the wire: positive 31-bit numbers, since no provider takes less."""

import hashlib


def seed_of(seed: int, replicate: int) -> int:
    """The seed of a sample: the run's own for the first, another for each further one."""
    return seed % 2**31 if replicate == 0 else _digest(f"replicate|{seed}|{replicate}")


def edit_seed(seed: int, attempt: int) -> int:
    """The seed of an attempt at an edit: each attempt of each run has another."""
    return _digest(f"edit|{seed}|{attempt}")


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1
