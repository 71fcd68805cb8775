"""When is too little or too much of a warm pool available, and how many replicas would put it right? Integers only.

R replicas, A available, t and tol from the policy. T is the target, L the lower and U the upper watermark:

| target | tolerance | T | L | U |
| --- | --- | --- | --- | --- |
| percentage | percentage | ⌈R·t/100⌉ | ⌈R·(t−tol)/100⌉ | ⌈R·(t+tol)/100⌉ |
| count | count | t | max(0, T−tol) | T+tol |
| count | percentage | t | max(0, T−⌈T·tol/100⌉) | T+⌈T·tol/100⌉ |
| percentage | count | ⌈R·t/100⌉ | max(0, T−tol) | T+tol |

Without a tolerance the setting counts, as a percentage, and L is never smaller than 1 while T is not. A percentage at R
= 0 counts as at R = 1. The pool is right while L ≤ A ≤ U; otherwise it shall have as many as are used, and T more.
Asked by `plan/warm_pools/warm_pools` and `growth explain`."""

from __future__ import annotations

from msgspec import Struct

from growth.model.poolautoscaler import CapacityPolicy, CountOrShare


class Watermarks(Struct, frozen=True, gc=False):
    """What is aimed at, and between which bounds nothing happens."""

    target: int
    lower: int
    upper: int

    def __str__(self) -> str:
        return f"[{self.lower}, {self.upper}] around {self.target}"


def watermarks(policy: CapacityPolicy, replicas: int, default_percent: int) -> Watermarks:
    """Those of a pool of this size."""
    tolerance: CountOrShare = f"{default_percent}%" if policy.tolerance is None else policy.tolerance
    marks = _watermarks(policy.target_available, tolerance, max(1, replicas))
    if policy.tolerance is None and marks.target >= 1 and marks.lower < 1:
        return Watermarks(marks.target, 1, marks.upper)
    return marks


def _watermarks(target: CountOrShare, tolerance: CountOrShare, replicas: int) -> Watermarks:
    if isinstance(target, str) and isinstance(tolerance, str):
        share, spare = percent(target), percent(tolerance)
        return Watermarks(
            share_of(replicas, share), share_of(replicas, max(0, share - spare)), share_of(replicas, share + spare)
        )
    wanted = share_of(replicas, percent(target)) if isinstance(target, str) else target
    distance = share_of(wanted, percent(tolerance)) if isinstance(tolerance, str) else tolerance
    return Watermarks(wanted, max(0, wanted - distance), wanted + distance)


def percent(text: str) -> int:
    """The whole number before the sign; its form has been checked."""
    return int(text.removesuffix("%"))


def share_of(count: int, percentage: int) -> int:
    """⌈count·percentage/100⌉, exactly: a float is wrong for hundreds of pairs."""
    return -(-count * percentage // 100)


def recommended(marks: Watermarks, *, replicas: int, available: int, used: int) -> int:
    """How many replicas these watermarks ask for; the present number while the pool is right."""
    return replicas if marks.lower <= available <= marks.upper else used + marks.target


def why_not_tolerance(policy: CapacityPolicy) -> str:
    """A tolerance that reaches the target would let the pool run empty. Nothing if it is smaller, or cannot be
    compared.
    """
    target, tolerance = policy.target_available, policy.tolerance
    if tolerance is None or (isinstance(target, str) and isinstance(tolerance, int)):
        return ""
    if isinstance(target, str):
        reaches = percent(str(tolerance)) >= percent(target)
    else:
        reaches = (share_of(target, percent(tolerance)) if isinstance(tolerance, str) else tolerance) >= target
    return f"tolerance {tolerance} must be smaller than targetAvailable {target}" if reaches else ""
