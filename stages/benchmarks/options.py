"""Multiple choice in words: options below the question, and a letter turned into a text."""

import re
from collections.abc import Mapping

LETTERS = "ABCDEFGH"
_LEAD = re.compile(r"Please select the correct answer from the following options:", re.I)


def present(text: str | None) -> bool:
    """Whether an option's cell holds one: null, blank and the string ``nan`` do not."""
    return text is not None and text.strip().lower() not in ("", "nan")


def with_options(question: str, options: Mapping[str, str]) -> str:
    """The question with its options, one a line, as a target reads it."""
    if not options:
        return question
    return "\n".join([question, "Options:", *(f"{key}. {text}" for key, text in options.items())])


def reference_of(answer: str | None, options: Mapping[str, str]) -> str | None:
    """The publisher's answer: ``B. red hat`` for the letter B; None where it names no option."""
    if answer is None or not options:
        return answer
    letter = answer.strip().rstrip(".").upper()
    if letter in options:
        return f"{letter}. {options[letter]}"
    matching = [key for key, text in options.items() if text.strip() == answer.strip()]
    return f"{matching[0]}. {options[matching[0]]}" if matching else None


def split_options(question: str) -> tuple[str, dict[str, str]]:
    """Part a question whose options stand in its last sentence, as in DriveLM's ``test_eval``.

    An option may hold several sentences: only the next letter in order begins the next option.
    """
    parts = _LEAD.split(question, maxsplit=1)
    if len(parts) < 2:
        return question, {}
    rest, options = parts[1].strip(), dict[str, str]()
    for letter, following in zip(LETTERS, f"{LETTERS[1:]} ", strict=True):
        if not rest.startswith(f"{letter}."):
            break
        body, found, tail = rest[2:].partition(f" {following}. ")
        options[letter] = body.strip()
        rest = f"{following}. {tail}" if found else ""
    return (parts[0].strip(), options) if len(options) > 1 else (question, {})
