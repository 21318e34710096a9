"""One talk with calls, as agents' programs and tracing platforms keep it."""

import json
from collections.abc import Callable

from tests.recordings.test_calls import Said
from weft.values import Json, JsonObject

TIME = "2026-01-01T10:00:00Z"
MODEL = "gpt-4o"


def call(said: Said) -> JsonObject:
    function = {"name": "look", "arguments": json.dumps({"q": said.text})}
    return {"id": said.id, "type": "function", "function": function}


def chat(said: Said) -> JsonObject:
    if said.who == "call":
        return {"role": "assistant", "content": None, "tool_calls": [call(said)]}
    if said.who == "result":
        return {"role": "tool", "tool_call_id": said.id, "content": said.text}
    return {"role": "user" if said.who == "user" else "assistant", "content": said.text}


def gemini_cli(talk: list[Said]) -> JsonObject:
    messages: list[Json] = []
    for at, one in enumerate(talk):
        if one.who == "call":
            response = {"id": one.id, "name": "look", "response": {"output": talk[at + 1].text}}
            used = {"id": one.id, "name": "look", "args": {"q": one.text},
                    "result": [{"functionResponse": response}]}  # fmt: skip
            messages.append({"type": "gemini", "content": "", "toolCalls": [used]})
        elif one.who != "result":
            kind = "user" if one.who == "user" else "gemini"
            messages.append({"type": kind, "content": [{"text": one.text}]})
    return {"sessionId": "s", "messages": messages}


def copilot(talk: list[Said]) -> list[Json]:
    rows: list[Json] = []
    for at, one in enumerate(talk):
        data: JsonObject = {"content": one.text}
        kind = "user.message"
        if one.who == "call":
            kind, arguments = "assistant.message", {"q": one.text}
            used = {"toolCallId": one.id, "name": "look", "arguments": arguments}
            data = {"apiCallId": f"a{at}", "content": "", "toolRequests": [used]}
        elif one.who == "result":
            kind = "tool.execution_complete"
            data = {"toolCallId": one.id, "success": True, "result": {"content": one.text}}
        elif one.who != "user":
            kind, data = "assistant.message", {"apiCallId": f"a{at}", "content": one.text}
        rows.append(
            {"type": kind, "data": data, "id": str(at), "timestamp": TIME, "parentId": None}
        )
    return rows


def blocks(said: Said) -> JsonObject:
    """A message of Anthropic's blocks."""
    block: JsonObject = {"type": "text", "text": said.text}
    if said.who == "call":
        block = {"type": "tool_use", "id": said.id, "name": "look", "input": {"q": said.text}}
    elif said.who == "result":
        block = {"type": "tool_result", "tool_use_id": said.id, "content": said.text}
    return {"role": "user" if said.who in ("user", "result") else "assistant", "content": [block]}


def cline(talk: list[Said]) -> JsonObject:
    messages: list[Json] = [
        {**blocks(one), "id": f"m{at}", "ts": 1_767_261_600_000 + at, "modelInfo": {"id": MODEL}}
        for at, one in enumerate(talk)
    ]
    return {"version": 1, "sessionId": "s", "agent": "lead", "messages": messages}


def roo(talk: list[Said]) -> list[Json]:
    return [{**blocks(one), "ts": 1_767_261_600_000 + at} for at, one in enumerate(talk)]


def cursor(talk: list[Said]) -> list[Json]:
    return [{"role": blocks(one)["role"], "message": {"content": blocks(one)["content"]}}
            for one in talk]  # fmt: skip


def droid(talk: list[Said]) -> list[Json]:
    start: JsonObject = {"type": "session_start", "id": "s", "cwd": "x"}
    return [start, *({"type": "message", "id": f"m{at}", "timestamp": TIME, "message": blocks(one)}
                     for at, one in enumerate(talk))]  # fmt: skip


def goose(talk: list[Said]) -> JsonObject:
    messages: list[Json] = []
    for one in talk:
        text: JsonObject = {"type": "text", "text": one.text}
        piece = text
        if one.who == "call":
            value = {"name": "look", "arguments": {"q": one.text}}
            asked: JsonObject = {"status": "success", "value": value}
            piece = {"type": "toolRequest", "id": one.id, "toolCall": asked}
        elif one.who == "result":
            back = {"status": "success", "value": {"content": [text], "isError": False}}
            piece = {"type": "toolResponse", "id": one.id, "toolResult": back}
        role = "user" if one.who in ("user", "result") else "assistant"
        messages.append({"role": role, "created": 1_767_261_600, "content": [piece]})
    return {"id": "s", "working_dir": "x", "conversation": messages}


def weave(talk: list[Said]) -> JsonObject:
    *asked, answer = map(chat, talk)
    output = {"choices": [{"message": answer}], "model": MODEL, "usage": {"prompt_tokens": 9}}
    return {"id": "w", "op_name": "weave:///me/p/op/openai.chat.completions.create:v1",
            "trace_id": "t", "inputs": {"model": MODEL, "messages": asked}, "output": output,
            "started_at": TIME, "ended_at": TIME}  # fmt: skip


def braintrust(talk: list[Said]) -> JsonObject:
    *asked, answer = map(chat, talk)
    return {"id": "r", "span_id": "s", "root_span_id": "s", "span_attributes": {"type": "llm"},
            "input": asked, "output": [{"index": 0, "message": answer}], "created": TIME,
            "metadata": {"model": MODEL}, "metrics": {"prompt_tokens": 9}}  # fmt: skip


def openhands_call(talk: list[Said]) -> JsonObject:
    """A call as OpenHands logs it through LiteLLM."""
    *asked, answer = map(chat, talk)
    response = {"id": "c", "model": MODEL, "choices": [{"index": 0, "message": answer}]}
    return {"messages": asked, "tools": [], "kwargs": {"temperature": 0}, "response": response,
            "timestamp": 1_767_261_600.5, "latency_sec": 2}  # fmt: skip


def langsmith_batch(talk: list[Said]) -> JsonObject:
    """What LangSmith's client sends of a run: how it began, and how it ended."""
    run = langsmith(talk)
    begun = {key: value for key, value in run.items() if key not in ("outputs", "end_time")}
    ended = {key: run[key] for key in ("id", "outputs", "end_time")}
    return {"post": [begun], "patch": [ended]}


def pi(talk: list[Said]) -> list[Json]:
    rows: list[Json] = [{"type": "session", "version": 3, "id": "s", "cwd": "x", "timestamp": TIME}]
    for at, one in enumerate(talk):
        text = {"type": "text", "text": one.text}
        message: JsonObject = {"role": "user", "content": [text]}
        if one.who == "call":
            used = {"type": "toolCall", "id": one.id, "name": "look", "arguments": {"q": one.text}}
            message = {"role": "assistant", "content": [used], "model": MODEL}
        elif one.who == "result":
            message = {"role": "toolResult", "toolCallId": one.id, "toolName": "look",
                       "content": [text], "isError": False}  # fmt: skip
        elif one.who != "user":
            message = {"role": "assistant", "content": [text], "model": MODEL}
        rows.append({"type": "message", "id": f"m{at}", "parentId": f"m{at - 1}" if at else None,
                     "timestamp": TIME, "message": message})  # fmt: skip
    left = {"role": "user", "content": [{"type": "text", "text": "a branch that was left"}]}
    rows.insert(2, {"type": "message", "id": "x", "parentId": "m0", "message": left})
    return rows


def qwen(talk: list[Said]) -> list[Json]:
    rows: list[Json] = []
    for at, one in enumerate(talk):
        kind = one.who
        part: JsonObject = {"text": one.text}
        if one.who == "call":
            part = {"functionCall": {"id": one.id, "name": "look", "args": {"q": one.text}}}
        elif one.who == "result":
            kind, response = "tool_result", {"output": one.text}
            part = {"functionResponse": {"id": one.id, "name": "look", "response": response}}
        role = "user" if one.who in ("user", "result") else "model"
        rows.append({"uuid": f"m{at}", "parentUuid": f"m{at - 1}" if at else None,
                     "sessionId": "s", "timestamp": TIME,
                     "type": kind if role == "user" else "assistant", "model": MODEL,
                     "message": {"role": role, "parts": [part]}})  # fmt: skip
    return rows


def atif(talk: list[Said]) -> JsonObject:
    steps: list[Json] = []
    for at, one in enumerate(talk):
        if one.who == "call":
            used = {"tool_call_id": one.id, "function_name": "look", "arguments": {"q": one.text}}
            seen = {"results": [{"source_call_id": one.id, "content": talk[at + 1].text}]}
            steps.append({"source": "agent", "message": "", "tool_calls": [used],
                          "observation": seen})  # fmt: skip
        elif one.who != "result":
            source = "user" if one.who == "user" else "agent"
            steps.append({"source": source, "message": one.text})
    return {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"model_name": MODEL},
            "steps": steps}  # fmt: skip


def swe_agent(talk: list[Said]) -> JsonObject:
    history = [
        {**chat(one), "tool_call_ids": [one.id]} if one.who == "result" else chat(one)
        for one in talk
    ]
    for one in history:
        one.pop("tool_call_id", None)
    steps = [{"action": "x", "observation": "y", "response": "z"}]
    return {"trajectory": steps, "history": history, "info": {}}


def openhands(talk: list[Said]) -> JsonObject:
    history: list[Json] = []
    for at, one in enumerate(talk):
        if one.who == "call":
            choice = {"message": chat(one), "finish_reason": "stop", "index": 0}
            response = {"id": f"r{at}", "model": MODEL, "choices": [choice]}
            made = {"tool_call_id": one.id, "model_response": response}
            history.append({"source": "agent", "action": "run", "tool_call_metadata": made})
            history.append({"source": "agent", "observation": "run", "content": talk[at + 1].text,
                            "tool_call_metadata": made})  # fmt: skip
        elif one.who != "result":
            source = "user" if one.who == "user" else "agent"
            history.append({"source": source, "action": "message", "args": {"content": one.text}})
    return {"instance_id": "i", "history": history}


def inspect_ai(talk: list[Said]) -> JsonObject:
    messages: list[Json] = []
    for one in talk:
        message = chat(one)
        if one.who == "call":
            used = {"id": one.id, "function": "look", "arguments": {"q": one.text}}
            message = {"role": "assistant", "content": "", "tool_calls": [used]}
        messages.append(message)
    sample = {"id": 1, "epoch": 1, "messages": messages}
    return {"version": 2, "eval": {"model": MODEL}, "samples": [sample]}


def autogen(talk: list[Said]) -> JsonObject:
    messages: list[Json] = []
    for one in talk:
        if one.who == "call":
            used = {"id": one.id, "name": "look", "arguments": json.dumps({"q": one.text})}
            messages.append({"type": "ToolCallRequestEvent", "source": "a", "content": [used]})
        elif one.who == "result":
            came = {"call_id": one.id, "name": "look", "content": one.text, "is_error": False}
            messages.append({"type": "ToolCallExecutionEvent", "source": "a", "content": [came]})
        else:
            source = "user" if one.who == "user" else "a"
            messages.append({"type": "TextMessage", "source": source, "content": one.text})
    return {"messages": messages, "stop_reason": None}


def agent_framework(talk: list[Said]) -> JsonObject:
    messages: list[Json] = []
    for one in talk:
        piece: JsonObject = {"type": "text", "text": one.text}
        role = "user" if one.who == "user" else "assistant"
        if one.who == "call":
            arguments = json.dumps({"q": one.text})
            piece = {"type": "function_call", "call_id": one.id, "name": "look",
                     "arguments": arguments}  # fmt: skip
        elif one.who == "result":
            role, piece = "tool", {"type": "function_result", "call_id": one.id, "result": one.text}
        messages.append({"role": {"value": role}, "contents": [piece]})
    return {"chat_message_store_state": {"messages": messages}}


def langgraph(talk: list[Said]) -> JsonObject:
    messages: list[Json] = []
    for one in talk:
        if one.who == "call":
            used = {"id": one.id, "name": "look", "args": {"q": one.text}}
            messages.append({"type": "ai", "content": "", "tool_calls": [used]})
        elif one.who == "result":
            messages.append({"type": "tool", "tool_call_id": one.id, "content": one.text})
        else:
            messages.append({"type": "human" if one.who == "user" else "ai", "content": one.text})
    return {"values": {"messages": messages}, "next": [], "config": {}}


def helicone(talk: list[Said]) -> JsonObject:
    *asked, answer = map(chat, talk)
    choice = {"message": answer, "finish_reason": "stop", "index": 0}
    return {"request_id": "r", "request_body": {"model": MODEL, "messages": asked},
            "response_body": {"choices": [choice]}, "response_status": 200,
            "delay_ms": 5}  # fmt: skip


def _parts(talk: list[Said]) -> list[Json]:
    messages: list[Json] = []
    for one in talk:
        part: JsonObject = {"type": "text", "content": one.text}
        role = "user" if one.who == "user" else "assistant"
        if one.who == "call":
            part = {"type": "tool_call", "id": one.id, "name": "look", "arguments": {"q": one.text}}
        elif one.who == "result":
            role, part = "tool", {"type": "tool_call_response", "id": one.id, "response": one.text}
        messages.append({"role": role, "parts": [part]})
    return messages


def _otlp(attributes: JsonObject, **fields: Json) -> JsonObject:
    """A request of OTLP's JSON with one span."""
    listed = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    span = {"spanId": "s", "traceId": "t", "name": "chat",
            "startTimeUnixNano": "1767261600000000000",
            "endTimeUnixNano": "1767261601000000000", "attributes": listed, **fields}  # fmt: skip
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


GEN_AI = {"gen_ai.operation.name": "chat", "gen_ai.request.model": MODEL}


def gen_ai(talk: list[Said]) -> JsonObject:
    *asked, answer = _parts(talk)
    said = {"gen_ai.input.messages": json.dumps(asked),
            "gen_ai.output.messages": json.dumps([answer])}  # fmt: skip
    return _otlp({**GEN_AI, **said})


def gen_ai_events(talk: list[Said]) -> JsonObject:
    """As spans had it before: an event for each message."""
    events: list[Json] = []
    for one in talk[:-1]:
        message = chat(one)
        body: JsonObject = {"content": message.get("content") or ""}
        if one.who == "call":
            body["tool_calls"] = json.dumps([call(one)])
        if one.who == "result":
            body["id"] = one.id
        listed = [{"key": key, "value": {"stringValue": value}} for key, value in body.items()]
        events.append({"name": f"gen_ai.{message['role']}.message", "attributes": listed})
    message = json.dumps({"role": "assistant", "content": talk[-1].text})
    choice = [{"key": "message", "value": {"stringValue": message}}]
    return _otlp(GEN_AI, events=[*events, {"name": "gen_ai.choice", "attributes": choice}])


def logfire(talk: list[Said]) -> JsonObject:
    """A row of Logfire's: pydantic-ai's span, with its messages in one attribute."""
    *asked, answer = _parts(talk)
    attributes = {**GEN_AI, "gen_ai.input.messages": asked, "gen_ai.output.messages": [answer]}
    return {"span_id": "s", "trace_id": "t", "span_name": "chat", "start_timestamp": TIME,
            "end_timestamp": TIME, "attributes": attributes}  # fmt: skip


def openinference(talk: list[Said]) -> JsonObject:
    attributes: JsonObject = {"openinference.span.kind": "LLM", "llm.model_name": MODEL}
    *asked, answer = map(chat, talk)
    for prefix, messages in (("llm.input_messages", asked), ("llm.output_messages", [answer])):
        for at, message in enumerate(messages):
            name = f"{prefix}.{at}.message"
            attributes[f"{name}.role"] = message["role"]
            if message.get("content"):
                attributes[f"{name}.content"] = message["content"]
            if "tool_call_id" in message:
                attributes[f"{name}.tool_call_id"] = message["tool_call_id"]
            for number, one in enumerate(message.get("tool_calls") or ()):
                inner = f"{name}.tool_calls.{number}.tool_call"
                attributes[f"{inner}.id"] = one["id"]
                attributes[f"{inner}.function.name"] = one["function"]["name"]
                attributes[f"{inner}.function.arguments"] = one["function"]["arguments"]
    return _otlp(attributes)


def langsmith(talk: list[Said]) -> JsonObject:
    values = langgraph(talk)["values"]
    *asked, answer = values["messages"]  # type: ignore[index,call-overload,misc]
    outputs = {"generations": [[{"text": "", "message": answer}]]}
    extra = {"invocation_params": {"model": MODEL, "temperature": 0.5}}
    return {"id": "r", "run_type": "llm", "inputs": {"messages": [asked]}, "outputs": outputs,
            "extra": extra, "start_time": TIME, "end_time": TIME, "trace_id": "t"}  # fmt: skip


def mlflow(talk: list[Said]) -> JsonObject:
    *asked, answer = map(chat, talk)
    outputs = {"choices": [{"message": answer}], "usage": {"prompt_tokens": 9}}
    attributes = {"mlflow.spanType": '"CHAT_MODEL"',
                  "mlflow.spanInputs": json.dumps({"model": MODEL, "messages": asked}),
                  "mlflow.spanOutputs": json.dumps(outputs)}  # fmt: skip
    span = {"context": {"span_id": "s", "trace_id": "t"}, "name": "c", "attributes": attributes,
            "start_time": 1767261600000000000, "end_time": 1767261601000000000}  # fmt: skip
    return {"info": {"trace_id": "t"}, "data": {"spans": [span]}}


def openai_agents_trace(talk: list[Said]) -> JsonObject:
    *asked, answer = map(chat, talk)
    data = {"type": "generation", "input": asked, "output": [answer], "model": MODEL,
            "model_config": {"temperature": 0.5}, "usage": {"input_tokens": 9}}  # fmt: skip
    return {"object": "trace.span", "id": "s", "trace_id": "t", "started_at": TIME,
            "ended_at": TIME, "span_data": data}  # fmt: skip


def openai_agents_js(talk: list[Said]) -> list[Json]:
    """A history of openai-agents for JavaScript."""
    items: list[Json] = []
    for one in talk:
        item: JsonObject = {"callId": one.id, "name": "look", "status": "completed"}
        if one.who == "call":
            arguments = json.dumps({"q": one.text})
            item = {**item, "type": "function_call", "id": "fc_1", "arguments": arguments}
        elif one.who == "result":
            output = {"type": "text", "text": one.text}
            item = {**item, "type": "function_call_result", "output": output}
        else:
            role = "user" if one.who == "user" else "assistant"
            item = {"type": "message", "role": role, "content": one.text}
        items.append(item)
    return items


def ai_sdk(talk: list[Said]) -> JsonObject:
    """A span of Vercel's, with its messages as JSON."""
    messages: list[Json] = []
    for one in talk[:-1]:
        part: JsonObject = {"type": "text", "text": one.text}
        role = "user" if one.who == "user" else "assistant"
        if one.who == "call":
            part = {"type": "tool-call", "toolCallId": one.id, "toolName": "look",
                    "input": {"q": one.text}}  # fmt: skip
        elif one.who == "result":
            role, output = "tool", {"type": "text", "value": one.text}
            part = {"type": "tool-result", "toolCallId": one.id, "toolName": "look",
                    "output": output}  # fmt: skip
        messages.append({"role": role, "content": [part]})
    name = "ai.generateText.doGenerate"
    return _otlp({"ai.operationId": name, "ai.model.id": MODEL,
                  "ai.prompt.messages": json.dumps(messages),
                  "ai.response.text": talk[-1].text})  # fmt: skip


def chat_run(talk: list[Said]) -> JsonObject:
    return {"id": "r", "model": MODEL, "steps": 9, "messages": [*map(chat, talk)]}


def mini_swe(talk: list[Said]) -> JsonObject:
    return {"trajectory_format": "mini-swe-agent-2", "info": {}, "messages": [*map(chat, talk)]}


def chatgpt(talk: list[Said]) -> JsonObject:
    nodes: JsonObject = {"root": {"id": "root", "message": None, "parent": None}}
    last = "root"
    for at, one in enumerate(talk):
        role = {"user": "user", "result": "tool"}.get(one.who, "assistant")
        content: JsonObject = {"content_type": "text", "parts": [one.text]}
        if one.who == "call":
            content = {"content_type": "code", "text": json.dumps({"q": one.text})}
        name = "look" if one.who == "result" else None
        message: JsonObject = {
            "id": one.id if one.who == "call" else f"m{at}",
            "author": {"role": role, "name": name, "metadata": {}},
            "content": content,
            "recipient": "look" if one.who == "call" else "all",
            "metadata": {"model_slug": MODEL},
        }
        nodes[f"n{at}"] = {"id": f"n{at}", "message": message, "parent": last}
        last = f"n{at}"
    return {"title": "t", "mapping": nodes, "current_node": last}


def sharegpt(talk: list[Said]) -> JsonObject:
    turns: list[Json] = []
    for one in talk:
        who, text = {"user": "human", "result": "tool"}.get(one.who, "gpt"), one.text
        if one.who == "call":
            called = {"name": "look", "arguments": {"q": one.text}, "id": one.id}
            text = f"<tool_call>\n{json.dumps(called)}\n</tool_call>"
        elif one.who == "result":
            text = f"<tool_response>\n{one.text}\n</tool_response>"
        turns.append({"from": who, "value": text})
    return {"conversations": turns}


def kimi(talk: list[Said]) -> list[Json]:
    head: JsonObject = {"role": "_checkpoint", "id": 0}
    return [head, *map(chat, talk), {"role": "_usage", "token_count": 9}]


def kimi_code(talk: list[Said]) -> list[Json]:
    rows: list[Json] = [{"type": "metadata", "protocol_version": "1.5", "created_at": 1}]
    rows.append({"type": "profile.bind", "agentId": "main", "systemPrompt": ""})
    for at, one in enumerate(talk):
        time = 1_767_261_600_000 + at
        event: JsonObject = {"type": "content.part", "part": {"type": "text", "text": one.text}}
        if one.who == "user":
            message: JsonObject = {"role": "user", "content": [{"type": "text", "text": one.text}]}
            rows.append({"type": "context.append_message", "message": message, "time": time})
            continue
        if one.who == "call":
            used: JsonObject = {"toolCallId": one.id, "name": "look", "args": {"q": one.text}}
            event = {"type": "tool.call", **used}
        elif one.who == "result":
            event = {"type": "tool.result", "toolCallId": one.id, "result": {"output": one.text}}
        events: list[JsonObject] = [event]
        if one.who != "result":
            events = [{"type": "step.begin", "step": at}, event, {"type": "step.end", "step": at}]
        rows += [
            {"type": "context.append_loop_event", "event": one, "time": time} for one in events
        ]
    return rows


def crush(talk: list[Said]) -> list[Json]:
    messages: list[Json] = []
    for at, one in enumerate(talk):
        part: JsonObject = {"type": "text", "text": one.text}
        role = "user" if one.who == "user" else "assistant"
        if one.who == "call":
            used = {"id": one.id, "name": "look", "input": json.dumps({"q": one.text})}
            part = {"type": "tool_call", **used}
        elif one.who == "result":
            role, part = "tool", {"type": "tool_result", "tool_call_id": one.id}
            part |= {"name": "look", "content": one.text, "is_error": False}
        messages.append({"role": role, "parts": [part], "model": MODEL, "created_at": float(at)})
    return messages


def gemini_stream(talk: list[Said]) -> list[Json]:
    rows: list[Json] = [{"type": "init", "timestamp": TIME, "session_id": "s", "model": MODEL}]
    for one in talk:
        role = "user" if one.who == "user" else "assistant"
        row: JsonObject = {"type": "message", "role": role, "content": one.text}
        if one.who == "call":
            row = {"type": "tool_use", "tool_id": one.id, "tool_name": "look"}
            row["parameters"] = {"q": one.text}
        elif one.who == "result":
            row = {"type": "tool_result", "tool_id": one.id, "status": "success"}
            row["output"] = one.text
        rows.append({**row, "timestamp": TIME})
    return rows


def gptme(talk: list[Said]) -> list[Json]:
    head: JsonObject = {"role": "system", "content": "You are gptme.", "timestamp": TIME}
    messages: list[Json] = [head]
    for one in talk:
        message: JsonObject = {"role": "user" if one.who == "user" else "assistant"}
        message |= {"content": one.text, "timestamp": TIME}
        if one.who == "call":
            message["content"] = f"@look({one.id}): {json.dumps({'q': one.text})}"
        elif one.who == "result":
            message |= {"role": "system", "call_id": one.id}
        messages.append(message)
    return messages


def vibe(talk: list[Said]) -> JsonObject:
    about = {"session_id": "s", "environment": {}, "config": {"active_model": MODEL}}
    return {"metadata": about, "messages": [*map(chat, talk)]}


def claude_ai(talk: list[Said]) -> JsonObject:
    messages: list[Json] = []
    for one in talk:
        block: JsonObject = {"type": "text", "text": one.text}
        if one.who == "call":
            block = {"type": "tool_use", "id": one.id, "name": "look", "input": {"q": one.text}}
        elif one.who == "result":
            block = {"type": "tool_result", "tool_use_id": one.id, "name": "look"}
            block["content"] = [{"type": "text", "text": one.text}]
        sender = "human" if one.who == "user" else "assistant"
        messages.append({"uuid": f"u{len(messages)}", "sender": sender, "content": [block]})
    return {"uuid": "c", "name": "t", "chat_messages": messages}


def continue_session(talk: list[Said]) -> JsonObject:
    history: list[Json] = []
    for one in talk:
        role = {"user": "user", "result": "tool"}.get(one.who, "assistant")
        message: JsonObject = {"role": role, "content": one.text}
        if one.who == "call":
            message |= {"content": "", "toolCalls": [call(one)]}
        elif one.who == "result":
            message["toolCallId"] = one.id
        history.append({"message": message, "contextItems": []})
    return {"sessionId": "s", "title": "t", "workspaceDirectory": "/p", "history": history}


def benchmark(talk: list[Said]) -> JsonObject:
    """A run with its score, under names that no format has."""
    return {"task_id": 3, "reward": 1.0, "traj": [*map(chat, talk)]}


MORE_SHAPES: dict[str, Callable[[list[Said]], Json]] = {
    "agent-framework": agent_framework,
    "ai-sdk": ai_sdk,
    "atif": atif,
    "autogen": autogen,
    "benchmark": benchmark,
    "braintrust": braintrust,
    "chat run": chat_run,
    "chatgpt": chatgpt,
    "claude-ai": claude_ai,
    "cline": cline,
    "continue": continue_session,
    "copilot-cli": copilot,
    "crush": crush,
    "cursor": cursor,
    "droid": droid,
    "gemini-cli": gemini_cli,
    "gemini-cli stream": gemini_stream,
    "gen-ai": gen_ai,
    "gen-ai events": gen_ai_events,
    "goose": goose,
    "gptme": gptme,
    "helicone": helicone,
    "inspect-ai": inspect_ai,
    "kimi-cli": kimi,
    "kimi-code": kimi_code,
    "langgraph": langgraph,
    "langsmith": langsmith,
    "langsmith batch": langsmith_batch,
    "logfire": logfire,
    "mini-swe-agent": mini_swe,
    "mlflow": mlflow,
    "openai-agents js": openai_agents_js,
    "openai-agents trace": openai_agents_trace,
    "openhands": openhands,
    "openhands call": openhands_call,
    "openinference": openinference,
    "pi": pi,
    "qwen-code": qwen,
    "roo": roo,
    "sharegpt": sharegpt,
    "swe-agent": swe_agent,
    "vibe": vibe,
    "weave": weave,
}
