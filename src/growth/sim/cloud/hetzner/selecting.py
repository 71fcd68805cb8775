"""Does a label selector of the API match? Asked by the fake for every list: `a=b`, `a!=b`, `a`, `!a`, `a in (b,c)`, `a
notin (b,c)`, joined by commas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

_TERM: Final = re.compile(
    r"\s*(?:(?P<key>[^\s!=(),]+)\s+(?P<word>in|notin)\s+\((?P<values>[^)]*)\)|(?P<rest>[^,]+))\s*(?:,|$)"
)
_EQUATION: Final = re.compile(r"([^\s!=]+)\s*(==|=|!=)\s*(\S*)")


class SelectorError(ValueError):
    """Not a selector."""


class Term(NamedTuple):
    """The key has (or has not) one of the values; without values: is (or is not) there."""

    key: str
    values: tuple[str, ...] | None
    is_wanted: bool


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    return all(_holds(term, labels) == term.is_wanted for term in _terms(selector))


def _holds(term: Term, labels: Mapping[str, str]) -> bool:
    return term.key in labels if term.values is None else labels.get(term.key) in term.values


@lru_cache(maxsize=100)
def _terms(selector: str) -> tuple[Term, ...]:
    terms, place = [], 0
    while place < len(selector):
        found = _TERM.match(selector, place)
        if found is None or found.end() == place:
            raise SelectorError(selector)
        place = found.end()
        terms.append(_term(found))
    return tuple(terms)


def _term(found: re.Match[str]) -> Term:
    if found["key"]:
        return Term(found["key"], tuple(value.strip() for value in found["values"].split(",")), found["word"] == "in")
    text = found["rest"].strip()
    equation = _EQUATION.fullmatch(text)
    if equation is not None:
        return Term(equation[1], (equation[3],), equation[2] != "!=")
    return Term(text.removeprefix("!"), None, not text.startswith("!"))
