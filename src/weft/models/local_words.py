"""Grammars for what a small model says: plain text, and sentences made of given words.

Asked about a result, a small model makes up what it was not told. A sentence whose words are
the question's, the result's and the glue between them can be clumsy, but it has no other facts.
"""

import re

PROSE = r"root ::= [^{\[] [^{]*"
"""Text that is no call: a small model repeats the calls it has seen, whatever it is asked."""

_GLUE = (
    "a an and are as at be been by for from has have here i in is it its of on or that the there"
    " this to was were will with you your"
)
"""Words that say nothing by themselves; no denial is among them."""
_WORD = re.compile(r"[^\W_]+(?:[-.:/'%°][^\W_]+)*[%°]?")
_FIGURE = re.compile(r"\d")
_MOST = 150


def grounded(result: str, question: str) -> str:
    """The grammar of one sentence: the words of a result, of what was asked, and the glue.

    The figures are the result's alone.
    """
    asked = [word for word in _WORD.findall(question) if not _FIGURE.search(word)]
    given = [*_WORD.findall(result)[:_MOST], *asked[:_MOST]]
    words = list(dict.fromkeys([*given, *_GLUE.split()]))
    first = dict.fromkeys(word[:1].upper() + word[1:] for word in words)
    return "\n".join(
        (
            'root ::= first (","? " " word)* [.!]',
            f"first ::= {' | '.join(map(_literal, first))}",
            f"word ::= {' | '.join(map(_literal, words))}",
        )
    )


def _literal(word: str) -> str:
    quoted = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'
