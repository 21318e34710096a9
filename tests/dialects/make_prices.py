"""Make `src/weft/dialects/data/prices.json` from the genai-prices that is installed.

    make prices

A row a model, and whatever is at its default left out at the end of a row, so that a change can be
read. A test makes the text again and compares it with the file.
"""

from importlib.metadata import version
from pathlib import Path

import msgspec
from genai_prices.data_snapshot import get_snapshot

from weft.dialects import price_list
from weft.dialects.price_list import PriceList, read_providers

TABLE = Path(price_list.__file__).parent / "data" / "prices.json"
LICENCE = "MIT, Copyright (c) Pydantic Services Inc. 2025 to present: genai-prices-LICENSE.txt"


def installed() -> PriceList:
    """The list of the installed package."""
    return read_providers(get_snapshot().providers, version("genai-prices"))


def text_of(prices: PriceList) -> str:
    """The file: one line a model, one for the rest of its seller."""
    head = {"source": prices.source, "version": prices.version, "licence": LICENCE}
    lines = [_json(head).removesuffix("}") + ',"sellers":[']
    for seller in prices.sellers:
        id, _, *rest = _row(seller)
        models = ",\n".join(_json(_row(each)) for each in seller.listings)
        end = ",".join(("]", *map(_json, rest)))
        lines.append(f"[{_json(id)},[\n{models}\n{end}],")
    lines[-1] = lines[-1].removesuffix(",")
    return "\n".join((*lines, "]}", ""))


def _row(value: object) -> object:
    """A structure as a list, without defaults at its end; 8 for 8.0."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        values = [(getattr(value, field.name), field.default) for field in fields]
        while values and values[-1][0] == values[-1][1]:
            values.pop()
        return [_row(each) for each, _ in values]
    if isinstance(value, tuple):
        return [_row(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    TABLE.write_text(text_of(installed()), "utf-8")
    print(f"{TABLE.name}: {TABLE.stat().st_size:,} bytes, {installed()}")
