"""`weft.testing` is light; what its extra brings is loaded when it is used."""

import subprocess
import sys


def ran(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_it_loads_no_server_and_no_sdk() -> None:
    heavy = {"starlette", "uvicorn", "google", "pydantic", "httpx2"}
    code = "import sys, weft.testing; print(*{name.partition('.')[0] for name in sys.modules})"
    assert not heavy & set(ran(code).split())


def test_a_missing_extra_is_named() -> None:
    code = """
import sys
sys.modules["uvicorn"] = None
import weft
try:
    from weft.testing import GeminiServer
except weft.WeftError as error:
    print(error)
"""
    assert ran(code) == (
        "weft.testing.GeminiServer: `uvicorn` is not installed\n  hint: pip install 'weft[testing]'"
    )


def test_a_name_it_does_not_have_is_an_attribute_error() -> None:
    code = """
import weft.testing
try:
    weft.testing.GeminiSerfer
except AttributeError as error:
    print(error)
"""
    assert ran(code) == "module 'weft.testing' has no attribute 'GeminiSerfer'"
