"""Quotas of users and apps, and a server that sheds load: which limit, how much, until when."""

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from uuid import uuid4

import httpx2
import pytest

from tests.server.live import Live, serving
from tests.server.test_refusals import ANN, BOB, problem
from tests.support.build import scripted_agent
from tests.turns.test_serving import server
from weft import Agent, Runner
from weft.errors import StoreError, UsageError
from weft.server import Application, Limits, Quota, Quotas, Tokens, app
from weft.server.problems import Problem
from weft.server.quotas import LocalTallies, QuotaBook, Reservation
from weft.session.store import Count, CountingStore
from weft.stores import open_store
from weft.testing import ScriptedModel, delayed, usage
from weft.turns import Worker, open_turns

NOON = 20_000 * 86_400.0 + 43_200
"""Noon of a day of UTC: 2024-10-04."""


def begin(
    client: httpx2.Client, session: str = "s", app: str = "bot", **more: object
) -> httpx2.Response:
    """Begin a run and read its stream to the end."""
    return client.post(
        f"/api/apps/{app}/sessions/{session}/runs",
        json={"message": "Hi", "create": True, **more},
        headers={"accept": "text/event-stream"},
    )


@contextmanager
def two_users(*agents: Agent, **options: object) -> Generator[tuple[Live, list[float]], None, None]:
    """A server for Ann and Bob whose quotas read the clock in the list."""
    tokens = Tokens({"ann": ANN, "bob": BOB})
    application = app(*agents, auth=tokens, **options)  # type: ignore[arg-type]
    now = [NOON]
    application.served.quotas.clock = lambda: now[0]
    with serving(application) as live:
        yield live, now


def test_turns_a_minute_are_counted_for_each_user_and_come_back() -> None:
    quotas = Quotas(user=Quota(turns_per_minute=2))
    with (
        two_users(scripted_agent(*["Hello."] * 9), quotas=quotas) as (live, now),
        live.client(ANN) as ann,
        live.client(BOB) as bob,
    ):
        assert begin(ann).status_code == 200
        now[0] += 20
        assert begin(ann).status_code == 200
        refused = begin(ann)
        assert problem(refused) == (429, "quota")
        assert refused.headers["retry-after"] == "41"
        body = refused.json()
        assert body["detail"] == "the user `ann` may begin 2 turns a minute, and has begun 2"
        assert (body["limit"], body["of"], body["allowed"], body["used"]) == (
            "turns_per_minute", "user", 2, 2,
        )  # fmt: skip
        assert body["free_at"] == "2024-10-04T12:01:00Z"
        assert body["free_at"] in body["hint"]
        assert ann.get("/api/apps/bot/sessions/s").json()["events"] == 4  # nothing was said
        assert begin(bob).status_code == 200
        now[0] += 40
        assert begin(ann).status_code == 200  # the first is a minute old
        assert begin(ann).status_code == 429  # the second is not
        metrics = ann.get("/metrics").text
        assert 'weft_refusals_total{app="bot",limit="turns_per_minute",of="user"} 2' in metrics


def test_the_routes_of_other_clients_are_counted_in_the_same_book() -> None:
    quotas = Quotas(user=Quota(turns_per_minute=3))
    with (
        two_users(scripted_agent(*["Hello."] * 9), quotas=quotas) as (live, now),
        live.client(ANN) as ann,
    ):
        ann.post("/apps/bot/users/ann/sessions/a", json={})
        said = {"role": "user", "parts": [{"text": "Hi"}]}
        adk = {"appName": "bot", "userId": "ann", "sessionId": "a", "newMessage": said}
        chat = {"model": "bot", "messages": [{"role": "user", "content": "Hi"}]}
        response = {"model": "bot", "input": "Hi"}
        routes = [("/run", adk), ("/v1/chat/completions", chat), ("/v1/responses", response)]
        assert [ann.post(path, json=body).status_code for path, body in routes] == [200] * 3
        sessions = ann.get("/api/apps/bot/sessions").json()["sessions"]
        routes += [("/run_sse", adk), ("/v1/responses", {**response, "stream": True})]
        for path, body in routes:
            refused = ann.post(path, json=body)
            assert problem(refused) == (429, "quota")
            assert refused.json()["limit"] == "turns_per_minute"
            assert int(refused.headers["retry-after"]) == 61
        assert ann.post("/v1/responses", json=response).json()["error"]["code"] == "quota"
        assert begin(ann).status_code == 429
        assert ann.get("/api/apps/bot/sessions").json()["sessions"] == sessions
        now[0] += 60
        assert [ann.post(path, json=body).status_code for path, body in routes[:3]] == [200] * 3


def test_tokens_of_a_day_end_at_midnight() -> None:
    quotas = Quotas(app=Quota(tokens_per_day=100))
    script = [usage("Hello.", prompt=50, output=10)] * 9
    with (
        two_users(
            scripted_agent(*script), scripted_agent(*script, name="other"), quotas=quotas
        ) as (live, now),
        live.client(ANN) as ann,
        live.client(BOB) as bob,
    ):
        assert begin(ann).status_code == 200
        assert begin(bob).status_code == 200  # 60 of 100: it begins, and passes the limit
        for client in (ann, bob):
            refused = begin(client)
            assert problem(refused) == (429, "quota")
            body = refused.json()
            assert (body["limit"], body["of"], body["used"]) == ("tokens_per_day", "app", 120)
            assert body["free_at"] == "2024-10-05T00:00:00Z"
            assert refused.headers["retry-after"] == str(43_200 + 1)
        assert begin(ann, app="other").status_code == 200
        now[0] += 43_200
        assert begin(ann).status_code == 200


def test_a_run_that_fails_has_used_its_tokens_too() -> None:
    def fail(context: object) -> None:
        raise RuntimeError("broken")

    script = [usage("Hello.", prompt=50, output=10)]
    agent = Agent("bot", model=ScriptedModel(script), after_agent=fail)  # type: ignore[list-item]
    quotas = Quotas(user=Quota(open_runs=1, tokens_per_day=60))
    with two_users(agent, quotas=quotas) as (live, _), live.client(ANN) as ann:
        begin(ann)
        assert 'outcome="failed"' in ann.get("/metrics").text
        refused = begin(ann)
        assert (refused.status_code, refused.json()["limit"]) == (429, "tokens_per_day")
        assert refused.json()["used"] == 60


def test_open_runs_are_free_again_when_one_ends() -> None:
    quotas = Quotas(user=Quota(open_runs=1))
    script = [delayed(30, "Slow."), "Hello.", "Hello."]
    with (
        two_users(scripted_agent(*script), quotas=quotas) as (live, _),
        live.client(ANN) as ann,
        live.client(BOB) as bob,
    ):
        path = "/api/apps/bot/sessions/s"
        assert ann.post(f"{path}/runs", json={"message": "Hi", "create": True}).status_code == 202
        refused = begin(ann, "t")
        assert problem(refused) == (429, "quota")
        assert refused.json()["limit"] == "open_runs"
        assert refused.json()["free_at"] is None
        assert begin(bob, "t").status_code == 200
        ann.post(f"{path}/cancel", json={})
        ann.get(f"{path}/events", headers={"accept": "text/event-stream"})  # until it is over
        assert begin(ann, "t").status_code == 200


def test_what_began_no_run_is_not_counted() -> None:
    quotas = Quotas(user=Quota(turns_per_minute=2, open_runs=1))
    with (
        two_users(scripted_agent("Hello.", "Bye."), quotas=quotas) as (live, _),
        live.client(ANN) as ann,
    ):
        for _ in range(3):
            assert begin(ann, create=False).status_code == 404
        assert begin(ann, request_id="one").status_code == 200
        assert begin(ann, request_id="one").status_code == 200  # the same message again
        assert begin(ann).status_code == 200
        assert begin(ann).status_code == 429


def test_a_user_and_an_app_may_have_a_quota_of_their_own() -> None:
    quotas = Quotas(
        user=Quota(turns_per_minute=1),
        users={"bob": Quota(turns_per_minute=2)},
        apps={"other": Quota(turns_per_minute=1)},
    )
    agents = scripted_agent(*["Hello."] * 9), scripted_agent(*["Hello."] * 9, name="other")
    with (
        two_users(*agents, quotas=quotas) as (live, _),
        live.client(ANN) as ann,
        live.client(BOB) as bob,
    ):
        assert [begin(ann).status_code for _ in range(2)] == [200, 429]
        assert begin(bob, app="other").status_code == 200
        assert begin(bob, app="other").json()["of"] == "app"
        assert [begin(bob).status_code for _ in range(2)] == [200, 429]


def test_a_server_with_too_many_runs_sheds_load_before_the_stream() -> None:
    application = app(scripted_agent(delayed(30, "Slow."), "Hello."), limits=Limits(runs=1))
    with serving(application) as live, live.client() as client:
        path = "/api/apps/bot/sessions/s"
        client.post(f"{path}/runs", json={"message": "Hi", "create": True})
        refused = begin(client, "t")
        assert problem(refused) == (503, "overloaded")
        assert int(refused.headers["retry-after"]) > 0
        body = refused.json()
        assert (body["limit"], body["of"], body["allowed"]) == ("runs", "server", 1)
        chat = {"model": "bot", "input": "Hi", "stream": True}
        assert problem(client.post("/v1/responses", json=chat)) == (503, "overloaded")
        metrics = client.get("/metrics").text
        assert 'weft_refusals_total{app="bot",limit="runs",of="server"} 2' in metrics
        client.post(f"{path}/cancel", json={})
        client.get(f"{path}/events", headers={"accept": "text/event-stream"})
        assert begin(client, "t").status_code == 200


class WithWorker:
    """A server over a queue, in this process; turns run when the test says so."""

    def __init__(self, path: Path, **options: object) -> None:
        self.address = f"sqlite:///{path / 'weft.db'}"
        self.agent = scripted_agent(*[usage("Hello.", prompt=50, output=10)] * 9)
        store = open_store(self.address)
        turns = open_turns(store)
        runner = Runner(self.agent, app_name="bot", store=store)
        self.application: Application = app(runner, turns=turns, **options)  # type: ignore[arg-type]

    def work(self, until: Callable[[], bool]) -> None:
        """Run turns until something is so."""

        async def main() -> None:
            worker = Worker(Runner(self.agent, app_name="bot", store=self.address), slots=2)
            working = asyncio.create_task(worker.run())
            async with asyncio.timeout(60):
                while True:
                    if await asyncio.to_thread(until):
                        break
                    await asyncio.sleep(0.05)
            worker.stop()
            assert await working == 0

        asyncio.run(main())


def put(client: httpx2.Client, session: str) -> httpx2.Response:
    path = f"/api/apps/bot/sessions/{session}/runs"
    return client.post(path, json={"message": "Hi", "create": True})


def test_a_long_queue_is_not_made_longer(tmp_path: Path) -> None:
    queue = WithWorker(tmp_path, limits=Limits(waiting=2))
    depth = queue.application.served.queue_depth
    assert depth is not None
    now = [0.0]
    depth.clock = lambda: now[0]
    with serving(queue.application) as live, live.client() as client:
        assert [put(client, name).status_code for name in "ab"] == [202, 202]
        refused = put(client, "c")
        assert problem(refused) == (503, "overloaded")
        assert refused.json()["limit"] == "waiting"
        assert int(refused.headers["retry-after"]) > 0
        now[0] += 10
        assert put(client, "c").status_code == 503  # looked up again: they still wait

        def both_are_done() -> bool:
            paths = [f"/api/apps/bot/sessions/{name}" for name in "ab"]
            return all(client.get(path).json()["status"] == "done" for path in paths)

        queue.work(both_are_done)
        now[0] += 10
        assert put(client, "c").status_code == 202


def test_runs_and_tokens_of_workers_are_counted_by_the_server(tmp_path: Path) -> None:
    queue = WithWorker(tmp_path, quotas=Quotas(user=Quota(open_runs=1, tokens_per_day=60)))
    with serving(queue.application) as live, live.client() as client:
        assert put(client, "a").status_code == 202
        assert put(client, "b").json()["limit"] == "open_runs"
        queue.work(lambda: put(client, "b").json().get("limit") == "tokens_per_day")
        assert put(client, "b").json()["used"] == 60


def test_the_options_of_the_command_reach_the_server(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'weft.db'}"
    options = ("--store", store, "--queue", "--turns-per-minute", "1", "--app-open-runs", "2")
    with server(*options, "--max-waiting", "3") as (_, client):

        def limit_of(session: str, user: str) -> str:
            path = f"/api/apps/desk/sessions/{session}/runs"
            body = {"message": "Hi", "create": True, "user": user}
            return str(client.post(path, json=body).json().get("limit"))

        asked = [limit_of("a", "ann"), limit_of("b", "ann"), limit_of("c", "bob")]
        assert asked == ["None", "turns_per_minute", "None"]
        assert limit_of("d", "cy") == "open_runs"
    with server("--store", store, "--queue", "--max-waiting", "2") as (_, client):
        body = {"message": "Hi", "create": True}
        refused = client.post("/api/apps/desk/sessions/e/runs", json=body)
        assert problem(refused) == (503, "overloaded")  # the turns of before still wait


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "10"])
@pytest.mark.parametrize("name", ["turns_per_minute", "open_runs", "tokens_per_day"])
def test_a_quota_is_a_whole_number(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{name}="):
        Quota(**{name: value})  # type: ignore[arg-type]


def test_wrong_quotas_are_refused_at_the_start() -> None:
    with pytest.raises(UsageError, match="user is an int"):
        Quotas(user=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"users\['ann'\] is an int"):
        Quotas(users={"ann": 5})  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="apps is a list"):
        Quotas(apps=["bot"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="quotas is a Quota"):
        app(scripted_agent(), quotas=Quota())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="`bto`, which is not served") as wrong:
        app(scripted_agent(), quotas=Quotas(apps={"bto": Quota(open_runs=1)}))
    assert "bot" in wrong.value.hint


async def test_idle_accounts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.server.quotas._FEW_ACCOUNTS", 10)
    now = [NOON]
    book = QuotaBook(Quotas(user=Quota(open_runs=1, tokens_per_day=50)), clock=lambda: now[0])
    tallies = book._store  # pyright: ignore[reportPrivateUsage]
    assert isinstance(tallies, LocalTallies)
    tallies._sweep_at = 10  # pyright: ignore[reportPrivateUsage]
    for number in range(100):
        (await book.admit("bot", f"user {number}")).end(5)
        await book.close()
        now[0] += 86_400
    assert len(tallies.tallies) <= 11
    open_run = await book.admit("bot", "busy")
    for number in range(100):
        (await book.admit("bot", f"user {number}")).give_back()
    assert await book.problem_of("bot", "busy") is not None
    open_run.end(0)
    assert await book.problem_of("bot", "busy") is None
    await book.close()


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that several processes can use."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'weft.db'}"
    return str(request.getfixturevalue("postgres_url"))


def test_two_servers_on_one_store_count_together_and_a_restart_forgets_nothing(shared: str) -> None:
    ann, bob = f"ann {uuid4().hex}", f"bob {uuid4().hex}"
    options = ("--store", shared, "--turns-per-minute", "3")
    target = "tests.server.test_quotas:talker"

    def said(client: httpx2.Client, user: str) -> httpx2.Response:
        path = f"/api/apps/talker/sessions/{uuid4().hex}/runs"
        body = {"message": "Hi", "create": True, "user": user}
        return client.post(path, json=body, headers={"accept": "text/event-stream"})

    with server(*options, target=target) as (_, one), server(*options, target=target) as (_, two):
        begun = time.monotonic()
        answers = [said(client, ann).status_code for client in (one, two, one)]
        assert answers == [200, 200, 200]
        for client in (two, one):
            refused = said(client, ann)
            assert problem(refused) == (429, "quota")
            assert refused.json()["detail"] == (
                f"the user `{ann}` may begin 3 turns a minute, and has begun 3"
            )
            assert 1 <= int(refused.headers["retry-after"]) <= 61
        assert said(two, bob).status_code == 200
    with server(*options, target=target) as (_, again):
        refused = said(again, ann)
        if time.monotonic() - begun < 60:  # later they count no more
            assert refused.json()["used"] == 3
        assert said(again, bob).status_code == 200


async def test_many_servers_at_once_let_no_more_in_than_the_quota(shared: str) -> None:
    user = f"ann {uuid4().hex}"
    stores = [open_store(shared) for _ in range(4)]
    quotas = Quotas(user=Quota(turns_per_minute=7, open_runs=9))
    books = [QuotaBook(quotas, [store]) for store in stores]
    asked = [book.admit("bot", user) for _ in range(6) for book in books]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    admitted = [one for one in answers if isinstance(one, Reservation)]
    refused = [one for one in answers if isinstance(one, Problem)]
    assert (len(admitted), len(refused)) == (7, 17)
    assert all(one.members["limit"] == "turns_per_minute" for one in refused)
    admitted[0].give_back()
    for one in admitted[1:]:
        one.end(0)
    for book in books:
        await book.close()
    await books[0].admit("bot", user)  # the one that was given back
    assert await books[1].problem_of("bot", user) is not None
    for book, store in zip(books, stores, strict=True):
        await book.close()
        await store.close()


async def test_the_open_runs_of_a_server_that_is_gone_are_free_again(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = f"ann {uuid4().hex}"
    stores = open_store(shared), open_store(shared)
    quotas = Quotas(user=Quota(open_runs=2, tokens_per_day=100))
    dead, living = (QuotaBook(quotas, [store]) for store in stores)
    await dead.admit("bot", user)
    mine = await living.admit("bot", user)
    with pytest.raises(Problem, match="may have 2 runs open at once, and has 2"):
        await living.admit("bot", user)
    monkeypatch.setattr("weft.server.quotas._SILENT", 0.0)
    again = await living.admit("bot", user)  # what `dead` has is not counted any more
    monkeypatch.undo()
    again.end(60)
    mine.end(60)
    refused = await living.problem_of("bot", user)
    assert refused is not None
    assert (refused.members["limit"], refused.members["used"]) == ("tokens_per_day", 120)
    for book, store in zip((dead, living), stores, strict=True):
        await book.close()
        await store.close()


async def test_who_gives_up_while_the_store_counts_has_used_nothing(shared: str) -> None:
    user = f"ann {uuid4().hex}"
    store = open_store(shared)
    book = QuotaBook(Quotas(user=Quota(open_runs=1)), [store])
    assert await book.problem_of("bot", user) is None
    task = asyncio.create_task(book.admit("bot", user))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await book.close()
    (await book.admit("bot", user)).end(0)
    await book.close()
    await store.close()


class BrokenBook:
    """A store that counts, and fails before or after it has: its answer may get lost."""

    def __init__(self, store: CountingStore) -> None:
        self.store = store
        self.fails: Literal["before", "after"] | None = None

    async def tally(self, names: Sequence[str], count: Count, *, beside: str = "") -> None:
        if self.fails == "before":
            raise StoreError("the database is down")
        await self.store.tally(names, count, beside=beside)
        if self.fails == "after":
            raise StoreError("the connection was lost")


@pytest.mark.parametrize("fails", ["before", "after"])
async def test_a_run_that_ends_while_the_store_fails_leaves_its_room_to_others(
    shared: str, fails: Literal["before", "after"], monkeypatch: pytest.MonkeyPatch
) -> None:
    user = f"ann {uuid4().hex}"
    stores = open_store(shared), open_store(shared)
    assert isinstance(stores[0], CountingStore)
    broken = BrokenBook(stores[0])
    # where an answer gets lost, tokens may be counted twice
    quotas = Quotas(user=Quota(open_runs=2, tokens_per_day=100 if fails == "before" else None))
    book = QuotaBook(quotas, [broken])  # type: ignore[list-item]
    other = QuotaBook(quotas, [stores[1]])
    monkeypatch.setattr("weft.server.quotas._BEAT_EVERY", 0.02)
    first, second = [await book.admit("bot", user) for _ in range(2)]
    broken.fails = fails
    first.end(10)
    with pytest.raises(StoreError):  # nobody is let in uncounted
        await book.admit("bot", user)
    second.end(20)
    await asyncio.sleep(0.1)
    broken.fails = None
    for _ in range(3000):  # without a request: a beat says what is late
        if await other.problem_of("bot", user) is None:
            break
        await asyncio.sleep(0.02)
    mine = [await other.admit("bot", user) for _ in range(2)]
    with pytest.raises(Problem, match="has 2"):
        await other.admit("bot", user)
    mine[0].end(70)
    mine[1].end(0)
    await book.close()
    refused = await other.problem_of("bot", user)
    used = refused.members["used"] if refused is not None else None
    assert used == (100 if fails == "before" else None)
    for one, store in zip((book, other), stores, strict=True):
        await one.close()
        await store.close()


async def test_a_clock_that_is_set_back_keeps_nobody_out_for_longer_than_the_minute() -> None:
    now = [NOON]
    book = QuotaBook(Quotas(user=Quota(turns_per_minute=1)), clock=lambda: now[0])
    await book.admit("bot", "ann")
    now[0] -= 3600
    refused = await book.problem_of("bot", "ann")
    assert refused is not None
    assert refused.headers["retry-after"] == "61"
    with pytest.raises(Problem):
        await book.admit("bot", "ann")
    now[0] += 61
    await book.admit("bot", "ann")
    await book.close()


talker = scripted_agent(*["Hello."] * 50, name="talker")
