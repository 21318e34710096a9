"""Which lines of a text are alike, and which tell of a failure.

A log says the same few things again and again, and once something else. Lines are alike that differ
only in what varies: times, numbers, ids, and words at a place where nearly every line has another
word. A rare word at a place where words repeat does not vary: it makes its line the only one of
its kind. No format is known here: what varies is learned from the text itself.

Top to bottom: signs of failure, what varies, kinds of lines.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from weft.late import late_pattern

GRAVE, TROUBLE = 12.0, 5.0
"""The weight of a line that tells of a failure, and of one that tells of something amiss."""

_LETTERS = 4_000
"""How many letters of a line are read: a minified one may have megabytes."""

_FOREIGN = (
    "fehler", "fehlge", "gescheitert", "verweigert", "warnung", "überschritten", "abgebrochen",
    "erreur", "échec", "échou", "refusé", "avertissement", "fallo", "falló", "fallid", "denegad",
    "advertencia", "rechazad", "errore", "fallit", "negato", "rifiutat", "falha", "falhou", "negad",
    "recusad", "fout", "mislukt", "geweigerd", "błąd", "niepowodzenie", "odmowa", "chyba", "selhal",
    "hata", "ошибк", "сбой", "отказ", "не удал", "помилк", "错误", "失败", "警告",
    "异常", "拒绝", "超时", "錯誤", "失敗", "エラー", "拒否", "例外", "タイムアウト", "오류",
    "실패", "경고", "거부", "خطأ", "فشل", "त्रुटि",
)  # fmt: skip
"""Of these the stem is enough: nobody here knows how their words end."""

_STEMS = (
    "err", "exce", "fatal", "fail", "warn", "trace", "denied", "refused", "invalid", "missing",
    "undefined", "panic", "abort", "cannot", "can't", "could not", "couldn't", "unable", "time",
    "crit", "alert", "emerg", "severe", "reject", "forbid", "unauth", "not found", "no such",
    "no space", "no route", "not permitted", "not exist", "memory", "oom", "kill", "segfault",
    "segmentation", "dumped", "deadlock", "corrupt", "unreach", "unhealthy", "crash", "broken",
    "sig", "backoff", "back-off", "evict", "unexpected", "mismatch", "violat", "rollback", "rolled",
    "overflow", "conflict", "bug", "oops", "hung", "lost", "disconnect", "throttl", "exhaust",
    "insufficient", "unsupported", "expired", "stack", "not ok", "degraded", "revoked", "blocked",
    "stuck", "leak", "anomal", "attack", "impossible", "unavailable", "✗", "✘", "❌", "✖", "⚠",
    *_FOREIGN,
)  # fmt: skip
"""A line without any of these has no word that tells of a failure."""

_GRAVE = late_pattern(
    r"(?<=\w)(?:Error|Exception|Failure)\b|Traceback|\b(?:FATAL|ERROR|ERR|FAILED|FAILURE|FAIL"
    r"|CRITICAL|CRIT|SEVERE|EMERG|EMERGENCY|PANIC|OOM|SIG(?:KILL|SEGV|ABRT|BUS|ILL|FPE))\b|ERR!"
    r"|\bBUG:|Oops|\b(?:fatal|panic|error|failed|segfault|segmentation fault|core dumped"
    r"|out of memory|oom-?kill|deadlock|crashed|corrupt)"
    r"|\b(?:Error|Fatal|Panic|Failed|Killed|Crash|OOMKilled|Out of memory|Evicted)\b"
    r"|^not ok\b|[✗✘❌✖]"
)
_TROUBLE = late_pattern(
    r"\b(?:errs?|errors?|warn|exceptions?|fail(?:s|ed|ing|ures?|over)?|traceback|alert"
    r"|den(?:ied|ies|y)|refus(?:ed|es|ing)|reject(?:ed|s|ing)?|forbidden|unauthori[sz]ed"
    r"|unauthenticated|missing|undefined|abort(?:ed|ing|s)?|cannot|unable|timeouts?"
    r"|timed[ -]out|critical|severe|emergency|kill(?:ed|ing)|unreachable|unhealthy|broken"
    r"|back-?off|evicted|rollback|rolled back|hung|lost|exhausted|insufficient|unsupported"
    r"|expired|stack trace|not (?:found|permitted|exist)|(?:does|did|do) not exist"
    r"|no (?:such|space|route)|could(?: not|n't)|can't|degraded|revoked|blocked|stuck"
    r"|impossible|memory (?:leak|limit|pressure)|sig(?:term|int|hup|pipe))\b"
    r"|\b(?:invalid|crash|unexpected|mismatch|violat|overflow|conflict|disconnect|throttl|leak"
    r"|anomal|attack|mism)|warning|(?<=\w)(?:timeout|denied|refused|notfound|backoff|unavailable)\b"
    r"|⚠",
    re.IGNORECASE,
)
_NUMERIC = late_pattern(
    r"\bHTTP/[\d.]+\"?\s+([45])\d\d\b|\bstatus(?:[_ ]?code)?[\"']?\s*[:= ]\s*[\"']?([45])\d\d\b"
    r"|\b(?:exit(?:ed)?(?: with)?(?: (?:code|status))?|exit_?(?:code|status)|return_?code|rc|errno)"
    r"[\"'>]{0,2}\s*[:= (>]\s*-?[1-9]\d{0,9}\b|\bstatus\s*[:= ]\s*[1-9]\d*/[A-Z]"
)
"""Statuses and exit codes: the number says whether something failed."""
_CODED = late_pattern(r"\b(?:http/|status|exit|return_?code|rc\b|errno)", re.IGNORECASE)
_LETTER_LEVEL = late_pattern(
    r"^[EFW]\d{4} |(?:^|\d\s+|\d\] ?)[EF](?:/| (?=\S+:))|^E   "
    r"|^(?:\S+\.py )?[.sxX]*[FE][.sxXFE]*(?: +\[|$)",
)
"""A level of one letter, as Google's and Android's loggers have it, and pytest's marks."""
_NONE = late_pattern(
    r"\b(?:0|no|zero|without(?: any)?|any)\s+(?:(?:new|known|unhandled)\s+)?"
    r"(?:errors?|failures?|failed|warnings?|exceptions?|conflicts?|missing|timeouts?|invalid"
    r"|aborted|leaks?|lost)\b"
    r"|(?:err(?:or)?s?|fail(?:ed|ures?)?|warn(?:ings?)?|exceptions?|missing|timeouts?|invalid"
    r"|aborted|killed|lost|conflicts?|unreachable)(?:_count)?[\"']?\s*[:=]\s*"
    r"(?:[\"']{2}|0(?![\d.]*[1-9])|null|nil|none|false|no\b|\[\]|\{\}|<nil>)",
    re.IGNORECASE,
)
"""Says that nothing is amiss."""
_ANY = late_pattern(r"(?i)\b0|\bno\b|\bnone|zero|without|\bany\b|nu?ll?\b|false|\"\"|''|\[\]|\{\}")
"""Without one of these nothing says so."""


_CODE_WORDS = ("http/", "status", "exit", "return", "errno", "rc")
_LEVELS = "EFW"
"""A text without any of these has no status or exit code, and no level of one letter."""
_NO_DIGITS = str.maketrans("", "", "0123456789")


def troubles_in(lines: Sequence[str]) -> list[float]:
    """The weight of each line by the failure it tells of; 0.0 where it tells of none.

    What the lines together have none of is not looked for in each of them.
    """
    text = "\n".join(lines)
    # lines that differ in numbers only are looked at once: no stem has a digit
    lowered = "\n".join({*text.lower().translate(_NO_DIGITS).split("\n")})
    stems = _stems_in(lowered)
    has_code = any(word in lowered for word in _CODE_WORDS)
    has_level = any(letter in text for letter in _LEVELS)
    if not (stems or has_code or has_level):
        return [0.0] * len(lines)
    troubles: list[float] = []
    for line in lines:
        near = line[:_LETTERS]
        trouble = _weigh_words(near, stems) if stems else 0.0
        trouble = max(trouble, _weigh_code(near)) if has_code else trouble
        troubles.append(max(trouble, _weigh_letter(near)) if has_level else trouble)
    return troubles


def _stems_in(lowered: str) -> list[str]:
    """Which of the stems a text in lower case has."""
    return [stem for stem in _STEMS if stem in lowered]


def trouble_in(line: str) -> float:
    """The weight of a line that tells of a failure; 0.0 for any other line."""
    near = line[:_LETTERS]
    return max(_weigh_words(near, _STEMS), _weigh_code(near), _weigh_letter(near))


def _weigh_words(near: str, stems: Sequence[str]) -> float:
    lowered = near.lower()
    if not any(stem in lowered for stem in stems):
        return 0.0
    if _NONE.search(near) is not None:
        near = _NONE.sub("", near)
    if _GRAVE.search(near) is not None:
        return GRAVE
    if _TROUBLE.search(near) is not None:
        return TROUBLE
    return TROUBLE if any(stem in lowered for stem in _FOREIGN) else 0.0


def _weigh_code(near: str) -> float:
    """By a status or an exit code; that the caller is to blame is less than a failure."""
    match = _NUMERIC.search(near)
    return 0.0 if match is None else TROUBLE if "4" in (match[1], match[2]) else GRAVE


def _weigh_letter(near: str) -> float:
    near = near[:200]
    if not any(letter in near for letter in _LEVELS) or _LETTER_LEVEL.search(near) is None:
        return 0.0
    return TROUBLE if near[0] == "W" else GRAVE


_MARKED = late_pattern(r"^(?:#|[EFW]) |[# \]][EF][/ ]|^E |^(?:\S+\.py )?[.sxXFE]+(?: \[|$)")
"""What a line with a level of one letter looks like without its numbers."""


# --- what varies

_VARIES = re.compile(
    r"(?<!\w)(?:[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"  # a UUID
    r"|(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?!\w)"  # an address of hardware
    r"|[a-f]{8,}(?!\w)"  # hex that happens to have no digit
    r"|[^\W\d]*+\d\w*(?:[.,:/+-]+[^\W\d]*+\d\w*|(?<=[0-9a-fA-F]):[0-9a-fA-F]*:)*)"
)
"""Words with a digit, and several of them in a row: numbers, times, addresses, versions, ids."""

_DATED = re.compile(r"([^\W\d_]{2,10})\.?,?(?: de)?[ /-]{1,2}(?=#)|(?<=#) ?[AaPp]\.?[Mm]\.?(?!\w)")
"""A word before a number, which may be part of a date; and what comes after a time."""

_MONTHS_AND_DAYS = (
    "January February March April May June July August September October November December"
    " Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
    " Januar Februar März Mai Juni Juli Oktober Dezember"
    " Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"
    " janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
    " lundi mardi mercredi jeudi vendredi samedi dimanche"
    " enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
    " gennaio febbraio aprile maggio giugno luglio ottobre dicembre"
    " janeiro fevereiro maio junho julho setembro outubro dezembro"
    " maart mei augustus stycznia lutego marca kwietnia maja czerwca lipca sierpnia września"
    " października listopada grudnia"
    " января февраля марта апреля мая июня июля"
    " августа сентября октября ноября декабря"
)
_DATE_WORDS = frozenset(
    name[:size].lower() for name in _MONTHS_AND_DAYS.split() for size in range(3, len(name) + 1)
) - {"set", "out", "ott"}

_SIGNS = "年月日时時分秒"
"""What stands after the numbers of a Chinese or Japanese date."""
_RUN = re.compile(rf"#(?:[\s,:/.+{_SIGNS}-]*#)+[{_SIGNS}]?|#[{_SIGNS}]")
_AGAIN = re.compile(r"([^\w\s#])\1+")
_WORDS = r"[\u2e80-\u9fff\uac00-\ud7af]|[^\W\d_][\w'.@-]*|_\w*|#|[^\w\s]"
_PIECE = re.compile(_WORDS)
_PIECE_OR_PATH = re.compile(
    rf"[^\s\"'()\[\]{{}}<>,;=|/\\]{{0,80}}+[/\\][^\s\"'()\[\]{{}}<>,;|]*|{_WORDS}"
)
"""Words and signs; a path or an address is one name."""
_PLAIN = re.compile(r"[^\W\d_](?:[^\W\d_]|'(?!$))*")
"""A word as in a sentence, not a name with dots, slashes or an inner capital."""
_CAMEL = re.compile(r"[a-z][A-Z]")


def _drop_date(match: re.Match[str]) -> str:
    """Nothing for a word of a date; any other word as it is."""
    word = match[1]
    return "" if word is None or word.lower() in _DATE_WORDS else match[0]


def _plain_form(line: str, known: dict[str, str]) -> str:
    """A line without what varies: `#` stands for each number, time, address and id.

    What lines without their numbers become is remembered in `known`.
    """
    bare = _VARIES.sub("#", line)
    form = known.get(bare)
    if form is None:
        form = bare
        if "#" in form:
            # twice: a day stands before its month
            form = _RUN.sub("#", _DATED.sub(_drop_date, _DATED.sub(_drop_date, form)))
        form = known[bare] = _AGAIN.sub(r"\1", " ".join(form.split()))
    return form


# --- kinds of lines

_PLACE = 8.0
"""How many equally likely words make a place vary; a name varies with fewer."""
_PLACE_OF_NAMES = 3.0
_FEW = 16
"""With fewer lines, each word at a place counts as one of its own; names from a quarter on."""
_ALIKE = 0.5
"""The share of its plain words that a line must have in common with others of its kind."""
_COMPARED = 60
"""With how many others of its structure a line is compared."""
_MOST_FORMS = 3_000
"""Of more forms, most of them the only one, each is taken for a kind of its own."""
_MOST_KINDS = 4
"""How many kinds lines with one structure may make by words that are not rare."""
_CONTEXT = 3
"""In how many clusters a word may vary before it no longer tells lines apart."""
_RARE = 2
"""A word that no more lines have is rare, where most words at its place are not."""
_PROSE_WORDS = 5


_Line = tuple[str, bool]
"""A line without what varies, and whether it tells of a failure."""


class LineKinds(NamedTuple):
    """The kind of each line by number; -1 for blank lines and for sentences of a prose text."""

    of: list[int]
    sizes: list[int]
    """How many lines each kind has."""
    troubles: list[float]
    """The weight of each line by the failure it tells of."""


class _LineForm(NamedTuple):
    """A line without what varies, its words in order, and how many lines are just so."""

    text: str
    words: tuple[str, ...]
    times: int


def kinds_of(lines: Sequence[str]) -> LineKinds:
    """Which lines are alike; one that tells of a failure is not like one that does not."""
    known: dict[str, str] = {}
    plain = [_plain_form(line[:_LETTERS], known) for line in lines]
    stems = _stems_in("\n".join(known.values()).lower())
    # of lines that differ in numbers one is looked at, and each only if that one is amiss
    amiss = {
        form: (
            _weigh_words(form, stems),
            _CODED.search(form) is not None,
            _MARKED.search(form) is not None,
        )
        for form in dict.fromkeys(known.values())
    }
    forms: list[_Line | None] = []
    troubles: list[float] = []
    for line, form in zip(lines, plain, strict=True):
        trouble, coded, marked = amiss[form]
        # a number may say that there was none of it
        if trouble and _ANY.search(line) is not None:
            trouble = _weigh_words(line[:_LETTERS], stems)
        trouble = max(trouble, _weigh_code(line[:_LETTERS])) if coded else trouble
        trouble = max(trouble, _weigh_letter(line)) if marked else trouble
        troubles.append(trouble)
        forms.append((form, trouble > 0) if form else None)
    times = Counter(form for form in forms if form is not None)
    named = _kinds_of_forms(times)
    prose = _sentences(times, named)
    named = {one: name for one, name in named.items() if one not in prose}
    numbers: dict[tuple[object, ...], int] = {}
    of = [
        numbers.setdefault(named[form], len(numbers)) if form in named and form else -1
        for form in forms
    ]
    sizes = Counter(of)
    return LineKinds(of, [sizes[number] for number in range(len(numbers))], troubles)


def _kinds_of_forms(times: Counter[_Line]) -> dict[_Line, tuple[object, ...]]:
    """What each form is an example of."""
    # hardly a line is like another, and there are too many to compare
    if len(times) > _MOST_FORMS and len(times) * 2 > times.total():
        return {form: form for form in times}
    groups: defaultdict[tuple[str, bool], list[_LineForm]] = defaultdict(list)
    for (text, fails), count in times.items():
        structure, words = _take_apart(text)
        groups[structure, fails].append(_LineForm(text, words, count))
    clusters = [
        (key, _Cluster(members))
        for key, forms in groups.items()
        for members in _cluster_forms(forms)
    ]
    context = _context(cluster for _, cluster in clusters)
    named: dict[_Line, tuple[object, ...]] = {}
    for number, ((_, fails), cluster) in enumerate(clusters):
        for form, pattern in zip(cluster.forms, cluster.patterns(context), strict=True):
            named[form.text, fails] = number, pattern
    return named


def _take_apart(form: str) -> tuple[str, tuple[str, ...]]:
    """A form as its structure, `w` for each word or name, and the words themselves."""
    structure: list[str] = []
    words: list[str] = []
    pattern = _PIECE_OR_PATH if "/" in form or "\\" in form else _PIECE
    for piece in pattern.findall(form):
        if piece[0].isalpha() or piece[0] == "_" or "/" in piece or "\\" in piece:
            structure.append("w")
            words.append(piece)
        else:
            structure.append(piece)
    return "".join(structure), tuple(words)


def _is_plain(word: str) -> bool:
    return _PLAIN.fullmatch(word) is not None and _CAMEL.search(word) is None


def _cluster_forms(forms: Sequence[_LineForm]) -> list[list[_LineForm]]:
    """Forms of one structure by the words that they have in common, each with its likes."""
    clusters: list[list[_LineForm]] = []
    # of very many that are all different, each is compared with the last few
    compared = max(4, min(_COMPARED, 40_000 // len(forms)))
    for form in forms if len(forms) > 1 else ():
        plain = [place for place, word in enumerate(form.words) if _is_plain(word)]
        home: list[_LineForm] | None = None
        for cluster in reversed(clusters[-compared:]):
            first = cluster[0].words
            same = sum(first[place] == form.words[place] for place in plain)
            if same >= _ALIKE * len(plain):
                home = cluster
                break
        if home is None:
            clusters.append([form])
        else:
            home.append(form)
    return clusters or [[*forms]]


class _Cluster:
    """Lines of one structure that have most words in common."""

    def __init__(self, forms: list[_LineForm]) -> None:
        self.forms = forms
        places = range(len(forms[0].words) if len(forms) > 1 else 0)
        self.counts = [_count_words(forms, place) for place in places]
        self._total = sum(form.times for form in forms)
        self._spread = [_spread(count) for count in self.counts]
        self._varies = [
            _varies(count, wide, self._total)
            for count, wide in zip(self.counts, self._spread, strict=True)
        ]

    def patterns(self, context: Container[str]) -> list[tuple[str, ...]]:
        """Each form with `*` at the places that vary; where words are few, or rare, they stay."""
        if len(self.forms) == 1:
            return [self.forms[0].words]
        usual: set[int] = set()
        patterns = [self._pattern(form, context, usual) for form in self.forms]
        # the places with most words go first, until the kinds are few; what is rare stays
        for place in sorted(range(len(self.counts)), key=lambda at: -self._spread[at]):
            if len(set(patterns)) <= _MOST_KINDS or self._spread[place] < 2.0:
                break
            usual.add(place)
            patterns = [self._pattern(form, context, usual) for form in self.forms]
        return patterns

    def _pattern(
        self, form: _LineForm, context: Container[str], usual: Container[int]
    ) -> tuple[str, ...]:
        return tuple(
            "*"
            if self._varies[place]
            or (len(self.counts[place]) > 1 and word in context)
            or (place in usual and not _is_rare(self.counts[place][word], self._total))
            else word
            for place, word in enumerate(form.words)
        )


def _context(clusters: Iterable[_Cluster]) -> set[str]:
    """Words that occur with many messages: levels, programs, hosts."""
    times: Counter[str] = Counter()
    for cluster in clusters:
        several = (count for count in cluster.counts if len(count) > 1)
        times.update({word for count in several for word in count})
    return {word for word, count in times.items() if count >= _CONTEXT}


def _count_words(forms: Iterable[_LineForm], place: int) -> Counter[str]:
    count: Counter[str] = Counter()
    for form in forms:
        count[form.words[place]] += form.times
    return count


def _spread(count: Counter[str]) -> float:
    """How many words a place has, if all were equally likely."""
    if len(count) == 1:
        return 1.0
    total = count.total()
    return math.exp(-sum(one / total * math.log(one / total) for one in count.values()))


def _varies(count: Counter[str], spread: float, total: int) -> bool:
    """Whether a place has words of all kinds; names vary where words would not yet."""
    if spread < _PLACE_OF_NAMES:
        return False
    if not all(map(_is_plain, count)):
        return total >= _FEW // 4
    return spread >= _PLACE and total >= _FEW


def _is_rare(times: int, total: int) -> bool:
    return times <= _RARE and times * 50 <= total


def _sentences(times: Counter[_Line], named: Mapping[_Line, object]) -> set[_Line]:
    """The lines of a prose text: most of its lines are sentences, and hardly one like another."""
    sizes: Counter[object] = Counter()
    for form, count in times.items():
        sizes[named[form]] += count
    sentences = {
        form for form in times if not form[1] and sizes[named[form]] <= 2 and _is_sentence(form[0])
    }
    return sentences if len(sentences) * 10 >= times.total() * 6 else set()


def _is_sentence(form: str) -> bool:
    """Whether a line reads as a part of a sentence: words, few signs, no time before them."""
    words = form.split()
    if len(words) < _PROSE_WORDS or form.count("#") * 6 > len(words) or "#" in words[0]:
        return False
    plain = sum(_PLAIN.fullmatch(word.strip(".,;:!?()\"'`*—-")) is not None for word in words)
    lower = sum(word[:1].islower() for word in words)
    return plain * 10 >= len(words) * 7 and lower * 2 >= len(words)
