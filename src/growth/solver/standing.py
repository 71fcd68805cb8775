"""Where may a shape stand at all, whatever else stands there? Asked once for each kind of shape and kind of node, when a problem is laid out.

Looks at taints, node selectors and node affinity. Nodes that agree in every label anybody asks for, and in their taints, are asked once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from growth.model.labels import Labels, NodeSelectorTerm, Requirement
from growth.model.node import Taint
from growth.model.pod import PodShape, Toleration
from growth.solver.terms import matches_requirement

BoolArray = NDArray[np.bool_]
_HARD_EFFECTS = ("NoSchedule", "NoExecute")


class Ground(Struct, frozen=True, cache_hash=True):
    """What a node, or a node to be bought, shows to those rules."""

    labels: Labels
    taints: tuple[Taint, ...] = ()
    name: str = ""


class Stance(Struct, frozen=True, cache_hash=True):
    """What those rules look at in a shape."""

    tolerations: tuple[Toleration, ...]
    node_selector: Labels
    node_affinity: tuple[NodeSelectorTerm, ...] | None
    required_node: str
    malformed: str


def stance_of(shape: PodShape) -> Stance:
    return Stance(shape.tolerations, shape.node_selector, shape.node_affinity, shape.required_node, shape.malformed)


def standing(shapes: Sequence[PodShape], grounds: Sequence[Ground]) -> BoolArray:
    """shapes × grounds: may it stand there?"""
    stances: dict[Stance, int] = {}
    of_shape = [stances.setdefault(stance_of(shape), len(stances)) for shape in shapes]
    kinds: dict[Ground, int] = {}
    asked = _asked_labels(list(stances))
    names_matter = any(stance.required_node or _looks_at_names(stance) for stance in stances)
    of_ground = [kinds.setdefault(_seen(ground, asked, names_matter), len(kinds)) for ground in grounds]
    table = np.array([[_may_stand(stance, kind) for kind in kinds] for stance in stances], dtype=np.bool_).reshape(len(stances), len(kinds))
    return table[np.ix_(of_shape, of_ground)]


def _asked_labels(stances: Sequence[Stance]) -> frozenset[str]:
    selected = {key for stance in stances for key in stance.node_selector}
    expressions = {one.key for stance in stances for term in stance.node_affinity or () for one in term.expressions}
    return frozenset(selected | expressions)


def _looks_at_names(stance: Stance) -> bool:
    return any(term.fields for term in stance.node_affinity or ())


def _seen(ground: Ground, asked: frozenset[str], names_matter: bool) -> Ground:
    labels = Labels({key: value for key, value in ground.labels.items() if key in asked})
    return Ground(labels, ground.taints, ground.name if names_matter else "")


def _may_stand(stance: Stance, ground: Ground) -> bool:
    if stance.malformed or (stance.required_node and stance.required_node != ground.name):
        return False
    if not all(_tolerates(stance.tolerations, taint) for taint in ground.taints if taint.effect in _HARD_EFFECTS):
        return False
    if any(ground.labels.get(key) != value for key, value in stance.node_selector.items()):
        return False
    return stance.node_affinity is None or any(_holds(term, ground) for term in stance.node_affinity)


def _tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    for one in tolerations:
        if one.effect and one.effect != taint.effect:
            continue
        if one.operator == "Exists" and one.key in ("", taint.key):
            return True
        if one.operator in ("Equal", "") and one.key == taint.key and one.value == taint.value:
            return True
    return False


def _holds(term: NodeSelectorTerm, ground: Ground) -> bool:
    if not term.expressions and not term.fields:
        return False
    named = {"metadata.name": ground.name}
    return all(_compare(ground.labels, one) for one in term.expressions) and all(matches_requirement(named, one) for one in term.fields)


def _compare(labels: Labels, requirement: Requirement) -> bool:
    if requirement.operator not in ("Gt", "Lt"):
        return matches_requirement(labels, requirement)
    try:
        value, bound = int(labels[requirement.key]), int(requirement.values[0])
    except (KeyError, ValueError, IndexError):
        return False
    return value > bound if requirement.operator == "Gt" else value < bound
