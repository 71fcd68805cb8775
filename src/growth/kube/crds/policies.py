"""Who may make which of our objects? ValidatingAdmissionPolicies, printed with the kinds by `growth crds`.

Whoever writes a PoolAutoscaler makes growth scale its target, with growth's own rights. So the author must be allowed
to scale it himself: to patch its scale subresource, which is asked of the API server's own authorizer. Generated, never
written by hand."""

from __future__ import annotations

from typing import Any, Final

from growth.kube.api.resources import POOL_AUTOSCALERS
from growth.model.warmpool import KNOWN_KINDS

_NAME: Final = f"{POOL_AUTOSCALERS.plural}-target.{POOL_AUTOSCALERS.group}"
_LABELS: Final = {"app.kubernetes.io/name": "growth"}
_GROUP: Final = "admissionregistration.k8s.io/v1"

Definition = dict[str, Any]


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
