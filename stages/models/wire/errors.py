"""Reading what went wrong out of a reply, whatever shape the provider gives it.

Known shapes: ``{"error": {message, code, type, metadata}}`` (OpenAI, OpenRouter, vLLM),
``{"error": "…"}`` (llama.cpp, Moondream Station), ``{"detail": "…"}`` and ``{"detail": [{loc,
msg}]}`` (FastAPI, Black Forest Labs), ``{"message": …}``, plain text and HTML. A body counts more
than its status: a 200 can carry an error, and an error of 402 can be a passing one.
"""

import email.utils
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stages.models.protocol import CallError
from stages.models.wire.fault import Fault, Kind
from stages.records.base import Status
from stages.records.errors import UserError

_REFUSALS = frozenset(
    {
        "content_policy_violation",
        "content_filter",
        "moderation_blocked",
        "refusal",
        "responsibleaipolicyviolation",
        "content_moderated",
    }
)
_NO_MODEL = frozenset(
    {
        "model_not_found",
        "model_deprecated",
        "no_endpoints",
        "constraint_filtered",
        "privacy_restricted",
        "region_restricted",
    }
)
_NO_KEY = frozenset({"authentication", "invalid_api_key", "authentication_error"})
_NO_MONEY = frozenset({"payment_required", "insufficient_quota", "billing_hard_limit_reached"})
_OF_THE_IMAGE = frozenset({"image_not_found", "image_download_failed"})
_CAPACITY = frozenset({"capacity_exhausted", "rate_limit_exceeded", "rate_limit_error"})
_AWAY = frozenset({"provider_overloaded", "temporarily_unavailable", "overloaded_error"})
_UPSTREAM = frozenset({"provider_unavailable", "server", "timeout", "server_error", "unmapped"})


@dataclass(frozen=True)
class Reported:
    """An error as reported: status, message, and all codes and details that came with it."""

    status: int
    message: str
    codes: frozenset[str] = frozenset()
    details: Mapping[str, Any] = field(default_factory=dict)
    wait: float | None = None


@dataclass(frozen=True)
class Blame:
    """Turns reported errors into what the caller has to do about them.

    Parameters
    ----------
    provider, base_url, model : str
        What errors name.
    key : str or None
        The key's environment variable.
    hint : str
        What to do where the model is gone, e.g. its successor.
    """

    provider: str
    base_url: str
    model: str
    key: str | None = None
    hint: str = ""

    def exception(self, error: Reported, *, known: bool = False) -> Exception:
        """A Fault where another try may fare better, else a CallError or a UserError.

        Parameters
        ----------
        error : Reported
            The error.
        known : bool
            Whether the provider has given good replies before: then a refusal of access concerns
            this call, and not the key.
        """
        status, codes = error.status, error.codes
        said = f"{self.provider} ({status}): {error.message}"
        if codes & _REFUSALS or (status == 403 and _moderated(error.details)):
            reasons = _listed(error.details.get("reasons"))
            return CallError(Status.REFUSED, f"{said}{f' [{reasons}]' if reasons else ''}")
        if status == 401 or codes & _NO_KEY:
            return self._user(
                f"does not accept the key ({error.message})",
                f"Mend {self.key}." if self.key else "Name its variable in `api_key_env`.",
            )
        limit = str(error.details.get("limit_source", ""))
        if limit == "openrouter_in_flight_budget" and (
            "weight_exceeds_budget" not in (codes | {str(error.details.get("reason"))})
        ):
            return Fault(Kind.BUSY, said, error.wait, pauses=True)
        if status == 402 or codes & _NO_MONEY or "budget" in limit or limit.endswith("_limit"):
            return self._user(
                f"wants payment ({error.message})",
                "Add credit or raise the limit, and run again: what was answered is stored.",
            )
        if codes & _OF_THE_IMAGE:
            return CallError(Status.API_ERROR, said)
        if status == 404 or codes & _NO_MODEL:
            return self._user(
                f"does not serve {self.model} as asked ({status}: {error.message})",
                self.hint or "Check `model`, `base_url` and the provider's options in its YAML.",
            )
        if status == 403 and not known:
            return self._user(
                f"denies access to {self.model} ({error.message})",
                f"Check what {self.key or 'the account'} may use.",
            )
        return self._passing(error, said) or CallError(Status.API_ERROR, said)

    def _passing(self, error: Reported, said: str) -> Fault | None:
        status, codes = error.status, error.codes
        if status == 429 or codes & _CAPACITY:
            return Fault(Kind.BUSY, said, error.wait, pauses=True)
        if status in (409, 425, 503, 529) or codes & _AWAY:
            return Fault(Kind.UNAVAILABLE, said, error.wait, pauses=status > 500)
        if status == 408 or status >= 500 or codes & _UPSTREAM:
            return Fault(Kind.UNKNOWN, said, error.wait, pauses=status >= 500)
        return None

    def _user(self, what: str, remedy: str) -> UserError:
        return UserError(f"{self.provider} ({self.base_url})", what, remedy)


def reported(
    status: int, body: Any, headers: Mapping[str, str] | None = None, text: str = ""
) -> Reported:
    """Read an error from a body: parsed JSON of any shape, or None and its text."""
    headers = headers or {}
    parts = list(_parts(body))
    details: dict[str, Any] = {}
    for part in reversed(parts):
        details.update(part)
    codes = {
        str(part[name]).lower()
        for part in parts
        for name in ("code", "type", "error_type", "provider_code")
        if isinstance(part.get(name), str)
    }
    inner = next((int(p["code"]) for p in parts if str(p.get("code", "")).isdecimal()), 502)
    return Reported(
        status=status if status >= 400 else inner,
        message=_message(body, parts) or one_line(text) or f"HTTP {status} without a reason",
        codes=frozenset(codes),
        details=details,
        wait=_wait(headers, details),
    )


def carries_error(body: Any) -> bool:
    """Whether a body is an error, although its status may be 200."""
    return isinstance(body, dict) and (bool(body.get("error")) or body.get("object") == "error")


def one_line(text: str, length: int = 300) -> str:
    """A text as part of a one-line reason: tags and line breaks gone, cut to a length."""
    bare = " ".join(re.sub(r"<[^<>]{0,200}>", " ", text[: 20 * length]).split())
    return bare if len(bare) <= length else f"{bare[: length - 1]}…"


def _parts(body: Any) -> Iterator[dict[str, Any]]:
    """All objects of an error that say something about it, outermost first."""
    if not isinstance(body, dict):
        return
    yield body
    for name in ("error", "availability", "metadata", "detail", "details"):
        yield from _parts(body.get(name))


def _message(body: Any, parts: list[dict[str, Any]]) -> str:
    for part in reversed(parts):
        for name in ("message", "error", "detail", "msg"):
            value = part.get(name)
            if isinstance(value, str) and value.strip():
                return one_line(f"{value} {_upstream(parts)}")
    detail = body.get("detail") if isinstance(body, dict) else None
    if isinstance(detail, list):
        return one_line("; ".join(_complaint(item) for item in detail[:5]))
    return one_line(body) if isinstance(body, str) else ""


def _upstream(parts: list[dict[str, Any]]) -> str:
    """What the provider behind a router said, which the router's own message leaves out."""
    raw = next((part["raw"] for part in parts if isinstance(part.get("raw"), str)), "")
    return f"[{raw}]" if raw.strip() else ""


def _complaint(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    where = ".".join(str(part) for part in item.get("loc", ()) if part != "body")
    return f"{where}: {item.get('msg', 'is wrong')}"


def _moderated(details: Mapping[str, Any]) -> bool:
    return bool(details.get("reasons") or details.get("flagged_input"))


def _listed(reasons: Any) -> str:
    if isinstance(reasons, list):
        return one_line(", ".join(str(reason) for reason in reasons))
    return one_line(str(reasons)) if reasons else ""


def _wait(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    """Seconds that the provider wants us to wait: Retry-After in either form, or in the body."""
    for value, scale in (
        (headers.get("retry-after-ms"), 0.001),
        (headers.get("retry-after"), 1.0),
        (details.get("retry_after"), 1.0),
    ):
        try:
            seconds = float(value) * scale if value is not None else math.nan
        except (TypeError, ValueError):
            seconds = _until(str(value))
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _until(date: str) -> float:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, TypeError):
        return math.nan
