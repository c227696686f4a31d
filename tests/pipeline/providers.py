"""Providers on loopback: real protocols in front, the built-in models behind, faults in between.

One server speaks for OpenRouter (chat and images), Black Forest Labs and Moondream. It keeps a log
of every request with what it answered, so that a run can be held against it: what was asked, how
often, and what was charged.
"""

import asyncio
import base64
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from stages.models.chat.demo_extractor import DemoExtractor
from stages.models.chat.demo_judge import DemoJudge
from stages.models.chat.demo_target import DemoTarget
from stages.models.detector.demo import DemoDetector
from stages.models.editor.demo import DemoEditor
from stages.models.picture import Picture
from stages.models.protocol import Chat, Conversation, Turn
from tests.models.wire.loopback import KEY, Act, Seen, Server, chat_reply, image_reply
from tests.pipeline.faults import BROKE, BY_NAME, Fault, Plan

UNDER_WAY = ("Pending", "Reasoning", "Generating", "Dreaming")
"""States of a task before it is ready; nobody has heard of the last one yet."""
MODELS = {
    "qwen/qwen3-vl-8b-instruct": "target",
    "openai/gpt-5.2": "extractor",
    "qwen/qwen3-235b-a22b": "judge",
    "qwen/qwen3-vl-30b-a3b-instruct": "detector",
}
ERRS = {"unchanged": 0.06, "wrong_object": 0.05, "background": 0.05, "shift": 0.05}


@dataclass(frozen=True)
class Entry:
    """One request as it was answered."""

    role: str
    """target, extractor, judge, detector or editor; poll or download."""
    family: str
    """Which protocol: chat, image, submit, detect, poll or download."""
    request: str
    """Digest of address and body: equal for equal requests."""
    fault: Fault | None
    epoch: int
    """How often the account had been filled by then."""
    seconds: float
    """How long the answer took to make."""

    @property
    def good(self) -> bool:
        return self.fault is None

    @property
    def final(self) -> bool:
        return self.fault is not None and self.fault.final(self.family)

    @property
    def charged(self) -> bool:
        return self.fault is None or self.fault.charged


class Providers(Server):
    """All providers of a study.

    Parameters
    ----------
    plan : Plan
        Which request meets which fault.
    timeout_s : float
        How long clients wait; a slow answer takes longer.
    broke_after : int
        Verdicts after which OpenRouter's account is empty until `refill`.
    """

    def __init__(self, plan: Plan, *, timeout_s: float, broke_after: int) -> None:
        super().__init__()
        self._http.RequestHandlerClass.timeout = 600  # an idle connection is not closed on anybody
        self._http.socket.listen(256)
        self.plan, self.timeout_s, self.broke_after = plan, timeout_s, broke_after
        self.log: list[Entry] = []
        self.said: set[str] = set()
        """Digests of all texts that were sent whole."""
        self.states: Counter[str] = Counter()
        self.epoch = 0
        self._broke = False
        self._visits: Counter[str] = Counter()
        self._tasks: dict[str, Future[bytes] | str] = {}
        self._polls: Counter[str] = Counter()
        self._edits: dict[tuple[Any, ...], Future[bytes]] = {}
        self._workers = ThreadPoolExecutor(2)
        self._chats: dict[str, Chat] = {
            "target": DemoTarget("mixture", 0.6),
            "extractor": DemoExtractor(),
            "judge": DemoJudge(),
        }
        self._detector, self._editor = DemoDetector(), DemoEditor("demo", ERRS)

    def refill(self) -> None:
        """Put money into the account."""
        self.epoch += 1
        self._broke = False

    def act(self, seen: Seen) -> Act:
        """Answer one request; models work outside of the lock."""
        if seen.method == "GET" and (shown := self._looked_at(seen)) is not None:
            return shown
        began = time.monotonic()
        role, family, answer = self._routed(seen)
        request = hashlib.sha256(f"{seen.method} {seen.path}".encode() + seen.raw).hexdigest()
        with self._lock:
            self._visits[request] += 1
            visit = self._visits[request]
            verdicts = sum(entry.role == "judge" for entry in self.log)
            if role == "judge" and self.epoch == 0 and verdicts >= self.broke_after:
                self._broke = True
            fault = BROKE if self._broke else self.plan.fault(family, request, visit)
        good = answer(fault) if fault is None or fault.act is None else fault.act
        if family == "chat" and "choices" in (good.body if isinstance(good.body, dict) else ()):
            good = replace(good, body={**good.body, "model": seen.json["model"]})
        with self._lock:
            took = time.monotonic() - began
            self.log.append(Entry(role, family, request, fault, self.epoch, took))
        return good if fault is None else self._spoilt(fault, good)

    def _looked_at(self, seen: Seen) -> Act | None:
        """What a preflight looks at before anything is spent; nothing of it is logged or faulty."""
        match seen.path:
            case "/v1/models":
                return Act({"data": [{"id": model} for model in MODELS]})
            case "/v1/images/models":
                return Act({"data": [{"id": "google/gemini-3-pro-image"}]})
            case "/v1/credits":
                return Act({"credits": 1000.0})
            case "/v1" | "/v1/":
                return Act({"detail": f"nothing here {KEY}"}, 404)
        return None

    def _spoilt(self, fault: Fault, good: Act) -> Act:
        size = len(good.body if isinstance(good.body, bytes) else json.dumps(good.body))
        match fault.name:
            case "dropped in the reply":
                return replace(good, drop="middle")
            case "content length too large":
                return replace(good, excess=1000)
            case "content length too small":
                return replace(good, excess=-(size // 2))
            case "slow":
                return replace(good, delay_s=self.timeout_s + 1)
        return good

    def _routed(self, seen: Seen) -> tuple[str, str, Callable[[Fault | None], Act]]:
        path, key = seen.path, seen.headers
        if path == "/v1/chat/completions":
            assert key["authorization"] == f"Bearer {KEY}"
            body = seen.json
            role = MODELS[body["model"]]
            return role, "chat", lambda fault: self._chat(role, body, fault)
        if path == "/v1/images":
            assert key["authorization"] == f"Bearer {KEY}"
            return "editor", "image", lambda fault: self._image(seen.json)
        if path == "/v1/flux-2-pro":
            assert key["x-key"] == KEY
            return "editor", "submit", lambda fault: self._submit(seen.json, fault)
        if path.startswith("/v1/get_result?id="):
            assert key["x-key"] == KEY
            return "poll", "poll", lambda fault: self._poll(path.partition("=")[2])
        if path.startswith("/delivery/"):
            assert "x-key" not in key
            return "download", "download", lambda fault: self._download(path.rpartition("/")[2])
        assert (path, key["x-moondream-auth"]) == ("/v1/detect", KEY)
        return "detector", "detect", lambda fault: self._detect(seen.json)

    def _chat(self, role: str, body: dict[str, Any], fault: Fault | None) -> Act:
        assert body["max_tokens"] > 0
        turns = tuple(_turn(message) for message in body["messages"])
        if role == "detector":
            text = self._boxes(turns[0])
        else:
            asked = Conversation(turns, max_tokens=body["max_tokens"], seed=body["seed"])
            text = asyncio.run(self._chats[role].complete(asked)).text
        if fault is None:
            self.said.add(digest(text))
        return Act(chat_reply(text, provider=f"Upstream {KEY}"))

    def _boxes(self, turn: Turn) -> str:
        phrase, (picture,) = turn.text.split('"')[1], turn.pictures
        height, width = picture.pixels.shape[:2]
        boxes = asyncio.run(self._detector.detect(picture, phrase)).boxes
        found = [
            {
                "bbox_2d": [
                    round(1000 * value / side)
                    for value, side in zip(
                        (box.x0, box.y0, box.x1, box.y1), (width, height) * 2, strict=True
                    )
                ],
                "label": phrase,
            }
            for box in boxes
        ]
        return f"```json\n{json.dumps(found)}\n```"

    def _detect(self, body: dict[str, Any]) -> Act:
        picture = _picture(body["image_url"])
        height, width = picture.pixels.shape[:2]
        boxes = asyncio.run(self._detector.detect(picture, body["object"])).boxes
        found = [
            {"x_min": b.x0 / width, "y_min": b.y0 / height, "x_max": b.x1 / width,
             "y_max": b.y1 / height}
            for b in boxes
        ]  # fmt: skip
        return Act({"request_id": "r", "objects": found})

    def _edit(self, picture: Picture, instruction: str, seed: int) -> "Future[bytes]":
        """One image for each request, whoever asks: both providers' editors are one."""

        def make() -> bytes:
            made = self._editor.edit(picture, instruction, seed=seed, attempt=1)
            return asyncio.run(made).data

        key = (picture.sha256, instruction, seed)
        with self._lock:
            if key not in self._edits:
                self._edits[key] = self._workers.submit(make)
            return self._edits[key]

    def _image(self, body: dict[str, Any]) -> Act:
        assert (body["model"], body["n"]) == ("google/gemini-3-pro-image", 1)
        (reference,) = body["input_references"]
        picture = _picture(reference["image_url"]["url"])
        made = self._edit(picture, body["prompt"], body["seed"]).result()
        return Act({**image_reply(made), "model": body["model"]})

    def _submit(self, body: dict[str, Any], fault: Fault | None) -> Act:
        assert body["disable_pup"] is True
        assert body["width"] % 16 == body["height"] % 16 == 0
        picture = Picture(base64.b64decode(body["input_image"]))
        name = f"t{len(self._tasks)}-{body['seed']}"
        if fault is not None and fault.name.endswith("at the poll"):
            self._tasks[name] = fault.name
        else:
            self._tasks[name] = self._edit(picture, body["prompt"], body["seed"])
        polling = f"{self.url}/v1/get_result?id={name}"
        return Act({"id": name, "polling_url": polling, "cost": 4.5, "input_mp": 0.3})

    def _poll(self, name: str) -> Act:
        task = self._tasks[name]
        self._polls[name] += 1
        done = isinstance(task, str) or task.done()
        if self._polls[name] == 1 or not done:
            # By the task's number: every state is met, however fast the machine is.
            number = int(name[1:].partition("-")[0])
            state = UNDER_WAY[(number + self._polls[name]) % len(UNDER_WAY)]
            result = None
        elif isinstance(task, str):
            state = {"moderated at the poll": "Content Moderated"}.get(task, "Error")
            result = None
        else:
            state, result = "Ready", {"sample": f"{self.url}/delivery/{name}"}
        self.states[state] += 1
        details = {"Moderation Reasons": ["Violence", KEY]} if "Moderated" in state else {"k": KEY}
        return Act({"id": name, "status": state, "result": result, "details": details})

    def _download(self, name: str) -> Act:
        task = self._tasks[name]
        assert not isinstance(task, str)
        return Act(task.result(), headers={"content-type": "image/png"})

    def met(self) -> Counter[str]:
        """How often each fault was met."""
        return Counter(entry.fault.name for entry in self.log if entry.fault is not None)

    def missing(self) -> set[str]:
        """Faults that were never met."""
        return set(BY_NAME) - set(self.met())


def digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _picture(url: str) -> Picture:
    return Picture(base64.b64decode(url.partition(",")[2]))


def _turn(message: dict[str, Any]) -> Turn:
    content = message["content"]
    if isinstance(content, str):
        return Turn(message["role"], content)
    shown = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    text = "".join(part["text"] for part in content if part["type"] == "text")
    return Turn(message["role"], text, tuple(_picture(url) for url in shown))
