"""Files in messages: their type is known from bytes and names, and each provider gets them."""

import base64
from pathlib import Path

import pytest

import weft
from weft import Agent, Part
from weft.content import Blob, FileData, to_content
from weft.errors import SessionError
from weft.testing import ScriptedModel, call

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MP4 = b"\x00\x00\x00\x18ftypisom"


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (PNG, "a.png", "image/png"),
        (PNG, "wrong.pdf", "image/png"),
        (b"\xff\xd8\xff\xe0", "", "image/jpeg"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "", "audio/wav"),
        (b"%PDF-1.7", "", "application/pdf"),
        (MP4, "", "video/mp4"),
        (b"\x00\x00\x00\x18ftypM4A ", "", "audio/mp4"),
        (b"ID3\x04", "", "audio/mpeg"),
        (b"a,b\n1,2\n", "rows.csv", "text/csv"),
        (b"plain", "NOTES.TXT", "text/plain"),
    ],
)
def test_the_type_is_known_from_the_bytes_and_the_name(
    data: bytes, name: str, kind: str, tmp_path: Path
) -> None:
    part = Part.from_bytes(data, name=name or None)
    assert part.inline_data is not None
    assert (part.inline_data.mime_type, base64.b64decode(part.inline_data.data or "")) == (
        kind,
        data,
    )
    if name:
        (tmp_path / name).write_bytes(data)
        assert Part.from_path(tmp_path / name) == Part.from_bytes(data, kind, name=name)


def test_addresses_and_data_urls() -> None:
    png = Blob(mime_type="image/png", data=base64.b64encode(PNG).decode())
    url = f"data:image/png;base64,{png.data}"
    assert Part.from_url(url).inline_data == png
    assert Part.from_url("data:text/plain,two%20words").inline_data == Blob(
        mime_type="text/plain", data=base64.b64encode(b"two words").decode()
    )
    assert Part.from_url("https://host/a/b.JPG?size=2#x").file_data == FileData(
        file_uri="https://host/a/b.JPG?size=2#x", mime_type="image/jpeg"
    )
    assert Part.from_url("gs://bucket/x", "video/mp4").file_data is not None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Part.from_bytes(b"\x00\x01\x02"), "tells no type"),
        (lambda: Part.from_bytes(b"", "image/png"), "the file is empty"),
        (lambda: Part.from_bytes(PNG, "image/jpeg"), "is said to be image/jpeg, and is image/png"),
        (lambda: Part.from_bytes(PNG, "png"), "'png' is no type of media"),
        (lambda: Part.from_path("nowhere.png"), "no such file"),
        (lambda: Part.from_path("/"), "is a directory"),
        (lambda: Part.from_path(5), "a int is not a path"),  # type: ignore[arg-type]
        (lambda: Part.from_url("https://host/page"), "does not tell its type"),
        (lambda: Part.from_url("a.png"), "is no address"),
        (lambda: Part.from_url("file:///a.png"), "no provider fetches file: addresses"),
        (lambda: Part.from_url("data:image/png;base64"), "has no data"),
        (lambda: Part.from_url("data:image/png;base64,%%%"), "not base64"),
        (lambda: to_content([Path("nowhere.png")]), "no such file"),
    ],
)
def test_what_cannot_be_sent_says_what_to_pass(make: object, message: str) -> None:
    with pytest.raises(SessionError, match=message) as raised:
        make()  # type: ignore[operator]
    assert raised.value.hint


def test_an_unknown_file_names_itself(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"\x00\x01")
    with pytest.raises(SessionError, match=r"the type of `data\.bin` is not known"):
        to_content(["Look", tmp_path / "data.bin"])


@pytest.mark.parametrize(
    ("dialect", "spelling"),
    [
        ("gemini", "inlineData"),
        ("anthropic", "base64"),
        ("openai-chat", "image_url"),
        ("openai-responses", "input_image"),
    ],
)
def test_a_path_in_a_message_reaches_each_provider(
    dialect: str, spelling: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(PNG)
    model = ScriptedModel(["A dot."], dialect=dialect)
    result = weft.run_sync(Agent("eye", model=model), ["What is this?", file])
    assert result.text == "A dot."
    wire = str(model.wires[0])
    assert spelling in wire
    assert base64.b64encode(PNG).decode() in wire


@pytest.mark.parametrize("dialect", ["gemini", "anthropic", "openai-chat", "openai-responses"])
def test_a_tool_may_return_a_file(dialect: str, tmp_path: Path) -> None:
    def draw() -> list[object]:
        """Draw a dot."""
        return ["a dot", Part.from_bytes(PNG)]

    model = ScriptedModel([call("draw"), "Nice."], dialect=dialect)
    weft.run_sync(Agent("eye", model=model, tools=[draw]), "Draw.")
    assert base64.b64encode(PNG).decode() in str(model.wires[1])


def test_media_that_a_provider_does_not_read_is_reported_and_counted() -> None:
    message = ["Watch", Part.from_bytes(MP4)]
    compiled = weft.compile(Agent("eye", model="gpt-5"), message=message)
    assert "WEFT703" in {one.code for one in compiled.diagnostics}
    seen = weft.compile(Agent("eye", model="gpt-5"), message=["Look", Part.from_bytes(PNG)])
    blind = weft.compile(Agent("eye", model="gpt-5"), message="Look")
    assert seen.tokens > blind.tokens
