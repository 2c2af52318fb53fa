r"""What the explorables of ALiBi draw, against the method."""

import pytest

from posenc import alibi
from posenc.chapters.alibi import figures


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


@pytest.mark.parametrize("heads, head, query", [(8, 1, 127), (8, 4, 127), (12, 9, 55), (16, 16, 7)])
def test_what_the_hand_holds_lies_on_the_head_s_line(heads, head, query):
    figure, readouts = figures.decay.fn(heads=heads, head=head, query=query)
    slope = alibi.slopes(heads)[head - 1].item()
    held = traces(figure)["end of this head's line"]
    assert held["y"][0] == pytest.approx(-slope * (query - held["x"][0]), rel=1e-6)
    assert held["y"][0] >= figures.EDGE - 1e-9 and readouts["slope"] == pytest.approx(slope)


def test_the_window_holds_95_percent_of_equal_logits():
    lines = traces(figures.decay.fn(heads=8, head=4, query=127)[0])
    weights = 10 ** lines["equal logits"]["y"][-1]  # of the query itself; the rest is geometric
    first, last = lines["95% of the weight"]["x"]
    ratio = 2.718281828 ** -alibi.slopes(8)[3].item()
    held = sum(weights * ratio**distance for distance in range(last - first + 1))
    assert 0.95 <= held < 0.96
