"""Who may make which of our objects? ValidatingAdmissionPolicies, printed with the kinds by `growth crds`.

Whoever writes a PoolAutoscaler makes growth scale its target, with growth's own rights. So the author must be allowed
to scale it himself: to patch its scale subresource, which is asked of the API server's own authorizer. Generated, never
written by hand.

Which Secrets may growth make and delete? Bootstrap tokens that live for half an hour at most; a
ValidatingAdmissionPolicy says no to any other.

RBAC cannot tell one Secret from another before it exists, so the right to create them in kube-system would be a right
to far too much. Asked by `controllers/act/role` where join tokens are minted, and by the chart.

CEL knows neither base64 nor the time of day, so the policy reads the expiration digit by digit, and compares it with
the creation time that the API server itself has written by then.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from growth.kube.api.resources import POOL_AUTOSCALERS
from growth.kube.crds.schema import Definition
from growth.model.node import REQUEST_LABEL
from growth.model.warmpool import KNOWN_KINDS

_NAME: Final = f"{POOL_AUTOSCALERS.plural}-target.{POOL_AUTOSCALERS.group}"
_LABELS: Final = {"app.kubernetes.io/name": "growth"}
_GROUP: Final = "admissionregistration.k8s.io/v1"


def policies() -> list[Definition]:
    """Each policy and its binding."""
    return [_policy(), _binding()]


def _policy() -> Definition:
    plurals = ", ".join(f"'{kind.kind}': '{kind.plural}'" for kind in KNOWN_KINDS)
    groups = ", ".join(f"'{kind.kind}': '{kind.group}'" for kind in KNOWN_KINDS)
    target = "object.spec.scaleTargetRef"
    allowed = (
        "authorizer.group(variables.group).resource(variables.resource).subresource('scale')"
        f".namespace(object.metadata.namespace).name({target}.name).check('patch').allowed()"
    )
    told = f"'to autoscale it you need the right to patch ' + variables.resource + '/scale of ' + {target}.name + ' in this namespace'"
    return {
        "apiVersion": _GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": _NAME, "labels": _LABELS},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [POOL_AUTOSCALERS.group],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [POOL_AUTOSCALERS.plural],
                    }
                ]
            },
            "matchConditions": [
                {"name": "spec-is-new", "expression": "request.operation == 'CREATE' || object.spec != oldObject.spec"}
            ],
            "variables": [
                {"name": "version", "expression": f"has({target}.apiVersion) ? {target}.apiVersion : ''"},
                {
                    "name": "group",
                    "expression": "variables.version.contains('/') ? variables.version.split('/')[0] : variables.version != '' ? '' : "
                    f"{target}.kind in {{{groups}}} ? {{{groups}}}[{target}.kind] : ''",
                },
                {
                    "name": "resource",
                    "expression": f"{target}.kind in {{{plurals}}} ? {{{plurals}}}[{target}.kind] : {target}.kind.lowerAscii() + 's'",
                },
            ],
            "validations": [{"expression": allowed, "messageExpression": told, "reason": "Forbidden"}],
        },
    }


def _binding() -> Definition:
    return {
        "apiVersion": _GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": _NAME, "labels": _LABELS},
        "spec": {"policyName": _NAME, "validationActions": ["Deny"]},
    }


NAMESPACE: Final = "kube-system"
TOKEN_TYPE: Final = "bootstrap.kubernetes.io/token"  # noqa: S105  (a type)
LONGEST_SECONDS: Final = 1800

_KEYS: Final = (
    "token-id",
    "token-secret",
    "expiration",
    "auth-extra-groups",
    "usage-bootstrap-authentication",
    "usage-bootstrap-signing",
)
_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_ASCII: Final = "".join(map(chr, range(ord("-"), ord("Z") + 1)))  # what an instant is written with
_TEXT: Final = "object.data['expiration']"


def token_policies(name: str, user: str, group: str) -> list[Definition]:
    """The policy for this user, and its binding."""
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": "growth"}}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["secrets"],
                }
            ]
        },
        "matchConditions": [{"name": "by-growth", "expression": f"request.userInfo.username == '{user}'"}],
        "variables": [{"name": variable, "expression": text} for variable, text in _variables().items()],
        "validations": [
            {"expression": text, "message": f"growth may only {told}", "reason": "Forbidden"}
            for told, text in _validations(group).items()
        ],
    }
    return [
        {"apiVersion": _GROUP, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        {
            "apiVersion": _GROUP,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _variables() -> dict[str, str]:
    """`expires` is the decoded expiration: twenty characters, each from its place in one of seven groups of four."""
    six_bits = f"'{_BASE64}'.indexOf({_TEXT}.substring(%s, %s)) %% 64"
    first, second, third, fourth = (six_bits % (f"place + {step}", f"place + {step + 1}") for step in range(4))
    groups = f"[0, 4, 8, 12, 16, 20, 24].map(place, (({first} * 64 + {second}) * 64 + {third}) * 64 + {fourth})"
    byte = "variables.groups[place / 3] / [65536, 256, 1][place % 3] % 256"
    places = ", ".join(map(str, range(20)))
    return {
        "isOurs": " && ".join(_is_ours(each) for each in ("object", "oldObject")),
        "groups": f"size({_TEXT}) == 28 ? {groups} : []",
        "expires": f"timestamp([{places}].map(place, '{_ASCII}'.substring({byte} - {ord('-')}, {byte} - {ord('-') - 1})).join(''))",
    }


def _is_ours(item: str) -> str:
    labelled = f"has({item}.metadata.labels) && '{REQUEST_LABEL}' in {item}.metadata.labels"
    return f"({item} == null || {item}.type == '{TOKEN_TYPE}' && {labelled})"


def _validations(group: str) -> dict[str, str]:
    """What growth may, and how it is seen. A delete has no object, only an old one."""
    encoded = {"yes": _encoded("true"), "group": _encoded(group)}
    keys = ", ".join(f"'{key}'" for key in _KEYS)
    usages = " && ".join(
        f"object.data['usage-bootstrap-{usage}'] == '{encoded['yes']}'" for usage in ("authentication", "signing")
    )
    return {
        f"write Secrets in {NAMESPACE}": f"request.namespace == '{NAMESPACE}'",
        f"create and delete bootstrap tokens of its NodeRequests ({TOKEN_TYPE}, labelled {REQUEST_LABEL})": "variables.isOurs",
        f"mint tokens for authentication and signing, in the group {group}": (
            f"object == null || object.data.all(key, key in [{keys}]) && {usages} && object.data['auth-extra-groups'] == '{encoded['group']}'"
        ),
        f"mint tokens that expire within {LONGEST_SECONDS // 60} minutes": (
            f"object == null || variables.expires <= timestamp(object.metadata.creationTimestamp) + duration('{LONGEST_SECONDS + 1}s')"
        ),
    }


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
