"""Files of agents that cannot be read, or written."""

import numpy as np
import pytest
from agent_files import rewrite
from live_agents import make

from bayes_cmab import Agent, EmbeddingPolicy, RewardModel

CONSTANT_FREE = RewardModel(integrated_mean=False)


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
        (lambda d: d.update(schema=3, versions=[]), "got 3, written by bayes_cmab unknown"),
        (lambda d: d.update(settings=[]), "got one without settings"),
        (lambda d: d["settings"].update(actions=[1]), "AttributeError: 'list' object has no"),
        (lambda d: d["settings"].update(seed="x"), "seed: expected a whole number"),
        (lambda d: d["settings"].pop("seed"), "TypeError: .*missing .* 'seed'"),
        (lambda d: set_policy(d, {"$class": "system", "fields": {}}), "KeyError: 'system'"),
        (lambda d: set_policy(d, {"$function": "system"}), "KeyError: 'system'"),
        (lambda d: set_policy(d, {}), "got StopIteration"),
        (lambda d: set_policy(d, {"$code": "1"}), r"expected a value with a known tag, got '\$co"),
        (
            lambda d: set_policy(d, {"$class": "MAP", "fields": {"every": 0}}),
            "every: expected a whole",
        ),
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
    agent = make(policy=EmbeddingPolicy("proposition", reward=CONSTANT_FREE))
    agent.save(path)
    rewrite(path, lambda d: d["settings"]["policy"]["fields"].pop("moments_form"))
    assert Agent.load(path)._settings.policy == EmbeddingPolicy(reward=CONSTANT_FREE)


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
