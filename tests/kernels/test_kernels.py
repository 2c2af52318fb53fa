r"""The Triton kernels against the references: on a GPU where there is one, else in Triton's interpreter (conftest)."""

import math

import pytest
import torch
from beside import CUDA, DEVICE, LENGTHS, against_reference, hold, leaves, never, problem
from nan_memory import inside_nan, nan_buffers  # noqa: F401 (the fixture serves by its name)
from torch.utils._python_dispatch import TorchDispatchMode

import posenc
from posenc import UnsupportedError, attention

pytest.importorskip("triton", reason="Triton is published for Linux only")

from posenc.kernels import rotary, softmax, stickbreaking
from posenc.kernels.common import Tile, in_parts

BF16 = CUDA and torch.cuda.get_device_capability() >= (8, 0)
DTYPES = [torch.float32, torch.float16] + [torch.bfloat16] * BF16
HEADS = 2


def make(name, head_dim):
    """An encoding by a short name; parts joined by + act at different places."""
    if "+" in name:
        return posenc.compose(*(make(part, head_dim) for part in name.split("+")))
    method, _, option = name.partition("-")
    near, both = {"num_buckets": 8, "max_distance": 20}, {"order": "first", "attend_current": True}
    options = {
        "": {}, "learned": {"learned": True}, "symmetric": {"symmetric": True, "learned": True},
        "half": {"layout": "half"}, "partial": {"rotary_dim": head_dim // 4 * 2, "attention_factor": 1.2},
        "current": {"attend_current": True}, "first": {"order": "first"}, "rest": {"remainder": "current"},
        "firstall": both | {"remainder": "current"}, "near": near, "two": near | {"bidirectional": True},
        "logits": {"learn_rate": True, "rate": 0.05, "floor": 0.4},
        "log": {"on": "log", "learn_rate": True, "rate": 0.1, "per_pair": True, "gain": False},
        "recent": {"order": "recent", "rate": 0.1},
    }[option]  # fmt: skip
    torch.manual_seed(0)  # T5 starts from random numbers
    required = posenc.methods.sizes(method, num_heads=HEADS, head_dim=head_dim, length=max(map(max, LENGTHS)))
    return posenc.make(method, **required, **options).to(DEVICE)


METHODS = [
    "nope", "nope both ways", "rope", "rope-half", "alibi", "alibi-learned", "alibi-symmetric both ways",
    "rope-partial+alibi-learned", "t5-near", "rope+t5-two both ways", "stickbreaking", "stickbreaking-current",
    "stickbreaking-rest", "stickbreaking-first", "stickbreaking-first both ways", "stickbreaking-firstall both ways",
    "rope+alibi-symmetric+stickbreaking", "rope+alibi-symmetric+stickbreaking-first both ways",
    "exposb-logits", "exposb-log both ways", "rse both ways", "rse-recent",
]  # fmt: skip


def run(impl, name, q, k, v, dout, positions=None, mask=None, dtype=torch.float64):
    """Output and every gradient of attention in one dtype: (output, q, k, v, then the encoding's parameters)."""
    encoding = make(name.removesuffix(" both ways"), q.shape[-1])
    inputs = [inside_nan(x.to(dtype)) for x in (q, k, v)]
    pos_q, pos_k = positions or (None, None)
    out = attention(
        *inputs, encoding, causal=not name.endswith(" both ways"), impl=impl, pos_q=pos_q, pos_k=pos_k, mask=mask
    )
    assert out.dtype == dtype
    return (out, *torch.autograd.grad(out, [*inputs, *encoding.parameters()], dout.to(dtype)))


def compare(name, tensors, dtype, **options):
    tensors = [x.to(dtype).double() for x in tensors]  # what rounding the inputs costs is neither's error
    against_reference(lambda impl, d: run(impl, name, *tensors, dtype=d, **options), dtype)


LEADS = {"nope", "alibi-learned", "t5-near", "stickbreaking", "stickbreaking-first both ways", "exposb-logits"}


def case(n, name, length, index):
    """In float32, of each family's lead three lengths are in the gate, of each other method one of them."""
    three = [LENGTHS.index(lengths) for lengths in ((17, 17), (40, 100), (100, 40))]
    often = index == 0 and (length in three if name in LEADS else length == three[n % 3])
    marks = () if CUDA or often else pytest.mark.weekly
    return pytest.param(name, *LENGTHS[length], DTYPES[index], marks=marks)


CASES = [
    case(n, name, length, index)
    for n, name in enumerate(METHODS)
    for length in range(len(LENGTHS))
    for index in range(len(DTYPES))
]


@pytest.mark.parametrize("name,queries,keys,dtype", CASES, ids=str)
def test_kernel_equals_reference(name, queries, keys, dtype):
    compare(name, problem(queries, keys), dtype)


HEAD_SIZES = [(16, 16), (20, 36), (64, 64), (80, 80), (96, 32), (128, 128)]


@pytest.mark.sample(9)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("head_dim,head_dim_v", HEAD_SIZES)
@pytest.mark.parametrize("name", ["rope-partial+alibi-learned", "rope+alibi-symmetric+stickbreaking"])
def test_head_sizes(name, head_dim, head_dim_v, dtype):
    compare(name, problem(33, 70, head_dim=head_dim, head_dim_v=head_dim_v), dtype)


@pytest.mark.sample(13)
@pytest.mark.parametrize("masked", ["keys", "pairs", "both"])
@pytest.mark.parametrize("name", METHODS)
def test_masks_padding_and_positions_of_each_row_of_the_batch(name, masked):
    tensors = problem(37, 50, batch=2)
    generator = torch.Generator().manual_seed(1)
    pos_q = torch.rand(2, 37, generator=generator).cumsum(1) * 5 + 40.25  # floats, different in each row of the batch
    pos_q = pos_q.round() - 60 if "t5" in name else pos_q  # whole numbers, on both sides of the keys
    pos_q = torch.stack((pos_q, pos_q + 1e6), -1)[..., 0]  # every other number in memory
    pos_k = torch.arange(50)[None].repeat(2, 1)
    pos_k[1] -= 7
    valid = torch.ones(2, 1, 1, 50, dtype=torch.bool)
    valid[0, ..., :20] = False  # left padding: the first queries of a causal row see nothing
    valid[1, ..., 45:] = False
    anywhere = torch.rand(37, 50, generator=generator) < 0.5
    anywhere[5] = False
    mask = {"keys": valid, "pairs": anywhere, "both": valid & anywhere}[masked].to(DEVICE)
    compare(name, tensors, torch.float32, positions=(pos_q.to(DEVICE), pos_k.to(DEVICE)), mask=mask)


def test_a_slope_keeps_its_digits_where_the_output_is_rounded():
    """Values that share a large part: float16 rounds the output by more than the values differ, and eager is off."""
    q, k, v, dout = (x.half().double() for x in problem(64, 200))
    exact = run("torch", "alibi-learned", q, k, (v + 30).half().double(), dout)[-1]
    ours = run("triton", "alibi-learned", q, k, (v + 30).half().double(), dout, dtype=torch.float16)[-1]
    torch.testing.assert_close(ours.double(), exact.double(), rtol=2e-4, atol=0)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["nope", "nope both ways", "stickbreaking", "stickbreaking-first both ways"])
def test_a_mask_reaches_the_blocks_that_would_need_none(monkeypatch, name):
    for module in (softmax, stickbreaking):
        monkeypatch.setattr(module, "tiles", lambda *_, **__: (Tile(16, 16, 4, 1), Tile(16, 16, 4, 1)))
    mask = torch.rand(48, 64, generator=torch.Generator().manual_seed(2)) < 0.7
    compare(name, problem(48, 64), torch.float32, mask=mask.to(DEVICE))


def test_a_query_that_sees_nothing_gets_exact_zeros():
    mask = torch.ones(20, 20, dtype=torch.bool, device=DEVICE)
    mask[7] = False
    for name in ("nope", "stickbreaking"):
        out, dq, *_ = run("triton", name, *problem(20, 20), mask=mask, dtype=torch.float32)
        assert not out[:, :, 7].any() and not dq[:, :, 7].any()


def test_empty_inputs_give_empty_or_zero_outputs():
    for name in ("nope", "rope+alibi", "stickbreaking-rest"):
        for queries, keys in ((0, 5), (5, 0), (0, 0)):
            q, k, v, dout = problem(queries, keys)
            for a, b in zip(run("triton", name, q, k, v, dout, dtype=torch.float32), run("torch", name, q, k, v, dout)):
                assert a.shape == b.shape and not a.isnan().any() and not a.any()


TILES = [(16, 16, 4, 1), (16, 64, 4, 1), (64, 16, 4, 1), (128, 32, 4, 1)]


@pytest.mark.sample(8)
@pytest.mark.parametrize("queries,keys", [(20, 50), (50, 20)], ids=str)
@pytest.mark.parametrize("order", ["softmax", "table", "recent", "first"])
def test_the_answer_does_not_depend_on_the_blocks(order, queries, keys):
    results = []
    for tile in TILES:
        q, k, v, dout = problem(queries, keys)
        q, k, v = leaves(q, k, v)
        a = torch.tensor([0.5, 0.1], device=DEVICE, requires_grad=True)
        at = dict(pos_q=torch.arange(keys - queries, keys, device=DEVICE), pos_k=torch.arange(keys, device=DEVICE))
        if order == "table":
            a = torch.linspace(-1, 1, HEADS * 25, device=DEVICE).view(HEADS, 25).requires_grad_()
            out = (softmax.attend(q, k, v, variant="table", table=a, first=-20, tile=tile, **at),)
        elif order == "softmax":
            out = (softmax.attend(q, k, v, variant="symmetric", a=a, tile=tile, **at),)
        else:
            out = stickbreaking.attend(q, k, v, variant="symmetric", a=a, order=order, tile=tile, **at)
        grads = torch.autograd.grad(out, (q, k, v, a), [dout.float(), torch.ones_like(out[-1])][: len(out)])
        results.append((*out, *grads))
    for other in results[1:]:
        hold(results[0], other)


@pytest.mark.sample(2)
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "current"])
def test_slices_of_queries_change_no_gradient(monkeypatch, strict):
    results = []
    for rows in (1024, 32):
        monkeypatch.setattr(stickbreaking, "SLICE", rows)
        q, k, v, dout = problem(70, 50)
        q, k, v = leaves(q, k, v)
        y = torch.linspace(-1, 1, HEADS * 50, device=DEVICE).view(1, HEADS, 50).requires_grad_()
        x = torch.zeros(1, HEADS, 70, device=DEVICE, requires_grad=True)
        options = dict(attend_current=not strict, variant="decay", tile=(32, 16, 4, 1))
        out, rest = stickbreaking.attend(q, k, v, x=x, y=y, **options)
        results.append(torch.autograd.grad((out, rest), (q, k, v, x, y), (dout.float(), torch.ones_like(rest))))
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def asked_by_one(z):
    """q and k [1, 1, .., 16] whose logits are z, as float32."""
    k = (z / 16)[None, None, :, None].expand(1, 1, len(z), 16).float().contiguous().to(DEVICE)
    return torch.ones(1, 1, 1, 16, device=DEVICE), k


def test_stick_keeps_its_digits_where_keys_are_saturated_or_hardly_ask():
    """Logits of +-1e4 and of -17: nothing overflows, and thousands of shares of 4e-8 still add up."""
    z = torch.full((3000,), -17.0, dtype=torch.float64)
    z[[5, 1500]] = torch.tensor([1e4, -1e4], dtype=torch.float64)
    v = torch.eye(3000, 16, device=DEVICE)[None, None]
    v[0, 0, 5] = 1.0
    for start in (0, 6):  # with the saturated key, and without
        q, k = asked_by_one(z[start:])
        out, rest = stickbreaking.attend(q, k, v[:, :, start:], causal=False, attend_current=True)
        weights, left = posenc.stickbreaking.weigh(
            z[None, start:], torch.ones(1, len(z) - start) > 0, return_remainder=True
        )
        assert float((out[0, 0].cpu() - weights @ v[0, 0, start:].cpu().double()).abs().max()) < 5e-6
        assert abs(float(rest) - float(left)) < 3e-7
    assert 1 - float(left) > 1e-4


def test_a_saturated_key_gets_the_whole_rest_to_the_last_digit():
    """Its own log(1 - beta) of -1e4 would drown the small ones of the keys asked before it, in the same block."""
    z = torch.linspace(-2.0, -1.0, 40, dtype=torch.float64)
    z[20] = 1e4
    v = torch.zeros(1, 1, 40, 16, device=DEVICE)
    v[0, 0, 20] = 1.0
    out, _ = stickbreaking.attend(*asked_by_one(z), v, causal=False, attend_current=True)
    exact = torch.nn.functional.logsigmoid(-z[21:]).sum().exp()
    torch.testing.assert_close(out[0, 0, 0, 0].double().cpu(), exact, rtol=2e-5, atol=0)


@pytest.mark.weekly
def test_the_gradient_of_a_table_keeps_its_digits_at_every_size_of_loss():
    *tensors, dout = problem(40, 70)
    one = run("triton", "t5-near", *tensors, dout, dtype=torch.float32)[-1]
    for factor in (2.0**-50, 2.0**50):
        assert torch.equal(run("triton", "t5-near", *tensors, dout * factor, dtype=torch.float32)[-1], one * factor)


@pytest.mark.sample(4)
@pytest.mark.parametrize("where", range(4), ids=["q", "k", "v", "dout"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy's, of the interpreter
def test_a_gradient_that_is_not_finite_shows_in_the_table(where):
    tensors = problem(20, 20)
    tensors[where][..., -1, 0] = math.nan if where % 2 else math.inf  # the last key or query is hit
    assert not run("triton", "t5-near", *tensors, dtype=torch.float32)[-1].isfinite().all()


OPERATORS = {
    "softmax": lambda q, k, v, a, at: (
        softmax.softmax,
        (q, k, v, None, *in_parts(*at, "linear"), None, a, None, None, None, 0, 0.3, True, "linear", []),
    ),
    "table": lambda q, k, v, a, at: (
        softmax.softmax,
        (q, k, v, None, *(x[None, None] for x in at), None, None, leaves(torch.ones(HEADS, 9, device=DEVICE))[0])
        + (None, None, -5, 0.3, True, "table", []),
    ),
    "stickbreaking": lambda q, k, v, a, at: (
        stickbreaking.stickbreaking,
        (q, k, v, None, *in_parts(*at, "linear"), a, None, None, 0.3, True, True, True, "linear", []),
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_pass_opcheck(name):
    q, k, v, _ = problem(17, 17)
    at = (torch.arange(17, device=DEVICE),) * 2
    operator, arguments = OPERATORS[name](*leaves(q, k, v, torch.tensor([0.5, 0.1], device=DEVICE)), at)
    results = torch.library.opcheck(operator, arguments)
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["rope+alibi-learned", "t5", "rope-half+stickbreaking"])
def test_kernels_live_under_compile(name):
    encoding = make(name, 16)
    torch._dynamo.reset()

    def step(q, k, v):
        return attention(2 * q, k, v, encoding, impl="triton").square()

    compiled = torch.compile(step, fullgraph=True, backend="inductor" if CUDA else "aot_eager")
    results = []
    for function in (step, compiled):
        q, k, v = leaves(*problem(33, 33)[:3])
        out = function(q, k, v)
        results.append((out, *torch.autograd.grad(out.sum(), [q, k, v, *encoding.parameters()])))
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["alibi-learned", "t5", "rope+alibi-symmetric+stickbreaking"])
def test_same_inputs_same_bits(name):
    tensors = problem(100, 100)
    first, second = (run("triton", name, *tensors, dtype=torch.float32) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second))


class Allocated(TorchDispatchMode):
    """Counts the bytes of every tensor that an operation returns, each storage once."""

    def __init__(self):
        super().__init__()
        self.bytes, self.seen = 0, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in {s.data_ptr() for s in self.seen}:
                    self.seen.append(storage)
                    self.bytes += storage.nbytes()
        return out


@pytest.mark.parametrize("name", ["rope+alibi-learned", "t5", "rope+alibi-symmetric+stickbreaking"])
def test_memory_grows_with_the_length_not_its_square(monkeypatch, name):
    """All that is ever allocated, both passes, kernels left out: an upper bound of the peak."""
    for module in (rotary, softmax, stickbreaking):
        monkeypatch.setattr(module, "launch", lambda *a, **b: None)
    torch.use_deterministic_algorithms(False)
    used = []
    for length in (8192, 16384):
        encoding = make(name, 16)
        q, k, v, dout = (torch.zeros(1, HEADS, length, 16, device=DEVICE).requires_grad_() for _ in range(4))
        with Allocated() as allocated:
            out = attention(q, k, v, encoding, impl="triton")
            torch.autograd.grad(out, [q, k, v, *encoding.parameters()], dout, allow_unused=True)
        used.append(allocated.bytes)
    assert 1.8 < used[1] / used[0] <= 2.2
    assert used[1] < 16384**2  # one byte an entry of one head's scores would already be more


@pytest.fixture
def unlaunched(monkeypatch):
    """A launch is a failure."""
    for module in (rotary, softmax, stickbreaking):
        monkeypatch.setattr(module, "launch", never)


X = {n: torch.randn(1, 4, 8, n) for n in (16, 129)}
STICK, ALIBI = posenc.make("stickbreaking"), posenc.make("alibi", num_heads=4)
T5, COPE = posenc.make("t5", num_heads=4), posenc.make("cope", head_dim=16)
FADED = posenc.make("exposb", head_dim=16, num_heads=4)
BAD = [  # words of the reason, the encoding, other arguments
    ("float64.*float32", None, {"q": X[16].double()}),
    ("129.*128", None, {"q": X[129]}),
    ("return_weights=True", None, {"return_weights": True}),
    ("'rotate'", posenc.Encoding(rotate=lambda q, k, at: (q, k)), {}),
    ("'bias'", posenc.Encoding(bias=lambda q, k, at: 0.0), {}),
    ("table", posenc.compose(T5, STICK), {}),
    ("'weigh'", posenc.compose(COPE, STICK), {}),
    ("'bias'.*'weigh'", posenc.compose(FADED, ALIBI), {}),
    ("'weigh'", posenc.make("exposb", head_dim=16, num_heads=4, on="weights"), {}),
    ("positions", posenc.make("rope", head_dim=16), {"pos_q": torch.ones(8, requires_grad=True)}),
]


@pytest.mark.skipif(CUDA, reason="the inputs lie on the CPU")
def test_what_no_kernel_serves_is_refused_with_the_reason_before_a_launch(unlaunched):
    for words, encoding, options in BAD:
        given = {"q": X[16]} | options
        with pytest.raises(UnsupportedError, match=words):
            attention(k=given["q"], v=given["q"], encoding=encoding, impl="triton", **given)


def test_devices_and_dtypes_are_refused_by_declared_capability(monkeypatch):
    from posenc.kernels.served import why_not_here

    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert "CUDA" in why_not_here(cpu, torch.float32, 64)
    for capability, dtype, reason in (
        ((7, 0), torch.float16, "7.5"),
        ((7, 5), torch.bfloat16, "8.0"),
        ((7, 5), torch.float16, None),
        ((8, 0), torch.bfloat16, None),
    ):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, c=capability: c)
        found = why_not_here(cuda, dtype, 64)
        assert found is None if reason is None else reason in found
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert "bfloat16" in why_not_here(cpu, torch.bfloat16, 64)
    assert why_not_here(cpu, torch.float16, 64) is None
    monkeypatch.setattr("posenc.kernels.served.INSTALLED", False)
    assert "not installed" in why_not_here(cuda, torch.float16, 64)


AUTO = [  # words of the reason why "auto" takes no kernel, capability, dtype, lengths
    ("7.5", (7, 5), torch.float16, {}),
    ("multiply-adds", (9, 0), torch.float32, {"queries": 8191}),
    ("1 of a tile's 128 rows", (9, 0), torch.float16, {"queries": 1, "keys": 4096}),
    ("64 of a tile's 128 rows", (9, 0), torch.float16, {"queries": 64, "keys": 4096}),
    ("float64", (9, 0), torch.float64, {}),
]


def test_auto_takes_kernels_where_they_gain_and_says_why(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def chosen(encoding, capability, dtype=torch.float16, **lengths):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
        return posenc.explain_impl(encoding, device="cuda", dtype=dtype, **lengths)

    for encoding in (ALIBI, STICK):
        for words, *given, lengths in AUTO:
            line = chosen(encoding, *given, **lengths)
            assert words in line and not line.startswith("impl='triton'")
        for given, lengths in (((9, 0),), {}), (((8, 0),), {}), (((9, 0), torch.float32), {"queries": 8192}):
            assert chosen(encoding, *given, **lengths).startswith("impl='triton'")
        assert chosen(encoding, (9, 0), queries=65).startswith("impl='triton'")
        assert not posenc.explain_impl(encoding, device="cpu").startswith("impl='triton'")
    assert "of a tile's 64 rows" in chosen(STICK, (8, 0), queries=32)  # of the stick there, and CoPE's
    assert "of a tile's 64 rows" in chosen(COPE, (9, 0), queries=32)
    for encoding in (None, posenc.make("rope", head_dim=64)):
        assert all(chosen(encoding, chip).startswith("impl='sdpa'") for chip in ((9, 0), (7, 5)))


@pytest.mark.skipif(CUDA, reason="pretends that there is a GPU")
def test_auto_asks_with_the_lengths_of_the_call(monkeypatch):
    """`attention` hands its own numbers of queries and keys over, in this order."""
    asked = []
    monkeypatch.setattr(posenc.impls, "why_slower", lambda *given: asked.append(given[2:]) or "asked")
    attention(X[16][:, :, -3:].half(), X[16].half(), X[16].half(), ALIBI)
    assert asked == [(torch.float16, 16, (3, 8))]


ARANGE, ONES = torch.arange(8), torch.ones(8, 8)
WRONG = [  # the changed arguments, the error, what it says
    ({"variant": "liner"}, ValueError, "variant='liner'.*'linear'"),
    ({"variant": "linear"}, ValueError, "'linear' needs"),
    ({"a": torch.ones(4)}, ValueError, "'plain'.*\\ba\\b"),
    ({"variant": "linear", "a": torch.ones(3), "pos_q": ARANGE, "pos_k": ARANGE}, ValueError, r"a must be .*\[4\]"),
    ({"pos_k": [1, 2]}, TypeError, "pos_k must be a tensor"),
    ({"mask": ONES[:, 1:].bool()}, ValueError, r"mask must have shape \[8, 8\]"),
    ({"mask": ONES}, TypeError, "mask must be bool"),
    ({"scale": "x"}, TypeError, "scale='x'"),
    ({"tile": (48, 16, 4, 1)}, ValueError, "tile=.*48.*power"),
    ({"pos_q": torch.ones(8, requires_grad=True)}, UnsupportedError, "pos_q.*gradient"),
    ({"k": X[16][:, :3], "v": X[16][:, :3]}, ValueError, "k has 3 heads.*4"),
    ({"q": torch.randn(4, 8, 16)}, ValueError, "^q .*8, 16"),
    ({"v": torch.randn(1, 4, 8, 16).half()}, ValueError, "^v .*float16"),
]
TABLE = {"variant": "table", "table": torch.ones(4, 9), "pos_q": ARANGE, "pos_k": ARANGE}
WRONG_TABLE = [
    ({"table": None}, ValueError, "table=None"),
    ({"pos_k": ARANGE + 0.5}, ValueError, "pos_k.*0.5.*whole"),
    ({"table": torch.ones(3, 9)}, ValueError, r"table must be .*\[4, 9\], got .*\[3, 9\]"),
    ({"table": torch.ones(4, 9).double()}, ValueError, "table.*float32.*float64"),
    ({"first": 0.5}, TypeError, "first=0.5"),
    ({"variant": "plain"}, ValueError, "(?s)table=.*'plain'"),
]


@pytest.mark.skipif(CUDA, reason="the inputs lie on the CPU")
def test_bad_input_of_the_kernels_names_the_argument(unlaunched):
    qkv = dict.fromkeys("qkv", X[16])
    for function in (softmax.attend, stickbreaking.attend):
        for change, error, words in WRONG:
            with pytest.raises(error, match=words):
                function(**qkv | change)
    for change, error, words in WRONG_TABLE:
        with pytest.raises(error, match=words):
            softmax.attend(**qkv, **TABLE | change)
    with pytest.raises(UnsupportedError, match="'table'.*softmax"):
        stickbreaking.attend(**qkv, variant="table", pos_q=ARANGE, pos_k=ARANGE)


@pytest.mark.skipif(not CUDA, reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["nope", "rope+alibi-learned", "t5", "rope+alibi-symmetric+stickbreaking"])
def test_long_lengths_on_a_gpu(name, dtype):
    """The last queries of 32,768 against the float64 reference of these queries alone."""
    length = 32768
    q, k, v, dout = problem(length, length, head_dim=64)
    dout[:, :, :-64] = 0  # only the last queries send a gradient
    inputs = [x.to(dtype).requires_grad_() for x in (q, k, v)]
    out = attention(*inputs, make(name, 64), impl="triton")
    grads = torch.autograd.grad(out, inputs, dout.to(dtype))
    tail = [q[:, :, -64:], k, v, dout[:, :, -64:]]
    at = (torch.arange(length - 64, length, device=DEVICE), torch.arange(length, device=DEVICE))
    exact, eager = (run("torch", name, *tail, positions=at, dtype=d) for d in (torch.float64, dtype))
    for ours, b, c in zip((out[:, :, -64:], grads[0][:, :, -64:], grads[1], grads[2]), eager, exact):
        error, own = (float((x.double() - c.double()).norm()) for x in (ours, b))
        assert error <= 2 * own + 1e-5 * float(c.double().norm())
