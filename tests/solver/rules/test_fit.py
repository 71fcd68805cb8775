"""The quick question about one pod and one node has the answer of the exact rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from growth.model.labels import ZONE, Labels, NodeSelectorTerm, Requirement
from growth.model.node import Node, Taint
from growth.model.pod import Pod, PodShape, Toleration
from growth.model.resources import Resources
from growth.solver.rules import Neighbours
from growth.solver.rules.fit import (
    fit_together,
    fits_alone,
    free_after,
    free_amounts,
    how_many_fit,
    is_enough,
    may_run_on,
)
from tests.solver.rules.scenes import GPU, node, pod, shape, term, tolerates

NAMES = ("a", "b")
KEYS = ("disk", "size")
RESOURCES = ("cpu", "memory", "example.com/gpu", "hugepages-2Mi", "cores", "requests.cpu")

amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 4) | st.sampled_from((2**54, 2**60)), max_size=4)
values = st.sampled_from(("", "1", "2", "ssd", "no value!"))
some_labels = st.dictionaries(st.sampled_from(KEYS), values, max_size=2).map(Labels)
requirements = st.builds(
    Requirement,
    st.sampled_from((*KEYS, "/")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near")),
    st.lists(values, max_size=2).map(tuple),
)
fields = st.builds(
    Requirement,
    st.sampled_from(("metadata.name", "spec.podCIDR")),
    st.sampled_from(("In", "NotIn", "Exists")),
    st.lists(st.sampled_from((*NAMES, "")), min_size=1, max_size=2).map(tuple),
)
terms = st.builds(
    NodeSelectorTerm, st.lists(requirements, max_size=2).map(tuple), st.lists(fields, max_size=1).map(tuple)
)
effects = st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule"))
taints = st.lists(st.builds(Taint, st.sampled_from(KEYS), values, effects), max_size=2).map(tuple)
tolerations = st.builds(
    Toleration, st.sampled_from((*KEYS, "")), st.sampled_from(("Equal", "Exists", "Gt", "Near", "")), values, effects
)
shapes = st.builds(
    PodShape,
    requests=amounts.map(Resources),
    tolerations=st.lists(tolerations, max_size=2).map(tuple),
    node_selector=some_labels,
    node_affinity=st.none() | st.lists(terms, max_size=2).map(tuple),
    required_node=st.sampled_from(("", "", *NAMES)),
    malformed=st.sampled_from(("", "", "", "spec")),
)
nodes = st.builds(
    Node,
    st.sampled_from(NAMES),
    some_labels,
    taints,
    st.builds(lambda given, pods: Resources({**given, "pods": pods}), amounts, st.integers(0, 3)),
)


@given(shapes, nodes)
def test_the_quick_answer_is_the_exact_one_for_a_pod_alone_on_a_node(asked: PodShape, target: Node) -> None:
    index = Neighbours([target])
    pod_class = index.class_of_pod(Pod("new", asked))
    free = free_amounts(target.allocatable, ())
    assert fits_alone(asked, target, free) == index.fits_on(pod_class, 0)
    assert how_many_fit(asked, target, free) == index.room_for(pod_class)[0]
    assert fits_alone(asked, target, target.allocatable) == index.fits_on(pod_class, 0)


@given(shapes, nodes, st.lists(amounts, max_size=3))
def test_it_is_the_exact_one_beside_pods_that_say_nothing_of_others(
    asked: PodShape, target: Node, residents: list[dict[str, int]]
) -> None:
    beside = [PodShape(requests=Resources(each)) for each in residents]
    bound = [Pod(f"p{number}", each, node_name=target.name) for number, each in enumerate(beside)]
    index = Neighbours([target], bound)
    pod_class = index.class_of_pod(Pod("new", asked))
    free = free_amounts(target.allocatable, beside)
    assert how_many_fit(asked, target, free) == index.room_for(pod_class)[0]
    if fits_alone(asked, target, free):
        index.add(pod_class, 0)
        assert how_many_fit(asked, target, free_after(free, asked)) == index.room_for(pod_class)[0]


@given(st.lists(shapes, max_size=4), nodes, st.lists(amounts, max_size=2))
def test_pods_fit_together_where_each_fits_beside_those_before_it(
    asked: list[PodShape], target: Node, residents: list[dict[str, int]]
) -> None:
    free = free_amounts(target.allocatable, [PodShape(requests=Resources(each)) for each in residents])
    one_by_one, left = True, free
    for each in asked:
        one_by_one, left = one_by_one and fits_alone(each, target, left), free_after(left, each)
    assert fit_together(asked, target, free) == one_by_one


def test_a_resource_that_the_scheduler_does_not_count_keeps_no_pod_away() -> None:
    asked = PodShape(requests=Resources({"cpu": 1000, "cores": 5}))
    assert fits_alone(asked, node(cpu=1), node(cpu=1).allocatable)
    assert not is_enough(free_amounts(node(cpu=1).allocatable, [shape(cpu=1)]), asked)


def test_a_node_still_to_be_made_is_no_node_that_a_pod_asks_for_by_name() -> None:
    labels = node().labels
    assert not may_run_on(pod(required_node="a").shape, labels, ())
    assert not may_run_on(
        shape(node_affinity=(term(fields=(Requirement("metadata.name", "In", ("a",)),)),)), labels, ()
    )
    assert may_run_on(shape(node_affinity=(term(fields=(Requirement("metadata.name", "NotIn", ("a",)),)),)), labels, ())
    assert may_run_on(
        shape(node_selector=Labels({ZONE: "z1"}), tolerations=(tolerates("gpu", "true"),)), labels, (GPU,)
    )
