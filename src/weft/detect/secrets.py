"""Keys, tokens and passwords, by the shapes their issuers give them."""

import math
import re
from collections.abc import Iterator

from weft.detect.kinds import Span, lower_letters, places

# What a key begins with, and what follows. The beginnings are looked for as they are, so that a
# long text without any costs next to nothing.
_TOKEN = "[A-Za-z0-9_-]"
_SHAPES = {
    "sk-": rf"(?:ant-|proj-|svcacct-|admin-|or-v1-)?{_TOKEN}{{16,300}}",
    "sk_live_ sk_test_ pk_live_ pk_test_ rk_live_ rk_test_": r"[A-Za-z0-9]{10,300}",
    "whsec_": r"[A-Za-z0-9+/=]{16,300}",
    "ghp_ gho_ ghu_ ghs_ ghr_": r"[A-Za-z0-9]{20,300}",
    "github_pat_": r"[A-Za-z0-9_]{22,300}",
    "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- glsoat-": r"[A-Za-z0-9_.-]{16,300}",
    "AKIA ASIA ABIA ACCA AGPA AIDA AROA ANPA ANVA AIPA": r"[A-Z0-9]{16}",
    "AIza": rf"{_TOKEN}{{30,300}}",
    "ya29.": rf"{_TOKEN}{{20,300}}",
    "GOCSPX-": rf"{_TOKEN}{{20,300}}",
    "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- xwfp-": r"[A-Za-z0-9-]{10,300}",
    "https://hooks.slack.com/": r"(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,300}",
    "discord.com/api/webhooks/ discordapp.com/api/webhooks/": r"\d{5,300}/[A-Za-z0-9_-]{20,300}",
    "eyJ": rf"{_TOKEN}{{8,2000}}\.eyJ{_TOKEN}{{4,4000}}\.{_TOKEN}{{4,1000}}",
    "npm_": r"[A-Za-z0-9]{30,300}",
    "pypi-": rf"{_TOKEN}{{40,300}}",
    "hf_ api_org_": r"[A-Za-z0-9]{20,300}",
    "SG.": rf"{_TOKEN}{{16,300}}\.{_TOKEN}{{16,300}}",
    "key-": r"[0-9a-f]{32}",
    "AC SK": r"[0-9a-f]{32}",
    "dop_v1_ doo_v1_ dor_v1_": r"[0-9a-f]{40,300}",
    "shpat_ shpca_ shppa_ shpss_": r"[0-9a-fA-F]{20,300}",
    "sq0atp- sq0csp-": rf"{_TOKEN}{{20,300}}",
    "EAA": r"[A-Za-z0-9]{60,300}",
    "lin_api_ lin_oauth_": r"[A-Za-z0-9]{20,300}",
    "ntn_ gsk_ xai- pplx- r8_": r"[A-Za-z0-9]{20,300}",
    "secret_": r"[A-Za-z0-9]{40,300}",
    "tvly-": r"[A-Za-z0-9-]{16,300}",
    "lsv2_pt_ lsv2_sk_": r"[A-Za-z0-9_]{20,300}",
    "PMAK- NRAK-": r"[A-Za-z0-9-]{20,300}",
    "sntrys_ sntryu_": r"[A-Za-z0-9_=+/.-]{30,300}",
    "hvs. hvb. hvr.": rf"{_TOKEN}{{20,300}}",
    "figd_ dckr_pat_ rubygems_ pul- tfp_ dapi sbp_ ATATT3x ATCTT3x": r"[-_A-Za-z0-9=]{24,300}",
    "AccountKey= SharedAccessKey=": r"[A-Za-z0-9+/=]{40,300}",
    "AGE-SECRET-KEY-1": r"[A-Z0-9]{40,300}",
    "nvapi- csk- glsa_ phx_ fw_ sgp_ dp.st. dp.pt.": r"[A-Za-z0-9_.-]{20,300}",
    "1//0": rf"{_TOKEN}{{40,300}}",
    "sk_": r"[0-9a-f]{40,64}",
    "AQ.Ab8R": rf"{_TOKEN}{{30,300}}",
    "pk.eyJ sk.eyJ": rf"{_TOKEN}{{30,300}}\.{_TOKEN}{{16,100}}",
    "pat": r"[A-Za-z0-9]{14}\.[0-9a-f]{64}",
}
_KEYS = tuple(
    (begin, re.compile(rf"{re.escape(begin)}(?:{rest})(?![A-Za-z0-9])"))
    for begins, rest in _SHAPES.items()
    for begin in begins.split()
)
_BOT = re.compile(r"[0-9]{8,10}(?<![0-9]{11}):AA[A-Za-z0-9_-]{30,60}")
_PEM = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----)[A-Za-z0-9+/=\s\\:,.()-]){0,20000}"
    r"(?:-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----)?"
)
_BEARER = re.compile(r"\s{1,3}(?P<value>[A-Za-z0-9._~+/=-]{16,2000})")
_BEARERS = ("bearer", "basic", "token")
_URL_PASSWORD = re.compile(r"://[^\s/:@'\"]{0,100}:(?P<value>[^\s/@'\"]{1,200})@(?=[\w.\[-])")
_NAMES = ("key", "secret", "token", "passw", "pwd", "passphrase", "credential")
_ASSIGNED = re.compile(
    r"(?i)(?:key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?key)?|tokens?|passw(?:or)?d|pwd"
    r"|passphrase|credentials?)"
    r"(?:\\?[\"'])?\s{0,3}(?:=>|:=|==?|:|is\b|,)\s{0,3}(?:(?P<open>\\?[\"'`])|(?![\"']))"
)
_KEY_NAMES = re.compile(
    r"(?i)(?:api|access|secret|private|encryption|signing|auth|service|master|account|app)[_.-]?\Z"
)
_QUOTED = re.compile(r"(?P<value>[^\"'`\n\\]{4,400})\\?[\"'`]")
_BARE = re.compile(r"(?P<value>(?:[^\s\"'`,;<>&|]|&(?!\w{1,40}=)){6,400})")
_CALL = re.compile(r"[A-Za-z_][\w.]*(?:\($|[(\[].*[)\]])")
_CLOSING = {")": "(", "]": "[", "}": "{"}
_PASSWORDS = frozenset({"passw", "pwd", "passphrase", "credential"})
_CODE = re.compile(
    r"(?i)(?:none|null|true|false|nil|undefined|os\.|env|process\.|self\.|this\.|config|settings"
    r"|str\b|"
    r"string\b|int\b|request|response|input|\$(?:\w+\Z|[{(])|<|\{|%(?:\w?\Z|[({]|\w+%)|\*{3,}|x{4,}|\.{3,}|your|my[_-]|example"
    r"|changeme|redacted|"
    r"required|optional|field|get|load|read|props|args|kwargs|params|options|data|token|secret"
    r"|password|key)"
)


def look_for_keys(text: str) -> Iterator[Span]:
    """Keys with a known beginning, private keys, bearer tokens, and what is assigned to a name."""
    for begin, pattern in _KEYS:
        if begin not in text:
            continue
        for at in places(text, begin):
            match = pattern.match(text, at)
            if match is None or (at and text[at - 1].isalnum() and begin[0].isalnum()):
                continue
            if not begin.startswith("sk-") or any(map(str.isdigit, match.group())):
                yield Span(*match.span())
    if ":AA" in text:
        for match in _BOT.finditer(text):
            yield Span(*match.span())
    if "PRIVATE KEY" in text:
        for match in _PEM.finditer(text):
            yield Span(match.start(), match.start() + len(match.group().rstrip()))
    if "://" in text:
        for match in _URL_PASSWORD.finditer(text):
            yield Span(*match.span("value"))
    yield from _look_for_named(text, lower_letters(text))


def _look_for_named(text: str, lower: str) -> Iterator[Span]:
    """Tokens after `Bearer`, and values assigned to names that call them secret."""
    for word in _BEARERS:
        for at in places(lower, word):
            match = _BEARER.match(text, at + len(word))
            if match is not None:
                value = match["value"].rstrip(".,")
                if _is_random(value, bits=2.8):
                    yield Span(match.start("value"), match.start("value") + len(value))
    for word in _NAMES:
        for at in places(lower, word):
            match = _ASSIGNED.match(text, at)
            if match is None:
                continue
            before = text[max(0, at - 12) : at]
            if word == "key" and _KEY_NAMES.search(before) is None:
                continue
            value = (_QUOTED if match["open"] else _BARE).match(text, match.end())
            if value is None:
                continue
            spoken = match.group().rstrip()[-1:].isalpha()
            secret = value["value"]
            if not match["open"]:
                secret = _without_end(secret, ".,:!?\\" if spoken else ".,:\\")
            if _is_secret(word, secret, quoted=bool(match["open"])):
                yield Span(value.start("value"), value.start("value") + len(secret))


def _without_end(value: str, stops: str) -> str:
    """A bare value without the stops and closing brackets of the sentence around it."""
    value = value.rstrip(stops)
    while (
        value
        and value[-1] in _CLOSING
        and value.count(value[-1]) > value.count(_CLOSING[value[-1]])
    ):
        value = value[:-1].rstrip(stops)
    return value


def _is_secret(name: str, value: str, *, quoted: bool) -> bool:
    """Whether what was assigned is a secret, and not code that fetches one or a stand-in."""
    if len(value) < (4 if quoted else 6) or " " in value.strip():
        return False
    if not quoted and _CALL.match(value) is not None:
        return False
    if _CODE.match(value) is not None and not _is_strong(value):
        return False
    if name in _PASSWORDS:
        return quoted or _is_mixed(value)
    return len(value) >= 12 and _is_mixed(value) and _is_random(value, bits=2.8)


def _is_strong(value: str) -> bool:
    """Whether letters, digits and signs or both cases stand together, and nothing as in code."""
    cased = any(map(str.isupper, value)) and any(map(str.islower, value))
    return (
        any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and (cased or any(each in "!@#%^&*?~+" for each in value))
        and not any(each in "._{}[]<>" for each in value)
    )


def _is_mixed(value: str) -> bool:
    """Whether a value has digits or signs between letters, as words have not."""
    letters = any(map(str.isalpha, value))
    digits = any(map(str.isdigit, value))
    signs = any(each in "!@#$%^&*?~+" for each in value)
    return (letters and (digits or signs)) or (digits and signs)


def _is_random(value: str, *, bits: float) -> bool:
    """Whether the characters are spread as in a key: at least that many bits a character."""
    size = len(value)
    spread = -sum(
        count / size * math.log2(count / size)
        for count in (value.count(each) for each in set(value))
    )
    return spread >= bits and any(map(str.isdigit, value))
