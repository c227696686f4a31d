"""A server on loopback that speaks the providers' protocols, and misbehaves as told."""

import base64
import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-test-5f1c0ffee-not-to-be-seen"
QUICK = {"tries": 4, "total_s": 5.0, "first_wait_s": 0.005, "max_wait_s": 0.02}


@dataclass(frozen=True)
class Act:
    """One answer: a body, or a way of giving none."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: str | None = None
    """``before`` closes without a word, ``middle`` after half of the body."""
    excess: int = 0
    """By how many bytes the declared content length is larger than the body; may be negative."""


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


class Server:
    """Answers from its script first, then by its routes."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.script: deque[Act] = deque()
        self.route: Callable[[Seen], Act] = lambda seen: Act({"error": "no route"}, 500)
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def will(self, *acts: Act) -> None:
        """Answer the next requests like this."""
        self.script.extend(acts)

    def act(self, seen: Seen) -> Act:
        with self._lock:
            self.seen.append(seen)
            return self.script.popleft() if self.script else self.route(seen)


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.perform(server.act(Seen(self.command, self.path, headers, raw)))

        def do_GET(self) -> None:
            self.do_POST()

        def perform(self, act: Act) -> None:
            if act.delay_s:
                time.sleep(act.delay_s)
            data = act.body if isinstance(act.body, bytes) else json.dumps(act.body).encode()
            if act.drop == "before":
                return self.hang_up()
            try:
                self.send_response(act.status)
                names = {name.lower() for name in act.headers}
                if "content-type" not in names:
                    kind = "application/octet-stream" if isinstance(act.body, bytes) else "json"
                    self.send_header("content-type", kind.replace("json", "application/json"))
                for name, value in act.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data) + act.excess))
                self.end_headers()
                if act.drop == "middle":
                    self.wfile.write(data[: len(data) // 2])
                    self.wfile.flush()
                    return self.hang_up()
                self.wfile.write(data)
                self.close_connection = bool(act.excess) or self.close_connection
            except OSError:
                pass  # the client has gone, as a client that ran out of patience does

        def hang_up(self) -> None:
            self.close_connection = True
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


# --- what providers say when all is well ---------------------------------------------------------


def chat_reply(content: Any, *, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A chat completion as OpenRouter gives it."""
    message = {"role": "assistant", "content": content, "refusal": None, **more.pop("message", {})}
    return {
        "id": "gen-1",
        "object": "chat.completion",
        "created": 1,
        "model": "maker/model-1",
        "provider": "Upstream",
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": finish,
                "native_finish_reason": finish,
            }
        ],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": 7,
            "total_tokens": 18,
            "cost": 0.0125,
        },
        **more,
    }


def image_reply(png: bytes) -> dict[str, Any]:
    """A reply of an image endpoint, as OpenRouter and OpenAI give it."""
    return {
        "created": 1,
        "data": [{"b64_json": base64.b64encode(png).decode(), "media_type": "image/png"}],
        "usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18, "cost": 0.134},
    }


def bfl_route(server: Server, png: bytes) -> Callable[[Seen], Act]:
    """The three requests of Black Forest Labs."""

    def route(seen: Seen) -> Act:
        if seen.path.startswith("/v1/get_result"):
            return Act(
                {"id": "t-1", "status": "Ready", "result": {"sample": f"{server.url}/d?s=1"}}
            )
        if seen.path.startswith("/d"):
            return Act(png, headers={"content-type": "image/png"})
        return Act(
            {
                "id": "t-1",
                "polling_url": f"{server.url}/v1/get_result?id=t-1",
                "cost": 10.0,
                "input_mp": 0.1,
                "output_mp": 0.1,
            }
        )

    return route
