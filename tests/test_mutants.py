r"""What mutation testing found untested: whole messages, another device, what the kernels are told, edges of ranges."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from cases import DIM, NAMES, encoding

import posenc
from posenc import SelfAttention, alibi, attention, exposb, rse, sinusoidal, t5

q = torch.randn(2, 4, 5, 8)
at = torch.arange(5)
half = torch.tensor([0.5])
whole = torch.ones(2, 5, 8, dtype=torch.long)
scores = torch.randn(5, 5)
seen = torch.ones(5, 5, dtype=torch.bool).tril()
lists = dict(short=half, long=half, length=1, trained=9)
layer = SelfAttention(8, 2)

# A wrong call -> all that its error says: the argument under its own name, its value and what would be right.
MESSAGES = """
sinusoidal.table([1], 8) -> positions must be a tensor of shape [T] or [B, T], got list: [1]
sinusoidal.table(at, 0) -> dim=0 must be at least 2
sinusoidal.table(at, 8, base=0) -> base=0 must be greater than 0
sinusoidal.table(at, 8, layout=0) -> layout=0 is not known; choose one of 'interleaved', 'concatenated'.
sinusoidal.sinusoidal(base=0) -> base=0 must be greater than 0
sinusoidal.sinusoidal(layout=0) -> layout=0 is not known; choose one of 'interleaved', 'concatenated'.
sinusoidal.sinusoidal(volume=None) -> volume=None must be a number, got NoneType
sinusoidal.sinusoidal(embed_at=0) -> embed_at=0 is not known; choose one of 'input', 'layer_qk', 'layer_qkv'.
sinusoidal.sinusoidal().embed([1], at) -> x must be a tensor of shape [B, T, C], got list: [1]
sinusoidal.sinusoidal().embed(whole, at) -> x must hold floating-point numbers, got torch.int64
sinusoidal.sinusoidal().embed(q, at) -> x must be a tensor of shape [B, T, C], got shape [2, 4, 5, 8]
sinusoidal.sinusoidal().embed(q[0], at.expand(3, 5)) -> positions [3, 5] must be [T] or [B, T] of x, [4, 5]
learned.resize([1], 2) -> table must be a tensor of shape [N, C], got list: [1]
learned.resize(q[0, 0], 2, prefix=-1) -> prefix=-1 must be at least 0
learned.resize(q[0, 0], 2, prefix=2) -> length=2 must be at least 3
learned.resize(q[0, 0], 2, "cubic") -> mode='cubic' is not known; choose one of 'linear', 'nearest'.
learned.learned(9, 8).embed([1], at) -> x must be a tensor of shape [B, T, 8], got list: [1]
learned.learned(0, 8) -> max_positions=0 must be at least 1
learned.learned(9, 0) -> dim=0 must be at least 1
learned.learned(9, 8, std=-1) -> std=-1 must be at least 0
learned.learned(9, 8).embed(whole, at) -> x must hold floating-point numbers, got torch.int64
learned.learned(9, 8).embed(q, at) -> x must be a tensor of shape [B, T, 8], got shape [2, 4, 5, 8]
learned.learned(9, 8).embed(q[0, ..., :7], at) -> dim=8 of this table must equal the width of x, [4, 5, 7]
learned.learned(9, 8).embed(q[0], at.expand(3, 5)) -> positions [3, 5] must be [T] or [B, T] of x, [4, 5]
learned.resize(whole[0], 2) -> table must hold floating-point numbers, got torch.int64
learned.resize(q, 2) -> table must be a tensor of shape [N, C], got shape [2, 4, 5, 8]
learned.resize(q[0, 0], 9, prefix=5) -> prefix=5 leaves none of the 5 rows of table to resize
alibi.slopes(0) -> num_heads=0 must be at least 1
alibi.bias([1], at, half) -> pos_q must be a tensor of shape [T] or [B, T], got list: [1]
alibi.bias(at, [1], half) -> pos_k must be a tensor of shape [T] or [B, T], got list: [1]
alibi.bias(at, at, [1]) -> slopes must be a tensor of shape [H], got list: [1]
alibi.bias(at, at, half, symmetric=1) -> symmetric=1 must be True or False, got int
alibi.alibi(2, symmetric=1) -> symmetric=1 must be True or False, got int
alibi.alibi(2, learned=1) -> learned=1 must be True or False, got int
alibi.bias(at, at, at) -> slopes must hold floating-point numbers, got torch.int64
alibi.bias(at, at, half[None]) -> slopes must be a tensor of shape [H], got shape [1, 1]
rope.inv_freq(0) -> dim=0 must be at least 2
rope.inv_freq(8, 0) -> base=0 must be greater than 0
rope.rotate([1], at, half) -> x must be a tensor of shape [..., T, D], got list: [1]
rope.rotate(q, [1], half) -> positions must be a tensor of shape [T] or [B, T], got list: [1]
rope.rotate(q, at, [1]) -> inv_freq must be a tensor of shape [p/2], got list: [1]
rope.rotate(q, at, half, layout=0) -> layout=0 is not known; choose one of 'interleaved', 'half'.
rope.rotate(q, at, half, attention_factor=0) -> attention_factor=0 must be greater than 0
rope.rope(0) -> head_dim=0 must be at least 2
rope.rope(8, layout=0) -> layout=0 is not known; choose one of 'interleaved', 'half'.
rope.rope(8, proportional=0) -> proportional=0 must be True or False, got int
rope.rope(8, rotary_dim=0) -> rotary_dim=0 must be at least 2
rope.rope(8, base=0) -> base=0 must be greater than 0
rope.rope(8, attention_factor=0) -> attention_factor=0 must be greater than 0
rope.rope(8, inv_freq=[1]) -> inv_freq must be a tensor of shape [p/2], got list: [1]
rope.xpos(0) -> head_dim=0 must be at least 2
rope.xpos(8, base=0) -> base=0 must be greater than 0
rope.xpos(8, gamma=0) -> gamma=0 must be greater than 0
rope.xpos(8, scale_base=0) -> scale_base=0 must be greater than 0
rope.xpos(8, layout=0) -> layout=0 is not known; choose one of 'interleaved', 'half'.
rope.xpos(8, center=0) -> center=0 must be True or False, got int
rope.rotate(whole, at, half) -> x must hold floating-point numbers, got torch.int64
rope.rotate(q, at, at) -> inv_freq must hold floating-point numbers, got torch.int64
rope.rotate(q, at, half[None]) -> inv_freq must be a tensor of shape [p/2], got shape [1, 1]
rope.rope(8, inv_freq=at) -> inv_freq must hold floating-point numbers, got torch.int64
rope.rope(8, inv_freq=half[None]) -> inv_freq must be a tensor of shape [p/2], got shape [1, 1]
shaw.shaw(0) -> head_dim=0 must be at least 1
shaw.shaw(8, clip=0) -> clip=0 must be at least 1
shaw.shaw(8, values=0) -> values=0 must be True or False, got int
t5.bucket([1]) -> relative must be a tensor of shape any shape, of integers, got list: [1]
t5.bucket(at, bidirectional=0) -> bidirectional=0 must be True or False, got int
t5.bucket(at, 2) -> num_buckets=2 must be at least 4
t5.bucket(at, 0, bidirectional=False) -> num_buckets=0 must be at least 2
t5.bucket(at, 8, 2) -> max_distance=2 must be at least 3
t5.t5(0) -> num_heads=0 must be at least 1
t5.bucket(q) -> relative must hold integers, got torch.float32
transformer_xl.shift([1]) -> x must be a tensor of shape [..., Tq, Tk], got list: [1]
transformer_xl.transformer_xl(0, 8) -> num_heads=0 must be at least 1
transformer_xl.transformer_xl(4, 0) -> head_dim=0 must be at least 1
transformer_xl.transformer_xl(4, 8, dim=0) -> dim=0 must be at least 2
transformer_xl.transformer_xl(4, 8, base=0) -> base=0 must be greater than 0
transformer_xl.shift(whole) -> x must hold floating-point numbers, got torch.int64
transformer_xl.shift(half) -> x must have shape [..., Tq, Tk], got [1]
kerple.kerple(0) -> num_heads=0 must be at least 1
kerple.kerple(4, form=0) -> form=0 is not known; choose one of 'log', 'power'.
fire.fire(0) -> num_heads=0 must be at least 1
fire.fire(4, hidden=0) -> hidden=0 must be at least 1
fire.fire(4, threshold=0) -> threshold=0 must be greater than 0
scaling.linear(8, 0) -> factor=0 must be at least 1
scaling.linear(0, 2) -> dim=0 must be at least 2
scaling.ntk(2, 2) -> dim=2 must be at least 4
scaling.ntk(8, 0) -> factor=0 must be at least 1
scaling.ntk(8, 2, base=0) -> base=0 must be greater than 0
scaling.dynamic_ntk(8, 0, length=9, trained=9) -> factor=0 must be at least 1
scaling.dynamic_ntk(8, 2, length=-1, trained=9) -> length=-1 must be at least 0
scaling.dynamic_ntk(8, 2, length=9, trained=0) -> trained=0 must be greater than 0
scaling.yarn(8, 2, trained=9, ramp=0) -> ramp=0 is not known; choose one of 'lanes', 'rotations'.
scaling.yarn(8, 0, trained=9) -> factor=0 must be at least 1
scaling.yarn(8, 0, trained=9, attention_factor=1.0) -> factor=0 must be at least 1
scaling.yarn(8, 2, trained=9, attention_factor=0) -> attention_factor=0 must be greater than 0
scaling.yarn(8, 2, trained=0, ramp="rotations") -> trained=0 must be greater than 0
scaling.yarn(8, 2, trained=9, ramp="rotations", alpha=0) -> alpha=0 must be greater than 0
scaling.yarn(8, 2, trained=9, ramp="rotations", beta=0) -> beta=0 must be greater than 0
scaling.correction_lanes(0, trained=9) -> dim=0 must be at least 2
scaling.correction_lanes(8, trained=0) -> trained=0 must be greater than 0
scaling.correction_lanes(8, trained=9, base=1) -> base=1 must be greater than 1
scaling.correction_lanes(8, trained=9, alpha=0) -> alpha=0 must be greater than 0
scaling.correction_lanes(8, trained=9, beta=0) -> beta=0 must be greater than 0
scaling.correction_lanes(8, trained=9, alpha=2, beta=2) -> alpha=2 must be below beta=2
scaling.llama3(8, low=0) -> low=0 must be greater than 0
scaling.llama3(8, high=0) -> high=0 must be greater than 0
scaling.longrope(2, 0, **lists) -> factor=0 must be at least 1
scaling.longrope(2, 2, **lists | dict(length=-1)) -> length=-1 must be at least 0
scaling.longrope(2, 2, **lists | dict(trained=1)) -> trained=1 must be greater than 1
scaling.longrope(2, 2, **lists, attention_factor=0) -> attention_factor=0 must be greater than 0
scaling.longrope(2, 2, **lists | dict(short=1)) -> short must be a tensor of shape [1], got int: 1
scaling.longrope(2, 2, **lists | dict(long=1)) -> long must be a tensor of shape [1], got int: 1
scaling.dynamic(0, len) -> head_dim=0 must be at least 2
scaling.dynamic(8, len, layout=0) -> layout=0 is not known; choose one of 'interleaved', 'half'.
scaling.dynamic(8, lambda length: ([1], 1.0)) -> scheme(length=1)[0] must be a tensor of shape [p/2], got list: [1]
scaling.longrope(2, 2, **lists | dict(short=at[:1])) -> short must hold floating-point numbers, got torch.int64
scaling.longrope(2, 2, **lists | dict(short=half[None])) -> short must be a tensor of shape [1], got shape [1, 1]
scaling.dynamic(8, lambda length: (at, 1.0)) -> scheme(length=1)[0] must hold floating-point numbers, got torch.int64
scaling.dynamic(8, lambda length: (q, 1)) -> scheme(length=1)[0] must be a tensor of shape [p/2], got shape [2, 4, 5, 8]
stickbreaking.weigh([1], seen) -> scores must be a tensor of shape [..., Tq, Tk], got list: [1]
stickbreaking.weigh(scores, seen, order=0) -> order=0 is not known; choose one of 'recent', 'first'.
stickbreaking.weigh(scores, seen, return_remainder=0) -> return_remainder=0 must be True or False, got int
stickbreaking.stickbreaking(order=0) -> order=0 is not known; choose one of 'recent', 'first'.
stickbreaking.stickbreaking(attend_current=0) -> attend_current=0 must be True or False, got int
stickbreaking.stickbreaking(remainder=0) -> remainder=0 is not known; choose one of 'drop', 'current'.
stickbreaking.weigh(whole, seen) -> scores must hold floating-point numbers, got torch.int64
stickbreaking.weigh(half, seen) -> scores must have shape [..., Tq, Tk], got [1]
stickbreaking.weigh(scores, [1]) -> visible must be a bool tensor, got list
exposb.gain([1]) -> positions must be a tensor of shape [T] or [B, T], got list: [1]
exposb.gain(at, rates=-1) -> rates=-1 must be at least 0
exposb.gain(at, rates=at) -> rates must hold floating-point numbers, got torch.int64
exposb.gain(at, boost=None) -> boost=None must be a number, got NoneType
exposb.band(0) -> head_dim=0 must be at least 2
exposb.band(8, per_pair=0) -> per_pair=0 must be True or False, got int
exposb.fade([1]) -> distance must be a tensor, got list: [1]
exposb.fade(at, rate=-1) -> rate=-1 must be at least 0
exposb.fade(at, floor=-1) -> floor=-1 must be at least 0
exposb.hazard(scores, seen, rate=-1) -> rate=-1 must be at least 0
exposb.exposb(0, 4) -> head_dim=0 must be at least 2
exposb.exposb(8, 0) -> num_heads=0 must be at least 1
exposb.exposb(8, 4, gain=0) -> gain=0 must be True or False, got int
exposb.exposb(8, 4, band=0) -> band=0 must be True or False, got int
exposb.exposb(8, 4, decay=0) -> decay=0 must be True or False, got int
exposb.exposb(8, 4, learn_rate=0) -> learn_rate=0 must be True or False, got int
exposb.exposb(8, 4, on=0) -> on=0 is not known; choose one of 'logits', 'weights', 'log'.
exposb.exposb(8, 4, per_pair=0) -> per_pair=0 must be True or False, got int
exposb.exposb(8, 4, rate=-1) -> rate=-1 must be at least 0
exposb.exposb(8, 4, boost=None) -> boost=None must be a number, got NoneType
exposb.exposb(8, 4, floor=0) -> floor=0 must be greater than 0
exposb.exposb(8, 4, base=0) -> base=0 must be greater than 0
exposb.hazard([1], seen) -> scores must be a tensor of shape [..., Tq, Tk], got list: [1]
rse.penalty(0) -> rate=0 must be greater than 0
rse.rse(0) -> head_dim=0 must be at least 2
rse.rse(8, order=0) -> order=0 is not known; choose one of 'recent', 'first'.
rse.rse(8, rotation=0) -> rotation=0 must be True or False, got int
rse.rse(8, penalty=0) -> penalty=0 must be True or False, got int
rse.rse(8, stick=0) -> stick=0 must be True or False, got int
rse.rse(8, rate=0) -> rate=0 must be greater than 0
Encoding(embed_at=0) -> embed_at=0 is not known; choose one of 'input', 'layer_qk', 'layer_qkv'.
Encoding(axes=0) -> axes=0 must be at least 1
attention([1], q, q) -> q must be a tensor of shape [B, H, T, D], got list: [1]
attention(q, [1], q) -> k must be a tensor of shape [B, H, T, D], got list: [1]
attention(q, q, [1]) -> v must be a tensor of shape [B, H, T, D], got list: [1]
attention(q, q, q, pos_q=[1]) -> pos_q must be a tensor of shape [5] or [2, 5], got list: [1]
attention(q, q, q, pos_q=at, pos_k=[1]) -> pos_k must be a tensor of shape [5] or [2, 5], got list: [1]
attention(q, q, q, causal=0) -> causal=0 must be True or False, got int
attention(q, q, q, scale=None, return_weights=0) -> return_weights=0 must be True or False, got int
attention(q, q, q, scale="1") -> scale='1' must be a number, got str
attention(q, q, q, gates=[1]) -> gates must be a tensor of shape [B, H, Tk], got list: [1]
attention(q, q, q, impl=0) -> impl=0 is not known; choose one of 'auto', 'torch', 'sdpa', 'triton'.
attention(q.long(), q, q) -> q must hold floating-point numbers, got torch.int64
attention(q[0], q, q) -> q must be a tensor of shape [B, H, T, D], got shape [4, 5, 8]
attention(q, q, q, gates=whole) -> gates must hold floating-point numbers, got torch.int64
attention(q, q, q, gates=q) -> gates must be a tensor of shape [B, H, Tk], got shape [2, 4, 5, 8]
attention(q, q, q, mask=[1]) -> mask must be a bool tensor of shape [5, 5], or broadcast to [2, 1, 5, 5], got list: [1]
attention(q, q, q, [1]) -> encoding=[1] must be an Encoding or None, got list; posenc.make(name, ...) makes one
explain_impl(impl=0) -> impl=0 is not known; choose one of 'auto', 'torch', 'sdpa', 'triton'.
explain_impl(head_dim=0) -> head_dim=0 must be at least 1
explain_impl([1]) -> encoding=[1] must be an Encoding or None, got list; posenc.make(name, ...) makes one
SelfAttention(0, 2) -> dim=0 must be at least 1
SelfAttention(8, 0) -> num_heads=0 must be at least 1
SelfAttention(8, 2, head_dim=0) -> head_dim=0 must be at least 1
SelfAttention(8, 2, num_kv_heads=0) -> num_kv_heads=0 must be at least 1
SelfAttention(8, 2, causal=0) -> causal=0 must be True or False, got int
SelfAttention(8, 2, bias=0) -> bias=0 must be True or False, got int
SelfAttention(8, 2, scale="1") -> scale='1' must be a number, got str
SelfAttention(8, 2, impl=0) -> impl=0 is not known; choose one of 'auto', 'torch', 'sdpa', 'triton'.
layer([1]) -> x must be a tensor of shape [B, T, 8], got list: [1]
layer(q[0], positions=[1]) -> positions must be a tensor of shape [5] or [4, 5], got list: [1]
layer(whole) -> x must hold floating-point numbers, got torch.int64
layer(q) -> x must be a tensor of shape [B, T, 8], got shape [2, 4, 5, 8]
layer(q[0], valid=[1]) -> valid=[1] must be a bool tensor of shape [4, 5]
"""
MESSAGES = [line.split(" -> ") for line in MESSAGES.strip().split("\n")]


@pytest.mark.parametrize("call, message", MESSAGES, ids=range(len(MESSAGES)))
def test_the_whole_message(call, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        eval(call, vars(posenc) | globals())
    assert str(caught.value) == message


# Another device: tensors without numbers on "meta" refuse to meet those of the CPU, as a GPU's would.


# Two look into the numbers, of which meta has none: the largest position, the distinct distances.
ELSEWHERE = [name for name in NAMES if "learned" not in name or name == "alibi-learned"]
ELSEWHERE.remove("transformer_xl")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_nothing_is_made_on_another_device_than_q(name):
    method = encoding(name).to("meta")
    x, k = torch.randn(2, 5, DIM, device="meta"), torch.randn(2, 4, 7, 8, device="meta")
    if method.embed is not None:
        assert method.embed(x, torch.arange(5, device="meta")).device.type == "meta"
    assert attention(k[:, :, :5], k, k, method).device.type == "meta"
    block = SelfAttention(DIM, 4, method, num_kv_heads=2).to("meta")
    assert block(x).device.type == "meta"
    cache = posenc.KVCache()
    for _ in range(2):
        assert block(x, cache=cache).device.type == "meta"
    assert {held.device.type for held in (cache.k, cache.v, cache.positions, cache.valid)} == {"meta"}


# What the kernels are told, which the references don't read.


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_kernels_are_told_float32(dtype):
    q = torch.zeros(2, 4, 5, 8, dtype=dtype)
    (a,) = told(alibi.alibi(4).bias, q, ["a"])
    assert torch.equal(a, alibi.slopes(4))
    (a,) = told(rse.penalty(0.25).bias, q, ["a"])
    torch.testing.assert_close(a, torch.full((4,), 0.25))
    a, x = told(exposb.exposb(8, 4, rate=0.25, floor=0.5).weigh, q, ["a", "x"])
    assert torch.equal(a, torch.full((4,), 0.25)) and torch.equal(x, torch.full((2, 4, 5), 0.5))
    for both in (False, True):
        bias = t5.t5(4, num_buckets=8, max_distance=6, bidirectional=both).bias
        table, first = told(bias, q, ["table", "first"])
        offset = torch.arange(-6, 7 if both else 1)
        assert first == -6
        assert torch.equal(table, bias.table[:, t5.bucket(offset, 8, 6, both)])


def told(place, q, names):
    values = place.kernel_inputs(q)
    assert list(values) == names
    assert all(value.dtype == torch.float32 for value in values.values() if isinstance(value, torch.Tensor))
    return values.values()


# Each method


@pytest.mark.parametrize("layout", sinusoidal.LAYOUTS)
def test_the_sinusoid_is_added_in_its_layout(layout):
    x = torch.randn(2, 5, 8)
    added = sinusoidal.sinusoidal(100.0, layout=layout, volume=0.5).embed(x, at)
    torch.testing.assert_close(added, x + 0.5 * sinusoidal.table(at, 8, 100.0, layout))


# The command that judges


MUTATED = '''
def x_area__mutmut_orig(side):
    """The area of a square."""
    if side < 0:
        raise ValueError(f"side={side} " + "must not be negative")
    return side * side + 0


def x_area__mutmut_1(side):
    """The area of a square."""
    if side < 0:
        raise ValueError(f"side={side} " + "must not be negative")
    return side * side - 0


def x_area__mutmut_2(side):
    """The area of a square."""
    if side < 0:
        raise ValueError(f"side={side} " + "MUST NOT BE NEGATIVE")
    return side * side + 0
'''


@pytest.fixture
def judged(tmp_path, monkeypatch, capsys):
    r"""judged(killed, codes, listed) -> (exit status, output) of the command for a module with these mutants."""
    path = Path(__file__).parents[1] / "benchmarks" / "mutants.py"
    spec = importlib.util.spec_from_file_location("mutants_command", path)
    command = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(command)
    monkeypatch.setattr(command, "WORK", tmp_path)
    monkeypatch.setattr(command, "ACCEPTED", tmp_path / "accepted.txt")
    folder = tmp_path / "alibi" / "mutants" / "posenc"
    folder.mkdir(parents=True)

    def judged_(killed, codes, listed=""):
        (folder / "alibi.py").write_text(MUTATED)
        codes = dict.fromkeys((f"posenc.alibi.x_other__mutmut_{i}" for i in range(killed)), 1) | codes
        (folder / "alibi.py.meta").write_text(json.dumps({"exit_code_by_key": codes}))
        command.ACCEPTED.write_text(listed)
        return command.main(["alibi", "--judge"]), capsys.readouterr().out

    return judged_


MINUS = {"posenc.alibi.x_area__mutmut_1": 0}
WORDS = {"posenc.alibi.x_area__mutmut_2": 33}
KEY = "alibi.area: return side * side + 0 ==> return side * side - 0"


def test_make_mutants_passes_where_all_are_killed_or_explained(judged):
    assert judged(20, {})[0] == 0
    assert judged(20, MINUS, f"# survivors\n{KEY}  # adding nothing is taking nothing away\n")[0] == 0
    code, output = judged(40, MINUS | WORDS, f"{KEY}  # adding nothing is taking nothing away\n")
    assert code == 0
    assert output.split("\n")[0].split() == ["alibi", "42", "40", "2", "1", "1", "95.2%"]


def test_make_mutants_fails_at_a_survivor_without_a_reason(judged):
    code, output = judged(99, MINUS)
    assert code == 1 and f"survived, kill it by a test or give the reason in accepted.txt: {KEY}" in output
    code, output = judged(99, MINUS, KEY.replace("+", "-") + "  # of another line\n")
    assert code == 1 and "no longer a survivor" in output
    with pytest.raises(SystemExit, match="line 1: no reason"):
        judged(99, MINUS, f"{KEY}\n")


def test_make_mutants_fails_below_95_percent(judged):
    accepted = f"{KEY}  # adding nothing is taking nothing away\n"
    assert judged(19, MINUS, accepted)[0] == 0
    code, output = judged(18, MINUS, accepted)
    assert code == 1 and "94.7% killed, below 95%" in output
    assert judged(18, WORDS)[0] == 1  # wording counts as survived


def test_the_functions_on_the_list_are_there():
    for line in (Path(__file__).parent / "mutants_accepted.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            assert "  # " in line and " ==> " in line, line
            module, _, path = line.split(": ")[0].partition(".")
            found = importlib.import_module(f"posenc.{module}")
            for name in path.split("."):
                found = getattr(found, name)
