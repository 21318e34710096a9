"""Addresses as people write them: with a login, a query, or a slash too many.

Only `base` is ever shown, kept in a log or put into an error: a login or a query may hold a key.
"""

import base64
import functools
import logging
import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote, unquote_plus


class Address(NamedTuple):
    """Where requests go, what every one of them carries behind it, and who asks."""

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
        user, _, password = self.login.partition(":")
        pair = f"{unquote(user)}:{unquote(password)}".encode()
        return {"authorization": f"Basic {base64.b64encode(pair).decode()}"}

    def secrets(self) -> list[str]:
        """What of it must not be seen."""
        values = [pair.partition("=")[2] for pair in self.query.split("&")]
        user, _, password = self.login.partition(":")
        lent = [text.rpartition(" ")[2] for text in self.credentials().values()]
        return [*values, password or user, unquote(password), *lent]

    def keys(self) -> list[str]:
        """What of it is surely a key: the password, and what a name in the query calls one."""
        pairs = (pair.partition("=") for pair in self.query.split("&"))
        named = [value for name, _, value in pairs if is_secret_name(name)]
        user, _, password = self.login.partition(":")
        return [*named, password or user]


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


MARK = "[key]"
"""What stands where a key stood."""

_SECRET_NAME = re.compile(r"key|token|secret|auth|passw|credential|cookie|signature|^sig$|^code$")
_WORD = 5
"""Up to this length, a key is hidden only where it stands as a word: `a` is in every other one."""


def is_secret_name(name: str) -> bool:
    """Whether a header or a field of a query says by its name that it holds a key."""
    return _SECRET_NAME.search(name.lower()) is not None


@functools.lru_cache(maxsize=1024)
def spellings(secret: str) -> tuple[str, ...]:
    """How a key may be written, the longest first: plain, in an address, in base64."""
    forms = {secret, quote(secret, safe=""), quote_plus(secret), unquote(secret)}
    forms.add(unquote_plus(secret))
    if len(secret) >= _WORD:
        for plain in tuple(forms):
            raw = plain.encode("utf-8", "surrogatepass")
            for coded in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
                forms.add(coded.decode().rstrip("="))
    return tuple(sorted(filter(None, forms), key=len, reverse=True))


def without_keys(text: str, secrets: Iterable[str]) -> str:
    """The text with a mark wherever one of the keys stands, whole or inside other text."""
    for secret in dict.fromkeys(secrets):
        for form in spellings(secret) if secret.strip() else ():
            if form not in text:
                continue
            if len(form) >= _WORD:
                text = text.replace(form, MARK)
            else:
                text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", MARK, text)
    return text


class BareAddresses(logging.Filter):
    """Takes logins and queries out of the addresses that a transport writes to its log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record through, its addresses bare."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                address_of(str(each)).base if "://" in str(each) else each for each in record.args
            )
        return True
