"""The form: one HTML file an annotator, which needs no network and no other file."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources

from stages.annotation.images import Coding
from stages.annotation.material import Item
from stages.records.form import FORMAT


def render(
    items: Sequence[Item],
    *,
    form: str,
    annotator: str,
    coding: Coding,
    files: Mapping[str, bytes],
) -> str:
    """The form of one annotator.

    Parameters
    ----------
    items : sequence of Item
        In the annotator's order.
    form, annotator : str
        The names that go back with the answers.
    coding : Coding
        How the images are written.
    files : mapping of str to bytes
        Images by SHA-256 of their PNG; those that the items name are put in.

    Returns
    -------
    html : str
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    numbers: dict[str, str] = {}
    for item in items:
        for sha256 in item.images.values():
            numbers.setdefault(sha256, f"i{len(numbers) + 1}")
    length = max((len(item.after) for item in items), default=0)
    data = {
        "format": FORMAT,
        "form": form,
        "annotator": annotator,
        "items": [
            {
                **item.shown,
                "sealed": item.sealed(length),
                "images": {kind: numbers[sha256] for kind, sha256 in item.images.items()},
            }
            for item in items
        ],
    }
    script = "\n".join(_template(name) for name in ("answers.js", "viewer.js", "form.js"))
    style = _template("form.css")
    environment = Environment(
        loader=PackageLoader("stages.annotation"), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("form.html").render(
        form=form,
        annotator=annotator,
        n=len(items),
        script=script,
        style=style,
        script_hash=_hash(script),
        style_hash=_hash(style),
        data=in_script(data),
        mime=coding.mime,
        images={name: base64.b64encode(files[sha256]).decode() for sha256, name in numbers.items()},
    )


def in_script(value: object) -> str:
    """JSON that no parser of HTML takes for anything else: ASCII without ``<``, ``>``, ``&``."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _template(name: str) -> str:
    return (resources.files("stages.annotation") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash by which the page's own policy lets a script or a style run."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
