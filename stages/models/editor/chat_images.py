"""Image editing through chat completions with image output, as OpenRouter and others offer it."""

from collections.abc import Mapping, Sequence
from typing import Any

from stages.models import charges
from stages.models.chat.openai_compatible import OpenAICompatible, Reply
from stages.models.picture import Picture
from stages.models.prices import Price
from stages.models.protocol import CallError, Conversation, EditedImage, Editor, Finding, Turn
from stages.models.wire.bound import IMAGE_BYTES
from stages.models.wire.errors import one_line
from stages.models.wire.parts import bytes_of
from stages.models.wire.remote import Remote
from stages.models.wire.seeds import edit_seed
from stages.models.wire.usage import usage_of
from stages.records.base import Status


class ChatImages(Remote, Editor):
    """A chat model that answers with a picture.

    Parameters
    ----------
    chat : mapping
        The model: values of `OpenAICompatible`.
    modalities : sequence of str
        ``[image, text]``, or ``[image]`` for models that only make images.
    image_config : mapping
        The provider's own options, e.g. ``image_size: 1K``.
    max_tokens : int
        Limit of the reply; the image counts.
    """

    def __init__(
        self,
        chat: Mapping[str, Any],
        modalities: Sequence[str] = ("image", "text"),
        image_config: Mapping[str, Any] | None = None,
        max_tokens: int = 8192,
    ) -> None:
        extra: dict[str, Any] = {**chat.get("extra_body", {}), "modalities": list(modalities)}
        if image_config:
            extra["image_config"] = dict(image_config)
        self.chat = OpenAICompatible(**{**chat, "extra_body": extra})
        self.endpoint, self.concurrency = self.chat.endpoint, self.chat.concurrency
        self.endpoint.most_bytes = IMAGE_BYTES
        self.max_tokens = max_tokens

    def identity(self) -> Mapping[str, Any]:
        """The chat model's, and the limit."""
        return {**self.chat.identity(), "api": "chat images", "max_tokens": self.max_tokens}

    async def preflight(self, role: str) -> Sequence[Finding]:
        """The chat model's."""
        return await self.chat.preflight(role)

    async def price_now(self) -> Price | None:
        """The chat model's."""
        return await self.chat.price_now()

    async def edit(
        self, picture: Picture, instruction: str, *, seed: int, attempt: int
    ) -> EditedImage:
        """Edit; words in place of a picture are a refusal."""
        asked = Conversation(
            (Turn("user", instruction, (picture,)),),
            max_tokens=self.max_tokens,
            seed=edit_seed(seed, attempt),
        )
        reply = await self.chat.exchange(self.chat.request(asked), paid=True)
        with charges.in_vain_if_it_fails(usage_of(reply.body)):
            return EditedImage(self._image(reply), usage_of(reply.body, images=1))

    def _image(self, reply: Reply) -> bytes:
        images = reply.message.get("images")
        first = images[0] if isinstance(images, list) and images else None
        holder = first.get("image_url") if isinstance(first, dict) else None
        url = holder.get("url") if isinstance(holder, dict) else holder
        if isinstance(url, str) and url and not url.startswith(("http:", "https:")):
            return bytes_of(url)
        if url:
            raise CallError(Status.API_ERROR, "the reply holds an image's address, not its bytes")
        said = self.endpoint.secret.scrub(str(reply.message.get("content") or ""))
        native = reply.choice.get("native_finish_reason") or reply.choice.get("finish_reason")
        if said.strip():
            raise CallError(Status.REFUSED, one_line(f"answered in words: {said}"))
        raise CallError(Status.REFUSED, one_line(f"no image came back ({native})"))
