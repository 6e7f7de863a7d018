r"""Moments of ``g`` averaged over draws of the hyperparameters.

The posterior of the hyperparameters factorises into that of the reward model (draws t, weights
``w_t``) and that of the embedding (draws j, weights ``w_j``), so all pairs are averaged exactly in
one pass. With the joint posterior mean ``m_t`` and covariance ``K_t`` of the targets
``(b, f(r_1), ..., f(r_n))`` and ``v_j = (1, E_j)``:

- ``mbar = sum_t w_t m_t``, ``Kbar = sum_t w_t (K_t + (m_t - mbar)(m_t - mbar)')``
- ``mean = sum_j w_j v_j mbar``
- ``variance = sum_j w_j v_j Kbar v_j' + (sum_j w_j (F_j - G_j)) (sum_t w_t second_moment_t)
  + sum_j w_j (v_j mbar - mean)^2``.

Between fits, the draws are reweighted by how well they predict the rows that have come since,
which the appended rows of the factors yield for free.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from bayes_cmab import posteriors
from bayes_cmab.data import Data
from bayes_cmab.kernels import rbf
from bayes_cmab.linalg import log_determinant, row_mask, trace_solve
from bayes_cmab.models.embedding import Features
from bayes_cmab.models.priors import Sites
from bayes_cmab.moments import Moments, assemble_moments
from bayes_cmab.policies.embedding import EmbeddingPolicy
from bayes_cmab.posteriors import EmbeddingPosterior, RewardPosterior, Targets


class Budget(NamedTuple):
    """The five parts of the variance of ``g``, each (k,): what would help to know.

    ``variance_reward`` and ``variance_reward_hyperparameters`` shrink with outcomes, the others
    with transitions.
    """

    variance_reward: Float[Array, " k"]
    variance_reward_hyperparameters: Float[Array, " k"]
    variance_embedding: Float[Array, " k"]
    variance_transition: Float[Array, " k"]
    variance_embedding_hyperparameters: Float[Array, " k"]


class DrawSet(NamedTuple):
    """Draws of one program's sites, and the log likelihood that they were drawn with.

    Attributes
    ----------
    sites : each (draws, ...).
    at_fit : (draws,) log likelihood of the data at the last fit.
    """

    sites: Sites
    at_fit: Float[Array, " draws"]


class MarginalState(NamedTuple):
    """Posteriors of every draw.

    Attributes
    ----------
    reward, targets : lead with the reward model's draws t.
    embedding : leads with the embedding's draws j.
    trace : (draws j) ``tr(C_j^-1 K_rr)`` at the reference lengthscale of the last fit.
    features : the Gram matrix of the intermediates, its weight, and the reference lengthscale.
    reward_at_fit, embedding_at_fit : log likelihoods of the draws at the last fit.
    """

    reward: RewardPosterior
    targets: Targets
    embedding: EmbeddingPosterior
    trace: Float[Array, " J"]
    gram: Float[Array, "N N"]
    weight: Float[Array, ""]
    lengthscale: Float[Array, " d"]
    reward_at_fit: Float[Array, " T"]
    embedding_at_fit: Float[Array, " J"]


def condition(
    policy: EmbeddingPolicy,
    reward_draws: Sites,
    embedding_draws: Sites,
    data: Data,
    features: Features,
    lengthscale: Float[Array, " d"],
) -> MarginalState:
    """Condition every draw on all data; ``O((T + J) N^3)``. The weights start equal.

    Parameters
    ----------
    reward_draws, embedding_draws : sites, each (draws, ...).
    features : at the reference ``lengthscale`` (d,).
    """
    t = data.transitions

    def one_reward(sites: Sites) -> tuple[RewardPosterior, Targets]:
        reward = posteriors.condition_reward(
            policy.reward, policy.reward.hyperparameters(sites), data.outcomes
        )
        targets = posteriors.condition_targets(policy.reward, reward, t.intermediates, t.size)
        return reward, targets

    def one_embedding(sites: Sites) -> tuple[EmbeddingPosterior, Array]:
        hyper = policy.embedding.hyperparameters(sites)
        posterior = posteriors.condition_embedding(
            policy.embedding, hyper, t.contexts, t.actions, t.size
        )
        return posterior, trace_solve(posterior.factor, features.gram)

    reward, targets = jax.vmap(one_reward)(reward_draws)
    embedding, trace = jax.vmap(one_embedding)(embedding_draws)
    state = MarginalState(
        reward,
        targets,
        embedding,
        trace,
        features.gram,
        features.weight,
        lengthscale,
        jnp.zeros(reward.total.shape[0]),
        jnp.zeros(trace.shape[0]),
    )
    return state._replace(
        reward_at_fit=reward_log_likelihood(policy, state),
        embedding_at_fit=embedding_log_likelihood(state),
    )


def reward_log_likelihood(policy: EmbeddingPolicy, state: MarginalState) -> Float[Array, " T"]:
    """Return ``log N(y; 0, A)`` of each draw (without its constant), from the factors."""

    def one(reward: RewardPosterior) -> Array:
        offset = posteriors.reward_offset(policy.reward, reward)
        residual = reward.whitened[:, 0] - offset * reward.whitened[:, 1]
        return -0.5 * (residual @ residual + log_determinant(reward.factor))

    return jax.vmap(one)(state.reward)


def embedding_log_likelihood(state: MarginalState) -> Float[Array, " J"]:
    """Return the composite log likelihood of each draw, from the factors."""
    determinant = jax.vmap(log_determinant)(state.embedding.factor)
    return -0.5 * state.weight * (determinant + state.trace)


def log_weights(
    policy: EmbeddingPolicy, state: MarginalState
) -> tuple[Float[Array, " T"], Float[Array, " J"]]:
    """Return the normalised log weights of the draws of both programs."""
    reward = reward_log_likelihood(policy, state) - state.reward_at_fit
    embedding = embedding_log_likelihood(state) - state.embedding_at_fit
    return reward - logsumexp(reward), embedding - logsumexp(embedding)


def effective_sample_size(log_weight: Float[Array, " n"]) -> Float[Array, ""]:
    """Return ``1 / sum w^2`` of normalised weights."""
    return jnp.exp(-logsumexp(2.0 * log_weight))


def observe_transition(
    policy: EmbeddingPolicy, state: MarginalState, context: Array, action: Array, r: Array
) -> MarginalState:
    """Add a row of D1 to every draw; ``O((T + J) N^2)``."""
    i = state.embedding.size[0]
    points = state.targets.points[0].at[i].set(r)
    column = rbf(r[None, :], points, state.lengthscale)[0]
    column = jnp.where(row_mask(i + 1, points.shape[0]), column, 0.0)
    gram = state.gram.at[i].set(column).at[:, i].set(column)

    def one_embedding(posterior: EmbeddingPosterior) -> tuple[EmbeddingPosterior, Array]:
        posterior = posteriors.append_embedding(policy.embedding, posterior, context, action)
        row = posterior.factor.inverse[i]
        return posterior, row @ gram @ row

    embedding, increment = jax.vmap(one_embedding)(state.embedding)

    def one_target(reward: RewardPosterior, targets: Targets) -> Targets:
        return posteriors.append_target(policy.reward, reward, targets, r)

    return state._replace(
        targets=jax.vmap(one_target)(state.reward, state.targets),
        embedding=embedding,
        trace=state.trace + increment,
        gram=gram,
    )


def observe_outcome(
    policy: EmbeddingPolicy, state: MarginalState, r: Array, y: Array
) -> MarginalState:
    """Add a row of D2 to every draw; ``O(T N^2)``."""

    def one(reward: RewardPosterior, targets: Targets) -> tuple[RewardPosterior, Targets]:
        return posteriors.append_outcome(policy.reward, reward, targets, r, y)

    reward, targets = jax.vmap(one)(state.reward, state.targets)
    return state._replace(reward=reward, targets=targets)


class EmbeddingDraws(NamedTuple):
    """``v_j = (1, E_j)`` (J, k, 1 + N) and the unexplained part of each draw (J, k)."""

    vectors: Float[Array, "J k N1"]
    unexplained: Float[Array, "J k"]


def embedding_draws(
    policy: EmbeddingPolicy, state: MarginalState, context: Array, actions: Array
) -> EmbeddingDraws:
    """Evaluate the embedding of every draw for a set of actions; ``O(J k N^2)``.

    The unexplained part is ``F - G``; for CME-UCB's forms ``(1 - G) / embedding_noise``.
    """

    def one(posterior: EmbeddingPosterior) -> EmbeddingDraws:
        e = posteriors.embedding_weights(policy.embedding, posterior, context, actions)
        vectors = jnp.concatenate([jnp.ones((actions.shape[0], 1)), e.weights], axis=1)
        rest = e.prior - e.explained
        if policy.moments_form != "operator":
            rest = rest / posterior.hyper.embedding_noise
        return EmbeddingDraws(vectors, rest)

    return jax.vmap(one)(state.embedding)


def target_means(policy: EmbeddingPolicy, state: MarginalState) -> Float[Array, "T N1"]:
    """Return the posterior mean of the targets under each draw."""

    def one(reward: RewardPosterior, targets: Targets) -> Array:
        return posteriors.target_mean(policy.reward, reward, targets)

    return jax.vmap(one)(state.reward, state.targets)


def second_moments(policy: EmbeddingPolicy, state: MarginalState) -> Float[Array, " T"]:
    """Return the average squared size of ``f`` under each draw; one for CME-UCB's forms."""
    if policy.moments_form != "operator":
        return jnp.ones(state.reward.total.shape[0])
    return jax.vmap(lambda reward: posteriors.second_moment(policy.reward, reward))(state.reward)


def marginal_moments(
    policy: EmbeddingPolicy, state: MarginalState, context: Array, actions: Array
) -> tuple[Moments, Budget]:
    """Return the matched moments over all pairs of draws, and the uncertainty budget.

    For ``"operator"`` moments and for CME-UCB's (``"cme_ucb"``, whose variance says nothing about
    ``f`` given its hyperparameters; the spread of the means over the draws is added to it).
    """
    log_t, log_j = log_weights(policy, state)
    w_t, w_j = jnp.exp(log_t), jnp.exp(log_j)
    e = embedding_draws(policy, state, context, actions)
    means = target_means(policy, state)
    mbar = w_t @ means
    deviation = (means - mbar[None, :]) * jnp.sqrt(w_t)[:, None]
    mean_j = e.vectors @ mbar
    mean = w_j @ mean_j
    moment = w_t @ second_moments(policy, state)
    unexplained = w_j @ e.unexplained
    # One product for both parts about f: the factor of sum_t w_t (m_t - mbar)(m_t - mbar)' is thin.
    moved = jnp.einsum("jkn,tn->jkt", e.vectors, deviation)
    reward_hyper = w_j @ jnp.sum(moved**2, axis=2)
    if policy.moments_form == "operator":
        inside = jnp.einsum("t,tnm->nm", w_t, state.targets.covariance)
        about_f = w_j @ jnp.sum((e.vectors @ inside) * e.vectors, axis=2)
    else:
        about_f = jnp.zeros_like(mean)
    embedding_hyper = w_j @ (mean_j - mean[None, :]) ** 2
    hyper = state.reward.hyper
    scale = jnp.max(jnp.maximum(hyper.reward_variance, hyper.mean_variance))
    parts = assemble_moments(
        mean=mean,
        reward=about_f,
        embedding=unexplained * moment,
        transition=jnp.zeros_like(mean),
        moment=moment,
        scale=jnp.maximum(scale, moment),
    )
    budget = Budget(
        variance_reward=parts.variance_reward,
        variance_reward_hyperparameters=reward_hyper,
        variance_embedding=parts.variance_embedding,
        variance_transition=parts.variance_transition,
        variance_embedding_hyperparameters=embedding_hyper,
    )
    return parts._replace(variance=sum(budget, jnp.zeros_like(mean))), budget


def pairwise_moments(
    policy: EmbeddingPolicy, state: MarginalState, context: Array, actions: Array
) -> tuple[Float[Array, "T J k"], Float[Array, "T J k"]]:
    """Return mean and variance of ``g`` under every pair of draws; ``O(T J k N^2)``."""
    e = embedding_draws(policy, state, context, actions)
    means = target_means(policy, state)
    moments = second_moments(policy, state)

    def one(inputs: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        mean, covariance, moment = inputs
        about_f = jnp.sum((e.vectors @ covariance) * e.vectors, axis=2)
        if policy.moments_form != "operator":
            about_f = jnp.zeros_like(about_f)
        variance = jnp.maximum(about_f, 0.0) + jnp.maximum(e.unexplained, 0.0) * moment
        return e.vectors @ mean, variance

    pairs: tuple[Array, Array] = lax.map(one, (means, state.targets.covariance, moments))
    return pairs
