"""Bounded building blocks of our own API kinds. Asked by the kinds' specs; read by the CRD generator.

Every string has a length and a pattern, so that the API server refuses bad objects before growth sees them. Patterns
end in `\\Z`, the very end: Python's `$` also matches before a last line break. Schemas say `$` (`portable`).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

API_GROUP: Final = "growth.dev"
API_VERSION: Final = "v1alpha1"
FINALIZER: Final = "growth.dev/machine"

Name = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")]
LabelKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=317,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?\Z",
    ),
]
LabelValue = Annotated[str, Meta(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?\Z")]
QuantityText = Annotated[str, Meta(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i|[eE][0-9]+)?\Z")]
Instant = Annotated[str, Meta(max_length=40, extra_json_schema={"format": "date-time"})]  # RFC 3339
Sentence = Annotated[str, Meta(max_length=1024)]
Word = Annotated[str, Meta(max_length=63)]
KindName = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[A-Za-z][A-Za-z0-9]*\Z")]
GroupText = Annotated[str, Meta(max_length=253, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?\Z")]


def portable(schema: Any) -> Any:
    """A JSON schema for readers that are not Python: to them `$` is the very end, and nothing else is."""
    if isinstance(schema, list | tuple):
        return [portable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    told = {name: portable(part) for name, part in schema.items()}
    pattern = told.get("pattern")
    return {**told, "pattern": pattern.replace(r"\Z", "$")} if isinstance(pattern, str) else told


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
