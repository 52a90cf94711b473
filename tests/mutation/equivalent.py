"""Mutants that change nothing that a test could notice, each with the reason."""

from __future__ import annotations

EQUIVALENT = {
    (
        "bihm_repro/datasets/child.py",
        "(resource.RLIMIT_CORE, 0),",
        "0 -> 1",
    ): "a core file of one byte is none",
    (
        "bihm_repro/datasets/checks.py",
        "if min(shape, default=0) < 0:",
        "0 -> 1",
    ): "the default is not negative either (the other 0 of the line is tested)",
    (
        "bihm_repro/datasets/readers.py",
        "table = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)",
        "1 -> 2",
    ): "numpy takes any negative number for an unknown size",
    (
        "bihm_repro/datasets/tables.py",
        "fields = [[field.strip(' \"') for field in re.split(pattern, line)] "
        "for line in lines[:2]]",
        "2 -> 3",
    ): "the third line tells names from examples as well as the second",
    (
        "bihm_repro/models/rbm.py",
        'return log_p.dimshuffle(0, "x") + T.zeros((1, samples), dtype=self.dtype), used',
        'log_p.dimshuffle(0, "x") + T.zeros((1, samples), dtype=self.dtype) -> '
        "(log_p.dimshuffle(0, 'x') - T.zeros((1, samples), dtype=self.dtype))",
    ): "zeros are added or subtracted",
}
"""Reasons by source file, line and change."""
