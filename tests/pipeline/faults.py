"""Which request meets which fault: seeded, so that a run with faults can be repeated.

A fault is transient (it hangs on the request and on how often it came) or sticky (it hangs on the
request alone: a filter refuses the same text each time). Each says whether an adapter may ask
again, by what the provider may have done: that is what the tests hold the adapters to.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.models.wire.loopback import KEY, Act, chat_reply

PAID = frozenset({"image", "submit"})
"""Families of requests that are paid, so never repeated once they may have been carried out."""


@dataclass(frozen=True)
class Fault:
    """One way of answering badly."""

    name: str
    share: float
    """Share of requests that meet it, in [0, 1]."""
    act: Act | None = None
    """What is answered; None where it hangs on the good answer (dropped, cut, padded, slow)."""
    sticky: bool = False
    """Whether the same request meets it every time."""
    unknown: bool = False
    """Whether the provider may have done the work, so that a paid request is not repeated."""
    charged: bool = False
    """Whether the provider has done the work, and charges, though no reply arrives."""
    families: frozenset[str] = frozenset({"chat", "image", "submit", "detect", "poll", "download"})

    def final(self, family: str) -> bool:
        """Whether the call must end here."""
        return self.sticky or (self.unknown and family in PAID)


def _error(message: str, code: int, **more: Any) -> dict[str, Any]:
    return {"error": {"message": f"{message} (key {KEY})", "code": code, **more}}


def _html(status: int) -> Act:
    return Act(
        f"<html><body>Gateway {KEY}</body></html>".encode(), status, {"content-type": "text/html"}
    )


_CHAT = frozenset({"chat"})
_IN_FLIGHT = {"metadata": {"limit_source": "openrouter_in_flight_budget", "reason": "exhausted"}}
_FLAGGED = {"metadata": {"reasons": ["violence", KEY], "flagged_input": "…"}}
_EMPTY = {**chat_reply(""), "choices": []}

TRANSIENT = (
    Fault("429 without Retry-After", 0.008, Act(_error("slow down", 429), 429)),
    Fault("429 with Retry-After", 0.003, Act({"detail": f"{KEY}"}, 429, {"retry-after": "1"})),
    Fault("429 with a wait in the body", 0.005, Act({"detail": "busy", "retry_after": 0.05}, 429)),
    Fault(
        "402 in flight",
        0.005,
        Act(_error("in flight", 402, **_IN_FLIGHT), 402),
        families=frozenset({"chat", "image"}),
    ),
    Fault("200 with 429 inside", 0.004, Act(_error("slow down", 429))),
    Fault("503", 0.006, Act(_error("no capacity", 503), 503, {"retry-after": "0"})),
    Fault("529", 0.004, Act(_error("overloaded", 529), 529)),
    Fault("500", 0.006, Act({"detail": f"internal {KEY}"}, 500), unknown=True),
    Fault("502 HTML", 0.006, _html(502), unknown=True),
    Fault("200 with 502 inside", 0.008, Act(_error("provider returned error", 502)), unknown=True),
    Fault("200 HTML", 0.004, _html(200), unknown=True),
    Fault("dropped before the reply", 0.005, Act(drop="before"), unknown=True, charged=True),
    Fault("dropped in the reply", 0.004, unknown=True, charged=True),
    Fault("content length too large", 0.003, unknown=True, charged=True),
    Fault("content length too small", 0.003, unknown=True, charged=True),
    Fault("slow", 0.003, unknown=True, charged=True),
    Fault("empty choices", 0.005, Act(_EMPTY), unknown=True, families=_CHAT),
    Fault("null content", 0.005, Act(chat_reply(None, finish=None)), unknown=True, families=_CHAT),
)
_ASKED = ("chat", "image", "submit", "detect")
_IMPOSSIBLE = {"x_min": 0.5, "y_min": 0.2, "x_max": 0.1, "y_max": 1.0}
_AT_FAULT = {"detail": [{"loc": ["body", KEY], "msg": "odd"}]}


def _sticky(name: str, share: float, act: Act | None, *families: str) -> Fault:
    return Fault(name, share, act, sticky=True, families=frozenset(families))


STICKY = (
    _sticky("moderated", 0.006, Act(_error("flagged", 403, **_FLAGGED), 403), *_ASKED),
    _sticky("422", 0.003, Act(_AT_FAULT, 422), *_ASKED),
    _sticky("truncated", 0.008, Act(chat_reply("The an", finish="length")), "chat"),
    _sticky("filtered", 0.004, Act(chat_reply(None, finish="content_filter")), "chat"),
    _sticky("null content for good", 0.004, Act(chat_reply(None)), "chat"),
    _sticky("moderated at the poll", 0.01, None, "submit"),
    _sticky("failed at the poll", 0.005, None, "submit"),
    _sticky("no image in the reply", 0.01, Act({"data": []}), "image"),
    _sticky("a box that can't be", 0.005, Act({"objects": [_IMPOSSIBLE]}), "detect"),
)
BROKE = Fault("402 for good", 0.0, Act(_error("Insufficient credits", 402), 402))
"""The account is empty until somebody fills it: this ends the stage."""
BY_NAME: Mapping[str, Fault] = {fault.name: fault for fault in (*TRANSIENT, *STICKY, BROKE)}


@dataclass(frozen=True)
class Plan:
    """The faults of a run."""

    seed: int

    def fault(self, family: str, request: str, visit: int) -> Fault | None:
        """The fault that a request meets at its n-th coming, from 1."""
        return self._drawn(STICKY, family, request) or self._drawn(
            TRANSIENT, family, f"{request}|{visit}"
        )

    def _drawn(self, faults: tuple[Fault, ...], family: str, text: str) -> Fault | None:
        digest = hashlib.sha256(f"{self.seed}|{faults[0].name}|{text}".encode()).digest()
        draw = int.from_bytes(digest[:8], "big") / 2**64
        for fault in faults:
            if family in fault.families:
                if draw < fault.share:
                    return fault
                draw -= fault.share
        return None
