"""Which pods start together or not at all? Read from annotations; asked by `plan/flow/scheduling` when it groups pods.

| annotation | the gang | how many must run |
| --- | --- | --- |
| `growth.dev/gang: train` | pods of the namespace with that name | all that there are |
| `growth.dev/gang: train:3`, `train:75%` | the same | 3; three quarters, rounded up |
| `firmament-gang-scheduling: "true"`, `"75%"`, `"3"` | pods of the same controller | all; three quarters, rounded up; 3 |

Members that run already count. What cannot be read is no gang, and is told on the pod.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from growth.model.pod import Pod

GANG: Final = "growth.dev/gang"
FIRMAMENT_GANG: Final = "firmament-gang-scheduling"
_AMOUNT = re.compile(r"(?P<number>[1-9][0-9]{0,5})(?P<percent>%?)")


class Gang(Struct, frozen=True):
    """A name that its members share, and how many of them must run: a number, or a share in percent of all there are."""

    name: str
    number: int = 0
    percent: int = 0

    def minimum(self, members: int) -> int:
        return self.number or -(-members * self.percent // 100)


def read_gang(pod: Pod) -> Gang | str | None:
    """The pod's gang; None if it is in none; a sentence where its annotation cannot be read."""
    ours = pod.annotations.get(GANG)
    if ours is not None:
        name, _, amount = ours.partition(":")
        return (
            _gang(f"{pod.namespace}/{name}", amount or "100%", f"{GANG}: {ours}")
            if name
            else f"cannot be read: {GANG}: {ours}"
        )
    theirs = pod.annotations.get(FIRMAMENT_GANG)
    if theirs is None or theirs == "false":
        return None
    name = f"{pod.namespace}/{pod.owner.kind}/{pod.owner.uid or pod.owner.name}" if pod.owner is not None else pod.key
    return _gang(name, "100%" if theirs == "true" else theirs, f"{FIRMAMENT_GANG}: {theirs}")


def _gang(name: str, amount: str, written: str) -> Gang | str:
    found = _AMOUNT.fullmatch(amount)
    if found is None or (found["percent"] and int(found["number"]) > 100):
        return f"cannot be read: {written}"
    number = int(found["number"])
    return Gang(name, percent=number) if found["percent"] else Gang(name, number=number)
