"""``scaling.json`` as Markdown, for the terminal and for the documentation."""

from __future__ import annotations

from benchmarks.communication import rows_that_pay

__all__ = ["page"]


def _table(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.2f} MB"


def _evaluation(found: dict) -> str:
    rows = [
        [
            str(row["workers"]),
            f"{row['strong']:.2f}",
            f"{row['weak']:.2f}",
            f"{row['speedup']:.2f}",
            f"{row['start_seconds']:.0f} s",
        ]
        for row in found["rows"]
    ]
    first = found["rows"][0]
    titles = ["workers", "same samples", "as many samples each", "speed over one core", "start"]
    return (
        f"2 log Z of the {found['model']} model with {found['samples']:,} samples takes "
        f"{first['one_process_seconds']:.1f} s in one process on one core. Times of workers with "
        "one thread each, over those of one process with as many threads on the same cores (1 is "
        "ideal): strong scaling with the same samples, weak scaling with as many samples for each "
        "worker. The start of the workers, which load and compile, is not part of these times.\n\n"
        + _table(titles, rows)
    )


def _reduction(found: dict) -> str:
    hosts, rows = found["hosts"], []
    for one in found["updates"]:
        count = one["batch"] * one["samples"]
        cells = (one["one_ms"], one["reduction_ms"], one["hosts_ms"])
        share = one["hosts_ms"] / one["one_ms"]
        rows.append(
            [
                f"{one['batch']} × K = {one['samples']}",
                f"{count:,}",
                *(f"{ms:.1f} ms" for ms in cells),
                f"{share:.2f}",
            ]
        )
    last = found["updates"][-1]
    pays = rows_that_pay(
        last["reduction_ms"], last["one_ms"], last["batch"] * last["samples"], hosts
    )
    fast = rows_that_pay(
        found["gradient_bytes"] / 1.25e6, last["one_ms"], last["batch"] * last["samples"], hosts
    )
    titles = ["mini-batch", "rows", "one host", "sum of a gradient", f"{hosts} hosts", "ratio"]
    return (
        f"An update of the {found['model']} model in JAX mode, on one core, and on {hosts} hosts "
        "with a core each that talk over the loopback (Gloo); the sum of one gradient "
        f"({_megabytes(found['gradient_bytes'])}) over the hosts was measured alone, too.\n\n"
        + _table(titles, rows)
        + f"\n\nA line through the first and the last of these times says that {hosts} hosts pay "
        f"from about {_crossing(found['updates']):,.0f} rows (examples × K) on. If nothing but the "
        f"sum of the gradient were added to {hosts} equal shares of the update, it would be from "
        f"about {pays:,.0f} on; with the full rate of a 10 Gbit/s network, "
        f"{found['gradient_bytes'] / 1.25e6:.1f} ms for the gradient, from about {fast:,.0f}."
    )


def _crossing(updates: list[dict]) -> float:
    """Return the rows at which lines through the times of one host and of several cross."""
    first, last = updates[0], updates[-1]
    start, end = (one["batch"] * one["samples"] for one in (first, last))
    gaps = [one["hosts_ms"] - one["one_ms"] for one in (first, last)]
    return start + gaps[0] * (end - start) / (gaps[0] - gaps[1])


def _communication(models: list[dict]) -> str:
    counts = list(models[0]["layer_parallel_bytes"])
    titles = ["model", "parameters", "gradient"]
    titles += [f"layer-parallel, 100 × K = {k}" for k in counts]
    rows = [
        [
            f"{one['model']}, {one['layers']} layers",
            f"{one['parameters']:,}",
            _megabytes(one["gradient_bytes"]),
            *(_megabytes(one["layer_parallel_bytes"][k]) for k in counts),
        ]
        for one in models
    ]
    return _table(titles, rows)


def page(content: dict) -> str:
    """Return the sections of the page that ``content`` has numbers for."""
    parts = ["## Bytes of an update", _communication(content["communication"])]
    if content.get("reduction"):
        parts += ["## Time of an update on several hosts", _reduction(content["reduction"])]
    if content.get("evaluation"):
        parts += ["## Time of an evaluation on workers", _evaluation(content["evaluation"])]
    if content.get("machine"):
        machine = content["machine"]
        parts.append(
            f"Measured on {machine['processor']}, {machine['available_cores']} cores, "
            f"{machine['date'][:10]}, commit {machine['commit']}."
        )
    return "\n\n".join(parts)
