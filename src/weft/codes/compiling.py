"""The codes of compiling and running: what is wrong with one request."""

from weft.codes.code import Code, Severity

_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

COMPILING = (
    Code(
        "WEFT101",
        _W,
        "missing variable",
        """A `{variable}` has no value in state.

Why it matters: the placeholder reaches the model as text.

Flagged:      Agent("greeter", instruction="Greet {user_name}.") without `user_name` in state
Use instead:  put `user_name` into state, write `{user_name?}` if it may be absent,
              `{{user_name}}` if the braces are meant literally, or set on_missing="empty".
""",
    ),
    Code(
        "WEFT102",
        _W,
        "instruction provider failed",
        """A callable instruction raised.

Why it matters: its text is missing from the request; the agent answers without it.

Use instead:  mend the provider, or set on_provider_error="raise" to stop the run.
""",
    ),
    Code(
        "WEFT103",
        _W,
        "global instruction below the root",
        """An agent that is not the root has a `global_instruction`.

Why it matters: it is sent to nobody; only the root's is, to every agent of the tree.

Use instead:  move it to the root, or into the agent's own instruction.
""",
    ),
    Code(
        "WEFT104",
        _W,
        "two tools wrote one key",
        """Two tools of one reply ran side by side and wrote different values to one state key.

Why it matters: only one of the values is kept, the later call's; the other is lost.

Use instead:  let each tool write its own key, or declare one of them @tool(sequential=True),
              so that it runs alone and sees what the other wrote.
""",
    ),
    Code(
        "WEFT117",
        _E,
        "input missing",
        """The state does not hold an input that the program declares, or holds it in another type.

Why it matters: a run does not start without it.

Flagged:      weft.run(Agent("writer", inputs={"topic": str}), "Write.")
Use instead:  weft.run(writer, "Write.", state={"topic": "tea"}); --state topic=tea in a shell;
              inputs={"topic": str | None} if it may be absent.
""",
    ),
    Code(
        "WEFT118",
        _W,
        "key that a custom agent does not declare",
        """The code of a custom agent writes a state key that its `writes` does not name.

Why it matters: the check proves what later agents can read from `writes`. Under
RunConfig(strict=True) the run fails with `undeclared_write`.

Flagged:      class Escalate(CustomAgent) with writes = ("owner",) and ctx.say("Hi.", level=3)
Use instead:  writes = ("owner", "level").
""",
    ),
    Code(
        "WEFT303",
        _I,
        "toolset that was not asked",
        """The request is for an agent with a toolset that is asked in each run, and the log has
no answer of it.

Why it matters: the tools that it would answer are not in the request, nor counted.

Flagged:      weft.compile(Agent("bot", tools=[tools_for]), message="Hi.") before any run
Use instead:  the session of a run: weft.compile(bot, session=result.session).
""",
    ),
    Code(
        "WEFT305",
        _I,
        "tools that are not declared",
        """A server lists tools that take more tokens than a request should spend on them. The
model finds them with `find_tools` and calls them with `call_tool`.

Why it matters: it says how many tokens each request saves.

Use instead:  MCP(..., defer=False) declares all; only=["name"] declares a few.
""",
    ),
    Code(
        "WEFT306",
        _W,
        "tool that its server has changed",
        """A server describes a tool otherwise than it did earlier in this session.

Why it matters: a description is an instruction to the model. Whoever controls the server may
have put one there, after somebody looked at the tool and trusted it.

Use instead:  read what it says now; leave the tool out with MCP(..., only=[...]).
""",
    ),
    Code(
        "WEFT307",
        _W,
        "server without its tools",
        """A server could not be asked for its tools, or lists some that cannot be offered: an
invalid schema, a name twice, nothing of what `only=` names.

Why it matters: the run goes on without them, or with those that the session knows.

Use instead:  start the server; MCP(..., required=True) ends the run instead.
""",
    ),
    Code(
        "WEFT409",
        _W,
        "undeclared agent below a custom agent",
        """A custom agent ran an agent that is neither in its `sub_agents` nor an attribute of it.

Why it matters: the check, the picture and `explain` do not see it.

Flagged:      ctx.run(classifier), where classifier is a variable of the module
Use instead:  Escalate("escalate", sub_agents=[classifier]), or an attribute of the agent:
              ctx.run(self.classifier).
""",
    ),
    Code(
        "WEFT201",
        _W,
        "call without result",
        """A tool call in the log has no result, and is not marked long-running.

Why it matters: providers refuse such a request. Weft adds a synthetic result that says so.

Use instead:  append the tool's result, or list the call in `long_running_tool_ids`.
""",
    ),
    Code(
        "WEFT202",
        _W,
        "result without call",
        """A tool result in the log answers no visible call.

Why it matters: providers refuse such a request. Weft keeps the result as attributed text.

Use instead:  keep call and result in one branch, under one id.
""",
    ),
    Code(
        "WEFT204",
        _W,
        "unsendable text mended",
        """A text holds a lone surrogate, which no UTF-8 request can carry, or only blanks.

Why it matters: the request could not be sent. Weft puts U+FFFD in the surrogate's place, and
`[blank]` where a provider refuses a turn without words.

Use instead:  mend the text where it is made; it is often an emoji cut in half.
""",
    ),
    Code(
        "WEFT205",
        _W,
        "stale result",
        """A result in view is older than the policy calls fresh.

Why it matters: what it says may no longer hold.

Use instead:  call the tool again, or .fresh(stale="drop").
""",
    ),
    Code(
        "WEFT301",
        _W,
        "tool without description",
        """A tool has no docstring.

Why it matters: the model has only its name to decide by.

Flagged:      def lookup(q: str) -> str: ...
Use instead:  give it a docstring, or @tool(description=...).
""",
    ),
    Code(
        "WEFT501",
        _I,
        "dropped for the budget",
        """Items were left out so that the request fits its budget.

Why it matters: the model no longer sees them.

Use instead:  nothing to do, or raise the budget, or give what matters .priority(1).
""",
    ),
    Code(
        "WEFT502",
        _W,
        "sent bytes changed",
        """A policy changed a part of the request that had been sent before.

Why it matters: the provider reads everything after the change again, at the full price.

Use instead:  C.auto(), which changes what was sent only when that pays, or nothing: the message
              says what it costs now and saves later.
""",
    ),
    Code(
        "WEFT503",
        _I,
        "reduced for the budget",
        """Items were reduced so that the request fits its budget.

Why it matters: the model sees less of them; `explain` says what was given up.

Use instead:  nothing to do, or raise the budget, or give what matters .priority(1).
""",
    ),
    Code(
        "WEFT504",
        _W,
        "done without the model",
        """A part of a policy asks a model, and there is no outcome to use.

Why it matters: the model was not asked yet, failed, or answered what cannot be accepted; what
is done in its place is simpler: words in common for relevance, an extract for a summary.

Use instead:  run the agent, so that the model is asked, or mend what the message names.
""",
    ),
    Code(
        "WEFT508",
        _W,
        "answer cut off at the token limit",
        """The model stopped because its answer had as many tokens as it may have. What there is
of it was kept, as the answer and under `output_key`.

Why it matters: what reads it takes it for whole: half a plan, a list without its end.

Use instead:  a larger `generate_config={"max_output_tokens": ...}`; on_truncated="continue" to
              have the model go on, or on_truncated="error" to refuse such an answer.
""",
    ),
    Code(
        "WEFT509",
        _W,
        "nothing more can be folded",
        """Steps become notes where that pays, or where a request fills the model's window, and here
too few of them may: they are in tier 1, carry a label or wait for a result, or what stands before
the conversation takes the window alone.

Why it matters: the request grows on, and a provider refuses one that exceeds the window.

Use instead:  a shorter instruction or fewer tools, .priority(1) and labels only where they are
              needed, or .budget(n), which also leaves things out.
""",
    ),
    Code(
        "WEFT505",
        _W,
        "run budget nearly spent",
        """A run has used 80% of its budget of tokens, steps, seconds or money.

Why it matters: at 100% it stops.

Use instead:  raise the limit in RunConfig(budget=RunBudget(...)), or nothing.
""",
    ),
    Code(
        "WEFT601",
        _W,
        "labelled value withheld",
        """Something carries a label that the agent's model, or a tool, is not cleared for.

Why it matters: it is not sent; a mark stands in its place.

Use instead:  clear the agent, Agent(cleared=["secret"]), or the tool, @tool(cleared=["secret"]),
              or keep the value away from it.
""",
    ),
    Code(
        "WEFT602",
        _I,
        "values redacted",
        """Values were replaced by placeholders before the request was sent.

Why it matters: the model does not see them.

Use instead:  nothing to do; restore= puts them back into tools' arguments and answers.
""",
    ),
    Code(
        "WEFT603",
        _W,
        "incomplete context",
        """Something that the request refers to is not in it.

Why it matters: the model answers without it, or invents it.

Use instead:  what the message names: write the key, select the item, answer the call.
""",
    ),
    Code(
        "WEFT604",
        _W,
        "contradicting context",
        """Two parts of the request say different things about one matter.

Why it matters: the model believes one of them, nobody knows which.

Use instead:  C.default().dedupe("superseded"), or .fresh(turns=...), or drop one of them.
""",
    ),
    Code(
        "WEFT605",
        _I,
        "little said in many words",
        """Most of what the request says, it says more than once.

Why it matters: the tokens are paid for, and what matters drowns.

Use instead:  .dedupe(), .project(fields=...), .compact() or C.auto().
""",
    ),
    Code(
        "WEFT606",
        _I,
        "lookalike marks neutralised",
        """Text that nobody vouches for held marks like those that fence it.

Why it matters: it may have been an attempt to be taken for an instruction.

Use instead:  nothing to do; the marks no longer are any.
""",
    ),
    Code(
        "WEFT607",
        _E,
        "pattern took too long",
        """A regular expression of a redaction did not come to an end in time.

Why it matters: what it would have found is unknown, so the text is withheld.

Use instead:  a simpler pattern: no repeat inside a repeat.
""",
    ),
    Code(
        "WEFT609",
        _W,
        "claim from outside ignored",
        """Somebody else said what only a model, a provider or Weft itself can say: a log holds a
call, a thought or a signature in a user's message, or, in a session that was read from outside,
a provider's own JSON (`partMetadata.weft`) or what callable instructions said.

Why it matters: it would reach the model as the agent's word, or unread. It is not sent.

Use instead:  let clients post text, media and answers to open calls. Read a session that your
              own Weft wrote with Session.from_json(data, trusted=True), or `--trusted`.
""",
    ),
    Code(
        "WEFT610",
        _I,
        "braces of a value left alone",
        """A callable instruction put a value with a `{placeholder}` in it into its text.

Why it matters: what a value says is not the author's word, so it is sent as it is. Where the
author wrote the same placeholder, nobody can tell the two apart, and his is left alone too.

Use instead:  read the value in the template, `{key}`, instead of in the function; or give the
              author's placeholder another name.
""",
    ),
    Code(
        "WEFT611",
        _I,
        "tool name respelled",
        """A log has calls of a tool whose name the provider would refuse.

Why it matters: the request could not be sent. The calls and their results carry a name made of
the one in the log; the log stays as it is.

Use instead:  nothing to do for logs of another program; call a tool of your own by letters,
              digits and _.
""",
    ),
    Code(
        "WEFT612",
        _W,
        "untrusted text decided on a call",
        """A consequential call was asked about, refused or made though untrusted text had influence
on it, or nobody vouches for one of its arguments. The path says how the text came there.

Why it matters: who wrote the text may have ordered the call, not the user.

Flagged:      read_file -> bot -> send_money.recipient
Use instead:  requires={"recipient": ["user", "ledger.iban"]} names who may vouch for it,
              .sees(C.default().hide()) keeps the text from the agent, a gate or a step endorses it.
""",
    ),
    Code(
        "WEFT701",
        _W,
        "schema keyword lost",
        """A dialect cannot express a keyword of a schema.

Why it matters: the model is not held to it by the provider. Under strict it is an error.

Use instead:  validate it in the tool, or say it in the description.
""",
    ),
    Code(
        "WEFT702",
        _W,
        "option not supported",
        """A dialect has no such generation option.

Why it matters: it would be ignored by the provider. Under strict it is an error.

Use instead:  drop the option for this model, or set the provider's own under `extra`.
""",
    ),
    Code(
        "WEFT703",
        _W,
        "media not supported",
        """A dialect cannot carry this media there.

Why it matters: the model gets a text in its place that names what is missing.

Use instead:  convert the media, or send it in a user message.
""",
    ),
    Code(
        "WEFT704",
        _I,
        "foreign signature dropped",
        """A thought, signature or opaque part belongs to another provider.

Why it matters: the provider would refuse it; its own reasoning starts afresh.

Use instead:  nothing to do; it happens when a session changes its model.
""",
    ),
    Code(
        "WEFT705",
        _I,
        "code shown as text",
        """A dialect has no part for executed code; it is sent as text.

Why it matters: the model sees the code and its output, but not as its own tool's.

Use instead:  nothing to do.
""",
    ),
    Code(
        "WEFT706",
        _W,
        "unknown model",
        """The vendor lists no model of that name.

Why it matters: the call costs a round trip and brings no answer.

Flagged:      Agent("bot", model="a-known-model-proo")
Use instead:  a name of the vendor's list, such as the hint's; one that is newer than this list
              is taken as it is with allow="WEFT706".
""",
    ),
    Code(
        "WEFT707",
        _W,
        "request would be refused",
        """Something in the request is what its provider answers with an error.

Why it matters: the call costs a round trip and brings no answer.

Use instead:  what the hint says; the place is the message's own.
""",
    ),
    Code(
        "WEFT708",
        _I,
        "system text in a user turn",
        """A dialect has no role for a system text in mid-conversation.

Why it matters: the model reads it in the user's turn, after `[system]:`.

Use instead:  nothing to do, or say it before the conversation.
""",
    ),
    Code(
        "WEFT709",
        _E,
        "provider tool not available",
        """An agent has a tool that its model's provider does not run.

Why it matters: the tool is left out, so the model answers without it. Under strict it is an error.

Flagged:      Agent("bot", model="one-without-files", tools=[FileSearch(["store"])])
Use instead:  a model whose provider has the tool, or a function of your own that does the same.
""",
    ),
    Code(
        "WEFT710",
        _I,
        "tool of an earlier call",
        """An agent has no tools, its history has calls, and its provider wants tools with calls.

Why it matters: the tools it called are declared without their parameters, and the model cannot call
them.

Use instead:  nothing to do, or give the agent its tools back.
""",
    ),
    Code(
        "WEFT711",
        _W,
        "request left as it came",
        """`weft.compact` did less to a request than its policy asks for.

Why it matters: it costs what it did before. Either the provider would refuse the request without
what the policy leaves out, or the request cannot have the tool `recall`, because another tool has
that name or the answer's schema rules tools out. Then nothing is hidden, and only forms are used
that stay in view.

Flagged:      weft.compact(request, C.nothing())
Use instead:  C.auto(), which keeps every message; another name for your own tool `recall`.
""",
    ),
)
