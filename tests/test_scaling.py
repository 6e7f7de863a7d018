import jax.numpy as jnp
import numpy as np
import pytest

from bayes_cmab.scaling import Scales, Units


def test_measured_units_are_mean_and_population_standard_deviation() -> None:
    rows = np.array([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    units = Units.measured(rows)
    np.testing.assert_allclose(units.center, [4.0, 5.0])
    np.testing.assert_allclose(units.scale, [np.std(rows[:, 0]), 1.0])  # a flat column: 1


def test_units_of_no_rows_and_of_one_row_change_no_scale() -> None:
    np.testing.assert_array_equal(Units.measured(np.zeros((0, 2))).scale, [1.0, 1.0])
    one = Units.measured(np.array([[2.0, -7.0]]))
    np.testing.assert_array_equal(one.scale, [1.0, 1.0])
    np.testing.assert_array_equal(one.center, [2.0, -7.0])


@pytest.mark.parametrize("shape", [(2,), (4, 2), (3, 4, 2)])
def test_restore_undoes_standardise_for_any_leading_axes(shape: tuple[int, ...]) -> None:
    units = Units.create([1.0, -2.0], [0.5, 1e6], "r", 2)
    value = jnp.arange(float(np.prod(shape))).reshape(shape)
    np.testing.assert_allclose(units.restore(units.standardise(value)), value, rtol=1e-12)


def test_identity_scales_change_nothing() -> None:
    scales = Scales.identity(0, 1, 2)
    np.testing.assert_array_equal(
        scales.intermediate.standardise(jnp.ones((3, 2))), np.ones((3, 2))
    )
    assert scales.context.scale.shape == (0,)
    assert float(scales.outcome.restore(jnp.asarray(3.0))) == 3.0


def test_a_scale_of_zero_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="action scale: expected positive numbers, got 0"):
        Units.create([0.0], [0.0], "action", 1)
