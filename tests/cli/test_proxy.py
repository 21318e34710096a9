"""`weft proxy`: the command with it, its settings, its receipt and its report."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import weft
from tests.server.proxy.talks import CHAT
from tests.server.proxy.upstream import Upstream, listening
from weft.cli import main
from weft.cli.proxy import read_table
from weft.errors import UsageError
from weft.models.routing import find_target, read_upstreams
from weft.server.proxy_store import BilledCall, ProxyStore, RefusedPair

AGENT = """
import json, os, sys, urllib.request
body = json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}).encode()
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
with urllib.request.urlopen(urllib.request.Request(url, body)) as answer:
    print(json.load(answer)["choices"][0]["message"]["content"])
names = "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"
print(all(os.environ[name].startswith("http://127.0.0.1:") for name in names))
sys.exit(7)
"""


def test_a_command_is_led_to_the_proxy_and_its_exit_code_passed_on(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    upstream = Upstream(lambda *_: CHAT.answer("Hello."))
    with listening(upstream) as address:
        (tmp_path / "weft.toml").write_text(f'[proxy]\nupstream = {{openai = "{address}/v1"}}\n')
        done = weft(tmp_path, "proxy", "--port", "0", "--", sys.executable, "agent.py")
    assert done.returncode == 7
    assert done.stdout.splitlines()[1:] == ["Hello.", "True"]
    assert upstream.seen[0].path == "/v1/chat/completions"
    receipt = weft(tmp_path, "proxy", "receipt")
    assert "calls: 1, sessions: 1, billed in all: $0.0002" in receipt.stdout
    assert weft(tmp_path, "proxy", "--port", "0", "--", "no-such-command").returncode == 127


WAITS = """
import signal, sys, threading
heard = threading.Event()
for one in (signal.SIGTERM, signal.SIGINT):
    signal.signal(one, lambda number, frame: heard.set())
print("waits", flush=True)
heard.wait()
sys.exit(9)
"""


def test_a_command_that_cannot_run_or_is_killed_ends_the_proxy_with_its_code(
    tmp_path: Path,
) -> None:
    plain = tmp_path / "plain.txt"
    plain.touch()
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    for command, code, words in (
        (["no-such-program"], 127, "no-such-program: No such file"),
        ([str(plain)], 126, "Permission denied"),
        ([sys.executable, "-c", killed], 137, "serving a proxy"),
    ):
        done = weft(tmp_path, "proxy", "--port", "0", "--", *command)
        assert done.returncode == code
        assert words in done.stderr + done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_goes_to_the_command_which_says_how_it_ends(
    tmp_path: Path, number: signal.Signals
) -> None:
    words = [sys.executable, "-m", "weft", "proxy", "--port", "0", "--store", "memory://"]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    command = [*words, "--", sys.executable, "-c", WAITS]
    with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as started:
        assert started.stdout is not None
        assert "waits" in (line.strip() for line in started.stdout)
        started.send_signal(number)
        assert started.wait(60) == 9


def test_a_file_that_cannot_be_written_is_named_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "weft-proxy.db").write_text("no database " * 20)
    done = weft(tmp_path, "proxy", "--port", "0", "--", sys.executable, "-c", "")
    assert done.returncode == 0
    assert "weft-proxy.db: file is not a database; bills" in done.stderr


def test_a_service_whose_name_is_nearly_known_is_mentioned(tmp_path: Path) -> None:
    upstream = ["--upstream", "antropic=https://gateway.example"]
    done = weft(tmp_path, "proxy", "--port", "0", *upstream, "--", sys.executable, "-c", "")
    assert done.returncode == 0
    assert "did you mean `anthropic`?" in done.stderr


BAD = [
    (["--host", "0.0.0.0"], "--tokens FILE"),
    (["--policy", "C.nonsense()"], "there is no `nonsense`"),
    (["--policy", "claude-*=C.auto("], "--policy: `C.auto(` is not an expression"),
    (["--policy", "C.window(0)"], "--policy: C.window: n=0"),
    (["--report", "--", "claude"], "`claude` would not run"),
    (["--limit", "five"], "write 5USD/day"),
    (["--redact", "emial"], "email"),
    (["--upstream", "openai"], "names no service"),
    (["--upstream", "openai=host"], "must begin with http"),
    (["--upstream", "openai=http://localhost:8787/v1"], "would ask itself"),
    (["--record", "x", "--no-record"], "leave one of them out"),
    (["--store", "postgresql://x"], "sqlite:///FILE"),
    (["--config", "none.toml"], "it cannot be read"),
    (["receipt", "--store", "sqlite:///none.db"], "run `weft proxy` first"),
    (["--report", "--store", "sqlite:///none.db"], "run `weft proxy` first"),
]


def test_bad_settings_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for options, words in BAD:
        assert main(["proxy", *options]) == 2
        assert words in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


WRONG = [
    ('[proxy]\npolicies = "C.auto()"', "policies", 'policy = "C.auto()"'),
    ('[proxy]\nlimit = "5USD/day"', "Expected `array`", 'limit = ["5USD/day"]'),
    ("[proxy]\nport = 3", "unknown field `port`", "known: policy"),
    ('[[proxy.rules]]\nmodl = "x"\npolicy = "C.auto()"', "modl", 'model = "claude-*"'),
    ("[proxyy]", "there is no table", "proxy"),
]


def test_a_table_with_an_unknown_word_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    for text, words, hint in WRONG:
        file.write_text(text)
        with pytest.raises(UsageError, match=words) as caught:
            read_table(file)
        assert hint in (caught.value.hint or ""), text
    file.write_text('[mcp.git]\ncommand = "x"\n')
    assert read_table(file).policy == "C.auto()"


def test_what_is_wrong_in_a_file_is_named_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rule = '[[proxy.rules]]\nmodel = "a"\npolicy = "C.auto()"\n'
    for text, place in (
        ('[proxy]\npolicy = "C.auto("', "weft.toml: policy: `C.auto(`"),
        (rule + rule.replace("C.auto()", "auto"), "weft.toml: rules[1].policy: `auto`"),
        (rule.replace("auto", "window"), "weft.toml: rules[0].policy: C.window: it is written"),
        (rule.replace("()", "().note('k')"), "weft.toml: rules[0].policy: a request is compiled"),
        ('[proxy]\nlimit = ["five"]', "weft.toml: limit: `five` is not a limit"),
        ('[proxy]\nredact = ["emial"]', "weft.toml: redact: there is no detector"),
        ('[proxy]\nupstream = {x = "host"}', "weft.toml: upstream: the address of x"),
    ):
        (tmp_path / "weft.toml").write_text(text)
        assert main(["proxy", "--", "true"]) == 2
        told = capsys.readouterr().err
        assert place in told
        assert "hint: " in told


def test_a_report_has_the_shape_of_what_was_refused_and_no_word_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ProxyStore(tmp_path / "weft-proxy.db")
    said = {"role": "user", "content": "my secret plan", "n": 3}
    store.add_refused(RefusedPair("openai-chat", {"messages": [said]}, None, "secret answer"))
    store.add_call(BilledCall("s", 1, 1.0, "openai-chat", "gpt-5"))
    store.close()
    monkeypatch.chdir(tmp_path)
    assert main(["proxy", "--report"]) == 0
    report = capsys.readouterr().out
    assert '"role": "user"' in report
    assert "[14 letters]" in report
    assert "secret" not in report
    for command in (["proxy", "receipt"], ["receipt", "s", "--store", "sqlite:///weft-proxy.db"]):
        assert main(command) == 0
        assert "1 call without a bill" in capsys.readouterr().out
    assert main(["receipt", "t", "--store", "sqlite:///weft-proxy.db"]) == 2
    assert "there is no session `t`" in capsys.readouterr().err


def test_a_path_tells_where_a_request_goes() -> None:
    def url(path: str, query: str = "", **headers: str) -> str:
        sent = {name.replace("_", "-").encode(): b"x" for name in headers}
        own = read_upstreams({"mine": "https://gate.example/api/v1?key=k"})
        return find_target(path, query, sent, own).url(query)

    assert url("/v1/chat/completions") == "https://api.openai.com/v1/chat/completions"
    assert url("/v1/messages", "beta=true") == "https://api.anthropic.com/v1/messages?beta=true"
    assert url("/v1/models", x_api_key="k") == "https://api.anthropic.com/v1/models"
    assert url("/v1beta/models").startswith("https://generativelanguage.googleapis.com/v1beta/")
    assert url("/groq/v1/chat/completions") == "https://api.groq.com/openai/v1/chat/completions"
    assert url("/mine/v1/responses", "a=1") == "https://gate.example/api/v1/responses?key=k&a=1"
