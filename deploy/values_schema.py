"""Which values does the chart take? The JSON schema that helm checks them by; `settings` is checked as growth itself
does.
"""

from __future__ import annotations

from typing import Any

import msgspec

from growth.controllers.configuration import Configuration
from growth.model.api import portable

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
SWITCH: Schema = {"type": "boolean"}
PORTS: Schema = {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 1, "maximum": 65535}}
LIST: Schema = {"type": "array"}
MAP: Schema = {"type": "object"}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
REFERENCE = "#/$defs/"


def values_schema() -> Schema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the growth chart",
        "$defs": _settings(),
        **_closed(
            {
                "image": _image(),
                "replicas": {"type": "integer", "minimum": 0, "maximum": 9},
                "settings": {"$ref": f"{REFERENCE}Configuration"},
                "catalogue": TEXT,
                "crds": _closed({"install": SWITCH, "capacityBuffers": SWITCH}),
                "serviceAccount": _closed({"create": SWITCH, "name": TEXT, "annotations": TEXTS}),
                "resources": MAP,
                "podAnnotations": TEXTS,
                "podLabels": TEXTS,
                "priorityClassName": TEXT,
                "nodeSelector": TEXTS,
                "tolerations": LIST,
                "affinity": MAP,
                "extraVolumes": LIST,
                "extraVolumeMounts": LIST,
                "podDisruptionBudget": _closed({"enabled": SWITCH}),
                "networkPolicy": _network_policy(),
                "serviceMonitor": _closed(
                    {"enabled": SWITCH, "interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m)$"}, "labels": TEXTS}
                ),
                "alerts": _closed({"enabled": SWITCH, "labels": TEXTS}),
                "dashboard": _closed({"enabled": SWITCH, "labels": TEXTS}),
                "global": MAP,  # helm gives it to every chart
            }
        ),
    }


def _image() -> Schema:
    digest = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
    policy = {"enum": ["Always", "IfNotPresent", "Never"]}
    return _closed(
        {
            "repository": TEXT,
            "tag": TEXT,
            "digest": digest,
            "pullPolicy": policy,
            "pullSecrets": {"type": "array", "items": TEXT},
        }
    )


def _network_policy() -> Schema:
    way_out = _closed({"cidrs": {"type": "array", "items": TEXT}, "ports": PORTS})
    return _closed({"enabled": SWITCH, "metricsFrom": LIST, "apiServer": way_out, "provider": way_out})


def _settings() -> Schema:
    """The settings as growth checks them, without what the chart itself knows."""
    _, components = msgspec.json.schema_components([Configuration], ref_template=REFERENCE + "{name}")
    components = portable(components)
    configuration = components["Configuration"]
    properties = {name: part for name, part in configuration["properties"].items() if name != "namespace"}
    for part in components.values():
        if "description" in part:
            part["description"] = " ".join(part["description"].split())  # a docstring may have several lines
    return {**components, "Configuration": {**configuration, "properties": properties}}


def _closed(properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}
