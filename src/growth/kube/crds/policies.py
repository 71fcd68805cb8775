"""Who may write which objects? ValidatingAdmissionPolicies, generated, never written by hand.

PoolAutoscalers, printed with the kinds by `growth crds`: growth scales the target with growth's own rights, so the
author must be allowed to scale it: to patch its scale subresource, which is asked of the API server's own authorizer.
And a target has one autoscaler: each other autoscaler of the namespace is a parameter of the second policy, which
compares it with the new one. Of two that come in the same moment the older one is obeyed.

NodeRemovalRequests, printed with the kinds too: growth evicts the pods of the node and has its machine deleted, so the
author must be allowed to delete that Node. growth is, by its role; who may only create NodeRemovalRequests is not.

Secrets of growth, for `controllers/act/role` where join tokens are minted, and for the chart: only bootstrap tokens
that live for half an hour at most. RBAC cannot tell one Secret from another before it exists, so the right to create
them in kube-system would be a right to far too much. CEL knows neither base64 nor the time of day, so the policy reads
the expiration digit by digit, and compares it with the creation time that the API server has written by then."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from growth.kube.api.resources import NODE_REMOVAL_REQUESTS, POOL_AUTOSCALERS
from growth.kube.crds.schema import Definition
from growth.model.node import REQUEST_LABEL
from growth.model.warmpool import KNOWN_KINDS

_NAME: Final = f"{POOL_AUTOSCALERS.plural}-target.{POOL_AUTOSCALERS.group}"
_ONE_NAME: Final = f"{POOL_AUTOSCALERS.plural}-one-for-a-target.{POOL_AUTOSCALERS.group}"
_AUTHORS: Final = f"{NODE_REMOVAL_REQUESTS.plural}-author.{NODE_REMOVAL_REQUESTS.group}"
_GROUP: Final = "admissionregistration.k8s.io/v1"

NAMESPACE: Final = "kube-system"
TOKEN_TYPE: Final = "bootstrap.kubernetes.io/token"  # noqa: S105  (a type)
LONGEST_SECONDS: Final = 1800

_KEYS: Final = (
    *("token-id", "token-secret", "expiration", "auth-extra-groups"),
    *("usage-bootstrap-authentication", "usage-bootstrap-signing"),
)
_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_ASCII: Final = "".join(map(chr, range(ord("-"), ord("Z") + 1)))  # what an instant is written with
_TEXT: Final = "object.data['expiration']"


def policies() -> list[Definition]:
    """Who may write NodeRemovalRequests and PoolAutoscalers, and that a target has one: policies, bindings."""
    return [*_may_remove(), *_may_scale(), *_one_for_a_target()]


def _may_remove() -> list[Definition]:
    node = "object.spec.nodeName"
    allowed = f"authorizer.group('').resource('nodes').name({node}).check('delete').allowed()"
    why_not = f"'to have growth remove it you need the right to delete node ' + {node}"
    spec = {
        **_matching([NODE_REMOVAL_REQUESTS.group], ["CREATE", "UPDATE"], NODE_REMOVAL_REQUESTS.plural),
        **_conditions("spec-is-new", "request.operation == 'CREATE' || object.spec != oldObject.spec", {}),
        "validations": [{"expression": allowed, "messageExpression": why_not, "reason": "Forbidden"}],
    }
    return _with_binding(_AUTHORS, spec)


def _may_scale() -> list[Definition]:
    plurals = ", ".join(f"'{kind.kind}': '{kind.plural}'" for kind in KNOWN_KINDS)
    target, right = "object.spec.scaleTargetRef", "variables.resource + '/scale of '"
    allowed = (
        "authorizer.group(variables.group).resource(variables.resource).subresource('scale')"
        f".namespace(object.metadata.namespace).name({target}.name).check('patch').allowed()"
    )
    why_not = f"'to autoscale it you need the right to patch ' + {right} + {target}.name + ' in this namespace'"
    variables = {
        **_group_of("object", "version", "group"),
        "resource": f"{target}.kind in {{{plurals}}} ? {{{plurals}}}[{target}.kind] : {target}.kind.lowerAscii() + 's'",
    }
    spec = {
        **_matching([POOL_AUTOSCALERS.group], ["CREATE", "UPDATE"], POOL_AUTOSCALERS.plural),
        **_conditions("spec-is-new", "request.operation == 'CREATE' || object.spec != oldObject.spec", variables),
        "validations": [{"expression": allowed, "messageExpression": why_not, "reason": "Forbidden"}],
    }
    return _with_binding(_NAME, spec)


def _one_for_a_target() -> list[Definition]:
    target, other = "object.spec.scaleTargetRef", "params.spec.scaleTargetRef"
    is_new = f"request.operation == 'CREATE' || {target} != oldObject.spec.scaleTargetRef"
    is_same = (
        f"{target}.kind == {other}.kind && {target}.name == {other}.name && variables.group == variables.otherGroup"
    )
    apart = "params.metadata.name == object.metadata.name || has(params.metadata.deletionTimestamp)"
    why_not = (
        f"{target}.kind + ' ' + {target}.name + ' is scaled by PoolAutoscaler ' + params.metadata.name + ' already'"
    )
    variables = {
        **_group_of("object", "version", "group"),
        **_group_of("params", "otherVersion", "otherGroup"),
    }
    spec = {
        **_matching([POOL_AUTOSCALERS.group], ["CREATE", "UPDATE"], POOL_AUTOSCALERS.plural),
        "paramKind": {"apiVersion": POOL_AUTOSCALERS.api_version, "kind": POOL_AUTOSCALERS.kind},
        **_conditions("target-is-new", is_new, variables),
        "validations": [{"expression": f"{apart} || !({is_same})", "messageExpression": why_not, "reason": "Invalid"}],
    }
    everyone = {"selector": {}, "parameterNotFoundAction": "Allow"}
    return _with_binding(_ONE_NAME, spec, {"paramRef": everyone})


def _group_of(item: str, version: str, group: str) -> dict[str, str]:
    """The API group that a target names, or that its kind has."""
    groups = ", ".join(f"'{kind.kind}': '{kind.group}'" for kind in KNOWN_KINDS)
    target, named = f"{item}.spec.scaleTargetRef", f"variables.{version}"
    return {
        version: f"has({target}.apiVersion) ? {target}.apiVersion : ''",
        group: f"{named}.contains('/') ? {named}.split('/')[0] : {named} != '' ? '' : "
        f"{target}.kind in {{{groups}}} ? {{{groups}}}[{target}.kind] : ''",
    }


def token_policies(name: str, user: str, group: str) -> list[Definition]:
    """Which Secrets this user may write: the policy and its binding."""
    spec = {
        **_matching([""], ["CREATE", "UPDATE", "DELETE"], "secrets"),
        **_conditions("by-growth", f"request.userInfo.username == '{user}'", _variables()),
        "validations": [
            {"expression": text, "message": f"growth may only {what}", "reason": "Forbidden"}
            for what, text in _validations(group).items()
        ],
    }
    return _with_binding(name, spec)


def _matching(groups: list[str], operations: list[str], plural: str) -> Definition:
    rule = {"apiGroups": groups, "apiVersions": ["*"], "operations": operations, "resources": [plural]}
    return {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}}


def _conditions(name: str, expression: str, variables: Mapping[str, str]) -> Definition:
    named = [{"name": variable, "expression": text} for variable, text in variables.items()]
    conditions: Definition = {"matchConditions": [{"name": name, "expression": expression}]}
    return {**conditions, "variables": named} if named else conditions


def _with_binding(name: str, spec: Definition, parameters: Definition | None = None) -> list[Definition]:
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": "growth"}}
    bound = {"policyName": name, "validationActions": ["Deny"], **(parameters or {})}
    return [
        {"apiVersion": _GROUP, "kind": f"ValidatingAdmissionPolicy{ending}", "metadata": metadata, "spec": content}
        for ending, content in (("", spec), ("Binding", bound))
    ]


def _variables() -> dict[str, str]:
    """`expires` is the decoded expiration: twenty characters, each from its place in one of seven groups of four."""
    six_bits = f"'{_BASE64}'.indexOf({_TEXT}.substring(%s, %s)) %% 64"
    first, second, third, fourth = (six_bits % (f"place + {step}", f"place + {step + 1}") for step in range(4))
    groups = f"[0, 4, 8, 12, 16, 20, 24].map(place, (({first} * 64 + {second}) * 64 + {third}) * 64 + {fourth})"
    byte = "variables.groups[place / 3] / [65536, 256, 1][place % 3] % 256"
    places = ", ".join(map(str, range(20)))
    character = f"'{_ASCII}'.substring({byte} - {ord('-')}, {byte} - {ord('-') - 1})"
    return {
        "isOurs": " && ".join(_is_ours(each) for each in ("object", "oldObject")),
        "groups": f"size({_TEXT}) == 28 ? {groups} : []",
        "expires": f"timestamp([{places}].map(place, {character}).join(''))",
    }


def _is_ours(item: str) -> str:
    labelled = f"has({item}.metadata.labels) && '{REQUEST_LABEL}' in {item}.metadata.labels"
    return f"({item} == null || {item}.type == '{TOKEN_TYPE}' && {labelled})"


def _validations(group: str) -> dict[str, str]:
    """What growth may, and how it is seen. A delete has no object, only an old one."""
    yes, minted_for = _encoded("true"), _encoded(group)
    keys = ", ".join(f"'{key}'" for key in _KEYS)
    usages = (f"object.data['usage-bootstrap-{usage}'] == '{yes}'" for usage in ("authentication", "signing"))
    minted = f"object.data.all(key, key in [{keys}]) && {' && '.join(usages)}"
    longest = f"timestamp(object.metadata.creationTimestamp) + duration('{LONGEST_SECONDS + 1}s')"
    ours = f"({TOKEN_TYPE}, labelled {REQUEST_LABEL})"
    return {
        f"write Secrets in {NAMESPACE}": f"request.namespace == '{NAMESPACE}'",
        f"create and delete bootstrap tokens of its NodeRequests {ours}": "variables.isOurs",
        f"mint tokens for authentication and signing, in the group {group}": (
            f"object == null || {minted} && object.data['auth-extra-groups'] == '{minted_for}'"
        ),
        f"mint tokens that expire within {LONGEST_SECONDS // 60} minutes": (
            f"object == null || variables.expires <= {longest}"
        ),
    }


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
