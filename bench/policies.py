"""What every word of a policy does to tokens, to the cache and to the evidence, in one table.

python bench/policies.py [FILE ...]     recordings as `weft replay` reads them; else made-up ones

Append-only history (C.default()) is 1.00. `anew` are tokens that the provider had not read yet.
A break is a request that changed what had been sent; each must have been announced with a price.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.recorded import coding_run, service_run

from weft import C
from weft.recordings import Recording, read_recordings
from weft.replay.replay import Trial, replay, total, uses_of

POLICIES = (
    C.default(),
    C.auto(),
    C.none(),
    C.user(),
    C.user("bookend"),
    C.window(5),
    C.agents("agent"),
    C.without_agents("nobody"),
    C.select(kind="results"),
    C.recent(half_life=4),
    C.relevant(top_k=8),
    C.relevant().fit(1000),
    C.default().compact(),
    C.default().compact(results=300, texts=1000, to=150),
    C.default().dedupe(),
    C.default().dedupe("superseded"),
    C.default().project(exclude="flights"),
    C.default().truncate(200, keep="bookend"),
    C.default().fresh(turns=2),
    C.default().fresh(turns=2, stale="compact"),
    C.default().redact("email", "phone"),
    C.default().fence(),
    C.default().priority(3).budget(4000),
    C.default().budget(4000, overflow="drop"),
)


def main() -> None:
    recordings = _recordings(sys.argv[1:])
    print(f"{len(recordings)} recordings")
    head = f"{'policy':<62}{'tokens':>8}{'anew':>7}{'cost':>7}{'breaks':>8}{'said':>6}{'kept':>7}"
    print(head)
    base: Trial | None = None
    silent = 0
    for policy in POLICIES:
        trial = total(
            replay(one, policy, uses=uses_of(list(one.session.events))) for one in recordings
        )
        base = base or trial
        anew, before = trial.tokens - trial.cached, base.tokens - base.cached
        print(
            f"{policy!s:<62}{trial.tokens / base.tokens:>7.2f}x{anew / before:>6.2f}x"
            f"{trial.cost / base.cost:>6.2f}x{trial.broken:>8}{trial.announced:>6}"
            f"{100 * trial.kept_share:>6.1f}%"
        )
        silent += trial.broken - trial.announced
    print(f"breaks that nobody announced: {silent}")


def _recordings(paths: list[str]) -> list[Recording]:
    if paths:
        return [
            one for path in paths for one in read_recordings(Path(path).read_bytes(), name=path)
        ]
    made = [coding_run(f"run-{n}", steps=6 + n) for n in range(3)]
    made += [service_run(f"chat-{n}", looks=3 + n) for n in range(3)]
    lines = "\n".join(json.dumps(one) for one in made)
    return list(read_recordings(lines.encode(), name="made up"))


if __name__ == "__main__":
    main()
