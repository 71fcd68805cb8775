"""Whatever an object holds, the codec answers: with the noun, or with what is wrong with it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from growth.kube.codec import Codec
from growth.model.malformed import Malformed
from tests.kube.objects import raw
from tests.kube.samples import SAMPLES

Path = tuple[str | int, ...]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(
        [
            "",
            "1",
            "-1",
            "1e999999",
            "1Ei",
            "Always",
            "In",
            "Gt",
            "x" * 300,
            "\ud800",
            "2026-03-29T01:30:00Z",
            "9999-12-31T23:59:59-23:59",
        ]
    ),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)


def paths(item: Any, here: Path = ()) -> Iterator[Path]:
    yield here
    if isinstance(item, dict):
        for key, value in item.items():
            yield from paths(value, (*here, key))
    if isinstance(item, list):
        for place, value in enumerate(item):
            yield from paths(value, (*here, place))


PLACES = [(kind, path) for kind, sample in SAMPLES.items() for path in paths(sample)]


def with_value(item: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(item)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def without(item: Any, path: Path) -> Any:
    changed = copy.deepcopy(item)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return changed


def decode(codec: Codec, kind: str, body: bytes) -> None:
    decoded = codec.decode(kind, Raw(body))
    assert isinstance(decoded.key, str)
    if isinstance(decoded.noun, Malformed):
        assert decoded.noun.kind == kind
        assert decoded.noun.why
    else:
        assert hash(decoded.noun) == hash(decoded.noun) if kind in ("Pod", "Node") else True


CODEC = Codec()


@given(st.sampled_from(PLACES), anything)
def test_any_json_in_place_of_any_field_never_raises(place: tuple[str, Path], value: Any) -> None:
    kind, path = place
    decode(CODEC, kind, json.dumps(with_value(SAMPLES[kind], path, value)).encode())


@given(st.sampled_from([place for place in PLACES if place[1]]))
def test_a_missing_field_never_raises(place: tuple[str, Path]) -> None:
    kind, path = place
    decode(CODEC, kind, raw(without(SAMPLES[kind], path)))


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("value", [None, [], {}, "x" * 300, -1, 1.5, True, [None], {"": None}], ids=repr)
def test_the_same_odd_value_in_every_field_in_turn_never_raises(kind: str, value: Any) -> None:
    for path in paths(SAMPLES[kind]):
        decode(CODEC, kind, raw(with_value(SAMPLES[kind], path, value)))


@given(st.sampled_from(list(SAMPLES)), st.binary(max_size=60))
@example("Pod", b'{"metadata":{"name":"\xff\xfe"}}')
@example("Node", b"[" * 100_000)
@example("NodePool", b'{"metadata":' + b'{"a":' * 5_000)
@example("Pod", b"")
def test_bytes_that_are_no_json_never_raise(kind: str, body: bytes) -> None:
    decode(CODEC, kind, body)


@given(st.sampled_from(list(SAMPLES)), st.data())
def test_a_cut_off_object_never_raises(kind: str, data: st.DataObject) -> None:
    body = raw(SAMPLES[kind])
    decode(CODEC, kind, body[: data.draw(st.integers(0, len(body)))])


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_whole_sample_is_read_without_complaint(kind: str) -> None:
    noun = CODEC.decode(kind, raw(SAMPLES[kind])).noun
    assert not isinstance(noun, Malformed), noun
    assert not getattr(noun, "malformed", "")
    assert not getattr(getattr(noun, "shape", None), "malformed", "")
