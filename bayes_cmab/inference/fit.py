"""What a sampler of hyperparameters does and returns, for one program."""

from typing import Any, NamedTuple, Protocol

from jaxtyping import Array, Float, PRNGKeyArray

from bayes_cmab.inference.refit import RefitPolicy
from bayes_cmab.models.priors import Sites
from bayes_cmab.programs import Program


class Fit(NamedTuple):
    """Result of one pass over one program.

    Attributes
    ----------
    sites : draws to average over, sample and deterministic sites, each (draws, ...).
    log_weight : (draws,) logarithms of importance weights, up to a constant.
    trace : all draws, for the checks, each (chains, steps, ...).
    stats : of the sampler.
    following : where the next pass starts.
    """

    sites: Sites
    log_weight: Float[Array, " draws"]
    trace: Sites
    stats: dict[str, Array]
    following: Any


class Sampler(Protocol):
    """Something that draws hyperparameters; a frozen dataclass, so that it is a static argument.

    Attributes
    ----------
    draws : that the agent averages over.
    passes : of the first fit.
    refit : when to infer again.
    """

    @property
    def draws(self) -> int:
        """See above."""
        ...

    @property
    def passes(self) -> int:
        """See above."""
        ...

    @property
    def refit(self) -> RefitPolicy:
        """See above."""
        ...

    def begin(self, program: Program, key: PRNGKeyArray) -> Any:
        """Return where the first pass starts; pure."""
        ...

    def fit(self, program: Program, key: PRNGKeyArray, start: Any) -> Fit:
        """Run a pass; pure."""
        ...
