"""How fast is the embedded cluster? Virtual time against CPU time, for a real trace and for worlds drawn from seeds.

| case | what |
| --- | --- |
| rest | two nodes and two pods, nothing happens: what waiting costs |
| openb_NAME | the pods of a production cluster (`docs/examples/scenarios/traces/openb.yaml`), once for each policy;
  needs `GROWTH_BENCH_DATA` |
| seeds | worlds with faults and laws, as `growth sim` draws them |

    python -m bench.simulation [--days 150] [--seeds 10] [--json]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import yaml

from bench.report import Report, main, measured, parser, peak_resident_mib
from growth.controllers.loop.journal import be_quiet
from growth.sim.apiserver.objects import deployment, node_pool
from growth.sim.scenarios.sweep import Job, Outcome, run_job
from growth.sim.stories.simulation import simulate

OPENB = Path(__file__).parents[1] / "docs/examples/scenarios/traces/openb.yaml"
POLICIES: dict[str, dict[str, str]] = {
    "empty": {},
    "full": {"pools.default.consolidation": "Full"},
    "patient": {"settings.scaleDownDelaySeconds": "3600"},
}
REST_DAYS = 3


def run(chosen: argparse.Namespace) -> Report:
    be_quiet()
    report = Report("The embedded cluster: virtual time, CPU time")
    _add(report, "rest", run_job(Job(str(_resting_world()))))
    folder = Path(os.environ.get("GROWTH_BENCH_DATA") or "nowhere").absolute()
    if (folder / "openb_pods.csv").exists():
        for name, policy in POLICIES.items():
            changes = {"trace.file": f"{folder}/openb_pods.csv", "catalogue": f"{folder}/openb_nodes.csv"}
            changes |= {"duration": f"{chosen.days}d", **policy}
            _add(report, f"openb_{name}", run_job(Job(str(OPENB), changes)))
    else:
        print("GROWTH_BENCH_DATA names no folder with openb_pods.csv: openb is left out", file=sys.stderr)
    with measured() as spent:
        failed = sum(not simulate(str(seed)).succeeded for seed in range(chosen.seeds))
    per_second = round(chosen.seeds / spent.cpu_seconds, 2)
    report.add("seeds", cpu_s=round(spent.cpu_seconds, 1), seeds_per_cpu_s=per_second, failed=failed)
    return report


def _add(report: Report, case: str, outcome: Outcome) -> None:
    result, cpu = outcome.result, outcome.cpu_seconds
    report.add(
        case,
        times_real=round(result.virtual_seconds / cpu),
        cpu_s=round(cpu, 1),
        ms_per_pod=round(1000 * cpu / max(1, result.pods.made), 1),
        pods=result.pods.made,
        machines=result.machines.bought,
        cost=round(result.cost.total),
        peak_mib=round(peak_resident_mib()),
    )


def _resting_world() -> Path:
    pool = node_pool("default", "CX33")
    content = {"name": "rest", "duration": f"{REST_DAYS}d", "objects": [pool, deployment("web", 2, cpu="3")]}
    path = Path(tempfile.mkdtemp()) / "rest.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


if __name__ == "__main__":
    arguments = parser(__doc__)
    arguments.add_argument("--days", type=int, default=150, help="of the trace")
    arguments.add_argument("--seeds", type=int, default=10)
    sys.exit(main(arguments, run))
