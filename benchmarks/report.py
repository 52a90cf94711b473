"""What is printed and written: `results/bench.json`, text tables and a bar chart."""

from __future__ import annotations

from benchmarks.contenders import CONTENDERS

__all__ = ["bench_json", "chart", "tables"]

COLOURS = {
    "sgemm": "#9a9a9a",
    "ours": "#1b6ca8",
    "centred": "#0d3f66",
    "pytensor": "#5b9fce",
    "jax_mode": "#a9cde6",
    "jax": "#e08e2b",
    "torch": "#c0453a",
    "textbook": "#6b4f8a",
}
TASK_TITLES = {"log_likelihood": "log-likelihood", "log_z2": "2 log Z"}


def _best(found: dict, keys: list) -> dict:
    """`<key>_ms` of each contender; None where it is missing."""
    return {f"{key}_ms": found.get(key, {}).get("best_ms") for key in keys}


def bench_json(measured: dict, extra: dict) -> dict:
    """The content of bench.json.

    `measured` maps a task to {name of the case: {"samples": n, "found": what `interleaved` gave}};
    `extra` holds the further entries, such as the machine.
    """
    everybody = [contender.key for contender in CONTENDERS]
    update = {name: _best(entry["found"], everybody) for name, entry in measured["update"].items()}
    content = {"update": update}
    for task in TASK_TITLES:
        content[task] = {
            name: {**_best(entry["found"], ["ours", "sgemm"]), "samples": entry["samples"]}
            for name, entry in measured[task].items()
        }
    return {**content, "details": measured, **extra}


def _cell(value, form: str) -> str:
    return "-" if value is None else format(value, form)


def _aligned(rows: list) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )


def _task_table(entries: dict) -> str:
    head = ["case", "contender", "ms", "median", "x floor", "x ours", "samples/s", "peak MB"]
    rows = [head]
    for name, entry in entries.items():
        found = entry["found"]
        for contender in CONTENDERS:
            if contender.key not in found:
                continue
            one = found[contender.key]
            ratios = [
                one["best_ms"] / found[key]["best_ms"] if key in found else None
                for key in ("sgemm", "ours")
            ]
            rows.append(
                [
                    name,
                    contender.title,
                    _cell(one["best_ms"], ".2f"),
                    _cell(one["median_ms"], ".2f"),
                    _cell(ratios[0], ".2f"),
                    _cell(ratios[1], ".2f"),
                    _cell(1e3 * entry["samples"] / one["best_ms"], ",.0f"),
                    _cell(one["peak_mb"], ".0f"),
                ]
            )
    return _aligned(rows)


def _scaling_table(scaling: dict) -> str:
    rows = [["grows", "size", "ours ms", "floor ms", "ours ms / size", "straight line R2"]]
    for what, table in scaling.items():
        for row in table["rows"]:
            ours = row.get("ours_ms")
            rows.append(
                [
                    what,
                    str(row["size"]),
                    _cell(ours, ".2f"),
                    _cell(row.get("sgemm_ms"), ".2f"),
                    _cell(None if ours is None else ours / row["size"], ".3f"),
                    _cell(table.get("fit", {}).get("r_squared"), ".4f"),
                ]
            )
    return _aligned(rows)


def tables(content: dict) -> str:
    """All tables of a bench.json, as text."""
    parts = []
    for task, entries in content["details"].items():
        if entries:
            parts.append(f"{TASK_TITLES.get(task, task)}\n{_task_table(entries)}")
    if content.get("compile"):
        rows = [["contender", "case", "cold s", "warm s"]]
        for key, one in content["compile"].items():
            rows.append(
                [key, one["case"], f"{one['cold_seconds']:.1f}", f"{one['warm_seconds']:.1f}"]
            )
        parts.append(f"compile time, graph to first update\n{_aligned(rows)}")
    if content.get("scaling"):
        parts.append(f"growth of the update's cost\n{_scaling_table(content['scaling'])}")
    if content.get("evaluation_memory"):
        rows = [["K", "", "peak MB"]]
        rows += [
            [str(r["samples"]), "", f"{r['peak_mb']:.0f}"] for r in content["evaluation_memory"]
        ]
        parts.append(f"memory of log-likelihood estimation\n{_aligned(rows)}")
    parts += [f"missing: {key}: {why}" for key, why in content.get("missing", {}).items()]
    return "\n\n".join(parts)


def _ratios(entries: dict) -> dict:
    """Case -> {key: time over the floor's}, for the cases that have a floor."""
    found = {}
    for name, entry in entries.items():
        floor = entry["found"].get("sgemm", {}).get("best_ms")
        if floor:
            found[name] = {key: one["best_ms"] / floor for key, one in entry["found"].items()}
    return found


def _draw_updates(axes, ratios: dict) -> None:
    """A group of upright bars for each case, a bar for each contender but the floor."""
    shown = [one for one in CONTENDERS[1:] if any(one.key in found for found in ratios.values())]
    width = 1.0 / (len(shown) + 1)
    for position, contender in enumerate(shown):
        pairs = [
            (i, one[contender.key]) for i, one in enumerate(ratios.values()) if contender.key in one
        ]
        places = [i + (position - (len(shown) - 1) / 2) * width for i, _ in pairs]
        bars = axes.bar(
            places,
            [height for _, height in pairs],
            0.92 * width,
            color=COLOURS[contender.key],
            label=contender.title if pairs else None,
        )
        # Upright labels are narrower than their bars, so neighbours cannot collide; the white
        # boxes interrupt the line of the dense products.
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.bar_label(bars, fmt="%.1f", fontsize=7, padding=2.5, rotation=90, bbox=box)
    axes.set_xticks(range(len(ratios)))
    labels = [name.replace("-K", "\nK = ").replace("-", "\n") for name in ratios]
    axes.set_xticklabels([f"{label} on" if "%" in label else label for label in labels], fontsize=8)
    axes.margins(y=0.14)
    axes.set_ylabel("time, in units of the dense products")
    axes.set_title("one training update, batch of 100", fontsize=10)
    axes.axhline(1.0, color="black", linewidth=0.8, label="bare dense products (sgemm)")


def _draw_estimates(axes, rows: list) -> None:
    """A lying bar of ours for each (label, times the floor), from the top down."""
    rows = rows[::-1]
    bars = axes.barh(range(len(rows)), [ratio for _, ratio in rows], 0.7, color=COLOURS["ours"])
    axes.bar_label(bars, fmt="%.1f", fontsize=7, label_type="center", color="white")
    axes.set_yticks(range(len(rows)))
    axes.set_yticklabels([label for label, _ in rows], fontsize=8)
    axes.set_xlabel("time / dense products")
    axes.set_title("estimators", fontsize=10)
    axes.axvline(1.0, color="black", linewidth=0.8)


def chart(content: dict, path) -> None:
    """Bars of times in units of the sgemm floor: the update's on the left, estimators' right."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    details = content["details"]
    rows = [
        (f"{name}, {title}", one["ours"])
        for task, title in TASK_TITLES.items()
        for name, one in _ratios(details[task]).items()
        if "ours" in one
    ]
    updates = _ratios(details["update"])
    figure, (left, right) = plt.subplots(
        1,
        2,
        figsize=(max(3.5, 1.2 * len(updates)) + 3.5, 4.2),
        gridspec_kw={"width_ratios": [max(3.5, 1.2 * len(updates)), 2.4]},
    )
    _draw_updates(left, updates)
    _draw_estimates(right, rows)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="lower center",
        fontsize=8,
        frameon=False,
        ncol=min(len(labels), max(3, int(figure.get_size_inches()[0] / 1.8))),
    )
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.savefig(path, dpi=150)
    plt.close(figure)
