"""Which provider does a name mean? Asked by `growth run`; a new provider is a new row."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from growth.kube.api.client import Client
from growth.providers.catalogue import built_in_catalogue, read_catalogue
from growth.providers.contract import Provider
from growth.providers.hetzner.settings import HetznerSettings
from growth.providers.kwok import KwokProvider
from growth.runtime import Runtime

COSTS_MONEY: Final = ("hetzner",)  # whoever installs growth there is given a limit of price


def open_provider(
    name: str, client: Client, runtime: Runtime, catalogue: str = "", hetzner: HetznerSettings | None = None
) -> Provider:
    """The provider of that name; where machines are only played, with the catalogue of a file or the built-in one."""
    if name == "hetzner":
        # its client takes eight MiB: loaded only where it is used
        from growth.providers.hetzner.api import HetznerApi  # noqa: PLC0415
        from growth.providers.hetzner.provider import HetznerProvider  # noqa: PLC0415

        settings = hetzner or HetznerSettings()
        return HetznerProvider(settings, runtime, HetznerApi(settings, runtime, may_write=client.may_write))
    offerings = read_catalogue(Path(catalogue)) if catalogue else built_in_catalogue()
    if name == "kwok":
        return KwokProvider(client, runtime, offerings)
    raise ValueError(f"there is no provider {name!r} (there are: hetzner, kwok)")
