"""What nobody may get at: keys, other folders, this machine's ports, code in data."""

import ast
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stages.benchmarks.table import QuestionTable
from stages.imaging import codec
from stages.models.local.checkpoint import Checkpoint
from stages.models.protocol import CallError
from stages.records.errors import UserError
from tests.faults import book
from tests.models.attacks import ATTACKS
from tests.models.contract.cases import CASES
from tests.models.wire.loopback import KEY, Act, Server

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "stages").rglob("*.py")) + sorted((ROOT / "scripts").rglob("*.py"))
PNG = codec.encode_png(np.zeros((4, 4, 3), np.uint8))


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call in a file, by the dotted name of what is called."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def given(call: ast.Call, name: str) -> str | None:
    return next((ast.unparse(k.value) for k in call.keywords if k.arg == name), None)


FORBIDDEN = re.compile(
    r"(pickle|cPickle|dill|joblib|shelve|marshal)\.(load|loads|open)|yaml\.(load|unsafe_load|full_load)"
    r"|eval|exec|os\.(system|popen)|pandas\.read_pickle|pd\.read_pickle|(tar|archive)\.extract(all)?"
)


def test_nothing_unpickles_evaluates_or_runs_what_it_reads() -> None:
    found = []
    for path in SOURCES:
        for name, call in calls(path):
            loads = name == "torch.load" and given(call, "weights_only") != "True"
            arrays = name in ("np.load", "numpy.load") and given(call, "allow_pickle") == "True"
            shell = given(call, "shell") not in (None, "False")
            if FORBIDDEN.fullmatch(name) or loads or arrays or shell:
                found.append(f"{path.relative_to(ROOT)}:{call.lineno} {name}")
    assert found == []
    book.note(
        book.SECURITY,
        "files without pickle, eval, shell or unsafe YAML",
        len(SOURCES),
        len(SOURCES),
    )


@pytest.mark.parametrize(
    "line",
    ["pickle.load(f)", "torch.load(p)", "yaml.load(t)", "eval(t)", "run(c, shell=True)",
     "np.load(p, allow_pickle=True)", "tar.extractall(p)"],
)  # fmt: skip
def test_the_search_finds_what_it_looks_for(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(line)
    monkeypatch.setattr(sys.modules[__name__], "SOURCES", [bad])
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    with pytest.raises(AssertionError):
        test_nothing_unpickles_evaluates_or_runs_what_it_reads()


@pytest.mark.parametrize("revision", ["main", "", "v1.0", "abc123"])
def test_foreign_code_runs_only_at_a_commit(revision: str) -> None:
    with pytest.raises((UserError, ValueError), match=r"trust_remote_code|revision"):
        Checkpoint("maker/model", revision, trust_remote_code=True)
    assert Checkpoint("maker/model", "0" * 40, trust_remote_code=True).trust_remote_code
    book.note(book.SECURITY, "trust_remote_code without a commit refused", 1, 1)


def test_no_shipped_file_trusts_foreign_code() -> None:
    files = sorted((ROOT / "conf").rglob("*.yaml"))
    trusting = [p for p in files if re.search(r"trust_remote_code: *(true|yes|on)", p.read_text())]
    assert trusting == []
    assert len(files) > 40


def test_nothing_listens_beyond_this_machine() -> None:
    texts = [p.read_text() for p in (*SOURCES, *(ROOT / "conf").rglob("*.yaml"), ROOT / "Makefile")]
    assert not [text for text in texts if re.search(r"0\.0\.0\.0|host=[\"']{2}|::0?[\"']", text)]


def test_what_is_installed_is_pinned() -> None:
    for name in ("run", "dev", "local", "fuzz"):
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        pins = [line for line in lines if line.strip() and not line.startswith(("#", "-", " "))]
        assert len(pins) > 20 or name == "fuzz"
        loose = [p for p in pins if not re.match(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+", p)]
        assert loose == []


OUTSIDE = ("../secret.png", "/etc/hostname", "a/../../secret.png", "link.png", "..\\secret.png")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.png").write_bytes(PNG)
    (inside / "in.png").write_bytes(PNG)
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    return inside


@pytest.mark.parametrize("name", [name for name in OUTSIDE if name != "link.png"])
def test_a_benchmark_reads_no_image_outside_its_folder(folder: Path, name: str) -> None:
    row = f'{{"id": "1", "question": "q?", "image": {name!r}}}'.replace("'", '"')
    (folder / "q.jsonl").write_text(row.replace("\\", "\\\\") + "\n")
    benchmark = QuestionTable(str(folder), "q.jsonl", "own")
    with pytest.raises((UserError, OSError)):
        [candidate.picture() for candidate in benchmark.select().items]
    book.note(book.SECURITY, "image paths that leave a benchmark's folder", 1, 1)


@pytest.mark.parametrize("side", [9000, 30_000, 65_000])
def test_an_image_is_bounded_before_it_is_decoded(side: int) -> None:
    import io
    import time
    import zlib

    blank = Image.new("1", (1, 1))
    out = io.BytesIO()
    blank.save(out, "PNG")
    data = bytearray(out.getvalue())
    data[16:24] = side.to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    began = time.process_time()
    with pytest.raises(codec.ImageError, match="pixels"):
        codec.decode(bytes(data))
    assert time.process_time() - began < 0.5
    book.note(book.SECURITY, "images that unpack to gigabytes", 1, 1)


def test_of_an_animation_one_frame_is_decoded() -> None:
    import io
    import time

    out = io.BytesIO()
    frames = [Image.new("L", (64, 64), n % 255) for n in range(2000)]
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    began = time.process_time()
    assert codec.decode(out.getvalue()).shape == (64, 64, 3)
    assert time.process_time() - began < 0.2
    book.note(book.SECURITY, "animations of thousands of frames: one is decoded", 1, 1)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("status", [200, 400, 401, 402, 403, 404, 422, 429, 500, 503])
def test_a_key_that_is_echoed_is_in_no_traceback(
    name: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    case = CASES[name]
    if case.key is None:
        pytest.skip("has no key")
    monkeypatch.setenv(case.key, KEY)
    once = {"tries": 1, "total_s": 0.01, "first_wait_s": 0.001, "max_wait_s": 0.001}
    with Server() as server:
        server.route = lambda seen: Act(
            {"error": {"message": f"bad key {KEY}", "code": status}}, status, {"x-echo": KEY}
        )
        try:
            asyncio.run(case.call(case.adapter(server.url, patience=once)))
        except (CallError, UserError) as error:
            whole = "".join(traceback.format_exception(error))
            chained = "".join(traceback.format_exception(error, chain=True))
            assert KEY not in whole + chained + repr(error) + repr(error.args)  # noqa: PT017
        else:
            pytest.fail("an error was taken for a reply")
    book.note(book.SECURITY, "keys echoed by a provider: in no message and no traceback", 1, 1)


def test_an_unexpected_error_shows_no_key(tmp_path: Path) -> None:
    code = (
        "import os; from stages.workflow import runner\n"
        "def run(root, params):\n"
        "    key = os.environ['OPENROUTER_API_KEY']\n"
        "    raise RuntimeError('it broke')\n"
        "runner.main('plan', run)\n"
    )
    (tmp_path / "params.yaml").write_text("study: x\n")
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENROUTER_API_KEY": KEY, "EDCT_TRACE": "1"},
        capture_output=True,
        text=True,
    )
    assert said.returncode == 1
    assert "unexpected RuntimeError: it broke" in said.stderr
    assert KEY not in said.stdout + said.stderr


def test_the_attacks_are_counted() -> None:
    assert len(ATTACKS) >= 50
    book.note(
        book.SECURITY,
        "prompt injections, each into every block of every prompt",
        len(ATTACKS),
        len(ATTACKS),
    )


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "", "A", "ü", "x" * 10 + "/", "a\0b"])
def test_a_cell_names_no_other_folder(name: str) -> None:
    from stages.workflow import cells

    if name:
        with pytest.raises(UserError):
            cells.cell(target=name, seed="0")
    with pytest.raises(UserError):
        cells.cell(target="demo", seed="0", judge=name or "../..")
    book.note(book.SECURITY, "names on the command line that leave data/", 1, 1)


@pytest.mark.parametrize("name", ["run", "dev"])
def test_what_a_pinned_package_needs_is_pinned_too(name: str) -> None:
    """A lock file is closed: nothing that pip would choose by itself is left to the day."""
    from importlib.metadata import PackageNotFoundError, requires

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    pinned = {}
    for line in lines:
        if line.strip() and not line.startswith(("#", "-", " ")):
            one = Requirement(line.partition(" \\")[0])
            pinned[canonicalize_name(one.name)] = next(iter(one.specifier)).version
    looked, open_ends = 0, []
    for package in pinned:
        try:
            needs = [Requirement(text) for text in requires(package) or ()]
        except PackageNotFoundError:
            continue  # of another platform
        looked += 1
        for need in needs:
            if need.marker is not None and not need.marker.evaluate({"extra": ""}):
                continue
            version = pinned.get(canonicalize_name(need.name))
            if version is None or not need.specifier.contains(version, prereleases=True):
                open_ends.append(f"{package} needs {need}, pinned is {version}")
    assert looked > 50
    assert open_ends == []
    book.note(book.SECURITY, "pinned packages whose own needs are pinned", looked, looked)


MARKUP = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</p><p onclick=x>", "&lt;b&gt;",
    r"\input{/etc/passwd}", r"\write18{true}", r"\def\x{}\x", "$x$ % # _ ^ ~ &", "{{ 7 * 7 }}",
    "{% include 'x' %}", "[a](javascript:alert(1))",
)  # fmt: skip


@pytest.mark.parametrize("text", [*MARKUP, *ATTACKS], ids=range(len(MARKUP) + len(ATTACKS)))
def test_what_a_model_says_is_text_in_html_and_in_latex(text: str) -> None:
    from html.parser import HTMLParser

    from stages.reporting import tables
    from stages.reporting.templating import environment

    class Reader(HTMLParser):
        tags, said = 0, ""

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.tags += 1

        def handle_data(self, data: str) -> None:
            self.said += data

    reader = Reader(convert_charrefs=True)
    reader.feed(environment().from_string("<p>{{ text }}</p>").render(text=text))
    reader.close()
    assert reader.tags == 1
    assert reader.said == text
    own = sorted({value for value in tables._LATEX.values() if len(value) > 1}, key=len)
    bare = re.sub("|".join(map(re.escape, reversed(own))), "", tables.escape_latex(text))
    assert not re.search(r"[\\{}$&#%_^~]", bare), bare
    book.note(book.SECURITY, "words of a model, shown in HTML and in LaTeX as words", 1, 1)
