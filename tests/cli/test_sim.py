from __future__ import annotations

import pytest

from growth.cli.sim import sim


def test_a_behaviour_that_does_not_exist_is_refused_and_the_others_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert sim(seed="1", only=("gang", "nosuch")) == 2
    told = capsys.readouterr().err
    assert "no behaviour is called nosuch; there are: " in told
    assert "gang" in told
