"""What the explorables of CoPE show, against sums in plain loops."""

import pytest

from posenc.chapters.cope import figures


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


def by_loops(gates, query):
    return [sum(gates[j : query + 1]) for j in range(query + 1)]


@pytest.mark.parametrize("preset", figures.PRESETS)
@pytest.mark.parametrize("query, token, gate", [(11, 8, 0.5), (5, 0, 0.25), (11, 11, 0.0), (4, 9, 1.0)])
def test_positions_are_sums_of_the_gates_that_are_drawn(preset, query, token, gate):
    figure, _ = figures._gates(preset, query, token, gate)
    lines = traces(figure)
    expected = by_loops(lines["gate"]["y"], query)
    assert lines["gate"]["y"][token] == gate
    assert lines["position p of each key"]["y"].tolist() == pytest.approx(expected)
