"""How do the runs compare, to the eye? One page with plots, made from outcomes; it needs nothing from outside.

Asked by `growth simulate --report`. The plots are SVG, drawn by matplotlib (an extra: `growth[report]`) and written
into the page itself, readable in light and in dark."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, Final

from growth.sim.scenarios.sweep import Outcome

_STYLE: Final = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 62rem; margin: 0 auto; padding: 1rem; }
.wide { overflow-x: auto; } .wide svg { display: block; width: 100%; min-width: 34rem; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: Canvas; font-weight: 400; }
thead th { vertical-align: bottom; font-weight: 600; white-space: normal; overflow-wrap: anywhere; min-width: 6rem; }
th:first-child { white-space: normal; min-width: 8rem; }
.key { position: sticky; top: 0; background: Canvas; padding: .4rem 0; z-index: 1; }
.key span { display: inline-block; margin-right: 1.2rem; }
i { display: inline-block; width: .8em; height: .8em; border-radius: .2em; margin-right: .4em; }
h2 { margin: 2rem 0 0; font-size: 1.1rem; } figure { margin: 0; } figcaption { color: #888; }
.bad { color: #d33; font-weight: 600; }
"""
_COLOURS: Final = ("#3b7dd8", "#d9822b", "#3aa676", "#b657c2", "#c8453b", "#7a8b99", "#a89a2c", "#2aa5b5")
_TEXT: Final = "#888888"  # readable on white and on black
_HOUR: Final = 3600.0

Draw = Callable[[Any, Sequence[Outcome]], None]


def write_report(outcomes: Sequence[Outcome]) -> str:
    """The page as HTML."""
    title = ", ".join(dict.fromkeys(outcome.result.scenario for outcome in outcomes))
    figures = "".join(_figure(*figure, outcomes) for figure in _FIGURES)
    broken = "".join(f"<p class=bad>{escape(text)}</p>" for text in _broken(outcomes))
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{escape(title)}</title>"
        f'<meta name=viewport content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1>{broken}{_table(outcomes)}{_key(outcomes)}{figures}</body></html>\n"
    )


def _key(outcomes: Sequence[Outcome]) -> str:
    """Which colour is which run: once for all plots, and always in sight."""
    if len(outcomes) < 2:
        return ""
    named = (f"<span>{_mark(colour)}{escape(name_of(each))}</span>" for each, colour in _coloured(outcomes))
    return f"<div class=key>{''.join(named)}</div>"


def _mark(colour: str) -> str:
    return f'<i style="background:{colour}"></i>'


def name_of(outcome: Outcome) -> str:
    """What tells this run from the others."""
    return ", ".join(part for part in (outcome.job.policy or outcome.result.scenario, _seed(outcome)) if part)


def _seed(outcome: Outcome) -> str:
    return "" if outcome.job.seed is None else f"seed {outcome.job.seed}"


def _broken(outcomes: Iterable[Outcome]) -> Iterable[str]:
    for outcome in outcomes:
        for reason in (*outcome.broken, *outcome.result.laws_broken):
            yield f"{name_of(outcome)}: {reason}"


_ROWS: Final[tuple[tuple[str, Callable[[Outcome], str]], ...]] = (
    ("Spent in all", lambda each: f"{each.result.cost.total:,.2f}"),
    ("Price per hour at the end", lambda each: f"{each.result.cost.per_hour_at_end:,.4f}"),
    ("The least it could be then", lambda each: f"{each.result.cost.bound_at_end:,.4f}"),
    ("Machines bought", lambda each: str(each.result.machines.bought)),
    ("Machines at one time, at most", lambda each: str(each.result.machines.most)),
    ("Pods in all", lambda each: str(each.result.pods.made)),
    ("Pods without a node at the end", lambda each: str(each.result.pods.pending)),
    ("Half of the pods waited at most", lambda each: f"{each.result.waiting_seconds.p50:,.0f} s"),
    ("95 of 100 pods waited at most", lambda each: f"{each.result.waiting_seconds.p95:,.0f} s"),
    ("99 of 100 pods waited at most", lambda each: f"{each.result.waiting_seconds.p99:,.0f} s"),
    ("Pods that growth moved", lambda each: str(each.result.pods.evicted)),
    ("Pods that died with their machine", lambda each: str(each.result.pods.killed)),
)


def _table(outcomes: Sequence[Outcome]) -> str:
    """Runs side by side, a figure in each row."""
    heads = (
        f"<th>{_mark(colour)}{escape(name_of(each)).replace(', ', '<br>')}</th>" for each, colour in _coloured(outcomes)
    )
    rows = (f"<tr><th>{name}</th>{''.join(f'<td>{cell(each)}</td>' for each in outcomes)}</tr>" for name, cell in _ROWS)
    head = f"<thead><tr><th></th>{''.join(heads)}</tr></thead>"
    return f"<div class=wide><table>{head}<tbody>{''.join(rows)}</tbody></table></div>"


# -------------------------------------------------------------------------------------------- plots


def _figure(title: str, caption: str, draw: Draw, outcomes: Sequence[Outcome]) -> str:
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
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    svg = written.getvalue()
    drawn = f"<div class=wide>{svg[svg.index('<svg') :]}</div>"
    return f"<h2>{escape(title)}</h2><figure><figcaption>{escape(caption)}</figcaption>{drawn}</figure>"


def _cost(axes: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome, colour in _coloured(outcomes):
        hours = [sample.at / _HOUR for sample in outcome.samples]
        prices = [sample.price_per_hour for sample in outcome.samples]
        bounds = [(each.at / _HOUR, each.bound_per_hour) for each in outcome.samples if each.bound_per_hour is not None]
        axes.step(hours, prices, where="post", color=colour)
        axes.plot([at for at, _ in bounds], [bound for _, bound in bounds], color=colour, linestyle=":", linewidth=0.8)
    axes.set(xlabel="hours", ylabel="per hour", ylim=(0, None))


def _nodes(axes: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome, colour in _coloured(outcomes):
        hours = [sample.at / _HOUR for sample in outcome.samples]
        axes.step(hours, [sample.nodes for sample in outcome.samples], where="post", color=colour)
    axes.set(xlabel="hours", ylabel="nodes", ylim=(0, None))


def _fill(axes: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome, colour in _coloured(outcomes):
        hours = [sample.at / _HOUR for sample in outcome.samples]
        fill = [100 * sample.fill for sample in outcome.samples]
        axes.plot(hours, fill, color=colour, linewidth=1)
    axes.set(xlabel="hours", ylabel="% of the scarcest resource", ylim=(0, 100))


def _waits(axes: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome, colour in _coloured(outcomes):
        ordered = sorted(outcome.waits)
        share = [100 * (rank + 1) / len(ordered) for rank in range(len(ordered))]
        axes.step([max(wait, 0.1) for wait in ordered], share, where="post", color=colour)
    axes.set(xscale="log", xlabel="seconds from a pod's creation until it is bound", ylabel="% of pods", ylim=(0, 101))


def _disruptions(axes: Any, outcomes: Sequence[Outcome]) -> None:
    kinds = {"evicted": "moved", "returned": "came back", "killed": "died"}
    width = 0.8 / max(1, len(outcomes))
    for number, (outcome, colour) in enumerate(_coloured(outcomes)):
        counts = [getattr(outcome.result.pods, kind) for kind in kinds]
        axes.bar([place + number * width for place in range(len(kinds))], counts, width, color=colour)
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(kinds))], list(kinds.values()))
    axes.set(ylabel="pods")


def _coloured(outcomes: Sequence[Outcome]) -> Iterable[tuple[Outcome, str]]:
    return zip(outcomes, itertools.cycle(_COLOURS), strict=False)


_OF_DISTURBED: Final = "Moved by growth; back on the node they were moved from; dead with their machine."
_FIGURES: Final[tuple[tuple[str, str, Draw], ...]] = (
    ("What the machines cost", "Per hour; dotted: the least that the pods of the moment could cost.", _cost),
    ("How many nodes there were", "Node objects, Ready or not.", _nodes),
    ("How full the nodes were", "What pods request of what Ready nodes offer: cores, memory or devices.", _fill),
    ("How long pods waited", "The part of all pods that had a node after so many seconds.", _waits),
    ("Which pods were disturbed", _OF_DISTURBED, _disruptions),
)
