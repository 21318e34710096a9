"""Fit and measure the token counts of `weft.tokens` against recorded provider usage.

    python bench/calibrate_tokens.py EXCHANGES.jsonl.gz            measure what is baked in
    python bench/calibrate_tokens.py EXCHANGES.jsonl.gz --fit      fit the overheads as well
    python bench/calibrate_tokens.py EXCHANGES.jsonl.gz --half 0   only half of the recordings
    python bench/calibrate_tokens.py EXCHANGES.jsonl.gz --all      also what nobody can count
    python bench/calibrate_tokens.py EXCHANGES.jsonl.gz --unused   that, unless a server tool ran
    python bench/calibrate_tokens.py --texts FILE...               fit the estimator's weights

An exchange is one line `{id, dialect, path, request, status, response, stream}`. Requests
whose tokens cannot be known from their bytes are skipped: server-held state, server tools,
files by reference. The fit minimises the absolute relative error with non-negative
parameters (least squares, reweighted); its held-out error comes from five folds over the
hash of the id. The estimator needs a reference: splintr for public tokenizers, and for
Claude the package ctok, whose counts equal the recorded ones.
"""

import argparse
import base64
import gzip
import hashlib
import json
import random
import statistics
import sys
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from weft import _token_tables as tables
from weft import tokens
from weft.dialects import dialect_named
from weft.dialects.measure import Meter, Quantity, WeighedHead, Weigher
from weft.dialects.wire import as_list
from weft.tokens import Overheads
from weft.values import compact

PARAMETERS = ("request", "turn", "call", "parallel", "tools", "tools_forced", "tool")
PARAMETERS += ("schema", "thinking", "document")
SERVED = ("server_tool_use", "web_search_call", "code_interpreter_call", "tool_search_call")
SERVED += ("mcp_call", "mcp_list_tools", "file_search_call")
"""What an answer holds that a tool of the provider was run for."""

RIDGE = 1e-7
"""How strongly a parameter that few requests show is held at its baked-in value."""


@dataclass
class Shape:
    """One request of a recording, read, and what the provider said it took."""

    id: str
    dialect: str
    model: str
    reported: int
    wire: dict[str, Any]
    served: bool
    """Whether the provider ran a tool of its own: then it read more than was sent."""

    @cached_property
    def chars(self) -> int:
        return len(json.dumps(self.wire, ensure_ascii=False))

    @property
    def weigher(self) -> Weigher:
        return dialect_named(self.dialect).meter(self.model).weigher

    @cached_property
    def head(self) -> WeighedHead:
        return self.weigher.head(self.wire)

    @cached_property
    def parts(self) -> list[Quantity]:
        turns = map(self.weigher.turn, as_list(self.wire.get(self.weigher.turns)))
        return [part for turn in turns for part in turn.parts]

    @property
    def countable(self) -> bool:
        """Whether its bytes can tell its tokens: no server state or tools, no addresses."""
        return bool(self.reported) and not self.uncounted

    @cached_property
    def uncounted(self) -> tuple[str, ...]:
        return dialect_named(self.dialect).meter(self.model).list_uncounted(self.wire)


def read(path: Path, *, half: int | None = None, everything: bool = False) -> Iterator[Shape]:
    """The requests that were answered and can be counted: of all recordings, or of one half."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            shape = shape_of(json.loads(line))
            if half is not None and half_of(shape) != half:
                continue
            if shape.countable or (everything and shape.reported):
                yield shape


def half_of(shape: Shape) -> int:
    """The half that a recording falls in; what is tuned on one is measured on the other."""
    return hashlib.blake2b(shape.id.partition("#")[0].encode()).digest()[1] % 2


def reported(exchange: dict[str, Any]) -> int:
    """The input tokens the provider says it read, cached ones included."""
    body, dialect = exchange["response"], exchange["dialect"]
    if exchange["stream"]:
        body = {}
        for line in exchange["stream"].splitlines():
            data = line.removeprefix("data:").strip()
            if not line.startswith("data:") or data in ("", "[DONE]"):
                continue
            event = json.loads(data)
            event = event.get("message") or event.get("response") or event
            if event.get("usageMetadata") or (event.get("usage") or {}).get("input_tokens"):
                body = event if not body or dialect != "anthropic" else body
            elif (event.get("usage") or {}).get("prompt_tokens"):
                body = event
    if not isinstance(body, dict) or exchange["status"] != 200:
        return 0
    if dialect == "gemini":
        return body.get("usageMetadata", {}).get("promptTokenCount") or 0
    usage = body.get("usage") or body
    if dialect == "openai-chat":
        return usage.get("prompt_tokens") or 0
    total = usage.get("input_tokens") or 0
    if dialect == "anthropic":
        total += usage.get("cache_creation_input_tokens") or 0
        total += usage.get("cache_read_input_tokens") or 0
    return total


def shape_of(exchange: dict[str, Any]) -> Shape:
    request, dialect = exchange["request"], exchange["dialect"]
    model = request.get("model") or exchange["path"].rpartition("/")[2].partition(":")[0]
    answer = json.dumps(exchange["response"]) + (exchange["stream"] or "")
    served = any(f'"{kind}"' in answer for kind in SERVED)
    return Shape(exchange["id"], dialect, model, reported(exchange), request, served)


def total(shape: Shape, costs: Overheads) -> int:
    return Meter(shape.weigher, shape.model, costs).request(shape.wire)


def payload(shape: Shape, costs: Overheads) -> int:
    """The tokens of everything that has a size of its own."""
    return total(shape, without(costs))


def without(costs: Overheads) -> Overheads:
    return msgspec.structs.replace(costs, **dict.fromkeys((*PARAMETERS, "result"), 0))


def row(shape: Shape) -> list[float]:
    """How often each of `PARAMETERS` applies; a call and its result are one pair."""
    free = without(tokens.overheads_for(shape.dialect, shape.model))
    bare = total(shape, free)
    found: list[float] = []
    for name in PARAMETERS:
        priced = {name: 1, "result": 0} if name != "call" else {"call": 1}
        found.append(total(shape, msgspec.structs.replace(free, **priced)) - bare)
    return found


def values(costs: Overheads) -> list[float]:
    found = {name: float(getattr(costs, name)) for name in PARAMETERS}
    return [found[name] + (costs.result if name == "call" else 0) for name in PARAMETERS]


def solve(
    rows: Sequence[Sequence[float]],
    wanted: Sequence[float],
    weigher: Sequence[float],
    prior: Sequence[float],
    ridge: float,
) -> list[float]:
    """Non-negative parameters of least absolute error relative to `weigher`, near `prior`."""
    size = len(prior)
    answer = list(prior)
    weights = [1.0] * len(rows)
    for _ in range(40):
        gram = [[0.0] * size for _ in range(size)]
        right = [0.0] * size
        for line, want, unit, weight in zip(rows, wanted, weigher, weights, strict=True):
            factor = weight / unit**2
            used = [i for i in range(size) if line[i]]
            for i in used:
                right[i] += factor * line[i] * want
                for j in used:
                    gram[i][j] += factor * line[i] * line[j]
        for i in range(size):
            gram[i][i] += ridge
            right[i] += ridge * prior[i]
        for _ in range(400):
            for i in range(size):
                rest = right[i] - sum(gram[i][j] * answer[j] for j in range(size) if j != i)
                answer[i] = max(0.0, rest / gram[i][i])
        for index, (line, want, unit) in enumerate(zip(rows, wanted, weigher, strict=True)):
            miss = abs(sum(a * b for a, b in zip(line, answer, strict=True)) - want) / unit
            weights[index] = 1 / max(miss, 0.01)
    return answer


def fit(shapes: Sequence[Shape], costs: Overheads) -> Overheads:
    """The overheads that explain the reported usage of these requests best."""
    rows = [row(shape) for shape in shapes]
    wanted = [shape.reported - payload(shape, costs) for shape in shapes]
    answer = solve(rows, wanted, [s.reported for s in shapes], values(costs), RIDGE)
    found = dict(zip(PARAMETERS, map(round, answer), strict=True))
    found["result"] = found["call"] // 2
    found["call"] -= found["result"]
    return msgspec.structs.replace(costs, **found)


def fold(shape: Shape) -> int:
    """The same recording always falls in the same fold, whatever its steps."""
    return hashlib.blake2b(shape.id.partition("#")[0].encode()).digest()[0] % 5


def held_out(shapes: Sequence[Shape], costs: Overheads) -> list[float]:
    """The errors of each fold under what the other four teach, starting from nothing."""
    errors: list[float] = []
    costs = without(costs)
    for part in range(5):
        train = [shape for shape in shapes if fold(shape) != part]
        test = [shape for shape in shapes if fold(shape) == part]
        if test:
            fitted = fit(train, costs) if train else costs
            errors += [abs(total(one, fitted) / one.reported - 1) for one in test]
    return errors


def spread(errors: Iterable[float]) -> str:
    ordered = sorted(errors)
    if not ordered:
        return f"{'':>7} {'':>7}"
    p90 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
    return f"{statistics.median(ordered):7.1%} {p90:7.1%}"


def measure(shapes: Iterable[Shape], *, refit: bool, worst: int) -> None:
    groups: defaultdict[tuple[str, str], list[Shape]] = defaultdict(list)
    for shape in shapes:
        groups[shape.dialect, tokens._family(shape.dialect, shape.model)].append(shape)
    by_dialect: defaultdict[str, list[Shape]] = defaultdict(list)
    held: defaultdict[str, list[float]] = defaultdict(list)
    print(f"{'dialect / family':34} {'n':>4}  {'ours: median, p90':15}  {'chars/4':15}  held out")
    for (dialect, family), group in sorted(groups.items()):
        by_dialect[dialect] += group
        costs = tokens.overheads_for(dialect, group[0].model)
        out = held_out(group, costs) if refit else []
        held[dialect] += out
        line(f"  {family}", group, out)
        if refit:
            print(f"      {fit(group, costs)}")
        for one in sorted(group, key=lambda s: -abs(estimate(s) / s.reported - 1))[:worst]:
            print(f"      {estimate(one):6.0f} for {one.reported:6} {one.model} {one.id[-60:]}")
    for dialect, group in sorted(by_dialect.items()):
        line(dialect, group, held[dialect])


def estimate(shape: Shape) -> float:
    return total(shape, tokens.overheads_for(shape.dialect, shape.model))


def line(name: str, shapes: Sequence[Shape], out: list[float]) -> None:
    ours = spread(abs(estimate(one) / one.reported - 1) for one in shapes)
    naive = spread(abs(one.chars / 4 / one.reported - 1) for one in shapes)
    print(f"{name:34} {len(shapes):4}  {ours}  {naive}  {spread(out)}")


# --- the estimator's weights


def strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value, and every small object as JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        if 30 < len(text := compact(value)) < 2_000:
            yield text
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def texts_of(path: Path) -> Iterator[str]:
    data = path.read_bytes()
    content = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "jsonl":
        for record in content.splitlines():
            yield from strings(json.loads(record))
    elif kind == "json":
        yield from strings(json.loads(content))
        yield content
    else:
        yield content


def corpus(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Chunks of 40 to 1,200 characters with the kind of text they come from."""
    random.seed(7)
    pools: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        kind = path.name if ".json" in path.name else path.suffix
        pools[kind] += texts_of(path)
    for language, sample in SAMPLES.items():
        pools[f"sample {language}"] += [sample] * 25
    for _ in range(40):
        pools["base64"].append(base64.b64encode(random.randbytes(300)).decode())
        pools["hex"].append(random.randbytes(60).hex())
        numbers = [round(random.random() * 10**5, random.randrange(5)) for _ in range(30)]
        pools["numbers"] += [compact(numbers), str(numbers), str([int(n) % 50 for n in numbers])]
        pools["emoji"] += [SAMPLES["emoji"], " ".join(random.choices(SAMPLES["emoji"], k=40))]
        quoted = random.sample(SAMPLES["fr"].split(), 12)
        pools["typographic"].append(f"“{quoted[0]}” — {' → '.join(quoted)}… ‘{quoted[1]}’ • 2×3")
        record = [
            {"id": f"usr_{n:x}", "at": f"2026-01-{n % 28:02}T10:00:00Z", "ok": True}
            for n in random.sample(range(10**6), 4)
        ]
        pools["records"] += [compact(record), json.dumps(record, indent=2)]
    for kind, pool in sorted(pools.items()):
        limit = 25 if kind.startswith("sample") else 60 if not kind.startswith(".") else 700
        limit = 1_000 if ".json" in kind else limit
        pool = [text for text in pool if len(text) >= 12]
        for text in random.sample(pool, min(limit, len(pool))):
            size = random.choice((40, 80, 150, 300, 600, 1_200))
            start = random.randrange(max(1, len(text) - size))
            yield kind, text[start : start + size]


def references() -> dict[str, Callable[[str], int]]:
    found: dict[str, Callable[[str], int]] = {
        "o200k": tokens.counter_for("gpt-4o").count,
        "gemma3": tokens.counter_for("gemini-2.5-flash").count,
    }
    try:
        from ctok import token_count
    except ImportError:
        print("ctok is not installed: the weights for Claude are not fitted", file=sys.stderr)
        return found
    empty = {version: token_count("a", version) - 1 for version in ("3.0", "4.8")}
    found["claude-3"] = lambda text: token_count(text, "3.0") - empty["3.0"]
    found["claude-4.7"] = lambda text: token_count(text, "4.8") - empty["4.8"]
    return found


def estimator(paths: Sequence[Path]) -> None:
    """Fit and print the weights, with their error on a held-out third of the chunks."""
    chunks = list(dict.fromkeys(corpus(paths)))
    sizes = Tally(kind for kind, _ in chunks)
    shares = {kind: 3.0 if ".json" in kind or kind[0] == "." else 0.5 for kind in sizes}
    held = {text for _, text in chunks if hashlib.blake2b(text.encode()).digest()[0] % 3 == 0}
    o200k = tokens.counter_for("gpt-4o").count
    for key, reference in references().items():
        for with_o200k in (False, True) if key.startswith("claude") else (False,):
            rows, wanted, weigher = [], [], []
            for kind, text in chunks:
                if text not in held:
                    first = o200k(text) if with_o200k else 0
                    rows.append([first, *tables.features(text)])
                    wanted.append(reference(text))
                    unit = max(1, wanted[-1])
                    weigher.append(unit / (shares[kind] / sizes[kind] * len(chunks)) ** 0.5)
            answer = solve(rows, wanted, weigher, [0.0] * len(rows[0]), 1e-6)
            under: list[float] = []
            errors: list[float] = []
            for _, text in chunks:
                if text in held and len(text) > 30:
                    first = o200k(text) if with_o200k else 0
                    line = [first, *tables.features(text)]
                    guess = max(1, round(sum(a * b for a, b in zip(line, answer, strict=True))))
                    errors.append(abs(guess / max(1, reference(text)) - 1))
                    under.append(reference(text) / guess - 1)
            names = ("o200k", *tables.FEATURES)
            margin = sorted(under)[int(len(under) * 0.99)]
            print(f"{key} {with_o200k=} held-out median, p90: {spread(errors)}; {margin=:.2f}")
            print("   ", ", ".join(f"{value:.3f}" for value in answer))
            print("   ", {n: round(v, 3) for n, v in zip(names, answer, strict=True)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("exchanges", type=Path, nargs="?")
    parser.add_argument("--fit", action="store_true", help="fit the overheads and cross-validate")
    parser.add_argument("--worst", type=int, default=0, help="show the N worst of each family")
    parser.add_argument("--half", type=int, choices=(0, 1), help="only this half of the recordings")
    parser.add_argument("--all", action="store_true", help="also what nobody can count")
    parser.add_argument("--unused", action="store_true", help="the same, if no server tool ran")
    parser.add_argument("--texts", type=Path, nargs="*", default=[], help="files to learn from")
    arguments = parser.parse_args()
    if arguments.texts:
        estimator(arguments.texts)
    if arguments.exchanges:
        everything = arguments.all or arguments.unused
        shapes = read(arguments.exchanges, half=arguments.half, everything=everything)
        if arguments.unused:
            shapes = (shape for shape in shapes if not shape.served)
        measure(shapes, refit=arguments.fit, worst=arguments.worst)


# ruff: noqa: E501, RUF001
SAMPLES = {
    "zh": (
        "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。请帮我预订下周五从北京飞往上海的航班，经济舱，靠窗座位。系统检测到数据库连接超时，"
        "请检查网络配置后重试。"
    ),
    "ja": (
        "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。来週の金曜日に東京から大阪までの新幹線を予約してください。データベース接続がタイムア"
        "ウトしました。設定を確認してください。"
    ),
    "ko": (
        "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 다음 주 금요일에 서울에서 부산으로 가는 기차를 예약해 주세요. 데이터베이스 연"
        "결 시간이 초과되었습니다."
    ),
    "ru": (
        "Все люди рождаются свободными и равными в своем достоинстве и правах. Пожалуйста, за"
        "бронируйте билет на самолёт из Москвы в Казань на следующую пятницу. Соединение с ба"
        "зой данных прервано, проверьте настройки сети."
    ),
    "uk": (
        "Всі люди народжуються вільними і рівними у своїй гідності та правах. Будь ласка, заб"
        "ронюйте квиток на потяг до Львова на наступну п’ятницю."
    ),
    "ar": (
        "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميرًا وعليهم أ"
        "ن يعامل بعضهم بعضًا بروح الإخاء. يرجى حجز رحلة من القاهرة إلى دبي يوم الجمعة القادم."
    ),
    "he": (
        "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. אנא הזמינו לי טיסה מתל אביב לפ"
        "ריז ביום שישי הבא."
    ),
    "hi": (
        "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त "
        "है। कृपया अगले शुक्रवार को दिल्ली से मुंबई की उड़ान बुक करें।"
    ),
    "th": (
        "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ กรุณาจองเที่ยวบินจากกรุงเทพไปเชียงใหม่ในวันศุกร์หน้า"
    ),
    "el": (
        "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. "
        "Παρακαλώ κλείστε μια πτήση από την Αθήνα για το Παρίσι."
    ),
    "de": (
        "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Bitte buchen Sie fü"
        "r nächsten Freitag einen Flug von München nach Köln. Die Datenbankverbindung wurde u"
        "nterbrochen, überprüfen Sie die Netzwerkkonfiguration."
    ),
    "fr": (
        "Tous les êtres humains naissent libres et égaux en dignité et en droits. Veuillez ré"
        "server un vol de Paris à Genève pour vendredi prochain. La connexion à la base de do"
        "nnées a expiré, vérifiez la configuration du réseau."
    ),
    "es": (
        "Todos los seres humanos nacen libres e iguales en dignidad y derechos. Por favor, re"
        "serve un vuelo de Madrid a Bogotá para el próximo viernes. La conexión con la base d"
        "e datos ha caducado; compruebe la configuración."
    ),
    "pt": (
        "Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Por favor,"
        " reserve um voo de São Paulo para Lisboa na próxima sexta-feira."
    ),
    "pl": (
        "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Pros"
        "zę zarezerwować lot z Warszawy do Krakowa na przyszły piątek."
    ),
    "tr": (
        "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Lütfen gelecek cuma"
        " için İstanbul’dan Ankara’ya bir uçuş rezervasyonu yapın."
    ),
    "vi": (
        "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi. Vui "
        "lòng đặt chuyến bay từ Hà Nội đến Đà Nẵng vào thứ Sáu tới."
    ),
    "fi": (
        "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan. Varaa "
        "lento Helsingistä Ouluun ensi perjantaille, kiitos."
    ),
    "cs": (
        "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Zarezervujte pr"
        "osím let z Prahy do Brna na příští pátek."
    ),
    "bn": (
        "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। অনুগ্রহ করে আগা"
        "মী শুক্রবার ঢাকা থেকে কলকাতার ফ্লাইট বুক করুন।"
    ),
    "ta": ("மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும் உரிமைகளிலும் சமமானவர்கள்."),
    "emoji": (
        "Great job! 🎉🎉 Let us meet at 5pm ☕️ 👩‍💻👨‍👩‍👧 🚀 ok 👍🏽 → see ✅ done ❌ failed ★★★☆☆ ❤️🔥"
        " 😀😂🙏"
    ),
}

if __name__ == "__main__":
    main()
