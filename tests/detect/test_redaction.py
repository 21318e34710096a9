"""Placeholders: the same for the same value, never looked into, and for numbers in JSON too."""

from weft.detect import Redaction, resolve_targets, restore_values
from weft.values import Json


def redaction(*kinds: str) -> Redaction:
    return Redaction(resolve_targets(kinds), "s1", {})


def test_the_same_value_gets_the_same_placeholder_in_every_text() -> None:
    first, second = redaction("email"), redaction("email", "phone")
    made = first.text("mail jane@example.org")
    assert made.removeprefix("mail ") == second.text("jane@example.org")
    assert first.text(made) == made


def test_what_looks_like_a_placeholder_is_left_and_not_put_back() -> None:
    kept = redaction("email", "phone")
    text = "see <EMAIL_0123456789> and <PHONE_4155550132>"
    assert kept.text(text) == text
    assert restore_values(text, kept.known) == (text, {})


def test_a_value_is_put_back_in_the_spelling_it_had() -> None:
    kept = redaction("card")
    spelled = "4111\u20111111\u20111111\u20111111"
    made = kept.text(f"card {spelled}")
    assert spelled not in made
    assert restore_values(made, kept.known)[0] == f"card {spelled}"


def test_a_small_number_is_replaced_where_its_field_says_what_it_is() -> None:
    kept = redaction("age", "zip", "bank_account")
    held: Json = {"age": 43, "zip": 62704, "account_number": 123456, "count": 43, "page": 12}
    made = kept.value(held)
    assert isinstance(made, dict)
    assert made["count"] == 43
    assert made["page"] == 12
    assert kept.known[str(made["age"])] == 43
    assert kept.known[str(made["zip"])] == 62704
    assert str(made["account_number"]).startswith("<BANK_ACCOUNT_")


def test_the_name_of_a_thing_is_no_persons() -> None:
    kept = redaction("name")
    held: Json = {"name": "Blue Chair", "products": [{"name": "Red Table"}]}
    assert kept.value(held) is held
    made = kept.value({"customer": {"name": "Zyxwv Quux"}, "users": [{"name": "Quux Zyxwv"}]})
    assert "Quux" not in str(made)
