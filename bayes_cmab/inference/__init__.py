"""Inference of the hyperparameters."""

from bayes_cmab.inference.fit import Fit, Sampler
from bayes_cmab.inference.nuts import NUTS, WarmStart
from bayes_cmab.inference.optimise import MAP, FitInfo, Fixed, maximise, maximise_program
from bayes_cmab.inference.refit import EffectiveSampleSize, EveryRounds, Never, RefitPolicy
from bayes_cmab.inference.svi import SVI

__all__ = [
    "MAP",
    "NUTS",
    "SVI",
    "EffectiveSampleSize",
    "EveryRounds",
    "Fit",
    "FitInfo",
    "Fixed",
    "Never",
    "RefitPolicy",
    "Sampler",
    "WarmStart",
    "maximise",
    "maximise_program",
]
