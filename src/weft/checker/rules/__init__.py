"""All rules, in the order of their reports. A rule looks at what the walk left."""

from weft.checker.rules.flows import (
    endless_transfer,
    likely_precedence,
    loop_without_exit,
    too_many_calls,
    unreachable,
)
from weft.checker.rules.protect import (
    clearance_for_nothing,
    label_on_nothing,
    secret_may_reach_tool,
    secret_reaches_model,
    withheld_result,
)
from weft.checker.rules.requests import (
    refused_by_provider,
    too_long,
    undescribed,
    unsent_global,
    volatile_first,
)
from weft.checker.rules.routes import (
    covered_default,
    impossible_case,
    shadowed_case,
    uncovered_value,
)
from weft.checker.rules.variables import (
    dead_key,
    lookalike_placeholder,
    misspelt_drop,
    misspelt_read,
    parallel_writers,
    read_of_nothing,
    torn_read,
    unsaved_artifact,
    vain_comparison,
    wrong_type,
)
from weft.checker.rules.visibility import lost_message, lost_output, seen_twice, unknown_name

RULES = (
    read_of_nothing,
    misspelt_read,
    misspelt_drop,
    wrong_type,
    vain_comparison,
    lookalike_placeholder,
    unsaved_artifact,
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
    undescribed,
    unsent_global,
    loop_without_exit,
    too_many_calls,
    unreachable,
    endless_transfer,
    secret_reaches_model,
    withheld_result,
    label_on_nothing,
    clearance_for_nothing,
    too_long,
    refused_by_provider,
    volatile_first,
    covered_default,
    secret_may_reach_tool,
    dead_key,
)

__all__ = ["RULES"]
