"""How a checkpoint's chat template wants its messages, found out by trying.

Templates differ in what they take for a message's content: a list of parts, a string, or either.
What they don't take they drop in silence, or refuse. So a conversation of known words is rendered
in each form, and the first is taken that shows them all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from stages.models.protocol import Turn
from stages.records.errors import UserError

Content = Literal["parts", "strings", "pictured"]
Message = dict[str, Any]
_WORDS = ("edctsystem", "edctuser", "edctassistant", "edctagain")


@dataclass(frozen=True)
class Form:
    """How turns become messages.

    Parameters
    ----------
    content : str
        ``parts``: lists of parts throughout; ``strings``: strings throughout; ``pictured``: parts
        for user turns, strings for the others.
    system : bool
        Whether the template takes a system turn. Where not, its text opens the first user turn.
    images_first : bool
        Pictures before the text of their turn, or after it.
    """

    content: Content
    system: bool
    images_first: bool = True

    def messages(self, turns: Sequence[Turn], shown: Sequence[Any] = ()) -> list[Message]:
        """Messages for ``apply_chat_template``; ``shown`` are the turns' images, in order."""
        images = iter(shown)
        return [self._message(turn, images) for turn in self._told(turns)]

    def _told(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        if self.system or not turns or turns[0].role != "system":
            return turns
        told, first, *rest = turns
        return (Turn(first.role, f"{told.text}\n\n{first.text}", first.pictures), *rest)

    def _message(self, turn: Turn, images: Any) -> Message:
        if self.content == "strings" or (self.content == "pictured" and turn.role != "user"):
            return {"role": turn.role, "content": turn.text}
        text = [{"type": "text", "text": turn.text}]
        shown = [{"type": "image", "image": next(images)} for _ in turn.pictures]
        content = [*shown, *text] if self.images_first else [*text, *shown]
        return {"role": turn.role, "content": content}


def form_of(
    where: str,
    render: Callable[[list[Message]], str],
    *,
    pictures: bool,
    images_first: bool = True,
) -> Form:
    """Find the form that a template takes.

    Parameters
    ----------
    where : str
        The model, for errors.
    render : callable
        Renders messages to a prompt, without tokens.
    pictures : bool
        Whether turns may show pictures.
    images_first : bool
        See `Form`.
    """
    contents: tuple[Content, ...] = ("parts", "pictured") if pictures else ("strings", "parts")
    reason: Exception | None = None
    for system, content in product((True, False), contents):
        form = Form(content, system, images_first)
        try:
            prompt = render(form.messages(_PROBE))
        except Exception as error:  # a template raises what it likes
            reason = error
            continue
        if _shows_all(prompt):
            return form
    raise UserError(
        where,
        f"has a chat template that shows no dialogue ({reason or 'words are lost'})",
        "Take an instruction-tuned checkpoint with a chat template.",
    )


_PROBE = (
    Turn("system", _WORDS[0]),
    Turn("user", _WORDS[1]),
    Turn("assistant", _WORDS[2]),
    Turn("user", _WORDS[3]),
)


def _shows_all(prompt: str) -> bool:
    """Whether all words are there, the dialogue's in order; a system's stand where they may."""
    system, *dialogue = (prompt.find(word) for word in _WORDS)
    return min(system, *dialogue) >= 0 and dialogue == sorted(dialogue)


def checked_variables(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Variables of a chat template, such as ``enable_thinking``, that YAML may set."""
    given = dict(values or {})
    taken = sorted(set(given) & {"tokenize", "add_generation_prompt", "chat_template", "tools"})
    if taken:
        raise ValueError(f"template_kwargs: {taken[0]} is not free to choose")
    return given
