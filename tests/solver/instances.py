"""Small random problems by family and seed, for the exact judge: a few classes of pods with every kind of rule, limit
and room, drawn so that pods are in each other's way."""

from __future__ import annotations

import random
from typing import Final, Literal

from msgspec.structs import replace

from growth.model.labels import HOSTNAME, ZONE, Labels
from growth.model.pod import HostPort, PodShape
from growth.solver.purchase.problem import Choice, DemandClass, Limit, PlacementProblem, Room
from tests.solver.worlds import choice, room, shape, spread, term

Family = Literal["plain", "tiers", "rooms", "rules", "nodes", "all"]
FAMILIES: Final[tuple[Family, ...]] = ("plain", "tiers", "rooms", "rules", "nodes", "all")
_RULES: Final = ("apart", "zones apart", "near", "near others", "zones", "nodes", "port")
_RULES_OVER_NODES: Final = ("apart", "nodes", "nodes", "nodes", "port")
_ZONES: Final = "abc"
_SIZES: Final = (
    (2, 2048, 1.0), (4, 4096, 1.7), (4, 8192, 2.1), (8, 8192, 3.0), (8, 16384, 3.7), (16, 32768, 7.1),
)  # fmt: skip
_PORT: Final = HostPort(80)


def instance(family: Family, seed: int) -> PlacementProblem:
    """The same problem for the same family and seed, always."""
    return _Drawing(family, random.Random(f"{family}{seed}")).problem()


class _Drawing:
    def __init__(self, family: Family, chance: random.Random) -> None:
        self.chance = chance
        self.has_rules, self.has_rooms = family in ("rules", "nodes", "all"), family in ("rooms", "nodes", "all")
        self.has_tiers = family in ("tiers", "all")
        self.rules = _RULES_OVER_NODES if family == "nodes" else _RULES
        self.pools = ("p", "q") if chance.random() < 0.5 else ("p",)
        self.zones = _ZONES[: chance.randint(1, 3)]
        self.classes = chance.randint(1, 4)

    def problem(self) -> PlacementProblem:
        choices = self._choices()
        return PlacementProblem(
            demands=self._demands(),
            choices=choices,
            limits=self._limits(len(choices)),
            rooms=self._rooms() if self.has_rooms else (),
            node_price_per_hour=self.chance.choice((0.0, 0.0, 0.25)),
            preferences="Ignore",
        )

    def _choices(self) -> tuple[Choice, ...]:
        chance = self.chance
        drawn = {
            (chance.choice(_SIZES), chance.choice(self.zones), chance.choice(self.pools))
            for _ in range(chance.randint(1, 5))
        }
        daemons = self._daemons()
        return tuple(
            choice(
                f"m{cpu}-{memory}", cpu, memory, round(price * chance.choice((1, 1, 0.9, 1.15)), 3), zone, pool,
                type_priority=chance.choice((0, 0, 1)) if self.has_tiers else 0,
                pool_priority=chance.choice((0, 0, 0, 1)) if self.has_tiers else 0,
                daemons=daemons,
            )
            for (cpu, memory, price), zone, pool in sorted(drawn)
        )  # fmt: skip

    def _daemons(self) -> tuple[PodShape, ...]:
        if self.chance.random() < 0.75:
            return ()
        plain = shape(0.25, 200, labels={"app": "agent"})
        return (replace(plain, host_ports=(_PORT,)) if self.has_rules and self.chance.random() < 0.3 else plain,)

    def _demands(self) -> tuple[DemandClass, ...]:
        chance, left, found = self.chance, self.chance.randint(4, 11), list[DemandClass]()
        while left > 0 and len(found) < self.classes:
            count = min(left, chance.randint(1, 5))
            left -= count
            pools = self.pools if chance.random() < 0.7 else (chance.choice(self.pools),)
            found.append(DemandClass(self._shape(len(found)), count, pools))
        return tuple(found)

    def _shape(self, number: int) -> PodShape:
        chance = self.chance
        plain = shape(
            chance.choice((0.5, 1, 1.5, 2, 3)), chance.choice((256, 1024, 1536, 3072, 5000)),
            labels={"app": f"a{number}", "team": chance.choice("xy")}, priority=chance.choice((0, 0, 0, 10)),
        )  # fmt: skip
        if chance.random() < 0.25:
            plain = replace(plain, node_selector=Labels({ZONE: chance.choice(self.zones)}))
        return self._with_rule(plain, number) if self.has_rules and chance.random() < 0.75 else plain

    def _with_rule(self, plain: PodShape, number: int) -> PodShape:
        chance, own = self.chance, {"app": f"a{number}"}
        others = (
            {"team": chance.choice("xy")} if chance.random() < 0.2 else {"app": f"a{chance.randrange(self.classes)}"}
        )
        counted = own if chance.random() < 0.8 else {"team": plain.labels["team"]}
        skew = chance.choice((1, 1, 2))
        match chance.choice(self.rules):
            case "apart":
                return replace(plain, anti_affinity=(term(HOSTNAME, **others),))
            case "zones apart":
                return replace(plain, anti_affinity=(term(ZONE, **others),))
            case "near":
                return replace(plain, affinity=(term(ZONE, **own),))
            case "near others" if number:
                return replace(plain, affinity=(term(ZONE, app=f"a{chance.randrange(number)}"),))
            case "zones":
                return replace(plain, spread=(spread(ZONE, skew, **counted),))
            case "nodes":
                return replace(plain, spread=(spread(HOSTNAME, skew, **counted),))
            case "port":
                return replace(plain, host_ports=(_PORT,))
        return plain

    def _limits(self, choices: int) -> tuple[Limit, ...]:
        chance, found = self.chance, []
        for number in range(chance.randint(0, 2)):
            chosen = tuple(sorted(chance.sample(range(choices), chance.randint(1, choices))))
            kind = chance.random()
            if kind < 0.6:
                found.append(Limit(f"limit {number}", chosen, nodes=chance.randint(0, 3)))
            elif kind < 0.8:
                cpu = chance.choice((4000, 8000, 12000, 20000))
                found.append(Limit(f"limit {number}", chosen, resources={"cpu": cpu}))
            else:
                found.append(Limit(f"limit {number}", chosen, price_per_hour=chance.choice((2.0, 4.0, 7.0))))
        return tuple(found)

    def _rooms(self) -> tuple[Room, ...]:
        chance, found = self.chance, []
        for number in range(chance.randint(0, 3)):
            held = shape(0.5, 256, labels={"app": f"a{chance.randrange(self.classes)}", "team": chance.choice("xy")})
            if self.has_rules and chance.random() < 0.2:
                held = replace(held, anti_affinity=(term(HOSTNAME, app=f"a{chance.randrange(self.classes)}"),))
            found.append(
                room(
                    f"room-{number}", chance.choice((1, 2, 4)), 4096, chance.choice(self.zones),
                    pool=chance.choice(self.pools), kind=chance.choice(("node", "node", "marked")),
                    contents=((held, chance.randint(1, 2)),) if chance.random() < 0.5 else (),
                    is_open=chance.random() < 0.9,
                )
            )  # fmt: skip
        return tuple(found)
