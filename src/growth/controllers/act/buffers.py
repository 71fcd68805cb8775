"""The ways in which what growth says of a CapacityBuffer is written. Called through the table in
`controllers/act/apply.py`.

Only the buffer's status and the PodTemplate it owns are ever written: a PodTemplate of somebody else is refused, not
overwritten."""

from __future__ import annotations

import msgspec

from growth.controllers.act.nodes import Hands, write_status
from growth.kube.api.errors import AlreadyExists
from growth.kube.api.resources import CAPACITY_BUFFERS, POD_TEMPLATES
from growth.model import action as act
from growth.model.capacitybuffer import TEMPLATE_DIGEST
from growth.model.outcome import Accepted, Outcome, Refused


async def write_buffer_status(hands: Hands, action: act.WriteBufferStatus) -> Outcome:
    return await write_status(hands, hands.caches.served(CAPACITY_BUFFERS), action.buffer, action.status)


async def write_pod_template(hands: Hands, action: act.WritePodTemplate) -> Outcome:
    buffer = action.buffer
    owner = {
        "apiVersion": hands.caches.served(CAPACITY_BUFFERS).api_version,
        "kind": CAPACITY_BUFFERS.kind,
        "name": buffer.name,
        "uid": buffer.uid,
    }
    metadata = {
        "name": action.name,
        "namespace": buffer.namespace,
        "annotations": {TEMPLATE_DIGEST: action.digest},
        "ownerReferences": [{**owner, "controller": True}],
    }
    item = {
        "apiVersion": "v1",
        "kind": POD_TEMPLATES.kind,
        "metadata": metadata,
        "template": msgspec.json.decode(action.text),
    }
    try:
        body = await hands.client.create(POD_TEMPLATES, item)
    except AlreadyExists:
        live = msgspec.json.decode(await hands.client.get(POD_TEMPLATES, action.name, buffer.namespace))
        if all(each.get("uid") != buffer.uid for each in live["metadata"].get("ownerReferences") or ()):
            return Refused(f"PodTemplate {buffer.namespace}/{action.name} belongs to somebody else")
        version = live["metadata"]["resourceVersion"]
        body = await hands.client.replace(POD_TEMPLATES, {**item, "metadata": {**metadata, "resourceVersion": version}})
    hands.caches.learned(POD_TEMPLATES, body)
    return Accepted()
