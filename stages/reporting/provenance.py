"""What a report rests on: the study's configuration in words, and content hashes of what made it.

Nothing here names a revision of git: the page is an output like any other, so equal inputs have to
give equal bytes, in every clone and whatever was committed since. It has the name of git's own tree
of the code instead, from which the revisions are found that hold it (docs/report.md).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.reporting import words
from stages.reporting.study import Study, adapters_of, use_by_role

IGNORED = ("__pycache__",)
"""Folders that are no part of a tree (as in .dvcignore and .gitignore)."""


def git_tree(folder: Path) -> str | None:
    """Name of a folder as git would store it: ``git rev-parse REVISION:folder`` of equal files.

    Caches of Python are left out. None where there is no such folder.
    """
    return _tree(folder).hex() if folder.is_dir() else None


def _tree(folder: Path) -> bytes:
    entries = []
    for path in folder.iterdir():
        if path.name in IGNORED or path.suffix == ".pyc":
            continue
        if path.is_symlink():
            entries.append((path.name, "120000", _object("blob", str(path.readlink()).encode())))
        elif path.is_dir():
            if any(path.iterdir()):
                entries.append((f"{path.name}/", "40000", _tree(path)))
        else:
            mode = "100755" if path.stat().st_mode & 0o100 else "100644"
            entries.append((path.name, mode, _object("blob", path.read_bytes())))
    entries.sort(key=lambda entry: entry[0].encode())
    return _object(
        "tree",
        b"".join(f"{mode} {name.rstrip('/')}\0".encode() + sha for name, mode, sha in entries),
    )


def _object(kind: str, content: bytes) -> bytes:
    header = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(header + content, usedforsecurity=False).digest()


def digest(params: Mapping[str, Any]) -> str:
    """SHA-256 of parameters in canonical JSON."""
    canonical = json.dumps(params, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def configuration(study: Study) -> list[tuple[str, str]]:
    """The choices that make a study, in words: label and value."""
    out = []
    if study.samples:
        counts = Counter(sample.domain for sample in study.samples.values())
        told = ", ".join(f"{n} {domain}" for domain, n in counts.items())
        out.append(("Samples", f"{len(study.samples)}: {told}"))
    for axis in ("target", "extractor", "editor", "judge"):
        names = list(dict.fromkeys(getattr(cell, axis) for cell in study.cells))
        if names:
            label = axis.capitalize() + ("s" if len(names) > 1 else "")
            out.append((label, _served(study, axis, names)))
    called = {use.role for use in use_by_role(study)}
    roles = [r for r in ("detector", "segmenter") if study.cells or r in called]
    out += [(role.capitalize(), adapters_of(study.params, role)) for role in roles]
    if study.cells:
        out.append(("Chain", _chain(study.params.get("chain"))))
    if study.tau_in is not None and study.tau_out is not None:
        bounds = f"r_in > {study.tau_in:g} and r_out < {study.tau_out:g}"
        decides = study.verifier_mode in ("and", "or")
        out.append(("Gate", f"{'accepts' if decides else 'an edit counts'} where {bounds}"))
    if rule := verifier_rule(study):
        served = [use.served for use in use_by_role(study) if use.role == "verifier"]
        named = [name for name in dict.fromkeys(served) if name]
        who = ", ".join(named) or adapters_of(study.params, "verifier")
        out.append(("Verifier", f"{who}: {rule}"))
    seeds = sorted({cell.seed for cell in study.cells})
    if seeds:
        out.append(("Seed" + "s" * (len(seeds) > 1), ", ".join(map(str, seeds))))
    if isinstance(prompts := study.params.get("prompts"), str):
        out.append(("Prompts", prompts))
    return [(label, value) for label, value in out if value]


RULES = {
    "report_only": "asked about every edit that was measured; its word decides nothing",
    "and": "an edit counts where gate and verifier both accept; without a usable reply of the "
    "verifier it does not",
    "or": "an edit counts where the gate or the verifier accepts; without a usable reply of the "
    "verifier the gate decides",
}
"""What the word of a verifier does, by `verify.with_verifier`."""


def verifier_rule(study: Study) -> str:
    """What the word of the verifier does; empty where none is asked."""
    return RULES[study.verifier_mode] if study.verifier_mode else ""


def _served(study: Study, role: str, names: Sequence[str]) -> str:
    served = [use.served for use in use_by_role(study) if use.role == role and use.served]
    behind = [name for name in dict.fromkeys(served) if name not in names]
    return ", ".join(names) + (f" (served: {', '.join(behind)})" if behind else "")


def _chain(chain: object) -> str:
    """The settings of the chain, e.g. ``at most 2 edits, 2 attempts each``."""
    if not isinstance(chain, Mapping) or "k" not in chain:
        return ""
    parts = [_count(chain["k"], "edit", "at most ")]
    if "max_attempts" in chain:
        parts.append(_count(chain["max_attempts"], "attempt") + " each")
    after = {"stop": "ends at an edit that failed", "skip": "goes on past an edit that failed"}
    if told := after.get(str(chain.get("on_rejection"))):
        parts.append(told)
    return words.plain(", ".join(parts))


def _count(n: object, noun: str, before: str = "") -> str:
    return f"{before}{n} {noun}{'' if n == 1 else 's'}"
