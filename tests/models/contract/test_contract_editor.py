"""Editors over HTTP: what each sends, and what it makes of its provider's ways."""

import asyncio
import base64
import json
from typing import Any

import numpy as np
import pytest

from stages.models.editor.black_forest_labs import BlackForestLabs
from stages.models.editor.chat_images import ChatImages
from stages.models.editor.http import HttpEditor
from stages.models.editor.openai_images import OpenAIImages
from stages.models.editor.openrouter_images import OpenRouterImages
from stages.models.editor.sizes import in_steps, ratio
from stages.models.picture import Picture
from stages.models.protocol import CallError, EditedImage, Editor
from stages.records.base import Status
from stages.records.errors import UserError
from tests.models.contract.cases import EDITED, MODEL, PICTURE, SOURCE
from tests.models.wire.loopback import KEY, QUICK, Act, Server, bfl_route, chat_reply, image_reply


def edit(editor: Editor, *, seed: int = 0, attempt: int = 1) -> EditedImage:
    return asyncio.run(editor.edit(SOURCE, "Paint it {seed} red.", seed=seed, attempt=attempt))


# --- Black Forest Labs ---------------------------------------------------------------------------


def flux(server: Server, **values: Any) -> BlackForestLabs:
    values = {"model": "flux-2-max", "poll_s": 0.005, "patience": QUICK, **values}
    return BlackForestLabs(base_url=server.url, **values)


def test_flux_submits_polls_and_fetches(server: Server) -> None:
    server.route = bfl_route(server, EDITED.png)
    found = edit(flux(server, options={"disable_pup": True, "output_format": "png"}))
    assert (found.data, found.usage.cost_usd, found.usage.images) == (EDITED.png, 0.1, 1)
    submit, poll, fetch = server.seen
    assert (submit.method, submit.path) == ("POST", "/v1/flux-2-max")
    body = submit.json
    seed = body.pop("seed")
    assert 0 <= seed < 2**31
    assert body == {
        "prompt": "Paint it {seed} red.",
        "input_image": base64.b64encode(SOURCE.png).decode(),
        "disable_pup": True,
        "output_format": "png",
        "width": 128,
        "height": 96,
    }
    assert poll.path == "/v1/get_result?id=t-1"
    assert submit.headers["x-key"] == poll.headers["x-key"] == KEY
    assert "x-key" not in fetch.headers
    assert KEY not in str(fetch.headers)


def test_every_attempt_of_every_run_has_a_seed_of_its_own(server: Server) -> None:
    server.route = bfl_route(server, EDITED.png)
    editor = flux(server)
    for seed in (0, 1, 2):
        for attempt in (1, 2, 3):
            edit(editor, seed=seed, attempt=attempt)
    seeds = [seen.json["seed"] for seen in server.seen if seen.method == "POST"]
    assert len(set(seeds)) == 9


def test_kontext_gets_proportions_and_no_size(server: Server) -> None:
    server.route = bfl_route(server, EDITED.png)
    edit(flux(server, model="flux-kontext-pro", size="ratio"))
    body = server.seen[0].json
    assert body["aspect_ratio"] == "4:3"
    assert not {"width", "height"} & set(body)
    edit(flux(server, size="none"))
    assert not {"width", "height", "aspect_ratio"} & set(server.seen[3].json)


def states(server: Server, *polls: Act) -> None:
    submitted = bfl_route(server, EDITED.png)
    left = list(polls)

    def route(seen: Any) -> Act:
        if seen.path.startswith("/v1/get_result") and left:
            return left.pop(0)
        return submitted(seen)

    server.route = route


def test_states_under_way_and_states_yet_unknown_are_waited_for(server: Server) -> None:
    names = ("Pending", "Reasoning", "Generating", "Queued", "Dreaming", "", None)
    states(server, *(Act({"id": "t-1", "status": name, "result": None}) for name in names))
    assert edit(flux(server)).data == EDITED.png
    assert sum(seen.method == "POST" for seen in server.seen) == 1


def test_a_task_outlives_whatever_befalls_its_polls(server: Server) -> None:
    states(
        server,
        Act({"detail": "internal"}, 500),
        Act(drop="before"),
        Act({"detail": "slow"}, 429, {"retry-after": "0"}),
        Act(b"<html>", 502),
        Act(b"no json"),
        Act({"id": "t-1", "status": "Pending"}, drop="middle"),
    )
    assert edit(flux(server)).data == EDITED.png
    assert sum(seen.method == "POST" for seen in server.seen) == 1


@pytest.mark.parametrize("state", ["Request Moderated", "Content Moderated"])
def test_flux_names_the_reasons_of_moderation(server: Server, state: str) -> None:
    details = {"Moderation Reasons": ["Violence", "Derivative Works"]}
    states(server, Act({"id": "t-1", "status": state, "result": None, "details": details}))
    with pytest.raises(CallError, match=f"{state}: Violence, Derivative Works") as caught:
        edit(flux(server))
    assert caught.value.status is Status.REFUSED


@pytest.mark.parametrize(
    "poll",
    [
        Act({"id": "t-1", "status": "Error", "details": {"why": "x"}}),
        Act({"id": "t-1", "status": "Failed"}),
        Act({"id": "t-1", "status": "Task not found"}),
        Act({"detail": "Task not found"}, 404),
        Act({"id": "t-1", "status": "Ready", "result": None}),
        Act({"id": "t-1", "status": "Ready", "result": {"sample": None}}),
    ],
)
def test_a_task_that_failed_is_an_error_and_is_not_submitted_again(
    server: Server, poll: Act
) -> None:
    states(server, poll)
    with pytest.raises(CallError, match="t-1") as caught:
        edit(flux(server))
    assert caught.value.status is Status.API_ERROR
    assert sum(seen.method == "POST" for seen in server.seen) == 1


def test_a_task_that_never_ends_is_given_up_at_its_deadline(server: Server) -> None:
    states(server, *[Act({"id": "t-1", "status": "Pending"})] * 1000)
    with pytest.raises(CallError, match=r"not ready within 0\.3 s; it may be charged"):
        edit(flux(server, deadline_s=0.3))
    assert 2 < len(server.seen) < 100


def test_the_download_is_tried_again_and_the_key_stays_at_home(server: Server) -> None:
    submitted, failures = bfl_route(server, EDITED.png), [Act(b"", 503), Act(drop="before")]

    def route(seen: Any) -> Act:
        if seen.path.startswith("/d") and failures:
            return failures.pop()
        return submitted(seen)

    server.route = route
    assert edit(flux(server)).data == EDITED.png
    server.route = lambda seen: Act(b"gone", 410) if seen.path[:2] == "/d" else submitted(seen)
    with pytest.raises(CallError, match=r"could not be fetched \(410\)") as caught:
        edit(flux(server))
    assert "s=1" not in str(caught.value)


def test_a_polling_url_of_another_host_gets_no_key(server: Server) -> None:
    server.route = lambda seen: Act({"id": "t-1", "polling_url": "http://evil.example/p"})
    with pytest.raises(CallError, match="another host"):
        edit(flux(server))
    assert len(server.seen) == 1
    editor = flux(server)
    editor.endpoint.base_url = "https://api.bfl.ai"
    assert editor._is_ours("https://api.eu4.bfl.ai/v1/get_result?id=1")
    for host in ("api.bfl.ai.evil.example", "notbfl.ai", "127.0.0.1"):
        assert not editor._is_ours(f"https://{host}/p")


def test_no_more_tasks_are_open_than_the_account_allows(server: Server) -> None:
    open_tasks, most = set(), [0]

    def route(seen: Any) -> Act:
        if seen.method == "POST":
            name = f"t{len(server.seen)}"
            open_tasks.add(name)
            most[0] = max(most[0], len(open_tasks))
            return Act({"id": name, "polling_url": f"{server.url}/v1/get_result?id={name}"})
        if seen.path.startswith("/v1/get_result"):
            open_tasks.discard(seen.path.partition("=")[2])
            return Act({"status": "Ready", "result": {"sample": f"{server.url}/d"}})
        return Act(EDITED.png)

    server.route = route
    editor = flux(server, concurrency=3)

    async def many() -> None:
        edits = (editor.edit(SOURCE, "x", seed=0, attempt=n) for n in range(12))
        await asyncio.gather(*edits)

    asyncio.run(many())
    assert most[0] <= 3
    assert open_tasks == set()


# --- image endpoints -----------------------------------------------------------------------------


def test_openrouter_gets_the_picture_as_its_reference(server: Server) -> None:
    server.route = lambda seen: Act(image_reply(EDITED.png))
    editor = OpenRouterImages(
        MODEL, f"{server.url}/v1", options={"resolution": "1K"}, size="pixels", patience=QUICK
    )
    usage = edit(editor).usage
    assert (usage.cost_usd, usage.images) == (0.134, 1)
    body = server.seen[0].json
    assert server.seen[0].path == "/v1/images"
    assert (body["resolution"], body["n"], body["prompt"]) == ("1K", 1, "Paint it {seed} red.")
    reference = body["input_references"][0]["image_url"]["url"]
    assert base64.b64decode(reference.partition(",")[2]) == SOURCE.png
    width, height = map(int, body["size"].split("x"))
    assert width % 16 == height % 16 == 0
    edit(editor, attempt=2)
    assert server.seen[1].json["seed"] != body["seed"]


@pytest.mark.parametrize(
    "body",
    [{"data": []}, {"data": None}, {"data": [{"url": "x"}]}, {"data": [{"b64_json": "%%"}]}, {}],
)
def test_an_image_reply_without_an_image_is_an_error(server: Server, body: Any) -> None:
    server.route = lambda seen: Act(body)
    for editor in (
        OpenRouterImages(MODEL, server.url, patience=QUICK),
        OpenAIImages("gpt-image-2", server.url, patience=QUICK),
    ):
        with pytest.raises(CallError) as caught:
            edit(editor)
        assert caught.value.status is Status.API_ERROR
    assert len(server.seen) == 2


def test_openai_gets_a_form_with_a_file(server: Server) -> None:
    server.route = lambda seen: Act(image_reply(EDITED.png))
    edit(OpenAIImages("gpt-image-2", f"{server.url}/v1", options={"quality": "high"}))
    seen = server.seen[0]
    assert seen.path == "/v1/images/edits"
    assert seen.headers["content-type"].startswith("multipart/form-data")
    for part in (b'name="quality"\r\n\r\nhigh', b'name="model"\r\n\r\ngpt-image-2', SOURCE.png):
        assert part in seen.raw
    assert b'name="seed"' not in seen.raw
    size = seen.raw.partition(b'name="size"\r\n\r\n')[2].split(b"\r")[0].decode()
    width, height = map(int, size.split("x"))
    assert width * height >= 655_360
    assert abs(width / height - 4 / 3) < 0.02


def test_chat_asks_for_a_picture_and_words_are_a_refusal(server: Server) -> None:
    server.route = lambda seen: Act(PICTURE)
    editor = ChatImages(
        {"model": MODEL, "base_url": server.url, "extra_body": {"a": 1}, "patience": QUICK},
        image_config={"image_size": "1K"},
    )
    assert edit(editor).data == EDITED.png
    body = server.seen[0].json
    assert (body["modalities"], body["image_config"], body["a"]) == (
        ["image", "text"],
        {"image_size": "1K"},
        1,
    )
    for reply, says in (
        (chat_reply("I can't edit people."), "answered in words: I can't edit people"),
        (chat_reply(None, finish="content_filter"), "filter"),
        (chat_reply(None), "no image came back"),
    ):
        server.route = lambda seen, reply=reply: Act(reply)
        with pytest.raises(CallError, match=says) as caught:
            edit(editor)
        assert caught.value.status is Status.REFUSED


def test_another_served_model_ends_the_run_for_editors_too(server: Server) -> None:
    server.route = lambda seen: Act({**image_reply(EDITED.png), "model": "maker/other"})
    with pytest.raises(UserError, match="maker/other"):
        edit(OpenRouterImages(MODEL, server.url, patience=QUICK))
    server.route = lambda seen: Act({**PICTURE, "model": "maker/other"})
    with pytest.raises(UserError, match="maker/other"):
        edit(ChatImages({"model": MODEL, "base_url": server.url, "patience": QUICK}))


# --- any server ----------------------------------------------------------------------------------


def own(server: Server, **values: Any) -> HttpEditor:
    values = {"body": {"p": "{instruction}"}, "patience": QUICK, **values}
    return HttpEditor(f"{server.url}/edit", "own", **values)


def test_a_template_is_filled_once_and_keeps_types(server: Server) -> None:
    server.route = lambda seen: Act(EDITED.png)
    body = {
        "text": "Edit: {instruction}",
        "seed": "{seed}",
        "nested": [{"image": "{image_url}"}, "{width}x{height}", 7, None, "{unknown}"],
    }
    assert edit(own(server, body=body)).data == EDITED.png
    sent = server.seen[0].json
    assert sent["text"] == "Edit: Paint it {seed} red."
    assert type(sent["seed"]) is int
    image, size, *rest = sent["nested"]
    assert image["image"].startswith("data:image/png;base64,")
    assert (size, rest) == ("64x48", [7, None, "{unknown}"])


def test_a_form_sends_the_picture_as_a_file(server: Server) -> None:
    server.route = lambda seen: Act(EDITED.png)
    body = {"prompt": "{instruction}", "seed": "{seed}", "file": "{image}"}
    edit(own(server, body=body, encoding="form"))
    raw = server.seen[0].raw
    assert SOURCE.png in raw
    assert b'name="prompt"\r\n\r\nPaint it {seed} red.' in raw


@pytest.mark.parametrize(
    ("at", "reply"),
    [
        ("images.0.b64", {"images": [{"b64": base64.b64encode(EDITED.png).decode()}]}),
        ("out", {"out": f"data:image/png;base64,{base64.b64encode(EDITED.png).decode()}"}),
    ],
)
def test_the_image_is_taken_from_where_yaml_says(server: Server, at: str, reply: Any) -> None:
    server.route = lambda seen: Act(reply)
    assert edit(own(server, image_at=at)).data == EDITED.png


def test_an_address_in_the_reply_is_fetched_without_the_key(server: Server) -> None:
    server.route = lambda seen: (
        Act(EDITED.png) if seen.method == "GET" else Act({"url": f"{server.url}/file"})
    )
    editor = own(
        server,
        image_at="url",
        api_key_env="OPENAI_API_KEY",
        headers={"Authorization": "Token {key}"},
    )
    assert edit(editor).data == EDITED.png
    assert server.seen[0].headers["authorization"] == f"Token {KEY}"
    assert "authorization" not in server.seen[1].headers
    assert KEY not in json.dumps(editor.identity())


def test_a_reply_without_it_says_what_is_missing(server: Server) -> None:
    server.route = lambda seen: Act({"images": []})
    with pytest.raises(CallError, match=r"nothing at 'images\.0\.b64' \(no '0'\)"):
        edit(own(server, image_at="images.0.b64"))


def test_a_server_of_ones_own_may_be_asked_again(server: Server) -> None:
    server.route = lambda seen: Act(EDITED.png)
    server.will(Act(drop="before"), Act({"detail": "oom"}, 500))
    assert edit(own(server, paid=False)).data == EDITED.png
    assert len(server.seen) == 3


# --- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "height"),
    [
        (640, 427),
        (427, 640),
        (640, 480),
        (1600, 900),
        (500, 375),
        (333, 500),
        (64, 48),
        (4000, 3000),
    ],
)
@pytest.mark.parametrize(("least", "most"), [(0, 4_000_000), (655_360, 8_294_400)])
def test_sizes_are_in_steps_within_bounds_and_keep_proportions(
    width: int, height: int, least: int, most: int
) -> None:
    columns, rows = in_steps(width, height, max_pixels=most, min_pixels=least)
    assert columns % 16 == rows % 16 == 0
    assert min(columns, rows) >= 64
    assert least <= columns * rows <= most
    assert abs(np.log(columns * height / (rows * width))) < 0.02


def test_a_size_that_fits_already_stays() -> None:
    assert in_steps(1024, 768, max_pixels=4_000_000) == (1024, 768)
    assert in_steps(1600, 896, max_pixels=4_000_000) == (1600, 896)


def test_proportions_are_small_numbers() -> None:
    assert [ratio(640, 427), ratio(1600, 900), ratio(640, 480), ratio(512, 512)] == [
        "3:2",
        "16:9",
        "4:3",
        "1:1",
    ]


def test_pictures_are_reduced_only_where_they_are_larger() -> None:
    from stages.models.wire.parts import Encoding

    picture = Picture.of(np.zeros((30, 60, 3), np.uint8))
    assert Encoding("png", 60).encode(picture) is picture.png
    assert Encoding("png", 20).size(picture) == (20, 10)
    assert Picture(Encoding("png", 20).encode(picture)).pixels.shape == (10, 20, 3)
