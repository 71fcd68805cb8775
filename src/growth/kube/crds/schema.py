"""A msgspec Struct as a structural OpenAPI v3 schema, as CustomResourceDefinitions want it. Used by `crds`.

Bounds, patterns, choices, defaults and descriptions come from the model's own annotations, so the API server refuses
what the codec would. Every node has a type and there are no references. A string, list or map without a bound is
refused here: CEL's cost would be unbounded, and so would the object.

What the API server checks beyond types and bounds is in tables: CEL rules beside the Struct (or the field of one)
they are about, each with a sentence for the person whose object was refused, and which lists are sets or maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.inspect import (
    BoolType,
    DictType,
    Field,
    IntType,
    LiteralType,
    Metadata,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from growth.kube.api.resources import Resource
from growth.model.api import portable
from growth.model.nodepool import DisruptionBudget, NodePoolSpec, NodePoolStatus, ServerTypeChoice
from growth.model.noderequest import (
    NodeRemovalRequestSpec,
    NodeRemovalRequestStatus,
    NodeRequestSpec,
    NodeRequestStatus,
)
from growth.model.poolautoscaler import (
    CapacityPolicy,
    CronPolicy,
    PodExpression,
    PodSelector,
    PoolAutoscalerSpec,
    PoolAutoscalerStatus,
)

Schema: TypeAlias = dict[str, Any]
Definition: TypeAlias = dict[str, Any]  # a whole object as Kubernetes has it


Place: TypeAlias = type | tuple[type, str]
Rule: TypeAlias = tuple[str, str]

_OUR_LABELS: Final = "['growth.dev/pool', 'growth.dev/offering', 'growth.dev/node-request', 'kubernetes.io/hostname']"


def _percent(field: str) -> str:
    return f"int(string({field}).replace('%', ''))"


def _smaller(tolerance: str, target: str = "self.targetAvailable") -> str:
    """A count against a count, a share against a share, a share of a count; a count against a share is compared in the
    spec, which knows how large the pool can get.
    """
    share = f"({_percent(tolerance)})"
    return (
        f"type({target}) == int ? (type({tolerance}) == int ? int({tolerance}) < int({target}) : "
        f"(int({target}) * {share} + 99) / 100 < int({target})) : "
        f"(type({tolerance}) == int || {share} < {_percent(target)})"
    )


_OWN_UP: Final = "has(self.scaleUp) && has(self.scaleUp.tolerance)"
_TOLERANCE: Final = f"!has(self.tolerance) || ({_OWN_UP}) || ({_smaller('self.tolerance')})"
_UP_TOLERANCE: Final = f"!({_OWN_UP}) || ({_smaller('self.scaleUp.tolerance')})"
_POLICY: Final = "self.capacityPolicy"
_LARGEST_TARGET: Final = f"(self.maxReplicas * {_percent(f'{_POLICY}.targetAvailable')} + 99) / 100"


def _reachable(tolerance: str, is_there: str) -> str:
    """A count as tolerance of a share must be smaller than the share of the largest pool."""
    mixed = f"has({_POLICY}) && ({is_there}) && type({_POLICY}.targetAvailable) == string && type({tolerance}) == int"
    return f"!({mixed}) || int({tolerance}) < {_LARGEST_TARGET}"


_UP_IS_THERE: Final = f"has({_POLICY}.scaleUp) && has({_POLICY}.scaleUp.tolerance)"
_MIXED: Final = _reachable(f"{_POLICY}.tolerance", f"has({_POLICY}.tolerance) && !({_UP_IS_THERE})")
_MIXED_UP: Final = _reachable(f"{_POLICY}.scaleUp.tolerance", _UP_IS_THERE)
_IN_USE_ONCE: Final = f"!(has(self.inUse) && has({_POLICY}) && has({_POLICY}.inUse))"


def _cron_field(values: str, names: str = "", more: str = "") -> str:
    """One field: a list of stars, values, ranges and steps. RE2, as CEL has it."""
    value = f"({values}{'|' + names if names else ''})"
    term = f"([*]|{value}(-{value})?{more})(/0*[1-9][0-9]*)?"
    return f"{term}(,{term})*"


_MONTHS: Final = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_WEEKDAYS: Final = "SUN|MON|TUE|WED|THU|FRI|SAT"
_CRON_FIELDS: Final = (
    _cron_field("0*[0-5]?[0-9]"),
    _cron_field("0*([01]?[0-9]|2[0-3])"),
    _cron_field("0*([1-9]|[12][0-9]|3[01])", "L|LW"),
    _cron_field("0*([1-9]|1[0-2])", _MONTHS),
    _cron_field("0*[0-7]", _WEEKDAYS, "(#0*[1-5]|L)?"),
)
_POSSIBLE: Final = f"self.upperAscii().matches('^ *{' +'.join(_CRON_FIELDS)} *$')"
_SHORT_MONTHS: Final = "0*[469]|11|APR|JUN|SEP|NOV|0*2|FEB"
_NO_SUCH_DAY: Final = (
    f"^ *[^ ]+ +[^ ]+ +(31(,31)* +({_SHORT_MONTHS})(,({_SHORT_MONTHS}))*|(30|31)(,(30|31))* +(0*2|FEB)) +[*][^ ]* *$"
)
_EXISTS: Final = f"!self.upperAscii().matches('{_NO_SUCH_DAY}')"

_ABOUT_OUR_LABELS: Final = (
    "growth itself writes growth.dev/pool, growth.dev/offering, growth.dev/node-request and kubernetes.io/hostname"
)

_ABOUT_POOL_NAMES: Final = "a pool's name has at most 40 characters: it is part of its nodes' names"
_SHORT_KEYS: Final = "self.all(key, size(key) <= 317)"
_KEYS: Final = (
    "self.all(key, size(key) <= 317 && "
    "key.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$'))"
)
_ABOUT_KEYS: Final = "a key has at most 317 characters: letters, digits, '-', '_' and '.', maybe after a prefix and '/'"
_ONCE_EACH: Final = "self.all(one, self.exists_one(other, other.name.lowerAscii() == one.name.lowerAscii()))"
_NOT_PENDING_AGAIN: Final = "self.phase == oldSelf.phase || self.phase != 'Pending'"
_PENDING_IF_UNASKED: Final = f"{_NOT_PENDING_AGAIN} || oldSelf.phase == 'Deprovisioning'"
_FAILED_IS_FINAL: Final = "self.phase == oldSelf.phase || oldSelf.phase != 'RemovalFailed'"
_SAME_NODE: Final = "self.nodeName == oldSelf.nodeName && self.pool == oldSelf.pool"
_MIN_FITS_MAX: Final = "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas"
_ONE_POLICY: Final = "!(has(self.cronPolicies) && size(self.cronPolicies) > 0 && has(self.capacityPolicy))"
_HAS_VALUES: Final = "has(self.values) && size(self.values) > 0"
_VALUES_FIT: Final = f"self.operator in ['In', 'NotIn'] ? {_HAS_VALUES} : !has(self.values) || size(self.values) == 0"

_ROWS: Final[tuple[tuple[Place, str, str], ...]] = (
    (ServerTypeChoice, "!has(self.max) || !has(self.min) || self.min <= self.max", "min must not be larger than max"),
    ((NodePoolSpec, "server_types"), _ONCE_EACH, "each server type may be named once only; case does not matter"),
    ((NodePoolSpec, "labels"), f"self.all(key, !(key in {_OUR_LABELS}))", _ABOUT_OUR_LABELS),
    ((NodePoolSpec, "labels"), _KEYS, _ABOUT_KEYS),
    ((NodePoolSpec, "annotations"), _KEYS, _ABOUT_KEYS),
    (DisruptionBudget, "has(self.schedule) == has(self.durationSeconds)", "schedule and durationSeconds go together"),
    (DisruptionBudget, "!has(self.timeZone) || has(self.schedule)", "timeZone needs a schedule"),
    (NodeRequestSpec, "self == oldSelf", "a NodeRequest's spec cannot be changed: it records what was ordered"),
    ((NodeRequestSpec, "pool"), "size(self) <= 40", _ABOUT_POOL_NAMES),
    ((NodeRequestSpec, "resources"), _SHORT_KEYS, "a resource name has at most 317 characters"),
    (NodeRequestStatus, _NOT_PENDING_AGAIN, "a NodeRequest that has left Pending does not go back"),
    (NodeRemovalRequestSpec, _SAME_NODE, "a NodeRemovalRequest is about one node: nodeName and pool cannot be changed"),
    (PoolAutoscalerSpec, _MIN_FITS_MAX, "minReplicas must not be larger than maxReplicas"),
    (PoolAutoscalerSpec, _ONE_POLICY, "cronPolicies and capacityPolicy cannot be used together"),
    (PoolAutoscalerSpec, _MIXED, "tolerance must be smaller than targetAvailable of maxReplicas"),
    (PoolAutoscalerSpec, _MIXED_UP, "scaleUp.tolerance must be smaller than targetAvailable of maxReplicas"),
    (PoolAutoscalerSpec, _IN_USE_ONCE, "inUse and capacityPolicy.inUse cannot be used together"),
    (CapacityPolicy, _TOLERANCE, "tolerance must be smaller than targetAvailable"),
    (CapacityPolicy, _UP_TOLERANCE, "scaleUp.tolerance must be smaller than targetAvailable"),
    ((CronPolicy, "schedule"), _POSSIBLE, "a schedule has five fields: minute, hour, day of the month, month, weekday"),
    ((CronPolicy, "schedule"), _EXISTS, "there is no such day in these months"),
    (PodExpression, _VALUES_FIT, "In and NotIn need values, Exists and DoesNotExist take none"),
    ((PodSelector, "match_labels"), _KEYS, _ABOUT_KEYS),
    (NodeRemovalRequestStatus, _PENDING_IF_UNASKED, "only an attempt that was never made goes back to Pending"),
    (NodeRemovalRequestStatus, _FAILED_IS_FINAL, "RemovalFailed is final: delete the NodeRemovalRequest to try again"),
)

RULES: Final[Mapping[Place, tuple[Rule, ...]]] = {
    place: tuple((rule, message) for about, rule, message in _ROWS if about == place) for place, _, _ in _ROWS
}

LIST_KEYS: Final[Mapping[tuple[type[Struct], str], tuple[str, ...]]] = {
    (NodePoolSpec, "server_types"): ("name",),
    (NodePoolSpec, "taints"): ("key", "effect"),
    (NodePoolSpec, "startup_taints"): ("key", "effect"),
    (NodePoolStatus, "conditions"): ("type",),
    (NodePoolStatus, "offerings"): ("name", "location"),
    (NodeRequestStatus, "conditions"): ("type",),
    (NodeRemovalRequestStatus, "conditions"): ("type",),
    (PoolAutoscalerSpec, "cron_policies"): ("name",),
    (PoolAutoscalerStatus, "conditions"): ("type",),
    (PoolAutoscalerStatus, "applied_cron_policies"): ("name",),
}

SETS: Final[frozenset[tuple[type[Struct], str]]] = frozenset(
    {(NodePoolSpec, "locations"), (NodePoolSpec, "architectures"), (NodePoolSpec, "allowed_namespaces")}
)


def schema_of(struct: type[Struct]) -> Schema:
    found = type_info(struct)
    if not isinstance(found, StructType):
        raise TypeError(f"{struct.__name__} is no plain Struct")
    return _of_struct(found)


def _of_struct(found: StructType) -> Schema:
    schema: Schema = {"type": "object"}
    text = (found.cls.__doc__ or "").strip()
    if text and not text.startswith(found.cls.__name__):
        schema["description"] = " ".join(text.split())
    required = [field.encode_name for field in found.fields if field.required]
    if required:
        schema["required"] = required
    schema["properties"] = {field.encode_name: _of_field(found.cls, field) for field in found.fields}
    return schema | validations(RULES.get(found.cls, ()))


def _of_field(owner: type, field: Field) -> Schema:
    schema = _of_type(field.type, f"{owner.__name__}.{field.name}")
    default = _default(field)
    if default is not None:
        schema["default"] = default
    place = (owner, field.name)
    if place in LIST_KEYS:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(LIST_KEYS[place])}
    elif place in SETS:
        schema["x-kubernetes-list-type"] = "set"
    elif schema.get("type") == "array":
        schema["x-kubernetes-list-type"] = "atomic"
    return schema | validations(RULES.get(place, ()))


def _default(field: Field) -> Any:
    """What the API server fills in; an empty list, map or text is left absent, and None means absent."""
    default = field.default
    if default is msgspec.NODEFAULT and field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    if default is msgspec.NODEFAULT or default is None or default in ("", (), {}):
        return None
    plain = _without_nothing(msgspec.to_builtins(default))
    return None if plain == {} else plain


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: _without_nothing(part) for name, part in value.items()}
        return {name: part for name, part in kept.items() if part not in (None, "", [], {})}
    return [_without_nothing(part) for part in value] if isinstance(value, list | tuple) else value


def _of_type(found: Type, where: str) -> Schema:
    if isinstance(found, Metadata):
        extra = found.extra_json_schema or {}
        told = {name: value for name, value in extra.items() if name in ("description", "format")}
        return _of_type(found.type, where) | told
    if isinstance(found, UnionType):
        kinds = [one for one in found.types if not isinstance(one, NoneType)]
        return _of_type(kinds[0], where) if len(kinds) == 1 else _of_either(kinds, where)
    return _of_plain(found, where)


def _of_either(kinds: list[Type], where: str) -> Schema:
    """A number or a text, as Kubernetes' IntOrString: each half of the bounds speaks of its own type."""
    halves = [_of_type(kind, where) for kind in kinds]
    if sorted(half["type"] for half in halves) != ["integer", "string"]:
        raise TypeError(f"{where}: only a number or a text can be told apart")
    bounds = {name: value for half in halves for name, value in half.items() if name not in ("type", "format")}
    return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], **bounds}


def _of_plain(found: Type, where: str) -> Schema:
    if isinstance(found, StructType):
        return _of_struct(found)
    if isinstance(found, StrType):
        return _of_text(found, where)
    if isinstance(found, IntType):
        bounds = (("minimum", found.ge), ("maximum", found.le))
        return {"type": "integer", "format": "int64", **{name: value for name, value in bounds if value is not None}}
    if isinstance(found, BoolType):
        return {"type": "boolean"}
    if isinstance(found, LiteralType):
        return {"type": "string", "enum": list(found.values)}
    if isinstance(found, VarTupleType):
        return {"type": "array", **_size(found, "Items", where), "items": _of_type(found.item_type, f"{where}[]")}
    if isinstance(found, DictType):
        values = _of_type(found.value_type, f"{where}{{}}")
        return {"type": "object", **_size(found, "Properties", where), "additionalProperties": values}
    raise TypeError(f"{where}: no schema for {type(found).__name__}")


def _of_text(found: StrType, where: str) -> Schema:
    schema: Schema = {"type": "string", **_size(found, "Length", where)}
    if found.pattern is not None:
        schema |= portable({"pattern": found.pattern})
    return schema


def _size(found: StrType | VarTupleType | DictType, unit: str, where: str) -> Schema:
    if found.max_length is None:
        raise TypeError(f"{where} has no bound")
    least = {f"min{unit}": found.min_length} if found.min_length else {}
    return least | {f"max{unit}": found.max_length}


# ---------------------------------------------------------------------- around the schema of a spec


def definition_of(resource: Resource, more_names: Definition, versions: list[Definition]) -> Definition:
    """A CustomResourceDefinition."""
    names = {"kind": resource.kind, "listKind": f"{resource.kind}List", "plural": resource.plural}
    names |= {"singular": resource.kind.lower(), **more_names}
    scope = "Namespaced" if resource.namespaced else "Cluster"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}", "labels": {"app.kubernetes.io/name": "growth"}},
        "spec": {"group": resource.group, "scope": scope, "names": names, "versions": versions},
    }


def object_schema(about: str, spec: Schema, status: Schema) -> Schema:
    parts = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    properties = parts | {"spec": spec, "status": status}
    return {"type": "object", "description": about, "required": ["spec"], "properties": properties}


def printer_column(name: str, kind: str, path: str, description: str) -> Definition:
    column = {"name": name, "type": kind, "jsonPath": path}
    return column | ({"description": description} if description else {})


def validations(rules: Iterable[Rule]) -> Schema:
    found = [{"rule": rule, "message": message} for rule, message in rules]
    return {"x-kubernetes-validations": found} if found else {}
