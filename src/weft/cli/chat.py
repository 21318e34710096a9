"""`weft chat`: a conversation in the terminal."""

from weft.cli import options as given


def chat_command(
    target: given.TARGET,
    session: given.SESSION = None,
    store: given.STORE = given.DEFAULT_STORE,
    user: given.USER = "user",
    app: given.APP = None,
    state: given.STATE = None,
    model: given.MODEL = None,
    max_llm_calls: given.CALLS = None,
    strict: given.STRICT = False,
) -> int:
    """Talk in the terminal; the conversation is kept."""
    import asyncio

    from weft.cli.conversation import Conversation
    from weft.cli.inputs import state_of
    from weft.cli.interrupts import listen_no_more
    from weft.cli.load import app_of, load_node
    from weft.cli.once import run_config
    from weft.runtime import Runner
    from weft.session.event import new_id

    address = store or given.DEFAULT_STORE
    root = load_node(target)
    start = state_of(root, state or [])
    config = run_config(model, max_llm_calls, strict=strict)
    runner = Runner(root, app_name=app or app_of(root, target), store=address)
    with asyncio.Runner() as loop:
        conversation = Conversation(
            runner, loop, user=user, session_id=session or new_id(), state=start, config=config
        )
        try:
            conversation.open(address)
            return conversation.talk()
        finally:
            loop.run(runner.close())
            listen_no_more()
