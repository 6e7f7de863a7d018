"""Figures: their panels, lines, labels and files; how they look was judged by eye."""

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from scipy import stats

from bayes_cmab.curves import curves
from bayes_cmab.plot_style import COLOURS, LINES, line_style
from bayes_cmab.plots import FORMATS, plot_cumulative, plot_curves, plot_regret, save_figures
from bayes_cmab.registry import INFERENCES, POLICIES, agent_names
from bayes_cmab.summary import tail_interval
from bayes_cmab.sweep import Cell

AGENTS = ("cbmp-fixed", "cbmp-map", "gp-map", "random", "oracle")


def results(settings=("A", "C"), offline=(0, 50), agents=AGENTS, betas=(0.25,), trials=4):
    rng = np.random.default_rng(0)
    axes = ("trial", "round")
    return {
        Cell(setting, size, agent, beta): xr.Dataset(
            {
                "outcome": (axes, rng.normal(size=(trials, 6))),
                "mean_reward": (axes, rng.normal(size=(trials, 6))),
                "best_mean_reward": (axes, np.full((trials, 6), 3.0)),
            },
            coords={"trial": np.arange(trials)},
        )
        for setting in settings
        for size in offline
        for agent in agents
        for beta in (betas if "-" in agent else betas[:1])
    }


def curves_of(axis):
    return [line for line in axis.lines if line.get_marker() == "None"]


def labels(axis):
    return [line.get_label() for line in curves_of(axis)]


def test_one_panel_for_each_setting_and_offline_size():
    figure = plot_cumulative(results())
    assert isinstance(figure, Figure)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == [f"Setting {s}, $m$ = {m}" for s in "AC" for m in (0, 50)]
    expected = ["CBMP-UCB, fixed", "CBMP-UCB, map", "GP-UCB, map", "Random", "Oracle"]
    for axis in figure.axes:
        assert labels(axis) == expected
    assert [text.get_text() for text in figure.legends[0].get_texts()] == expected


def test_axes_say_what_they_show_and_only_at_the_border():
    figure = plot_cumulative(results())
    assert [axis.get_xlabel() for axis in figure.axes] == ["", "", "round", "round"]
    assert [axis.get_ylabel() for axis in figure.axes] == ["cumulative outcome", ""] * 2
    assert (
        figure.legends[0].get_title().get_text()
        == "mean of 4 trials; bars: 95% intervals at the end"
    )
    for axis in figure.axes:
        assert not axis.spines["top"].get_visible()
        assert not axis.spines["right"].get_visible()


def test_exploration_weights_get_panels_of_their_own():
    figure = plot_cumulative(results(("C",), (50,), betas=(0.25, 4.0)))
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == [rf"Setting C, $m$ = 50, $\beta$ = {beta}" for beta in ("0.25", "4")]
    for axis in figure.axes:
        assert len(curves_of(axis)) == len(AGENTS)  # those that do not explore are in every panel


def test_curves_are_those_of_the_data():
    one = results(("C",), (0,), ("gp-map",))
    data = next(iter(one.values()))
    total = np.cumsum(data["outcome"].values, axis=1)
    regret = np.cumsum((data["best_mean_reward"] - data["mean_reward"]).values, axis=1)
    for figure, expected in (
        (plot_cumulative(one), total.mean(axis=0)),
        (plot_cumulative(one, "quantile"), np.quantile(total, 0.05, axis=0)),
        (plot_regret(one), regret.mean(axis=0)),
    ):
        line = figure.axes[0].lines[0]
        np.testing.assert_array_equal(line.get_xdata(), np.arange(7))
        np.testing.assert_allclose(line.get_ydata(), [0.0, *expected], rtol=1e-12)


def bars(figure):
    """Return place, lower and upper end of the bars of the first panel."""
    drawn = [bar.get_segments()[0] for bar in figure.axes[0].collections]
    return np.array([(low[0], low[1], high[1]) for low, high in drawn])


def test_bars_beyond_the_last_round_are_the_intervals_of_the_ends():
    here = results(("C",), (0,), trials=9)
    total = np.array([data["outcome"].values.sum(axis=1) for data in here.values()])
    got = bars(plot_cumulative(here))
    assert (np.diff(got[:, 0]) > 0.0).all()
    assert (got[:, 0] > 6.0).all()
    expected = stats.t.interval(0.95, 8, total.mean(axis=1), stats.sem(total, axis=1))
    np.testing.assert_allclose(got[:, 1:].T, expected, rtol=1e-9)
    tail = bars(plot_cumulative(here, "quantile"))
    np.testing.assert_allclose(tail[:, 1:], [tail_interval(own) for own in total], rtol=1e-9)
    ends = np.quantile(total, 0.05, axis=1)
    assert (tail[:, 1] <= ends).all()
    assert (ends <= tail[:, 2]).all()
    assert len(bars(plot_regret(here))) == len(AGENTS)


def test_a_single_trial_has_no_bar_nor_a_quantile_whose_trials_are_not_given():
    assert bars(plot_cumulative(results(("C",), (0,), trials=1))).size == 0
    assert bars(plot_curves(curves(results(("C",), (0,))), "quantile")).size == 0


def test_a_legend_of_long_names_stays_inside_the_figure():
    agents = (
        *("cbmp-fixed", "cbmp-map", "cbmp-nuts", "cme-map", "varying-map", "gp-map"),
        "gaussian-map",
    )
    figure = plot_cumulative(results(agents=agents))
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0.0
    assert box.x1 <= figure.bbox.x1


def test_labels_of_the_other_figures():
    quantile = plot_cumulative(results(), "quantile")
    title = "of 4 trials; bars: 95% intervals at the end (bootstrap)"
    assert quantile.legends[0].get_title().get_text() == title
    assert quantile.axes[0].get_ylabel() == "0.05 quantile of cumulative outcome"
    assert plot_regret(results()).axes[0].get_ylabel() == "cumulative pseudo-regret"


def test_every_agent_has_a_style():
    assert set(COLOURS) == set(POLICIES)
    assert set(INFERENCES) <= set(LINES)
    styles = [tuple(map(str, line_style(name).values())) for name in agent_names()]
    assert len(set(styles)) == len(styles)


def test_colours_are_the_projects():
    # Published figures use these: a change would give one policy two colours.
    assert COLOURS["cbmp"] == "#0072B2"
    assert COLOURS["cme"] == "#D55E00"
    assert COLOURS["icme"] == "#E69F00"
    assert COLOURS["gp"] == "#009E73"
    assert COLOURS["proposition"] == "#56B4E9"
    assert COLOURS["gaussian"] == "#CC79A7"


def test_colour_says_the_policy_and_the_line_the_inference():
    first, second = line_style("cbmp-fixed"), line_style("cbmp-map")
    assert first["color"] == second["color"]
    assert first["linestyle"] != second["linestyle"]
    assert line_style("gp-map")["linestyle"] == second["linestyle"]


def test_the_references_are_grey():
    for name in ("oracle", "random"):
        red, green, blue = to_rgb(COLOURS[name])
        assert red == green == blue


def test_a_colour_does_not_depend_on_who_else_is_drawn():
    alone = plot_cumulative(results(("C",), (0,), ("gp-map",))).axes[0].lines[0]
    together = plot_cumulative(results(("C",), (0,))).axes[0].lines[2]
    assert together.get_label() == alone.get_label()
    assert together.get_color() == alone.get_color()


def test_no_setting_of_matplotlib_is_changed():
    before = dict(mpl.rcParams)
    plot_regret(results())
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("kind", FORMATS)
def test_figures_are_written_in_each_format(kind, tmp_path):
    paths = save_figures(results(("C",), (0,)), tmp_path, kind)
    assert [path.name for path in paths] == [
        f"{name}.{kind}" for name in ("cumulative", "quantile", "regret")
    ]
    assert sorted(tmp_path.iterdir()) == sorted(paths)  # nothing temporary stays
    start = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[kind]
    assert all(path.read_bytes().startswith(start) for path in paths)


def test_errors_name_the_argument(tmp_path):
    with pytest.raises(ValueError, match="statistic: expected one of 'mean', 'quantile'"):
        plot_cumulative(results(), "median")
    with pytest.raises(ValueError, match="results: expected at least one cell"):
        plot_regret({})
    with pytest.raises(ValueError, match="format: expected one of 'png'"):
        save_figures(results(), tmp_path, "bmp")
    assert not list(tmp_path.iterdir())
