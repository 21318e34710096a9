"""The codes of checking a flow before it runs, and of bringing one over from google-adk."""

from weft.codes.code import Code, Severity

_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

CHECKING = (
    Code(
        "WEFT105",
        _E,
        "variable that nobody writes",
        """An agent, step or predicate reads a key that nothing before it writes.

Why it matters: the placeholder reaches the model as text, or the step fails.

Flagged:      Agent("booker", instruction="Intent: {intent}") with nobody before it
Use instead:  classifier.writes("intent") >> booker, check(flow, inputs={"intent": str}),
              or {intent?} if it may be absent.
""",
    ),
    Code(
        "WEFT106",
        _W,
        "variable written on some paths",
        """A key that is read is written only if the run takes certain paths.

Why it matters: on the others the placeholder reaches the model as text.

Flagged:      Route("kind").eq("a", x.writes("plan")).otherwise(y) >> Agent(instruction="{plan}")
Use instead:  write it on every path, set it before, or read {plan?}.
""",
    ),
    Code(
        "WEFT107",
        _E,
        "variable dropped or renamed before",
        """A key is read after a step that took it away; or a `temp:` key after a gate, where the
run ends and goes on later without it.

Why it matters: it was there, and no longer is.

Flagged:      S.rename(findings="input") >> Agent(instruction="{findings}")
Use instead:  read the new name, or drop it later.
""",
    ),
    Code(
        "WEFT108",
        _E,
        "route on a key that nobody writes",
        """A route decides by a key that nothing before it writes.

Why it matters: the run fails there, or always takes `otherwise`.

Flagged:      Agent("triage") >> Route("intent").eq("booking", booker).otherwise(helper)
Use instead:  Agent("triage").writes("intent") >> Route("intent")...
""",
    ),
    Code(
        "WEFT109",
        _E,
        "path or type that does not fit its producer",
        """What is read does not fit the schema of whoever writes it: a field that is not there, a
map over what is not a list, text that is compared with a number.

Why it matters: there is nothing at the end of the path, or the run fails there.

Flagged:      {invoice.totl} after Agent(output_key="invoice", output_schema=Invoice)
              scorer.writes("score") >> Route("score").gt(0.8, ...)
              planner.writes("items") >> Map("items", ...)
Use instead:  a field of the schema; agent @ Schema, so that it writes a number or a list.
""",
    ),
    Code(
        "WEFT110",
        _E,
        "two branches write one key",
        """Branches that run at once write the same key.

Why it matters: one value is lost, and which one is a matter of time.

Flagged:      web.writes("facts") | papers.writes("facts")
Use instead:  a key for each, combined afterwards: (web | papers) >> writer.
""",
    ),
    Code(
        "WEFT111",
        _E,
        "branch reads its sibling",
        """A branch reads what is written, or taken away, in a parallel branch.

Why it matters: branches run at once; whether the value is there already is a matter of time. Often
the parentheses are missing: `a | b >> c` is a | (b >> c).

Use instead:  (a | b) >> c.
""",
    ),
    Code(
        "WEFT112",
        _I,
        "key that nobody reads",
        """A key is written, and nothing reads it, after it or on the next turn. Where it holds
all that an agent says, and no other agent sees its words either, this is a warning.

Why it matters: it may be meant for the application; else it is work for nothing.

Use instead:  read it, or leave it out.
""",
    ),
    Code(
        "WEFT113",
        _I,
        "key inferred",
        """An agent writes a key though it does not say so: what follows it reads just that key.

Why it matters: `a >> b` means that what a says feeds b; it is done as if a had said so.

Use instead:  a.writes("key") to say it, or RunConfig(infer=False) and check(infer=False).
""",
    ),
    Code(
        "WEFT114",
        _W,
        "not a placeholder",
        """A text looks as if it read a key of the state, and does not: `{plan-x}`, `{plan:>10}`,
`%(plan)s`, `$plan`, `{state['plan']}`, `{{plan}}`, `{plan` without its other brace, `{usr:plan}`
with a scope that there is none of. Or it does, and a sign of another language is sent with the
value: `${plan}`, `#{plan}`. A sign before a price or a number, and doubled braces in a sentence
about placeholders, are meant. `{ plan }` is filled in; that is a note.

Why it matters: it is sent as it stands there, and the value is not.

Flagged:      Agent("worker", instruction="Carry out $plan.") after planner.writes("plan")
Use instead:  {plan}; {{plan}} where the braces themselves are meant.
""",
    ),
    Code(
        "WEFT115",
        _W,
        "artifact that nobody saves",
        """A template, a policy or a label names an artifact that nothing saves, and something saves
one that is called nearly so.

Why it matters: the placeholder reaches the model as text, or the label guards nothing.

Flagged:      {artifact.chrt} where a tool does ctx.save_artifact("chart", ...)
Use instead:  the name that it is saved under.
""",
    ),
    Code(
        "WEFT116",
        _W,
        "whole answer taken for a name",
        """A key that is inferred is called like a short value, a name, an address, a number, and
nothing about the agent before it says that its answer is one.

Why it matters: all that the agent says stands where a name should: "Dear Here is your plan ...".

Flagged:      planner >> Agent("mail", instruction="Dear {name}") where planner plans a trip
Use instead:  inputs={"name": str} where the application gives it, or planner.writes("name") if the
              answer is one.
""",
    ),
    Code(
        "WEFT206",
        _W,
        "value seen twice",
        """A value reaches an agent through its template and through the conversation; or the
user's message, captured under two keys, through both.

Why it matters: it is paid for twice, and the model may take it for two values.

Flagged:      Agent("booker", instruction="Intent: {intent}").sees(C.default().keep_duplicates())
Use instead:  leave out keep_duplicates(): the template wins.
""",
    ),
    Code(
        "WEFT207",
        _W,
        "output that reaches nobody",
        """An agent's words are stored under no key, and no agent after it sees them. In a map
this holds for branches that run at once: the list has what a run itself said last.

Why it matters: what it found out is lost.

Flagged:      Agent("researcher") >> Agent("writer").sees(C.none())
Use instead:  researcher.writes("findings") and {findings}, or a policy that shows its words.
""",
    ),
    Code(
        "WEFT208",
        _W,
        "user's message lost",
        """An agent neither sees what the user said nor reads anything that stands for it: a label
that a route decides by, a number or one of a few words do not. Where it reads text that an agent
before it wrote, that may be all it needs, and this is a note. An instruction that stands alone,
such as "Write two lines about the sea", needs no message.

Why it matters: it answers a question that it does not know.

Flagged:      Agent("booker", instruction="Help book.").sees(C.nothing())
Use instead:  C.none(), which keeps the message, or a key that holds the request.
""",
    ),
    Code(
        "WEFT209",
        _W,
        "view of nobody",
        """A policy names an agent that is not in the flow, or a tag that nothing gives.

Why it matters: it shows nothing, or leaves nothing out; often the name is misspelt.

Flagged:      writer.sees(C.agents("reseacher")) after Agent("researcher")
Use instead:  the agent's name; S.tag("finding") after the agent for C.select(tag="finding").
""",
    ),
    Code(
        "WEFT302",
        _W,
        "agent without description",
        """An agent or a flow that others hand over to, or call as a tool, has no description.

Why it matters: a model decides by its name alone whether to turn to it.

Flagged:      Agent("desk", sub_agents=[Agent("billing")])
Use instead:  Agent("billing", description="Bills and refunds").
""",
    ),
    Code(
        "WEFT304",
        _W,
        "tool that the agent does not have",
        """An instruction tells an agent to call a tool, or its code is to call one, and the agent
has no tool of that name. In a text about code, which names functions that are not tools, this is a
note.

Why it matters: the model cannot do what it is told; a loop that waits for `exit_loop` takes all
its rounds; code meets a NameError.

Flagged:      Agent("refiner", instruction="If it is good, call exit_loop.") without tools
Use instead:  Agent("refiner", tools=[exit_loop], instruction="If it is good, call exit_loop.")
""",
    ),
    Code(
        "WEFT401",
        _W,
        "case that is never come to",
        """A case of a route holds only where one before it holds too.

Why it matters: the first case that holds decides, so what it leads to never runs.

Flagged:      Route("score").gt(5, good).gt(8, excellent)
Use instead:  the narrower case first: Route("score").gt(8, excellent).gt(5, good).

An `otherwise` that no value of the producer's schema leads to is mentioned too, as a note.
""",
    ),
    Code(
        "WEFT402",
        _W,
        "value that leads nowhere",
        """A route has no case for a value that its producer may write, and no `otherwise`.

Why it matters: the run fails there with `no_route`.

Flagged:      Route("intent").eq("booking", booker) after Literal["booking", "other"]
Use instead:  a case for each value, or .otherwise(agent).
""",
    ),
    Code(
        "WEFT403",
        _E,
        "label that cannot occur",
        """A route, or a function of the state, compares with a value that the schema of whoever
writes the key does not allow.

Why it matters: it never holds; often it is misspelt.

Flagged:      Route("intent").eq("bokking", booker) after Literal["booking", "other"]
Use instead:  a value of the schema.
""",
    ),
    Code(
        "WEFT404",
        _W,
        "loop without an exit",
        """Nothing in a loop writes what its condition asks for; or a tool that is called like
its way out, `exit_loop`, does not end it.

Why it matters: it always takes all its rounds.

Flagged:      writer * until(lambda state: state["score"] > 0.8) with nobody writing `score`
Use instead:  write the key in the loop, or loop a fixed number of times.
""",
    ),
    Code(
        "WEFT405",
        _W,
        "parentheses that are likely missing",
        """`>>` binds tighter than `|`, so `a | b >> c` is a | (b >> c); and a branch reads what
another one writes, as if the parentheses stood elsewhere.

Why it matters: the step runs in parallel to the branches that it was to put together.

Flagged:      web | papers >> Agent("writer", instruction="Combine {web} and {papers}.")
Use instead:  (web | papers) >> writer. print(flow) shows all parentheses.
""",
    ),
    Code(
        "WEFT406",
        _W,
        "sub-agents that nobody reaches",
        """An agent has sub-agents, and its tool_choice keeps it from handing over to them.

Why it matters: they never run.

Flagged:      Agent("desk", sub_agents=[billing], generate_config={"tool_choice": "none"})
Use instead:  leave tool_choice out, or leave out the sub-agents.
""",
    ),
    Code(
        "WEFT407",
        _E,
        "transfers without an end",
        """An agent must hand over, and so must everybody it can hand over to.

Why it matters: nobody ever answers; the run ends with `transfer_loop` or `max_transfers`.

Flagged:      two agents with generate_config={"tool_choice": {"name": "transfer_to_agent"}}
Use instead:  let one of them answer.
""",
    ),
    Code(
        "WEFT408",
        _E,
        "more calls than a run may make",
        """A flow asks models more often than `max_llm_calls` allows, whichever way it takes.

Why it matters: every run ends with an error before the flow does.

Flagged:      agent * 501, where a run makes 500 calls at most
Use instead:  fewer rounds, an end for the loop: until(...), or RunConfig(max_llm_calls=...).
""",
    ),
    Code(
        "WEFT506",
        _E,
        "fixed text longer than the budget",
        """What is sent in any case, the agent's texts and tools, takes more tokens than its budget.

Why it matters: every request would fail.

Use instead:  a larger budget, or a shorter instruction.
""",
    ),
    Code(
        "WEFT507",
        _I,
        "what changes stands before what stays",
        """A long instruction begins with a variable.

Why it matters: providers reuse a request up to its first changed byte, so none of it is reused.

Use instead:  put the variable last, or into a text of its own.
""",
    ),
    Code(
        "WEFT608",
        _W,
        "secret on its way to a model",
        """A labelled key is read by an agent or a tool that is not cleared for the label, or an
agent has a tool whose results it is not cleared for. A label stays with a value that `S` renames
or puts together.

Why it matters: it is withheld, and the agent works without it; or it leaks under a new name.

Flagged:      Agent("clerk", instruction="Pay to {iban}") where a tool writes `iban` as secret
Use instead:  Agent(cleared=["secret"]), @tool(cleared=["secret"]), or do not read it there.
""",
    ),
    Code(
        "WEFT613",
        _W,
        "untrusted text can reach a consequential call",
        """An agent has a consequential tool and sees text that nobody vouches for: of its tools, or
under a key that an agent with such tools writes. The path says how the text comes there.

Why it matters: who wrote the text may order the call. At run time the user is asked each time.

Flagged:      read_file -> bot -> send_money.recipient
Use instead:  @tool(requires={"recipient": ["user"]}), and .sees(C.default().hide()) on the agent.
""",
    ),
    Code(
        "WEFT614",
        _I,
        "consequences without a word about trust",
        """A tool that must not run twice stands next to an untrusted source, and declares neither
`consequential` nor `requires`.

Why it matters: its calls are not restricted, whatever text had influence on them.

Flagged:      @tool(effect="unsafe") next to a tool that reads web pages
Use instead:  @tool(effect="unsafe", consequential=True), or requires= with who may vouch.
""",
    ),
    Code(
        "WEFT615",
        _E,
        "voucher that does not exist",
        """`requires` names the field of a tool that no agent has.

Why it matters: nothing can vouch for the argument, and every call is asked about.

Flagged:      requires={"recipient": ["ledgr.iban"]} where the tool is `ledger`
Use instead:  the name of the tool as it is declared.
""",
    ),
    Code(
        "WEFT620",
        _W,
        "label on nothing",
        """A label names a state key, a tool or an artifact that is not there.

Why it matters: what it should guard is called otherwise, and is sent to every model.

Flagged:      C.default().label("secret", "ibn") where the key is `iban`
Use instead:  the name that is there.
""",
    ),
    Code(
        "WEFT621",
        _W,
        "clearance for nothing",
        """An agent or a tool is cleared for a label that nothing carries, and there is one that is
called nearly so.

Why it matters: it does not see what it is meant to see.

Flagged:      Agent("doctor", cleared=["medcal"]) where a tool has labels=["medical"]
Use instead:  the label as it is declared.
""",
    ),
)

# --- flows of google-adk

IMPORTING = (
    Code(
        "WEFT190",
        _I,
        "braces read differently",
        """google-adk and Weft read braces in an instruction differently.

Why it matters: google-adk fills in `{{name}}`, which is an escape elsewhere, and leaves a path
into a value, `{order.total}`, as text.

Use instead:  {name} for a variable; a key of its own for a part of a value.
""",
    ),
    Code(
        "WEFT490",
        _I,
        "not looked into",
        """A part of an imported agent is code, or done by the provider.

Why it matters: what it reads and writes is unknown. Where it could write any key, rules that
would have to know stay silent after it. Weft does not run it: a run that would come to it is
refused before it begins, but for code that is only not understood. It is a warning where a tool
is hidden by another of its name: google-adk never calls it.

Use instead:  nothing to do; for a hidden tool, another name.
""",
    ),
)
"""What an agent of another framework has that Weft reads differently."""
