"""Inference of the hyperparameters."""

from bayes_cmab.inference.optimise import MAP, FitInfo, Fixed, maximise, maximise_program
from bayes_cmab.inference.programs import potential, sample_sites

__all__ = [
    "MAP",
    "FitInfo",
    "Fixed",
    "maximise",
    "maximise_program",
    "potential",
    "sample_sites",
]
