"""What happens, in which order? Diagrams of the walks and of the phases, drawn from text and from the code that keeps
the phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

from msgspec import Struct

from growth.model.noderequest import PHASES, TRANSITIONS, Transition

_WIDTH: Final = 760
_INK, _SOFT, _LINE, _FILL, _HEAD = "#1f2937", "#5b6472", "#1f5fa8", "#eaf2fb", "#cfe3f7"
_NAMED: Final = 'font-family="sans-serif" font-size="12" role="img"'
_ARROW: Final = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0 0L8 4L0 8z" fill="{_LINE}"/></marker></defs>'
)


class Step(Struct, frozen=True):
    """One box: what happens, and the module that decides it."""

    words: str
    module: str


WALKS: Final[Mapping[str, tuple[Step, ...]]] = {
    "A pod cannot be scheduled": (
        Step("it is a demand, with the pools it may use", "plan/nodes_up/demand"),
        Step("room that exists, or can be revived", "plan/world/capacity"),
        Step("else the cheapest machines for all that wait", "solver/purchase/solve"),
        Step("a NodeRequest is written first", "plan/world/orders"),
        Step("the machine is launched and awaited", "plan/nodes_up/provisioning"),
        Step("its planned pods are bound", "plan/nodes_up/joining"),
    ),
    "A node is not needed": (
        Step("it is empty, or its pods fit elsewhere", "plan/nodes_down/what_if"),
        Step("budgets and the brake allow it", "plan/nodes_down/budgets"),
        Step("it is marked: no new pods", "plan/world/marks"),
        Step("a NodeRemovalRequest is written first", "plan/nodes_down/removal"),
        Step("its pods are evicted", "plan/nodes_down/drain"),
        Step("after a live look its machine is deleted", "controllers/act/gate"),
    ),
    "Spare room is declared": (
        Step("a CapacityBuffer gets its size", "plan/buffers/size"),
        Step("virtual pods look for room", "plan/buffers/placement"),
        Step("what is missing is bought, after all pods", "plan/nodes_up/scale_up"),
        Step("a pod takes the room, and it is bought anew", "plan/buffers/giving_way"),
    ),
    "A warm pool is claimed from": (
        Step("how many are available, used, starting", "plan/warm_pools/counts"),
        Step("below or above its watermarks?", "plan/warm_pools/size"),
        Step("members in use stay", "plan/warm_pools/in_use"),
        Step("its scale is written", "plan/warm_pools/warm_pools"),
    ),
}
_ACROSS: Final = 3
_BOX, _BOX_HEIGHT, _GAP = 226, 52, 30


def walks_picture() -> str:
    """Each walk as a chain of boxes, three in a row."""
    parts, top = list[str](), 8
    for title, steps in WALKS.items():
        parts.append(
            f'<text x="8" y="{top + 14}" font-size="14" font-weight="600" fill="{_INK}">{escape(title)}</text>'
        )
        top += 24
        for number, step in enumerate(steps):
            x, y = 8 + number % _ACROSS * (_BOX + _GAP), top + number // _ACROSS * (_BOX_HEIGHT + 22)
            parts += _box(x, y, step)
            if number + 1 < len(steps):
                parts.append(_next_arrow(x, y, is_last=number % _ACROSS == _ACROSS - 1))
        top += -(-len(steps) // _ACROSS) * (_BOX_HEIGHT + 22) + 14
    return _svg(top, "The walks of growth, step by step", parts)


def _box(x: int, y: int, step: Step) -> list[str]:
    return [
        f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_BOX_HEIGHT}" rx="6" fill="{_FILL}" stroke="{_LINE}"/>',
        f'<text x="{x + 8}" y="{y + 20}" font-size="11" fill="{_INK}">{escape(step.words)}</text>',
        f'<text x="{x + 8}" y="{y + 40}" font-size="10" font-family="monospace" fill="{_SOFT}">{step.module}</text>',
    ]


def _next_arrow(x: int, y: int, *, is_last: bool) -> str:
    middle = y + _BOX_HEIGHT // 2
    path = f"M{x + _BOX} {middle}H{x + _BOX + _GAP - 3}"
    if is_last:
        below = y + _BOX_HEIGHT
        path = f"M{x + _BOX // 2} {below}V{below + 11}H{8 + _BOX // 2}V{below + 20}"
    return f'<path d="{path}" fill="none" stroke="{_LINE}" marker-end="url(#tip)"/>'


# -------------------------------------------------------------------------------------------- phases

_PHASE, _PHASE_HEIGHT = 128, 34


def phases_picture(kind: str) -> str:
    """The phases in a row; arrows onward above them, arrows back below."""
    phases, arrows = tuple(PHASES[kind]), TRANSITIONS[kind]
    between = (_WIDTH - 16 - _PHASE) // (len(phases) - 1)
    middles = {phase: 8 + number * between + _PHASE // 2 for number, phase in enumerate(phases)}
    ahead = [each for each in arrows if middles[each.after] > middles[each.before]]
    back = [each for each in arrows if middles[each.after] <= middles[each.before]]
    top = 22 + 16 * len(ahead)
    parts = [*_arcs(ahead, middles, top, -1), *_arcs(back, middles, top + _PHASE_HEIGHT, 1)]
    for phase, middle in middles.items():
        box = f'x="{middle - _PHASE // 2}" y="{top}" width="{_PHASE}" height="{_PHASE_HEIGHT}" rx="6"'
        parts.append(f'<rect {box} fill="{_HEAD}" stroke="{_LINE}"/>')
        parts.append(f'<text x="{middle}" y="{top + 22}" text-anchor="middle" fill="{_INK}">{phase}</text>')
    return _svg(top + _PHASE_HEIGHT + 22 + 16 * len(back), f"Phases of a {kind}", parts)


def _arcs(arrows: Sequence[Transition], middles: Mapping[str, int], edge: int, side: int) -> Iterable[str]:
    """Each at a height of its own, the longest farthest out; they leave on one side of the middle and arrive on the
    other.
    """
    ordered = sorted(arrows, key=lambda each: abs(middles[each.after] - middles[each.before]))
    for number, each in enumerate(ordered, 1):
        apart = 8 + 6 * number
        start, level = middles[each.before] - side * apart, edge + side * (6 + 16 * number)
        end = middles[each.after] + (side * apart if each.before != each.after else apart)
        path = f"M{start} {edge}V{level}H{end}V{edge + side * 2}"
        yield f'<path d="{path}" fill="none" stroke="{_LINE}" marker-end="url(#tip)"/>'


def _svg(height: int, label: str, parts: Iterable[str]) -> str:
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_NAMED} aria-label="{label}">'
    return "\n".join([begin, f'<rect width="{_WIDTH}" height="{height}" fill="white"/>', _ARROW, *parts, "</svg>", ""])
