"""S3: session files as google-adk writes them, in every spelling it has."""

import importlib.util
import json
import re
from typing import cast

import msgspec
import pytest
from google.genai import types as genai

import weft
from weft import Agent, Event, Session, WeftError
from weft import content as ours
from weft.session import Usage
from weft.values import Json, JsonObject

BOT = Agent("bot", model="gemini-2.5-flash")

RICH: JsonObject = {
    "id": "s",
    "appName": "app",
    "userId": "u",
    "state": {"camelKey": 1, "snake_key": {"innerKey": None}},
    "lastUpdateTime": 9.0,
    "events": [
        {"author": "user", "invocationId": "i1", "id": "e1", "timestamp": 1.0,
         "content": {"role": "user", "parts": [{"text": "Hi"}]}},
        {"author": "bot", "invocationId": "i1", "id": "e2", "timestamp": 2.0, "branch": "root.bot",
         "modelVersion": "m", "finishReason": "STOP", "turnComplete": True, "avgLogprobs": -0.5,
         "longRunningToolIds": ["c1"], "customMetadata": {"innerKey": [1]}, "interactionId": "x",
         "nodeInfo": {"path": "flow/bot@1", "outputFor": ["flow/bot@1"]}, "output": {"a_b": 1},
         "usageMetadata": {"promptTokenCount": 3, "thoughtsTokenCount": 1, "totalTokenCount": 4,
                           "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 3}]},
         "groundingMetadata": {"webSearchQueries": ["q"]},
         "citationMetadata": {"citations": [{"uri": "u", "startIndex": 0}]},
         "logprobsResult": {"chosenCandidates": [{"token": "a", "logProbability": -0.1}]},
         "content": {"role": "model", "parts": [
             {"text": "hm", "thought": True, "thoughtSignature": "-_-_"},
             {"text": "", "thoughtSignature": "_-8="},
             {"functionCall": {"name": "look", "id": "c1", "args": {"a_b": 1, "aB": None}}},
             {"inlineData": {"mimeType": "image/png", "data": "-_-_", "displayName": "x.png"}},
             {"fileData": {"fileUri": "gs://b/f", "mimeType": "video/mp4"},
              "videoMetadata": {"fps": 2.0}},
             {"executableCode": {"code": "1", "language": "PYTHON"}},
             {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}]}},
        {"author": "bot", "invocationId": "i1", "id": "e3", "timestamp": 3.0,
         "content": {"role": "user", "parts": [{"functionResponse": {
             "name": "look", "id": "c1", "response": {"snake_key": 1}, "scheduling": "WHEN_IDLE",
             "willContinue": False,
             "parts": [{"inlineData": {"mimeType": "image/png", "data": "-_8="}}]}}]},
         "actions": {"stateDelta": {"camelKey": 1}, "artifactDelta": {"f_g": 0}, "escalate": False,
                     "transferToAgent": "o", "skipSummarization": True, "endOfAgent": True,
                     "agentState": {"a_b": 1}, "route": ["a", 1, True],
                     "setModelResponse": {"a_b": 1},
                     "requestedToolConfirmations": {"c_1": {"hint": "h", "confirmed": True}}}},
        {"author": "bot", "invocationId": "i1", "id": "e4", "timestamp": 4.0, "interrupted": True,
         "errorCode": "SAFETY", "errorMessage": "no"},
        {"author": "user", "invocationId": "i2", "id": "e5", "timestamp": 5.0,
         "inputTranscription": {"text": "hey", "finished": True}},
        {"author": "user", "invocationId": "i3", "id": "e6", "timestamp": 6.0, "actions": {
            "compaction": {"startTimestamp": 1.0, "endTimestamp": 2.0, "compactedContent": {
                "role": "model", "parts": [{"text": "sum"}]}}}},
        {"author": "user", "invocationId": "i4", "id": "e7", "timestamp": 7.0,
         "actions": {"rewindBeforeInvocationId": "i2"}},
    ],
}  # fmt: skip

OPEN = ("args", "response", "stateDelta", "artifactDelta", "agentState", "customMetadata", "state")
RAW = ("setModelResponse", "output", "requestedToolConfirmations")
READ = ("author", "content", "id", "timestamp", "actions", "branch", "long_running_tool_ids")
"""Fields whose insides Weft reads; those of the others are carried in the spelling they came in."""

_HUMP = re.compile(r"(?=[A-Z])")


def snake(value: Json) -> Json:
    """The JSON as google-adk's databases hold it: its own names in snake_case."""
    if isinstance(value, list):
        return [snake(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        _HUMP.sub("_", key).lower(): held if key in OPEN + RAW else snake(held)
        for key, held in value.items()
    }


def with_nulls(value: JsonObject) -> JsonObject:
    """The JSON as google-adk writes it unless told otherwise: null for what is not there."""
    made = cast("JsonObject", json.loads(json.dumps(value)))
    for event in cast("list[JsonObject]", made["events"]):
        for field in msgspec.structs.fields(Event):
            if field.encode_name != "audience":
                event.setdefault(field.encode_name, None)
        held = cast("JsonObject", event["content"] or {})
        for part in cast("list[JsonObject]", held.get("parts", [])):
            for name in genai.Part.model_fields:
                part.setdefault(re.sub(r"_(.)", lambda m: m[1].upper(), name), None)
    return made


def read(value: Json) -> Session:
    return Session.from_json(json.dumps(value), name="log.json")


def test_what_is_read_is_written_again() -> None:
    written = json.loads(read(RICH).to_json())
    for event in written["events"]:
        assert event.pop("checksum")
    assert written["events"][-1].pop("sessionChecksum")
    assert written == RICH


@pytest.mark.parametrize("spelled", [snake(RICH), with_nulls(RICH), snake(with_nulls(RICH))])
def test_every_spelling_is_the_same_session(spelled: Json) -> None:
    again, first = read(spelled), read(RICH)
    for found, wanted in zip(again.events, first.events, strict=True):
        for name in READ:
            assert getattr(found, name) == getattr(wanted, name)
    assert again.state == first.state
    assert weft.compile(BOT, session=again).wire == weft.compile(BOT, session=first).wire


def test_every_field_the_sdk_has_today_is_known() -> None:
    pairs = [
        (ours.Part, genai.Part),
        (ours.Content, genai.Content),
        (ours.FunctionCall, genai.FunctionCall),
        (ours.FunctionResponse, genai.FunctionResponse),
        (ours.Blob, genai.Blob),
        (ours.FileData, genai.FileData),
        (ours.ExecutableCode, genai.ExecutableCode),
        (ours.CodeExecutionResult, genai.CodeExecutionResult),
        (Usage, genai.GenerateContentResponseUsageMetadata),
    ]
    for mine, theirs in pairs:
        names = {field.name for field in msgspec.structs.fields(mine)}
        assert set(theirs.model_fields) <= names


@pytest.mark.parametrize(
    "event",
    [
        {"author": "user", "content": {"parts": [{"text": "Hi"}]}},
        {"author": "user", "content": {"role": "user", "parts": [{"text": "Hi"}]}, "actions": {}},
        {"author": "user", "content": {"role": "user", "parts": [{"text": "Hi"}]}, "actions": None,
         "id": None, "timestamp": None, "invocationId": None, "longRunningToolIds": None},
        {"content": {"role": "user", "parts": [{"text": "Hi"}]}, "longRunningToolIds": []},
    ],
)  # fmt: skip
def test_what_is_missing_or_null_is_as_if_it_were_not_written(event: JsonObject) -> None:
    session = read({"id": None, "state": None, "events": [event]})
    assert session.events[0].id
    contents = weft.compile(BOT, session=session).wire["contents"]
    assert contents == [{"role": "user", "parts": [{"text": "Hi"}]}]


def test_a_signature_on_an_empty_text_goes_back_and_media_is_in_the_standard_alphabet() -> None:
    short = Session("s", events=read(RICH).events[:2])
    wire = str(weft.compile(BOT, session=short, branch="root.bot").wire)
    assert "'text': '', 'thoughtSignature': '_-8='" in wire
    assert "'data': '+/+/'" in wire


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        ({"timestamp": "noon"}, "Expected `float`, got `str` - at `$.timestamp`"),
        ({"content": {"parts": [{"text": 1}]}}, "Expected `str | null`, got `int`"),
        ({"content": "Hi"}, "Expected `object | null`, got `str` - at `$.content`"),
    ],
)
def test_what_no_spelling_explains_is_refused_as_it_stands(
    event: JsonObject, complaint: str
) -> None:
    with pytest.raises(WeftError) as caught:
        read({"app_name": "a", "events": [{"author": "user"}, event]})
    assert caught.value.where == "log.json: events[1]"
    assert complaint in caught.value.message


@pytest.mark.skipif(
    importlib.util.find_spec("google.adk") is None, reason="google-adk is not installed"
)
def test_google_adk_reads_our_json_and_we_read_its() -> None:
    from google.adk.sessions.session import Session as Theirs  # type: ignore[import-not-found]

    first = read(RICH)
    theirs = Theirs.model_validate_json(first.to_json())
    for how in ({"by_alias": True}, {"by_alias": True, "exclude_none": True}, {}):
        again = Session.from_json(theirs.model_dump_json(**how))
        assert Theirs.model_validate_json(again.to_json()) == theirs
