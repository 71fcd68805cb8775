"""Are the CustomResourceDefinitions what the model says, bounded everywhere, and the same as the files we ship?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import yaml
from msgspec import Meta, Struct

from growth.cli import main
from growth.kube import crds
from growth.kube.crds.schema import LIST_KEYS, RULES, SETS, schema_of

SHIPPED = Path(__file__).parents[3] / "deploy" / "crds"


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from nodes(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


def schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    for definition in crds.definitions():
        whole = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for part in ("spec", "status"):
            yield from nodes(whole["properties"][part], f"{definition['spec']['names']['kind']}.{part}")


def schema_at(path: str) -> dict[str, Any]:
    return dict(schemas())[path]


def test_the_shipped_files_are_up_to_date() -> None:
    shipped = {path.name: path.read_text(encoding="utf-8") for path in sorted(SHIPPED.glob("*.yaml"))}
    wanted = {crds.file_name(definition): crds.file_text(definition) for definition in crds.installed()}
    assert shipped == wanted, "run: growth crds --directory deploy/crds"


def test_growth_crds_prints_what_kubectl_can_apply(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert printed == crds.installed()
    assert [one["metadata"]["name"] for one in printed] == [
        "nodepools.growth.dev", "noderequests.growth.dev", "noderemovalrequests.growth.dev",
        "poolautoscalers.growth.dev", "noderemovalrequests-author.growth.dev", "noderemovalrequests-author.growth.dev",
        "poolautoscalers-target.growth.dev", "poolautoscalers-target.growth.dev",
        "poolautoscalers-one-for-a-target.growth.dev", "poolautoscalers-one-for-a-target.growth.dev",
    ]  # fmt: skip


def test_growth_crds_writes_one_file_for_each_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds", "--directory", str(tmp_path / "new")]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "nodepools.yaml", "noderemovalrequests-author-binding.yaml", "noderemovalrequests-author-policy.yaml",
        "noderemovalrequests.yaml", "noderequests.yaml",
        "poolautoscalers-one-for-a-target-binding.yaml", "poolautoscalers-one-for-a-target-policy.yaml",
        "poolautoscalers-target-binding.yaml", "poolautoscalers-target-policy.yaml", "poolautoscalers.yaml",
    ]  # fmt: skip
    assert str(tmp_path) in capsys.readouterr().out


def test_every_string_list_and_map_is_bounded() -> None:
    bounds = {"string": "maxLength", "array": "maxItems"}
    for path, schema in schemas():
        if schema.get("x-kubernetes-int-or-string"):
            assert {"maximum", "maxLength", "pattern"} <= set(schema), path
            continue
        assert schema["type"] in ("string", "array", "object", "integer", "boolean"), path
        if "enum" not in schema and schema["type"] in bounds:
            assert bounds[schema["type"]] in schema, path
        if "additionalProperties" in schema:
            assert "maxProperties" in schema, path
        if schema["type"] == "array":
            assert "x-kubernetes-list-type" in schema, path


def test_every_rule_and_list_type_is_about_a_field_that_exists() -> None:
    used = {(rule["rule"], rule["message"]) for _, one in schemas() for rule in one.get("x-kubernetes-validations", ())}
    assert used >= {rule for rules in RULES.values() for rule in rules}
    for owner, field in [*LIST_KEYS, *SETS]:
        assert field in owner.__struct_fields__, field


def test_bounds_choices_defaults_and_words_come_from_the_model() -> None:
    assert schema_at("NodePool.spec.serverTypes[].min") == {
        "type": "integer",
        "format": "int64",
        "minimum": 0,
        "maximum": 100_000,
        "description": "Nodes of this type kept even without load.",
        "default": 0,
    }
    assert schema_at("NodePool.spec.budgets")["default"] == [{"nodes": "10%"}]
    assert schema_at("NodeRequest.status.phase")["enum"] == [
        "Deprovisioning",
        "Pending",
        "Provisioning",
        "Ready",
        "Unmet",
    ]
    assert schema_at("NodeRequest.status")["default"] == {"phase": "Pending"}
    assert schema_at("NodeRequest.status.lastTransitionTime")["format"] == "date-time"
    assert schema_at("NodePool.spec")["required"] == ["serverTypes"]
    assert schema_at("NodePool.spec.taints")["x-kubernetes-list-map-keys"] == ["key", "effect"]


def test_identifiers_are_written_as_the_documents_write_them() -> None:
    names = {path.rsplit(".", 1)[-1] for path, _ in schemas()}
    assert {"nodeID", "machineID", "targetOffering", "removalAttempt", "removeAttemptedAt"} <= names
    assert not {"nodeId", "machineId"} & names


def test_every_field_is_explained() -> None:
    silent = [path for path, schema in schemas() if "description" not in schema and not path.endswith("[]")]
    assert silent == []


def test_a_field_without_a_bound_is_refused_by_the_generator() -> None:
    class Boundless(Struct):
        names: Annotated[tuple[str, ...], Meta(max_length=3)] = ()

    with pytest.raises(TypeError, match=r"Boundless\.names\[\] has no bound"):
        schema_of(Boundless)


def test_a_type_that_has_no_schema_is_refused_by_the_generator() -> None:
    class Odd(Struct):
        share: float = 0.0

    with pytest.raises(TypeError, match="no schema for FloatType"):
        schema_of(Odd)


def test_the_schema_and_the_codec_agree_on_an_object() -> None:
    for kind in crds.KINDS:
        names = set(schema_of(kind.spec)["properties"])
        assert names == {field.encode_name for field in msgspec.structs.fields(kind.spec)}
