"""Chat models whose weights are held here, by way of the transformers library.

Calls that wait at the same time are one batch, padded on the left. Greedy decoding in float32 on a
CPU gives a text that depends on its own conversation alone; with 16 bits, a sum's rounding depends
on the batch's shape, and two tokens of nearly equal weight may change places (batch_size 1 avoids
that). Sampling draws each reply with a seed of its own, see `Generation`.
"""

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from stages.models.chat.thinking import split_thinking
from stages.models.local.batching import Batcher
from stages.models.local.checkpoint import Checkpoint
from stages.models.local.faults import installed, release_of, within_memory
from stages.models.local.loading import alone, once, pretrained, with_lora
from stages.models.local.placement import Placement, at
from stages.models.local.presence import presence
from stages.models.local.sampling import Generation, Watched
from stages.models.local.templates import Form, checked_variables, form_of
from stages.models.protocol import CallError, Chat, Completion, Conversation, Finding, Turn
from stages.models.wire.seeds import seed_of
from stages.records.base import Status
from stages.records.errors import UserError
from stages.records.usage import Usage


@dataclass(eq=False)
class Copy:
    """One copy of a model, with what prepares its inputs; used by one thread at a time."""

    model: Any
    processor: Any
    """What renders and tokenizes: a processor, or a tokenizer."""
    form: Form
    ends: frozenset[int]
    """Tokens that end a reply."""
    pad: int
    context: int | None
    """Tokens that prompt and reply may have together, as the checkpoint's config says."""
    sanitizes: bool = True
    """Whether marks of the chat (``<|im_end|>``, ``<image>``) in a text can be made plain text, so
    that what a model or a data set wrote opens no turn and stands for no image."""

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, which is the processor itself for a text model."""
        return getattr(self.processor, "tokenizer", self.processor)


class TransformersChat(Chat):
    """A chat model with weights on this machine; they are loaded with the first call.

    Parameters
    ----------
    model, revision, trust_remote_code
        See `Checkpoint`.
    device, dtype, device_map
        See `Placement`.
    attn_implementation : str or None
        ``sdpa``, ``eager``, ``flash_attention_2`` …; None leaves it to the library.
    batch_size : int
        Conversations that go through the model together, at most.
    generation : mapping
        See `Generation`. Empty: greedy decoding.
    quantization : mapping or None
        Values of `BitsAndBytesConfig`, e.g. ``{load_in_4bit: true}``.
    adapter : str or None
        Folder of a PEFT adapter (LoRA) that is put on the weights.
    template_kwargs : mapping
        Variables of the chat template, e.g. ``{enable_thinking: false}``.
    thinking_tags : bool
        Whether ``<think>…</think>`` at the head of a reply is thinking rather than text.
    """

    auto_class: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ("torch", "transformers")

    def __init__(
        self,
        model: str,
        revision: str = "main",
        device: str | Sequence[str] = "auto",
        dtype: str = "auto",
        device_map: Literal["auto"] | None = None,
        attn_implementation: str | None = None,
        trust_remote_code: bool = False,
        batch_size: int = 8,
        generation: Mapping[str, Any] | None = None,
        quantization: Mapping[str, Any] | None = None,
        adapter: str | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        thinking_tags: bool = True,
    ) -> None:
        installed(*self.packages, *(["peft"] if adapter else []))
        installed(*(["bitsandbytes", "accelerate"] if quantization else []))
        self.checkpoint = Checkpoint(model, revision, trust_remote_code)
        self.placement = Placement(device, dtype, device_map)
        self.attn_implementation, self.quantization = attn_implementation, quantization
        self.generation = Generation.of(generation)
        if adapter and not (Path(adapter) / "adapter_config.json").is_file():
            raise UserError(
                adapter, "holds no adapter_config.json", "Name a PEFT adapter's folder."
            )
        self.adapter = Checkpoint(adapter) if adapter else None
        self.template_kwargs = checked_variables(template_kwargs)
        self.thinking_tags, self.batch_size = thinking_tags, batch_size
        copies = len(self.placement.named)
        self.concurrency = 2 * batch_size * copies
        self._copies: Sequence[Copy] = ()
        self._loading = threading.Lock()
        self.batcher: Batcher[Conversation, Completion] = Batcher(self._run, batch_size, copies)

    @cached_property
    def _identity(self) -> Mapping[str, Any]:
        return {
            "provider": "transformers",
            "library": release_of("transformers"),
            **self.checkpoint.identity(),
            "class": self.auto_class,
            "dtype": self.placement.precision,
            "attn_implementation": self.attn_implementation,
            "quantization": dict(self.quantization) if self.quantization else None,
            "adapter": self.adapter.identity()["sha256"] if self.adapter else None,
            "generation": asdict(self.generation),
            "template_kwargs": self.template_kwargs,
            "thinking_tags": self.thinking_tags,
            **self._shaping(),
        }

    def identity(self) -> Mapping[str, Any]:
        """Everything that shapes a reply. The device and the batch size are taken not to."""
        return self._identity

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the weights are on this disk, the device is there and holds them; not loaded."""
        return presence(self.checkpoint, None if self.quantization else self.placement)

    async def complete(self, conversation: Conversation) -> Completion:
        """Continue the conversation, in a batch with others that wait and are of its kind."""
        try:
            "".join(turn.text for turn in conversation.turns).encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which no tokenizer takes
            raise CallError(Status.API_ERROR, "the prompt is not valid Unicode") from None
        shown = any(turn.pictures for turn in conversation.turns)
        return await self.batcher.submit((conversation.max_tokens, shown), conversation)

    @abstractmethod
    def _shaping(self) -> Mapping[str, Any]:
        """What shapes a reply besides, for the identity."""

    @abstractmethod
    def _prepared(self, copy: Copy, conversations: Sequence[Conversation]) -> Mapping[str, Any]:
        """Inputs of ``generate``, padded on the left."""

    @abstractmethod
    def _processor(self) -> Any:
        """Load what renders and tokenizes."""

    @property
    def _pictures(self) -> bool:
        return False

    @property
    def _images_first(self) -> bool:
        return True

    # --- loading ---------------------------------------------------------------------------------

    def copies(self) -> Sequence[Copy]:
        """The copies, one a device; the first call loads them."""
        with self._loading:
            if not self._copies:
                numbers = range(len(self.placement.named))
                self._copies = [self._copy(*self.placement.place(number)) for number in numbers]
            return self._copies

    def _copy(self, device: str, which: int) -> Copy:
        name = self.checkpoint.model
        place = (self.placement.dtype, self.placement.device_map, device, which)
        shared = ("transformers", self.auto_class, self.checkpoint.key, *place)
        adapter = self.adapter.key if self.adapter else None
        options = (self.attn_implementation, repr(self.quantization), adapter)
        model = once((*shared, *options), lambda: self._weights(device))
        processor = self._processor()
        tokenizer = getattr(processor, "tokenizer", processor)
        tokenizer.padding_side = "left"  # replies begin where prompts end
        ends = _ids(model.generation_config.eos_token_id) or _ids(tokenizer.eos_token_id)
        if not ends:
            raise UserError(
                name, "has no token that ends a reply", "Set eos_token_id in generation_config."
            )
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.convert_ids_to_tokens(min(ends))
        form = form_of(
            name,
            lambda messages: self._rendered(processor, messages),
            pictures=self._pictures,
            images_first=self._images_first,
        )
        context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        pad = int(tokenizer.pad_token_id)
        copy = Copy(model, processor, form, ends, pad, context)
        try:
            self._prepared(copy, [_HELLO])
        except NotImplementedError:  # the tokenizer adds marks that the template does not write
            copy.sanitizes = False
        return copy

    def _rendered(self, processor: Any, messages: Any) -> str:
        return str(
            processor.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **self.template_kwargs
            )
        )

    def _weights(self, device: str) -> Any:
        options: dict[str, Any] = {}
        if self.attn_implementation:
            options["attn_implementation"] = self.attn_implementation
        if self.quantization:
            from transformers import BitsAndBytesConfig

            options["quantization_config"] = BitsAndBytesConfig(**self.quantization)
        model = pretrained(self.auto_class, self.checkpoint, self.placement, device, **options)
        # What a call leaves open would be filled in from the checkpoint's own settings.
        own = model.generation_config
        model.generation_config = type(own)(eos_token_id=own.eos_token_id)
        return with_lora(model, self.adapter) if self.adapter else model

    # --- a batch ---------------------------------------------------------------------------------

    def _run(
        self, number: int, conversations: Sequence[Conversation]
    ) -> Sequence[Completion | Exception]:
        copy = self.copies()[number]
        try:
            with alone(copy.model), at(str(copy.model.device)):
                return self._replies(copy, conversations)
        except ValueError as error:  # what a processor says of inputs that it can't take
            if len(conversations) > 1:
                raise  # which of them, shows when each is alone
            reason = " ".join(str(error).split())
            return [CallError(Status.API_ERROR, f"the model can't take the prompt: {reason}")]

    def _replies(
        self, copy: Copy, conversations: Sequence[Conversation]
    ) -> Sequence[Completion | Exception]:
        import torch

        with within_memory(self.checkpoint.model), torch.inference_mode():
            inputs = self._prepared(copy, conversations)
            prompts = inputs["attention_mask"].sum(-1).tolist()
            limit = conversations[0].max_tokens
            if copy.context is not None:
                if max(prompts) >= copy.context:
                    raise ValueError(f"{max(prompts)} tokens, where it takes {copy.context}")
                limit = min(limit, copy.context - inputs["input_ids"].shape[1])
            seeds = [seed_of(each.seed, each.replicate) for each in conversations]
            watched = Watched()
            output = copy.model.generate(
                **{name: value.to(copy.model.device) for name, value in inputs.items()},
                generation_config=self._settings(copy, limit),
                logits_processor=self.generation.processors(seeds, watched),
            )
        replies = output[:, inputs["input_ids"].shape[1] :].tolist()
        return [
            self._completion(copy, tokens, prompt, flawed)
            for tokens, prompt, flawed in zip(replies, prompts, watched.first(), strict=True)
        ]

    def _settings(self, copy: Copy, limit: int) -> Any:
        """The settings of this batch."""
        from transformers import GenerationConfig

        return GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=limit,
            eos_token_id=sorted(copy.ends),
            pad_token_id=copy.pad,
            repetition_penalty=self.generation.repetition_penalty,
        )

    def _completion(
        self, copy: Copy, tokens: list[int], prompt: int, flawed: int | None = None
    ) -> Completion | Exception:
        end = next((n for n, token in enumerate(tokens) if token in copy.ends), None)
        if flawed is not None and (end is None or flawed <= end):
            return CallError(
                Status.API_ERROR,
                "the weights give no finite numbers; check them, or set dtype: float32",
            )
        if end is None:
            return CallError(Status.TRUNCATED, "the reply ended at the token limit")
        said = copy.tokenizer.decode(tokens[:end], skip_special_tokens=True)
        text, thinking = split_thinking(said) if self.thinking_tags else (said, "")
        if not text.strip():
            return CallError(Status.API_ERROR, "the reply holds no text")
        usage = Usage(
            served_model=self.checkpoint.label,
            provider="transformers",
            input_tokens=int(prompt),
            output_tokens=end + 1,
        )
        return Completion(text, thinking or None, usage)


_HELLO = Conversation((Turn("user", "hello"),), max_tokens=1)


def _ids(given: Any) -> frozenset[int]:
    if given is None:
        return frozenset()
    return frozenset([given] if isinstance(given, int) else given)
