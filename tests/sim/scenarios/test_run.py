"""What a scenario says happens, and is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from growth.sim.scenarios.result import Result
from growth.sim.scenarios.sweep import Job, Outcome, jobs_of, run_job, run_jobs
from tests.sim.scenarios.worlds import Json, pool, scenario, web, write

TEN = (pool(), web(10))  # three machines of four cores
TWO = (pool(), web(2, cpu="3"))  # a machine for each
PAUSED: Json = {"metadata": {"annotations": {"growth.dev/paused": "true"}}}


def run(folder: Path, *objects: Json, **parts: Any) -> Result:
    return outcome(folder, *objects, **parts).result


def outcome(folder: Path, *objects: Json, **parts: Any) -> Outcome:
    return run_job(Job(str(write(folder, scenario(*objects, **parts)))))


def fault(kind: str, **parts: Any) -> list[Json]:
    return [{"kind": kind, **parts}]


def test_pods_get_machines_and_everything_is_counted(tmp_path: Path) -> None:
    result = run(tmp_path, *TEN)
    assert (result.pods.made, result.pods.running, result.pods.pending) == (10, 10, 0)
    assert (result.machines.bought, result.machines.at_end, result.machines.most) == (4, 4, 4)
    assert result.nodes.by_offering == {"sim-cx33": 4}
    assert 0 < result.waiting_seconds.p50 <= result.waiting_seconds.max < 120
    assert 0 < result.cost.bound_at_end <= result.cost.per_hour_at_end
    assert result.events["ScaleUp"] == 1
    assert result.conditions["NodePool/default"]["Ready"] == "True"
    assert result.targets == {"Deployment/default/web": 10}
    assert result.settled
    assert result.laws_broken == ()


def test_the_same_file_and_seed_give_the_same_result_and_another_seed_another(tmp_path: Path) -> None:
    path = write(tmp_path, scenario(*TEN))
    first, again, other = (run_job(Job(str(path), seed=seed)).result for seed in (1, 1, 2))
    assert first == again
    assert first.waiting_seconds != other.waiting_seconds


def test_steps_happen_at_their_time(tmp_path: Path) -> None:
    steps = [
        {"at": "5m", "scale": {"kind": "Deployment", "name": "web", "replicas": 1}},
        {"at": "6m", "every": "1m", "until": "9m", "apply": [_job("work-")]},
        {"at": "7m", "patch": {"kind": "Node", "first": 1, "merge": {"metadata": {"labels": {"seen": "yes"}}}}},
        {"at": "15m", "delete": {"kind": "Deployment", "name": "web"}},
    ]
    result = run(tmp_path, *TEN, steps=steps)
    assert result.pods.made == 13
    assert result.targets == {}
    assert result.machines.given_back > 0


def _job(prefix: str) -> Json:
    made = web(1)
    template = made["spec"]["template"]
    template["spec"] |= {"restartPolicy": "Never"}
    metadata = {"generateName": prefix}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def test_claimed_members_of_a_sandbox_set_leave_it_and_are_replaced(tmp_path: Path) -> None:
    sandboxes = {**web(3, cpu="100m", kind="SandboxSet"), "apiVersion": "agents.kruise.io/v1alpha1"}
    claim = {"at": "5m", "claim": {"kind": "SandboxSet", "name": "web", "count": 2}}
    result = run(tmp_path, pool(), sandboxes, steps=[claim])
    assert (result.pods.made, result.pods.running) == (5, 5)
    assert result.targets == {"SandboxSet/default/web": 3}


def test_a_machine_bought_for_a_buffer_is_not_in_vain_and_the_reason_of_a_condition_is_told(tmp_path: Path) -> None:
    kind = {"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "spare"}}
    spec = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "replicas": 2}
    result = run(tmp_path, pool(), web(0), {**kind, "spec": spec})
    assert (result.machines.bought, result.machines.in_vain) == (1, 0)
    assert result.reasons["CapacityBuffer/default/spare"]["Provisioning"] == "CapacityProvisioned"


def test_growth_may_die_and_come_back(tmp_path: Path) -> None:
    result = run(tmp_path, *TEN, steps=[{"at": "4s", "restart": "growth", "after": "20s"}])
    assert (result.pods.running, result.machines.bought, result.machines.twice) == (10, 4, 0)


def test_a_growth_that_stands_still_buys_nothing_meanwhile(tmp_path: Path) -> None:
    result = run(tmp_path, *TEN, steps=[{"at": "0s", "pause": "growth", "for": "5m"}])
    assert result.pods.running == 10
    assert result.waiting_seconds.p50 > 290


def test_two_growths_elect_a_leader_and_the_other_takes_over(tmp_path: Path) -> None:
    steps = [{"at": "2m", "restart": "growth", "after": "1h", "replica": 0}]
    steps.append({"at": "10m", "apply": [web(4, name="late")]})
    result = run(tmp_path, *TEN, replicas=2, steps=steps)
    assert (result.pods.running, result.machines.twice) == (14, 0)


def test_pods_of_a_trace_come_and_go(tmp_path: Path) -> None:
    rows = [f"p{number},1000,512,{60 * number},{60 * number + 300}" for number in range(5)]
    write(tmp_path, "\n".join(["name,cpu_milli,memory_mib,creation_time,deletion_time", *rows]), "pods.csv")
    result = run(tmp_path, pool(), trace={"file": "pods.csv"})
    assert (result.pods.made, result.pods.running, result.pods.pending) == (5, 0, 0)


COLUMNS = "name,cpu_milli,memory_mib,creation_time,deletion_time"


def test_pods_of_a_trace_that_are_made_again_move_and_leave_at_their_time(tmp_path: Path) -> None:
    rows = [f"long-{number},1000,512,0,21000" for number in range(2)]
    rows += [f"short-{number},2000,512,0,900" for number in range(2)]
    write(tmp_path, "\n".join([COLUMNS, *rows]), "pods.csv")
    full, trace = pool(consolidation="Full"), {"file": "pods.csv"}
    kept = run(tmp_path, full, duration="6h", trace=trace)
    moved = run(tmp_path, full, duration="6h", trace={**trace, "madeAgain": True})
    assert (kept.pods.evicted, kept.pods.made) == (0, 4)
    assert moved.pods.evicted > 0
    assert moved.pods.made == 4 + moved.pods.evicted
    assert (moved.pods.running, moved.pods.pending) == (0, 0)
    assert moved.cost.total < kept.cost.total


def test_a_trace_goes_on_after_pods_that_were_lost(tmp_path: Path) -> None:
    rows = [f"p{number},1000,512,{600 * number},{600 * number + 3000}" for number in range(8)]
    write(tmp_path, "\n".join([COLUMNS, *rows]), "pods.csv")
    vanish = [{"kind": "vanish", "share": 1.0, "from": "20m", "until": "21m"}]
    result = run(tmp_path, pool(), duration="3h", trace={"file": "pods.csv"}, faults=vanish)
    assert (result.pods.made, result.pods.running, result.pods.pending) == (8, 0, 0)


# ------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("kind", ["never-boots", "never-ready"])
def test_machines_that_never_come_are_counted(tmp_path: Path, kind: str) -> None:
    result = run(tmp_path, *TEN, faults=fault(kind))
    assert result.machines.never_ready == result.machines.in_vain == result.machines.bought > 0
    assert result.pods.running == 0


def test_a_fault_ends_when_it_says(tmp_path: Path) -> None:
    result = run(tmp_path, *TEN, duration="1h", faults=fault("never-ready", until="2m"))
    assert result.pods.running == 10


def test_a_fault_of_one_offering_leaves_the_others_alone(tmp_path: Path) -> None:
    result = run(tmp_path, pool("default", "CX33", "CX32"), web(10), faults=fault("sold-out", offering="CX33"))
    assert result.pods.running == 10
    assert "sim-cx33" not in result.nodes.by_offering


def test_smaller_machines_than_sold_hold_fewer_pods(tmp_path: Path) -> None:
    result = run(tmp_path, *TEN, faults=fault("smaller-than-sold", by=0.4))
    assert result.machines.bought > 4


@pytest.mark.parametrize("status", [503, 429, "timeout", "locked"])
def test_a_launch_without_a_good_answer_buys_once_it_is_over(tmp_path: Path, status: object) -> None:
    result = run(tmp_path, *TEN, faults=fault("launch-error", status=status, until="3m"))
    assert (result.pods.running, result.machines.bought, result.machines.twice) == (10, 4, 0)


def test_an_order_that_had_an_effect_though_the_answer_was_an_error_is_not_made_twice(tmp_path: Path) -> None:
    result = run(tmp_path, *TEN, faults=fault("launch-error", status=503, effect=True, until="3m"))
    assert (result.machines.bought, result.machines.twice, result.machines.leaked) == (4, 0, 0)


def test_a_machine_whose_deletion_is_refused_stays_until_the_fault_is_over(tmp_path: Path) -> None:
    steps = [{"at": "3m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}}]
    kept = run(tmp_path, *TEN, duration="10m", steps=steps, faults=fault("delete-refused"))
    assert (kept.machines.given_back, kept.machines.at_end) == (0, 4)
    gone = run(tmp_path, *TEN, duration="15m", steps=steps, faults=fault("delete-refused", until="6m"))
    assert (gone.machines.given_back, gone.machines.at_end) == (4, 0)


@pytest.mark.parametrize("kind", ["list-error", "list-empty", "list-stale"])
def test_a_bad_list_of_machines_makes_nothing_twice(tmp_path: Path, kind: str) -> None:
    result = run(tmp_path, *TEN, faults=fault(kind, until="10m"))
    assert (result.machines.twice, result.machines.leaked, result.laws_broken) == (0, 0, ())


def test_a_slow_provider_makes_pods_wait(tmp_path: Path) -> None:
    quick, slow = run(tmp_path, *TEN), run(tmp_path, *TEN, faults=fault("slow-provider", seconds="20s"))
    assert slow.waiting_seconds.p50 > quick.waiting_seconds.p50 + 15


def test_machines_vanish(tmp_path: Path) -> None:
    result = run(tmp_path, *TEN, faults=[{"kind": "vanish", "from": "5m"}])
    assert result.machines.bought == 8
    assert result.pods.running == 10


def test_interrupted_machines_go_after_their_notice(tmp_path: Path) -> None:
    result = run(tmp_path, *TEN, faults=[{"kind": "interruption", "from": "5m", "noticeSeconds": 60}])
    assert result.machines.bought == 8


def test_the_api_server_may_refuse_one_kind_of_request(tmp_path: Path) -> None:
    refused = fault("api-error", verb="create", resource="noderequests", status=500)
    result = run(tmp_path, *TEN, faults=refused)
    assert (result.machines.bought, result.requests.refused > 0) == (0, True)


@pytest.mark.parametrize(
    "one",
    [
        {"kind": "api-down", "from": "2s", "seconds": "2m"},
        {"kind": "api-slow", "seconds": "2s", "until": "5m"},
        {"kind": "watch-cut", "seconds": "7s", "until": "5m"},
        {"kind": "watch-silent", "from": "3s", "seconds": "2m"},
        {"kind": "history-gone", "from": "10s", "seconds": "30s", "until": "5m"},
        {"kind": "clock-step", "from": "5s", "seconds": "90s", "until": "5m"},
    ],
)
def test_growth_gets_over_trouble_with_the_api_server_and_its_clock(tmp_path: Path, one: Json) -> None:
    result = run(tmp_path, *TEN, faults=[one])
    assert (result.pods.running, result.machines.twice, result.machines.leaked) == (10, 0, 0)


def test_objects_are_what_they_were_after_a_restore(tmp_path: Path) -> None:
    steps = [{"at": "8m", "apply": [web(1, name="young")]}]
    result = run(tmp_path, *TEN, steps=steps, faults=[{"kind": "history-restored", "from": "10m", "seconds": "5m"}])
    assert result.targets == {"Deployment/default/web": 10}


def test_nodes_that_stop_reporting_are_counted_and_come_back(tmp_path: Path) -> None:
    ill = {"kind": "not-ready", "from": "5m", "until": "30m", "nodes": 2}
    assert run(tmp_path, *TEN, faults=[ill]).nodes.ready <= 2 + 2
    assert run(tmp_path, *TEN, duration="50m", faults=[ill]).pods.running == 10


def test_a_solver_that_hangs_leaves_pods_waiting(tmp_path: Path) -> None:
    assert run(tmp_path, *TEN, faults=fault("solver-hangs")).pods.pending == 10


def test_an_account_has_a_quota_until_it_is_raised(tmp_path: Path) -> None:
    assert run(tmp_path, *TEN, faults=fault("quota", machines=3)).machines.most == 3
    assert run(tmp_path, *TEN, duration="40m", faults=fault("quota", machines=3, until="5m")).machines.at_end == 4


def test_machines_that_may_not_be_deleted_stay(tmp_path: Path) -> None:
    steps = [{"at": "5m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}}]
    result = run(tmp_path, *TEN, steps=steps, faults=fault("delete-refused"))
    assert (result.machines.given_back, result.machines.at_end) == (0, 4)


def test_a_machine_without_its_labels_runs_on_and_is_paid(tmp_path: Path) -> None:
    lost = fault("labels-lost", **{"from": "5m", "until": "6m"})
    result = run(tmp_path, *TEN, duration="8m", faults=lost)
    assert (result.machines.at_end, result.nodes.ready, result.cost.per_hour_at_end) == (0, 4, 0.032)


def test_the_node_of_a_machine_that_is_switched_off_stays(tmp_path: Path) -> None:
    result = run(tmp_path, *TEN, duration="6m", faults=fault("powered-off", **{"from": "5m"}))
    assert (result.nodes.at_end, result.nodes.ready, result.machines.at_end) == (4, 0, 4)


def test_only_the_leader_loses_its_lease(tmp_path: Path) -> None:
    steps, lost = [{"at": "3m", "apply": [web(10)]}], fault("lease-lost", **{"from": "2m"})
    result = run(tmp_path, pool(), replicas=2, duration="10m", steps=steps, faults=lost)
    assert (result.pods.running, result.machines.bought) == (10, 4)


def test_the_api_server_may_be_slow_for_one_kind_of_request(tmp_path: Path) -> None:
    slow = {"seconds": "20s", "verb": "create", "until": "5m"}
    usual = run(tmp_path, *TEN).waiting_seconds.p50
    assert run(tmp_path, *TEN, faults=fault("api-slow", resource="jobs", **slow)).waiting_seconds.p50 == usual
    assert run(tmp_path, *TEN, faults=fault("api-slow", resource="noderequests", **slow)).waiting_seconds.p50 > usual


# --------------------------------------------------------------------------------------- many runs


def test_a_grid_is_every_combination_and_each_is_called_by_what_sets_it_apart(tmp_path: Path) -> None:
    path = str(write(tmp_path, scenario(*TEN)))
    jobs = jobs_of(
        [path], {"duration": "1m"}, {"seed": ["1", "2"], "pools.default.consolidation": ["Off", "Full"]}, None
    )
    assert [job.policy for job in jobs] == [
        "seed=1, pools.default.consolidation=Off",
        "seed=1, pools.default.consolidation=Full",
        "seed=2, pools.default.consolidation=Off",
        "seed=2, pools.default.consolidation=Full",
    ]
    assert {job.changes["duration"] for job in jobs} == {"1m"}
    assert [job.policy for job in jobs_of([path], {"duration": "1m"}, {}, None)] == ["duration=1m"]


def test_processes_give_the_same_results_in_the_same_order(tmp_path: Path) -> None:
    path = str(write(tmp_path, scenario(pool(), web(2), duration="2m")))
    jobs = jobs_of([path], {}, {}, 3)
    here, there = (list(run_jobs(jobs, workers=workers)) for workers in (1, 2))
    assert [each.result for each in here] == [each.result for each in there]
    assert [each.result.seed for each in here] == [0, 1, 2]


def test_an_expectation_that_is_not_kept_is_told(tmp_path: Path) -> None:
    found = outcome(tmp_path, *TEN, expect={"machines.bought": {"max": 3}, "pods.running": 10, "nodes.ready": 5})
    assert found.broken == ("machines.bought is 4, expected at most 3", "nodes.ready is 4, expected 5")
    assert not found.succeeded


PROVIDERS = ("sim", "hetzner-fake")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_same_file_gives_the_same_result_at_every_provider(tmp_path: Path, provider: str) -> None:
    faults = [*fault("launch-error", share=0.3), *fault("list-incomplete"), *fault("slow-provider", seconds="2s")]
    first, again = (run(tmp_path, *TWO, provider=provider, faults=faults, duration="4m") for _ in range(2))
    assert first == again
    assert first.machines.bought > 0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_strangers_machine_is_neither_counted_as_ours_nor_paid(tmp_path: Path, provider: str) -> None:
    labels = {"growth.dev/cluster": "another"}
    machine = {"name": "theirs", "serverType": "CX33", "location": "fsn1", "labels": labels}
    result = run(tmp_path, pool(), provider=provider, machines=[machine])
    assert (result.machines.foreign, result.machines.at_end, result.machines.leaked) == (1, 0, 0)
    assert (result.cost.total, result.cost.per_hour_at_end) == (0, 0)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("kind", "parts", "key", "wanted"),
    [
        ("sold-out", {}, "bought", 0),
        ("sold-out", {"offering": "CX33"}, "bought", 0),
        ("launch-error", {"status": 403}, "bought", 0),
        ("quota", {"machines": 1}, "bought", 1),
        ("never-boots", {}, "never_ready", 2),
        ("never-ready", {}, "never_ready", 2),
        ("list-empty", {}, "given_back", 0),
        ("list-garbage", {}, "given_back", 0),
        ("list-incomplete", {"share": 1.0}, "given_back", 0),
        ("labels-lost", {"from": "2m"}, "at_end", 0),
        ("powered-off", {"from": "2m"}, "at_end", 2),
        ("slow-provider", {"seconds": "5s"}, "bought", 2),
    ],
)
def test_a_fault_is_the_same_at_every_provider(
    tmp_path: Path, provider: str, kind: str, parts: Json, key: str, wanted: int
) -> None:
    result = run(tmp_path, *TWO, provider=provider, duration="4m", faults=fault(kind, **parts))
    assert getattr(result.machines, key) == wanted
    assert result.laws_broken == ()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_machine_that_is_smaller_than_sold_is_seen_at_every_provider(tmp_path: Path, provider: str) -> None:
    result = run(tmp_path, *TWO, provider=provider, duration="8m", faults=fault("smaller-than-sold", by=0.3))
    assert result.machines.bought > 2
    assert result.laws_broken == ()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_the_provider_makes_late_is_not_held_against_growth(tmp_path: Path, provider: str) -> None:
    nowhere_else = (pool(locations=["fsn1"]), web(2, cpu="3"))
    steps = [
        {"at": "2m", "patch": {"kind": "NodePool", "name": "default", "merge": PAUSED}},
        {"at": "2m", "delete": {"kind": "Deployment", "name": "web"}},
    ]
    late = fault("late-effect", seconds="6m", until="1m")
    result = run(tmp_path, *nowhere_else, provider=provider, faults=late, steps=steps, duration="9m")
    assert result.machines.bought == 2
    assert result.machines.twice == 0
    assert result.laws_broken == ()


def test_nodes_are_as_full_as_their_scarcest_resource_devices_too(tmp_path: Path) -> None:
    write(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\na,16000,65536,2,T4\n", "nodes.csv")
    rows = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\na,1000,1024,2,1000,T4,0,"
    write(tmp_path, rows, "pods.csv")
    parts = {"catalogue": "nodes.csv", "prices": {"cpu": 0.01, "memoryGib": 0.001, "T4": 0.5}}
    found = outcome(tmp_path, pool("default", "c16-m64-2xT4"), trace={"file": "pods.csv", "pool": "default"}, **parts)
    assert max(sample.fill for sample in found.samples) == 1.0
