"""Alerts and dashboard ask for metrics that growth really has, by labels that they really carry."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from prometheus_client import Counter, Gauge, Histogram

from deploy.dashboard import PANELS, dashboard
from deploy.generate import CHART, ROOT
from deploy.metrics_page import names
from growth.controllers.act.gate import OLDEST_CACHE_SECONDS
from growth.controllers.loop.metrics import UNPLACED, Metrics
from growth.model.noderequest import REMOVAL_FAILED
from growth.providers.contract import ProviderError
from growth.sim.clock import SimRuntime, run_virtual

ADDED_BY_PROMETHEUS = {"namespace", "exported_namespace", "job", "pod", "le"}
PROMQL = {"by", "absent", "max", "min", "sum", "rate", "increase", "histogram_quantile"}


def metrics() -> dict[str, set[str]]:
    """The labels of each series, by its name at /metrics."""

    async def make() -> Metrics:
        return Metrics(SimRuntime("metrics"))

    found: dict[str, set[str]] = {}
    for metric in vars(run_virtual(make())).values():
        if isinstance(metric, Gauge | Counter | Histogram):
            suffixes = {Gauge: ("",), Counter: ("_total",), Histogram: ("_bucket", "_sum", "_count")}[type(metric)]
            found |= {metric._name + suffix: set(metric._labelnames) for suffix in suffixes}
    return found


def alerts() -> list[dict[str, object]]:
    return [
        rule
        for group in yaml.safe_load((ROOT / CHART / "alerts.yaml").read_text())["groups"]
        for rule in group["rules"]
    ]


def questions() -> Iterator[str]:
    yield from (str(alert["expr"]) for alert in alerts())
    yield from (expression for panel in PANELS for expression, _ in panel.queries)


def words_of(expression: str) -> set[str]:
    """The names in a PromQL expression, without numbers, spans of time and texts."""
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]', "", expression)
    return set(re.findall(r"[a-z_][a-z_0-9]*", bare)) - PROMQL


def test_every_question_names_one_metric_of_growth_and_labels_that_it_has() -> None:
    known = metrics()
    for expression in questions():
        named = words_of(expression)
        (series,) = [word for word in named if word.startswith("growth_")]
        assert series in known, expression
        assert named - {series} <= known[series] | ADDED_BY_PROMETHEUS, expression


def test_brackets_of_every_question_are_closed() -> None:
    for expression in questions():
        assert [expression.count(each) for each in "([{"] == [expression.count(each) for each in ")]}"]


def test_legends_use_labels_that_the_question_asks_for() -> None:
    for panel in PANELS:
        for expression, legend in panel.queries:
            assert set(re.findall(r"{{(\w+)}}", legend)) <= words_of(expression) | {"pod"}, panel.title


def test_every_alert_says_how_bad_it_is_what_it_means_and_what_to_do() -> None:
    for alert in alerts():
        assert alert["labels"] in ({"severity": "warning"}, {"severity": "critical"})
        assert set(alert["annotations"]) == {"summary", "description"}  # type: ignore[call-overload]


def test_the_alerts_stand_on_the_words_and_numbers_of_the_code() -> None:
    text = "\n".join(str(alert["expr"]) for alert in alerts())
    assert f'phase="{REMOVAL_FAILED}"' in text
    assert f'outcome="{ProviderError.__name__}"' in text
    assert f"growth_cache_age_seconds) > {OLDEST_CACHE_SECONDS:.0f}" in text


def test_panels_stand_side_by_side_and_never_on_each_other() -> None:
    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    assert len({(place["x"], place["y"]) for place in places}) == len(PANELS)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_every_metric_named_in_the_documents_exists_and_every_metric_is_documented() -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))}
    known = set(metrics()) | {name.removesuffix("_bucket") for name in metrics()}
    for path, text in pages.items():
        unknown = {word for word in re.findall(r"\bgrowth_[a-z_]+", text) if word not in known}
        assert unknown == set(), path.name
    page = pages[ROOT / "docs/reference/metrics.md"]
    assert all(f"`{name}`" in page for name in names())
    assert all(f"| {reason} |" in page for reason in UNPLACED)
