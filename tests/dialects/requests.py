"""Requests of all dialects, of the shapes that programs send: small, and each about one thing."""

from weft.values import Json, JsonObject

_PNG = "iVBORw0KGgoAAAANSUhEUg=="
_PDF = "JVBERi0xLjQ="
_OBJECT: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
_STRICT: JsonObject = {**_OBJECT, "required": ["city"], "additionalProperties": False}


def _user(*blocks: Json) -> JsonObject:
    return {"role": "user", "content": [*blocks]}


def _text(text: str, **beside: Json) -> JsonObject:
    return {"type": "text", "text": text, **beside}


_ASKED: list[Json] = [_user(_text("What is new?"))]
_MARK: JsonObject = {"type": "ephemeral", "ttl": "5m"}


def _claude(messages: list[Json] | None = None, **fields: Json) -> JsonObject:
    asked = _ASKED if messages is None else messages
    if _CALLED in asked:  # the provider wants the tools that were called
        fields = {"tools": [_WEATHER], **fields}
    return {"model": "claude-sonnet-4-5", "max_tokens": 4096, "messages": asked, **fields}


_WEATHER: JsonObject = {"name": "weather", "description": "Tell it.", "input_schema": _OBJECT}
_CALLED: JsonObject = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
        _text("I look."),
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": None}},
    ],
}


def _answered(content: Json, **beside: Json) -> list[Json]:
    result: JsonObject = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
    return [*_ASKED, _CALLED, _user({**result, **beside})]


ANTHROPIC: dict[str, JsonObject] = {
    "a text": _claude(),
    "a string for content": _claude([{"role": "user", "content": "Hi."}]),
    "a system text": _claude(system="Be brief.", stream=False),
    "system blocks with a mark": _claude(
        system=[_text("Be brief."), _text("Be kind.", cache_control=_MARK)]
    ),
    "sampling": _claude(temperature=0.2, top_p=0.9, top_k=40, stop_sequences=["Stop"]),
    "sampling that the model refuses": {**_claude(temperature=0.2), "model": "claude-opus-4-8"},
    "a thinking budget": _claude(thinking={"type": "enabled", "budget_tokens": 1024}),
    "thinking that is shown": {
        **_claude(thinking={"type": "adaptive", "display": "summarized"}),
        "model": "claude-opus-4-8",
        "output_config": {"effort": "xhigh"},
    },
    "no thinking": _claude(thinking={"type": "disabled"}),
    "thinking between tools": _claude(thinking={"type": "between_tools"}),
    "a forced tool": _claude(tools=[_WEATHER], tool_choice={"type": "tool", "name": "weather"}),
    "one call at a time": _claude(
        tools=[_WEATHER], tool_choice={"type": "auto", "disable_parallel_tool_use": True}
    ),
    "no tool by choice": _claude(tools=[_WEATHER], tool_choice={"type": "none"}),
    "a count": {"model": "claude-sonnet-4-5", "messages": _ASKED, "tools": [_WEATHER]},
    "tools of the provider's own between others": _claude(
        tools=[
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
            {**_WEATHER, "strict": True, "defer_loading": True, "cache_control": _MARK},
            {"type": "mcp_toolset", "mcp_server_name": "wiki"},
        ],
        mcp_servers=[{"type": "url", "url": "https://wiki.example", "name": "wiki"}],
    ),
    "a tool with examples and no description": _claude(
        tools=[
            {"name": "w", "input_schema": {"type": "object"}, "input_examples": [{"city": "Oslo"}]}
        ]
    ),
    "a schema for the answer": _claude(
        output_config={"format": {"type": "json_schema", "schema": _STRICT}}
    ),
    "a result as text": _claude(_answered("Sunny.")),
    "a result that failed": _claude(_answered("No such city.", is_error=True)),
    "a result with nothing": _claude([*_answered("")[:2], _user(
        {"type": "tool_result", "tool_use_id": "toolu_1"}
    )]),
    "a result of several parts": _claude(
        _answered(
            [
                _text("Two:"),
                _text("clouds"),
                {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
                {"type": "search_result", "source": "x", "title": "y", "content": [_text("z")]},
                {"type": "tool_reference", "tool_name": "weather"},
            ],
            cache_control=_MARK,
        )
    ),
    "a result with an image": _claude(
        _answered(
            [
                _text("This:"),
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": _PNG},
                },
            ]
        )
    ),
    "documents of all kinds": _claude(
        [
            _user(
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": _PDF},
                    "title": "Paper",
                    "context": "A paper.",
                    "citations": {"enabled": True},
                },
                {"type": "document", "source": {"type": "url", "url": "https://a.example/x.pdf"}},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "Words."},
                },
                {"type": "document", "source": {"type": "content", "content": [_text("a")]}},
                {"type": "image", "source": {"type": "url", "url": "https://a.example/x"}},
                {"type": "container_upload", "file_id": "file_1"},
                _text("What is in there?", cache_control=_MARK),
            )
        ]
    ),
    "server tools in an answer": _claude(
        [
            *_ASKED,
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "server_tool_use",
                        "id": "srvtoolu_1",
                        "name": "web_search",
                        "input": {"query": "news"},
                        "caller": {"type": "direct"},
                    },
                    {
                        "type": "web_search_tool_result",
                        "tool_use_id": "srvtoolu_1",
                        "content": [{"type": "web_search_result", "url": "https://a.example"}],
                    },
                    _text("News.", citations=[{"type": "web_search_result_location"}]),
                    {"type": "compaction", "content": "What was said."},
                ],
            },
            _user(_text("More?")),
        ],
        container="container_1",
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
    ),
    "a system text in mid-conversation": {
        **_claude(
            [
                *_ASKED,
                {"role": "assistant", "content": "Little."},
                _user(_text("Why?")),
                {
                    "role": "system",
                    "content": [
                        _text("Be brief.", cache_control=_MARK),
                        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "w"}},
                    ],
                },
            ]
        ),
        "model": "claude-opus-4-8",
    },
    "words put in its mouth": _claude([*_ASKED, {"role": "assistant", "content": "It is"}]),
    "options of the provider's own": _claude(
        metadata={"user_id": "u1"}, service_tier="auto", cache_control=_MARK, inference_geo="eu",
        stream=True,
    ),
}  # fmt: skip


def _gemini(*contents: Json, **fields: Json) -> JsonObject:
    asked: list[Json] = [{"role": "user", "parts": [{"text": "What is new?"}]}]
    return {"contents": [*(contents or asked)], **fields}


_ASK: JsonObject = {"role": "user", "parts": [{"text": "Weather?"}]}
_DECLARED: JsonObject = {"name": "weather", "description": "Tell it."}

GEMINI: dict[str, JsonObject] = {
    "a text": _gemini(),
    "a content without a role": {"contents": [{"parts": [{"text": "Hi."}]}]},
    "a system text": _gemini(systemInstruction={"role": "user", "parts": [{"text": "Brief."}]}),
    "a system text of two parts": _gemini(
        system_instruction={"parts": [{"text": "Be brief."}, {"text": "Be kind."}]}
    ),
    "options": _gemini(
        generationConfig={
            "temperature": 0, "topP": 0.5, "topK": 3, "maxOutputTokens": 50, "seed": 7,
            "stopSequences": ["Stop"], "presencePenalty": 0.1, "frequencyPenalty": 0.2,
            "responseLogprobs": True, "logprobs": 2, "candidateCount": 1,
            "responseModalities": ["TEXT"], "mediaResolution": "MEDIA_RESOLUTION_LOW",
            "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}},
            "thinkingConfig": {"thinkingBudget": 0, "includeThoughts": True},
        },
        safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        labels={"my_team": "a_b"},
    ),
    "a level of thinking": _gemini(
        generation_config={"thinking_config": {"thinking_level": "HIGH"}}
    ),
    "a cached prefix": _gemini(cachedContent="cachedContents/1"),
    "tools of all kinds": _gemini(
        tools=[
            {"googleSearch": {}},
            {"functionDeclarations": [{**_DECLARED, "parametersJsonSchema": _STRICT}]},
            {"function_declarations": [{"name": "b", "parameters_json_schema": {
                "type": "object", "properties": {}}}]},
            {"codeExecution": {}},
            {"functionDeclarations": [{
                **_DECLARED, "name": "c", "behavior": "BLOCKING",
                "parameters": {"type": "OBJECT", "properties": {
                    "my_city": {"type": "STRING", "nullable": True}}},
                "response": {"type": "STRING"},
            }]},
        ],
        toolConfig={
            "functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": ["b", "c"]},
            "includeServerSideToolInvocations": True,
        },
    ),
    "a forced tool": _gemini(
        tools={"functionDeclarations": [_DECLARED]},
        toolConfig={"functionCallingConfig": {
            "mode": "ANY", "allowedFunctionNames": ["weather"]}},
    ),
    "a schema for the answer": _gemini(
        generationConfig={
            "responseMimeType": "application/json", "responseJsonSchema": _STRICT,
        }
    ),
    "a schema in the provider's form": _gemini(
        generationConfig={
            "responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}},
                               "propertyOrdering": ["a"]},
        }
    ),
    "JSON of any kind": _gemini(generationConfig={"responseMimeType": "application/json"}),
    "calls and results": _gemini(
        _ASK,
        {"role": "model", "parts": [
            {"text": "Hm.", "thought": True},
            {"functionCall": {"name": "weather", "args": {"my_city": None}, "id": "a"},
             "thoughtSignature": "c2lnbmVk"},
            {"functionCall": {"name": "weather", "args": {}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "weather", "response": {"my_key": 1}, "id": "a"}},
            {"functionResponse": {
                "name": "weather", "response": {},
                "parts": [{"inline_data": {"mime_type": "application/pdf", "data": _PDF}}]}},
        ]},
        {"role": "user", "parts": [{"text": "And?"}]},
    ),
    "code and the provider's own tools": _gemini(
        _ASK,
        {"role": "model", "parts": [
            {"executableCode": {"language": "PYTHON", "code": "1+1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"q": "x"}, "id": "t"},
             "thoughtSignature": "c2lnbmVk"},
            {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {}, "id": "t"}},
            {"text": "", "thoughtSignature": "c2lnbmVk"},
        ]},
        _ASK,
    ),
    "media of all kinds": _gemini(
        {"role": "user", "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "iVBO-_8="}},
            {"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"},
             "videoMetadata": {"startOffset": "3s", "fps": 2}},
            {"fileData": {"fileUri": "gs://a/b.mp3", "mimeType": "audio/mpeg"}},
            {"inlineData": {"mimeType": "text/plain", "data": "V29yZHM="},
             "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"}},
            {"inlineData": {"mimeType": "video/mp4", "data": "AAAA", "displayName": "a"}},
        ]},
    ),
}  # fmt: skip


def _gpt(*messages: Json, **fields: Json) -> JsonObject:
    asked: list[Json] = [{"role": "user", "content": "What is new?"}]
    return {"model": "gpt-4o", "messages": [*(messages or asked)], **fields}


_FUNCTION: JsonObject = {"name": "weather", "description": "Tell it.", "parameters": _OBJECT}
_HI: JsonObject = {"role": "user", "content": "Hi."}

OPENAI_CHAT: dict[str, JsonObject] = {
    "a text": _gpt(stream=False),
    "roles and names": _gpt(
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi.", "name": "ann"},
        {"role": "assistant", "content": "Hello.", "name": "bot"},
        {"role": "user", "content": [_text("Well?"), _text("So?")]},
    ),
    "two system texts": _gpt(
        {"role": "system", "content": "Be brief."}, {"role": "system", "content": "Be kind."}, _HI
    ),
    "a system text of parts": _gpt(
        {"role": "system", "content": [
            _text("Be brief.", prompt_cache_breakpoint={"mode": "explicit"}), _text("Be kind.")]},
        _HI,
    ),
    "system texts in mid-conversation": _gpt(
        _HI,
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind.", "name": "dev"},
        _HI,
    ),
    "options": _gpt(
        temperature=0.3, top_p=0.9, stop=["a"], seed=3, presence_penalty=0.1,
        frequency_penalty=0.2, logprobs=True, top_logprobs=3, service_tier="auto", user="u1",
        max_completion_tokens=50, n=2, logit_bias={"50256": -100}, store=True,
        metadata={"a": "b"}, modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "wav"},
        prediction={"type": "content", "content": "Hi."}, verbosity="low",
        stream=True, stream_options={"include_usage": True}, safety_identifier="s",
    ),
    "other spellings of options": _gpt(max_tokens=50, stop="end", logprobs=False),
    "an effort": {**_gpt(reasoning_effort="high"), "model": "o3-mini"},
    "another server's model": {
        **_gpt(max_tokens=9, provider={"order": ["x"]}), "model": "openrouter/auto",
    },
    "tools of all kinds": _gpt(
        tools=[
            {"type": "custom", "custom": {"name": "grep", "format": {"type": "text"}}},
            {"type": "function", "function": {**_FUNCTION, "strict": True}},
            {"type": "function", "function": {"name": "bare"}},
        ],
        tool_choice="required", parallel_tool_calls=False,
    ),
    "a forced tool": _gpt(
        tools=[{"type": "function", "function": _FUNCTION}],
        tool_choice={"type": "function", "function": {"name": "weather"}},
    ),
    "allowed tools": _gpt(
        tools=[{"type": "function", "function": _FUNCTION}],
        tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
    ),
    "a schema for the answer": _gpt(
        response_format={"type": "json_schema", "json_schema": {
            "name": "City", "schema": _STRICT, "strict": True, "description": "A city."}},
    ),
    "a loose schema for the answer": _gpt(
        response_format={"type": "json_schema", "json_schema": {"name": "C", "schema": _OBJECT}},
    ),
    "JSON of any kind": _gpt(response_format={"type": "json_object"}),
    "text by name": _gpt(response_format={"type": "text"}),
    "calls and results": _gpt(
        _HI,
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {
                "name": "weather", "arguments": '{"city": null}'}},
            {"id": "c2", "type": "function", "function": {"name": "weather", "arguments": "{"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "Sunny."},
        {"role": "tool", "tool_call_id": "c2", "content": [_text("Rain."), _text("Snow.")]},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "c3", "type": "custom", "custom": {"name": "grep", "input": "x"}}]},
        {"role": "tool", "tool_call_id": "c3", "content": '{"a":1}', "name": "grep"},
    ),
    "what else an answer has": _gpt(
        _HI,
        {"role": "assistant", "content": "No.", "refusal": "I cannot."},
        _HI,
        {"role": "assistant", "content": "So.", "reasoning_content": "Hm."},
        _HI,
        {"role": "assistant", "audio": {"id": "audio_1"}},
        _HI,
        {"role": "assistant", "content": [_text("One."), {"type": "refusal", "refusal": "No."}]},
        {"role": "function", "name": "old", "content": "1"},
        _HI,
    ),
    "media of all kinds": _gpt(
        {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}},
            {"type": "image_url", "image_url": {
                "url": f"data:image/png;base64,{_PNG}", "detail": "high"}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "file", "file": {
                "file_data": f"data:application/pdf;base64,{_PDF}", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "video_url", "video_url": {"url": "https://a.example/x.mp4"}},
        ]},
    ),
    "an empty text": _gpt({"role": "user", "content": ""}),
}  # fmt: skip


def _new(*items: Json, **fields: Json) -> JsonObject:
    return {"model": "gpt-5", "input": [*(items or [_HI])], **fields}


_REASONED: JsonObject = {
    "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk",
}  # fmt: skip
_CALL: JsonObject = {
    "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather",
    "arguments": '{"city": null}', "status": "completed",
}  # fmt: skip

OPENAI_RESPONSES: dict[str, JsonObject] = {
    "a string for input": {"model": "gpt-5", "input": "Hi."},
    "a message by name": _new({"type": "message", "role": "user", "content": "Hi."}),
    "instructions": _new(instructions="Be brief.", stream=False),
    "empty instructions": _new(instructions=""),
    "system texts": _new(
        {"role": "system", "content": "Be brief."},
        _HI,
        {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
    ),
    "options": {**_new(
        temperature=0.3, top_p=0.9, max_output_tokens=50, parallel_tool_calls=True,
        service_tier="flex", user="u1", top_logprobs=2, include=["message.output_text.logprobs"],
        store=True, truncation="auto", metadata={"a": "b"}, background=True,
        text={"verbosity": "low", "format": {"type": "text"}}, prompt_cache_key="k",
        prompt_cache_retention="24h", safety_identifier="s", max_tool_calls=3,
        context_management=[{"type": "compaction", "compact_threshold": 1000}], stream=True,
        prompt={"id": "pmpt_1", "variables": {"a": "b"}},
    ), "model": "gpt-4o"},
    "nothing stored": _new(store=False, include=["reasoning.encrypted_content"]),
    "nothing stored and no reasoning": _new(store=False),
    "reasoning": _new(
        reasoning={"effort": "low", "summary": "detailed", "context": "all_turns"},
        include=["reasoning.encrypted_content", "file_search_call.results"],
    ),
    "an old word for a summary": _new(reasoning={"effort": None, "generate_summary": "concise"}),
    "going on": _new(previous_response_id="resp_1"),
    "a conversation": _new(conversation={"id": "conv_1"}),
    "tools of all kinds": _new(
        tools=[
            {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}},
            {"type": "function", **_FUNCTION, "strict": True, "defer_loading": True},
            {"type": "function", "name": "bare", "parameters": None, "strict": None},
            {"type": "mcp", "server_label": "wiki", "server_url": "https://wiki.example",
             "require_approval": "never"},
            {"type": "function", **_FUNCTION, "name": "loose", "strict": False,
             "description": None},
            {"type": "code_interpreter", "container": {"type": "auto"}},
            {"type": "custom", "name": "grep", "format": {"type": "text"}},
            {"type": "namespace", "name": "n", "tools": []},
        ],
        tool_choice={"type": "allowed_tools", "mode": "required", "tools": [
            {"type": "function", "name": "weather"}]},
    ),
    "a forced tool": _new(
        tools=[{"type": "function", **_FUNCTION, "strict": False}],
        tool_choice={"type": "function", "name": "weather"},
    ),
    "a tool of the provider's own by choice": _new(
        tools=[{"type": "web_search"}], tool_choice={"type": "web_search"}
    ),
    "a schema for the answer": _new(
        text={"format": {"type": "json_schema", "name": "City", "schema": _STRICT,
                         "strict": True, "description": "A city."}, "verbosity": "high"},
    ),
    "JSON of any kind": _new(text={"format": {"type": "json_object"}}),
    "reasoning, calls and results": _new(
        _HI, _REASONED, _CALL,
        {"type": "function_call_output", "call_id": "c1", "output": "Sunny."},
        {**_REASONED, "id": "rs_2", "summary": [
            {"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]},
        {**_CALL, "id": "fc_2", "call_id": "c2", "arguments": "{ }", "namespace": "n"},
        {"type": "function_call_output", "call_id": "c2", "output": [
            {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"},
            {"type": "input_image", "file_id": "file-1", "detail": "high"}]},
        {**_REASONED, "id": "rs_3"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "phase": "final_answer", "content": [
             {"type": "output_text", "text": "So.", "annotations": [
                 {"type": "url_citation", "url": "https://a.example"}]},
             {"type": "output_text", "text": "It is.", "annotations": []},
             {"type": "refusal", "refusal": "No."}]},
        _HI,
    ),
    "reasoning by its id": _new(
        _HI,
        {"type": "reasoning", "id": "rs_1", "summary": [
            {"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [
            {"type": "output_text", "text": "So.", "annotations": []}]},
        _HI,
    ),
    "answers in plain words": _new(
        _HI, {"role": "assistant", "content": "Hello."},
        {"role": "assistant", "content": "More.", "phase": "commentary"}, _HI,
    ),
    "items of the provider's own": _new(
        _HI,
        {"type": "web_search_call", "id": "ws_1", "status": "completed",
         "action": {"type": "search", "query": "x"}},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1", "container_id": "k",
         "outputs": [{"type": "logs", "logs": "1"}], "status": "completed"},
        {"type": "mcp_list_tools", "id": "m1", "server_label": "wiki", "tools": []},
        {"type": "tool_search_call", "id": "t1", "arguments": {"q": ["x"]}, "status": "completed",
         "execution": "server", "call_id": None},
        {"type": "tool_search_output", "id": "t2", "tools": [], "execution": "server",
         "status": "completed"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c9", "name": "grep", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c9", "output": "y"},
        {"type": "image_generation_call", "id": "ig_1", "result": _PNG, "status": "completed"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbGVk"},
        {"type": "item_reference", "id": "msg_0"},
        {"type": "additional_tools", "role": "developer", "tools": []},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
        _HI,
    ),
    "media of all kinds": _new(
        {"role": "user", "content": [
            {"type": "input_text", "text": "Look."},
            {"type": "input_image", "image_url": "https://a.example/x.png", "detail": "low"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{_PNG}"},
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
            {"type": "input_file", "file_data": f"data:application/pdf;base64,{_PDF}",
             "filename": "a.pdf"},
            {"type": "input_file", "file_data": "data:text/plain;base64,V29yZHM=",
             "filename": "a.txt"},
            {"type": "input_file", "file_url": "https://a.example/x.pdf"},
            {"type": "input_file", "file_id": "file-2"},
        ]},
    ),
}  # fmt: skip

REQUESTS: dict[str, dict[str, JsonObject]] = {
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "openai-chat": OPENAI_CHAT,
    "openai-responses": OPENAI_RESPONSES,
}

CASES = [(dialect, name) for dialect, requests in REQUESTS.items() for name in requests]
