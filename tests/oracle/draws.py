"""The luck behind a case: everything is drawn from one `Random`, so that a seed, or hypothesis, replays it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

Item = TypeVar("Item")
Json = dict[str, Any]

NAMESPACES = ("default", "team-a", "team-b")
APPS = ("web", "db", "cache")
TIERS = ("front", "back")
ZONES = ("a", "b", "c")
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
TOPOLOGY_KEYS = (ZONE, HOSTNAME, "rack", REGION)


class Draws:
    """Small words over a Random."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def one(self, items: Sequence[Item]) -> Item:
        return items[self.random.randrange(len(items))]

    def some(self, items: Sequence[Item], share: float = 0.5) -> list[Item]:
        return [item for item in items if self.chance(share)]

    def at_least_one(self, items: Sequence[Item]) -> list[Item]:
        return self.some(items) or [self.one(items)]

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def labels(self) -> dict[str, str]:
        """Labels of a pod: few keys, few values, so that selectors meet them."""
        labels = {"app": self.one(APPS)}
        if self.chance(0.5):
            labels["tier"] = self.one(TIERS)
        if self.chance(0.3):
            labels["version"] = self.one(("1", "2"))
        return labels

    def requirement(self) -> Json:
        """One expression of a label selector on pods."""
        operator = self.one(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        key = self.one(("app", "app", "tier", "version"))
        values = {"app": APPS, "tier": TIERS, "version": ("1", "2")}[key]
        return {
            "key": key,
            "operator": operator,
            **({"values": self.at_least_one(values)} if operator in ("In", "NotIn") else {}),
        }

    def selector(self) -> Json | None:
        """A label selector on pods; sometimes empty, sometimes absent."""
        luck = self.random.random()
        if luck < 0.05:
            return None
        if luck < 0.12:
            return {}
        if luck < 0.6:
            return {"matchLabels": {"app": self.one(APPS)}}
        if luck < 0.8:
            return {"matchLabels": {"tier": self.one(TIERS)}, "matchExpressions": [self.requirement()]}
        return {"matchExpressions": [self.requirement() for _ in range(self.number(1, 2))]}

    def namespace_selector(self) -> Json:
        luck = self.random.random()
        if luck < 0.2:
            return {}
        if luck < 0.5:
            return {"matchLabels": {"team": self.one(("a", "b"))}}
        operator = self.one(("In", "NotIn", "Exists", "DoesNotExist"))
        expression: Json = {"key": self.one(("team", "kubernetes.io/metadata.name")), "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = self.at_least_one(("a", "b", "default", "team-a"))
        return {"matchExpressions": [expression]}
