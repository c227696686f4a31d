"""A vision-language model with weights on this machine: what `AutoModelForImageTextToText` loads.

Qwen3-VL, Gemma 3, GLM-4.6V, Pixtral (as converted for transformers), LLaVA and others.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from stages.models.chat.transformers_chat import Copy, TransformersChat
from stages.models.local.images import PixelBudget
from stages.models.local.loading import companion
from stages.models.protocol import Conversation


class TransformersVlm(TransformersChat):
    """A vision-language model.

    Parameters
    ----------
    min_pixels, max_pixels : int or None
        See `PixelBudget`; None leaves the processor's own bound.
    images_first : bool
        Pictures before the text of their message, or after it.
    **values
        See `TransformersChat`.
    """

    auto_class: ClassVar[str] = "AutoModelForImageTextToText"
    packages: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "transformers")

    def __init__(
        self,
        model: str,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        images_first: bool = True,
        **values: Any,
    ) -> None:
        self.budget = self._beforehand = PixelBudget(min_pixels, max_pixels)
        self._first = images_first
        super().__init__(model, **values)

    def _shaping(self) -> Mapping[str, Any]:
        return {
            "pixels": [self.budget.min_pixels, self.budget.max_pixels],
            "images_first": self._first,
        }

    @property
    def _pictures(self) -> bool:
        return True

    @property
    def _images_first(self) -> bool:
        return self._first

    def _processor(self) -> Any:
        processor = companion("AutoProcessor", self.checkpoint)
        self._beforehand = self.budget.set_on(processor.image_processor, self.checkpoint.model)
        return processor

    def _prepared(self, copy: Copy, conversations: Sequence[Conversation]) -> Mapping[str, Any]:
        messages = [
            copy.form.messages(
                each.turns,
                [self._beforehand.image(shown) for turn in each.turns for shown in turn.pictures],
            )
            for each in conversations
        ]
        inputs: Mapping[str, Any] = copy.processor.apply_chat_template(
            messages,
            tokenize=True,
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
            sanitize_control_tokens=copy.sanitizes,
            processor_kwargs={"padding": True},
            **self.template_kwargs,
        )
        dtype = copy.model.dtype
        return {
            name: value.to(dtype) if value.is_floating_point() else value
            for name, value in inputs.items()
        }
