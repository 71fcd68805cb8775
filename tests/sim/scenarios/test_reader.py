from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from growth.sim.faults.kinds import NeverReady
from growth.sim.scenarios.reader import ScenarioError, read_scenario
from tests.sim.scenarios.worlds import Json, pool, scenario, web, write

RIGHT = """\
name: broken-image
seed: 7
duration: 6h
settings: {scaleDownDelaySeconds: 30}
objects:
  - {apiVersion: growth.dev/v1alpha1, kind: NodePool, metadata: {name: default}, spec: {serverTypes: [{name: CX33}]}}
steps:
  - {at: 10m, restart: growth, after: 20s}
faults:
  - {kind: never-ready, share: 0.5, offering: CX33, from: 1m, until: 5h30m}
expect:
  machines.bought: {max: 12}
  events.Unplaced: {min: 1}
"""


def test_a_file_is_read_with_all_its_parts(tmp_path: Path) -> None:
    read = read_scenario(write(tmp_path, RIGHT))
    assert (read.scenario.name, read.scenario.seed, float(read.scenario.duration)) == ("broken-image", 7, 21_600.0)
    assert read.configuration.plans.scale_down_delay_seconds == 30
    assert read.scenario.faults == (NeverReady(begins=60, until=19_800, share=0.5, offering="CX33"),)  # type: ignore[arg-type]
    assert read.scenario.steps[0].verb == "restart"


@pytest.mark.parametrize(
    ("wrong", "right", "line", "reason"),
    [
        ("durations: 6h", "duration: 6h", 3, "unknown field `durations`"),
        ("duration: 6x", "duration: 6h", 3, "'6x' is not a duration such as 30s, 10m, 1h30m or 2d"),
        ("{at: 10, restart: growht}", "{at: 10m, restart: growth, after: 20s}", 8, "Invalid enum value 'growht'"),
        ("kind: never-redy", "kind: never-ready", 10, "Invalid value 'never-redy'"),
        ("share: 2.5", "share: 0.5", 10, "<= 1.0"),
        ("shares: 0.5", "share: 0.5", 10, "unknown field `shares`"),
        ("machines.bougt", "machines.bought", 12, "no result has machines.bougt; machines has atEnd, bought"),
        ("machines", "machines.bought", 12, "machines is a group of numbers: add one of atEnd, bought"),
        ("{}", "{max: 12}", 12, "give min, max or both"),
        ("scaleDownDelaySecond:", "scaleDownDelaySeconds:", 4, "unknown field `scaleDownDelaySecond`"),
        ("{at: 5m}", "{at: 10m, restart: growth, after: 20s}", 8, "a step does exactly one of apply, scale"),
        ("apiVersion: ''", "apiVersion: growth.dev/v1alpha1", 6, "an object needs apiVersion and kind"),
        ("name: [", "name: broken-image", 3, "not YAML"),
        ("provider: hetzner", "seed: 7", 2, "Invalid enum value 'hetzner'"),
        ("provider: hetzner-fake\nprices: {cpu: 1}", "seed: 7", 3, "the fake Hetzner sells what it sells"),
        ("machines: [{name: a, serverType: CX99, location: fsn1}]", "seed: 7", 2, "there is no server type CX99"),
        ("machines: [{name: a, serverType: CX33, location: moon}]", "seed: 7", 2, "there is no location moon"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_and_reason(
    tmp_path: Path, wrong: str, right: str, line: int, reason: str
) -> None:
    assert right in RIGHT
    with pytest.raises(ScenarioError) as raised:
        read_scenario(write(tmp_path, RIGHT.replace(right, wrong, 1)))
    assert raised.value.line == line
    assert reason in raised.value.reason
    assert str(raised.value).startswith(f"{tmp_path / 'scenario.yaml'}:{line}: ")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"at": "5m", "scale": {"kind": "Deployment", "name": "wbe", "replicas": 2}}, "nothing makes Deployment wbe"),
        ({"at": "5m", "delete": {"kind": "NodePool", "name": "old"}}, "nothing makes NodePool old"),
        ({"at": "5m", "patch": {"kind": "Unicorn", "merge": {}}}, "the embedded cluster has no kind Unicorn"),
        ({"at": "5m", "restart": "growth", "replica": 1}, "there are 1 replicas, counted from 0"),
    ],
)
def test_a_step_that_means_nothing_is_a_mistake(tmp_path: Path, step: Json, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason):
        read_scenario(write(tmp_path, scenario(pool(), web(2), steps=[step])))


def test_what_an_earlier_step_makes_a_later_one_may_mean(tmp_path: Path) -> None:
    made = {"at": "1m", "apply": [web(3, name="late")]}
    scaled = {"at": "2m", "scale": {"kind": "Deployment", "name": "late", "replicas": 1}}
    read = read_scenario(write(tmp_path, scenario(pool(), steps=[made, scaled])))
    assert [step.verb for step in read.scenario.steps] == ["apply", "scale"]


def test_files_are_found_beside_the_scenario(tmp_path: Path) -> None:
    write(tmp_path, web(4), "app.yaml")
    read = read_scenario(write(tmp_path, scenario(pool(), manifests=["app.yaml"])))
    assert [item["kind"] for item in read.objects] == ["Deployment", "NodePool"]
    with pytest.raises(ScenarioError, match=r"nope.yaml: No such file"):
        read_scenario(write(tmp_path, scenario(pool(), manifests=["nope.yaml"])))


def test_changes_lie_over_the_file(tmp_path: Path) -> None:
    changes = {"settings.scaleDownDelaySeconds": "300", "pools.default.consolidation": "Full", "duration": "1h"}
    read = read_scenario(write(tmp_path, RIGHT), changes)
    assert read.configuration.plans.scale_down_delay_seconds == 300
    assert read.objects[0]["spec"]["consolidation"] == "Full"
    assert float(read.scenario.duration) == 3600.0


def test_a_change_of_a_pool_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="there is no NodePool other"):
        read_scenario(write(tmp_path, RIGHT), {"pools.other.consolidation": "Full"})


def test_a_trace_is_read_from_its_first_arrival_on(tmp_path: Path) -> None:
    rows = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,else"]
    rows += ["b,500,512,0,0,,120,180,x", "a,2000,1024,1,460,T4|P100,60,,y"]
    write(tmp_path, "\n".join(rows), "pods.csv")
    read = read_scenario(write(tmp_path, scenario(pool(), trace={"file": "pods.csv", "pool": "default"})))
    first, second = read.arrivals
    assert (first.at, first.until, second.at, second.until) == (0, None, 60, 120)
    requests = first.pod["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "2000m", "memory": "1024Mi", "growth.dev/gpu-milli": "460"}
    assert "affinity" in first.pod["spec"]
    assert "affinity" not in second.pod["spec"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,x,512,60,", "cpu_milli is 'x', not a number"),
        ("a,100,512,60,30", "a goes before it comes"),
    ],
)
def test_a_wrong_line_of_a_trace_is_told(tmp_path: Path, row: str, reason: str) -> None:
    write(tmp_path, f"name,cpu_milli,memory_mib,creation_time,deletion_time\n{row}\n", "pods.csv")
    with pytest.raises(ScenarioError, match=f"pods.csv:2: {reason}"):
        read_scenario(write(tmp_path, scenario(pool(), trace={"file": "pods.csv"})))


def test_a_list_of_nodes_is_a_catalogue_once_it_has_prices(tmp_path: Path) -> None:
    write(
        tmp_path, "sn,cpu_milli,memory_mib,gpu,model\na,8000,16384,0,\nb,8000,16384,0,\nc,16000,65536,2,T4\n", "n.csv"
    )
    content = scenario(pool(), catalogue="n.csv", prices={"cpu": 0.01, "memoryGib": 0.001, "T4": 0.5})
    catalogue = read_scenario(write(tmp_path, content)).catalogue
    prices = {each.name: each.price_per_hour for each in catalogue.offerings()}
    assert prices == {"sim-c8-m16": pytest.approx(0.096), "sim-c16-m64-2xt4": pytest.approx(1.224)}
    assert catalogue.stock("c8-m16", "here") == 2
    with pytest.raises(ScenarioError, match="a list of nodes has no prices"):
        read_scenario(write(tmp_path, {**content, "prices": {}}))


@pytest.mark.parametrize("changes", [{}, {"pools.default.max": "3"}])
def test_a_field_that_no_pool_has_is_a_mistake_in_the_file_and_in_a_change(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    content = scenario(pool("default", "CX33", **({} if changes else {"max": 3})))
    with pytest.raises(ScenarioError, match=r"no NodePool has spec\.max"):
        read_scenario(write(tmp_path, content), changes)


def test_a_mistake_can_travel_to_another_process(tmp_path: Path) -> None:
    told = ScenarioError(tmp_path, 3, "no such thing")
    assert str(pickle.loads(pickle.dumps(told))) == str(told) == f"{tmp_path}:3: no such thing"  # noqa: S301
