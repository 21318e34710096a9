"""What a report may show of an item: what is kept from the model is kept from its reader too."""

from weft.declare import Policy
from weft.declare.policy.transforms import Redact
from weft.ir import Item, Prompt
from weft.passes import Env
from weft.values import Strand


def shown_item(item: Item, policy: Policy, env: Env) -> Item:
    """The item without what the policy withholds or replaces, whatever was done with it."""
    from weft.compiler.labels import labels_in
    from weft.passes.redact_values import redact_values
    from weft.passes.withhold_labelled import withhold_labelled

    alone = Prompt(model="", agent=env.agent, items=Strand([item]))
    if labels := labels_in(policy):
        alone = withhold_labelled(alone, env, labels)
    for step in policy.protections:
        if isinstance(step, Redact):
            alone = redact_values(alone, env, step)
    left = alone.items.tip
    return left if left is not None else item
