"""Which DriveLM questions the front camera can answer, and which of these come first.

DriveLM asks about six cameras at once and marks objects by tags such as
``<c1,CAM_BACK,88.3,97.5>``. The rules here go by the words of question and answer and by the
frame's key objects. They are strict: what may need another camera is left out, with the reason,
because there is plenty.
"""

import re
from collections.abc import Collection
from typing import NamedTuple

# Repetitions are bounded, so that no text takes more than linear time.
TAG = re.compile(r"<[^<>]{0,200}?CAM_[^<>]{0,200}>", re.I)
_CAMERA = re.compile(r"\bCAM_\w+", re.I)
_COORDINATES = re.compile(
    r"bounding box|coordinate|\bx1\b|center point|\boffsets?\b"
    r"|[(\[<]\s{0,3}-?\d{1,5}(?:\.\d{1,5})?\s{0,3},\s{0,3}-?\d"
    r"|\d{1,5}\.\d{1,5}\s{0,3},\s{0,3}-?\d{1,5}\.\d",
    re.I,
)
_REVERSING = re.compile(r"\bback(?:ing|s|ed)?[ -]up\b|\bmov\w+ back(?:wards?)?\b", re.I)
_ELSEWHERE = re.compile(
    r"\bback\b|\bbehind\b|\brear\b|\bfront[ -](?:left|right)\b|\b(?:left|right)[ -]front\b"
    r"|\bto the (?:left|right) (?:side )?of the ego\b|\ball (?:six )?(?:cameras|views)\b"
    r"|\b(?:left|right|side|surround)[ -](?:view|camera)s?\b",
    re.I,
)
_IDS = re.compile(
    r"\s{0,3}The IDs? of (?:these|this|the) objects? (?:are|is)\b[^.]*(?:\.\d[^.]*)*\.?\s*$"
)
_OBJECT = re.compile(
    r"\b(?:car|truck|bus|van|suv|sedan|trailer|vehicle|motorcycle|bicycle|cyclist|rider|pedestrian"
    r"|person|people|barrier|cone|obstacle|sign|signal|light|traffic element|crosswalk"
    r"|construction vehicle|lane|marking|droplet)(?:s|es)?\b",
    re.I,
)
_EGO = re.compile(r"\bego[ -](?:vehicle|car)\b|\bmain car\b", re.I)
_NEGATIVE = re.compile(r"^\s*(?:no\b|none\b|there (?:is|are) (?:no|none|not)\b)", re.I)
_FRONT = re.compile(r"\bfront\b|\bahead\b|\btraffic (?:signal|light|sign|element)", re.I)
_KINDS = (
    ("traffic signal", r"traffic signal"),
    ("traffic elements", r"traffic element"),
    ("target action", r"target action"),
    ("safe actions", r"\bsafe actions"),
    ("dangerous actions", r"\bdangerous actions"),
    ("priority", r"\bpriority of"),
    ("important objects", r"important objects"),
    ("description", r"describe|your comment"),
    ("behaviour", r"behaviou?r of the ego"),
    ("status", r"\bstatus\b"),
    ("existence", r"^(?:is|are) there\b"),
    ("objects", r"what are (?:the )?objects"),
)


WORST = 2
"""The last tier."""


class Frame(NamedTuple):
    """What is known of a key frame's key objects."""

    known: bool
    """Whether the file lists them at all: the challenge forms do not."""
    front: int
    """How many are in the front camera."""
    elsewhere: int
    """How many are in the other five."""


def frame_of(tags: Collection[str] | None) -> Frame:
    """Count the key objects by camera from their tags; None: the file lists none."""
    if tags is None:
        return Frame(False, 0, 0)
    front = sum(cameras(tag) == {"CAM_FRONT"} for tag in tags)
    return Frame(True, front, len(tags) - front)


def cameras(text: str) -> set[str]:
    """Cameras that a text names."""
    return {name.upper() for name in _CAMERA.findall(text)}


def plain_answer(answer: str) -> str:
    """The answer without the sentence in which DriveLM lists the tags of what it named."""
    return _IDS.sub("", answer) if "<" in answer else answer


def objection(task: str, question: str, answer: str | None, frame: Frame) -> str | None:
    """Why a question is left out; None where the front camera alone can answer it.

    ``answer`` is as `plain_answer` leaves it, or None where the file holds none.
    """
    if "<" in question and TAG.search(question):
        return "object_tag_in_question"
    if _COORDINATES.search(question):
        return "coordinates_in_question"
    if _CAMERA.search(question) or _ELSEWHERE.search(_REVERSING.sub("", question)):
        return "question_about_another_camera"
    if answer is not None:
        if "<" in answer and TAG.search(answer):
            return "object_tag_in_answer"
        if _COORDINATES.search(answer):
            return "coordinates_in_answer"
        if _CAMERA.search(answer) or _ELSEWHERE.search(_REVERSING.sub("", answer)):
            return "answer_needs_another_camera"
    if task != "perception" and frame.known and not frame.front and not _FRONT.search(question):
        return "key_objects_in_other_cameras"
    return None


def tier(task: str, question: str, answer: str | None, frame: Frame) -> int:
    """How surely the answer hangs on what the front camera shows: 0 first, 2 last.

    0: planning and perception questions about something visible in front, or about the ego
    vehicle's next action where all key objects are in front; 1: planning and perception with only
    part of that; 2: the rest (prediction and behaviour, absence of a thing, nothing known).
    """
    if task not in ("planning", "perception"):
        return 2
    said = _EGO.sub("", f"{question} {answer or ''}")
    absent = answer is None or bool(_NEGATIVE.search(answer))
    visible = bool(_OBJECT.search(said)) and not absent
    if visible and _FRONT.search(question):
        return 0
    if task == "planning" and frame.front and not absent:
        return 1 if frame.elsewhere else 0
    return 1 if visible else 2


def kind(task: str, question: str) -> str:
    """The family of a question, over which the recipe balances."""
    for name, pattern in _KINDS:
        if re.search(pattern, question, re.I):
            return f"{task}: {name}"
    return f"{task}: other"
