r"""What an argument is when it is left out, as the docstrings say: a changed default changes what models compute."""

import pytest
import torch

import posenc
from posenc import rope

far = torch.tensor([0, 1, 2, 9, 40, 90, 130, 600])
lanes = torch.linspace(-1, 1, 64).reshape(8, 8)
half = torch.tensor([0.5])
scores = torch.linspace(-2, 2, 25).reshape(5, 5)
seen = torch.ones(5, 5, dtype=torch.bool).tril()
lists = dict(short=half, long=half, length=1, trained=9)


def swing(length):
    return rope.inv_freq(8) / length, 1.0


DEFAULTS = """
sinusoidal.table(far, 8) == sinusoidal.table(far, 8, base=10000.0, layout="interleaved")
sinusoidal.sinusoidal() == sinusoidal.sinusoidal(10000.0, layout="interleaved", volume=1.0)
learned.resize(lanes, 9) == learned.resize(lanes, 9, mode="linear", prefix=0)
learned.learned(999, 8) == learned.learned(999, 8, embed_at="input", std=0.02)
alibi.bias(far, far, half) == alibi.bias(far, far, half, symmetric=False)
alibi.alibi(4) == alibi.alibi(4, symmetric=False, learned=False)
rope.inv_freq(8) == rope.inv_freq(8, base=10000.0, dtype=torch.float32)
rope.rotate(lanes, far, half) == rope.rotate(lanes, far, half, layout="interleaved", attention_factor=1.0)
rope.rope(8) == rope.rope(8, 10000.0, layout="interleaved", attention_factor=1.0, values=False)
rope.rope(8) == rope.rope(8, rotary_dim=8)
rope.rope(8, rotary_dim=4) == rope.rope(8, 10000.0, rotary_dim=4, proportional=False)
rope.xpos(8) == rope.xpos(8, 10000.0, gamma=0.4, scale_base=512.0, layout="interleaved", center=True)
shaw.shaw(8) == shaw.shaw(8, 16, values=False)
t5.bucket(far) == t5.bucket(far, num_buckets=32, max_distance=128, bidirectional=True)
t5.t5(4) == t5.t5(4, num_buckets=32, max_distance=128, bidirectional=False)
transformer_xl.transformer_xl(4, 8) == transformer_xl.transformer_xl(4, 8, 32, base=10000.0)
kerple.kerple(4) == kerple.kerple(4, form="log")
fire.fire(4) == fire.fire(4, hidden=32, threshold=512.0)
scaling.linear(8, 2) == scaling.linear(8, 2, base=10000.0)
scaling.ntk(8, 2) == scaling.ntk(8, 2, base=10000.0)
scaling.dynamic_ntk(8, length=20, trained=9) == scaling.dynamic_ntk(8, 1.0, length=20, trained=9, base=10000.0)
scaling.yarn(64, 4, trained=999) == scaling.yarn(64, 4, trained=999, base=10000.0, ramp="lanes", alpha=1.0, beta=32.0)
scaling.correction_lanes(128, trained=4096) == (20, 46)
scaling.correction_lanes(2**20, trained=4096) == scaling.correction_lanes(2**20, trained=4096, base=10000.0)
scaling.correction_lanes(2**20, trained=4096) == scaling.correction_lanes(2**20, trained=4096, alpha=1.0, beta=32.0)
scaling.correction_lanes(8, trained=1000, base=2.0) == (9, 7)
scaling.llama3(64) == scaling.llama3(64, 8.0, trained=8192, low=1.0, high=4.0, base=500000.0)
scaling.longrope(2, 2, **lists) == scaling.longrope(2, 2, **lists, base=10000.0)
scaling.dynamic(8, swing) == scaling.dynamic(8, swing, layout="interleaved")
stickbreaking.weigh(scores, seen) == stickbreaking.weigh(scores, seen, order="recent", return_remainder=False)
stickbreaking.stickbreaking() == stickbreaking.stickbreaking(order="recent", attend_current=False, remainder="drop")
exposb.gain(far) == exposb.gain(far, rates=0.001, boost=0.2)
exposb.band(8) == exposb.band(8, per_pair=False)
exposb.fade(far) == exposb.fade(far, rate=0.005, floor=0.7)
exposb.hazard(scores, seen) == exposb.hazard(scores, seen, rate=0.0)
exposb.exposb(8, 4) == exposb.exposb(8, 4, gain=True, band=True, decay=True, on="logits", per_pair=False, rate=0.005)
exposb.exposb(8, 4) == exposb.exposb(8, 4, learn_rate=False, base=10000.0, boost=0.2, floor=0.7)
rse.penalty() == rse.penalty(0.01)
rse.rse(8) == rse.rse(8, 10000.0, rate=0.01, order="first", rotation=True, penalty=True, stick=True)
"""


def outcome(call):
    """What a call returns; of an encoding, what attention with it (and its embedding) returns."""
    torch.manual_seed(0)
    made = eval(call, vars(posenc) | globals())
    if not isinstance(made, posenc.Encoding):
        return made
    x = torch.randn(4, 8, 8).double()
    if made.embed is not None:
        return made.embed(x, far)
    return posenc.attention(*x.expand(3, 1, 4, 8, 8).unbind(), made.double(), pos_q=far)


@pytest.mark.parametrize("line", DEFAULTS.strip().split("\n"), ids=range(DEFAULTS.count("\n") - 1))
def test_what_is_left_out_is_what_the_docstring_says(line):
    short, long = line.split(" == ")
    torch.testing.assert_close(outcome(short), outcome(long), rtol=0, atol=0)
