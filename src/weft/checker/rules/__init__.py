"""The rules: each looks at what the walk left, and reports under its own code."""

from weft.checker.rules.flows import loop_without_exit
from weft.checker.rules.labels import secret_may_reach_tool, secret_reaches_model
from weft.checker.rules.policies import unknown_name
from weft.checker.rules.precedence import likely_precedence
from weft.checker.rules.routes import (
    covered_default,
    impossible_case,
    shadowed_case,
    uncovered_value,
)
from weft.checker.rules.sight import lost_message, lost_output, seen_twice
from weft.checker.rules.state import dead_key, parallel_writers, read_of_nothing, torn_read
from weft.checker.rules.texts import refused_by_provider, too_long, volatile_first
from weft.checker.rules.transfers import endless_transfer, unreachable
from weft.checker.rules.types import wrong_type

RULES = (
    read_of_nothing,
    wrong_type,
    impossible_case,
    uncovered_value,
    shadowed_case,
    parallel_writers,
    torn_read,
    likely_precedence,
    seen_twice,
    lost_output,
    lost_message,
    unknown_name,
    loop_without_exit,
    unreachable,
    endless_transfer,
    secret_reaches_model,
    too_long,
    refused_by_provider,
    volatile_first,
    covered_default,
    secret_may_reach_tool,
    dead_key,
)

__all__ = ["RULES"]
