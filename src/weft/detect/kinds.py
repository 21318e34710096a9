"""The table of detectors: every kind by its name, and the groups of kinds."""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from importlib import import_module

from weft.detect.found import Detector, Look, Span
from weft.errors import DeclarationError


def _late(family: str, name: str) -> Look:
    """A detector of a family of kinds, whose patterns are compiled when it is first used."""

    def look(text: str) -> Iterator[Span]:
        looks: Look = vars(import_module(f"weft.detect.{family}"))[name]
        return looks(text)

    return look


# In order of trust: of two kinds that claim the same characters the earlier one wins.
DETECTORS = (
    Detector(
        "api_key",
        _late("secrets", "look_for_keys"),
        "keys, tokens and passwords",
        secret=True,
        numbered=False,
    ),
    Detector("email", _late("contact", "look_for_emails"), "e-mail addresses", numbered=False),
    Detector("iban", _late("money", "look_for_ibans"), "bank accounts with a right checksum"),
    Detector("card", _late("money", "look_for_cards"), "payment cards with a right checksum"),
    Detector("crypto", _late("money", "look_for_wallets"), "addresses of wallets", numbered=False),
    Detector("ssn", _late("national", "look_for_ssns"), "US social security numbers"),
    Detector("passport", _late("national", "look_for_passports"), "passports, after the word"),
    Detector(
        "driver_license",
        _late("national", "look_for_licences"),
        "driving licences, after the words",
    ),
    Detector("national_id", _late("national", "look_for_national_ids"), "identity and tax numbers"),
    Detector(
        "license_plate", _late("national", "look_for_plates"), "number plates, after the words"
    ),
    Detector("medical_record", _late("national", "look_for_records"), "patients and insurances"),
    Detector("bank_account", _late("money", "look_for_accounts"), "accounts, after the words"),
    Detector(
        "swift", _late("money", "look_for_swifts"), "bank codes, beside the word", numbered=False
    ),
    Detector("ip", _late("contact", "look_for_ips"), "addresses of machines", numbered=False),
    Detector("mac", _late("contact", "look_for_macs"), "hardware addresses", numbered=False),
    Detector(
        "url", _late("contact", "look_for_urls"), "web addresses and host names", numbered=False
    ),
    Detector(
        "birth_date", _late("dates", "look_for_birth_dates"), "dates after a word about birth"
    ),
    Detector("date", _late("dates", "look_for_dates"), "days, times and years", numbered=False),
    Detector("phone", _late("contact", "look_for_phones"), "telephone numbers"),
    Detector("zip", _late("addresses", "look_for_zips"), "postal codes"),
    Detector("age", _late("dates", "look_for_ages"), "years of a life"),
    Detector(
        "address",
        _late("addresses", "look_for_addresses"),
        "postal addresses",
        shaped=False,
        numbered=False,
    ),
    Detector(
        "name", _late("names", "look_for_names"), "names of people", shaped=False, numbered=False
    ),
)
BY_NAME = {each.kind: each for each in DETECTORS}
KINDS = tuple(BY_NAME)
"""The kinds that a detector can find, by name."""

GROUPS = {
    "structured": tuple(each.kind for each in DETECTORS if each.shaped),
    "secrets": tuple(each.kind for each in DETECTORS if each.secret),
    "pii": tuple(each.kind for each in DETECTORS if not each.secret),
}
"""Names that stand for several kinds."""


def detector_named(name: str) -> Detector:
    """The detector of this kind, or an error that names the nearest one."""
    if name in BY_NAME:
        return BY_NAME[name]
    raise unknown(name)


def unknown(name: str) -> DeclarationError:
    """The error for a kind that nobody can find."""
    inside = [kind for kind in KINDS if kind in name.lower().split("_")]
    near = inside or get_close_matches(name.lower(), [*KINDS, *GROUPS], n=1, cutoff=0.5)
    listed = ", ".join([*KINDS, *GROUPS])
    hint = f'write "{near[0]}", or one of {listed}' if near else f"write one of {listed}"
    return DeclarationError(f"there is no detector named {name!r}", hint=hint)


def kinds_named(names: Iterable[str]) -> tuple[str, ...]:
    """The kinds that the names and groups stand for, in the order of the table."""
    wanted: set[str] = set()
    for name in names:
        wanted.update(GROUPS[name] if name in GROUPS else (detector_named(name).kind,))
    return tuple(kind for kind in KINDS if kind in wanted)


def check_kinds(names: Iterable[str], *, where: str) -> None:
    """Refuse a name that no detector and no group has."""
    for name in names:
        if name not in GROUPS and name not in BY_NAME:
            error = unknown(name)
            raise DeclarationError(error.message, where=where, hint=error.hint)
