"""How does a pool follow its watermarks over time? The picture of the guide on warm pools, drawn by the functions that
size pools, at the document's own examples: one look at each step, without windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from growth.model.poolautoscaler import CapacityPolicy
from growth.plan.warm_pools.size import Watermarks, recommend, watermarks

_WIDTH: Final = 760
_HEIGHT: Final = 230
_LEFT: Final = 44
_RIGHT: Final = 150
_PLOT: Final = 170
_BAND, _AVAILABLE, _REPLICAS, _USED, _INK = "#cfe3f7", "#1f5fa8", "#9a9a9a", "#d98a2b", "#333333"


class Moment(Struct, frozen=True):
    """One step: before growth looks, with the watermarks of that size."""

    replicas: int
    used: int
    marks: Watermarks

    @property
    def available(self) -> int:
        return self.replicas - self.used


def story(policy: CapacityPolicy, replicas: int, least: int, used: Sequence[int]) -> list[Moment]:
    """At each step so many are used at most; growth sizes the pool between two steps."""
    moments = []
    for wanted in used:
        count = min(wanted, replicas)
        marks = watermarks(policy, replicas, 10)
        moments.append(Moment(replicas, count, marks))
        replicas = max(least, recommend(marks, replicas=replicas, available=replicas - count, used=count))
    return moments


STORIES: Final = (
    ("targetAvailable: 10, tolerance: 5", CapacityPolicy(10, 5), 10, 1, (0, 4, 10, 10, 14, 20, 20, 8, 8, 0, 0)),
    (
        'targetAvailable: "70%", tolerance: "10%"',
        CapacityPolicy("70%", "10%"),
        4,
        4,
        (0, 2, 4, 6, 8, 10, 10, 4, 0, 0, 0),
    ),
)


def watermarks_picture() -> str:
    """An SVG with one chart for each story."""
    height = _HEIGHT * len(STORIES)
    named = 'font-family="sans-serif" font-size="12" role="img" aria-label="Watermarks over time"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {named}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, (title, policy, replicas, least, used) in enumerate(STORIES):
        parts += [f'<g transform="translate(0 {number * _HEIGHT})">']
        parts += _chart(title, story(policy, replicas, least, used))
        parts += ["</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _chart(title: str, moments: list[Moment]) -> list[str]:
    top = max(max(each.replicas, each.marks.upper) for each in moments) + 2
    step = (_WIDTH - _LEFT - _RIGHT) / len(moments)

    def x(at: float) -> float:
        return round(_LEFT + at * step, 1)

    def y(value: float) -> float:
        return round(28 + _PLOT * (1 - value / top), 1)

    def line(value: Callable[[Moment], int], colour: str, style: str = 'stroke-width="2"') -> str:
        points = " ".join(f"{x(at)},{y(value(each))} {x(at + 1)},{y(value(each))}" for at, each in enumerate(moments))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" {style}/>'

    bands = [
        f'<rect x="{x(at)}" y="{y(each.marks.upper)}" width="{round(step, 1)}" '
        f'height="{round(y(each.marks.lower) - y(each.marks.upper), 1)}" fill="{_BAND}"/>'
        for at, each in enumerate(moments)
    ]
    ticks = [
        f'<text x="{_LEFT - 8}" y="{y(value) + 4}" text-anchor="end" fill="{_INK}">{value}</text>'
        for value in range(0, top + 1, max(5, top // 5 // 5 * 5))
    ]
    steps = [
        f'<text x="{x(at + 0.5)}" y="{28 + _PLOT + 16}" text-anchor="middle" fill="{_INK}">{at}</text>'
        for at in range(len(moments))
    ]
    legend = [("replicas", _REPLICAS), ("available", _AVAILABLE), ("used", _USED), ("between L and U", _BAND)]
    named = [
        f'<rect x="{_WIDTH - _RIGHT + 12}" y="{40 + 20 * at}" width="14" height="10" fill="{colour}"/>'
        f'<text x="{_WIDTH - _RIGHT + 32}" y="{49 + 20 * at}" fill="{_INK}">{name}</text>'
        for at, (name, colour) in enumerate(legend)
    ]
    return [
        f'<text x="{_LEFT}" y="18" font-size="13" fill="{_INK}">{title.replace(chr(34), "&quot;")}</text>',
        *bands,
        line(lambda each: each.marks.target, _INK, 'stroke-dasharray="3 4" stroke-width="1"'),
        line(lambda each: each.replicas, _REPLICAS),
        line(lambda each: each.used, _USED),
        line(lambda each: each.available, _AVAILABLE),
        *ticks,
        *steps,
        *named,
    ]
