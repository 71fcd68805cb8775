"""Every example of growth's own kinds is read whole: no field is misspelt, and a pool can buy what it lists."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from deploy.generate import ROOT
from growth.kube.codec import Codec
from growth.kube.codec.manifest import decode_manifest_text
from growth.model.poolautoscaler import PoolAutoscaler
from growth.plan.world.pools import offerings_of
from growth.providers.catalogue import built_in_catalogue

EXAMPLES = ROOT / "docs/examples"
POOLS = sorted((EXAMPLES / "pools").glob("*.yaml"))
WARM_POOLS = sorted((EXAMPLES / "warm-pools").glob("*.yaml"))


def name_of(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", POOLS, ids=name_of)
def test_an_example_of_a_pool_is_read_whole_and_can_buy_each_type_that_it_lists(path: Path) -> None:
    manifest = decode_manifest_text(path.read_text(encoding="utf-8"))
    assert manifest.skipped == {}
    for pool in manifest.pools.values():
        sold = {each.server_type.lower() for each in offerings_of(pool, built_in_catalogue().offerings())}
        assert sold == {each.name.lower() for each in pool.spec.server_types}


@pytest.mark.parametrize("path", WARM_POOLS, ids=name_of)
def test_an_example_of_a_warm_pool_is_read_whole(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    item = yaml.safe_load(text)
    item["metadata"]["namespace"] = "default"
    noun = Codec().decode(item["kind"], msgspec.json.encode(item)).noun
    assert isinstance(noun, PoolAutoscaler)
    decode_manifest_text(text)


def test_each_example_says_in_its_first_line_what_it_is_for() -> None:
    for path in (*POOLS, *WARM_POOLS):
        assert path.read_text(encoding="utf-8").startswith("# "), path.name


def test_the_table_of_examples_names_every_folder() -> None:
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for folder in (each for each in EXAMPLES.iterdir() if each.is_dir()):
        assert f"`docs/examples/{folder.name}/`" in table
