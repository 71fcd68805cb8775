"""Why did a class find no place? Asked for every class that is left over; the words add up over all rooms and all
choices.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from growth.model.resources import format_amount
from growth.solver.purchase.bins import Bins


def why_unplaced(bins: Bins, index: int) -> tuple[str, ...]:
    """Sentences for people, the most frequent reason first."""
    shape = bins.layout.shapes[index]
    if shape.malformed:
        return (shape.malformed,)
    counted = Counter(_room_reason(bins, index, room) for room in range(bins.rooms))
    rooms = tuple(f"{count} of {bins.rooms} nodes: {reason}" for reason, count in counted.most_common())
    return rooms + _choices_refuse(bins, index)


def _room_reason(bins: Bins, index: int, room: int) -> str:
    layout = bins.layout
    original = layout.problem.rooms[int(layout.room_index[room])]
    if not original.is_open:
        return "takes no pods"
    if not layout.room_fits[index, room]:
        return "selector, affinity or taints do not agree"
    short = [
        name
        for name, need, left in zip(layout.resources, layout.need[index], bins.left[room], strict=True)
        if need > left
    ]
    return f"insufficient {', '.join(short)}" if short else "rules between pods"


def _choices_refuse(bins: Bins, index: int) -> tuple[str, ...]:
    layout = bins.layout
    total = len(layout.price)
    if not total:
        return ("no offering can be bought",)
    pools = layout.problem.demands[layout.members[index][0]].pools
    of_pools = np.array(
        [layout.problem.choices[int(choice)].pool in pools for choice in layout.choice_index], dtype=np.bool_
    )
    if not of_pools.any():
        return (f"no offering in its pools ({', '.join(pools) or 'none'})",)
    short = (layout.offer < layout.need[index]) & (layout.need[index] > 0)
    counted: Counter[str] = Counter()
    openable = bins.openable()
    for choice in np.flatnonzero(of_pools):
        if not layout.fits[index, choice]:
            counted["selector, affinity or taints do not agree"] += 1
        elif short[choice].any():
            names = [
                f"{name} (needs {format_amount(name, int(need))})"
                for name, need, lacks in zip(layout.resources, layout.need[index], short[choice], strict=True)
                if lacks
            ]
            counted[f"too small in {', '.join(names)}"] += 1
        elif openable[choice] <= 0:
            counted[_limit_reason(bins, int(choice))] += 1
        else:
            counted["rules between pods"] += 1
    offered = int(of_pools.sum())
    return tuple(f"{count} of {offered} offerings: {reason}" for reason, count in counted.most_common())


def _limit_reason(bins: Bins, choice: int) -> str:
    layout = bins.layout
    reached = [
        name
        for name, use, left in zip(layout.limit_name, layout.limit_use[:, choice], bins.limit_left, strict=True)
        if use > left + 1e-9
    ]
    return f"limit reached: {', '.join(reached)}" if reached else "limit reached"
