"""Catalogues: the built-in one and a user's own file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth.model.labels import ARCHITECTURE, INSTANCE_TYPE, REGION, ZONE
from growth.model.resources import CPU, MEMORY, PODS
from growth.providers.catalogue import (
    CatalogueError,
    ServerType,
    allocatable_of,
    built_in_catalogue,
    capacity_of,
    parse_catalogue,
    read_catalogue,
)

GIB = 2**30


def test_the_built_in_catalogue_has_the_machines_of_the_documents() -> None:
    catalogue = built_in_catalogue()
    assert [one.name for one in catalogue.server_types] == [
        "CX31",
        "CX32",
        "CX33",
        "CAX11",
        "CAX21",
        "CAX31",
        "CAX41",
        "GEX44",
    ]
    offerings = {(one.name, one.location): one for one in catalogue.offerings()}
    small = offerings["hetzner-cax11", "fsn1"]
    assert (small.server_type, small.price_per_hour, small.architecture, small.zone) == (
        "CAX11",
        0.0074,
        "arm64",
        "fsn1",
    )
    assert small.labels[INSTANCE_TYPE] == "cax11"
    assert small.labels[REGION] == "eu-central"
    gpu = offerings["hetzner-gex44", "nbg1"]
    assert gpu.allocatable["nvidia.com/gpu"] == 1
    assert ("hetzner-gex44", "hel1") not in offerings
    assert {location for _, location in offerings} == {"fsn1", "nbg1", "hel1"}


def test_offering_names_begin_with_the_provider() -> None:
    assert {one.name.partition("-")[0] for one in built_in_catalogue("kwok").offerings()} == {"kwok"}


@given(st.integers(1, 200), st.integers(1, 1024))
def test_pods_may_never_use_more_than_the_machine_has(cores: int, gib: int) -> None:
    one = ServerType("X", str(cores), f"{gib}Gi", 1.0, disk="20Gi")
    assert allocatable_of(one).fits_in(capacity_of(one))
    assert all(amount >= 0 for amount in allocatable_of(one).values())


OWN = """
provider: mine
locations:
  - {name: rack1, region: cellar}
  - {name: rack2}
serverTypes:
  - name: Small
    cpu: "2"
    memory: 4Gi
    pricePerHour: {rack1: 0.01, rack2: 0.02}
    allocatable: {cpu: 1500m, memory: 3Gi}
    labels: {disktype: nvme}
    billsStartedHours: true
    stock: {rack1: 3}
  - name: Big
    architecture: arm64
    cpu: "8"
    memory: 16Gi
    pods: 50
    resources: {example.com/fpga: "2"}
    pricePerHour: 0.1
    locations: [rack2]
"""


def test_a_users_own_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "machines.yaml"
    path.write_text(OWN)
    catalogue = read_catalogue(path)
    offerings = {(one.name, one.location): one for one in catalogue.offerings()}
    assert sorted(offerings) == [("mine-big", "rack2"), ("mine-small", "rack1"), ("mine-small", "rack2")]
    small = offerings["mine-small", "rack2"]
    assert (small.price_per_hour, small.bills_started_hours, small.labels["disktype"]) == (0.02, True, "nvme")
    assert (small.allocatable[CPU], small.allocatable[MEMORY], small.allocatable[PODS]) == (1500, 3 * GIB, 110)
    big = offerings["mine-big", "rack2"]
    assert (big.labels[ARCHITECTURE], big.labels[ZONE], big.allocatable["example.com/fpga"], big.allocatable[PODS]) == (
        "arm64",
        "rack2",
        2,
        50,
    )
    assert catalogue.stock("SMALL", "rack1") == 3
    assert catalogue.stock("small", "rack2") is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("provider: mine", "provider: Not Mine"), "provider"),
        (('cpu: "2"', "cpu: two"), "cpu"),
        (("memory: 4Gi", "memory: 4Gx"), "memory"),
        (("stock: {rack1: 3}", "stock: {rack9: 3}"), "rack9"),
        (("locations: [rack2]", "locations: [rack7]"), "rack7"),
        (("pricePerHour: 0.1", "pricePerHour: -1"), "pricePerHour"),
        (("name: Big", "name: small"), "listed twice: small"),
        (("architecture: arm64", "architecture: pdp11"), "architecture"),
        (("billsStartedHours: true", "billsStartedHour: true"), "billsStartedHour"),
        (("serverTypes:", "serverTypes: [}"), "not YAML"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    path = tmp_path / "machines.yaml"
    path.write_text(OWN.replace(*change))
    with pytest.raises(CatalogueError, match=complaint) as refused:
        read_catalogue(path)
    assert str(path) in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match=r"nowhere\.yaml"):
        read_catalogue(tmp_path / "nowhere.yaml")


def test_the_example_in_the_module_is_a_catalogue() -> None:
    import textwrap

    import growth.providers.catalogue as module

    lines = (module.__doc__ or "").splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip().startswith("provider:"))
    end = next(number for number, line in enumerate(lines) if line.startswith("Estimated"))
    catalogue = parse_catalogue(textwrap.dedent("\n".join(lines[start:end])))
    assert catalogue.offerings()[0].name == "example-cx33"
