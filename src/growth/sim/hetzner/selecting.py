"""Does a label selector of the API match? Asked by the fake for every list: `a=b`, `a!=b`, `a`, `!a`, `a in (b,c)`, `a notin (b,c)`, joined by commas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_TERM: Final = re.compile(r"\s*(?:(?P<key>[^\s!=(),]+)\s+(?P<word>in|notin)\s+\((?P<values>[^)]*)\)|(?P<rest>[^,]+))\s*(?:,|$)")
_EQUATION: Final = re.compile(r"([^\s!=]+)\s*(==|=|!=)\s*(\S*)")


class SelectorError(ValueError):
    """Not a selector."""


def matches(selector: str, labels: Mapping[str, str]) -> bool:
    place = 0
    while place < len(selector):
        found = _TERM.match(selector, place)
        if found is None or found.end() == place:
            raise SelectorError(selector)
        place = found.end()
        if not _holds(found, labels):
            return False
    return True


def _holds(found: re.Match[str], labels: Mapping[str, str]) -> bool:
    if found["key"]:
        is_in = labels.get(found["key"]) in [value.strip() for value in found["values"].split(",")]
        return is_in if found["word"] == "in" else not is_in
    term = found["rest"].strip()
    equation = _EQUATION.fullmatch(term)
    if equation is not None:
        return (labels.get(equation[1]) == equation[3]) != (equation[2] == "!=")
    return term[1:] not in labels if term.startswith("!") else term in labels
