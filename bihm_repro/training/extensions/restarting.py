"""Dead units, or all upper layers, start again where a phase asks for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bihm_repro.ops.random_numbers import seed_for
from bihm_repro.samplers.helmholtz import HelmholtzSampler
from bihm_repro.training.extensions import Extension, MainLoop
from bihm_repro.training.restart import dead_units, with_layers_above, with_restarted_units

__all__ = ["RestartAbove", "RestartDeadUnits"]


class RestartAbove(Extension):
    """Gives the layers above h_l new initial values at the start of phases with ``restart_above``.

    l is ``above`` of the phase. New layers are worse than trained ones for long, so the best
    parameters of the phase are chosen from its own epochs alone.
    """

    def __init__(self, report: Callable[[str], None] = print) -> None:
        self.report = report

    def before_phase(self, loop: MainLoop) -> None:
        """Restart them, unless the phase is resumed in its middle."""
        phase, status = loop.phase, loop.log.status
        if not phase.restart_above or status.phase_updates:
            return
        model, seed = loop.model, seed_for(loop.recipe.seed, f"restart above {status.phase}")
        values = model.get_values()
        initial = model.initialize(seed).get_values()
        model.set_values(with_layers_above(values, initial, phase.above))
        status.best_valid = None
        self.report(f"restarted the layers above layer {phase.above}")


class RestartDeadUnits(Extension):
    """Gives dead units new initial values at the start of phases with ``restart_dead``."""

    def __init__(
        self, rows: Callable[[int], np.ndarray], report: Callable[[str], None] = print
    ) -> None:
        """Look for dead units on ``rows(epoch)`` (n, data_dim), binary rows of the training set."""
        self.rows, self.report = rows, report

    def before_phase(self, loop: MainLoop) -> None:
        """Restart them, unless the phase is resumed in its middle."""
        status = loop.log.status
        if not loop.phase.restart_dead or status.phase_updates:
            return
        model, seed = loop.model, seed_for(loop.recipe.seed, f"restart {status.phase}")
        values = model.get_values()
        sampler = HelmholtzSampler(values, loop.recipe.model)
        stuck_at = dead_units(sampler, self.rows(status.epoch), seed)
        counts = [int((~np.isnan(state)).sum()) for state in stuck_at]
        if any(counts):
            initial = model.initialize(seed).get_values()
            model.set_values(with_restarted_units(values, initial, stuck_at))
        self.report(f"restarted dead units, by layer: {' '.join(map(str, counts))}")
