"""Labels are values: equal, hashable and never changed."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.labels import NO_LABELS, Labels, LabelSelector, NodeSelectorTerm, Requirement

texts = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=5)


@given(texts)
def test_equal_labels_are_one_value_whatever_their_order(items: dict[str, str]) -> None:
    other = Labels(dict(reversed(items.items())))
    assert Labels(items) == other
    assert hash(Labels(items)) == hash(other)
    assert list(Labels(items)) == sorted(items)
    assert pickle.loads(pickle.dumps(other)) == other  # noqa: S301  (our own bytes)


def test_with_items_leaves_the_first_as_it_was() -> None:
    first = Labels({"a": "1", "b": "2"})
    assert dict(first.with_items({"b": "3", "c": "4"})) == {"a": "1", "b": "3", "c": "4"}
    assert dict(first) == {"a": "1", "b": "2"}


def test_labels_cannot_be_changed_through_the_mapping_they_were_made_from() -> None:
    source = {"a": "1"}
    labels = Labels(source)
    source["a"] = "2"
    assert labels["a"] == "1"
    with pytest.raises(TypeError):
        labels["a"] = "2"  # type: ignore[index]


def test_labels_are_not_equal_to_something_else() -> None:
    assert Labels({"a": "1"}) != {"a": "1"}
    assert NO_LABELS.get("a") is None


def test_selectors_read_well_in_messages() -> None:
    requirement = Requirement("disk", "In", ("ssd", "nvme"))
    assert str(LabelSelector((requirement, Requirement("gpu", "Exists")))) == "disk In [ssd, nvme], gpu Exists"
    assert str(LabelSelector()) == "everything"
    assert (
        str(NodeSelectorTerm((requirement,), (Requirement("metadata.name", "In", ("a",)),)))
        == "disk In [ssd, nvme] and metadata.name In [a]"
    )
    assert str(NodeSelectorTerm()) == "nothing"
