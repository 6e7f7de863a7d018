"""The package: its example runs, its exports exist, and its import stays light."""

import doctest
import subprocess
import sys

import bayes_cmab


def test_the_example_of_the_package_runs():
    result = doctest.testmod(bayes_cmab)
    assert result.attempted == 5
    assert result.failed == 0


def test_the_package_lists_what_it_exports():
    names = bayes_cmab.__all__
    assert names == sorted(names, key=lambda n: (not n.isupper(), n))
    assert all(hasattr(bayes_cmab, name) for name in names)


def test_importing_the_package_loads_neither_arviz_nor_pandas():
    code = "import sys, bayes_cmab; print({'arviz', 'pandas'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.stdout.strip() == "set()", loaded.stderr
