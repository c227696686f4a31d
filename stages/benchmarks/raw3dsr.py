"""3DSRBench's raw CSV: annotations that hold no question, put into words here.

Columns ``qid, image, qtype, relation, subject, object1, object2, answer``. How a row's fields play
together is known from third parties only. So only rows whose answer is among the options that the
wording offers are taken; all others are reported. The publisher's other files hold the publisher's
own wording and are to be preferred.
"""

from collections.abc import Mapping
from typing import Any

from stages.benchmarks.fields import RowError, required, text
from stages.benchmarks.options import LETTERS, present

COLUMNS = ("qid", "image", "qtype", "relation", "subject", "object1", "object2", "answer")
_SIDES = ("front", "left", "back", "right")
_YES_NO = ("yes", "no")
_LEAD = "Consider where the objects are in the real, three-dimensional scene."
_WORDS: Mapping[str, str] = {
    "orientation_viewpoint": "Which side of the {subject} is turned towards the camera?",
    "multi_object_viewpoint_towards_object": (
        "Which side of the {subject} is turned towards the {object1}?"
    ),
    "orientation_in_front_of": (
        "Seen from the {subject} and its own heading, is the {object1} in front of it?"
    ),
    "orientation_on_the_left": (
        "Seen from the {subject} and its own heading, is the {object1} on its left?"
    ),
    "multi_object_parallel": "Do the {subject} and the {object1} stand parallel to each other?",
    "multi_object_same_direction": "Do the {subject} and the {object1} face the same direction?",
}
_CHOICES: Mapping[str, str] = {
    "orientation_in_front_of": (
        "Seen from the {subject} and its own heading, which one is in front of it?"
    ),
    "orientation_on_the_left": (
        "Seen from the {subject} and its own heading, which one is on its left?"
    ),
    "multi_object_facing": "Which one is the {subject} facing?",
}


class NoWordingError(Exception):
    """The row's category is none that this module puts into words."""


def worded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a raw row into one with question, options, category and ``image_url``.

    Raises
    ------
    NoWordingError
        For a category other than orientation and its relatives.
    RowError
        If the answer is not among the options that the wording offers.
    """
    kind = f"{required(row, 'qtype')}_{required(row, 'relation')}".lower().replace(" ", "_")
    if kind not in _WORDS and kind not in _CHOICES:
        raise NoWordingError(kind)
    names = {name: text(row, name) for name in ("subject", "object1", "object2")}
    named = {name: value for name, value in names.items() if value and present(value)}
    answer = required(row, "answer")
    objects = [value for name, value in named.items() if name != "subject"]
    options: tuple[str, ...]
    if "viewpoint" in kind:
        options, wording = _SIDES, _WORDS[kind]
    elif answer.lower() in _YES_NO and kind in _WORDS:
        options, wording = _YES_NO, _WORDS[kind]
    elif len(objects) == 2 and kind in _CHOICES:
        options, wording = tuple(objects), _CHOICES[kind]
    else:
        raise RowError(f"no wording of {kind} has the answer {answer[:40]!r}")
    lettered = dict(zip(LETTERS, options, strict=False))
    right = [key for key, option in lettered.items() if option.lower() == answer.lower()]
    try:
        question = f"{_LEAD} {wording.format(**named)}"
    except KeyError as error:
        raise RowError(f"{error.args[0]} is empty") from None
    if not right:
        raise RowError(f"no wording of {kind} has the answer {answer[:40]!r}")
    return {
        "qid": row.get("qid"),
        "image_url": row.get("image"),
        "category": kind,
        "question": question,
        "answer": right[0],
        **lettered,
    }
