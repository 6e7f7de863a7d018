r"""Draws of hyperparameters by the No-U-Turn Sampler, in one compiled program per capacity.

``numpyro.infer.MCMC`` compiles its program again whenever the data change their shape. Here the
same NUTS kernel runs inside one jitted *pass* whose arguments are the padded data. A pass starts
from the last one: positions, step sizes, and the covariance of its draws as mass matrix. The first
fit is several passes of which the last one counts, as in Stan's adaptation in windows; every later
fit is a single warm-started pass, and nothing else is compiled.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro.infer.hmc import hmc

from bayes_cmab.inference.fit import Fit
from bayes_cmab.inference.refit import EffectiveSampleSize, RefitPolicy, check_refit
from bayes_cmab.programs import Program, coordinates, potential
from bayes_cmab.validate import number_within, one_of, whole_number

MASS_PRIOR_DRAWS = 5.0
"""Weight of the diagonal ``MASS_PRIOR_VARIANCE`` in a mass matrix taken from draws."""

MASS_PRIOR_VARIANCE = 1e-2

STEP_FACTOR = 0.1
"""Dual averaging is drawn towards ten times the step size that it is given."""


class WarmStart(NamedTuple):
    """Where a pass starts.

    Attributes
    ----------
    position : (chains, k) unconstrained.
    step_size : (chains,).
    inverse_mass_matrix : (k, k), shared by the chains.
    """

    position: Float[Array, "chains k"]
    step_size: Float[Array, " chains"]
    inverse_mass_matrix: Float[Array, "k k"]


@dataclass(frozen=True)
class NUTS:
    """Sample the posterior of the hyperparameters by NUTS, and marginalise over the draws.

    Attributes
    ----------
    draws : of each program that the agent averages over, from all chains.
    chains : Markov chains, run one after the other or together.
    warmup : steps at the beginning of a pass, in which the step size adapts.
    passes : of the first fit; a later fit is one pass.
    thinning : steps for one of the draws; the convergence checks see all steps.
    target_accept : of the step size's adaptation.
    max_tree_depth : of a trajectory.
    chain_method : ``"sequential"`` or ``"vectorized"``.
    refit : when the hyperparameters are inferred again.
    """

    draws: int = 64
    chains: int = 4
    warmup: int = 19
    passes: int = 4
    thinning: int = 2
    target_accept: float = 0.7
    max_tree_depth: int = 7
    chain_method: Literal["sequential", "vectorized"] = "sequential"
    refit: RefitPolicy = EffectiveSampleSize()

    def __post_init__(self) -> None:
        for name in ("draws", "chains", "warmup", "passes", "thinning", "max_tree_depth"):
            whole_number(getattr(self, name), name, least=1)
        if self.draws % self.chains:
            raise ValueError(
                f"draws: expected a multiple of the {self.chains} chains, got {self.draws}"
            )
        number_within(self.target_accept, "target_accept", 0.0, 1.0)
        one_of(self.chain_method, "chain_method", ("sequential", "vectorized"))
        check_refit(self.refit)

    def begin(self, program: Program, key: PRNGKeyArray) -> WarmStart:
        """Return starting points scattered around the prior medians, with a unit mass matrix."""
        medians = coordinates(program).medians
        k = medians.shape[0]
        scatter = 0.3 * jax.random.normal(key, (self.chains, k))
        return WarmStart(medians[None, :] + scatter, jnp.full(self.chains, 0.3, float), jnp.eye(k))

    def fit(self, program: Program, key: PRNGKeyArray, start: WarmStart) -> Fit:
        """Run one pass of the chains; pure, and meant to be jitted with the settings static.

        Returns
        -------
        Fit
            Its ``stats`` are ``lp``, ``energy``, ``n_steps``, ``tree_depth``,
            ``acceptance_rate``, ``step_size`` and ``diverging``, each (chains, steps).
        """
        space = coordinates(program)
        kept = self.draws // self.chains * self.thinning

        def one(
            inputs: tuple[PRNGKeyArray, Array, Array],
        ) -> tuple[Array, dict[str, Array], Array]:
            chain_key, position, step_size = inputs
            initialise, kernel = hmc(
                potential_fn_gen=lambda *arguments: (
                    lambda z: potential(Program(program.model, arguments), space.restore(z))
                ),
                algo="NUTS",
            )
            state = initialise(
                position,
                self.warmup,
                step_size=STEP_FACTOR * step_size,
                inverse_mass_matrix=start.inverse_mass_matrix,
                adapt_mass_matrix=False,
                dense_mass=True,
                target_accept_prob=self.target_accept,
                max_tree_depth=self.max_tree_depth,
                model_args=program.arguments,
                rng_key=chain_key,
            )

            def step(state: Any, _: None) -> tuple[Any, tuple[Array, dict[str, Array]]]:
                state = kernel(state, program.arguments, {})
                return state, (state.z, _statistics(state))

            # One scan for both, so that the kernel is compiled once.
            state, (positions, stats) = lax.scan(step, state, None, length=self.warmup + kept)
            rest = jax.tree.map(lambda leaf: leaf[self.warmup :], (positions, stats))
            return *rest, state.adapt_state.step_size

        inputs = (jax.random.split(key, self.chains), start.position, start.step_size)
        run = jax.vmap(one) if self.chain_method == "vectorized" else _sequentially(one)
        positions, stats, step_size = run(inputs)
        trace = jax.vmap(jax.vmap(space.constrain))(positions)
        thinned = jax.tree.map(
            lambda leaf: leaf[:, self.thinning - 1 :: self.thinning].reshape(
                self.draws, *leaf.shape[2:]
            ),
            trace,
        )
        flat = positions.reshape(-1, positions.shape[-1])
        return Fit(
            sites=thinned,
            log_weight=jnp.zeros(self.draws),
            trace=trace,
            stats=stats,
            following=WarmStart(positions[:, -1], step_size, _covariance(flat)),
        )


def _statistics(state: Any) -> dict[str, Array]:
    """Return what ArviZ wants to know of a step, under its names."""
    return {
        "lp": -state.potential_energy,
        "energy": state.energy,
        "n_steps": state.num_steps,
        "tree_depth": jnp.ceil(jnp.log2(state.num_steps + 1.0)).astype(int),
        "acceptance_rate": state.accept_prob,
        "step_size": state.adapt_state.step_size,
        "diverging": state.diverging,
    }


def _sequentially(one: Any) -> Any:
    return lambda inputs: lax.map(one, inputs)


def _covariance(draws: Float[Array, "n k"]) -> Float[Array, "k k"]:
    """Return the covariance of the draws, shrunk towards a small diagonal as Stan does."""
    n, k = draws.shape
    centred = draws - jnp.mean(draws, axis=0, keepdims=True)
    covariance = centred.T @ centred / max(n - 1, 1)
    weight = n / (n + MASS_PRIOR_DRAWS)
    return weight * covariance + (1.0 - weight) * MASS_PRIOR_VARIANCE * jnp.eye(k)
