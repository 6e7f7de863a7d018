"""The policies of both cases, by name, and a clinic that tells their tickets late.

Priors are those of the package but for the lengthscales on (s, a). Their median is 2 instead of
0.6: with 6 to 11 columns of context, 0.6 would make two random patients as good as independent
(`case_views.likeness` measures it).
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bayes_cmab import (
    MAP,
    NUTS,
    AdditiveRewardModel,
    Agent,
    AnovaEmbeddingModel,
    DirectPolicy,
    DirectRewardModel,
    EmbeddingModel,
    EmbeddingPolicy,
    Fixed,
    HeteroscedasticTransitionModel,
    Policy,
    ResidualPolicy,
    TransitionModel,
    TransitionPolicy,
)
from bayes_cmab.models.priors import AnovaPriors, EmbeddingPriors, LogNormal, TransitionPriors
from bayes_cmab.registry import CME_EMBEDDING, CME_REWARD

BETA = 0.25
LENGTHSCALE = LogNormal(2.0, 0.6)
EMBEDDING = EmbeddingModel(priors=EmbeddingPriors(lengthscale=LENGTHSCALE))
PRIORS = TransitionPriors(lengthscale=LENGTHSCALE)
TRANSITION, VARYING = TransitionModel(priors=PRIORS), HeteroscedasticTransitionModel(priors=PRIORS)
RESIDUAL = AnovaEmbeddingModel(anova_priors=AnovaPriors(lengthscale=LENGTHSCALE))
CME = replace(CME_EMBEDDING, priors=EMBEDDING.priors)

POLICIES: dict[str, Policy[Any]] = {
    "cbmp": EmbeddingPolicy(embedding=EMBEDDING),
    "residual": ResidualPolicy(transition=TRANSITION, embedding=RESIDUAL),
    "sharp": ResidualPolicy(AdditiveRewardModel(), VARYING, RESIDUAL),
    "cme": EmbeddingPolicy("cme_ucb", CME_REWARD, CME),
    "gaussian": TransitionPolicy(transition=TRANSITION),
    "plugin": TransitionPolicy(plug_in=True, transition=TRANSITION),
    "gp": DirectPolicy(DirectRewardModel(EMBEDDING)),
}


def options(name: str, every: int) -> dict[str, Any]:
    """Return policy and inference of an agent.

    Parameters
    ----------
    name : such as ``cbmp-map``. every : asks between two fits of MAP.
    """
    family, _, inference = name.partition("-")
    found = {"fixed": Fixed(), "map": MAP(every=every), "nuts": NUTS()}[inference]
    return {"policy": POLICIES[family], "inference": found}


class LateNews:
    """Tells an agent what comes of its tickets, some patients later.

    Parameters
    ----------
    agent : to tell.
    delays : patients until the ``intermediate`` and until the ``outcome``.
    """

    def __init__(self, agent: Agent, delays: Mapping[str, int]) -> None:
        self._agent, self._delays = agent, delays
        self._waiting: dict[str, deque[tuple[int, int, Any]]] = {name: deque() for name in delays}

    def expect(self, patient: int, ticket: int, **news: Any) -> None:
        """Keep the ``intermediate`` or ``outcome`` of a ticket until it is due."""
        for name, value in news.items():
            self._waiting[name].append((patient + self._delays[name], ticket, value))

    def arrive(self, patient: int) -> None:
        """Tell what is due before a patient comes."""
        for name, queue in self._waiting.items():
            while queue and queue[0][0] <= patient:
                _, ticket, value = queue.popleft()
                self._agent.tell(ticket, **{name: value})


def fits(agent: Agent) -> dict[str, int]:
    """Return the number of fits, and how many of them failed at the gate."""
    refits = agent.history().query("event == 'refit'")
    return {"fits": len(refits), "failed_fits": int((refits.verdict == "failed").sum())}
