"""Each argument of each public function with the wrong type, rank, size or range: the error names it and its value."""

import inspect
import math
import re
from functools import partial

import numpy as np
import pytest
import torch

import posenc
from posenc import (
    Encoding,
    FoxPro,
    alibi,
    attention,
    comrope,
    cope,
    exposb,
    fox,
    inkling,
    learned,
    liere,
    mrope,
    path,
    rope,
    rope2d,
    rse,
    scaling,
    sinusoidal,
    stickbreaking,
    t5,
)
from posenc.bias.transformer_xl import shift

T, V, U = TypeError, ValueError, posenc.UnsupportedError

q = torch.randn(2, 4, 5, 8)
x = torch.randn(2, 5, 16)
at = torch.arange(5)
freq = rope.inv_freq(8)
scores = torch.randn(2, 4, 5, 5)
seen = torch.ones(5, 5, dtype=torch.bool).tril()
ratios = {"short": [1.0] * 4, "long": [4.0] * 4, "length": 9, "trained": 8}

CALLS = {  # every public function, with arguments that are right
    "attention": (attention, {"q": q, "k": q, "v": q, "pos_q": at, "pos_k": at}),
    "explain_impl": (posenc.explain_impl, {}),
    "SelfAttention": (posenc.SelfAttention, {"dim": 16, "num_heads": 2}),
    "forward": (posenc.SelfAttention(16, 2).forward, {"x": x}),
    "Encoding": (Encoding, {}),
    "table": (sinusoidal.table, {"positions": at, "dim": 8}),
    "resize": (learned.resize, {"table": torch.zeros(6, 4), "length": 3}),
    "embed_input": (posenc.embed_input, {"encoding": posenc.make("sinusoidal"), "x": x, "positions": at}),
    "inv_freq": (rope.inv_freq, {"dim": 8}),
    "rotate": (rope.rotate, {"x": q, "positions": at, "inv_freq": freq}),
    "xpos": (rope.xpos, {"head_dim": 8}),
    "linear": (scaling.linear, {"dim": 8, "factor": 2.0}),
    "ntk": (scaling.ntk, {"dim": 8, "factor": 2.0}),
    "dynamic_ntk": (scaling.dynamic_ntk, {"dim": 8, "length": 9, "trained": 4}),
    "yarn": (scaling.yarn, {"dim": 8, "factor": 2.0, "trained": 64}),
    "get_mscale": (scaling.get_mscale, {"factor": 2.0}),
    "correction_lanes": (scaling.correction_lanes, {"dim": 8, "trained": 64}),
    "llama3": (scaling.llama3, {"dim": 8}),
    "longrope": (scaling.longrope, {"dim": 8, "factor": 4.0} | ratios),
    "dynamic": (scaling.dynamic, {"head_dim": 8, "scheme": lambda length: (freq, 1.0)}),
    "slopes": (alibi.slopes, {"num_heads": 8}),
    "bias": (alibi.bias, {"pos_q": at, "pos_k": at, "slopes": freq}),
    "bucket": (t5.bucket, {"relative": at}),
    "shift": (shift, {"x": x}),
    "weigh": (stickbreaking.weigh, {"scores": scores, "visible": seen}),
    "gain": (exposb.gain, {"positions": at}),
    "band": (exposb.band, {"head_dim": 8}),
    "fade": (exposb.fade, {"distance": at}),
    "hazard": (exposb.hazard, {"scores": scores, "visible": seen}),
    "penalty": (rse.penalty, {}),
    "positions_for": (partial(posenc.mrope.positions_for, [2, (4, 2, 2), (1, 2, 3)]), {}),
}
for name, method in posenc.METHODS.items():
    CALLS[name] = (method.factory, posenc.methods.sizes(name, num_heads=4, head_dim=8, length=8))


def arguments(name):
    return inspect.signature(CALLS[name][0]).parameters


@pytest.mark.parametrize("name", CALLS)
def test_the_right_arguments_are_taken_and_a_list_is_refused_by_name_wherever_it_makes_no_sense(name):
    function, right = CALLS[name]
    function(**right)
    for argument in arguments(name):
        for wrong in ([2], [2] * 20_000):
            with pytest.raises((TypeError, ValueError), match=rf"\b{argument}\b") as raised:
                function(**right | {argument: wrong})
            message = str(raised.value)
            assert len(message) < 1000 and (len(wrong) > 1 or re.search(r"\[2\]|list|\[1\]", message))


WRONG = [  # (function, what is changed: the first is to be named, the error, words of the remedy)
    ("attention", {"q": q[0]}, V, "[B, H, T, D]"),
    ("attention", {"q": q.long()}, T, "floating"),
    ("attention", {"k": q[..., :6]}, V, "[2, 4, 5, 8]"),
    ("attention", {"k": q.double()}, V, "float32"),
    ("attention", {"pos_q": at[:4]}, V, "[5]"),
    ("attention", {"pos_q": at > 2}, T, ""),
    ("attention", {"pos_q": None, "q": q[:, :, :2]}, V, "2 queries"),
    ("attention", {"pos_k": None, "pos_q": at[:2], "q": q[:, :, :2]}, V, "5 keys"),
    ("attention", {"pos_q": None, "pos_k": None, "encoding": Encoding(axes=2)}, V, "[T, 2]"),
    ("attention", {"causal": "yes"}, T, "True or False"),
    ("attention", {"causal": False, "encoding": posenc.make("alibi", num_heads=4)}, U, "symmetric"),
    ("attention", {"causal": False, "encoding": posenc.make("stickbreaking")}, U, "order='first'"),
    ("attention", {"mask": scores}, T, "bool"),
    ("attention", {"mask": seen[:, :3]}, V, "[5, 5]"),
    ("attention", {"scale": math.nan}, V, "finite"),
    ("attention", {"gates": q}, V, "none"),
    ("attention", {"gates": q, "encoding": posenc.fox.fox()}, V, "[2, 4, 5]"),
    ("attention", {"gates": q[:, :, 0, :5].long()}, T, "floating"),
    ("attention", {"impl": "tritn"}, V, "'triton'"),
    ("attention", {"return_weights": 1}, T, "True or False"),
    ("explain_impl", {"impl": "cuda"}, V, "'torch'"),
    ("explain_impl", {"dtype": "half"}, T, "torch.float32"),
    ("explain_impl", {"head_dim": 0}, V, "1"),
    ("SelfAttention", {"dim": 16.0}, T, "int"),
    ("SelfAttention", {"num_heads": 3}, V, "dim=16"),
    ("SelfAttention", {"num_kv_heads": 3, "num_heads": 4}, V, "num_heads=4"),
    ("SelfAttention", {"encoding": "rope"}, T, "make"),
    ("forward", {"x": x[0]}, V, "[B, T, 16]"),
    ("forward", {"positions": at[:2]}, V, "[5]"),
    ("forward", {"valid": torch.ones(2, 5)}, V, "bool"),
    ("Encoding", {"embed_at": "layer"}, V, "'layer_qk'"),
    ("Encoding", {"axes": 0}, V, "1"),
    ("Encoding", {"causal_only": True}, T, "reason"),
    ("table", {"positions": torch.tensor(5)}, V, "[T]"),
    ("table", {"dim": 7}, V, "even"),
    ("table", {"base": 0}, V, "greater than 0"),
    ("sinusoidal", {"embed_at": "all"}, V, "'input'"),
    ("sinusoidal", {"volume": math.inf}, V, "finite"),
    ("learned", {"max_positions": 0}, V, "1"),
    ("learned", {"std": -0.1}, V, "0"),
    ("embed_input", {"x": x.long()}, T, "floating"),
    ("embed_input", {"positions": at[:4]}, V, "[2, 5]"),
    ("resize", {"table": at.float()}, V, "[N, C]"),
    ("resize", {"length": 2, "prefix": 2}, V, "3"),
    ("resize", {"mode": "linaer"}, V, "'linear'"),
    ("resize", {"prefix": 6, "length": 9}, V, "6 rows"),
    ("inv_freq", {"dim": 9}, V, "even"),
    ("inv_freq", {"base": -2}, V, "greater than 0"),
    ("inv_freq", {"dtype": torch.int64}, T, "torch.float32"),
    ("rotate", {"x": q.long()}, T, "floating"),
    ("rotate", {"positions": at[:3]}, V, "[2, 4, 5]"),
    ("rotate", {"inv_freq": freq[None]}, V, ""),
    ("rotate", {"inv_freq": None}, T, "tensor"),
    ("rotate", {"attention_factor": 0}, V, "greater than 0"),
    ("rope", {"rotary_dim": 10}, V, "head_dim=8"),
    ("rope", {"rotary_dim": 4, "inv_freq": freq}, V, "inv_freq"),
    ("rope", {"proportional": "yes"}, T, "True or False"),
    ("rope", {"attention_factor": "1"}, T, "number"),
    ("xpos", {"gamma": 0}, V, "greater than 0"),
    ("ntk", {"dim": 2}, V, "4"),
    ("dynamic_ntk", {"length": -1}, V, "0"),
    ("yarn", {"truncate": False, "ramp": "rotations"}, V, "ramp"),
    ("yarn", {"mscale": 1.0}, V, "mscale_all_dim=None"),
    ("yarn", {"mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 1.0}, V, "attention_factor=1.0"),
    ("yarn", {"mscale": 0, "mscale_all_dim": 1.0}, V, "greater than 0"),
    ("get_mscale", {"factor": 0.5}, V, "1"),
    ("yarn", {"ramp": "lane"}, V, "'lanes'"),
    ("yarn", {"alpha": 32.0}, V, "beta=32.0"),
    ("llama3", {"factor": math.inf}, V, "finite"),
    ("llama3", {"low": 5.0}, V, "high=4.0"),
    ("longrope", {"short": [1.0] * 3}, V, "4 pairs"),
    ("longrope", {"long": [1.0, 1.0, 0.0, 1.0]}, V, "above 0"),
    ("dynamic", {"head_dim": 6}, V, "8 lanes"),
    ("dynamic", {"scheme": "yarn"}, T, "callable"),
    ("slopes", {"num_heads": 0}, V, "1"),
    ("bias", {"pos_k": at[None]}, V, ""),
    ("bias", {"slopes": freq[None]}, V, ""),
    ("bias", {"slopes": at}, T, "floating"),
    ("transformer_xl", {"dim": 5}, V, "even"),
    ("shift", {"x": torch.ones(2, 2).long()}, T, "floating"),
    ("shift", {"x": torch.ones(3)}, V, "[..., Tq, Tk]"),
    ("bucket", {"relative": freq}, T, "integers"),
    ("t5", {"num_buckets": 7}, V, "even"),
    ("t5", {"max_distance": 16}, V, "17"),
    ("kerple", {"form": "logs"}, V, "'log'"),
    ("fire", {"threshold": 0}, V, "greater than 0"),
    ("weigh", {"scores": scores.long()}, T, "floating"),
    ("weigh", {"visible": scores}, T, "bool"),
    ("weigh", {"visible": seen[:, :3]}, V, ""),
    ("weigh", {"order": "last"}, V, "'recent'"),
    ("stickbreaking", {"remainder": "keep"}, V, "'drop'"),
    ("gain", {"rates": torch.ones(3)}, V, "[5]"),
    ("band", {"head_dim": 7}, V, "even"),
    ("fade", {"distance": seen}, T, "real"),
    ("fade", {"rate": torch.ones(2)}, V, "[5]"),
    ("fade", {"floor": 1.1}, V, "1"),
    ("exposb", {"gain": 1.0}, T, "True or False"),
    ("exposb", {"on": "logit"}, V, "'logits'"),
    ("exposb", {"rate": 0, "learn_rate": True}, V, "greater than 0"),
    ("positions_for", {"after": "max"}, V, "'largest'"),
    ("positions_for", {"time_step": 0}, V, "greater than 0"),
    ("exposb", {"floor": 0}, V, "greater than 0"),
    ("penalty", {"rate": -0.5}, V, "greater than 0"),
]


def shown(argument, value):
    """How an error may tell a value: as argument=value, or by a tensor's shape or dtype."""
    if isinstance(value, torch.Tensor):
        return [str(list(value.shape)), str(value.dtype), "single number"]
    return [f"{argument}={value!r}", str(value), *([str([len(value)])] if isinstance(value, list) else [])]


@pytest.mark.parametrize("name", dict.fromkeys(name for name, *_ in WRONG))
def test_a_wrong_value_is_named_with_what_would_be_right(name):
    function, right = CALLS[name]
    for change, error, remedy in (row[1:] for row in WRONG if row[0] == name):
        with pytest.raises(error) as raised:
            function(**right | change)
        (argument, value), message = [*change.items()][0], str(raised.value)
        assert type(raised.value) is error
        assert re.search(rf"\b{argument}\b", message) and remedy in message, message
        assert any(words in message for words in shown(argument, value)), message


def attends(made, **options):
    return attention(q, q, q, made, **options)


path_gates, mix, shut = torch.zeros(2, 4, 5, 9), torch.zeros(2, 4, 5, 6), torch.full((2, 4, 5), -1.0)
embed = posenc.make("learned", max_positions=8, dim=16).embed
REFUSED = {  # what only a call of several parts shows: (the call, words of its error)
    "no gates for FoX": (lambda: attends(fox.fox()), ["gates=None", "[2, 4, 5]"]),
    "gates that open": (lambda: attends(fox.fox(), gates=-shut), ["gates", "at most 0"]),
    "gates that are no numbers": (lambda: attends(fox.fox(), gates=shut * math.nan), ["gates", "nan"]),
    "FoX both ways": (lambda: attends(fox.fox(), gates=shut, causal=False), ["causal=False"]),
    "no gates for PaTH": (lambda: attends(path.path(8)), ["gates=None", "[2, 4, 5, 9]"]),
    "PaTH both ways": (lambda: attends(path.path(8), gates=path_gates, causal=False), ["causal=False"]),
    "gates twice": (lambda: posenc.compose(path.path(4), fox.fox()), ["encodings[1]", "gates"]),
    "no mix": (lambda: attends(inkling.inkling(4, num_curves=6)), ["gates=None", "[2, 4, 5, 6]"]),
    "more queries than keys": (
        lambda: attention(q, q[:, :, :2], q[:, :, :2], inkling.inkling(4, num_curves=6), gates=mix[:, :, :2]),
        ["q has 5 tokens, k 2"],
    ),
    "curves of another number": (lambda: inkling.curves(mix, freq[None], seen.long()), ["mix", "6", "1"]),
    "one position": (lambda: cope.cope(8, 1), ["num_positions=1", "2"]),
    "CoPE both ways": (lambda: attends(cope.cope(8), causal=False), ["causal=False"]),
    "a table of another width": (lambda: cope.lookup(q, q[0, 0, :, :6], scores), ["table", "6", "8"]),
    "logits in one row": (lambda: cope.positions(freq, seen[0]), ["logits", "[4]"]),
    "two that weigh": (
        lambda: posenc.compose(posenc.make("sink", num_heads=4), posenc.make("stickbreaking")),
        ["weigh"],
    ),
    "lanes for two axes": (lambda: rope2d.rope2d(10), ["head_dim=10", "multiple of 4"]),
    "mixed without heads": (lambda: rope2d.rope2d(16, "mixed"), ["num_heads=None"]),
    "axial with heads": (lambda: rope2d.rope2d(16, num_heads=2), ["num_heads=2", "leave it out"]),
    "positions of three axes": (
        lambda: rope2d.rotate(q, q[0, 0, :, :3], rope2d.axial(8)),
        ["positions [5, 3]", "[2, 4]"],
    ),
    "frequencies of more lanes": (lambda: rope2d.rotate(q, at.expand(2, 5).T, rope2d.axial(16)), ["16 lanes", "5, 8]"]),
    "no positions on a plane": (lambda: attends(rope2d.rope2d(8)), ["pos_q=None", "[T, 2]"]),
    "a bias that reads numbers": (
        lambda: attends(posenc.compose(rope2d.rope2d(8), posenc.make("alibi", num_heads=4)), pos_q=at.expand(2, 5).T),
        ["pos_q"],
    ),
    "a block that does not fit": (lambda: liere.liere(24, 2, block=5), ["block=5", "head_dim=24"]),
    "generators of two axes": (
        lambda: liere.rotation(q[0, 0, :, :3], torch.zeros(2, 1, 4, 4)),
        ["positions [5, 3]", "n = 2"],
    ),
    "blocks for two axes": (lambda: comrope.comrope(24, 2, block=8), ["block=8", "3 blocks", "axes=2"]),
    "a form": (lambda: comrope.comrope(24, 2, "pa"), ["form='pa'", "ap"]),
    "sections": (lambda: mrope.mrope(16, (4, 4)), ["sections=[4, 4]", "8"]),
    "sections of fewer lanes": (lambda: mrope.mrope(256, (11, 11, 10)), ["sections=[11, 11, 10]", "128", "rotary_dim"]),
    "an empty section": (lambda: mrope.mrope(16, (0, 4, 4), interleaved=True), ["sections=[0, 4, 4]", "interleaved"]),
    "a part of a layout": (lambda: mrope.positions_for([(2, 2)]), ["layout holds (2, 2)"]),
    "no layout": (lambda: mrope.positions_for(5), ["layout=5", "list"]),
    "a switch that is a word": (lambda: FoxPro(8, 2, kv_shift="k"), ["kv_shift='k'", "True or False"]),
    "an unknown option": (lambda: FoxPro(8, 2, out_gate=True), ["out_gate"]),
    "heads of keys": (lambda: FoxPro(8, 4, num_kv_heads=3), ["num_kv_heads=3", "num_heads=4"]),
    "FoxPro both ways": (lambda: FoxPro(16, 2, causal=False)(x), ["causal=False"]),
    "x of another width": (lambda: FoxPro(8, 2)(x), ["x", "[2, 5, 16]"]),
    "a position without a row": (lambda: embed(x, at + 4), ["positions", "8", "max_positions=8", "resize"]),
    "a position below the table": (lambda: embed(x, at - 1), ["positions", "-1", "max_positions=8"]),
    "a position between rows": (lambda: embed(x, at / 2), ["positions", "0.5", "whole"]),
    "a position that is no number": (lambda: embed(x, at * math.nan), ["positions", "nan", "finite"]),
    "two that rotate": (lambda: posenc.compose(rope.rope(8), rope.rope(8)), ["encodings[1]", "'rotate'"]),
    "two that attend": (lambda: posenc.compose(*[posenc.path.path(8)] * 2), ["encodings[1]", "'attend'"]),
    "axes of two": (lambda: posenc.compose(Encoding(axes=1), Encoding(axes=2)), ["encodings[1]", "2 axes"]),
    "head_dim of two": (lambda: posenc.compose(rope.rope(8), cope.cope(4)), ["encodings[1]", "head_dim=4", "8"]),
    "num_heads of two": (
        lambda: posenc.compose(posenc.make("sink", num_heads=2), posenc.make("alibi", num_heads=4)),
        ["encodings[1]", "num_heads=4", "2"],
    ),
    "a name that is none": (lambda: posenc.make(3), ["name=3", "rope"]),
    "a name": (lambda: posenc.make("rotary"), ["name='rotary'", "alibi"]),
    "an option": (lambda: posenc.make("rope", headdim=8), ["headdim=8", "'head_dim'"]),
    "an option that is missing": (lambda: posenc.make("alibi"), ["num_heads"]),
    "frequencies for more lanes": (lambda: rope.rope(4, inv_freq=freq), ["inv_freq", "head_dim=4"]),
    "3 heads of keys": (lambda: attention(q, q[:, :3], q[:, :3]), ["k has 3 heads", "4"]),
    "values beside their table": (
        lambda: attention(q, q, q[..., :3], posenc.shaw.shaw(8, values=True)),
        ["head_dim=8", "3 lanes of v"],
    ),
    "values that are too short to turn": (
        lambda: attention(q, q, q[..., :6], rope.rope(8, values=True)),
        ["v must", "8 lanes", "6]"],
    ),
    "a bias that is none": (lambda: attends(Encoding(bias=lambda q, k, at: "none")), ["bias must"]),
    "a bias of a larger batch": (
        lambda: attends(Encoding(bias=lambda q, k, at: q.new_zeros(3, 1, 1, 1))),
        ["bias must"],
    ),
    "a rotation of q alone": (lambda: attends(Encoding(rotate=lambda q, k, at: q)), ["rotate must return"]),
    "no rotation": (lambda: attends(Encoding(rotate=lambda *_: None)), ["rotate must return"]),
    "outputs of fewer lanes": (lambda: attends(Encoding(gather=lambda w, v, at: v[..., :1])), ["gather must return"]),
    "weights of fewer keys": (lambda: attends(Encoding(weigh=lambda z, at: z[..., :1])), ["weigh must return"]),
    "an embedding of another width": (lambda: posenc.embed_input(learned.learned(9, 12), x, at), ["dim=12", "16"]),
    "positions of other tokens": (lambda: posenc.embed_input(learned.learned(9, 16), x, at[:4]), ["positions", "[5]"]),
    "no device": (lambda: posenc.explain_impl(device="gpu"), ["device='gpu'", "'cuda'"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_named(case):
    call, words = REFUSED[case]
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    assert all(word in str(raised.value) for word in words), str(raised.value)


@pytest.mark.parametrize(
    "name, sizes, words",
    [
        ("alibi", {"num_heads": 3}, ["num_heads=3", "num_heads=4"]),
        ("exposb", {"num_heads": 3}, ["num_heads=3", "num_heads=4"]),
        ("shaw", {"head_dim": 4}, ["head_dim=4", "head_dim=8"]),
        ("rope", {"head_dim": 4}, ["head_dim=4", "head_dim=8", "rotary_dim"]),
        ("path", {"head_dim": 4}, ["head_dim=4", "head_dim=8"]),
    ],
    ids=str,
)
def test_an_encoding_of_another_size_is_refused(name, sizes, words):
    factory, right = CALLS[name]
    made = factory(**right | sizes)
    gates = None if made.gates is None else torch.zeros(2, 4, 5, *made.gates.size)
    for refused in (
        lambda: attention(q, q, q, made, gates=gates),
        lambda: attention(q, q, q, posenc.compose(posenc.make("nope"), made), gates=gates),
        lambda: posenc.SelfAttention(32, 4, made),
    ):
        with pytest.raises(ValueError) as raised:
            refused()
        assert all(word in str(raised.value) for word in words), str(raised.value)


@pytest.mark.parametrize("name, options", [("shaw", {"values": True}), ("t5", {})], ids=str)
def test_what_looks_positions_up_asks_for_whole_numbers(name, options):
    factory, right = CALLS[name]
    encoding = factory(**right | options)
    with pytest.raises(ValueError, match=r"pos_q holds 0\.5.*whole"):
        attention(q, q, q, encoding, pos_q=at / 2)
    assert torch.equal(attention(q, q, q, encoding, pos_q=at.float()), attention(q, q, q, encoding))


@pytest.mark.parametrize("name", CALLS)
def test_a_number_of_numpy_is_one(name):
    function, right = CALLS[name]
    kinds = {int: np.int64, float: np.float32}
    numbers = {a: kinds[type(value)](value) for a, value in right.items() if type(value) in kinds}
    defaults = {a: kinds[type(p.default)](p.default) for a, p in arguments(name).items() if type(p.default) in kinds}
    made = function(**right | defaults | numbers)
    if isinstance(made, Encoding):
        assert all(size is None or type(size) is int for size in (made.axes, made.dim, made.num_heads, made.head_dim))


@pytest.mark.parametrize("value", [True, np.bool_(True), torch.tensor(8), np.array([8]), 8.0, np.float64(8)], ids=repr)
def test_what_stands_for_no_whole_number_is_refused_as_a_size(value):
    with pytest.raises(TypeError, match=r"num_heads=.* must be an int"):
        posenc.make("alibi", num_heads=value)


@pytest.mark.parametrize("value", [10**400, np.float64("inf"), math.nan], ids=["int", "numpy", "nan"])
def test_a_number_without_a_float_is_named(value):
    with pytest.raises(ValueError, match=r"base=.*finite"):
        rope.rope(8, base=value)


def elsewhere(tensor):
    return tensor.to("meta")


@pytest.mark.parametrize(
    "name, change",
    [
        ("attention", {"pos_q": elsewhere(at)}),
        ("attention", {"mask": elsewhere(seen)}),
        ("attention", {"gates": elsewhere(q[..., 0]), "encoding": posenc.fox.fox()}),
        ("forward", {"positions": elsewhere(at)}),
        ("forward", {"valid": elsewhere(torch.ones(2, 5).bool())}),
        ("rotate", {"positions": elsewhere(at)}),
        ("embed_input", {"positions": elsewhere(at)}),
    ],
    ids=lambda part: part if isinstance(part, str) else next(iter(part)),
)
def test_a_tensor_on_another_device_is_named(name, change):
    function, right = CALLS[name]
    argument = next(iter(change))
    with pytest.raises(ValueError, match=rf"\b{argument}\b.*meta"):
        function(**right | change)


@pytest.mark.weekly
def test_numbers_are_checked_inside_a_compiled_graph():
    """dynamic=True makes an option of the encoding a symbol: no check may ask for more of it than a comparison."""
    encoding = posenc.compose(posenc.make("sinusoidal"), rope.rope(8, attention_factor=1.5))

    def run(x, q, positions):
        return posenc.embed_input(encoding, x, positions), attention(q, q, q, encoding, pos_q=positions)

    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend="eager")
    for found, expected in zip(compiled(x, q, at.float()), run(x, q, at.float())):
        torch.testing.assert_close(found, expected)
