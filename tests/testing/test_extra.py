"""`weft.testing` is light: it loads no server and no provider's SDK."""

import subprocess
import sys


def ran(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_it_loads_no_server_and_no_sdk() -> None:
    heavy = {"starlette", "uvicorn", "google", "pydantic", "httpx2"}
    code = "import sys, weft.testing; print(*{name.partition('.')[0] for name in sys.modules})"
    assert not heavy & set(ran(code).split())
