r"""What mutation testing found untested: whole messages, another device, what the kernels are told, edges of ranges."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from cases import DIM, NAMES, encoding

import posenc
from posenc import (
    SelfAttention,
    alibi,
    attention,
    exposb,
    kerple,
    learned,
    rope,
    rse,
    scaling,
    shaw,
    sinusoidal,
    stickbreaking,
    t5,
    transformer_xl,
)

q = torch.randn(2, 4, 5, 8)
at = torch.arange(5)
half = torch.tensor([0.5])
whole = torch.ones(2, 5, 8, dtype=torch.long)
scores = torch.randn(5, 5)
seen = torch.ones(5, 5, dtype=torch.bool).tril()
lists = dict(short=half, long=half, length=1, trained=9)
layer = SelfAttention(8, 2)

# A wrong call -> all that its error says: the argument under its own name, its value and what would be right. Indented
# lines go on.
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
sinusoidal.sinusoidal().embed(q[0, :2], at.expand(5, 5)) -> positions [5, 5] must be [T] or [B, T] of x, [2, 5]
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
learned.learned(9, 8).embed(q[0], half.expand(5))
    -> positions holds 0.5, it must hold whole numbers: this method looks them up in a table
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
t5.bucket([1]) -> relative must be a tensor, got list: [1]
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
scaling.correction_lanes(7, trained=9) -> dim=7 must be even: its lanes are used in pairs
scaling.llama3(8, low=0) -> low=0 must be greater than 0
scaling.llama3(8, high=0) -> high=0 must be greater than 0
scaling.longrope(2, 0, **lists) -> factor=0 must be at least 1
scaling.longrope(2, 2, **lists | dict(length=-1)) -> length=-1 must be at least 0
scaling.longrope(2, 2, **lists | dict(trained=1)) -> trained=1 must be greater than 1
scaling.longrope(2, 2, **lists, attention_factor=0) -> attention_factor=0 must be greater than 0
scaling.longrope(2, 2, **lists | dict(short=1)) -> short must be a tensor of shape [1], got int: 1
scaling.longrope(2, 2, **lists | dict(long=1)) -> long must be a tensor of shape [1], got int: 1
scaling.dynamic(0, len) -> head_dim=0 must be at least 2
scaling.dynamic(7, swing) -> head_dim=7 must be even: its lanes are used in pairs
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
exposb.exposb(7, 4, band=False) -> head_dim=7 must be even: its lanes are used in pairs
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
attention(q, q, q, alibi.alibi(2)) -> num_heads=2 of this ALiBi must equal the 4 heads of q
attention(q, q, q, t5.t5(2)) -> num_heads=2 of this T5 bias must equal the 4 heads of q
attention(q, q, q, kerple.kerple(2)) -> num_heads=2 of this KERPLE must equal the 4 heads of q
attention(q, q, q, fire.fire(2)) -> num_heads=2 of this FIRE must equal the 4 of q
attention(q, q, q, shaw.shaw(6)) -> head_dim=6 of this encoding must equal the 8 lanes of q
attention(q, q, q[..., :6], shaw.shaw(8, values=True)) -> head_dim=8 of this encoding must equal the 6 lanes of v
attention(q, q, q, exposb.exposb(8, 2)) -> num_heads=2 of decay_rates must equal the 4 heads of q
attention(q, q, q, exposb.exposb(8, 2, gain=False)) -> num_heads=2 of band_weights must equal the 4 heads of q
attention(q, q, q, rope.rope(10)) -> inv_freq turns 10 lanes, x must have at least as many, got [2, 4, 5, 8]
rope.rotate(q, at[:3], half) -> positions [3] must broadcast to [2, 4, 5]
rope.rope(8, inv_freq=half, rotary_dim=2) -> inv_freq is given, so leave out rotary_dim=2 and proportional=False
rope.rope(8, rotary_dim=10) -> rotary_dim=10 must be at most head_dim=8
rope.rope(2, inv_freq=torch.ones(2)) -> inv_freq turns 4 lanes, more than head_dim=2
rope.inv_freq(8, dtype=torch.int64) -> dtype=torch.int64 must be a floating-point dtype such as torch.float32
scaling.dynamic(8, 3) -> scheme=3 must be a callable of length, got int
scaling.dynamic(2, lambda length: (torch.ones(2), 1.0)) -> scheme turns 4 lanes, more than head_dim=2
scaling.longrope(2, 2, **lists | dict(short=torch.ones(2))) -> short must have one factor for each of 1 pairs, got [2]
scaling.longrope(2, 2, **lists | dict(short=[0.0])) -> short must hold finite factors above 0, got [0.0]
stickbreaking.weigh(scores, seen[:3]) -> visible must broadcast to scores, got visible [3, 5], scores [5, 5]
exposb.exposb(8, 4, floor=2) -> floor=2 must be at most 1
exposb.fade(at, floor=2) -> floor=2 must be at most 1
exposb.gain(torch.ones(3), torch.ones(2)) -> rates must broadcast against what it is multiplied with, got [2] and [3]
compose(Encoding(), 3) -> encodings[1]=3 must be an Encoding, got int
compose(Encoding(axes=1), Encoding(axes=2)) -> encodings[1] counts 2 axes, an earlier one 1
Encoding(causal_only=3) -> causal_only=3 must be None or the reason, in words
Encoding(bias=3) -> bias=3 must be a callable or None, got int
attention(q, q[:, :, :, :6], q) -> k must share B and D with q [2, 4, 5, 8], got [2, 4, 5, 6]
attention(q, q, q[:, :, :3]) -> v must share B, H and T with k [2, 4, 5, 8], got [2, 4, 3, 8]
attention(q, q[:, :3], q[:, :3]) -> k has 3 heads, which must divide the 4 heads of q
attention(q, q, q.half()) -> v is torch.float16 on cpu, it must be as q: torch.float32 on cpu
attention(q[..., :0], q[..., :0], q) -> q must have at least one lane, got shape [2, 4, 5, 0]
attention(q[:, :, :2], q, q, pos_k=at) -> pos_q=None: give it too, since 2 queries and 5 keys can't share pos_k
attention(q[:, :, :2], q, q, pos_q=at[:2]) -> pos_k=None: give it too, since 2 queries and 5 keys can't share pos_q
attention(q, q, q, Encoding(axes=2)) -> pos_q=None: this encoding needs positions of shape [T, 2]
attention(q, q, q, pos_q=at[:3]) -> pos_q must have shape [5] or [2, 5], got [3]
attention(q, q, q, Encoding(axes=2), pos_q=at) -> pos_q must have shape [5, 2] or [2, 5, 2], got [5]
attention(q, q, q, mask=scores) -> mask must be bool, True where a query may look, got torch.float32
attention(q, q, q, mask=seen[:3]) -> mask must have shape [5, 5], or broadcast to [2, 1, 5, 5], got [3, 5]
attention(q, q, q, gates=q[:, :3, 0]) -> gates must have shape [B, H, Tk] = [2, 4, 5], got [2, 3, 8]
explain_impl(device=0) -> device=0 must be a torch.device, its name or None, got int
explain_impl(dtype="half") -> dtype='half' must be a torch.dtype such as torch.float32
SelfAttention(8, 3) -> num_heads=3 must divide dim=8, or give head_dim
SelfAttention(8, 4, num_kv_heads=3) -> num_kv_heads=3 must divide num_heads=4
layer(q[0, ..., :6]) -> x must have shape [B, T, 8], got [4, 5, 6]
layer(q[0], cache={}) -> cache={} must be a KVCache or None, got dict
layer(q[0], valid=at) -> valid must be bool of shape [4, 5], got torch.int64 [5]
layer(q[0], positions=at[:3]) -> positions must have shape [5] or [4, 5], got [3]
SelfAttention(8, 2, Encoding(axes=2))(q[0]) -> positions=None: this encoding needs positions of shape [T, 2]
attention(q, q, q, alibi.alibi(4), causal=False) -> causal=False: ALiBi penalizes the past only; symmetric=True
    penalizes both directions
attention(q, q, q, t5.t5(4), causal=False) -> causal=False: the causal buckets put every later key into bucket 0;
    bidirectional=True tells them apart
attention(q, q, q, fire.fire(4), causal=False) -> causal=False: FIRE divides by the query's position, the length of
    its past; a key after the query has no such share
attention(q, q, q, rope.xpos(8), causal=False) -> causal=False: xPos makes the score of a key after the query grow
    with its distance
attention(q, q, q, stickbreaking.stickbreaking(), causal=False) -> causal=False: stick-breaking from the most recent
    key needs a past and a future; order='first' works both ways
attention(q, q, q, transformer_xl.transformer_xl(4, 6)) -> num_heads=4, head_dim=6 of this encoding must equal q's,
    [2, 4, 5, 8]
attention(q, q, q, exposb.exposb(8, 2, gain=False, band=False)) -> num_heads=2 of this ExpoSB must equal the 4 heads
    of q
learned.learned(9, 8).embed(q[0], at + 5) -> positions hold 9, but max_positions=9: the table has rows 0 to 8 and
    nothing beyond; posenc.learned.resize makes a longer one
learned.learned(9, 8).embed(q[0], at - 1) -> positions hold -1, but max_positions=9: the table has rows 0 to 8 and
    nothing beyond; posenc.learned.resize makes a longer one
exposb.exposb(8, 4, learn_rate=True, rate=0) -> rate=0 must be greater than 0 with learn_rate=True: softplus never
    reaches 0
compose(alibi.alibi(4), t5.t5(4)) -> encodings[1] claims the place 'bias', which an earlier one already holds; compose
    takes at most one encoding for each place
attention(q, q, q, alibi.alibi(4), impl="sdpa") -> impl='sdpa': the encoding acts at 'bias', which PyTorch's fused
    attention does not serve in every dtype; impl='torch' (or 'auto') computes it
attention(q, q, q, stickbreaking.stickbreaking(), impl="sdpa") -> impl='sdpa': the encoding acts at 'weigh', which
    PyTorch's fused attention does not serve in every dtype; impl='torch' (or 'auto') computes it
attention(q, q, q, impl="sdpa", return_weights=True) -> impl='sdpa': return_weights=True asks for weights that fused
    attention never holds; impl='torch' (or 'auto') computes it
"""
MESSAGES = [line.split(" -> ") for line in MESSAGES.strip().replace("\n    ", " ").split("\n")]


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
    assert {value.device.type for value in exposb.exposb(8, 4).weigh.kernel_inputs(q.to("meta")).values()} == {"meta"}
    (a,) = told(rse.penalty(0.25).double().bias, q, ["a"])
    assert a.dtype == torch.float32
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


def test_alibis_bias_is_in_the_dtype_of_its_slopes():
    assert alibi.bias(at.double(), at.double(), half).dtype == torch.float32
    assert alibi.bias(at, at, half.double()).dtype == torch.float64


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_table_is_resized_where_it_is(mode):
    assert learned.resize(torch.zeros(3, 2, device="meta"), 5, mode).device.type == "meta"
    assert learned.resize(torch.zeros(3, 2, dtype=torch.float16), 5, mode).dtype == torch.float16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_an_embedding_keeps_the_dtype_of_x(dtype):
    for method in (learned.learned(9, 8), sinusoidal.sinusoidal()):
        assert method.embed(torch.zeros(2, 5, 8, dtype=dtype), at).dtype == dtype


@pytest.mark.parametrize("layout", sinusoidal.LAYOUTS)
def test_the_sinusoid_is_added_in_its_layout(layout):
    x = torch.randn(2, 5, 8)
    added = sinusoidal.sinusoidal(100.0, layout=layout, volume=0.5).embed(x, at)
    torch.testing.assert_close(added, x + 0.5 * sinusoidal.table(at, 8, 100.0, layout))


def test_angles_are_float32_where_x_is_and_the_dtype_stays():
    x, far, w = torch.randn(1, 3, 8), torch.tensor([0.0, 4097.3, 1e6]), rope.ladder(8, 10000.0)
    expected = rope.rotate(x, far, w.float())
    assert torch.equal(rope.rotate(x, far, w), expected)
    assert torch.equal(rope.rotate(x, far.double(), w), expected)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        for turning in (w, w[:2]):
            assert rope.rotate(x.to(dtype), far, turning).dtype == dtype


@pytest.mark.parametrize("layout", rope.LAYOUTS)
@pytest.mark.parametrize("center", [True, False])
def test_xpos_scales_each_text_from_its_own_middle(layout, center):
    turn = rope.xpos(8, gamma=0.5, scale_base=10.0, layout=layout, center=center).rotate
    q, k = torch.randn(2, 2, 3, 4, 8, dtype=torch.float64).unbind()
    pos_k = torch.tensor([[0, 1, 2, 6], [1000, 1001, 1002, 1003]])
    pos_q = pos_k + 2
    middle = torch.tensor([[4.0], [1002.5]] if center else [[0.0], [0.0]]).double()
    zeta = (torch.arange(0, 8, 2, dtype=torch.float64) / 8 + 0.5) / 1.5
    zeta = zeta.repeat_interleave(2) if layout == "interleaved" else zeta.repeat(2)
    for sign, x, pos, turned in zip((1, -1), (q, k), (pos_q, pos_k), turn(q, k, posenc.At(pos_q, pos_k, None))):
        plain = rope.rotate(x, pos[:, None], rope.ladder(8, 10000.0), layout)
        torch.testing.assert_close(turned, plain * zeta ** (sign * (pos - middle) / 10)[:, None, :, None])
    rounded = q.half()
    at_middle = posenc.At(pos_q[:1], pos_k[:1], None)
    assert torch.equal(
        turn(rounded, rounded, at_middle)[0], turn(rounded.float(), rounded.float(), at_middle)[0].half()
    )
    k = torch.randn(2, 4, 7, 8, device="meta")
    assert attention(k[:, :, :5], k, k, rope.xpos(8, layout=layout, center=center)).device.type == "meta"


def test_float32_parameters_serve_float64_to_its_last_digit():
    where = torch.tensor([[0, 3, 700]])
    here = posenc.At(where, where, None)
    x = torch.randn(1, 2, 3, 8, dtype=torch.float64)
    rotate = exposb.exposb(8, 2).rotate
    rates = torch.full((2,), 0.001).double()
    factors = (1 + 0.2 * torch.exp(-rates[:, None] * where))[:, :, None] * exposb.band(8)
    turned = rope.rotate(x, where[:, None], rope.ladder(8, 10000.0)) * factors
    torch.testing.assert_close(rotate(x, x, here)[0], turned, rtol=1e-14, atol=0)
    fade = exposb.exposb(8, 2, learn_rate=True).weigh
    torch.testing.assert_close(fade.rates(x), torch.nn.functional.softplus(fade.raw.double()), rtol=1e-14, atol=0)
    penalty = rse.penalty(0.1).bias
    slopes = torch.nn.functional.softplus(penalty.raw).double().expand(2)
    expected = alibi.bias(where, where, slopes, symmetric=True)
    torch.testing.assert_close(penalty(x, x, here), expected, rtol=1e-14, atol=0)


def test_exposb_rounds_once():
    rough = torch.randn(1, 4, 5, 8).half()
    rotate, here = exposb.exposb(8, 4).rotate, posenc.At(at[None], at[None], None)
    assert torch.equal(rotate(rough, rough, here)[0], rotate(rough.float(), rough.float(), here)[0].half())


def test_a_floor_of_one_fades_nothing():
    still, none = exposb.exposb(8, 4, floor=1.0), exposb.exposb(8, 4, decay=False)
    torch.testing.assert_close(attention(q, q, q, still), attention(q, q, q, none))


def test_a_scheme_is_asked_for_one_more_than_the_last_key():
    asked = []

    def scheme(length):
        asked.append(length)
        return rope.inv_freq(8), 1.0

    turn = scaling.dynamic(8, scheme).rotate
    for positions in (at - 9, at[:0], at):
        x = torch.zeros(1, 1, len(positions), 8)
        turn(x, x, posenc.At(positions[None], positions[None], None))
    assert asked == [1, 0, 0, 5]


@pytest.mark.parametrize("other", [rope.rope(8), stickbreaking.stickbreaking()], ids=["rope", "stickbreaking"])
def test_shaws_values_leave_the_other_places_to_others(other):
    own = shaw.shaw(8, values=True)
    both = posenc.compose(other, own)
    plain = posenc.Encoding(rotate=other.rotate, bias=own.bias, weigh=other.weigh)
    _, weights = attention(q, q, q, both, return_weights=True)
    torch.testing.assert_close(weights, attention(q, q, q, plain, return_weights=True)[1])
    assert torch.equal(shaw.attend(q, q, q, both), attention(q, q, q, both))
    here = posenc.At(at[None], at[None], None)
    assert own.bias(q.half(), q.half(), here).dtype == torch.float32


def test_t5s_table_starts_small_and_stays_precise():
    bias = t5.t5(64).bias
    assert bias.max_distance == 128 and 0.09 < bias.table.std() < 0.11
    here = posenc.At(at[None], at[None], None)
    q = torch.zeros(1, 64, 5, 8, dtype=torch.float16)
    assert t5.t5(64).half().bias(q, q, here).dtype == torch.float32
    assert t5.bucket(torch.tensor([0, -1, -2]), 6, 3).tolist() == [0, 1, 2]  # one bucket is exact, distance 1 shares


BIASES = [name for name in NAMES if "+" not in name and encoding(name).bias is not None]


@pytest.mark.parametrize("name", BIASES)
def test_a_half_precision_model_computes_its_bias_in_float32(name):
    method, here = encoding(name).half(), posenc.At(at[None], at[None], None)
    rough = method.bias(q.half(), q.half(), here)
    exact = method.float().bias(q.half().float(), q.half().float(), here)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=2e-3, atol=2e-3)  # Shaw's product with q is rounded by the matmul


def test_where_training_starts():
    torch.manual_seed(0)
    kernel = kerple.kerple(4).bias
    assert kernel.log_r1.tolist() == [0.0, -1.0, -2.0, -3.0]
    torch.testing.assert_close(kernel.log_r2.data, torch.full((4,), -0.7))
    terms = transformer_xl.transformer_xl(16, 64).bias
    assert 0.018 < terms.u.std() < 0.022 and 0.018 < terms.v.std() < 0.022
    assert 0.9 < terms.w_r.abs().max() * 1024**0.5 <= 1


# What an argument is when it is left out, as the docstrings say.
DEFAULTS = """
sinusoidal.table(far, 8) == sinusoidal.table(far, 8, base=10000.0, layout="interleaved")
sinusoidal.sinusoidal() == sinusoidal.sinusoidal(10000.0, layout="interleaved", volume=1.0)
learned.resize(lanes, 9) == learned.resize(lanes, 9, mode="linear", prefix=0)
learned.learned(999, 8) == learned.learned(999, 8, embed_at="input", std=0.02)
alibi.bias(far, far, half) == alibi.bias(far, far, half, symmetric=False)
alibi.alibi(4) == alibi.alibi(4, symmetric=False, learned=False)
rope.inv_freq(8) == rope.inv_freq(8, base=10000.0, dtype=torch.float32)
rope.rotate(lanes, far, half) == rope.rotate(lanes, far, half, layout="interleaved", attention_factor=1.0)
rope.rope(8) == rope.rope(8, 10000.0, layout="interleaved", attention_factor=1.0)
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
far = torch.tensor([0, 1, 2, 9, 40, 90, 130, 600])
lanes = torch.linspace(-1, 1, 64).reshape(8, 8)


def swing(length):
    return rope.inv_freq(8) / length, 1.0


def outcome(call):
    """What a call returns; of an encoding, what attention with it (and its embedding) returns."""
    torch.manual_seed(0)
    made = eval(call, vars(posenc) | globals())
    if not isinstance(made, posenc.Encoding):
        return made
    x = torch.randn(4, 8, 8).double()
    if made.embed is not None:
        return made.embed(x, far)
    return attention(*x.expand(3, 1, 4, 8, 8).unbind(), made.double(), pos_q=far)


@pytest.mark.parametrize("line", DEFAULTS.strip().split("\n"), ids=range(DEFAULTS.count("\n") - 1))
def test_what_is_left_out_is_what_the_docstring_says(line):
    short, long = line.split(" == ")
    torch.testing.assert_close(outcome(short), outcome(long), rtol=0, atol=0)


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
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results.json")
    folder = tmp_path / "alibi" / "mutants" / "posenc"
    folder.mkdir(parents=True)
    (tmp_path / "alibi" / "run.json").write_text(json.dumps({"commit": "of the run", "minutes": 0.5}))

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
    assert output.split("\n")[0].split() == ["alibi", "42", "40", "0", "2", "1", "1", "95.2%"]


def test_make_mutants_writes_down_each_module(judged, tmp_path):
    judged(20, MINUS)
    results = json.loads((tmp_path / "results.json").read_text())
    figures = {"mutants": 21, "killed": 20, "timeout": 0, "survived": 1, "wording": 0, "accepted": 0}
    assert results["modules"] == {"alibi": figures | {"commit": "of the run", "minutes": 0.5}}
    assert results["total"] == figures and results["share"] == 0.9524
    assert "alibi" not in results["not_run"] and "rope" in results["not_run"]


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
