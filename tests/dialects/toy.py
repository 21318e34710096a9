"""A dialect in one file, for a provider that does not exist: what CONTRIBUTING says one needs.

A request: `{"model", "rules", "talk": [{"who", "says": [...]}], "tools", "heat"}`. A part is
`{"words"}`, `{"use", "with", "ticket"}` or `{"got", "ticket"}`. An answer: `{"says": [...]}`.
"""

from collections.abc import Sequence
from typing import ClassVar

from weft.content import Content, FunctionCall, Part
from weft.dialects.base import Dialect, Traits, result_text
from weft.dialects.facts import wire_name
from weft.dialects.legality import REQUEST, Finding, Findings, missing_media
from weft.dialects.measure import Quantity, WeighedHead, WeighedTool, WeighedTurn
from weft.dialects.options import Option, read_options
from weft.dialects.stream import AnswerErrors, Stream, partial_text, tells_error
from weft.dialects.strict import (
    Misshapen,
    Outline,
    PairedPart,
    RequestForm,
    outline_of,
    require_parts,
    require_text,
)
from weft.dialects.track import Entry, LoweringReport, Placed, Wire
from weft.dialects.wire import (
    ReadPart,
    ReadRequest,
    ReadTool,
    ReadTurn,
    as_json,
    as_text,
    lifted_call,
    object_in,
    objects_in,
    require_objects,
    result_part,
    text_at,
    text_response,
)
from weft.ir import (
    Block,
    CallBlock,
    MediaBlock,
    ModelResponse,
    Prompt,
    ResultBlock,
    Role,
    TextBlock,
    ThoughtBlock,
    ToolDecl,
)
from weft.values import Json, JsonObject

NAME = "toy"
ERRORS = AnswerErrors(NAME, key="TOY_API_KEY")


class Toy(Dialect):
    """Turns say things; calls carry a ticket that their results repeat."""

    traits = Traits(NAME, turns="talk", merges_turns=True, model_role="bot", parts="says", ids=None)
    form = RequestForm(
        system="rules", needs=("model",), schemas=("takes",), describes=("name", "about")
    )
    errors = ERRORS
    options: ClassVar = {"temperature": Option("heat", range=(0.0, 1.0))}

    # Lowering: a prompt in this provider's words.

    def head(self, prompt: Prompt, report: LoweringReport) -> tuple[Wire, tuple[Placed, ...]]:
        wire: Wire = {"model": wire_name(prompt.model)}
        placed: list[Placed] = []
        self.place_options(prompt, wire, placed, report)
        if prompt.tools:
            self.put_tools(prompt, wire, placed, report)
        if prompt.system:
            wire["rules"] = prompt.system_text
            placed.append(Placed("/rules", prompt.system))
        return wire, tuple(placed)

    def declaration(self, tool: ToolDecl, report: LoweringReport) -> Wire:
        about: Wire = {"name": tool.name, "about": tool.description}
        return {**about, "takes": self.parameters(tool, report)}

    def turn(self, role: Role, blocks: Sequence[Block], report: LoweringReport) -> list[Entry]:
        parts = [(block, self.part(block, report)) for block in blocks]
        spelled = [(block, part) for block, part in parts if part is not None]
        who = "bot" if role == "model" else "me"
        wire: Wire = {"who": who, "says": [part for _, part in spelled]}
        places = tuple((f"/says/{at}", block) for at, (block, _) in enumerate(spelled))
        return [Entry(wire, who, places)] if spelled else []

    def spell_plain_turn(self, block: TextBlock) -> Entry:
        who = "bot" if block.role == "model" else "me"
        return Entry({"who": who, "says": [{"words": block.text}]}, who, (("/says/0", block),))

    def text(self, block: TextBlock, report: LoweringReport) -> Wire:
        return {"words": block.text}

    def thought(self, block: ThoughtBlock, report: LoweringReport) -> Wire | None:
        self.drop_foreign(block, report, what="thought")
        return None

    def call(self, block: CallBlock, report: LoweringReport) -> Wire:
        return {"use": self.name_of(block, report), "with": block.args, "ticket": block.id}

    def result(self, block: ResultBlock, report: LoweringReport) -> Wire:
        return {"got": result_text(block), "ticket": block.call_id}

    def media(self, block: MediaBlock, report: LoweringReport) -> Wire:
        return {"words": missing_media(block, report)}

    # Lifting: its answers, whole and streamed.

    def lift(self, body: JsonObject) -> ModelResponse:
        if tells_error(body):
            raise ERRORS.failure(None, body)
        if not isinstance(body.get("says"), list):
            raise ERRORS.unreadable("the answer says nothing")
        parts = tuple(map(_lift_part, objects_in(body["says"])))
        return ModelResponse(content=Content(parts, "model"), finish_reason="STOP")

    def stream(self) -> Stream:
        return ToyStream()

    # Reading: a request back into parts.

    def read(self, wire: JsonObject) -> ReadRequest:
        rules, calls = text_at(wire, "rules"), dict[str, str]()
        turns = require_objects(wire.get("talk"), "talk")
        tools = require_objects(wire.get("tools"), "tools")
        return ReadRequest(
            system=(ReadPart(Part(rules), {"words": rules}),) if rules else (),
            turns=tuple(_read_turn(turn, calls) for turn in turns),
            tools=tuple(
                ReadTool(one, text_at(one, "name"), text_at(one, "about"), object_in(one["takes"]))
                for one in tools
            ),
            output=None,
            config=read_options(self.options, wire),
            places=("talk", "rules", "tools"),
        )

    # Weighing: what is counted of a request.

    def weigh_head(self, wire: JsonObject) -> WeighedHead:
        tools = tuple(
            WeighedTool(text_at(one, "name"), text_at(one, "about"), object_in(one.get("takes")))
            for one in objects_in(wire.get("tools"))
        )
        system = (text_at(wire, "rules"),) if "rules" in wire else ()
        return WeighedHead(system=system, tools=tools)

    def weigh_turn(self, turn: Json) -> WeighedTurn:
        parts: list[Quantity] = []
        for at, part in enumerate(objects_in(object_in(turn).get("says"))):
            place = f"/says/{at}"
            if "use" in part:
                parts.append(Quantity(place, "call", as_json(part["with"]), as_text(part["use"])))
            elif "got" in part:
                parts.append(Quantity(place, "result", as_text(part["got"])))
            else:
                parts.append(Quantity(place, "text", as_text(part.get("words"))))
        return WeighedTurn(text_at(object_in(turn), "who"), parts, asks=True)

    # Refusing: what its provider would not take.

    def refuse_head(self, wire: JsonObject, model: str) -> Findings:
        yield from super().refuse_head(wire, model)
        if len(text_at(wire, "rules")) > 1000:
            yield Finding(REQUEST, "/rules", "the rules are too long", "say less")

    def outline(self, turn: JsonObject, at: str) -> Outline:
        who = turn.get("who")
        if who not in ("me", "bot"):
            raise Misshapen(f"{at}/who", f"nobody is called {who!r}", "use me or bot")
        calls: list[PairedPart] = []
        results: list[PairedPart] = []
        for index, part in enumerate(require_parts(turn, "says", at)):
            place = f"/says/{index}"
            if "use" in part:
                name = require_text(part, "use", at + place)
                calls.append(PairedPart(require_text(part, "ticket", at + place), name, place))
            elif "got" in part:
                results.append(PairedPart(require_text(part, "ticket", at + place), "", place))
            else:
                require_text(part, "words", at + place)
        return outline_of("user" if who == "me" else "model", calls, results, at)


def _lift_part(part: JsonObject) -> Part:
    if "use" not in part:
        return Part(text_at(part, "words"))
    call = FunctionCall(name=text_at(part, "use"), id=text_at(part, "ticket") or None)
    return lifted_call(NAME, call, part.get("with"), None)


def _read_turn(turn: JsonObject, calls: dict[str, str]) -> ReadTurn:
    parts: list[ReadPart] = []
    for part in require_objects(turn.get("says"), "says"):
        ticket = text_at(part, "ticket")
        if "use" in part:
            calls[ticket] = text_at(part, "use")
        if "got" in part:
            answer = text_response(text_at(part, "got"))
            parts.append(ReadPart(result_part(ticket, calls.get(ticket, ""), answer), part))
        else:
            parts.append(ReadPart(_lift_part(part), part))
    return ReadTurn("model" if turn.get("who") == "bot" else "user", tuple(parts))


class ToyStream:
    """Pieces of one text, and then the word that it is over."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._over = False

    def feed(self, name: str, data: JsonObject) -> ModelResponse | None:
        if tells_error(data):
            raise ERRORS.failure(None, data)
        self._over = self._over or data.get("over") is True
        words = text_at(data, "words")
        self._words.append(words)
        return partial_text(words) if words else None

    def note_end(self) -> None:
        self._over = True

    def body(self) -> JsonObject:
        if not self._over:
            raise ERRORS.cut_off()
        return {"says": [{"words": "".join(self._words)}]}


DIALECT = Toy()
