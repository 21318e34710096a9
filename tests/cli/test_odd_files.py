"""Files that hold no text: each is told of by its name, and nothing is an internal error."""

from pathlib import Path

import pytest

from weft.cli import main

GOOD = 'from weft import Agent\nbot = Agent("bot", model="gpt-5")\n'


@pytest.mark.parametrize("command", ["compile", "explain", "check", "graph"])
@pytest.mark.parametrize(
    "data", [GOOD.encode() + b"\0", b"\xff\xfe\0x = 1", b"\0", b"x = '\xff'\n", b"\x80\x81"]
)
def test_a_program_with_odd_bytes_is_named(
    command: str, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.py"
    path.write_bytes(data)
    more = ["-m", "hi"] if command in ("compile", "explain") else []
    code = main([command, f"{path}:bot", *more])
    told = capsys.readouterr().err
    assert code
    assert "internal error" not in told
    assert "odd.py" in told


@pytest.mark.parametrize("data", [b'{"events": []}\0', b"\0\0", b"\xff\xfe{}", b""])
def test_a_session_with_odd_bytes_is_named(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bot.py").write_text(GOOD)
    (tmp_path / "log.json").write_bytes(data)
    for command in (
        ["compile", f"{tmp_path}/bot.py:bot", "--session", f"{tmp_path}/log.json"],
        ["replay", f"{tmp_path}/log.json"],
    ):
        code = main(command)
        told = capsys.readouterr().err
        assert code
        assert "internal error" not in told
        assert "log.json" in told
