"""A gate: a human decision, before which nothing behind it runs."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias, cast

from weft.declare import checks
from weft.declare.compare import quoted, same
from weft.declare.compose import Composable, flow_node
from weft.errors import DeclarationError
from weft.values import Json

Choice: TypeAlias = str | int | float | bool


@flow_node('Gate("approve", question="May it go out?")')
@dataclass(frozen=True, repr=False)
class Gate(Composable):
    """Asks somebody, and waits: the answer is kept under `key`, by default the gate's own name.

    The question is a template, so it may show what is decided on: `question="Send {draft}?"`.
    With `choices` any other answer is refused; texts are compared without surrounding blanks and
    letter case, and kept as they stand here.
    """

    name: str
    question: str = field(default="", kw_only=True)
    key: str = field(default="", kw_only=True)
    choices: tuple[Choice, ...] = field(default=(), kw_only=True)
    description: str = field(default="", kw_only=True)

    sub_agents: ClassVar[tuple[()]] = ()
    children: ClassVar[tuple[()]] = ()

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            *,
            question: str = "",
            key: str | None = None,
            choices: Iterable[Choice] = (),
            description: str = "",
        ) -> None:
            """What people may pass is wider than what the fields hold."""

    def __post_init__(self) -> None:
        """Take the name for the key, and refuse choices that nobody could make or tell apart."""
        checks.check_name(self.name, kind="Gate")
        checks.check_text(self.name, "question", self.question)
        checks.check_text(self.name, "description", self.description)
        if cast("object", self.key) in (None, ""):
            object.__setattr__(self, "key", self.name)
        checks.check_key(self.name, "key", self.key)
        object.__setattr__(self, "choices", _choices(self.name, self.choices))

    def decided(self, answer: Json) -> Json:
        """The answer as it is kept: as the choice is spelled; None if it is not one of them."""
        if not self.choices:
            return answer
        return next((choice for choice in self.choices if same(choice, answer)), None)


def _choices(gate: str, given: object) -> tuple[Choice, ...]:
    hint = 'write choices=["yes", "no"]'
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise checks.wrong(gate, "choices", f"{given!r} is no list of choices", hint)
    kept: list[Choice] = []
    for choice in cast("Iterable[object]", given):
        if not isinstance(choice, (str, int, float)) or choice == "":
            raise checks.wrong(
                gate, "choices", f"{choice!r} is no choice: it is no text, number or truth", hint
            )
        if any(same(choice, other) for other in kept):
            raise DeclarationError(
                f"the choice {quoted(choice)} is there already",
                where=f"{gate}.choices",
                hint="texts are compared without letter case: keep one of the two",
            )
        kept.append(choice)
    return tuple(kept)
