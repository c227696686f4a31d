"""Any chat model behind an OpenAI-compatible API: OpenRouter, OpenAI, vLLM, SGLang, Ollama,
llama.cpp, `transformers serve`. Which one, and how it is asked, is a matter of YAML alone.

Requests go through the openai package, replies are read here: a status of 200 says nothing yet.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stages.models.chat.thinking import split_thinking
from stages.models.prices import Price
from stages.models.protocol import CallError, Chat, Completion, Conversation, Finding, Turn
from stages.models.wire.endpoint import Endpoint
from stages.models.wire.errors import one_line
from stages.models.wire.fault import Fault, Kind
from stages.models.wire.parts import Encoding, Shown, written
from stages.models.wire.preflight import of_listed, price_of
from stages.models.wire.remote import Remote
from stages.models.wire.sdk import post_json
from stages.models.wire.seeds import seed_of
from stages.models.wire.served import check_served
from stages.models.wire.usage import usage_of
from stages.records.base import Status

if TYPE_CHECKING:
    import httpx2

Json = dict[str, Any]


class OpenAICompatible(Remote, Chat):
    """A chat model at a base URL.

    Parameters
    ----------
    model : str
        Its id there.
    base_url : str
        Address of the API, up to and with ``/v1``.
    provider : str
        What the provider is called.
    api_key_env : str or None
        Environment variable with the key; None sends none.
    sampling : mapping
        ``temperature``, ``top_p`` and whatever else the API takes at the top of a request. Empty
        leaves all to the provider.
    send_seed : bool
        Send the run's seed; a further replicate gets a seed of its own.
    token_limit : str
        Name of the token limit in the request: ``max_tokens`` or ``max_completion_tokens``.
    structured : str
        ``json_schema`` hands the reply's schema over, ``json_object`` asks for JSON, ``none`` for
        nothing. Replies are read tolerantly in any case.
    extra_body : mapping
        Everything else, as the API wants it: ``reasoning`` (thinking), ``provider`` (pinning).
    images : mapping
        How pictures are sent, see `Encoding`.
    images_first : bool
        Pictures before the text of their message, or after it.
    sees_pictures : bool
        Whether the model takes pictures at all; false for text models.
    thinking_tags : bool
        Whether ``<think>…</think>`` at the head of a reply is thinking rather than text.
    served_as : sequence of str
        Further ids under which this model answers; patterns such as ``model-preview-*`` may stand
        among them, for snapshots that are not told apart by a date alone.
    allow_other_model : bool
        Accept replies of any model.
    ends, successor : str or None
        When the id ends there, and what comes next; shown where the model is gone.
    concurrency, timeout_s, patience
        See `Endpoint`.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "https://openrouter.ai/api/v1",
        provider: str = "openrouter",
        api_key_env: str | None = "OPENROUTER_API_KEY",
        sampling: Mapping[str, Any] | None = None,
        send_seed: bool = True,
        token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens",
        structured: Literal["json_schema", "json_object", "none"] = "none",
        extra_body: Mapping[str, Any] | None = None,
        images: Mapping[str, Any] | None = None,
        images_first: bool = True,
        sees_pictures: bool = True,
        thinking_tags: bool = True,
        served_as: Sequence[str] = (),
        allow_other_model: bool = False,
        ends: str | None = None,
        successor: str | None = None,
        concurrency: int = 16,
        timeout_s: float = 300.0,
        patience: Mapping[str, Any] | None = None,
    ) -> None:
        import openai  # noqa: F401 - missing, it is named before anything is spent

        _check("token_limit", token_limit, ("max_tokens", "max_completion_tokens"))
        _check("structured", structured, ("json_schema", "json_object", "none"))
        self.model, self.ends, self.successor = model, ends, successor
        self.endpoint = Endpoint(
            provider=provider,
            base_url=base_url,
            model=model,
            api_key_env=api_key_env,
            concurrency=concurrency,
            timeout_s=timeout_s,
            patience=patience,
            hint=gone(model, ends, successor),
            ends=ends,
        )
        self.concurrency = concurrency
        self.sampling, self.extra_body = dict(sampling or {}), dict(extra_body or {})
        self.send_seed, self.token_limit, self.structured = send_seed, token_limit, structured
        self.encoding, self.images_first = Encoding(**(images or {})), images_first
        self.sees_pictures, self.thinking_tags = sees_pictures, thinking_tags
        self.served_as, self.allow_other_model = tuple(served_as), allow_other_model

    def identity(self) -> Mapping[str, Any]:
        """Everything that shapes a reply; the key and the bounds on trying again do not."""
        return {
            "provider": self.endpoint.provider,
            "base_url": self.endpoint.base_url,
            "model": self.model,
            "sampling": self.sampling,
            "send_seed": self.send_seed,
            "token_limit": self.token_limit,
            "structured": self.structured,
            "extra_body": self.extra_body,
            "images": [self.encoding.format, self.encoding.max_side],
            "images_first": self.images_first,
            "thinking_tags": self.thinking_tags,
            "allow_other_model": self.allow_other_model,
        }

    async def preflight(self, role: str) -> Sequence[Finding]:
        """Whether the server lists the model, until when, and for what."""
        pinned = self.extra_body.get("provider")
        return await of_listed(
            self.endpoint,
            role,
            served_as=self.served_as,
            sent=self._sent(role),
            strict=isinstance(pinned, Mapping) and pinned.get("require_parameters") is True,
        )

    async def price_now(self) -> Price | None:
        """The price per token in the server's list."""
        return await price_of(self.endpoint)

    def _sent(self, role: str) -> set[str]:
        """Parameters of a request, as OpenRouter names them."""
        sent = set(self.sampling) | ({"seed"} if self.send_seed else set())
        sent |= {"reasoning"} & set(self.extra_body)
        if role in ("extractor", "judge", "verifier") and self.structured != "none":
            sent.add(
                "structured_outputs" if self.structured == "json_schema" else "response_format"
            )
        return sent

    async def complete(self, conversation: Conversation) -> Completion:
        """Continue the conversation; the reply is checked before anything is taken from it."""
        reply = await self.exchange(self.request(conversation), paid=False)
        return self.completion(reply)

    def request(self, conversation: Conversation) -> Json:
        """The body of the request, without what is the same in all of them; for `written`."""
        body: Json = {
            "model": self.model,
            "messages": [self._message(turn) for turn in conversation.turns],
            self.token_limit: conversation.max_tokens,
        }
        if self.send_seed:
            body["seed"] = seed_of(conversation.seed, conversation.replicate)
        if conversation.reply_schema is not None and self.structured != "none":
            body["response_format"] = self._format(conversation.reply_schema)
        return body

    async def exchange(self, body: Json, *, paid: bool) -> "Reply":
        """Send a body to ``/chat/completions`` and return what came, once it holds a reply."""

        sent = written({**body, **self.sampling, **self.extra_body})

        async def send(http: "httpx2.AsyncClient") -> "httpx2.Response":
            return await post_json(self.endpoint, http, "/chat/completions", sent)

        return await self.endpoint.call(send, self._read, paid=paid)

    def completion(self, reply: "Reply") -> Completion:
        """Text and thinking of a reply."""
        said = _text(reply.message.get("content"))
        text, tagged = split_thinking(said) if self.thinking_tags else (said, "")
        thinking = "\n\n".join(part for part in (_thinking(reply.message), tagged) if part)
        if not text.strip():
            finish = one_line(str(reply.choice.get("finish_reason")), 60)
            reason = f"the reply holds no text (finish_reason {finish})"
            raise CallError(Status.API_ERROR, reason, usage_of(reply.body))
        return Completion(text, thinking or None, usage_of(reply.body))

    def _read(self, response: "httpx2.Response") -> "Reply":
        body = self.endpoint.json(response)
        check_served(self.endpoint, body, self.served_as, self.allow_other_model)
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            raise Fault(Kind.UNKNOWN, f"{self.endpoint.provider}: the reply holds no choices")
        if choice.get("finish_reason") == "error" or choice.get("error"):
            error = {"error": choice.get("error") or {"message": "the generation broke off"}}
            raise self.endpoint.exception_of(200, error)
        message = choice.get("message")
        if not isinstance(message, dict):
            raise Fault(Kind.UNKNOWN, f"{self.endpoint.provider}: the reply holds no message")
        reply = Reply(body, choice, message)
        reply.check(self.endpoint.secret.scrub)
        return reply

    def _message(self, turn: Turn) -> Json:
        if not turn.pictures:
            return {"role": turn.role, "content": turn.text}
        shown = [
            {"type": "image_url", "image_url": {"url": Shown(picture, self.encoding)}}
            for picture in turn.pictures
        ]
        text = [{"type": "text", "text": turn.text}]
        content = [*shown, *text] if self.images_first else [*text, *shown]
        return {"role": turn.role, "content": content}

    def _format(self, schema: Mapping[str, Any]) -> Json:
        if self.structured == "json_object":
            return {"type": "json_object"}
        name = re.sub(r"[^A-Za-z0-9_-]", "_", str(schema.get("title", "reply")))[:64]
        described = {"name": name, "strict": True, "schema": json.loads(json.dumps(schema))}
        return {"type": "json_schema", "json_schema": described}


class Reply(NamedTuple):
    """A reply of ``/chat/completions``: the body, its first choice, and the message in that."""

    body: Json
    choice: Json
    message: Json

    def check(self, scrub: Any) -> None:
        """Raise CallError where the reply was cut off or withheld, or Fault where it is blank."""
        finish = self.choice.get("finish_reason")
        native = str(self.choice.get("native_finish_reason") or "")
        refusal = self.message.get("refusal")
        if isinstance(refusal, str) and refusal.strip():
            raise CallError(Status.REFUSED, one_line(scrub(refusal)))
        if finish == "content_filter":
            named = f" ({one_line(native, 60)})" if native and native != finish else ""
            raise CallError(Status.REFUSED, f"withheld by the provider's filter{named}")
        if finish == "length":
            raise CallError(Status.TRUNCATED, "the reply ended at the token limit")
        empty = not (self.message.get("content") or self.message.get("images"))
        if empty and finish is None:
            raise Fault(Kind.UNKNOWN, "the reply is blank and gives no reason")


def gone(model: str, ends: str | None, successor: str | None) -> str:
    """What to do where a model is no longer served."""
    ended = f"{model} ends there on {ends}." if ends else ""
    return " ".join(part for part in (ended, successor and f"Nearest: {successor}.") if part)


def _check(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")


def _text(content: object) -> str:
    """A message's text: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(
        part["text"]
        for part in content
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    )


def _thinking(message: Json) -> str:
    """Thinking text that came beside the answer, as OpenRouter, vLLM and others name it."""
    for name in ("reasoning", "reasoning_content"):
        if isinstance(value := message.get(name), str) and value.strip():
            return value
    return ""
