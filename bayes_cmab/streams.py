"""The random streams of a trial: keys that depend on its seed, number and round alone."""

import enum

import jax
from jaxtyping import Array, PRNGKeyArray


class Purpose(enum.IntEnum):
    """Name what a random stream is for; all but `AGENT` are shared by the agents of a trial."""

    CONTEXT = 0
    INTERMEDIATE = 1
    OUTCOME = 2
    OFFLINE = 3
    AGENT = 4


def trial_key(seed: int, trial: int | Array) -> PRNGKeyArray:
    """Return the key of one trial, fold_in(key(seed), trial)."""
    return jax.random.fold_in(jax.random.key(seed), trial)


def stream(key: PRNGKeyArray, round: int | Array, purpose: Purpose) -> PRNGKeyArray:  # noqa: A002 (the field's word)
    """Return the key of one purpose in one round, fold_in(fold_in(key, round), purpose).

    `key` is the trial's (`trial_key`), and nothing else enters: agents that share a trial share
    its contexts and its noise, whatever they do.
    """
    return jax.random.fold_in(jax.random.fold_in(key, round), int(purpose))
