import jax
import pytest

from bayes_cmab.acquisition import LogarithmicBeta
from bayes_cmab.environments import SETTINGS
from bayes_cmab.registry import agent_names, agent_title, make_agent, split_name


def test_every_name_makes_an_agent_whose_policy_is_a_static_argument() -> None:
    for name in agent_names():
        first, second = (make_agent(name, SETTINGS["B"]) for _ in range(2))
        assert first == second
        assert hash(first.policy) == hash(second.policy)
        assert agent_title(name)


def test_policies_share_compiled_programs_by_value() -> None:
    traced = []

    @jax.jit
    def nothing(x: jax.Array) -> jax.Array:
        return x

    function = jax.jit(lambda policy, x: traced.append(policy) or nothing(x), static_argnums=0)
    for _ in range(3):
        function(make_agent("oracle", SETTINGS["A"]).policy, 1.0)
    assert len(traced) == 1


def test_names_are_split_and_unknown_ones_listed() -> None:
    assert split_name("cbmp-map") == ("cbmp", "map")
    assert split_name("cbmp-map1") == ("cbmp", "map1")
    assert split_name("oracle") == ("oracle", "fixed")
    for bad in ("cbmp", "random-map", "nobody", "cbmp-nobody"):
        with pytest.raises(ValueError, match="agent: expected one of 'cbmp-fixed'"):
            split_name(bad)


def test_beta_may_be_a_number_or_a_schedule() -> None:
    schedule = LogarithmicBeta(61)
    assert make_agent("cbmp-fixed", SETTINGS["A"], schedule).beta is schedule
    with pytest.raises(ValueError, match="beta: expected non-negative"):
        make_agent("cbmp-fixed", SETTINGS["A"], -0.1)
    with pytest.raises(ValueError, match="every: expected a whole number of at least 1, got 0"):
        make_agent("cbmp-map", SETTINGS["A"], refit_every=0)
