"""A text model with weights on this machine, for extractors and judges."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from stages.models.chat.transformers_chat import Copy, TransformersChat
from stages.models.local.loading import companion
from stages.models.protocol import CallError, Completion, Conversation
from stages.records.base import Status


class TransformersLlm(TransformersChat):
    """A text model: whatever `AutoModelForCausalLM` loads. It sees no pictures.

    Parameters
    ----------
    **values
        See `TransformersChat`.
    """

    auto_class: ClassVar[str] = "AutoModelForCausalLM"
    sees_pictures = False

    async def complete(self, conversation: Conversation) -> Completion:
        """Continue the conversation; one that shows a picture is refused before anything runs."""
        if any(turn.pictures for turn in conversation.turns):
            raise CallError(Status.API_ERROR, "a text model was shown a picture")
        return await super().complete(conversation)

    def _shaping(self) -> Mapping[str, Any]:
        return {}

    def _processor(self) -> Any:
        return companion("AutoTokenizer", self.checkpoint)

    def _prepared(self, copy: Copy, conversations: Sequence[Conversation]) -> Mapping[str, Any]:
        inputs: Mapping[str, Any] = copy.processor.apply_chat_template(
            [copy.form.messages(each.turns) for each in conversations],
            tokenize=True,
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
            padding=True,
            sanitize_control_tokens=copy.sanitizes,
            **self.template_kwargs,
        )
        return {name: inputs[name] for name in ("input_ids", "attention_mask")}
