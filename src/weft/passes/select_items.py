"""Keep items by author, kind and tag."""

from weft.declare.policy.selectors import FromAgents, Matching, WithoutAgents
from weft.ir import Item, Note, Prompt
from weft.passes.env import Env
from weft.values import Json, JsonObject


def select_items(
    prompt: Prompt, env: Env, options: FromAgents | WithoutAgents | Matching
) -> Prompt:
    """Keep what these agents did, or all but that, or what fits an author, a kind and a tag.

    Tags are those of the event: `customMetadata.weft.tags`.

    Before:  user "Hi" | model(scout) "Oslo" | model(planner) "By train"   (C.agents("planner"))
    After:   model(planner) "By train"
    """
    kept: list[Item] = []
    notes: list[Note] = []
    for item in prompt.items:
        reason = _misfit(item, env, options)
        if not reason or env.is_current(item):
            kept.append(item)
        else:
            notes.append(Note("select_items", reason, item))
    return prompt.with_items(kept, notes) if notes else prompt


def _misfit(item: Item, env: Env, options: FromAgents | WithoutAgents | Matching) -> str:
    """Why the item is not wanted, or nothing."""
    author = item.author
    match options:
        case FromAgents():
            return "" if author in options.names else f"it is {author or 'nobody'}'s"
        case WithoutAgents():
            return f"{author} is left out" if author in options.names else ""
        case Matching():
            if options.author and author not in options.author:
                return f"it is {author or 'nobody'}'s"
            if options.kind and (kind := kind_of(item, env)) not in options.kind:
                return f"it is of kind {kind}"
            if options.tag and not tags_of(item, env) & set(options.tag):
                return f"it is not tagged {' or '.join(options.tag)}"
            return ""


def kind_of(item: Item, env: Env) -> str:
    """What an item is to an author."""
    if item.author not in ("", "user", env.agent) and item.kind != "summary":
        return "foreign"
    return "results" if item.kind in ("exchange", "calls") else item.kind


def tags_of(item: Item, env: Env) -> set[str]:
    """The tags of the event it came from: its own, and those it was given later."""
    found: set[str] = set()
    if not 0 <= item.position < len(env.log):
        return found
    found.update(_texts(_weft(env, item.position).get("tags")))
    for index in range(item.position + 1, len(env.log)):
        tagged = _weft(env, index).get("tagged")
        if isinstance(tagged, dict) and tagged.get("event") == item.event:
            found.update(_texts(tagged.get("tags")))
    return found


def _weft(env: Env, index: int) -> JsonObject:
    held = (env.log[index].custom_metadata or {}).get("weft")
    return held if isinstance(held, dict) else {}


def _texts(value: Json) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
