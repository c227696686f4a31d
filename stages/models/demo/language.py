"""How the built-in models put answers and evidence into words, and read them back.

What they write is canonical: "the orange colour of the ball", "the lined pattern of the ball",
"the left-facing direction of the car", "the pumpkin", "the empty road". What they read may be
looser: "a lined orange ball", "the car faces left", "the road is empty". Things named as missing
("no pumpkin") are not evidence.
"""

import re

from stages.models.demo.changes import with_article
from stages.models.demo.world import (
    COLOURS,
    EMPTY_ROAD,
    FACINGS,
    KINDS,
    NOTHING,
    PATTERNS,
    PETS,
    UNCLEAR,
    VEHICLES,
    Aspect,
    Evidence,
    Question,
)

# --- evidence ------------------------------------------------------------------------------------

_KIND = "|".join(sorted(KINDS, key=len, reverse=True))
_VALUE = "|".join((*COLOURS, *PATTERNS, *(f"{facing}-facing" for facing in FACINGS)))
_EVIDENCE = re.compile(
    rf"""\b(?:
    (?P<road>empty\s+road | road\s+is\s+(?:empty|clear|free))
    | (?P<value>{_VALUE})\s+(?:colou?r|pattern|direction)\s+of\s+(?:the\s+)?
      (?P<whose>{_KIND.replace(" ", chr(92) + "s+")})
    | (?P<missing>(?:no|without)\s+(?:an?\s+|any\s+|the\s+)?)?
      (?P<values>(?:(?:{_VALUE})(?:,|\s+and)?\s+)*)
      (?P<kind>{_KIND.replace(" ", chr(92) + "s+")})
      (?:\s+(?:is\s+)?(?:faces|facing|points|pointing)\s+(?:to\s+)?(?:the\s+)?
        (?P<facing>left|right))?
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)


def phrase(evidence: Evidence) -> str:
    """Name a piece of evidence, with the article."""
    if evidence == EMPTY_ROAD:
        return "the empty road"
    match evidence.aspect:
        case "colour" | "pattern":
            return f"the {evidence.value} {evidence.aspect} of the {evidence.kind}"
        case "facing":
            return f"the {evidence.value}-facing direction of the {evidence.kind}"
        case "presence":
            return f"the {evidence.kind}"


def read_evidence(text: str) -> tuple[Evidence, ...]:
    """Find the evidence that a text names, in its order, each piece once.

    A thing that is named together with a feature is not listed beside that feature; named alone
    it is evidence by its presence.
    """
    found: dict[Evidence, None] = {}
    for match in _EVIDENCE.finditer(text):
        if match["road"]:
            found[EMPTY_ROAD] = None
        elif match["value"]:
            found[_feature(match["whose"], match["value"])] = None
        elif not match["missing"]:
            values = re.findall(_VALUE, match["values"], re.IGNORECASE)
            if match["facing"]:
                values.append(f"{match['facing']}-facing")
            features = [_feature(match["kind"], value) for value in values]
            kind = _plain(match["kind"])
            found.update(dict.fromkeys(features or [Evidence(kind, "presence")]))
    described = {evidence.kind for evidence in found if evidence.aspect != "presence"}
    return tuple(e for e in found if e.aspect != "presence" or e.kind not in described)


def _feature(kind: str, value: str) -> Evidence:
    value = _plain(value)
    aspect: Aspect = "colour" if value in COLOURS else "pattern" if value in PATTERNS else "facing"
    return Evidence(_plain(kind), aspect, value.removesuffix("-facing"))


def _plain(words: str) -> str:
    return " ".join(words.lower().split())


def explain(evidence: tuple[Evidence, ...]) -> str:
    """Put the evidence into a sentence, in its order."""
    if not evidence:
        return "Nothing in particular led me to it."
    *first, last = map(phrase, evidence)
    return f"I went by {', '.join(first)} and {last}." if first else f"I went by {last}."


# --- answers -------------------------------------------------------------------------------------

_SAID = {
    "ripe": {"yes": "Yes, it is ripe.", "no": "No, it is not ripe."},
    "stop": {"stop": "Yes, it has to stop.", "go": "No, it can go on."},
    "go": {"go": "Yes, it can go on.", "stop": "No, it has to stop."},
    "same_direction": {"yes": "Yes, they do.", "no": "No, they do not."},
    "pet": {NOTHING: "There is no pet to be seen."},
    "ahead": {NOTHING: "There is no vehicle ahead."},
    "left_of": {NOTHING: "There is nothing."},
}
_NOTHING_SAID = re.compile(r"\b(?:nothing|none|no (?:pet|animal|vehicle|object|one))\b")
_UNCLEAR_SAID = re.compile(
    r"\b(?:can(?:'t|’t|not| not) (?:tell|say)|hard to (?:tell|say)|unclear)\b"
)
_YES_OR_NO = re.compile(r"\W*(yes|no)\b")
_SYNONYMS = {"soccer": "football", "fall": "autumn", "unripe": "no", "go on": "go"}


def answers(question: Question) -> tuple[str, ...]:
    """All answers that there are to a question, `UNCLEAR` last."""
    return (*_values(question), UNCLEAR)


def _values(question: Question) -> tuple[str, ...]:
    match question.family:
        case "sport":
            return "basketball", "football", "tennis", "bowling"
        case "season":
            return "spring", "summer", "autumn"
        case "ripe" | "same_direction":
            return "yes", "no"
        case "stop" | "go":
            return "stop", "go"
        case "pet":
            return *PETS, NOTHING
        case "ahead":
            return *VEHICLES, NOTHING
        case "turn" | "facing":
            return FACINGS
        case "colour":
            return COLOURS
        case _:
            return *(kind for kind in KINDS if kind not in question.kinds), NOTHING


def say_answer(question: Question, answer: str) -> str:
    """Answer in a sentence."""
    if answer == UNCLEAR:
        return "I can't tell."
    if said := _SAID.get(question.family, {}).get(answer):
        return said
    match question.family:
        case "pet" | "ahead":
            return f"It is {with_article(answer)}."
        case "turn" | "facing":
            return f"To the {answer}."
        case "left_of":
            return f"It is the {answer}."
        case _:
            return f"It is {answer}."


def read_answer(question: Question, text: str) -> str | None:
    """Which answer a text gives; None where it gives none, or more than one."""
    text = _plain(text)
    if _UNCLEAR_SAID.search(text):
        return UNCLEAR
    if (said := _YES_OR_NO.match(text)) and (sentences := _SAID.get(question.family)):
        for answer, sentence in sentences.items():
            if sentence.lower().startswith(f"{said[1]},"):
                return answer
    values = _values(question)
    if NOTHING in values and _NOTHING_SAID.search(text):
        return NOTHING
    words = sorted({*values, *_SYNONYMS}, key=len, reverse=True)
    named = re.findall(rf"\b(?:{'|'.join(words)})\b", text)
    found = {_SYNONYMS.get(word, word) for word in named} & set(values)
    return found.pop() if len(found) == 1 else None
