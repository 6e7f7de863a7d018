"""Inference of the hyperparameters."""

from bayes_cmab.inference.nuts import NUTS, Draws, SampleStats, WarmStart, cold_start, sample
from bayes_cmab.inference.optimise import MAP, FitInfo, Fixed, maximise, maximise_program
from bayes_cmab.inference.programs import potential, prior_medians, sample_sites

__all__ = [
    "MAP",
    "NUTS",
    "Draws",
    "FitInfo",
    "Fixed",
    "SampleStats",
    "WarmStart",
    "cold_start",
    "maximise",
    "maximise_program",
    "potential",
    "prior_medians",
    "sample",
    "sample_sites",
]
