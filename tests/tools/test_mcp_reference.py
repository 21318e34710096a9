"""The reference servers of MCP, and its conformance suite, against Weft on the other side.

They live in `.venv-mcp`, which `make test` builds.
"""

import http.server
import json
import re
import subprocess
import threading
import warnings
from pathlib import Path

import pytest

import weft
from tests.server.live import serving
from tests.server.programs import find_node
from tests.support.fork_programs import command_of
from weft import Agent, Runner
from weft.server import app
from weft.testing import ScriptedModel, call
from weft.tools import MCP

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-mcp"
PACKAGES = HOME / "node_modules" / "@modelcontextprotocol"
REVISION = "2026-07-28"

if not (HOME / "bin").exists():
    warnings.warn("there is no .venv-mcp: other servers are not tested", stacklevel=1)
    pytestmark = pytest.mark.skip(reason="make .venv-mcp/.made-servers builds the environment")

needs_node = pytest.mark.skipif(
    not PACKAGES.exists(), reason="needs npm; make .venv-mcp/.made-node installs the packages"
)


def from_npm(name: str, *args: str, **options: object) -> MCP:
    script = str(PACKAGES / f"server-{name}" / "dist" / "index.js")
    return MCP(str(find_node()), [script, *args], name=name, start_seconds=120, **options)  # type: ignore[arg-type]


def from_pip(name: str, **options: object) -> MCP:
    command = str(HOME / "bin" / f"mcp-server-{name}")
    return MCP(command, name=name, start_seconds=120, **options)  # type: ignore[arg-type]


async def ask(mcp: MCP, *calls: object) -> list[object]:
    """The results of calls that an agent makes of a server."""
    model = ScriptedModel([*calls, "done"])  # type: ignore[list-item]
    done = await weft.run(Agent("bot", model=model, tools=[mcp]), "Go.")
    assert done.diagnostics == ()
    return [one.response for event in done.session.events for one in event.results]


@pytest.mark.parametrize("revision", [REVISION, "legacy"])
async def test_git(tmp_path: Path, revision: str) -> None:
    make_repository(tmp_path)
    mcp = from_pip("git", revision=revision, only=["git_log", "git_diff_unstaged", "git_status"])
    path = str(tmp_path)
    log, changed, refused = await ask(
        mcp,
        call("git_log", repo_path=path),
        call("git_diff_unstaged", repo_path=path),
        call("git_status", repo_path="/nowhere"),
    )
    assert "First." in str(log)
    assert "+two" in str(changed)
    assert "error" in str(refused)


def make_repository(tmp_path: Path) -> None:
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run([*git, "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    (tmp_path / "a.txt").write_text("one\n")
    subprocess.run([*git, "add", "a.txt"], cwd=tmp_path, check=True)
    subprocess.run([*git, "commit", "-qm", "First."], cwd=tmp_path, check=True)
    (tmp_path / "a.txt").write_text("two\n")


@pytest.mark.parametrize("revision", [REVISION, "legacy"])
async def test_time(revision: str) -> None:
    (converted,) = await ask(
        from_pip("time", revision=revision),
        call("convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"),
    )
    assert "21:00" in str(converted)


@needs_node
async def test_filesystem(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    written, read, refused = await ask(
        from_npm("filesystem", str(tmp_path)),
        call("write_file", path=path, content="hello"),
        call("read_text_file", path=path),
        call("read_text_file", path="/etc/hostname"),
    )
    assert "Successfully wrote" in str(written)
    assert "hello" in str(read)
    assert "access denied" in str(refused).lower()


@needs_node
async def test_memory(tmp_path: Path) -> None:
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    entity = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
    _, graph = await ask(
        from_npm("memory", env=env), call("create_entities", entities=[entity]), call("read_graph")
    )
    assert "likes tea" in str(graph)


@needs_node
async def test_everything() -> None:
    told: list[object] = []
    mcp = from_npm(
        "everything",
        on_progress=lambda ctx, at, of, words: told.append((at, of)),
        prompts={"args-prompt": {"city": "Oslo"}},
        resources={"about": "demo://resource/static/document/features.md"},
    )
    model = ScriptedModel(
        [
            call("echo", message="hi"),
            call("get-sum", a=1, b=2),
            call("get-tiny-image"),
            call("get-structured-content", location="New York"),
            call("trigger-long-running-operation", duration=1, steps=2),
            call("trigger-elicitation-request"),
            "done",
        ]
    )
    agent = Agent("bot", instruction="{artifact.about}", model=model, tools=[mcp])
    runner = Runner(agent)
    await runner.run(message="Go.", session_id="s")
    (question,) = await runner.pending()
    form = question.args["payload"]["schema"]  # type: ignore[index, call-overload]
    assert "name" in form["properties"]  # type: ignore[index, call-overload, operator]
    done = await runner.resume(session_id="s", answers={question.call_id: {"name": "Ann"}})
    results = [one for event in done.session.events for one in event.results]
    assert "hi" in str(results[0].response)
    assert "3" in str(results[1].response)
    assert results[2].parts
    assert "temperature" in str(results[3].response)
    assert told == [(1, 2), (2, 2)]
    assert "Ann" in str(results[-1].response)
    assert len(str(model.prompts[0])) > 1000  # the resource is in the instruction


# --- the conformance suite


def run_suite(*args: str, folder: Path) -> dict[str, list[str]]:
    """The checks that failed in each scenario that ran."""
    script = str(PACKAGES / "conformance" / "dist" / "index.js")
    subprocess.run(
        [str(find_node()), script, *args, "--requirements", REVISION, "-o", str(folder)],
        capture_output=True,
        timeout=1500,
        check=False,
    )
    failed: dict[str, list[str]] = {}
    for path in folder.rglob("checks.json"):
        # the folder of a scenario ends with the time
        name = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", str(path.parent.relative_to(folder)))
        checks = json.loads(path.read_text())
        failed[name] = [one["id"] for one in checks if one["status"] == "FAILURE"]
        assert checks
    return failed


EXTENSIONS = {
    "auth/dpop": "the SDK does not sign proofs of possession",
    "auth/dpop-nonce": "the SDK does not sign proofs of possession",
    "auth/wif-jwt-bearer": "the SDK does not exchange the identity of a workload",
}
"""Extensions of the protocol that fail, with why. `auth=` takes a provider that has them."""


@needs_node
def test_the_client_conforms(tmp_path: Path) -> None:
    program = " ".join(command_of("tests.tools.conformance_client"))
    failed = run_suite("client", "--command", program, "--timeout", "600000", folder=tmp_path)
    assert len(failed) >= 39
    assert {name for name, checks in failed.items() if checks} == {*EXTENSIONS}


CONFORMS = {
    "server-tools-list", "server-resources-list",
    "server-sep-2164-resource-not-found", "server-dns-rebinding-protection",
    "server-http-header-validation", "server-input-required-result-unsupported-methods",
}  # fmt: skip
"""Scenarios that say something about a server of agents."""

WITHOUT_FIXTURE = {
    "server-server-stateless": {
        # these call tools of the suite's own fixture; all other checks of the scenario pass
        "sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
    },
    # a server of agents has no prompts
    "server-caching": {"sep-2549-prompts-list-caching-hints"},
}  # fmt: skip
"""Scenarios of which some checks need what only the suite's fixture has.

The others call tools, prompts and resources of the fixture (`test_simple_text`,
`test_input_required_result_elicitation`, ...), which a server of agents does not have.
"""


@needs_node
def test_the_server_conforms(tmp_path: Path) -> None:
    agent = Agent("bot", model=ScriptedModel(["ok"] * 100))
    with serving(app(agent, auth=lambda request: "user", mcp=True)) as live:
        url = f"{live.url}/mcp"
        failed = run_suite("server", "--url", url, "--timeout", "120000", folder=tmp_path)
    assert {name: failed[name] for name in CONFORMS} == {name: [] for name in CONFORMS}
    assert {name: {*failed[name]} for name in WITHOUT_FIXTURE} == WITHOUT_FIXTURE


class Deaf(http.server.BaseHTTPRequestHandler):
    """A server that takes anything and says nothing."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@needs_node
def test_what_passes_can_fail(tmp_path: Path) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Deaf)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
        failed = run_suite("server", "--url", url, "--timeout", "20000", folder=tmp_path)
    finally:
        server.shutdown()
        server.server_close()
    assert {
        name for name in (*CONFORMS, *WITHOUT_FIXTURE) if not failed.get(name, ["none"])
    } == set()
