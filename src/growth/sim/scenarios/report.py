"""How do the runs compare, to the eye? One page with plots, made from outcomes; it needs nothing from outside.

Asked by `growth simulate --report`. The plots are SVG, drawn by matplotlib (an extra: `growth[report]`) and written
into the page itself, readable in light and in dark."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, Final

from growth.sim.scenarios.sweep import Outcome

_STYLE: Final = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 2rem 0; } figcaption { color: #888; } svg { width: 100%; height: auto; }
.bad { color: #d33; font-weight: 600; }
"""
_COLOURS: Final = ("#3b7dd8", "#d9822b", "#3aa676", "#b657c2", "#c8453b", "#7a8b99", "#a89a2c", "#2aa5b5")
_TEXT: Final = "#888888"  # readable on white and on black
_HOUR: Final = 3600.0

Draw = Callable[[Any, Sequence[Outcome]], None]


def write_report(outcomes: Sequence[Outcome]) -> str:
    """The page as HTML."""
    title = ", ".join(dict.fromkeys(outcome.result.scenario for outcome in outcomes))
    figures = "".join(_figure(caption, draw, outcomes) for caption, draw in _FIGURES)
    broken = "".join(f"<p class=bad>{escape(text)}</p>" for text in _broken(outcomes))
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{escape(title)}</title>"
        f'<meta name=viewport content="width=device-width"><style>{_STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1>{broken}{_table(outcomes)}{figures}</body></html>\n"
    )


def name_of(outcome: Outcome) -> str:
    """What tells this run from the others."""
    return ", ".join(part for part in (outcome.job.policy or outcome.result.scenario, _seed(outcome)) if part)


def _seed(outcome: Outcome) -> str:
    return "" if outcome.job.seed is None else f"seed {outcome.job.seed}"


def _broken(outcomes: Iterable[Outcome]) -> Iterable[str]:
    for outcome in outcomes:
        for reason in (*outcome.broken, *outcome.result.laws_broken):
            yield f"{name_of(outcome)}: {reason}"


_COLUMNS: Final[tuple[tuple[str, Callable[[Outcome], str]], ...]] = (
    ("run", lambda each: escape(name_of(each))),
    ("cost", lambda each: f"{each.result.cost.total:,.2f}"),
    ("per hour at end", lambda each: f"{each.result.cost.per_hour_at_end:,.4f}"),
    ("bound at end", lambda each: f"{each.result.cost.bound_at_end:,.4f}"),
    ("machines bought", lambda each: str(each.result.machines.bought)),
    ("at most", lambda each: str(each.result.machines.most)),
    ("pods", lambda each: str(each.result.pods.made)),
    ("pending", lambda each: str(each.result.pods.pending)),
    ("wait p50", lambda each: f"{each.result.waiting_seconds.p50:,.0f} s"),
    ("p95", lambda each: f"{each.result.waiting_seconds.p95:,.0f} s"),
    ("p99", lambda each: f"{each.result.waiting_seconds.p99:,.0f} s"),
    ("evicted", lambda each: str(each.result.pods.evicted)),
    ("killed", lambda each: str(each.result.pods.killed)),
)


def _table(outcomes: Sequence[Outcome]) -> str:
    head = "".join(f"<th>{name}</th>" for name, _ in _COLUMNS)
    rows = ("<tr>" + "".join(f"<td>{cell(each)}</td>" for _, cell in _COLUMNS) + "</tr>" for each in outcomes)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


# -------------------------------------------------------------------------------------------- plots


def _figure(caption: str, draw: Draw, outcomes: Sequence[Outcome]) -> str:
    try:
        from matplotlib import rc_context  # noqa: PLC0415  (an extra)
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ModuleNotFoundError:
        raise LookupError("a report needs matplotlib: pip install 'growth[report]'") from None
    colours = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _TEXT)
    look: Any = {"svg.fonttype": "none", "svg.hashsalt": "growth", "font.size": 9, **colours}
    with rc_context(look):
        figure = Figure(figsize=(9, 3), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_prop_cycle(color=_COLOURS)
        draw(axes, outcomes)
        if len(outcomes) > 1:
            axes.legend(frameon=False, fontsize=8)
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    svg = written.getvalue()
    return f"<figure>{svg[svg.index('<svg') :]}<figcaption>{escape(caption)}</figcaption></figure>"


def _cost(axes: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome, colour in zip(outcomes, _colours(), strict=False):
        hours = [sample.at / _HOUR for sample in outcome.samples]
        prices = [sample.price_per_hour for sample in outcome.samples]
        bounds = [(each.at / _HOUR, each.bound_per_hour) for each in outcome.samples if each.bound_per_hour is not None]
        axes.step(hours, prices, where="post", label=name_of(outcome), color=colour)
        axes.plot(*zip(*bounds, strict=True), color=colour, linestyle=":", linewidth=0.8)
    axes.set(xlabel="hours", ylabel="per hour", ylim=(0, None))


def _nodes(axes: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome, colour in zip(outcomes, _colours(), strict=False):
        hours = [sample.at / _HOUR for sample in outcome.samples]
        axes.step(
            hours, [sample.nodes for sample in outcome.samples], where="post", label=name_of(outcome), color=colour
        )
    axes.set(xlabel="hours", ylabel="nodes", ylim=(0, None))


def _fill(axes: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome, colour in zip(outcomes, _colours(), strict=False):
        hours = [sample.at / _HOUR for sample in outcome.samples]
        fill = [100 * max(sample.cpu_used, sample.memory_used) for sample in outcome.samples]
        axes.plot(hours, fill, label=name_of(outcome), color=colour, linewidth=1)
    axes.set(xlabel="hours", ylabel="% of the fuller of cpu and memory", ylim=(0, 100))


def _waits(axes: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome, colour in zip(outcomes, _colours(), strict=False):
        ordered = sorted(outcome.waits)
        share = [100 * (rank + 1) / len(ordered) for rank in range(len(ordered))]
        axes.step([max(wait, 0.1) for wait in ordered], share, where="post", label=name_of(outcome), color=colour)
    axes.set(xscale="log", xlabel="seconds from a pod's creation until it is bound", ylabel="% of pods", ylim=(0, 101))


def _disruptions(axes: Any, outcomes: Sequence[Outcome]) -> None:
    kinds = ("evicted", "returned", "killed")
    width = 0.8 / max(1, len(outcomes))
    for number, (outcome, colour) in enumerate(zip(outcomes, _colours(), strict=False)):
        counts = [getattr(outcome.result.pods, kind) for kind in kinds]
        axes.bar(
            [place + number * width for place in range(len(kinds))], counts, width, label=name_of(outcome), color=colour
        )
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(kinds))], kinds)
    axes.set(ylabel="pods")


def _colours() -> Iterable[str]:
    while True:
        yield from _COLOURS


_FIGURES: Final[tuple[tuple[str, Draw], ...]] = (
    ("What the machines cost, and (dotted) the least that the pods of the moment could cost.", _cost),
    ("Nodes over time.", _nodes),
    ("How full the Ready nodes are, by what pods request.", _fill),
    ("How long pods waited.", _waits),
    ("Pods that were disturbed.", _disruptions),
)
