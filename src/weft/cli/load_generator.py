"""`weft load`: turns and faults, and a verdict from the stored logs."""

import asyncio

from weft.cli.load import app_of, load_node, require_folder
from weft.cli.options import CommandOptions
from weft.cli.printing import show_progress
from weft.declare import RunConfig
from weft.errors import UsageError
from weft.load import LoadPlan, run_load
from weft.runtime import Runner


def load_command(options: CommandOptions) -> int:
    """Carry out the plan that the options make; the exit code is 1 where the logs are not sound."""
    plan = _plan(options)
    runner = _runner(options, plan)
    if options.plot is not None:
        require_folder(options.plot, "--plot")
    with show_progress("turns", plan.total) as tell:

        def watch(answers: int, faults: int) -> None:
            words = f"{answers:,} of {plan.total:,}, {faults} faults" if plan.chaos else ""
            tell(answers, words)

        report = asyncio.run(run_load(plan, runner=runner, watch=watch))
    print(report.to_json() if options.as_json else report)
    if options.plot is not None:
        options.plot.write_text(report.picture(), encoding="utf-8")
    return 0 if report.is_sound else 1


def _plan(options: CommandOptions) -> LoadPlan:
    chaos = [kind.strip() for kind in (options.chaos or "").split(",") if kind.strip()]
    plan = LoadPlan(
        sessions=options.sessions,
        turns=options.turns,
        rate=options.rate,
        latency=options.latency,
        message=options.message,
        target=options.load_target,
        app=options.app,
        store=options.store,
        engine=options.load_engine,
        workers=options.load_workers,
        slots=options.load_slots,
        chaos=tuple(dict.fromkeys(chaos)),
        faults=options.faults,
        stop_seconds=options.stop_seconds,
        silence=options.silence,
        patience=options.patience,
        seed=options.seed,
    )
    if plan.is_scripted and (plan.message is not None or options.model is not None):
        raise UsageError(
            "the scripted agent has its own messages and its own model",
            where="--message" if plan.message is not None else "--model",
            hint="leave it out, or name an agent of yours: weft load module:agent -m 'Hello'",
        )
    if plan.is_address and options.model is not None:
        raise UsageError(
            "the server chooses the model", where="--model", hint="weft serve ... --model NAME"
        )
    if not plan.is_scripted and plan.message is None:
        raise UsageError("the agent needs a message", where="--message", hint="add -m 'Hello'")
    return plan


def _runner(options: CommandOptions, plan: LoadPlan) -> Runner | None:
    """The runner of an agent of the user's; None where there is none in this process."""
    if plan.target is None or plan.is_address:
        return None
    root = load_node(plan.target)
    return Runner(
        root,
        app_name=app_of(root, plan.target),
        store=plan.store or "memory://",
        config=RunConfig(model=options.model),
    )
