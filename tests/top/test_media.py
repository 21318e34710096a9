"""Files in messages: their type is known from bytes and names, and each provider gets them."""

import base64
from pathlib import Path

import pytest

import weft
from weft import Agent, Part, Runner
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
        (lambda: Part.from_bytes(PNG, "png"), "'png' is not a type of media"),
        (lambda: Part.from_path("nowhere.png"), "no such file"),
        (lambda: Part.from_path("/"), "is a directory"),
        (lambda: Part.from_path(5), "an int is not a path"),  # type: ignore[arg-type]
        (lambda: Part.from_url("https://host/page"), "does not tell its type"),
        (lambda: Part.from_url("a.png"), "is not an address"),
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


def _photo(size: int = 300_000) -> bytes:
    return PNG + bytes(range(256)) * (size // 256)


def _stored(events: object) -> str:
    return str([part for event in events for part in event.content.parts])  # type: ignore[attr-defined]


@pytest.mark.parametrize("dialect", ["gemini", "anthropic", "openai-chat", "openai-responses"])
async def test_a_large_file_is_an_artifact_and_still_reaches_the_model(
    dialect: str, tmp_path: Path
) -> None:
    photo = _photo()
    encoded = base64.b64encode(photo).decode()
    address = f"sqlite:///{tmp_path}/weft.db"
    model = ScriptedModel(["A photo."], dialect=dialect)
    async with Runner(Agent("eye", model=model), store=address) as runner:
        message = ["What is this?", Part.from_bytes(photo, name="me.png")]
        first = await runner.run(message, session_id="s")
        assert encoded in str(model.wires[0])
        assert encoded not in _stored(first.session.events)
        (name,) = await _names(runner)
        assert first.session.events[0].actions.artifact_delta == {name: 0}
    again = ScriptedModel(["Still a photo."], dialect=dialect)  # another process, so to speak
    async with Runner(Agent("eye", model=again), store=address) as runner:
        await runner.run("And now?", session_id="s")
        assert encoded in str(again.wires[0])
        await runner.artifacts.delete("eye", "user", "s", name)
    gone = ScriptedModel(["No photo."], dialect=dialect)
    async with Runner(Agent("eye", model=gone), store=address) as runner:
        result = await runner.run("And now?", session_id="s")
        assert encoded not in str(gone.wires[0])
        assert "not carried" in str(gone.wires[0])
        assert "WEFT703" in {one.code for one in result.diagnostics}


async def _names(runner: Runner) -> list[str]:
    return await runner.artifacts.names("eye", "user", "s")


@pytest.mark.parametrize(
    "returned", [PNG, bytearray(PNG), ["a dot", PNG], {"about": "a dot", "image": PNG}]
)
async def test_bytes_that_a_tool_returns_are_the_file_they_are(returned: object) -> None:
    def draw() -> object:
        """Draw a dot."""
        return returned

    model = ScriptedModel([call("draw"), "Nice."], dialect="anthropic")
    await Runner(Agent("eye", model=model, tools=[draw])).run("Draw.", session_id="s")
    result = model.wires[1]["messages"][-1]["content"][0]  # type: ignore[index, call-overload]
    image = result["content"][-1]  # type: ignore[index, call-overload]
    assert image == {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": base64.b64encode(PNG).decode(),
        },
    }


@pytest.mark.parametrize(
    ("returned", "place"),
    [
        (b"\x01\x02\x03", "result"),
        (b"", "result"),
        ({"rows": [{"raw": PNG}]}, "result.rows[0].raw"),
    ],
)
async def test_bytes_of_no_known_type_are_an_error_for_the_model(
    returned: object, place: str
) -> None:
    def draw() -> object:
        """Draw a dot."""
        return returned

    model = ScriptedModel([call("draw"), "Oh."], dialect="anthropic")
    result = await Runner(Agent("eye", model=model, tools=[draw])).run("Draw.", session_id="s")
    sent = str(model.wires[1]["messages"][-1])  # type: ignore[index, call-overload]
    assert f"draw returned what is not JSON: {place}: these are bytes of no known type" in sent
    assert "Part.from_bytes" in sent
    assert base64.b64encode(PNG).decode() not in sent
    assert result.text == "Oh."


async def test_a_large_file_of_a_tool_is_an_artifact_too() -> None:
    photo = _photo()

    def shoot() -> Part:
        """Take a photo."""
        return Part.from_bytes(photo)

    model = ScriptedModel([call("shoot"), "Nice."], dialect="gemini")
    runner = Runner(Agent("eye", model=model, tools=[shoot]))
    result = await runner.run("Shoot.", session_id="s")
    assert base64.b64encode(photo).decode() in str(model.wires[1])
    assert base64.b64encode(photo).decode() not in _stored(result.session.events)
    assert len(await _names(runner)) == 1


async def test_the_same_request_comes_cold_and_grown(tmp_path: Path) -> None:
    photo, address = _photo(), f"sqlite:///{tmp_path}/weft.db"
    script = ["One.", "Two."]
    grown = ScriptedModel(script, dialect="anthropic")
    async with Runner(Agent("eye", model=grown), store=address) as runner:
        await runner.run(["Look", Part.from_bytes(photo)], session_id="s")
        await runner.run("Again", session_id="s")
    cold = ScriptedModel(["Two."], dialect="anthropic")
    async with Runner(Agent("eye", model=cold), store=f"sqlite:///{tmp_path}/weft.db") as runner:
        session = await runner.session(session_id="s")
        await runner.rewind(session_id="s", invocation_id=session.events[-1].invocation_id)
        await runner.run("Again", session_id="s")
    assert cold.wires[0] == grown.wires[1]
