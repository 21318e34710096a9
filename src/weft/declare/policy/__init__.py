"""Policies: what an agent may see of the log, written with `C`."""

from weft.declare.policy.policy import Policy, Stage, Transforms, View
from weft.declare.policy.token_budget import TokenBudget
from weft.declare.policy.vocabulary import C

__all__ = ["C", "Policy", "Stage", "TokenBudget", "Transforms", "View"]
