"""The files in deploy/ are what their readers take: linters, Kubernetes' own types, our command."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.run import weft

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kustomize" / "base").glob("*.yaml"))
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


def test_kustomize_puts_the_example_together() -> None:
    rendered = _run(_program("kubectl"), "kustomize", "deploy/kustomize/overlays/example")
    documents = [*_documents(rendered)]
    kinds = sorted(one["kind"] for one in documents)
    assert kinds == [
        "Deployment", "Deployment", "Job", "Namespace", "Secret", "Service", "Service",
        "StatefulSet",
    ]  # fmt: skip
    workers = next(one for one in documents if one["metadata"]["name"] == "workers")
    assert workers["spec"]["replicas"] == 4
    image = workers["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == "registry.example.com/weft-app:1"


def _commands() -> list[list[str]]:
    """What the files have `weft` do."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    commands = [one["command"] for one in compose["services"].values() if "command" in one]
    for path in MANIFESTS:
        for document in _documents(path.read_text()):
            pod = document.get("spec", {}).get("template", {}).get("spec", {})
            commands += [one["args"] for one in pod.get("containers", []) if "args" in one]
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
    for path in MANIFESTS:
        for document in _documents(path.read_text()):
            pod = document.get("spec", {}).get("template", {}).get("spec", {})
            for container in pod.get("containers", []):
                grace = [w for w in container.get("args", []) if w.startswith("--grace=")]
                for word in grace:
                    seconds = int(word.partition("=")[2])
                    assert pod["terminationGracePeriodSeconds"] > seconds
