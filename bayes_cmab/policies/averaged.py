"""Which policy averages another over draws of its hyperparameters."""

from typing import Any

from bayes_cmab.policies.base import Policy
from bayes_cmab.policies.draws import DrawsPolicy
from bayes_cmab.policies.embedding import EmbeddingPolicy
from bayes_cmab.policies.marginal import MarginalPolicy
from bayes_cmab.policies.marginal_residual import MarginalResidualPolicy
from bayes_cmab.policies.residual import ResidualPolicy


def averaged(policy: Policy[Any]) -> DrawsPolicy[Any]:
    """Return a policy averaged over draws of its hyperparameters; as it is, if it is that already.

    Raises
    ------
    ValueError
        If it is neither an `EmbeddingPolicy` nor a `ResidualPolicy`.
    """
    if isinstance(policy, DrawsPolicy):
        return policy
    if isinstance(policy, EmbeddingPolicy):
        return MarginalPolicy(policy)
    if isinstance(policy, ResidualPolicy):
        return MarginalResidualPolicy(policy)
    raise ValueError(
        "policy: expected an EmbeddingPolicy or a ResidualPolicy to average over draws, "
        f"got {policy!r}"
    )
