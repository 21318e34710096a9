"""Where models are served: addresses, and the variables that hold their keys. One table.

What is read from the environment is read when a request is sent, so a key that is exported later
is found. A key is never part of anything that is shown.
"""

import base64
import functools
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, cast

import msgspec

from weft.late import late_pattern

Scheme = Literal["bearer", "x-api-key", "x-goog-api-key", "api-key"]


class Address(NamedTuple):
    """A server's address in its parts: base, query, login and fragment."""

    base: str
    """Scheme, host and path, without a slash at the end."""
    query: str = ""
    login: str = ""
    """User and password, as they were written."""
    fragment: str = ""

    @property
    def host(self) -> str:
        """The host, with its port."""
        return self.base.partition("://")[2].partition("/")[0]

    def credentials(self) -> dict[str, str]:
        """The header that says who asks, where the address says it."""
        if not self.login:
            return {}
        from urllib.parse import unquote  # few addresses have a login

        user, _, password = self.login.partition(":")
        pair = f"{unquote(user)}:{unquote(password)}".encode()
        return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}

    def secrets(self) -> list[str]:
        """The parts of an address that must stay hidden."""
        values = [pair.partition("=")[2] for pair in self.query.split("&")]
        user, _, password = self.login.partition(":")
        from urllib.parse import unquote

        lent = [text.rpartition(" ")[2] for text in self.credentials().values()]
        return [*values, password or user, unquote(password), *lent]

    def keys(self) -> list[str]:
        """The parts that are surely keys: the password, and query values with a name for one."""
        pairs = (pair.partition("=") for pair in self.query.split("&"))
        named = [value for name, _, value in pairs if is_secret_name(name)]
        user, _, password = self.login.partition(":")
        return [*named, password or user]


class Service(msgspec.Struct, frozen=True):
    """One place that serves models."""

    name: str
    url: str
    """Its usual address; where it is "", `url_variables` must say it."""
    keys: tuple[str, ...] = ()
    """Variables that may hold a key; the first that is set wins."""
    tokens: tuple[str, ...] = ()
    """Variables that may hold a token, which always goes as a bearer's."""
    url_variables: tuple[str, ...] = ()
    scheme: Scheme = "bearer"
    open: bool = False
    """Whether it answers without a key."""
    stream_usage: bool = True
    """Whether it takes the option that asks for the usage of a stream."""
    path: str = ""
    """What follows the address that `url_variables` give."""

    def address(self) -> str:
        """Its address as it may be shown; "" where nobody says one."""
        return self.locate().base

    def locate(self) -> Address:
        """The address from the environment, or the default."""
        variable = _first(self.url_variables)
        if not variable:
            return address_of(self.url)
        address = address_of(variable if "://" in variable else f"http://{variable}")
        return address._replace(base=address.base.removesuffix(self.path) + self.path)

    def credentials(self, api_key: str | None) -> dict[str, str] | None:
        """The headers that identify the caller; None if a required key is missing."""
        key = api_key or _first(self.keys)
        if key:
            if self.scheme == "bearer":
                return {"authorization": f"Bearer {key}"}
            return {self.scheme: key}
        token = _first(self.tokens)
        if token:
            return {"authorization": f"Bearer {token}"}
        return {} if self.open else None

    @property
    def hint(self) -> str:
        """The hint for a missing key."""
        variable = self.keys[0] if self.keys else f"{self.name.upper()}_API_KEY"
        return f'export {variable}=..., or pass api_key="...", or use model="local"'


def _first(variables: tuple[str, ...]) -> str:
    return next((value for each in variables if (value := os.environ.get(each, "").strip())), "")


def _compatible(
    name: str, url: str, key: str, *, open: bool = False, stream_usage: bool = True
) -> Service:
    """A place that speaks the chat format; its address can be given as NAME_BASE_URL."""
    variable = f"{name.upper()}_BASE_URL"
    return Service(
        name, url, (key,), url_variables=(variable,), open=open, stream_usage=stream_usage
    )


@functools.lru_cache(maxsize=256)
def address_of(text: str) -> Address:
    """The address that a text spells; whether anybody answers there is not looked at."""
    rest, _, fragment = text.strip().partition("#")
    rest, _, query = rest.partition("?")
    scheme, there, rest = rest.partition("://")
    host, _, path = rest.partition("/")
    login, _, host = host.rpartition("@")
    base = f"{scheme}{there}{host}/{path}".rstrip("/")
    return Address(base, query, login, fragment)


GEMINI = Service(
    "gemini",
    "https://generativelanguage.googleapis.com",
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    url_variables=("GOOGLE_GEMINI_BASE_URL",),
    scheme="x-goog-api-key",
)

ANTHROPIC = Service(
    "anthropic",
    "https://api.anthropic.com",
    ("ANTHROPIC_API_KEY",),
    tokens=("ANTHROPIC_AUTH_TOKEN",),
    url_variables=("ANTHROPIC_BASE_URL",),
    scheme="x-api-key",
)

OPENAI = Service(
    "openai",
    "https://api.openai.com/v1",
    ("OPENAI_API_KEY",),
    url_variables=("OPENAI_BASE_URL",),
)

SERVICES: dict[str, Service] = {
    service.name: service
    for service in (
        GEMINI,
        ANTHROPIC,
        OPENAI,
        _compatible("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        _compatible("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        _compatible("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        _compatible("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        _compatible("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", stream_usage=False),
        _compatible("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        _compatible("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
        _compatible("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
        Service(
            "azure",
            "",
            ("AZURE_OPENAI_API_KEY",),
            tokens=("AZURE_OPENAI_AD_TOKEN",),
            url_variables=("AZURE_OPENAI_ENDPOINT",),
            scheme="api-key",
            path="/openai/v1",
        ),
        Service(
            "ollama",
            "http://localhost:11434/v1",
            ("OLLAMA_API_KEY",),
            url_variables=("OLLAMA_BASE_URL", "OLLAMA_HOST"),
            open=True,
            path="/v1",
        ),
        _compatible("vllm", "http://localhost:8000/v1", "VLLM_API_KEY", open=True),
        _compatible("lmstudio", "http://localhost:1234/v1", "LMSTUDIO_API_KEY", open=True),
        _compatible("llamacpp", "http://localhost:8080/v1", "LLAMACPP_API_KEY", open=True),
        _compatible("litellm", "http://localhost:4000/v1", "LITELLM_API_KEY", open=True),
    )
}
"""The places that a name such as `groq/NAME` means."""

MARK = "[key]"
"""What stands where a key stood."""

_SECRET_NAME = late_pattern(r"key|token|secret|auth|passw|credential|cookie|signature|^sig$|^code$")

_WORD = 5
"""Up to this length, a key is hidden only where it stands as a word: `a` is in every other one."""


def is_secret_name(name: str) -> bool:
    """Whether a header or a field of a query says by its name that it holds a key."""
    return _SECRET_NAME.search(name.lower()) is not None


@functools.lru_cache(maxsize=1024)
def spellings(secret: str) -> tuple[str, ...]:
    """How a key may be written, the longest first: plain, in an address, in base64."""
    from urllib.parse import quote, quote_plus, unquote, unquote_plus

    forms = {secret, quote(secret, safe=""), quote_plus(secret), unquote(secret)}
    forms.add(unquote_plus(secret))
    if len(secret) >= _WORD:
        for plain in tuple(forms):
            raw = plain.encode("utf-8", "surrogatepass")
            for coded in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
                # without the padding, which is lost where other text follows
                forms.add(coded.decode().rstrip("="))
    return tuple(sorted(filter(None, forms), key=len, reverse=True))


def without_keys(text: str, secrets: Iterable[str]) -> str:
    """The text with a mark wherever one of the keys stands, whole or inside other text."""
    for secret in dict.fromkeys(secrets):
        for form in spellings(secret) if secret.strip() else ():
            if form not in text:
                continue
            # a long key may stand inside other text, as in an address
            if len(form) >= _WORD:
                text = text.replace(form, MARK)
            else:
                text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", MARK, text)
    return text


KEY_NAMES = ("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY")
"""How environment variables end that hold a key."""

SHORTEST_KEY = 12


def environment_keys() -> dict[str, str]:
    """The keys in the environment, with the names of their variables."""
    return {
        value: name
        for name, value in os.environ.items()
        if name.endswith(KEY_NAMES) and len(value) >= SHORTEST_KEY
    }


def without_secrets(text: str, *holders: object) -> str:
    """A text that somebody else wrote, such as an exception's, without keys.

    Keys are what has the shape of one, what the environment holds as one, and what stands on the
    holders under a name such as `api_key`.
    """
    from weft.detect.find import replace_found  # few texts go this way
    from weft.detect.kinds import kinds_named

    own = [value for holder in holders for value in _keys_on(holder)]
    text = without_keys(text, (*own, *environment_keys()))
    secrets = kinds_named(("secrets",))
    return replace_found(text, secrets, lambda one: one.value if MARK in one.value else MARK)


def _keys_on(holder: object) -> Iterator[str]:
    """The texts that an object of somebody else's has under names such as `api_key`."""
    for place in (holder, type(holder)):
        fields = cast("Mapping[str, object]", getattr(place, "__dict__", {}))
        for name, value in fields.items():
            if isinstance(value, str) and len(value) >= _WORD and is_secret_name(name):
                yield value


class BareAddresses(logging.Filter):
    """Takes logins and queries out of the addresses that a transport writes to its log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record through, its addresses bare."""
        # the transport's log has the address among the arguments of its format
        if isinstance(record.args, tuple):
            record.args = tuple(
                address_of(str(each)).base if "://" in str(each) else each for each in record.args
            )
        return True
