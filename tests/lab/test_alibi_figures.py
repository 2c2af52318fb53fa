r"""What the explorables of ALiBi draw, against the method."""

import pytest

from posenc import alibi
from posenc.lab.figures import alibi as figures


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


@pytest.mark.parametrize("heads, head, query", [(8, 1, 127), (8, 4, 127), (12, 9, 55), (16, 16, 23)])
def test_what_the_hand_holds_lies_on_the_head_s_line(heads, head, query):
    figure, readouts = figures.decay.fn(heads=heads, head=head, query=query)
    slope = alibi.slopes(heads)[head - 1].item()
    held = traces(figure)["end of this head's line"]
    assert held["y"][0] == pytest.approx(-slope * (query - held["x"][0]), rel=1e-6)
    assert held["y"][0] >= figures.EDGE - 1e-9 and readouts["slope"] == pytest.approx(slope)


def test_the_steepest_and_the_mildest_slope_are_named_and_the_names_do_not_meet():
    for heads in figures.decay.sliders["heads"].values:
        lines = traces(figures.decay.fn(heads=heads, head=1, query=127)[0])
        names, own = lines["slopes"], lines["end of this head's line"]
        m = alibi.slopes(heads)
        assert figures._slope(m[0].item()) in own["text"][0] and figures._slope(m[0].item()) not in names["text"]
        assert names["text"][0] == figures._slope(m[-1].item())
        places = list(zip([*own["x"], *names["x"]], [*own["y"], *names["y"]]))
        for n, (x, y) in enumerate(places):
            assert all(abs(x - a) > 13 or abs(y - b) > 1.9 for a, b in places[:n])


def test_the_window_holds_95_percent_of_equal_logits():
    lines = traces(figures.decay.fn(heads=8, head=4, query=127)[0])
    weights = 10 ** lines["equal logits"]["y"][-1]  # of the query itself; the rest is geometric
    first, last = lines["95% of the weight"]["x"]
    ratio = 2.718281828 ** -alibi.slopes(8)[3].item()
    held = sum(weights * ratio**distance for distance in range(last - first + 1))
    assert 0.95 <= held < 0.96
