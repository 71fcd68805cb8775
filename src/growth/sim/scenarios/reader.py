"""Is this file a scenario, and where is it wrong? Asked by `growth simulate` and the scenario tests.

Everything is checked before anything runs. A mistake is told with file, line and reason: of YAML, of the parts
(`sim/scenarios/file`), of the files it names, of objects that a step means and that nothing makes, of keys that no
result has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from growth.controllers.configuration import Configuration
from growth.model.nodepool import NodePoolSpec
from growth.providers.catalogue import Catalogue, CatalogueError, built_in_catalogue
from growth.sim.apiserver.kinds import BY_NAME, Json
from growth.sim.cloud.hetzner.assortment import LOCATIONS, SERVER_TYPES
from growth.sim.faults.duration import Duration
from growth.sim.scenarios.file import Scenario, Step
from growth.sim.scenarios.result import why_not_key
from growth.sim.scenarios.traces import Arrival, TraceError, catalogue_of_nodes, read_trace

_AT: Final = re.compile(r" - at `(\$[^`]*)`$")
_UNKNOWN: Final = re.compile(r"unknown field `([^`]+)`")
_OF_THE_WORLD: Final = frozenset({"Node", "NodeRequest", "NodeRemovalRequest", "Pod", "ReplicaSet", "Event", "Lease"})


class ScenarioError(Exception):
    """The file is wrong; says where and why."""

    def __init__(self, path: Path, line: int | None, reason: str) -> None:
        super().__init__(path, line, reason)
        self.path, self.line, self.reason = path, line, reason

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


class ReadScenario(Struct, frozen=True):
    """A scenario with everything its file refers to."""

    path: Path
    scenario: Scenario
    configuration: Configuration
    catalogue: Catalogue
    objects: tuple[Json, ...]  # of the manifests, then those written inline
    arrivals: tuple[Arrival, ...] = ()  # of the trace


class _Lines:
    """Where in the file each part of it is written."""

    def __init__(self, node: yaml.Node | None) -> None:
        self._node = node

    def of(self, place: str, key: str = "") -> int | None:
        """The line of `$.steps[2].at`, or of a key inside it."""
        node, found = self._node, self._node
        for step in [*re.findall(r"\[(\d+)\]|\.([^.\[]+)", place), *([("", key)] if key else [])]:
            found = _child(found, *step)
            if found is None:
                break
            node = found
        return None if node is None else node.start_mark.line + 1


def _child(node: yaml.Node | None, index: str, key: str) -> yaml.Node | None:
    if index and isinstance(node, yaml.SequenceNode) and int(index) < len(node.value):
        return node.value[int(index)]  # type: ignore[no-any-return]
    if key and isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == key), None)
    return None


def built_in_scenarios() -> dict[str, Path]:
    """Those that come with growth, by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "built_in").glob("*.yaml"))}


def find_scenario(name: str) -> Path:
    """A file, or the name of a scenario that comes with growth."""
    path, known = Path(name), built_in_scenarios()
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    if name not in known:
        similar = get_close_matches(name, known, n=1)
        meant = f"did you mean {similar[0]}? There are" if similar else "there are"
        raise ScenarioError(path, None, f"no such file or scenario; {meant}: {', '.join(known)}")
    return known[name]


def read_scenario(path: Path, changes: Mapping[str, str] = {}) -> ReadScenario:
    """`changes` lie over the file: `settings.scaleDownDelaySeconds`, `pools.default.consolidation`, any other key."""
    text = _text(path)
    try:
        lines, content = _Lines(yaml.compose(text)), yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ScenarioError(path, mark.line + 1 if mark else None, f"not YAML: {_problem(error)}") from None
    if not isinstance(content, dict):
        raise ScenarioError(path, 1, "a scenario is a mapping: name, duration, objects and so on")
    return _Reading(path, lines, content).read(changes)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(path, None, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _problem(error: yaml.YAMLError) -> str:
    return str(getattr(error, "problem", None) or error).partition("\n")[0]


def convert(value: Any, kind: Any) -> Any:
    """Plain data as a part of the file."""
    return msgspec.convert(value, kind, dec_hook=_decode)


def _decode(kind: type, value: Any) -> Any:
    if kind is Duration:
        return Duration.read(value)
    raise NotImplementedError(kind)


class _Reading:
    """One file while it is checked."""

    def __init__(self, path: Path, lines: _Lines, content: dict[str, Any]) -> None:
        self.path, self.lines, self.content = path, lines, content

    def error(self, reason: str, place: str = "$", key: str = "") -> ScenarioError:
        return ScenarioError(self.path, self.lines.of(place, key), reason)

    def read(self, changes: Mapping[str, str]) -> ReadScenario:
        content = with_changes(self.content, {key: value for key, value in changes.items() if not _is_pool(key)})
        scenario: Scenario = self.converted(content, Scenario)
        configuration = self.converted(settings_of(scenario.settings), Configuration, "$.settings")
        objects = (*self.manifests(scenario), *scenario.objects)
        self.check_objects(objects, scenario)
        self.check_steps(scenario, objects)
        catalogue = self.catalogue(scenario)
        self.check_machines(scenario, catalogue)
        for key in scenario.expect:
            if why := why_not_key(key):
                raise self.error(why, "$.expect", key)
        pools = {item["metadata"].get("name") for item in objects if item["kind"] == "NodePool"} | {"*"}
        for key in filter(_is_pool, changes):
            if key.split(".")[1] not in pools:
                raise self.error(f"{key}: there is no NodePool {key.split('.')[1]}")
        changed = with_pools(objects, {key: value for key, value in changes.items() if _is_pool(key)})
        self.check_pools(changed)
        return ReadScenario(self.path, scenario, configuration, catalogue, changed, self.arrivals(scenario))

    def converted(self, value: Any, kind: Any, base: str = "$") -> Any:
        try:
            return convert(value, kind)
        except msgspec.ValidationError as error:
            text = str(error)
            place = found.group(1) if (found := _AT.search(text)) else "$"
            unknown = found.group(1) if (found := _UNKNOWN.search(text)) else ""
            where = base + place.removeprefix("$")
            if base == "$.settings" and where.startswith("$.settings.plans"):
                where = where.replace("$.settings.plans", "$.settings", 1)
            reason = f"{_AT.sub('', text)}{f' (in {where[2:]})' if len(where) > 2 else ''}"
            raise self.error(reason, where, unknown) from None

    def manifests(self, scenario: Scenario) -> Iterator[Json]:
        for index, name in enumerate(scenario.manifests):
            file = self.path.parent / name
            try:
                documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
            except OSError as error:
                raise self.error(f"{name}: {error.strerror}", f"$.manifests[{index}]") from None
            except yaml.YAMLError as error:
                raise self.error(f"{name} is not YAML: {_problem(error)}", f"$.manifests[{index}]") from None
            for document in filter(None, documents):
                yield from document.get("items", ()) if document.get("kind") == "List" else (document,)

    def catalogue(self, scenario: Scenario) -> Catalogue:
        given = scenario.catalogue
        if scenario.provider == "hetzner-fake":
            for key in ("catalogue", "prices"):
                if getattr(scenario, key):
                    raise self.error(f"{key}: the fake Hetzner sells what it sells; leave this out", "$", key)
            return Catalogue("hetzner", (), ())
        try:
            if given is None:
                return built_in_catalogue(scenario.provider)
            if isinstance(given, str) and given.endswith(".csv"):
                given = catalogue_of_nodes(self.path.parent / given, scenario.prices)
            elif isinstance(given, str):
                given = yaml.safe_load((self.path.parent / given).read_text(encoding="utf-8"))
            return convert({"provider": "sim", **given}, Catalogue)  # type: ignore[no-any-return]
        except (OSError, yaml.YAMLError, CatalogueError, TraceError, msgspec.ValidationError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise self.error(f"the catalogue cannot be used: {reason}", "$.catalogue") from None

    def check_machines(self, scenario: Scenario, catalogue: Catalogue) -> None:
        if scenario.provider == "hetzner-fake":
            types, places = [each.name.upper() for each in SERVER_TYPES], [each.name for each in LOCATIONS]
        else:
            types = [each.name for each in catalogue.server_types]
            places = [each.name for each in catalogue.locations]
        for index, machine in enumerate(scenario.machines):
            if machine.server_type not in types:
                why = f"there is no server type {machine.server_type}; the provider has {', '.join(types)}"
                raise self.error(why, f"$.machines[{index}]", "serverType")
            if machine.location not in places:
                why = f"there is no location {machine.location}; the provider has {', '.join(places)}"
                raise self.error(why, f"$.machines[{index}]", "location")

    def arrivals(self, scenario: Scenario) -> tuple[Arrival, ...]:
        trace = scenario.trace
        if trace is None:
            return ()
        try:
            return read_trace(self.path.parent / trace.file, trace)
        except OSError as error:
            raise self.error(f"{trace.file}: {error.strerror}", "$.trace", "file") from None
        except TraceError as error:
            raise self.error(str(error), "$.trace", "file") from None

    # ------------------------------------------------------------------------------------ objects

    def check_objects(self, objects: Iterable[Json], scenario: Scenario) -> None:
        of_files = len(tuple(objects)) - len(scenario.objects)
        for number, item in enumerate(objects):
            if why := why_not_object(item):
                place = f"$.objects[{number - of_files}]" if number >= of_files else "$.manifests"
                raise self.error(why, place)
        for index, step in enumerate(scenario.steps):
            for number, item in enumerate(step.apply):
                if why := why_not_object(item):
                    raise self.error(why, f"$.steps[{index}].apply[{number}]")

    def check_pools(self, objects: Iterable[Json]) -> None:
        """The API server drops a field that no NodePool has: two policies would be the same without a word."""
        known = {field.encode_name for field in msgspec.structs.fields(NodePoolSpec)}
        for item in objects:
            unknown = sorted(item.get("spec", {}).keys() - known) if item["kind"] == "NodePool" else ()
            if unknown:
                index = next((i for i, each in enumerate(self.content.get("objects") or ()) if each is item), None)
                place = "$" if index is None else f"$.objects[{index}].spec"
                raise self.error(
                    f"no NodePool has spec.{unknown[0]}; it may have {', '.join(sorted(known))}", place, unknown[0]
                )

    def check_steps(self, scenario: Scenario, objects: Iterable[Json]) -> None:
        made = [*objects, *(item for step in scenario.steps for item in step.apply)]
        known = {(item["kind"], item["metadata"].get("name", "")) for item in made}
        generated = {item["kind"] for item in made if item["metadata"].get("generateName")}
        for index, step in enumerate(scenario.steps):
            kind, name = _meant(step)
            if kind and kind not in BY_NAME and kind not in {item["kind"] for item in made}:
                raise self.error(f"the embedded cluster has no kind {kind}", f"$.steps[{index}].{step.verb}", "kind")
            if name and kind not in _OF_THE_WORLD | generated and (kind, name) not in known:
                raise self.error(f"nothing makes {kind} {name}", f"$.steps[{index}].{step.verb}", "name")
            if step.replica is not None and step.replica >= scenario.replicas:
                raise self.error(f"there are {scenario.replicas} replicas, counted from 0", f"$.steps[{index}]")


def _meant(step: Step) -> tuple[str, str]:
    target = step.scale or step.delete or step.patch or step.claim or step.release
    return (target.kind, target.name) if target is not None else ("", "")


def why_not_object(item: Json) -> str | None:
    if not item.get("kind") or not item.get("apiVersion"):
        return "an object needs apiVersion and kind"
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        return f"{item['kind']} needs metadata.name or metadata.generateName"
    return None


# ------------------------------------------------------------------------------------------ changes


def settings_of(given: Json) -> Json:
    """A settings file; what is no key of it is taken for a number of the plans, so that both ways of writing work."""
    fields = {each.encode_name for each in msgspec.structs.fields(Configuration)}
    plans = {**given.get("plans", {}), **{key: value for key, value in given.items() if key not in fields}}
    return {**{key: value for key, value in given.items() if key in fields}, **({"plans": plans} if plans else {})}


def _is_pool(key: str) -> bool:
    return key.startswith("pools.")


def with_changes(content: Json, changes: Mapping[str, str]) -> Json:
    """A copy in which these dotted keys have other values; values are read as YAML."""
    found = dict(content)
    for key, value in changes.items():
        *way, last = key.split(".")
        place = found
        for step in way:
            place[step] = dict(place.get(step) or {})
            place = place[step]
        place[last] = yaml.safe_load(value)
    return found


def with_pools(objects: tuple[Json, ...], changes: Mapping[str, str]) -> tuple[Json, ...]:
    """`pools.NAME.KEY` changes the spec of a NodePool; `*` is every pool."""
    found = []
    for item in objects:
        wanted = {}
        for key, value in changes.items():
            _, name, spec_key = key.split(".", 2)
            if item["kind"] == "NodePool" and name in ("*", item["metadata"].get("name")):
                wanted[f"spec.{spec_key}"] = value
        found.append(with_changes(item, wanted) if wanted else item)
    return tuple(found)


def with_seed(read: ReadScenario, seed: int) -> ReadScenario:
    return replace(read, scenario=replace(read.scenario, seed=seed))
