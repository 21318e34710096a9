"""Every kind finds what it should, and leaves alone what only looks like it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft import Agent, C
from weft.detect import GROUPS, KINDS, Redaction, add_detector, find, kinds_named, resolve_targets
from weft.errors import DeclarationError

FOUND = {
    "email": [
        ("write to jane.roe+x@mail.example.co.uk, please", "jane.roe+x@mail.example.co.uk"),
        ("'bob@example.com'", "bob@example.com"),
        ("<mailto:bob@example.com>", "bob@example.com"),
        ("müller@bücher.example", "müller@bücher.example"),
        ("jane [at] example [dot] org", "jane [at] example [dot] org"),
    ],
    "phone": [
        ("T: +(371) 20457142", "+(371) 20457142"),
        ("ring 1 (334) 272-7479", "1 (334) 272-7479"),
        ("+1 250-472-9542, ext. 620", "+1 250-472-9542, ext. 620"),
        ("tel:020 3964 2745", "020 3964 2745"),
        ("call (+351) (20) 4169-9696", "(+351) (20) 4169-9696"),
        ('{"phone_number": "0372653554"}', "0372653554"),
        ("homePhone: 40150667", "40150667"),
        ("from 644/458-2550", "644/458-2550"),
        ("call +1 (415) 555-0132 now", "+1 (415) 555-0132"),
        ("0049 30 1234567 is Berlin", "0049 30 1234567"),
        ("ring 020 7946 0958", "020 7946 0958"),
        ("mobile: 9472 7916", "9472 7916"),
        ("reach me at 4155550132", "4155550132"),
        ("415-555-0132x204", "415-555-0132x204"),
        ("06 12 34 56 78", "06 12 34 56 78"),
    ],
    "iban": [
        ("from AT61 1904 3002 3457 3201 to NO93 8601 1117 947 now", "NO93 8601 1117 947"),
        ("DE89370400440532013000", "DE89370400440532013000"),
        ("to GB29 NWBK 6016 1331 9268 19 today", "GB29 NWBK 6016 1331 9268 19"),
        ("fr1420041010050500013m02606", "fr1420041010050500013m02606"),
    ],
    "card": [
        ("card number 060422942718", "060422942718"),
        ("4111 1111 1111 1111", "4111 1111 1111 1111"),
        ("pay with 5555-5555-5555-4444.", "5555-5555-5555-4444"),
        ("amex 378282246310005", "378282246310005"),
        ("card 501800000009", "501800000009"),
    ],
    "crypto": [
        ("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
        (
            "0x52908400098527886E0F7030069857D2E4169EE7",
            "0x52908400098527886E0F7030069857D2E4169EE7",
        ),
        (
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        ),
    ],
    "ssn": [
        ("it is 536-22-1234", "536-22-1234"),
        ("write 123-45-6789 there", "123-45-6789"),
        ("SSN 536221234", "536221234"),
        ("itin 912-70-1234", "912-70-1234"),
    ],
    "national_id": [
        ("Belgian number 85073003328", "85073003328"),
        ("OIB 69435151530", "69435151530"),
        ("736028/5163", "736028/5163"),
        ("CNP 1800101221144", "1800101221144"),
        ("isikukood 37605030299", "37605030299"),
        ("teudat zehut 000000018", "000000018"),
        ("A123456789", "A123456789"),
        ("1-1014-00001-00-2", "1-1014-00001-00-2"),
        ("ACN 004 085 616", "004 085 616"),
        ("RUT 5.126.663-3", "5.126.663-3"),
        ("DNI 12345678Z", "12345678Z"),
        ("A123456(3)", "A123456(3)"),
        ("A000002(A)", "A000002(A)"),
        ("NIE X1234567L", "X1234567L"),
        ("RSSMRA85T10A562S", "RSSMRA85T10A562S"),
        ("NI AB 12 34 56 C", "AB 12 34 56 C"),
        ("NHS 943 476 5919", "943 476 5919"),
        ("Steuer-ID 86095742719", "86095742719"),
        ("2 55 08 14 168 025 38", "2 55 08 14 168 025 38"),
        ("2341 2341 2346", "2341 2341 2346"),
        ("PAN ABCPE1234F", "ABCPE1234F"),
        ("S1234567D", "S1234567D"),
        ("TFN 123 456 782", "123 456 782"),
        ("51 824 753 556", "51 824 753 556"),
        ("PESEL 44051401359", "44051401359"),
        ("811218-9876", "811218-9876"),
        ("131052-308T", "131052-308T"),
        ("529.982.247-25", "529.982.247-25"),
        ("11.222.333/0001-81", "11.222.333/0001-81"),
        ("BSN 111222333", "111222333"),
        ("85.07.30-033.28", "85.07.30-033.28"),
        ("12.345.678-5", "12.345.678-5"),
        ("TC kimlik 10000000146", "10000000146"),
        ("900101-1234567", "900101-1234567"),
        ("SIN 130 692 544", "130 692 544"),
        ("identity 8001015009087", "8001015009087"),
        ("11010519491231002X", "11010519491231002X"),
        ("A123456(3)", "A123456(3)"),
        ("PPS 1234567T", "1234567T"),
        ("756.9217.0769.85", "756.9217.0769.85"),
        ("HEGG560427MVZRRL04", "HEGG560427MVZRRL04"),
    ],
    "passport": [
        ("passport number: C01X00T47", "C01X00T47"),
        ('{"passport_number": "E01095553"}', "E01095553"),
        ("passportNo=CNGNP45737", "CNGNP45737"),
    ],
    "driver_license": [("my driver's license number is D123-4567-8901", "D123-4567-8901")],
    "license_plate": [
        ("license plate: 7ABC123", "7ABC123"),
        ('"license_plate": "BX03 NHN"', "BX03 NHN"),
    ],
    "bank_account": [
        ("account number: 12345678", "12345678"),
        ('{"account_number": "06251047"}', "06251047"),
        ("checking account 01483943", "01483943"),
    ],
    "swift": [("BIC DEUTDEFF500", "DEUTDEFF500")],
    "ip": [
        ("from 192.168.10.25:8080", "192.168.10.25"),
        ("2001:db8:85a3::8a2e:370:7334", "2001:db8:85a3::8a2e:370:7334"),
        ("[fe80::1ff:fe23:4567:890a]", "fe80::1ff:fe23:4567:890a"),
    ],
    "mac": [("00:1A:2b:3c:4D:5e", "00:1A:2b:3c:4D:5e"), ("001a.2b3c.4d5e", "001a.2b3c.4d5e")],
    "url": [
        ("see hunt.io!", "hunt.io"),
        ("at EXAMPLE.COM", "EXAMPLE.COM"),
        ("see https://example.org/a?b=1#c.", "https://example.org/a?b=1#c"),
        ("at www.example.se now", "www.example.se"),
        ("on shop.example.com today", "shop.example.com"),
    ],
    "birth_date": [
        ("born on 3/14/1981", "3/14/1981"),
        ("DOB: 1981-03-14", "1981-03-14"),
        ("born 18JUN2005", "18JUN2005"),
        ('{"dateOfBirth": "12 Jul 1954"}', "12 Jul 1954"),
    ],
    "date": [
        ("on friday morning", "friday"),
        ("on 2024-05-06T07:08:09Z it", "2024-05-06T07:08:09Z"),
        ("March 3rd, 2021", "March 3rd, 2021"),
        ("the 3 Mar 2021", "3 Mar 2021"),
        ("at 17:45", "17:45"),
        ("founded in 1977", "1977"),
    ],
    "zip": [
        ("zip code D-39295", "D-39295"),
        ("eircode C11 TKC7", "C11 TKC7"),
        ("ZIP: 3520", "3520"),
        ("Springfield, IL 62704", "62704"),
        ("London SW1A 1AA", "SW1A 1AA"),
        ("postal code K1A 0B1", "K1A 0B1"),
    ],
    "age": [
        ("a 47 year old man", "47"),
        ("he turned 60", "60"),
        ("aged 31.", "31"),
        ('{"age": 43}', "43"),
    ],
    "address": [
        ("at Børglumvej 2\n7303 Langå after", "Børglumvej 2\n7303 Langå"),
        ("to Jarabinková 9, 843 35 Kružná.", "Jarabinková 9, 843 35 Kružná"),
        ("9 rue de Legros", "9 rue de Legros"),
        ("at 99, chemin Thierry Garcia", "99, chemin Thierry Garcia"),
        ("5984 Cherry Meadows\nWest Fort, DC 76517", "5984 Cherry Meadows\nWest Fort, DC 76517"),
        ("Flat 81, Rachael Drive, BH4 5DL", "Flat 81, Rachael Drive, BH4 5DL"),
        (
            "Unit 45 78 Joseph Crossroad, Hill, NT 2948",
            "Unit 45 78 Joseph Crossroad, Hill, NT 2948",
        ),
        ("at 12 Baker Street, London", "12 Baker Street"),
        ("wohnt Lindenstraße 7a", "Lindenstraße 7a"),
        ("P.O. Box 123", "P.O. Box 123"),
        ("he lives at 14 Rue de la Paix", "14 Rue de la Paix"),
    ],
    "name": [
        ("Sven A. Lindqvist called", "Sven A. Lindqvist"),
        ("Mr. van der Quux is here", "Mr. van der Quux"),
        ("her maiden name is van der Quux", "van der Quux"),
        ("Eric C. de Dardel", "Eric C. de Dardel"),
        ("Hi Zyxwv, how are you?", "Zyxwv"),
        ("It was Zyxwv's daughter", "Zyxwv"),
        ("Remember me, Zyxwv?", "Zyxwv"),
        ("PATIENT: JOHN SMITH", "JOHN SMITH"),
        ("Miller, Hannah", "Miller, Hannah"),
        ("J. K. Rowling", "J. K. Rowling"),
        ("my brother Zyxwv", "Zyxwv"),
        ('"firstName": "Zyxwv"', "Zyxwv"),
        ("Anna: hi.\nZyxwv: hello.", "Zyxwv"),
        ("They had 4: Anna, Zyxwv, Peter and Quux.", "Quux"),
        ("Elizabeth Hill", "Elizabeth Hill"),
        ("ask Dr. Quux about it", "Dr. Quux"),
        ("my name is Zyxwvut", "Zyxwvut"),
        ("with Anna Schmidt today", "Anna Schmidt"),
        ("said Thomas", "Thomas"),
    ],
    "api_key": [
        ("password: jJ#9Dulu)y", "jJ#9Dulu)y"),
        ("password: Getin2024", "Getin2024"),
        ("url?password=abc123&user=bob", "abc123"),
        ("'password': 'abc(1)'", "abc(1)"),
        ("key sk-ant-api03-abcDEF123ghiJKL456mno", "sk-ant-api03-abcDEF123ghiJKL456mno"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
        ("Authorization: Bearer abc123DEF456ghi789", "abc123DEF456ghi789"),
        ('password = "hunter2!"', "hunter2!"),
        ("DB_PASSWORD=s3cr3t-pass", "s3cr3t-pass"),
        ("postgres://app:pa55word@db/x", "pa55word"),
        ('{"api_key": "9f8e7d6c5b4a3210ffee"}', "9f8e7d6c5b4a3210ffee"),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----",
        ),
    ],
}

LEFT = {
    "email": [
        "a @ b",
        "@decorator",
        "user@host",
        "price @ 3.50",
        "x@y.1",
        "61\n@pytest.mark.skip",
    ],
    "phone": [
        "reach 1000000 users",
        "text file 20240101.txt",
        "id 1700000000",
        "2024-05-06 12:00:00",
        "version 10.2.33.4",
        "order 415 5550",
        "lines 100-200",
        "3.14159265358979",
        "12345678901234567890",
    ],
    "iban": ["DE89370400440532013001", "GB29 NWBK 6016 1331 9268 18", "AB12CDEF34567890"],
    "card": ["4111 1111 1111 1112", "1234567890123456", "4111-1111", "0000000000000000"],
    "crypto": ["1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb", "0x1234"],
    "ssn": ["666-12-3456", "000-12-3456", "536-00-1234", "536221234", "1536-22-12345"],
    "national_id": [
        "12345678A",
        "943 476 5918",
        "S1234567A",
        "529.982.247-24",
        "a1b2c3d4e5f6",
        "A123456(A)",  # a letter that may be mistaken for a check digit
        "pesel 44051401\U0001e951\U0001e952\U0001e953",  # digits that no check knows
    ],
    "passport": ["I need my passport to be ready", "passport is ready"],
    "ip": ["256.1.1.1", "1.2.3", "version 1.2.3.4", "12:30:45", "a::b is a slice"],
    "mac": ["00:1A:2b:3c:4D", "12:30:45:10"],
    "url": [
        "self.name.com",
        "main.py",
        "e.g. this",
        "foo.bar()",
        "config.dev",
        "version 1.10.dev",
        "ASP.NET",
    ],
    "date": ["1977 items", "10/20/30/40", "3.14", "ratio 3:2"],
    "zip": ["the zip file", "12345 items"],
    "age": ["turned 90 degrees", "3 years ago"],
    "address": [
        "10 items in a row",
        "during 1971, they",
        "step 3 of 7",
        "Python 3 street",
        "The meeting is on 10th of June 1946.",
        "Chapter 3, 2020 Edition",
        "12 Angry Men, 3 Open Ports",
    ],
    "name": [
        "The White House",
        "Capitalized Words And Such",
        "I am tired",
        "Will it rain in May?",
        "Wow, what a day! Yeah, sure.",
        "City name: Paris",
        "product_name: Blue Chair",
        "name = Symbol",
        "I moved to Port Melissa, San Hugo and North Adams.",
        "Rossi s.r.o. and Larsen & Sons and Martin S.A. pay",
        "room 12, floor 3",
        "ping fritz.example",
        "Hi Team, hello World!",
        "a MyField is not an OtherSen",
    ],
    "api_key": [
        "password=get_password(user1)",
        "pwd=$PASSWORD",
        "password=%s",
        "password is required",
        "api_key=os.environ['KEY']",
        "the token bucket",
        'token: "string"',
        "sk-learn-is-a-fine-library-name",
        "key: value",
    ],
}


def cases(table: dict[str, list[tuple[str, str]]]) -> list[tuple[str, str, str]]:
    return [(kind, text, value) for kind, rows in table.items() for text, value in rows]


@pytest.mark.parametrize(("kind", "text", "value"), cases(FOUND))
def test_a_detector_finds_its_kind(kind: str, text: str, value: str) -> None:
    found = find(text, [kind])
    assert value in [one.value for one in found]
    assert all(text[one.start : one.end] == one.value for one in found)


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, rows in LEFT.items() for text in rows]
)
def test_a_detector_leaves_what_only_looks_like_its_kind(kind: str, text: str) -> None:
    assert find(text, [kind]) == []


def test_every_kind_has_an_example() -> None:
    assert set(FOUND) == set(KINDS) - {"medical_record"}


def test_every_kind_is_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "redact.md").read_text("utf-8")
    assert not [kind for kind in KINDS if f"`{kind}`" not in page]


def test_groups_are_made_of_kinds() -> None:
    assert set(GROUPS["pii"]) | set(GROUPS["secrets"]) == set(KINDS)
    assert set(KINDS) - set(GROUPS["structured"]) == {"name", "address"}


def test_an_unknown_kind_gets_the_nearest_name() -> None:
    with pytest.raises(DeclarationError, match="emial") as caught:
        kinds_named(("emial",))
    assert caught.value.hint.startswith('write "email"')


class Projects:
    """A detector that a user brings along."""

    def find(self, text: str) -> Iterator[tuple[str, int, int]]:
        for match in re.finditer(r"project (\w+)", text):
            yield "project", match.start(1), match.end(1)


PROJECTS = Projects()


def test_an_added_detector_is_a_kind_like_any_other() -> None:
    add_detector("our_projects", PROJECTS)
    add_detector("our_projects", PROJECTS)  # again is no mistake
    text = "project bluebird: ask jane@example.org"
    assert [
        (one.kind, one.value) for one in find(text, kinds_named(("our_projects", "email")))
    ] == [
        ("project", "bluebird"),
        ("email", "jane@example.org"),
    ]
    assert "bluebird" not in str(C.default().redact("our_projects"))
    redaction = Redaction(resolve_targets(("our_projects",)), "s1", {})
    assert redaction.text("project bluebird").startswith("project <PROJECT_")
    again = redaction.text("project bluebird")
    assert redaction.text(again) == again  # a placeholder is no value


def test_a_name_stands_for_one_detector() -> None:
    add_detector("our_projects", PROJECTS)
    for name in ("our_projects", "email", "pii"):
        with pytest.raises(DeclarationError, match="already"):
            add_detector(name, Projects())
    with pytest.raises(DeclarationError, match="not a name for a detector"):
        add_detector("my detector", Projects())
    with pytest.raises(DeclarationError, match="no detector named 'our_projets'") as caught:
        C.default().redact("our_projets")
    assert 'write "our_projects"' in caught.value.hint


class Careless:
    def find(self, text: str) -> Iterator[tuple[str, int, int]]:
        yield "thing", 2, len(text) + 1


def test_a_span_outside_the_text_is_an_error_and_nothing_is_sent() -> None:
    add_detector("careless", Careless())
    bot = Agent("bot", model="gpt-5", context=C.default().redact("careless"))
    with pytest.raises(DeclarationError, match="found 'thing' at 2 to 6"):
        weft.compile(bot, message="hello")
