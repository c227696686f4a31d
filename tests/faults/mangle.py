"""Good files made bad: bytes flipped, cut, repeated, and words that parsers stumble over."""

from hypothesis import strategies as st

TOKENS = (
    b"", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"\r", b'"', b"'", b",", b"\t", b"{", b"}",
    b"[", b"]", b"null", b"true", b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"9" * 5000, b"0.5",
    b'"\\ud800"', b"../../x", b"/etc/passwd", b"..\\x", b"[" * 1100, b'{"a":' * 1100, b"&a *a",
    b"!!python/object/apply:os.system ['true']", b"<b>", b"=cmd()", b"\xe2\x80\xa8", b"C:\\x",
)  # fmt: skip


@st.composite
def mangled(draw: st.DrawFn, good: bytes) -> bytes:
    """The file after one to three changes."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 12)))
        match draw(st.sampled_from(("token", "cut", "flip", "repeat", "value"))):
            case "token":
                data[at:end] = draw(st.sampled_from(TOKENS))
            case "cut":
                del data[at:]
            case "flip" if data:
                data[at - 1] ^= draw(st.integers(1, 255))
            case "repeat":
                data[at:at] = data[at:end] * draw(st.integers(1, 4))
            case _:  # the value after a colon or comma, whole
                marks = [n for n, byte in enumerate(data) if byte in b":,\t"]
                if marks:
                    at = draw(st.sampled_from(marks)) + 1
                    end = next((n for n in range(at, len(data)) if data[n] in b",}]\n\t"), at)
                    data[at:end] = draw(st.sampled_from(TOKENS))
    return bytes(data)
