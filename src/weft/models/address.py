"""Addresses as people write them: with a login, a query, or a slash too many.

Only `base` is ever shown, kept in a log or put into an error: a login or a query may hold a key.
"""

import base64
import functools
from typing import NamedTuple
from urllib.parse import unquote


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
        return [*values, password or user, unquote(password)]


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
