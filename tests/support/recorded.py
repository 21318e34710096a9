"""Small recordings of the shapes that `weft replay` reads; all of it made up."""

import gzip
import json
from pathlib import Path

WINDOW = "\n".join(
    f"{number}:    value_{number} = compute_part({number})" for number in range(1, 90)
)


def coding_run(id: str = "run-1", *, steps: int = 8) -> dict[str, object]:
    """A coding agent that opens files and looks at them again after each edit."""
    messages = [
        {"role": "system", "text": "You fix programs. Use {braces} as {{they}} come."},
        {"role": "user", "text": "ISSUE: compute_part fails in parts/module_3.py"},
        {"role": "assistant", "text": "I look at the file.\n```\nopen parts/module_3.py\n```"},
    ]
    for step in range(steps):
        shown = WINDOW.replace(f"value_{step + 10} ", f"changed_name_{step} ")
        messages.append(
            {"role": "user", "text": f"[File: parts/module_{step}.py]\n{shown}\nbash-$"}
        )
        messages.append(
            {"role": "assistant", "text": f"Now line {step}: changed_name_{step}.\n```\nedit\n```"}
        )
    return {"id": id, "messages": messages}


def service_run(id: str = "chat-1", *, looks: int = 4) -> dict[str, object]:
    """A chat with tool calls, as OpenAI writes them."""
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "You help passengers."},
        {"role": "user", "content": "Cancel my trips, I am noor_haddad_4411."},
    ]
    for look in range(looks):
        flights = [
            {"number": f"WX{100 + look}{n}", "price": 80 + n, "seats": 9 - n} for n in range(9)
        ]
        booking = {"reservation_id": f"RES{look}QX", "flights": flights, "status": "booked"}
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": f"call_{look}",
                        "type": "function",
                        "function": {
                            "name": "get_reservation",
                            "arguments": json.dumps({"reservation_id": f"RES{look}QX"}),
                        },
                    }
                ],
            }
        )
        messages.append(
            {
                "role": "tool",
                "tool_call_id": f"call_{look}",
                "name": "get_reservation",
                "content": json.dumps(booking, indent=1),
            }
        )
        messages.append({"role": "assistant", "content": f"RES{look}QX flies as WX{100 + look}3."})
        messages.append({"role": "user", "content": "And the next?"})
    messages.append({"role": "assistant", "content": "That was the last, WX1003 the first."})
    return {"id": id, "messages": messages, "reward": 1.0}


def write_lines(path: Path, *runs: dict[str, object]) -> Path:
    """A file with a run a line, packed where its name says so."""
    data = "".join(json.dumps(run) + "\n" for run in runs).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
