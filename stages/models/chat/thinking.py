"""Thinking aloud, kept apart from the answer."""

import re

_OPENED = re.compile(r"\s*<think>(.*?)</think>(.*)", re.DOTALL)
_CLOSED = re.compile(r"(.*?)</think>(.*)", re.DOTALL)


def split_thinking(text: str) -> tuple[str, str]:
    """Text and thinking of a reply with ``<think>…</think>`` at its head.

    A chat template may have opened the tag in the prompt already. What was opened and never closed
    is thinking alone.
    """
    found = _OPENED.fullmatch(text)
    if found is None and "<think>" not in text:
        found = _CLOSED.fullmatch(text)
    if found is not None:
        return found[2].strip(), found[1].strip()
    return ("", text) if text.lstrip().startswith("<think>") else (text, "")
