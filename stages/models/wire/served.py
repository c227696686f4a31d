"""Is the model that answered the one that was asked for?"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from stages.models.wire.endpoint import Endpoint
from stages.models.wire.errors import one_line
from stages.records.errors import UserError

_DATE = re.compile(r"[-@:]?(?:\d{4}-?\d{2}-?\d{2}|\d{2}-\d{2})")


def check_served(
    endpoint: Endpoint, body: Mapping[str, Any], served_as: Iterable[str], allow_other: bool
) -> None:
    """Raise UserError where a reply names another model than the asked one: the run ends."""
    served = body.get("model")
    if allow_other or not isinstance(served, str) or not served:
        return
    if not is_same_model(endpoint.model, served, served_as):
        raise UserError(
            f"{endpoint.provider} ({endpoint.base_url})",
            f"answers with {one_line(served, 80)} where {endpoint.model} was asked for",
            f"{endpoint.blame.hint} If it is the same model, add its id to `served_as`; if another "
            "will do, set `allow_other_model: true`.".strip(),
        )


def is_same_model(asked: str, served: str, aliases: Iterable[str] = ()) -> bool:
    """Whether a served model id is the asked one by another spelling.

    Letter case, the maker before ``/``, a variant after ``:``, a revision after ``@``, ``.gguf``
    and a release date that the served id adds make no difference. A date in the asked id is part
    of it: ``qwen3-235b-a22b-2507`` is another model than ``qwen3-235b-a22b``.

    Parameters
    ----------
    asked, served : str
        Model ids.
    aliases : iterable of str
        Further ids under which the asked model is known to be served; ``*`` and ``?`` stand for any
        letters, as in ``gemini-2.5-flash-preview-*``.
    """
    name = _bare(served)
    for known in map(_bare, (asked, *aliases)):
        added = name.removeprefix(known)
        if name == known or (name != added and _DATE.fullmatch(added)):
            return True
    return any(fnmatchcase(name, _bare(alias)) for alias in aliases)


def _bare(model: str) -> str:
    name = model.strip().lower().rpartition("/")[2]
    return re.split(r"[:@]", name)[0].removesuffix(".gguf")
