"""Test configuration: float64, and broadcasting that must be written out."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # idle BLAS threads slow small matrices down

import jax
import numpyro

numpyro.enable_x64()
jax.config.update("jax_numpy_rank_promotion", "raise")
