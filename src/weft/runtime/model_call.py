"""One request to the model: compile it, let callbacks change it, send it, and take the answer."""

import asyncio
import inspect
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container
from contextlib import suppress
from functools import partial
from traceback import format_exception
from typing import Literal, cast

import msgspec

from weft.collector import collector_paused
from weft.compiler import Compilation, ReadonlyContext, compile_request
from weft.compiler.caching import Miss, Reader, may_miss, watch
from weft.compiler.incremental import LONG, is_cold
from weft.compiler.instruction import VALUES, target_of, values_in
from weft.compiler.plan import Plan
from weft.compiler.prefix import placed_findings, require_accepted
from weft.content import Content, Part, whole_characters
from weft.declare import Agent, CallbackContext, Raw, RunConfig
from weft.diagnostics import Diagnostic, Severity
from weft.dialects import Lowered, dialect_named
from weft.dialects.legality import findings_in
from weft.errors import BudgetExceeded, MissingVariable, ModelError, WeftError
from weft.ir import ModelResponse, Prompt, verify
from weft.ir.prompt import sources_of
from weft.late import late_pattern
from weft.models import Model
from weft.runtime.costs import charge_for
from weft.runtime.handles import OpenedStream, hides_text
from weft.runtime.invocation import Invocation
from weft.runtime.labels import follow_labels, labelled_texts, part_of
from weft.runtime.place import Place
from weft.runtime.program import AgentBindings, chosen_model
from weft.runtime.tracing import TracedStep
from weft.session import Event, Session
from weft.session.event import new_id
from weft.session.flow import TRUSTED, USER_WORDS, TrustLabel, note_of
from weft.session.lookback import addresses_in
from weft.session.provenance import NOTHING, Provenance
from weft.session.strand import Strand, skim_of
from weft.values import JsonObject

_USUAL_ID = 40
"""The usual length of a call's id. A longer one may carry a signature of the provider."""

_ROUNDS = 4
"""How often a request is compiled again because of what other models were asked for it."""

_log = logging.getLogger("weft")


class ModelCall:
    """One request to the model, from the compiled prompt to the reply as an event."""

    _compiled: Compilation
    _prompt: Prompt
    _wire: JsonObject | None = None
    _changed: Lowered | None = None
    _is_sent = False
    _spoke = False
    _asked = 0.0
    _first: float | None = None
    """Seconds until the first piece of the answer came, where it is streamed."""
    _traced: TracedStep | None = None
    _is_refused = False
    _within: int | None = None
    _withheld: frozenset[str] = frozenset()
    _opened: OpenedStream | None = None
    context: CallbackContext | None = None
    """What the model's callbacks are handed, where it has some."""
    begins_anew = False
    """Whether the model was asked again after pieces of its answer were shown."""
    response: ModelResponse | None = None
    cancelled: asyncio.CancelledError | None = None
    """That the run was cancelled while its answer was looked at: it is raised after that."""

    def __init__(
        self,
        invocation: Invocation,
        place: Place,
        root: Agent,
        plan: Plan,
        bindings: AgentBindings,
        reply_id: str,
    ) -> None:
        self._invocation = invocation
        self._place = place
        self._root = root
        self._plan = plan
        self._bindings = bindings
        self._reads: set[str] = set()
        """What the async providers of its instruction read."""
        self.stream = invocation.config.stream
        self.id = reply_id or new_id()
        """The id of the reply, and of the partial events that it is announced by."""
        self.performed: list[Event] = []
        """What other models were asked for the sake of this request, as it is in the log."""

    async def prepare(self) -> bool:
        """Compile, and call `before_model`; False if a callback answered for the model."""
        invocation, callbacks = self._invocation, self._bindings.callbacks
        self._within = invocation.services.limits.get(self._plan.target.model)
        if invocation.trace is not None:
            self._traced = invocation.trace.begin_compile(self._plan.agent.name, self._place)
        try:
            self._compiled = compiled = await self._compile(self._within)
        except BudgetExceeded:
            if self._within is None:
                raise
            # a limit that was learned is a guess: let the provider decide
            self._within = None
            self._compiled = compiled = await self._compile(None)
        self._prompt = prompt = compiled.prompt
        if self._traced is not None:
            self._traced.end(compiled)
        if self._bindings.watches_model:
            self.context = invocation.context(self._plan.agent.name, self._place)
        if self.context is not None and callbacks.before_model:
            kinds = (Prompt, ModelResponse)
            answer = await callbacks.before_model.first(kinds, self.context, prompt)
            if isinstance(answer, Prompt):
                verify(answer, step="before_model")
                self._prompt = answer
                offered = {tool.name for tool in answer.tools}
                # a tool that the callback took out must not run, even if the model calls it
                self._withheld = frozenset(
                    tool.name for tool in prompt.tools if tool.name not in offered
                )
                self._changed = dialect_named(compiled.dialect).lower(answer, strict=False)
                self._wire = self._changed.wire
                # the callback may have put back what a policy keeps from the model
                compiled.require_protected(answer, self._wire)
                compiled.require_cleared(self._wire)
                if invocation.config.strict:
                    require_accepted(self._changed, answer.model, self._plan.agent.allow)
            elif isinstance(answer, ModelResponse):
                self.response = answer
        return self.response is None

    def answers(self) -> AsyncIterator[ModelResponse]:
        """What the model says, as it says it."""
        self._is_sent = True
        self._asked = time.perf_counter()
        if (trace := self._invocation.trace) is not None:
            if self._traced is not None:
                self._traced.end()  # the request before it was refused
            self._traced = trace.begin_model(self._plan.agent.name, self._place, self._compiled)
        problems = self._compiled.prompt.diagnostics
        lowered = self._changed
        if lowered is None:
            lowered = self._compiled.lowered()
            problems += lowered.diagnostics
        # most requests are sound: then nobody looks for the places of what is wrong
        if findings := findings_in(lowered, self._prompt.model):
            problems += placed_findings(findings, lowered)
        if problems:
            self._tell(problems)
        wire = self._wire if self._wire is not None else lowered.wire
        answers = self._model().generate(self._prompt, wire, stream=self.stream)
        return self._traced.follow(answers) if trace is not None and self._traced else answers

    def _tell(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        """Log what is wrong with the request, once a run; `result.diagnostics` has it too."""
        findings = self._invocation.findings
        for diagnostic in diagnostics:
            known = str(diagnostic) in findings or diagnostic.code in self._plan.agent.allow
            if diagnostic.severity is not Severity.INFO and not known:
                findings[str(diagnostic)] = diagnostic
                _log.warning("%s %s: %s", diagnostic.code, diagnostic.origin, diagnostic.message)

    def partial(self, response: ModelResponse) -> Event:
        """A piece of the answer, for display. If it begins anew, earlier pieces are void."""
        if not self._spoke:
            self._first = round(time.perf_counter() - self._asked, 3)
        self._spoke = True
        if self._traced is not None:
            self._traced.note_chunk()
        place = self._place
        again, self.begins_anew = self.begins_anew, False
        content = response.content
        if self._plan.policy.protections and hides_text(self._plan.policy):
            if self._opened is None or again:
                self._opened = OpenedStream(self._invocation, place, self._plan)
            content = self._opened.open_piece(content)
        return Event(
            author=self._plan.agent.name,
            content=content,
            invocation_id=self._invocation.id,
            id=self.id,
            partial=True,
            interrupted=again or None,
            audience=self._audience(),
            branch=place.branch or None,
            node_info=place.node_info,
            isolation_scope=place.scope or None,
        )

    async def recover(self, error: Exception) -> bool:
        """Deal with an error of the model; True if it is to be asked once more.

        A request that was too long is compiled again, shorter. Else the callbacks are asked, or
        the error is told as an event. What Weft itself raises says that something is set up
        wrong; it is not the model's.
        """
        if isinstance(error, WeftError) and not isinstance(error, ModelError):
            raise error
        if isinstance(error, ModelError) and await self._shorten(error):
            return True
        chain = self._bindings.callbacks.on_model_error
        self.response = None
        if self.context is not None and chain:
            self.response = await chain.first((ModelResponse,), self.context, self._prompt, error)
        if self.response is None:
            if isinstance(error, ModelError):
                message = self._without_keys(str(error))
                _log.warning("%s: %s [%s]", self._plan.agent.name, message, error.code)
                self.response = ModelResponse(error_code=error.code, error_message=message)
                return False
            # a client's exception may quote the request, and a request has a key
            trace = self._without_keys("".join(format_exception(error)))
            _log.warning("%s: the model raised\n%s", self._plan.agent.name, trace)
            words = self._without_keys(f"{type(error).__name__}: {error}")
            self.response = ModelResponse(error_code="model_error", error_message=words)
        return False

    def _without_keys(self, text: str) -> str:
        """What an error says, without keys: those of the models that may have been asked too."""
        from weft.models.services import without_secrets  # only a failure may quote a key

        return without_secrets(text, self._plan.agent.model, self._invocation.config.model)

    async def _shorten(self, error: ModelError) -> bool:
        """Compile a request that was too long again, within what the provider takes, once."""
        refused, name = self._compiled, self._plan.agent.name
        # once only, not after words were shown, and not a request that a callback wrote
        if error.code != "context_overflow" or self._is_refused or self._spoke or self._wire:
            return False
        self._is_refused = True
        within = tighter(refused, error)
        try:
            compiled = await self._compile(within)
        except BudgetExceeded as too_much:
            _log.warning("%s: %s; and %s", name, error, too_much)
            return False
        # nothing could be left out: the provider would refuse the same request again
        if len(compiled.prompt.items) == len(refused.prompt.items):
            return False
        _log.warning(
            "%s: the request of %d tokens is too long for %s; it is sent again with %d of %d items,"
            " within %d tokens",
            name,
            refused.tokens,
            refused.prompt.model,
            len(compiled.prompt.items),
            len(refused.prompt.items),
            within,
        )
        # later requests to this model are compiled within the limit from the start
        self._invocation.services.limits[self._plan.target.model] = within
        self._within, self._compiled, self._prompt = within, compiled, compiled.prompt
        return True

    async def reply(self) -> Event:
        """The answer as an event that is not stored yet; what callbacks changed is in `context`."""
        response, chain = self.response, self._bindings.callbacks.after_model
        if response is None:
            code, words = "empty_response", "the model returned nothing"
            if self._spoke:
                code, words = "cut_stream", "the model's answer was cut off before its end"
            response = ModelResponse(error_code=code, error_message=words)
        if self._traced is not None:
            self._traced.end(response)
        if self.context is not None and chain:
            response = await chain.ask_for_replacement(ModelResponse, response, self.context)
        watched = await self._find_cache_miss(response) if response.usage is not None else None
        counts = response.usage is None and self._invocation.config.count_tokens
        is_charged = counts or self._invocation.config.budget is not None
        more = self._cost_of(response) if is_charged else NOTHING
        if self._withheld and response.content is not None:
            calls = [part.function_call for part in response.content.parts or ()]
            names = {call.name or "" for call in calls if call is not None}
            tools = self._bindings.tools
            # code must not call it either
            runs_code = any(name in tools and tools[name].tool.runs_code for name in names)
            if runs_code or not names.isdisjoint(self._withheld):
                more = msgspec.structs.replace(more, withheld=sorted(self._withheld))
        return self._reply(response, watched, more)

    def _cost_of(self, response: ModelResponse) -> Provenance:
        """What the answer cost, for a run that counts it; where nobody answered, nothing."""
        spending = self._invocation.spending
        failed = response.error_code is not None and response.usage is None
        if not self._is_sent or failed:
            return NOTHING
        if spending.budget is None:
            return Provenance(spent=charge_for(self._compiled, response))
        return spending.entry(self._compiled, response)

    async def _find_cache_miss(self, response: ModelResponse) -> Miss | None:
        """The part of the request that the provider's cache missed, if the answer says so."""
        usage = response.usage
        # the compiled request tells nothing of the cache if a callback sent another one
        if usage is None or usage.cached_content_token_count is None or self._wire is not None:
            return None
        place, model = self._place, self._model()
        branch, scope = place.branch or "", place.scope or ""
        compiled, log = self._compiled, self._invocation.log.session.events
        exact = self._plan.target.facts.cache.exact
        look = partial(
            watch,
            compiled,
            usage,
            log,
            branch=branch,
            scope=scope,
            now=time.time(),
            known=response.provenance.known,
            tokens=model.tokens if exact and isinstance(model, Reader) else None,
        )
        if log.settled >= LONG and may_miss(compiled, usage, log, branch=branch, scope=scope):
            # two requests are counted, which would stop the event loop for seconds
            try:
                miss = await asyncio.to_thread(_with_collector_paused, look)
            except asyncio.CancelledError as error:
                # the answer is here, and paid for: it is stored before the run ends
                self.cancelled, miss = error, None
        else:
            miss = look()
        named = response.provenance.cached_content is not None
        return None if named else miss  # what is kept by name is all that is reused

    async def _compile(self, within: int | None) -> Compilation:
        """The compiled request. Other models are asked first, if passes want something of them."""
        config = self._invocation.config
        try:
            compiled = await self._compile_now(within, config)
        except MissingVariable:
            # another model may be about to write the variable: see what the request wants first
            lenient = msgspec.structs.replace(config, strict=False, on_missing="keep")
            wanting = await self._compile_now(within, lenient)
            if not await self._perform(wanting):
                raise  # nobody was to write what is missing
            compiled = await self._compile_now(within, config)
        if not compiled.prompt.wants:
            return compiled
        for _ in range(_ROUNDS):
            if not await self._perform(compiled):
                break
            compiled = await self._compile_now(within, config)
        return compiled

    async def _perform(self, compiled: Compilation) -> bool:
        """Ask models for what the request wants; whether anything came of it."""
        if not compiled.prompt.wants:
            return False
        from weft.runtime.effects import perform  # few requests want anything, and it loads much

        events = await perform(self._invocation, self._place, self._plan, compiled)
        self.performed += events or ()
        return events is not None

    async def _compile_now(self, within: int | None, config: RunConfig) -> Compilation:
        invocation, place, plan = self._invocation, self._place, self._plan
        agent = plan.agent
        session = invocation.log.view(place.scope)
        # the compiler does no I/O: files that it may need are loaded before
        if addresses_in(invocation.log.session.events):
            from weft.runtime.payloads import load_media

            await load_media(invocation)
        state = (
            invocation.forks.state_at(place)
            if place.scope
            else invocation.forks.temp_at(place) or None
        )
        artifacts = recorded = None
        overall = self._root.global_instruction
        reads_more = _reads_more(agent.instruction) or (bool(overall) and _reads_more(overall))
        if reads_more or plan.policy.facts.shows_artifacts:
            artifacts = await invocation.surroundings.artifact_texts()
        if reads_more:
            recorded = await provided_texts(
                plan, session, invocation, place, artifacts or {}, self._reads
            )
        whole = None
        if invocation.labels or (place.scope and hides_text(plan.policy)):  # most have none
            artifacts = artifacts or await labelled_texts(invocation, agent.cleared)
            whole = part_of(invocation)
        request = partial(
            compile_request,
            self._root,
            session=session,
            agent=agent.name,
            state=state,
            config=config,
            branch=place.branch or None,
            artifacts=artifacts,
            recorded=recorded,
            within=within,
            part_of=whole,
            deps=invocation.request.deps,
            brief=True,
        )
        if is_cold(session.events, plan.slot):
            # a long log that was just read would stop the event loop for a second
            return await asyncio.to_thread(_compile_warm, request, session)
        return request()

    def _model(self) -> Model:
        return chosen_model(self._invocation.services.models, self._plan.agent, self._plan.model)

    def _reply(self, response: ModelResponse, miss: Miss | None, more: Provenance) -> Event:
        """The answer as an event: every call has an id, and signatures know whose they are."""
        invocation, compiled, within = self._invocation, self._compiled, self._within
        content = response.content
        if content is not None:
            content = whole_characters(content)
        signed = False
        if content is not None and content.parts:
            calls = False
            for part in content.parts:
                sealed = part.thought_signature is not None or part.part_metadata is not None
                signed = signed or sealed
                if part.function_call is not None:
                    calls = True
                    signed = signed or len(part.function_call.id or "") > _USUAL_ID
            if calls:
                log, taken = invocation.log.session.events, invocation.call_ids
                content = Content(
                    parts=identify_calls(content.parts, log, taken, self._bindings.tools),
                    role="model",
                )
            elif content.role != "model":
                content = msgspec.structs.replace(content, role="model")
        metadata = response.custom_metadata
        label = self._label(response)
        noted = more is not NOTHING and more != NOTHING
        noted = noted or self._first is not None
        unanswered = None
        if self._is_sent and response.error_code and content is None:
            unanswered = compiled.prompt.model
        noted = noted or miss is not None or unanswered is not None
        if signed or compiled.provided or within is not None or noted:
            maker = response.provenance
            notes = msgspec.structs.replace(
                more,
                provider=maker.provider or compiled.dialect if signed else None,
                model=maker.model or compiled.prompt.model if signed else None,
                instructions=dict(compiled.provided) or None,
                within=within,
                unanswered=unanswered,
                first_piece=self._first,
                cache_miss=miss.to_dict() if miss is not None else None,
            )
            metadata = notes.onto(metadata)
        if label is not TRUSTED:
            metadata = note_of(label).onto(metadata)
        place = self._place
        event = Event(
            self._plan.agent.name,
            content,
            invocation.id,
            self.id,
            branch=place.branch or None,
            usage=response.usage,
            finish_reason=response.finish_reason,
            audience=self._audience(),
            model_version=response.model_version,
            custom_metadata=metadata,
            node_info=place.node_info if place.path else None,
            isolation_scope=place.scope or None,
        )
        if (
            response.error_code is None
            and response.error_message is None
            and response.grounding_metadata is None
            and response.citation_metadata is None
            and response.logprobs_result is None
            and response.avg_logprobs is None
        ):
            return event
        return msgspec.structs.replace(
            event,
            error_code=response.error_code,
            error_message=response.error_message,
            grounding_metadata=response.grounding_metadata,
            citation_metadata=response.citation_metadata,
            logprobs_result=response.logprobs_result,
            avg_logprobs=response.avg_logprobs,
        )

    def _label(self, response: ModelResponse) -> TrustLabel:
        """The label of the answer: that of the request that was sent, and of what callbacks read.

        What a provider looked up by itself, it read somewhere.
        """
        made_of, flow = sources_of(self._prompt), self._invocation.flow
        label = made_of.label
        if made_of.names or self._compiled.observed or self._reads:
            read = {*made_of.names, *self._compiled.observed, *self._reads}
            label |= flow.of_names(read)
            if USER_WORDS in read:
                label |= flow.of_user(self._place)
        if self.context is not None:
            label |= flow.of_context(self.context)
        if self._plan.agent.cleared:
            label |= self._secrets(made_of.names)
        if label.secrets:  # what a label follows was withheld from who is not cleared for it
            cleared = self._plan.agent.cleared
            hidden = follow_labels(self._invocation, label.secrets).difference(cleared)
            rest = tuple(name for name in label.secrets if name not in hidden)
            label = TrustLabel(label.taint, label.typed, rest)
        hosted = self._bindings.hosted
        if hosted and _looked_up(response):
            label |= TrustLabel(tuple(sorted(f"{name}.result" for name in hosted)))
        return label

    def _secrets(self, names: frozenset[str]) -> TrustLabel:
        """The secrets among the keys and artifacts that a request shows who is cleared for them."""
        cleared = self._plan.agent.cleared
        visible_items = [
            one.name
            for one in self._invocation.labels
            if one.name in cleared
            and not names.isdisjoint((*one.keys, *(f"artifact:{name}" for name in one.artifacts)))
        ]
        return TrustLabel(secrets=tuple(sorted(visible_items))) if visible_items else TRUSTED

    def _audience(self) -> Literal["internal"] | None:
        """Whether what the agent says is data for others: then it is not shown as the answer."""
        return "internal" if self._plan.agent.name in self._invocation.program.inner else None


def _looked_up(response: ModelResponse) -> bool:
    """Whether the provider ran something for its answer."""
    if response.grounding_metadata or response.citation_metadata:
        return True
    parts = (response.content.parts if response.content is not None else None) or ()
    return any(
        part.tool_response or part.code_execution_result or part.part_metadata for part in parts
    )


MARGIN = 0.9
"""Share of the provider's limit to use: our count and theirs differ a little."""

GUESS = 0.5
"""Share of the refused request to send again if the provider names no limit."""

_SUM = late_pattern(r"(\d+)\s*\+\s*(\d+)\s*>\s*(\d+)")

_NUMBER = late_pattern(r"\d[\d,_]*\d|\d")


def _reads_more(instruction: object) -> bool:
    """Whether an instruction may read more than the state."""
    if not instruction:
        return False
    return not isinstance(instruction, str) or "artifact." in instruction


def _compile_warm(request: Callable[[], Compilation], session: Session) -> Compilation:
    """Compile, and derive at once what the turn will ask of a long log."""
    with collector_paused():
        compiled = request()
        with suppress(WeftError):  # who asks for the wire next gets the error
            _ = compiled.wire, compiled.refused
        _ = session.waiting
    return compiled


def _with_collector_paused(look: Callable[[], Miss | None]) -> Miss | None:
    with collector_paused():
        return look()


def tighter(compiled: Compilation, error: ModelError) -> int:
    """The tokens to stay within, as Weft counts them, after the provider refused this request."""
    counted = compiled.tokens
    if (parts := _SUM.search(error.message)) is not None:
        prompt, answer, limit = (int(part) for part in parts.groups())
        # such a limit is for prompt and answer together
        limit = max(1, limit - answer)
    else:
        numbers = [int(re.sub("[,_]", "", text)) for text in _NUMBER.findall(error.message)]
        # smaller numbers are not token counts
        sizes = [size for size in numbers if size >= 100]
        if not sizes:
            return max(1, int(counted * GUESS))
        prompt, limit = max(sizes), min(sizes)
    # the message names one size only, which is the limit
    if prompt <= limit:
        prompt = max(counted, limit + 1)
    return max(1, int(counted * limit / prompt * MARGIN))


UNNAMED = "unnamed"
"""Name for a call without one: a request must name every call."""

_LEGAL = late_pattern(r"[a-zA-Z0-9_-]{1,64}")
"""Names that every provider takes."""


def identify_calls(
    parts: tuple[Part, ...], log: Strand[Event], taken: set[str], tools: Container[str] = ()
) -> tuple[Part, ...]:
    """The parts, with a legal name and a new id on each call; the provider's own if they will do.

    `taken` are the ids given in this invocation, whether they are in the log yet or not, and
    `tools` the names that may be called, which stay as they are.
    """
    named: list[Part] = []
    for part in parts:
        call = part.function_call
        if call is not None:
            call_id, name = call.id or "", call.name or ""
            # a result finds its call by the id, so no two calls of a log may share one
            if not call_id or call_id in taken or call_id in _list_call_ids(log):
                call_id = f"adk-{new_id()}"
            taken.add(call_id)
            if name not in tools:
                name = _legal_name(name)
            if call_id != call.id or name != call.name:
                call = msgspec.structs.replace(call, id=call_id, name=name)
                part = msgspec.structs.replace(part, function_call=call)
        named.append(part)
    return tuple(named)


def _legal_name(name: str) -> str:
    """A legal form of the name. A model may invent one that no later request could carry."""
    if _LEGAL.fullmatch(name):
        return name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or UNNAMED


def _list_call_ids(log: Strand[Event]) -> set[str]:
    """The ids of the log's calls; looked up once, and kept up with the log."""
    known = log.memo[_CallIds]
    # the ids of a long log that is not decoded yet stand in its skim
    if not known.read and (skim := skim_of(log)) is not None:
        known.ids = skim.calls_before(skim.length)
        known.read = skim.length
    if known.read < log.length:
        for event in log.since(known.read):
            content = event.content
            for part in (content.parts or ()) if content is not None else ():
                if part.function_call is not None:
                    known.ids.add(part.function_call.id or "")
        known.read = log.length
    return known.ids


class _CallIds:
    """The ids of the calls in a log's first `read` events."""

    __slots__ = ("ids", "read")

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.read = 0


def must_wait(provider: object) -> bool:
    """Whether the instruction comes from a coroutine function."""
    if provider is None or isinstance(provider, (str, Raw)):
        return False
    function, _ = target_of(provider)
    # an object with an async `__call__` is waited for too
    called = cast("object", getattr(function, "__call__", None))  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


async def provided_texts(
    plan: Plan,
    session: Session,
    invocation: Invocation,
    place: Place,
    artifacts: dict[str, str] | None,
    reads: set[str],
) -> dict[str, str] | None:
    """What the async providers of this request say, under the names `compile(recorded=)` knows.

    What they read is added to `reads`.
    """
    agent, root = plan.agent, plan.path[0]
    texts: dict[str, str] = {}
    for field, provider in (
        ("global_instruction", root.global_instruction),
        ("instruction", agent.instruction),
    ):
        if not must_wait(provider):
            continue
        context = ReadonlyContext(
            agent_name=agent.name,
            state=invocation.forks.state_at(place),
            events=session.events,
            invocation_id=invocation.id,
            user_content=invocation.context(agent.name, Place()).user_content,
            artifacts=artifacts,
            deps=invocation.request.deps,
        ).apart()
        function, extra = target_of(provider)
        try:
            value = await cast("Awaitable[object]", function(context, *extra))
        except Exception:
            if (invocation.config.on_provider_error or agent.on_provider_error) == "raise":
                raise
            _log.warning("%s.%s: the provider raised", agent.name, field, exc_info=True)
            value = ""
        reads |= context.reads
        if isinstance(value, Raw):
            texts[f"{field}.raw"] = value.text
        else:
            text = texts[field] = "" if value is None else str(value)
            if values := values_in(text, context):
                texts[f"{field}{VALUES}"] = " ".join(map(str, values))
    return texts or None
