"""The files in deploy/ are what their readers take: linters, Kubernetes' own types, our command."""

import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.run import weft
from weft.models.services import SERVICES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted(DEPLOY.glob("kustomize/**/*.yaml"))
BIN = Path(sys.executable).parent


def _program(name: str) -> str:
    """A linter of the environment or of the machine, or a skip that says what is missing."""
    path = shutil.which(name, path=f"{BIN}:{Path('/usr/bin')}:{Path('/usr/local/bin')}")
    if path is None:
        pytest.skip(f"NOT CHECKED: there is no `{name}` here")
    return path


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _documents(text: str) -> Iterator[dict[str, Any]]:
    return (one for one in yaml.safe_load_all(text) if one is not None)


def test_the_image_passes_the_linter_of_dockerfiles() -> None:
    _run(_program("hadolint"), "deploy/Dockerfile")


def test_the_yaml_is_tidy() -> None:
    _run(_program("yamllint"), "-s", "-c", "deploy/.yamllint.yaml", "deploy")


def test_compose_takes_its_file(tmp_path: Path) -> None:
    check = (_program("check-jsonschema"), "--builtin-schema", "vendor.compose-spec")
    _run(*check, "deploy/compose.yaml")
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((DEPLOY / "compose.yaml").read_text().replace("depends_on:", "depend_on:", 1))
    done = subprocess.run([*check, str(wrong)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, "the schema lets anything through"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_takes_the_manifests(path: Path) -> None:
    if find_spec("kubernetes_validate") is None:
        pytest.skip("NOT CHECKED: there is no `kubernetes-validate` here")
    import kubernetes_validate

    for document in _documents(path.read_text()):
        if document["kind"] != "Kustomization":
            kubernetes_validate.validate(document, "1.32", strict=True)


def _rendered(overlay: str) -> list[dict[str, Any]]:
    path = f"deploy/kustomize/overlays/{overlay}"
    return [*_documents(_run(_program("kubectl"), "kustomize", path))]


def _find(documents: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    return next(d for d in documents if (d["kind"], d["metadata"]["name"]) == (kind, name))


def test_kustomize_puts_the_example_together() -> None:
    documents = _rendered("example")
    kinds = sorted(one["kind"] for one in documents)
    assert kinds == [
        "Deployment", "Deployment", "Namespace", "PodDisruptionBudget", "PodDisruptionBudget",
        "Secret", "Secret", "Service", "Service", "StatefulSet",
    ]  # fmt: skip
    workers = _find(documents, "Deployment", "workers")
    assert workers["spec"]["replicas"] == 4
    pod = workers["spec"]["template"]["spec"]
    images = {one["image"] for one in (*pod["containers"], *pod["initContainers"])}
    assert images == {"registry.example.com/weft-app:1"}
    (keys,) = pod["containers"][0]["envFrom"]
    assert keys["secretRef"]["name"].startswith("model-keys-"), "the name that the secret got"


def test_kustomize_leaves_the_number_of_workers_to_the_autoscaler() -> None:
    documents = _rendered("autoscaled")
    assert "replicas" not in _find(documents, "Deployment", "workers")["spec"]
    scaler = _find(documents, "HorizontalPodAutoscaler", "workers")["spec"]
    assert scaler["scaleTargetRef"]["name"] == "workers"


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod.get("containers", [])]


def _pods() -> dict[str, dict[str, Any]]:
    """The pods of the base, by what runs in them."""
    return {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]
        for path in MANIFESTS
        for document in _documents(path.read_text())
        if "template" in document.get("spec", {})
    }


def _commands() -> list[list[str]]:
    """What the files have `weft` do."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    commands = [one["command"] for one in compose["services"].values() if "command" in one]
    for path in MANIFESTS:
        for document in _documents(path.read_text()):
            pod = document.get("spec", {}).get("template", {}).get("spec", {})
            commands += [one["args"] for one in _containers(pod) if "args" in one]
    return [[str(word) for word in command] for command in commands]


def test_every_command_is_one_of_ours(tmp_path: Path) -> None:
    commands = _commands()
    assert {command[0] for command in commands} == {"serve", "worker", "store"}
    for command in commands:
        words = command[:2] if command[0] == "store" else command[:1]
        about = weft(tmp_path, *words, "--help").stdout
        for word in command:
            if word.startswith("--"):
                assert re.search(rf"{word.partition('=')[0]}\b", about), (command, word)


def test_processes_have_the_time_that_their_commands_ask_for() -> None:
    for name in ("server", "workers"):
        pod = _pods()[name]
        (container,) = pod["containers"]
        (grace,) = (w for w in container["args"] if w.startswith("--grace="))
        (sleep,) = re.findall(r"sleep\((\d+)\)", str(container["lifecycle"]["preStop"]))
        needed = int(grace.partition("=")[2]) + int(sleep)
        assert pod["terminationGracePeriodSeconds"] > needed + 5


def test_tables_are_migrated_before_anything_runs_and_again_with_every_start() -> None:
    for name in ("server", "workers"):
        first = _pods()[name]["initContainers"][0]
        assert first["args"][:2] == ["store", "migrate"]
    assert not [d for p in MANIFESTS for d in _documents(p.read_text()) if d["kind"] == "Job"], (
        "a job cannot be applied twice with another image"
    )
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name in ("server", "worker"):
        waits = services[name]["depends_on"]["migrate"]
        assert waits == {"condition": "service_completed_successfully"}


def test_no_argument_holds_a_password() -> None:
    for command in _commands():
        assert not re.search(r"://[^/@]*:[^/@]*@|\$\(|\$\{", " ".join(command)), command
        if command[0] in ("serve", "worker", "store"):
            assert "--store=env:WEFT_STORE" in command


def test_processes_are_watched() -> None:
    budgets = {
        document["spec"]["selector"]["matchLabels"]["app"]
        for path in MANIFESTS
        for document in _documents(path.read_text())
        if document["kind"] == "PodDisruptionBudget"
    }
    assert budgets == {"server", "workers"}
    for name in ("server", "workers"):
        (container,) = _pods()[name]["containers"]
        ports = {one["name"]: one["containerPort"] for one in container["ports"]}
        told = {word.partition("=")[0]: word.partition("=")[2] for word in container["args"]}
        option = "--metrics-port" if name == "server" else "--port"
        assert ports["watch"] == int(told[option])
        for probe, path in (
            ("startupProbe", "/health"), ("livenessProbe", "/health"), ("readinessProbe", "/ready"),
        ):  # fmt: skip
            assert container[probe]["httpGet"] == {"path": path, "port": "watch"}


def test_workers_scale_by_a_number_that_they_have(tmp_path: Path) -> None:
    path = DEPLOY / "kustomize" / "overlays" / "autoscaled" / "autoscaler.yaml"
    (scaler,) = _documents(path.read_text())
    (metric,) = scaler["spec"]["metrics"]
    name = metric["external"]["metric"]["name"]
    assert f'"{name}"' in (ROOT / "src" / "weft" / "turns" / "worker.py").read_text()


def test_the_workers_of_compose_get_the_keys_of_models() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    given = services["worker"]["environment"]
    for service in ("openai", "anthropic", "gemini"):
        (variable, *_) = SERVICES[service].keys
        assert given[variable] == f"${{{variable}:-}}"


def test_a_migration_is_repeatable_and_makes_the_queue(tmp_path: Path) -> None:
    (command,) = {tuple(one) for one in _commands() if one[0] == "store"}
    address = f"sqlite:///{tmp_path}/weft.db"
    for _ in range(2):
        done = weft(tmp_path, *command, WEFT_STORE=address)
        assert (done.returncode, done.stderr) == (0, "")
        assert "up to date" in done.stdout
    with sqlite3.connect(tmp_path / "weft.db") as file:
        tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
    file.close()
    assert {"sessions", "turns", "turn_workers"} <= tables
