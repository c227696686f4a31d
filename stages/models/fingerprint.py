"""The identity of code: a built-in model is its source, so a change of source is another model."""

import hashlib
import importlib.util
from functools import cache
from pathlib import Path


@cache
def fingerprint(*names: str) -> str:
    """SHA-256 over the source of modules and packages, given by their import names.

    Packages count with all their ``.py`` files. Equal sources give equal digests on any machine.
    """
    digest = hashlib.sha256()
    for name in sorted(names):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(name)
        origin = Path(spec.origin)
        files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
        for file in files:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
