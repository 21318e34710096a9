"""One example that Hypothesis draws, tried with each of several values.

`pytest.mark.parametrize` draws examples for each value of its own. Where drawing takes longer than
trying, the same time gives more examples if all values share them.
"""

import functools
import inspect
from collections.abc import Callable, Collection


def with_each(name: str, values: Collection[object]) -> Callable[..., Callable[..., None]]:
    """Call the test once for each value; it stands between `@given` and the test."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        whole = inspect.signature(test)
        kept = [one for one in whole.parameters.values() if one.name != name]
        signature = whole.replace(parameters=kept)

        @functools.wraps(test)
        def try_each(*args: object, **kwargs: object) -> None:
            drawn = signature.bind(*args, **kwargs).arguments
            for value in values:
                try:
                    test(**drawn, **{name: value})
                except BaseException as error:
                    error.add_note(f"{name} is {value!r}")
                    raise

        try_each.__signature__ = signature  # type: ignore[attr-defined]
        return try_each

    return decorate
