"""What comes of many runs: several files, seeds, and every combination of a grid of changes?

Asked by `growth simulate`. A run is a Job, small enough to travel to another process or machine; its Outcome depends on
nothing but the Job, so every engine gives the same ones, in the order of the jobs.

| engine | where the runs happen |
| --- | --- |
| processes | on all cores of this machine, one process each |
| ray | on a Ray cluster: the one that `RAY_ADDRESS` names, or one of this machine's cores (an extra: `growth[ray]`) |
"""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from growth.controllers.loop.journal import be_quiet
from growth.controllers.loop.workers import working
from growth.sim.clock import run_virtual
from growth.sim.scenarios.measure import Sample
from growth.sim.scenarios.reader import find_scenario, read_scenario, with_seed
from growth.sim.scenarios.result import Result, broken_expectations
from growth.sim.scenarios.run import ScenarioRun

Engine = Literal["processes", "ray"]


class Job(Struct, frozen=True):
    """One run: a file, what is changed in it, and the seed."""

    path: str
    changes: Mapping[str, str] = {}
    seed: int | None = None  # None: the file's own
    draws_bounds: bool = False  # along the way, for a report
    varied: tuple[str, ...] = ()  # the changes in which it differs from others of the same grid

    @property
    def policy(self) -> str:
        """What sets it apart from the other runs, in words; without a grid all that is changed. Empty: nothing."""
        return ", ".join(f"{key}={self.changes[key]}" for key in self.varied or self.changes)


class Outcome(Struct, frozen=True):
    """What came of a Job. `cpu_seconds` is the only part that is not the same each time."""

    job: Job
    result: Result
    broken: tuple[str, ...]  # expectations, in words
    samples: tuple[Sample, ...]
    waits: tuple[float, ...]  # of every pod, in seconds
    cpu_seconds: float

    @property
    def succeeded(self) -> bool:
        return not self.broken and not self.result.laws_broken


def jobs_of(
    paths: Sequence[str],
    changes: Mapping[str, str],
    grid: Mapping[str, Sequence[str]],
    seeds: int | None,
    *,
    draws_bounds: bool = False,
) -> list[Job]:
    """Every file with every combination of the grid; with `seeds`, each from the file's own seed on."""
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    found = []
    for path in map(str, map(find_scenario, paths)):
        first = read_scenario(Path(path), changes).scenario.seed
        for combination in combinations:
            read_scenario(Path(path), {**changes, **combination})  # what is wrong is said before anything runs
            wanted = [None] if seeds is None else range(first, first + seeds)
            found += [Job(path, {**changes, **combination}, seed, draws_bounds, tuple(grid)) for seed in wanted]
    return found


def run_job(job: Job) -> Outcome:
    """One run, here and now."""
    began = time.process_time()
    read = read_scenario(Path(job.path), job.changes)
    read = read if job.seed is None else with_seed(read, job.seed)

    async def run() -> tuple[Result, ScenarioRun]:
        running = ScenarioRun(read, draws_bounds=job.draws_bounds)
        return await running.run(), running

    result, running = run_virtual(run())
    broken = tuple(broken_expectations(result, read.scenario.expect))
    samples, waits = tuple(running.measure.samples), tuple(running.measure.waits)
    return Outcome(job, result, broken, samples, waits, time.process_time() - began)


def run_jobs(jobs: Sequence[Job], engine: Engine = "processes", workers: int = 0) -> Iterator[Outcome]:
    """All of them, in their order."""
    if engine == "ray":
        yield from _by_ray(jobs)
    elif len(jobs) == 1 or workers == 1:
        be_quiet()
        yield from map(run_job, jobs)
    else:
        count = min(len(jobs), workers or os.cpu_count() or 1)
        with working(count) as pool:
            yield from pool.map(run_job, jobs)


def _by_ray(jobs: Sequence[Job]) -> Iterator[Outcome]:
    try:
        import ray  # noqa: PLC0415  (an extra)
    except ModuleNotFoundError:
        raise LookupError("the engine ray needs Ray: pip install 'growth[ray]'") from None
    ray.init(log_to_driver=False, logging_level=logging.ERROR)
    try:
        remote: Any = ray.remote(_run_quietly)
        for waiting in [remote.remote(job) for job in jobs]:
            yield ray.get(waiting)
    finally:
        ray.shutdown()


def _run_quietly(job: Job) -> Outcome:
    be_quiet()
    return run_job(job)
