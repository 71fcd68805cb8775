"""Where do waiting pods go, if all of them are looked at together? Placement by min-cost flow. Asked by
`plan/flow/scheduling` and `growth explain pod`.

    groups of equal pods ──arcs──▶ classes of machines ──steps of rising cost──▶ sink
            └──────────────────▶ unscheduled ─────────────────────────────────▶ sink

It places onto nodes that exist and buys nothing: that is the business of `solver/purchase`. The rules are the same
(`solver/rules`)."""

from __future__ import annotations

from growth.solver.flow.fleet import Fleet, FleetState
from growth.solver.flow.network import Arc, Arcs, arcs_of
from growth.solver.flow.place import Group, Left, Placed, Round, place

__all__ = ["Arc", "Arcs", "Fleet", "FleetState", "Group", "Left", "Placed", "Round", "arcs_of", "place"]
