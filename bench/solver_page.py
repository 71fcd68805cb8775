"""How are the solver's figures shown in the documentation? Asked by `bench.solver --write`: JSON, a page with a table,
and a plot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from bench.report import Figure, Report

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 820, 230, 120, 30, 64
_OURS, _PEERS, _INK, _GRID = "#1b7f5c", "#c9a227", "#444", "#ddd"
_CAP: Final = 160.0  # percent: longer bars are cut, with their figure beside them

_HEAD = """# How good are the plans?

Written by `python -m bench.solver --write docs/reference`; every plan below was looked at by the independent checker. The inputs are those of
Karpenter's own scheduling benchmark, with the figures of Karpenter 1.15 on the same kind of machine (empty cluster, one pool, on-demand
offerings), a production cluster's pods all at once, and generated clusters. *Bound* is proven: no plan for these pods can cost less. *Gap*
is how far above it the plan is. CPU seconds are those of the solve alone.

![Price above the proven bound, and CPU seconds](solver.svg)

| input | nodes | price/h | bound | gap | CPU s | MiB | peer's price/h | peer's CPU s | saved |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def write_page(report: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "solver.json").write_text(report.as_json() + "\n", encoding="utf-8")
    (folder / "solver-figures.md").write_text(_HEAD + "".join(map(_row, report.cases.items())), encoding="utf-8")
    (folder / "solver.svg").write_text(_plot(report), encoding="utf-8")


def _row(item: tuple[str, dict[str, Figure]]) -> str:
    name, figures = item
    percent = {"gap_percent", "saved_percent"}
    columns = (
        "nodes",
        "price",
        "bound",
        "gap_percent",
        "cpu_seconds",
        "mib",
        "peer_price",
        "peer_cpu_seconds",
        "saved_percent",
    )
    cells = [
        "" if column not in figures else f"{figures[column]}{' %' if column in percent else ''}" for column in columns
    ]
    return f"| {name} | {' | '.join(cells)} |\n"


def _plot(report: Report) -> str:
    """For each input two bars: how far the peer's price and ours are above the bound, with the CPU seconds at their
    ends.
    """
    rows = [(name, figures) for name, figures in report.cases.items() if "peer_price" in figures]
    height = _TOP + _ROW * len(rows) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="11" fill="{_INK}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        '<text x="12" y="20" font-size="14">Price above the proven lower bound, and CPU seconds of the solve</text>',
        f'<rect x="12" y="32" width="10" height="10" fill="{_OURS}"/><text x="27" y="41">growth</text>',
        f'<rect x="90" y="32" width="10" height="10" fill="{_PEERS}"/><text x="105" y="41">Karpenter 1.15</text>',
        *(_grid(percent, height) for percent in range(0, int(_CAP) + 1, 40)),
    ]
    for number, (name, figures) in enumerate(rows):
        top = _TOP + number * _ROW
        bound = float(figures["bound"]) or 1.0
        parts.append(f'<text x="{_LEFT - 8}" y="{top + 15}" text-anchor="end">{escape(name)}</text>')
        parts.append(_bar(top + 2, float(figures["price"]) / bound - 1, float(figures["cpu_seconds"]), _OURS))
        parts.append(
            _bar(top + 13, float(figures["peer_price"]) / bound - 1, float(figures["peer_cpu_seconds"]), _PEERS)
        )
    return "\n".join([*parts, "</svg>", ""])


def _grid(percent: int, height: int) -> str:
    x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * percent / _CAP
    line = f'<line x1="{x:.0f}" y1="{_TOP - 6}" x2="{x:.0f}" y2="{height - 14}" stroke="{_GRID}"/>'
    return line + f'<text x="{x:.0f}" y="{_TOP - 10}" text-anchor="middle">{percent} %</text>'


def _bar(top: int, over: float, seconds: float, colour: str) -> str:
    width = max(1.0, (_WIDTH - _LEFT - _RIGHT) * min(100 * over, _CAP) / _CAP)
    told = f"{100 * over:.1f} %, {seconds:.2g} s"
    bar = f'<rect x="{_LEFT}" y="{top}" width="{width:.1f}" height="10" fill="{colour}"/>'
    return bar + f'<text x="{_LEFT + width + 4:.1f}" y="{top + 9}" font-size="9">{told}</text>'
