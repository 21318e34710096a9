"""An MCP server that writes down which calls reach another one: `mcp_tee.py JOURNAL COMMAND...`."""

import json
import subprocess
import sys
from pathlib import Path

journal, *command = sys.argv[1:]
process = subprocess.Popen(command, stdin=subprocess.PIPE)
assert process.stdin is not None
for line in sys.stdin.buffer:
    message = json.loads(line)
    if message.get("method") == "tools/call":
        call = {name: message["params"][name] for name in ("name", "arguments")}
        with Path(journal).open("a", encoding="utf-8") as file:
            file.write(json.dumps(call) + "\n")
    process.stdin.write(line)
    process.stdin.flush()
process.stdin.close()
sys.exit(process.wait())
