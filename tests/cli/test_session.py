"""What commands share: the provider of the settings, and files that are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from growth.cli.session import busy, console_for_people, provider_of, read_text
from growth.controllers.configuration import Configuration
from growth.kube.api.client import Client
from growth.providers.contract import ProviderError
from growth.providers.hetzner.settings import HetznerSettings
from growth.sim.clock import SimRuntime, run_virtual

NO_CLUSTER: Any = None


def test_every_command_opens_the_provider_with_its_section_of_the_settings(tmp_path: Path) -> None:
    """`growth orphans` once asked with the default token."""
    configuration = Configuration(provider="hetzner", hetzner=HetznerSettings(token_file=str(tmp_path / "token")))

    async def ask() -> None:
        runtime = SimRuntime("session")
        await provider_of(configuration)(Client(NO_CLUSTER, runtime), runtime).offerings()

    with pytest.raises(ProviderError, match=str(tmp_path / "token")):
        run_virtual(ask())


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "pools.yaml").write_text("kind: NodePool\n")
    assert read_text(tmp_path / "pools.yaml") == "kind: NodePool\n"


def test_no_color_takes_the_colours_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert not console_for_people().no_color
    monkeypatch.setenv("NO_COLOR", "1")
    assert console_for_people().no_color


def test_nothing_but_a_terminal_gets_a_sign_of_life(capfd: pytest.CaptureFixture[str]) -> None:
    with busy("looking"):
        pass
    assert capfd.readouterr() == ("", "")
