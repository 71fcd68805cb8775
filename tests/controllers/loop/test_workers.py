"""Workers: they compute, an interrupt does not reach them, and what is interrupted ends with all of them."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.process import BaseProcess

import pytest

from growth.controllers.loop.workers import open_workers, working
from growth.solver.purchase.problem import PlacementProblem
from growth.solver.purchase.solve import solve


def _interrupted(number: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return number * 2


def test_a_worker_goes_on_after_an_interrupt_from_the_keyboard() -> None:
    with working(1) as workers:
        assert list(workers.map(_interrupted, [1, 2])) == [2, 4]


def test_the_solvers_worker_holds_the_solver_and_neither_the_log_nor_the_commands() -> None:
    with open_workers(1) as workers:
        workers.submit(solve, PlacementProblem(demands=(), choices=())).result()
        held = set(workers.submit(eval, "list(__import__('sys').modules)").result())
    assert "growth.solver.purchase.solve" in held
    assert held.isdisjoint({"structlog", "prometheus_client", "cyclopts", "asyncio", "growth.cli.app"})


def test_what_is_interrupted_ends_at_once_with_its_workers() -> None:
    begun: list[BaseProcess] = []

    def interrupted() -> None:
        with working(1) as workers:
            busy = workers.submit(time.sleep, 600)
            while not busy.running():
                time.sleep(0.01)
            begun.extend(workers._processes.values())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    [process] = begun
    deadline = time.monotonic() + 10
    while process.exitcode is None and time.monotonic() < deadline:  # the executor's own thread asks for it, too
        time.sleep(0.01)
    assert process.exitcode == -signal.SIGKILL


def test_a_worker_hears_nothing_of_an_interrupt_and_its_parent_does() -> None:
    with working(1) as workers:
        blocked = workers.submit(signal.pthread_sigmask, signal.SIG_BLOCK, []).result(timeout=60)
    assert signal.SIGINT in blocked
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
