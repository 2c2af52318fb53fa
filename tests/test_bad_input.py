"""Each argument of each public function with the wrong type, rank, size or range: the error names it and its value."""

import inspect

import pytest
import torch

import posenc
from posenc import alibi, attention, compose, make, rope, sinusoidal, stickbreaking
from posenc.encoding import Encoding

T, V, U = TypeError, ValueError, posenc.UnsupportedError

q = torch.randn(2, 4, 5, 8)
x = torch.randn(2, 5, 16)
at = torch.arange(5)
freq = rope.inv_freq(8)
layer = posenc.SelfAttention(16, 2)
scores = torch.randn(2, 4, 5, 5)
seen = torch.ones(5, 5, dtype=torch.bool).tril()

# id -> (call, error, words that the message must hold: the argument, its value or shape, what would be right)
CASES = {
    # attention
    "attention-q-type": (lambda: attention([1], q, q), T, ["q ", "[B, H, T, D]", "list"]),
    "attention-q-rank": (lambda: attention(q[0], q, q), V, ["q ", "[B, H, T, D]", "[4, 5, 8]"]),
    "attention-q-integers": (lambda: attention(q.long(), q, q), T, ["q ", "floating", "int64"]),
    "attention-q-complex": (lambda: attention(q + 0j, q, q), T, ["q ", "complex"]),
    "attention-q-no-lanes": (lambda: attention(q[..., :0], q[..., :0], q), V, ["q ", "lane"]),
    "attention-k-type": (lambda: attention(q, None, q), T, ["k ", "None"]),
    "attention-k-rank": (lambda: attention(q, q[0], q), V, ["k ", "[4, 5, 8]"]),
    "attention-k-dim": (lambda: attention(q, q[..., :6], q), V, ["k ", "[2, 4, 5, 8]", "[2, 4, 5, 6]"]),
    "attention-k-batch": (lambda: attention(q, q[:1], q), V, ["k ", "[1, 4, 5, 8]"]),
    "attention-k-heads": (lambda: attention(q, q[:, :3], q[:, :3]), V, ["k ", "3", "4 heads"]),
    "attention-k-no-heads": (lambda: attention(q, q[:, :0], q[:, :0]), V, ["k ", "0 heads"]),
    "attention-k-dtype": (lambda: attention(q, q.double(), q), V, ["k ", "float64", "float32"]),
    "attention-v-type": (lambda: attention(q, q, 3.0), T, ["v ", "3.0"]),
    "attention-v-rank": (lambda: attention(q, q, q[0]), V, ["v ", "[4, 5, 8]"]),
    "attention-v-length": (lambda: attention(q, q, q[:, :, :3]), V, ["v ", "[2, 4, 3, 8]"]),
    "attention-v-dtype": (lambda: attention(q, q, q.half()), V, ["v ", "float16"]),
    "attention-encoding-type": (lambda: attention(q, q, q, "rope"), T, ["encoding='rope'", "Encoding", "make"]),
    "attention-pos_q-type": (lambda: attention(q, q, q, pos_q=5), T, ["pos_q", "5", "[2, 5]"]),
    "attention-pos_q-size": (lambda: attention(q, q, q, pos_q=at[:4]), V, ["pos_q", "[4]", "[5]"]),
    "attention-pos_q-rank": (lambda: attention(q, q, q, pos_q=at[None, None]), V, ["pos_q", "[1, 1, 5]"]),
    "attention-pos_q-batch": (lambda: attention(q, q, q, pos_q=at.expand(3, 5)), V, ["pos_q", "[3, 5]", "[2, 5]"]),
    "attention-pos_q-bool": (lambda: attention(q, q, q, pos_q=at > 2), T, ["pos_q", "bool"]),
    "attention-pos_q-missing": (lambda: attention(q[:, :, :2], q, q, pos_k=at), V, ["pos_q=None", "2 queries"]),
    "attention-pos_k-type": (lambda: attention(q, q, q, pos_q=at, pos_k="x"), T, ["pos_k", "'x'"]),
    "attention-pos_k-size": (lambda: attention(q, q, q, pos_q=at, pos_k=at[:3]), V, ["pos_k", "[3]"]),
    "attention-pos_k-missing": (lambda: attention(q[:, :, :2], q, q, pos_q=at[:2]), V, ["pos_k=None", "5 keys"]),
    "attention-causal-type": (lambda: attention(q, q, q, causal="yes"), T, ["causal='yes'", "True or False"]),
    "attention-mask-type": (lambda: attention(q, q, q, mask=1), T, ["mask", "bool", "1"]),
    "attention-mask-dtype": (lambda: attention(q, q, q, mask=scores), T, ["mask", "bool", "float32"]),
    "attention-mask-size": (lambda: attention(q, q, q, mask=seen[:, :3]), V, ["mask", "[5, 3]", "[5, 5]"]),
    "attention-mask-rank": (lambda: attention(q, q, q, mask=seen[None]), V, ["mask", "[1, 5, 5]"]),
    "attention-mask-heads": (lambda: attention(q, q, q, mask=seen.expand(2, 4, 5, 5)), V, ["mask", "[2, 4, 5, 5]"]),
    "attention-scale-type": (lambda: attention(q, q, q, scale="big"), T, ["scale='big'", "number"]),
    "attention-scale-nan": (lambda: attention(q, q, q, scale=float("nan")), V, ["scale=nan", "finite"]),
    "attention-gates-type": (lambda: attention(q, q, q, gates=1.0), T, ["gates", "[B, H, Tk]", "1.0"]),
    "attention-gates-rank": (lambda: attention(q, q, q, gates=q), V, ["gates", "[2, 4, 5, 8]"]),
    "attention-gates-size": (lambda: attention(q, q, q, gates=q[..., 0, :]), V, ["gates", "[2, 4, 5]", "[2, 4, 8]"]),
    "attention-impl-type": (lambda: attention(q, q, q, impl=3), V, ["impl=3", "'torch'"]),
    "attention-impl-name": (lambda: attention(q, q, q, impl="tritn"), V, ["impl='tritn'", "Did you mean 'triton'"]),
    "attention-impl-triton": (lambda: attention(*[q.double()] * 3, impl="triton"), U, ["float64", "impl='torch'"]),
    "attention-return_weights": (lambda: attention(q, q, q, return_weights=1), T, ["return_weights=1"]),
    "attention-bidirectional": (lambda: attention(q, q, q, make("alibi", num_heads=4), causal=False), U, ["symmetric"]),
    "attention-alibi-heads": (lambda: attention(q, q, q, make("alibi", num_heads=3)), V, ["num_heads=3", "4 heads"]),
    "attention-rope-lanes": (lambda: attention(q, q, q, make("rope", head_dim=16)), V, ["inv_freq", "16 lanes"]),
    "attention-axes": (lambda: attention(q, q, q, Encoding(axes=2)), V, ["pos_q=None", "[T, 2]"]),
    "explain_impl-encoding": (lambda: posenc.explain_impl("rope"), T, ["encoding='rope'", "Encoding"]),
    "explain_impl-impl": (lambda: posenc.explain_impl(impl="cuda"), V, ["impl='cuda'"]),
    "explain_impl-device": (lambda: posenc.explain_impl(device=0), T, ["device=0", "torch.device"]),
    "explain_impl-dtype": (lambda: posenc.explain_impl(dtype="half"), T, ["dtype='half'", "torch.dtype"]),
    "explain_impl-head_dim": (lambda: posenc.explain_impl(head_dim=0), V, ["head_dim=0", "at least 1"]),
    # SelfAttention
    "SelfAttention-dim-type": (lambda: posenc.SelfAttention(16.0, 2), T, ["dim=16.0", "int"]),
    "SelfAttention-dim-range": (lambda: posenc.SelfAttention(0, 2), V, ["dim=0", "at least 1"]),
    "SelfAttention-num_heads-type": (lambda: posenc.SelfAttention(16, True), T, ["num_heads=True"]),
    "SelfAttention-num_heads-range": (lambda: posenc.SelfAttention(16, -1), V, ["num_heads=-1"]),
    "SelfAttention-num_heads-size": (lambda: posenc.SelfAttention(16, 3), V, ["num_heads=3", "dim=16", "head_dim"]),
    "SelfAttention-encoding": (lambda: posenc.SelfAttention(16, 2, "rope"), T, ["encoding='rope'"]),
    "SelfAttention-num_kv_heads-type": (lambda: posenc.SelfAttention(16, 2, num_kv_heads="1"), T, ["num_kv_heads='1'"]),
    "SelfAttention-num_kv_heads": (lambda: posenc.SelfAttention(16, 4, num_kv_heads=3), V, ["num_kv_heads=3", "=4"]),
    "SelfAttention-head_dim-type": (lambda: posenc.SelfAttention(16, 2, head_dim=2.5), T, ["head_dim=2.5"]),
    "SelfAttention-head_dim-range": (lambda: posenc.SelfAttention(16, 2, head_dim=0), V, ["head_dim=0"]),
    "SelfAttention-causal": (lambda: posenc.SelfAttention(16, 2, causal=None), T, ["causal=None"]),
    "SelfAttention-bias": (lambda: posenc.SelfAttention(16, 2, bias=1), T, ["bias=1"]),
    "SelfAttention-scale": (lambda: posenc.SelfAttention(16, 2, scale="1"), T, ["scale='1'", "number"]),
    "SelfAttention-impl": (lambda: posenc.SelfAttention(16, 2, impl="trch"), V, ["impl='trch'", "'torch'"]),
    "SelfAttention-x-type": (lambda: layer(3), T, ["x ", "[B, T, 16]", "3"]),
    "SelfAttention-x-rank": (lambda: layer(x[0]), V, ["x ", "[5, 16]"]),
    "SelfAttention-x-size": (lambda: layer(x[..., :8]), V, ["x ", "[B, T, 16]", "[2, 5, 8]"]),
    "SelfAttention-positions-type": (lambda: layer(x, positions=3), T, ["positions", "3"]),
    "SelfAttention-positions-size": (lambda: layer(x, positions=at[:2]), V, ["positions", "[2]", "[5]"]),
    "SelfAttention-mask": (lambda: layer(x, mask=scores), T, ["mask", "bool"]),
    "SelfAttention-valid": (lambda: layer(x, valid=at), V, ["valid", "[2, 5]", "int64"]),
    "SelfAttention-valid-type": (lambda: layer(x, valid=1), T, ["valid", "1"]),
    "SelfAttention-cache": (lambda: layer(x, cache={}), T, ["cache={}", "KVCache"]),
    "SelfAttention-return_weights": (lambda: layer(x, return_weights="no"), T, ["return_weights='no'"]),
    # Encoding, compose, make
    "Encoding-embed": (lambda: Encoding(embed=3), T, ["embed=3", "callable"]),
    "Encoding-rotate": (lambda: Encoding(rotate="r"), T, ["rotate='r'", "callable"]),
    "Encoding-bias": (lambda: Encoding(bias=q[0, 0, 0, 0]), T, ["bias=", "callable"]),
    "Encoding-weigh": (lambda: Encoding(weigh=[]), T, ["weigh=[]", "callable"]),
    "Encoding-attend": (lambda: Encoding(attend="shaw"), T, ["attend='shaw'", "callable"]),
    "Encoding-embed_at": (lambda: Encoding(embed_at="layer"), V, ["embed_at='layer'", "'layer_qk'"]),
    "Encoding-axes-type": (lambda: Encoding(axes="2"), T, ["axes='2'", "int"]),
    "Encoding-axes-range": (lambda: Encoding(axes=0), V, ["axes=0", "at least 1"]),
    "Encoding-causal_only": (lambda: Encoding(causal_only=True), T, ["causal_only=True", "reason"]),
    "compose-type": (lambda: compose(make("nope"), "rope"), T, ["encodings[1]='rope'", "Encoding"]),
    "compose-place": (lambda: compose(make("stickbreaking"), make("stickbreaking")), U, ["encodings[1]", "'weigh'"]),
    "compose-attend": (lambda: compose(*[make("shaw", head_dim=8, values=True)] * 2), U, ["encodings[1]", "'bias'"]),
    "compose-axes": (lambda: compose(Encoding(axes=1), Encoding(axes=2)), U, ["encodings[1]", "2 axes"]),
    "make-name-type": (lambda: make(3), V, ["name=3", "rope"]),
    "make-name": (lambda: make("rotary"), V, ["name='rotary'", "known", "alibi"]),
    "make-name-near": (lambda: make("stickbraking"), V, ["Did you mean 'stickbreaking'"]),
    "make-option": (lambda: make("rope", headdim=8), V, ["headdim=8", "Did you mean 'head_dim'"]),
    "make-missing": (lambda: make("alibi"), T, ["num_heads=..."]),
    # sinusoidal
    "table-positions-type": (lambda: sinusoidal.table(5, 8), T, ["positions", "5"]),
    "table-positions-scalar": (lambda: sinusoidal.table(torch.tensor(5), 8), V, ["positions", "[T]", "5"]),
    "table-dim-type": (lambda: sinusoidal.table(at, 8.0), T, ["dim=8.0", "int"]),
    "table-dim-odd": (lambda: sinusoidal.table(at, 7), V, ["dim=7", "even"]),
    "table-dim-range": (lambda: sinusoidal.table(at, 0), V, ["dim=0", "at least 2"]),
    "table-base-type": (lambda: sinusoidal.table(at, 8, base="1e4"), T, ["base='1e4'", "number"]),
    "table-base-range": (lambda: sinusoidal.table(at, 8, base=0), V, ["base=0", "greater than 0"]),
    "table-layout": (lambda: sinusoidal.table(at, 8, layout="interleave"), V, ["Did you mean 'interleaved'"]),
    "sinusoidal-base": (lambda: sinusoidal.sinusoidal(base=-1.0), V, ["base=-1.0"]),
    "sinusoidal-embed_at": (lambda: make("sinusoidal", embed_at="all"), V, ["embed_at='all'", "'input'"]),
    "sinusoidal-layout": (lambda: make("sinusoidal", layout=2), V, ["layout=2", "'concatenated'"]),
    "sinusoidal-volume-type": (lambda: make("sinusoidal", volume=None), T, ["volume=None", "number"]),
    "sinusoidal-volume-range": (lambda: make("sinusoidal", volume=float("inf")), V, ["volume=inf", "finite"]),
    "sinusoidal-odd-width": (lambda: make("sinusoidal").embed(x[..., :7], at[None]), V, ["dim=7", "even"]),
    "sinusoidal-x": (lambda: make("sinusoidal").embed(x[0], at[None]), V, ["x ", "[B, T, C]", "[5, 16]"]),
    "sinusoidal-positions": (lambda: make("sinusoidal").embed(x, at[None, :3]), V, ["positions", "[1, 3]", "[2, 5]"]),
    # rope
    "inv_freq-dim-type": (lambda: rope.inv_freq("8"), T, ["dim='8'", "int"]),
    "inv_freq-dim-odd": (lambda: rope.inv_freq(9), V, ["dim=9", "even"]),
    "inv_freq-base": (lambda: rope.inv_freq(8, base=-2), V, ["base=-2", "greater than 0"]),
    "inv_freq-dtype": (lambda: rope.inv_freq(8, dtype="fp32"), T, ["dtype='fp32'", "torch.float32"]),
    "inv_freq-dtype-int": (lambda: rope.inv_freq(8, dtype=torch.int64), T, ["dtype=torch.int64", "torch.float32"]),
    "rotate-x-type": (lambda: rope.rotate(1, at, freq), T, ["x ", "1"]),
    "rotate-x-integers": (lambda: rope.rotate(q.long(), at, freq), T, ["x ", "floating"]),
    "rotate-x-rank": (lambda: rope.rotate(q[0, 0, 0], at[:1], freq), V, ["x", "[8]"]),
    "rotate-positions-type": (lambda: rope.rotate(q, 3, freq), T, ["positions", "3"]),
    "rotate-positions-size": (lambda: rope.rotate(q, at[:3], freq), V, ["positions", "[3]", "[2, 4, 5]"]),
    "rotate-positions-larger": (lambda: rope.rotate(q, torch.zeros(3, 1, 1, 5), freq), V, ["positions [3, 1, 1, 5]"]),
    "rotate-inv_freq-type": (lambda: rope.rotate(q, at, 1e4), T, ["inv_freq", "10000.0"]),
    "rotate-inv_freq-rank": (lambda: rope.rotate(q, at, freq[None]), V, ["inv_freq", "[1, 4]"]),
    "rotate-inv_freq-size": (lambda: rope.rotate(q, at, rope.inv_freq(10)), V, ["inv_freq", "10 lanes", "8]"]),
    "rotate-layout": (lambda: rope.rotate(q, at, freq, layout="neox"), V, ["layout='neox'", "'half'"]),
    "rotate-attention_factor": (lambda: rope.rotate(q, at, freq, attention_factor=0), V, ["attention_factor=0"]),
    "rope-head_dim-type": (lambda: make("rope", head_dim=8.0), T, ["head_dim=8.0"]),
    "rope-head_dim-odd": (lambda: make("rope", head_dim=7), V, ["head_dim=7", "even"]),
    "rope-base": (lambda: make("rope", head_dim=8, base=0), V, ["base=0"]),
    "rope-layout": (lambda: make("rope", head_dim=8, layout="halves"), V, ["Did you mean 'half'"]),
    "rope-rotary_dim-type": (lambda: make("rope", head_dim=8, rotary_dim=0.5), T, ["rotary_dim=0.5"]),
    "rope-rotary_dim-odd": (lambda: make("rope", head_dim=8, rotary_dim=3), V, ["rotary_dim=3", "even"]),
    "rope-rotary_dim-range": (lambda: make("rope", head_dim=8, rotary_dim=10), V, ["rotary_dim=10", "head_dim=8"]),
    "rope-proportional": (lambda: make("rope", head_dim=8, proportional="yes"), T, ["proportional='yes'"]),
    "rope-inv_freq-type": (lambda: make("rope", head_dim=8, inv_freq=[1.0]), T, ["inv_freq", "[1.0]"]),
    "rope-inv_freq-size": (lambda: make("rope", head_dim=4, inv_freq=freq), V, ["inv_freq", "head_dim=4"]),
    "rope-inv_freq-and-dim": (lambda: make("rope", head_dim=8, rotary_dim=4, inv_freq=freq), V, ["rotary_dim=4"]),
    "rope-attention_factor": (lambda: make("rope", head_dim=8, attention_factor="1"), T, ["attention_factor='1'"]),
    # alibi
    "slopes-num_heads-type": (lambda: alibi.slopes(8.0), T, ["num_heads=8.0", "int"]),
    "slopes-num_heads-range": (lambda: alibi.slopes(0), V, ["num_heads=0", "at least 1"]),
    "alibi-num_heads": (lambda: make("alibi", num_heads="8"), T, ["num_heads='8'"]),
    "alibi-symmetric": (lambda: make("alibi", num_heads=8, symmetric=1), T, ["symmetric=1"]),
    "alibi-learned": (lambda: make("alibi", num_heads=8, learned="no"), T, ["learned='no'"]),
    "bias-pos_q-type": (lambda: alibi.bias(5, at, freq), T, ["pos_q", "5"]),
    "bias-pos_q-rank": (lambda: alibi.bias(at[None, None], at[None, None], freq), V, ["pos_q", "[1, 1, 5]"]),
    "bias-pos_k-type": (lambda: alibi.bias(at, [0], freq), T, ["pos_k", "[0]"]),
    "bias-pos_k-rank": (lambda: alibi.bias(at, at[None], freq), V, ["pos_k", "[1, 5]"]),
    "bias-pos_k-batch": (lambda: alibi.bias(at.expand(2, 5), at.expand(3, 5), freq), V, ["pos_k", "[3, 5]"]),
    "bias-slopes-type": (lambda: alibi.bias(at, at, 0.5), T, ["slopes", "0.5"]),
    "bias-slopes-rank": (lambda: alibi.bias(at, at, freq[None]), V, ["slopes", "[1, 4]"]),
    "bias-slopes-integers": (lambda: alibi.bias(at, at, at), T, ["slopes", "floating", "int64"]),
    "bias-symmetric": (lambda: alibi.bias(at, at, freq, symmetric=None), T, ["symmetric=None"]),
    # stickbreaking
    "weigh-scores-type": (lambda: stickbreaking.weigh(0, seen), T, ["scores", "0"]),
    "weigh-scores-rank": (lambda: stickbreaking.weigh(scores[0, 0, 0], seen[0]), V, ["scores", "[5]"]),
    "weigh-scores-integers": (lambda: stickbreaking.weigh(scores.long(), seen), T, ["scores", "floating"]),
    "weigh-visible-type": (lambda: stickbreaking.weigh(scores, None), T, ["visible", "bool", "NoneType"]),
    "weigh-visible-dtype": (lambda: stickbreaking.weigh(scores, scores), T, ["visible", "bool", "float32"]),
    "weigh-visible-size": (lambda: stickbreaking.weigh(scores, seen[:, :3]), V, ["visible", "[5, 3]"]),
    "weigh-order": (lambda: stickbreaking.weigh(scores, seen, order="last"), V, ["order='last'", "'recent'"]),
    "weigh-return_remainder": (lambda: stickbreaking.weigh(scores, seen, return_remainder=1), T, ["remainder=1"]),
    "stickbreaking-order": (lambda: make("stickbreaking", order="recnt"), V, ["Did you mean 'recent'"]),
    "stickbreaking-attend_current": (lambda: make("stickbreaking", attend_current=0), T, ["attend_current=0"]),
    "stickbreaking-remainder": (lambda: make("stickbreaking", remainder="keep"), V, ["remainder='keep'", "'drop'"]),
    "stickbreaking-bidirectional": (
        lambda: attention(q, q, q, make("stickbreaking"), causal=False),
        U,
        ["causal=False", "order='first'"],
    ),
}


@pytest.mark.parametrize("call, error, words", CASES.values(), ids=CASES)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is error
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


PUBLIC = {
    "attention": attention,
    "SelfAttention": posenc.SelfAttention,
    "Encoding": Encoding,
    "table": sinusoidal.table,
    "sinusoidal": sinusoidal.sinusoidal,
    "inv_freq": rope.inv_freq,
    "rotate": rope.rotate,
    "rope": rope.rope,
    "slopes": alibi.slopes,
    "bias": alibi.bias,
    "alibi": alibi.alibi,
    "weigh": stickbreaking.weigh,
    "stickbreaking": stickbreaking.stickbreaking,
    "explain_impl": posenc.explain_impl,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_no_argument_is_left_untried(name):
    tried = {case.split("-")[1] for case in CASES if case.split("-")[0] == name}
    assert set(inspect.signature(PUBLIC[name]).parameters) <= tried
