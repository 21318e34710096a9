"""Words that other vocabularies have for what `C`, `S` and flows say, and ours for them.

They are only looked at to write an error: who comes from elsewhere is told what to type.
"""

WORDS_ELSEWHERE = {
    "C.all": "C.default()",
    "C.exclude": 'C.without_agents("name")',
    "C.exclude_agents": 'C.without_agents("name")',
    "C.everything": "C.default()",
    "C.from_agents": 'C.agents("name")',
    "C.from_agents_windowed": 'C.agents("name").summarize(before=3)',
    "C.from_state": 'C.state("key")',
    "C.full": "C.default()",
    "C.history": "C.default()",
    "C.last": "C.window(3)",
    "C.last_n_turns": "C.window(3)",
    "C.manus_cascade": "C.default().compact().budget(8000)",
    "C.pipeline_aware": 'C.user() + C.state("key"), or no policy at all: that is the default',
    "C.recall": "C.default().compact(): the model then has a tool of this name",
    "C.rolling": "C.default().summarize(before=5)",
    "C.shared_thread": "C.default()",
    "C.template": 'the text into the instruction: agent.instruct("About {topic}.")',
    "C.trim": "C.window(3), or .truncate(500) for long texts",
    "C.user_only": "C.user()",
    "C.user_strategy": 'C.user("bookend")',
    "C.write_notes": 'C.default().note("key")',
    "S.branch": 'Route("key").eq("value", S.set(x=1)).otherwise(S.set(x=2))',
    "S.filter": 'S.transform("key", lambda items: [one for one in items if one])',
    "S.history": 'S.accumulate("key", into="keys")',
    "S.identity": "nothing there: a flow needs no step that changes nothing",
    "S.map": 'S.transform("key", function), or Map("key", agent, into="results")',
    "S.unflatten": "S.compute(key=function)",
    "S.validate": 'S.guard(predicate, "what is wrong"), or agent @ Schema',
}
"""Policies and changes by the names that others give them."""

METHODS_ELSEWHERE = {
    "ask": 'weft.run_sync(agent, "message")',
    "branch": 'agent >> Route("key").eq("value", other)',
    "build": "nothing: it is ready to run as it is",
    "consumes": '.reads("key"), or {key} in the instruction',
    "fallback": "agent // other",
    "loop_until": "agent * until(predicate, max=3)",
    "loop_while": "agent * while_(predicate, max=3)",
    "outputs": '.writes("key")',
    "parallel": "agent | other",
    "proceed_if": "Route().when(predicate, agent).otherwise(other)",
    "produces": '(agent @ Schema).writes("key")',
    "save_as": '.writes("key")',
    "step": "flow >> agent",
    "sub_agent": ".delegates_to(agent)",
    "tap": "agent >> tap(function)",
    "then": "agent >> other",
    "timeout": "timeout(agent, 30)",
    "tool": ".uses(function)",
}
"""What is done with agents and flows, by the names that others give it."""

OPTIONS_ELSEWHERE = {
    "fn": ("how", "function", "field"),
    "function": ("how",),
    "func": ("how", "function"),
    "k": ("top_k",),
    "key_fn": ("field",),
    "last": ("n",),
    "max_age": ("seconds",),
    "max_turns": ("n",),
    "mode": ("how", "which", "keep"),
    "msg": ("message",),
    "pattern": ("patterns",),
    "query_key": ("from_state",),
    "regex": ("patterns",),
    "regexes": ("patterns",),
    "stale_action": ("stale",),
    "step": ("by",),
    "strategy": ("which", "how", "keep", "overflow"),
    "threshold": ("results",),
    "turns": ("n", "before"),
    "type": ("kind",),
    "window": ("before", "n"),
}
"""Options by the names that others give them; of ours the first that a word has is meant."""
