"""Standard normal numbers, the noise of reparameterised Gaussian layers.

The polar form of Box and Muller (1958) on the counter-based uniform numbers: columns ``j`` and
``j + 8`` of each sixteen come from one cipher block with words u and v and are
sqrt(-2 log u) cos(2 pi v) and sqrt(-2 log u) sin(2 pi v). C and numpy both work in double
precision and round once, so they agree to the last digit or one beside it.
"""

from __future__ import annotations

from bihm_repro.engine.symbolic import Apply, T
from bihm_repro.ops.fused import FusedOp
from bihm_repro.ops.random_numbers import normal

__all__ = ["StandardNormal", "standard_normal"]

_KERNEL = """
namespace bihm {
static inline double unit_interval(uint32_t bits) { return ((bits >> 9) + 0.5) * 0x1p-23; }

static void standard_normal(npy_intp rows, npy_intp columns, Key key, float* out) {
#pragma omp parallel num_threads(team_size((double)rows * columns * 16))
    {
        const Range mine = share(rows, 1);
        for (npy_intp i = mine.begin; i < mine.end; ++i)
            for (npy_intp j = 0; j < columns; j += 16)
                for (npy_intp lane = 0; lane < 8 && j + lane < columns; ++lane) {
                    uint32_t first = (uint32_t)(j / 2 + lane), second = (uint32_t)i;
                    threefry(first, second, key);
                    const double radius = std::sqrt(-2.0 * std::log(unit_interval(first)));
                    const double angle = 6.283185307179586 * unit_interval(second);
                    float* at = out + i * columns + j + lane;
                    at[0] = (float)(radius * std::cos(angle));
                    if (j + lane + 8 < columns) at[8] = (float)(radius * std::sin(angle));
                }
    }
}
}
"""


class StandardNormal(FusedOp):
    """``units`` columns of noise, ``repeats`` rows for each row of ``like``."""

    counts = (1, 2)

    def make_node(self, like, units, repeats, seed, counter) -> Apply:
        """Inputs: a matrix, of which only rows and type matter, units, repeats, seed, counter."""
        like = T.as_tensor_variable(like)
        given = (units, repeats, seed, counter)
        integers = [T.cast(T.as_tensor_variable(v), "int64") for v in given]
        return Apply(self, [like, *integers], [T.matrix(dtype=like.dtype)])

    def perform(self, node, inputs, storage) -> None:
        """The numpy reference."""
        like, units, repeats, seed, counter = inputs
        drawn = normal(int(seed), int(counter), len(like) * int(repeats), int(units))
        storage[0][0] = drawn.astype(like.dtype)

    def jax_form(self, like, units, repeats, seed, counter):
        """The same numbers in JAX."""
        import jax.numpy as jnp

        from bihm_repro.ops import jax_random_numbers

        rows, blocks = like.shape[0] * int(repeats), -(-int(units) // 16)
        words = jax_random_numbers.uniform(seed, counter, rows, 16 * blocks)
        words = words.astype(jnp.float64).reshape(rows, blocks, 2, 8)
        radius, angle = jnp.sqrt(-2 * jnp.log(words[:, :, 0])), 2 * jnp.pi * words[:, :, 1]
        pairs = jnp.stack([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=2)
        drawn = pairs.reshape(rows, 16 * blocks)[:, : int(units)]
        return drawn.astype(jnp.float32).astype(like.dtype)

    def infer_shape(self, *arguments) -> list[tuple]:
        """Rows times repeats, units."""
        node, shapes = arguments[-2:]
        return [(shapes[0][0] * node.inputs[2], node.inputs[1])]

    def c_support_code(self, **kwargs) -> str:
        """The shared kernels, and the one for normal numbers."""
        return super().c_support_code(**kwargs) + _KERNEL

    def c_code(self, node, name, inputs, outputs, sub) -> str:
        """Call the kernel."""
        self.require_float32(node)
        like, units, repeats, seed, counter = inputs
        key = f"bihm::draw_key(bihm::whole({seed}), bihm::whole({counter}))"
        return f"""
        {{
        const npy_intp repeats = bihm::whole({repeats}), units = bihm::whole({units});
        const npy_intp rows = PyArray_DIMS({like})[0] * repeats;
        if (repeats < 1 || units < 1 || !bihm::prepare(&{outputs[0]}, 2, rows, units)) {{
            bihm::complain("StandardNormal: a count below 1, or no memory");
            {sub["fail"]}
        }}
        Py_BEGIN_ALLOW_THREADS
        bihm::standard_normal(rows, units,
            {key}, bihm::floats({outputs[0]}));
        Py_END_ALLOW_THREADS
        }}
        """


def standard_normal(like, units, *, repeats=1, seed, counter):
    """Noise of shape (n * repeats, units), in the type of ``like``.

    Parameters
    ----------
    like : (n, anything), a variable that no gradient is taken through, such as the data
    seed, counter : which random numbers; see ``random_numbers``
    """
    return StandardNormal()(like, units, repeats, seed, counter)
