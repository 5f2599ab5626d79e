# SPDX-License-Identifier: Apache-2.0
"""The HTML report: one page without any outside file. All but the pictures comes from the JSON document."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from .metrics import HISTOGRAM_EDGES, Accumulator
from .runner import CaseResult

_STYLE = """
:root { --ink: #1d2733; --soft: #66758a; --line: #dbe2ea; --paper: #fff; --pass: #15803d; --fail: #b91c1c;
        --empty: #a16207; --error: #7e22ce; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: #f4f6f9; margin: 0; }
main { max-width: 1360px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 0; display: inline; }
.sub { color: var(--soft); margin: 0 0 18px; }
section, details { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; margin: 14px 0;
                   padding: 14px 18px; overflow-x: auto; }
summary { cursor: pointer; } summary .what { color: var(--soft); margin-left: 8px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 8px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } .l { text-align: left; }
tr:last-child td { border-bottom: 0; }
.PASS, .yes { color: var(--pass); font-weight: 600; } .FAIL, .no { color: var(--fail); font-weight: 600; }
.EMPTY { color: var(--empty); font-weight: 600; } .ERROR { color: var(--error); font-weight: 600; }
.tiles { display: flex; gap: 12px; flex-wrap: wrap; } .tile { background: var(--paper); border: 1px solid var(--line);
  border-radius: 8px; padding: 10px 16px; min-width: 130px; } .tile b { display: block; font-size: 22px; }
.tile span { color: var(--soft); font-size: 13px; }
.pictures { display: flex; flex-wrap: wrap; gap: 16px; margin: 12px 0; } .pictures img { max-width: 100%; }
.columns { display: flex; flex-wrap: wrap; gap: 28px; }
.columns > div { flex: 1 1 440px; min-width: 0; overflow-x: auto; }
h3 { font-size: 13px; color: var(--soft); margin: 14px 0 4px; } ul { margin: 6px 0; padding-left: 20px; }
code { font-size: 13px; }
"""


def page(document: dict[str, Any], results: Sequence[CaseResult]) -> str:
    """The page for a document of `report.document` and the results that it was made from."""
    summary, run = document["summary"], document["run"]
    tiles = "".join(
        f'<div class="tile"><b{style}>{escape(str(value))}</b><span>{escape(label)}</span></div>'
        for value, label, style in (
            (
                f"{summary['passed']} / {summary['cases']}",
                f"pass under {summary['policy']}",
                ' class="yes"' if summary["exit_code"] == 0 else ' class="no"',
            ),
            (summary["cann_bench_passed"], "pass cann-bench's rule", ""),
            (summary["spec_passed"], "pass the spec rule", ""),
            (summary["spec_out_of_reach"], "out of the spec rule's reach", ""),
            (_figure(summary["mare_max"]), "largest MARE", ""),
            (f"{summary['seconds']:.0f} s", "in all", ""),
            (f"{summary['peak_mib']:.0f} MiB", "peak memory", ""),
        )
    )
    words = ", ".join(f"{key} {value}" for key, value in run.items() if value not in (None, False))
    body = [
        f"<h1>Precision of sparse_flash_attention on {escape(str(run.get('backend', '')))}</h1>",
        f'<p class="sub">{escape(words)} · ascend-sparse-attention {escape(document["tool"]["version"])}</p>',
        f'<div class="tiles">{tiles}</div>',
        f"<section>{_overview(document['cases'])}</section>",
    ]
    for entry, result in zip(document["cases"], results):
        body.append(_case(entry, result.accumulator))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>sparse_flash_attention precision</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _figure(value: float | int | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if math.isfinite(value) else str(value)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table of ready HTML cells; the first `left` columns are text."""

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag}{' class=l' if i < left else ''}>{cell}</{tag}>" for i, cell in enumerate(row))

    lines = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><tr>{cells(header, 'th')}</tr>{lines}</table>"


def _yes(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "–"
    return '<span class="yes">pass</span>' if entry["pass"] else '<span class="no">fail</span>'


def _spec(entry: dict[str, Any]) -> str:
    spec = entry["spec"]
    if entry["verdict"] in ("EMPTY", "PASS") and entry.get("compared") == 0:
        return _yes(None)
    if spec is not None and not spec["pass"] and "floor" in entry and not entry["floor"]["pass"]:
        return '<span class="EMPTY">out of reach</span>'
    return _yes(spec)


def _verdict(entry: dict[str, Any]) -> str:
    return f'<span class="{entry["verdict"]}">{entry["verdict"]}</span>'


def _what(entry: dict[str, Any]) -> str:
    case = entry["case"]
    causal = " causal" if case["is_causal"] else ""
    return escape(
        f"{case['layout']} {case['dtype']} B {case['B']}, S {case['S1']}/{case['S2']}, N {case['N1']}/{case['N2']}, "
        f"D {case['Dk']}/{case['Dv']}, topK {case['topK']}{causal}"
    )


def _overview(entries: Sequence[dict[str, Any]]) -> str:
    header = (
        "case",
        "what",
        "verdict",
        "cann-bench",
        "decided by",
        "spec",
        "MERE",
        "MARE",
        "small",
        "cancel",
        "normal",
    )
    rows = []
    for entry in entries:
        cann, spec = entry["cann_bench"], entry["spec"]
        regions = cann["regions"].values() if cann is not None else ()
        counts = [
            _figure(r["errors"]) if r["native"] is None else f"{_figure(r['errors'])}/{_figure(r['native'])}"
            for r in regions
        ] or ["–"] * 3
        identity = escape(entry["id"])
        rows.append(
            (
                f'<a href="#case-{identity}">{identity}</a>',
                _what(entry),
                _verdict(entry),
                _yes(cann),
                escape(cann["deciding_region"]) if cann is not None else "–",
                _spec(entry),
                _figure(spec["mere"]) if spec is not None else "–",
                _figure(spec["mare"]) if spec is not None else "–",
                *counts,
            )
        )
    note = (
        "<p class=sub>small, cancel, normal: errors, with a slash errors/native (limit 2 to 1). Out of reach: the "
        "golden itself, rounded to the io dtype, fails the spec rule.</p>"
    )
    return _table(header, rows, left=2) + note


def _case(entry: dict[str, Any], accumulator: Accumulator | None) -> str:
    opened = "" if entry["verdict"] == "PASS" else " open"
    parts = [
        f'<details id="case-{escape(entry["id"])}"{opened}><summary><h2>{escape(entry["id"])}</h2> {_verdict(entry)}'
        f'<span class="what">{_what(entry)}</span></summary>',
        "<ul>" + "".join(f"<li>{escape(reason)}</li>" for reason in entry["reasons"]) + "</ul>",
    ]
    if accumulator is not None and accumulator.elements:
        parts.append('<div class="pictures">')
        parts.append(_picture(_histogram(accumulator), "histogram of the relative error"))
        if accumulator.heat is not None:
            parts.append(_picture(_heat_map(accumulator), "largest relative error by head and position"))
        parts.append("</div>")
        parts.append(_numbers(entry))
    parts.append("</details>")
    return "".join(parts)


def _numbers(entry: dict[str, Any]) -> str:
    metrics = _table(
        ("relative error", "elements", "MERE", "MARE", "above the limit"),
        [
            (label, _figure(e["count"]), _figure(e["mere"]), _figure(e["mare"]), _figure(e["bad"]))
            for label, e in (
                ("all that compare", entry["comparable"]),
                (f"abs(golden) ≥ {_figure(entry['large']['from'])}", entry["large"]),
                ("perfect rounding", entry["floor"]),
                ("perfect rounding, where large", entry["floor_large"]),
            )
        ],
    )
    regions = _table(
        ("region", "elements", "errors", "native", "ratio"),
        [
            (name, _figure(r["total"]), _figure(r["errors"]), _figure(r["native"]), _figure(r["ratio"]))
            for name, r in entry["cann_bench"]["regions"].items()
        ],
    )
    sizes = _table(
        ("abs(golden)", "elements", "above the limit", "MARE"),
        [
            (
                "0" if row["to"] == 0 else f"{row['from']:.0e} … {row['to']:.0e}",
                _figure(row["total"]),
                _figure(row["bad"]),
                _figure(row["mare"]),
            )
            for row in entry["by_size"]
        ],
    )
    offenders = []
    for what in ("first", "worst"):
        offender = entry["offenders"][what]
        if offender is not None:
            offenders.append(
                (
                    what,
                    f"<code>{escape(str(offender['index']))}</code>",
                    f"{offender['actual']:.9g}",
                    f"{offender['golden']:.9g}",
                    _figure(offender["relative_error"]),
                )
            )
    table = _table(("offender", "index", "actual", "golden", "relative error"), offenders) if offenders else ""
    ulp = entry["ulp"]
    steps = f"At most {_figure(ulp['max'])} ULP from the rounded golden, {_figure(ulp['mean'])} on average."
    distance = f"<p class=sub>{steps}</p>"
    return f'{table}<div class="columns"><div>{metrics}{distance}{regions}</div><div>{sizes}</div></div>'


def _picture(png: bytes, description: str) -> str:
    data = base64.b64encode(png).decode("ascii")
    return f'<img alt="{escape(description)}" src="data:image/png;base64,{data}">'


def _figure_png(draw: Any, size: tuple[float, float]) -> bytes:
    # Without pyplot: no global state, no display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawing = Figure(figsize=size, dpi=110, layout="constrained")
    FigureCanvasAgg(drawing)
    axes = drawing.add_subplot()
    draw(drawing, axes)
    buffer = io.BytesIO()
    drawing.savefig(buffer, format="png")
    return buffer.getvalue()


def _histogram(accumulator: Accumulator) -> bytes:
    counts = accumulator.histogram.astype(np.float64)
    # The first bin holds what lies below the scale, exact hits included.
    edges = np.log10(np.array([HISTOGRAM_EDGES[0] / 10**0.25, *HISTOGRAM_EDGES, HISTOGRAM_EDGES[-1] * 10**0.25]))
    limit = accumulator.limits.threshold

    def draw(_: Any, axes: Any) -> None:
        above = edges[:-1] >= np.log10(10 * limit) - 0.125
        axes.bar(
            edges[:-1], counts, np.diff(edges), align="edge", color=np.where(above, "#d97706", "#3b82a0"), linewidth=0
        )
        for value, word in ((limit, "t"), (10 * limit, "10 t")):
            axes.axvline(np.log10(value), color="#b91c1c", linewidth=1, linestyle="--")
            axes.text(np.log10(value), 1.01, word, color="#b91c1c", fontsize=8, transform=axes.get_xaxis_transform())
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.7)
        used = np.flatnonzero(counts)
        left = min(edges[used[0]], np.log10(limit) - 1) if used.size else -10
        right = max(edges[used[-1] + 1], np.log10(10 * limit) + 0.5) if used.size else 1
        axes.set_xlim(left, right)
        ticks = np.arange(math.ceil(left), math.floor(right) + 1)
        axes.set_xticks(ticks, [rf"$10^{{{int(t)}}}$" for t in ticks], fontsize=8)
        axes.tick_params(labelsize=8)
        axes.set_xlabel("relative error (leftmost bar: smaller or exact)", fontsize=9)
        axes.set_ylabel("elements", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)

    return _figure_png(draw, (5.2, 3.0))


def _heat_map(accumulator: Accumulator) -> bytes:
    heat = accumulator.heat
    assert heat is not None
    limit = accumulator.limits.mare_limit
    # In units of the limit: what is 1 or more breaks it. Inf and NaN come out as the darkest.
    cells = np.log10(np.clip(np.nan_to_num(heat.cells, posinf=1e9) / limit, 1e-2, 1e2))

    def draw(drawing: Any, axes: Any) -> None:
        from matplotlib.colors import TwoSlopeNorm

        image = axes.imshow(
            cells,
            aspect="auto",
            interpolation="nearest",
            cmap="RdBu_r",
            norm=TwoSlopeNorm(vmin=-2, vcenter=0, vmax=2),
            extent=(0, heat.positions, heat.heads, 0),
            origin="upper",
        )
        bar = drawing.colorbar(image, ax=axes, ticks=range(-2, 3))
        bar.ax.set_yticklabels(["0.01", "0.1", "limit", "10×", "100×"], fontsize=8)
        axes.set_xlabel(f"position (b · S1 + s1), S1 = {heat.sequence}", fontsize=9)
        axes.set_ylabel("query head", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set_title("largest relative error, against the MARE limit", fontsize=9)

    return _figure_png(draw, (5.6, 3.0))
