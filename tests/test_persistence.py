"""Agents in files."""

import json
import shutil
import zipfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from live_agents import ACTIONS, LENIENT, SAMPLER, Clock, make, paper_agent, play

from bayes_cmab import (
    MAP,
    NUTS,
    SVI,
    Agent,
    AnovaEmbeddingModel,
    Box,
    ConstantBeta,
    DirectPolicy,
    DirectRewardModel,
    EffectiveSampleSize,
    EmbeddingModel,
    EmbeddingPolicy,
    EveryRounds,
    Fixed,
    FunctionPolicy,
    Gate,
    LogarithmicBeta,
    MatchedMomentsUCB,
    MeanUCB,
    MixtureQuantile,
    Never,
    ResidualPolicy,
    RewardModel,
    Thompson,
    TransitionModel,
    TransitionPolicy,
    codec,
    persistence,
)
from bayes_cmab.columns import Columns
from bayes_cmab.models.priors import (
    AnovaPriors,
    EmbeddingPriors,
    LogNormal,
    RewardPriors,
    TransitionPriors,
)

FIXTURES = Path(__file__).parent / "data"


def assert_same(one, other):
    """Compare all that can be seen of two agents, to the last bit."""
    pd.testing.assert_frame_equal(one.score(0.3), other.score(0.3), check_exact=True)
    pd.testing.assert_frame_equal(one.history(), other.history(), check_exact=True)
    assert one.waiting == other.waiting
    for mine, theirs in zip(one.data, other.data, strict=True):
        for column, same in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(column, same)
    assert {k: np.asarray(v).tolist() for k, v in one.sites.items()} == {
        k: np.asarray(v).tolist() for k, v in other.sites.items()
    }


# An agent goes on as if it had never been saved


@pytest.mark.parametrize(
    ("before", "after"), [(12, 12), pytest.param(45, 100, marks=pytest.mark.slow)]
)
def test_the_next_actions_are_those_of_the_agent_that_was_saved(before, after, tmp_path):
    agent = make(scales=None, seed=4, clock=Clock().constant)
    agent.add_outcomes([0.1, -0.4, 0.9], [0.3, 0.4, 1.0])
    play(agent, before, 0)
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent", clock=Clock().constant)
    assert_same(agent, loaded)
    assert play(loaded, after, 1) == play(agent, after, 1)
    assert_same(agent, loaded)


@pytest.mark.parametrize(
    "options",
    [
        {"acquisition": Thompson(), "beta": LogarithmicBeta(4)},
        pytest.param(
            {"inference": MAP(every=4, max_steps=3), "scales": None}, marks=pytest.mark.slow
        ),
        {"policy": DirectPolicy(), "dim_context": 1},
        pytest.param(
            {"inference": MAP(every=7, max_steps=20), "policy": ResidualPolicy()},
            marks=pytest.mark.slow,
        ),
        pytest.param({"inference": SAMPLER, "gate": LENIENT}, marks=pytest.mark.slow),
        pytest.param(
            {"inference": SAMPLER, "gate": LENIENT, "scales": None}, marks=pytest.mark.slow
        ),
        pytest.param(
            {"inference": NUTS(8, 2, 8, 1, refit=EveryRounds(3)), "gate": Gate(rhat=0.1)},
            marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore:round")],
        ),
        pytest.param(
            {"inference": SVI(draws=8, steps=20, passes=1), "gate": Gate(pareto_k=np.inf)},
            marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore:round")],
        ),
    ],
    ids=["thompson", "map", "direct", "residual", "nuts", "nuts-units", "failing", "svi"],
)
def test_an_agent_that_is_saved_and_loaded_all_the_time_is_the_same(options, tmp_path):
    steady, restless = make(clock=Clock(), **options), make(clock=Clock(), **options)
    for part in range(5):
        clock = restless._clock
        restless.save(tmp_path / "agent")
        restless = Agent.load(tmp_path / "agent", clock=clock)
        assert play(restless, 4, part) == play(steady, 4, part)
    assert_same(steady, restless)


def test_any_moment_of_a_life_can_be_saved(tmp_path):
    path = tmp_path / "deep" / "agent.zip"
    agent, moments = make(), 0

    def saved():
        nonlocal moments
        agent.save(path)
        loaded = Agent.load(str(path))
        assert_same(agent, loaded)
        again = tmp_path / "again"
        loaded.save(again)
        assert again.read_bytes() == path.read_bytes()
        moments += 1

    saved()
    for _ in range(4):
        agent.ask(0.2)
    saved()
    agent.tell(1, outcome=0.4)
    agent.tell(2, intermediate=0.3)
    saved()
    agent.abandon(2)
    agent.score(0.1)
    saved()
    agent.add_transitions([0.2], [0.1], [0.3])
    saved()
    agent.score(0.0)
    saved()
    agent.ask(0.1, [0.3, 0.4], exploit=True)
    agent.tell(1, intermediate=-0.2)
    saved()
    assert moments == 7


def test_the_columns_of_a_table_keep_their_names(tmp_path):
    frame = pd.DataFrame({"dose": [0.0, 1.0, 1.0], "hours": [2.0, 3.0, 5.0]})
    agent = make(actions=frame, scales=None, dim_context=0, context_sample=None)
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent")
    pd.testing.assert_frame_equal(loaded.score(None, frame[["hours", "dose"]]), agent.score())


ADVERTS = pd.DataFrame(
    {"colour": ["red", "blue", "red"], "price": [1.0, 2.0, 3.0], "new": [True, False, True]}
)
VISITORS = pd.DataFrame({"age": [20.0, 40.0], "device": ["phone", "tablet"]})


def offering_adverts(**options) -> Agent:
    """Return an agent with categories that are strings, bools and numbers."""
    return paper_agent(
        ADVERTS,
        context_sample=VISITORS,
        categories={"device": ["phone", "tablet", "other"], "price": [1, 2, 3, 4.5]},
        **options,
    )


def show_adverts(agent: Agent, rounds: int, seed: int) -> list[tuple[object, ...]]:
    """Ask by name and by position, with actions of the call now and then; return all decisions."""
    rng = np.random.default_rng(seed)
    decided = []
    for i in range(rounds):
        age, device = rng.uniform(18.0, 80.0), ["phone", "tablet", "other"][i % 3]
        context = {"device": device, "age": age} if i % 2 else [age, device]
        actions = [["blue", 4.5, True], ["red", 1, False]] if i % 4 == 3 else None
        d = agent.ask(context, actions)
        decided.append((d.index, d.mean, d.standard_deviation, *d.action))
        agent.tell(d.ticket, intermediate=rng.normal())
        if i % 3:
            agent.tell(d.ticket, outcome=rng.normal())
    return decided


def test_categories_come_back_with_their_types(tmp_path):
    path = tmp_path / "agent"
    agent = offering_adverts(seed=3, clock=Clock().constant)
    agent.add_transitions(VISITORS, ADVERTS[:2], [0.2, 0.4])
    show_adverts(agent, 6, 0)
    agent.save(path)
    loaded = Agent.load(path, clock=Clock().constant)
    for mine, theirs in zip(agent._settings[1:3], loaded._settings[1:3], strict=True):
        assert repr(mine) == repr(theirs)
    assert show_adverts(loaded, 6, 1) == show_adverts(agent, 6, 1)
    last = loaded.history().query("event == 'ask'").iloc[-1]
    assert last["context"][1] == "other"
    pd.testing.assert_frame_equal(agent.history(), loaded.history(), check_exact=True)
    for one in (agent, loaded):
        with pytest.raises(ValueError, match=r"'price': expected one of 1, 2, 3, 4\.5, got 5 at"):
            one.ask([30.0, "phone"], [["red", 5, True]])


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"acquisition": Thompson()}, marks=pytest.mark.slow)],
    ids=["ucb", "thompson"],
)
def test_a_box_comes_back(options, tmp_path):
    box = Box(-1.0, 2.0, columns=("dose",), candidates=16, starts=2, steps=5)
    agent = make(actions=box, seed=2, clock=Clock().constant, **options)
    play(agent, 4, 0)
    agent.ask(0.1, [0.3, 5.0])
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent", clock=Clock().constant)
    assert loaded._settings.box == box
    assert_same(agent, loaded)
    assert play(loaded, 4, 1) == play(agent, 4, 1)
    assert_same(agent, loaded)


# What is the user's own


def schedule(t):
    return 0.5 + 0.0 * t


def price(r):
    return jnp.minimum(r[0], 1.0)


def test_a_users_code_is_demanded_again(tmp_path):
    path = tmp_path / "agent"
    agent = make(beta=schedule, reward_function=price)
    play(agent, 3, 0)
    agent.save(path)
    with pytest.raises(ValueError, match=r"arguments of load.*: beta \(<function schedule .*got n"):
        Agent.load(path)
    with pytest.raises(ValueError, match=r"reward_function \(<function price .*; got beta"):
        Agent.load(path, beta=schedule)
    own = {"beta": schedule, "reward_function": price}
    with pytest.raises(ValueError, match=r"only what the file lacks, .*; got policy, seed"):
        Agent.load(path, **own, policy=EmbeddingPolicy(), seed=3)
    loaded = Agent.load(path, **own)
    assert play(loaded, 3, 1) == play(agent, 3, 1)
    with pytest.raises(ValueError, match="reward_function: expected a function, got 3"):
        Agent.load(path, beta=schedule, reward_function=3)


def test_a_users_policy_must_fit(tmp_path):
    path = tmp_path / "agent"
    own = FunctionPolicy(lambda s, a: -((a[0] - s[0]) ** 2))
    agent = make(policy=own)
    agent.ask(0.4)
    agent.save(path)
    with pytest.raises(ValueError, match="expected a policy whose sites are none; got one with"):
        Agent.load(path, policy=EmbeddingPolicy())
    with pytest.raises(ValueError, match="policy: expected a Policy, got 'x'"):
        Agent.load(path, policy="x")
    assert Agent.load(path, policy=own).ask(0.4).action == 0.5


# What is written


@pytest.mark.parametrize(
    "value",
    [
        EmbeddingPolicy("cme_ucb", RewardModel(2, measure_scale=3.0), EmbeddingModel("matern52")),
        EmbeddingPolicy(reward=RewardModel(priors=RewardPriors(LogNormal(2.0, 0.1)))),
        EmbeddingPolicy(embedding=EmbeddingModel(priors=EmbeddingPriors(noise_floor=0.1))),
        EmbeddingPolicy(embedding=AnovaEmbeddingModel(anova_priors=AnovaPriors(noise_floor=0.1))),
        ResidualPolicy(transition=TransitionModel(TransitionPriors(weight_constant=0.3))),
        TransitionPolicy(plug_in=True),
        DirectPolicy(DirectRewardModel(EmbeddingModel("matern52"))),
        FunctionPolicy(),
        Fixed(),
        MAP(every=3, tolerance=1e-5),
        NUTS(draws=12, refit=EveryRounds(2)),
        SVI(refit=Never()),
        NUTS(refit=EffectiveSampleSize(0.3)),
        Gate(rhat=np.inf),
        ConstantBeta(0.1),
        LogarithmicBeta(7, delta=0.2),
        *(MatchedMomentsUCB(), MeanUCB(), MixtureQuantile(30), Thompson()),
        (1, [2.5, "x", None, True], {"a": (), "b": {"$x": np.nan}}),
        Clock()(),
        Box([0.0, 1.0], [1.0, 2.5], ("dose", "hours"), 16, 4, 10),
        Columns(("x", "y", "z"), (None, ("a", "b"), (False, True, 0.5, 3)), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_from_json(value):
    writer = codec.Writer()
    text = json.dumps(writer.encode(value), allow_nan=False)
    again = codec.decode(json.loads(text), writer.arrays())
    assert repr(again) == repr(value)


def test_every_policy_inference_and_acquisition_of_the_package_can_be_written():
    import bayes_cmab

    exported = [getattr(bayes_cmab, name) for name in bayes_cmab.__all__]
    made_by_agents = {bayes_cmab.Agent, bayes_cmab.Decision, bayes_cmab.ConvergenceWarning}
    abstract = {bayes_cmab.Policy}
    classes = {one for one in exported if isinstance(one, type)} - made_by_agents - abstract
    assert classes <= set(codec.CLASSES.values())


def test_arrays_come_back_with_type_shape_and_kind():
    values = [np.arange(3.0), np.zeros((0, 2)), np.array(1.5), np.array([True]), np.arange(3.0)]
    writer = codec.Writer()
    encoded = writer.encode([*values, jnp.asarray(2.0), np.float64(0.1), np.bool_(True)])
    again = codec.decode(json.loads(json.dumps(encoded)), writer.arrays())
    for one, other in zip(values, again, strict=False):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    assert isinstance(again[5], type(jnp.zeros(())))
    assert again[6:] == [0.1, True]
    assert set(writer.stacks) == {"float64-3", "float64-0-2", "float64", "bool-1"}


@pytest.mark.parametrize("value", [len, object(), {1}, np.array([None]), Path()])
def test_other_values_are_refused(value):
    with pytest.raises(codec.UnwritableError, match="expected"):
        codec.Writer().encode(value)


# Files that cannot be read, or written


def rewrite(path: Path, change) -> None:
    """Change the document in a file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["agent.json"])
    change(document)
    members["agent.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "agent"
    make().save(path)
    content = path.read_bytes()
    for length in (0, 1, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"agent: expected a file of Agent.save, got a trunc"):
            Agent.load(path)
    damaged = bytearray(content)
    damaged[200] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"expected a file of Agent\.save, got a truncated or for"):
        Agent.load(path)


def test_a_foreign_file_is_refused(tmp_path):
    path = tmp_path / "agent.npz"
    with pytest.raises(ValueError, match=r"expected a file of Agent\.save, got no such file"):
        Agent.load(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match=r"got a truncated or foreign one: .*agent\.json"):
        Agent.load(path)
    np.savez(path, a=np.array([None]))
    with pytest.raises(ValueError, match=r"foreign one: Object arrays cannot be loaded"):
        Agent.load(path)
    make().save(path)
    rewrite(path, lambda document: document.update(format="something else"))
    with pytest.raises(ValueError, match=r"agent\.json is not of the format 'bayes_cmab agent'"):
        Agent.load(path)


def set_policy(document, policy):
    document["settings"]["policy"] = policy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(schema=99), r"schema 1 to 2, got 99, written by bayes_cmab \d.*newer"),
        (lambda d: d.update(schema="1"), "expected a file of schema 1 to 2, got '1'"),
        (lambda d: d.pop("session"), r"got none of \['session'\] in it"),
        (lambda d: d["settings"].pop("seed"), "TypeError: .*missing .* 'seed'"),
        (lambda d: set_policy(d, {"$class": "system", "fields": {}}), "KeyError: 'system'"),
        (lambda d: set_policy(d, {"$function": "system"}), "KeyError: 'system'"),
        (lambda d: set_policy(d, {}), "got StopIteration"),
        (lambda d: set_policy(d, {"$code": "1"}), r"expected a value with a known tag, got '\$co"),
        (lambda d: set_policy(d, {"$class": "MAP", "fields": {"every": 0}}), "every: expected at"),
        (lambda d: set_policy(d, {"$array": ["float64-9", 0]}), "KeyError: 'float64-9'"),
    ],
)
def test_a_strange_document_is_refused(change, message, tmp_path):
    path = tmp_path / "agent"
    make().save(path)
    rewrite(path, change)
    with pytest.raises(ValueError, match=message):
        Agent.load(path)


def test_a_field_that_a_file_lacks_has_its_default(tmp_path):
    path = tmp_path / "agent"
    agent = make(policy=EmbeddingPolicy("cme_ucb"))
    agent.save(path)
    rewrite(path, lambda d: d["settings"]["policy"]["fields"].pop("moments_form"))
    assert Agent.load(path)._settings.policy == EmbeddingPolicy()


@pytest.mark.parametrize("broken", ["numpy.lib.format.write_array", "os.fsync"])
def test_a_save_that_fails_leaves_the_old_file_alone(broken, tmp_path, monkeypatch):
    path = tmp_path / "agent"
    agent = make()
    agent.save(path)
    before = path.read_bytes()
    agent.ask(0.1)

    def full(*_args, **_kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(broken, full)
    with pytest.raises(OSError, match="no space left"):
        agent.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# Versions of the schema


def test_a_file_of_schema_one_is_read():
    agent = Agent.load(FIXTURES / "agent-schema-1.zip")
    assert agent.round == 9
    assert agent.waiting == (3, 4)
    assert [int(rows.size) for rows in agent.data] == [8, 9, 6]
    assert agent.history()["event"].value_counts().to_dict() == {
        "ask": 9,
        "tell": 9,
        "abandon": 1,
        "add_outcomes": 1,
        "add_transitions": 1,
    }
    decision = agent.ask(0.25)
    assert decision.action.tolist() == EXPECTED["action"]
    assert decision.mean == pytest.approx(EXPECTED["mean"], abs=1e-8)
    assert decision.standard_deviation == pytest.approx(EXPECTED["sd"], abs=1e-8)


EXPECTED = {"action": [0.5], "mean": 1.0864829677403032, "sd": 0.27762811839725443}
"""What the agent in that fixture decided next when it was saved."""


def test_a_damaged_file_of_schema_one_is_refused(tmp_path):
    path = tmp_path / "agent"
    shutil.copy(FIXTURES / "agent-schema-1.zip", path)
    rewrite(path, lambda document: document["settings"].pop("columns"))
    with pytest.raises(ValueError, match=r"Agent\.save of schema 1, got KeyError: 'columns'"):
        Agent.load(path)


def of_schema_one(document) -> None:
    """Turn a document of an agent of numbers, without a box, into one of schema 1, in place."""
    settings = document["settings"]
    columns = settings.pop("columns")["fields"]
    settings |= {"columns": columns["names"], "named": columns["named"]}
    settings["dim_context"] = len(settings.pop("contexts")["fields"]["names"]["$tuple"])
    assert settings.pop("box") is None
    document["schema"] = 1
    inferred = document["session"]["fields"]["state"]["fields"]["inferred"]
    if inferred is not None:
        fields = inferred["fields"]["draws"]["fields"]
        fields |= fields.pop("programs")["$dict"]
        assert set(fields) == {"reward", "embedding", "lengthscale"}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"dim_context": 0, "scales": None}, marks=pytest.mark.slow),
        {"actions": pd.DataFrame({"dose": ACTIONS})},
        pytest.param({"inference": SAMPLER, "gate": LENIENT}, marks=pytest.mark.slow),
    ],
    ids=["no context", "named", "draws"],
)
def test_what_schema_one_could_hold_is_read(options, tmp_path):
    path = tmp_path / "agent"
    agent = make(clock=Clock(), **options)
    context = () if "dim_context" in options else (0.3,)
    for r in (0.1, 0.5):
        agent.tell(agent.ask(*context).ticket, intermediate=r, outcome=r)
    agent.save(path)
    rewrite(path, of_schema_one)
    loaded = Agent.load(path)
    assert repr(loaded._settings) == repr(agent._settings)
    table = agent.score(*context)
    pd.testing.assert_frame_equal(loaded.score(*context), table, check_exact=True)


def test_draws_of_schema_one_are_put_in_order_by_program():
    old = {"reward": "f", "embedding": ["P"], "lengthscale": {"$jax": ["float64-1", 0]}}
    inner = {"$class": "HyperparameterDraws", "fields": dict(old)}
    settings = {"columns": {"$tuple": ["x", "y"]}, "named": True, "dim_context": 1, "seed": 3}
    document = {"schema": 1, "settings": settings, "session": [1, {"draws": inner}]}
    new = persistence.MIGRATIONS[1](document)
    (_, state) = new["session"]
    assert list(state["draws"]["fields"]["programs"]["$dict"]) == ["reward", "embedding"]
    assert state["draws"]["fields"]["lengthscale"] == old["lengthscale"]
    assert inner["fields"] == old  # the old document is left alone
    assert codec.decode(new["settings"]["columns"], {}) == Columns(("x", "y"), (None, None), True)
    assert codec.decode(new["settings"]["contexts"], {}) == Columns(("context_0",), (None,))
    assert (new["settings"]["box"], new["settings"]["seed"], new["schema"]) == (None, 3, 2)


def test_a_file_of_schema_two_is_read():
    agent = Agent.load(FIXTURES / "agent-schema-2.zip")
    assert agent.round == 9
    assert agent.waiting == (0, 3, 6)
    assert [int(rows.size) for rows in agent.data] == [11, 6, 6]
    assert agent._settings.columns.levels == (("blue", "red"), (1, 2, 3, 4.5), (False, True))
    asks = agent.history().query("event == 'ask'")
    assert asks["action"].iloc[7].tolist() == ["blue", 4.5, True]
    assert asks["context"].iloc[8].tolist() == [pytest.approx(34.829999, abs=1e-6), "other"]
    decision = agent.ask({"device": "other", "age": 33.0})
    assert decision.action.tolist() == EXPECTED_TWO["action"]
    assert decision.mean == pytest.approx(EXPECTED_TWO["mean"], abs=1e-8)
    assert decision.standard_deviation == pytest.approx(EXPECTED_TWO["sd"], abs=1e-8)


EXPECTED_TWO = {
    "action": ["red", 1, True],
    "mean": -0.7662217518263401,
    "sd": 1.0578146871005654,
}
"""What the agent in that fixture decided next when it was saved."""


def test_older_files_go_through_every_migration(tmp_path, monkeypatch):
    path = tmp_path / "agent"
    agent = make(seed=7)
    play(agent, 3, 0)
    agent.save(path)
    applied = []

    def to_three(document):
        applied.append(3)
        return document | {"settings": document["settings"] | {"speed": 1}}

    def to_four(document):
        applied.append(4)
        assert document["settings"].pop("speed") == 1
        return document

    monkeypatch.setattr(persistence, "MIGRATIONS", {2: to_three, 3: to_four})
    monkeypatch.setattr(persistence, "SCHEMA", 4)
    loaded = Agent.load(path)
    assert applied == [3, 4]
    assert_same(agent, loaded)
    loaded.save(path)
    assert_same(agent, Agent.load(path))
    assert applied == [3, 4]


def test_there_is_a_migration_from_every_older_schema():
    assert sorted(persistence.MIGRATIONS) == list(range(1, persistence.SCHEMA))


def make_fixture() -> None:
    """Write the fixture of the schema, once for each: an older one is never written again."""
    agent = offering_adverts(seed=11, clock=Clock())
    agent.add_transitions(VISITORS, ADVERTS[:2], [0.2, 0.4])
    show_adverts(agent, 9, 5)
    agent.save(FIXTURES / f"agent-schema-{persistence.SCHEMA}.zip")
