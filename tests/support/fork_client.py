"""Run a program in a fork of a process that listens: `fork_client.py LINE MODULE ARGUMENT...`.

It loads next to nothing, hands over its streams and the signals that it gets, and ends with the
program's exit code. The fork is killed where this process is.
"""

import json
import os
import signal
import socket
import sys

line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
message = json.dumps([os.getcwd(), sys.argv[2:], dict(os.environ)]).encode()
socket.send_fds(line, [len(message).to_bytes(8, "big")], [0, 1, 2])
line.sendall(message)
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: line.send(bytes([number])))
code = line.recv(1)
sys.exit(code[0] if code else 1)
