"""Bounded building blocks of our own API kinds. Asked by the kinds' specs; read by the CRD generator.

Every string has a length and a pattern, so that the API server refuses bad objects before growth sees them.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

API_GROUP: Final = "growth.dev"
API_VERSION: Final = "v1alpha1"
FINALIZER: Final = "growth.dev/machine"

Name = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
LabelKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=317,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    ),
]
LabelValue = Annotated[str, Meta(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
QuantityText = Annotated[str, Meta(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i|[eE][0-9]+)?$")]
Instant = Annotated[str, Meta(max_length=40, extra_json_schema={"format": "date-time"})]  # RFC 3339
Sentence = Annotated[str, Meta(max_length=1024)]
Word = Annotated[str, Meta(max_length=63)]


class Condition(Struct, frozen=True, rename="camel"):
    """A Kubernetes condition: how one aspect stands, since when and why."""

    type: Annotated[Word, Meta(description="Which aspect.")]
    status: Annotated[Literal["True", "False", "Unknown"], Meta(description="How it stands.")]
    reason: Annotated[Word, Meta(description="Why, in one word for machines.")]
    message: Annotated[Sentence, Meta(description="Why, in a sentence for people.")]
    last_transition_time: Annotated[Instant, Meta(description="Since when.")]
    observed_generation: Annotated[int, Meta(description="The generation of the spec that was looked at.")] = 0


class LifeEvent(Struct, frozen=True, rename="camel", omit_defaults=True):
    """An arrow in a request's life."""

    at: Annotated[Instant, Meta(description="When.")]
    name: Annotated[Word, Meta(description="What happened: nodeRequested, nodeProvisioned, deletionFailed and so on.")]
    reason: Annotated[Sentence, Meta(description="Why, for people.")] = ""
