"""FoxPro: the whole block in plain loops, each switch, decoding, padding, packing and what it refuses."""

import math

import pytest
import torch
from loops import close, dot, normal, sigmoid, softmax

import posenc
from posenc import FoxPro, KVCache, SelfAttention

SWITCHES = ("kv_shift", "qk_norm", "output_norm", "output_gate")
OFF = dict.fromkeys(SWITCHES, False)
ARMS = {"all": {}, "none": OFF}
ARMS |= {f"all but {name}": {name: False} for name in SWITCHES}


def block(dim=8, heads=4, seed=0, **options):
    """A block whose every weight is moved away from its start, so that none of them acts as if it were not there."""
    torch.manual_seed(seed)
    made = FoxPro(dim, heads, **options).double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, dtype=torch.float64))
    return made


def rows(linear, x):
    """W x + b in lists."""
    bias = [0.0] * linear.out_features if linear.bias is None else linear.bias.tolist()
    return [dot(w, x) + b for w, b in zip(linear.weight.tolist(), bias)]


def rms(x, weight, eps):
    root = math.sqrt(sum(z * z for z in x) / len(x) + eps)
    return [z / root * w for z, w in zip(x, weight.tolist())]


def plain(made, x, kv_shift=True, qk_norm=True, output_norm=True, output_gate=True):
    """The block for one sequence x [T, C], token by token and head by head, in Python's floats."""
    heads, kv_heads, lanes = made.num_heads, made.num_kv_heads, made.head_dim
    x = x.tolist()

    def head(linear, t, h):
        return rows(linear, x[t])[h * lanes : (h + 1) * lanes]

    def shifted(linear, to_shift, t, g):
        now = head(linear, t, g)
        if not kv_shift:
            return now
        share = sigmoid(rows(to_shift, x[t])[g])
        before = head(linear, t - 1, g) if t else [0.0] * lanes
        return [share * b + (1 - share) * n for b, n in zip(before, now)]

    y = []
    for i in range(len(x)):
        side_by_side = []
        for h in range(heads):
            g = h * kv_heads // heads
            q = head(made.to_q, i, h)
            k = [shifted(made.to_k, made.to_shift_k, t, g) for t in range(i + 1)]
            v = [shifted(made.to_v, made.to_shift_v, t, g) for t in range(i + 1)]
            if qk_norm:
                q, k = rms(q, made.norm_q.weight[h], 1e-5), [rms(one, made.norm_k.weight[g], 1e-5) for one in k]
            forget = [sigmoid(rows(made.to_gates, x[t])[h]) for t in range(i + 1)]
            logits = [dot(q, k[j]) / math.sqrt(lanes) + math.log(math.prod(forget[j + 1 :])) for j in range(i + 1)]
            o = [dot(softmax(logits), lane) for lane in zip(*v)]
            if output_norm:
                o = rms(o, made.norm_out.weight[h], 1e-6)
            if output_gate:
                o = [sigmoid(z) * lane for z, lane in zip(head(made.to_output_gate, i, h), o)]
            side_by_side += o
        y.append(rows(made.to_out, side_by_side))
    return torch.tensor(y, dtype=torch.float64)


@pytest.mark.parametrize("kv_heads", [4, 2], ids="{} heads of keys".format)
@pytest.mark.parametrize("arm", ARMS)
def test_equals_the_papers_block_in_loops(arm, kv_heads):
    made, x = block(num_kv_heads=kv_heads, **ARMS[arm]), normal(2, 6, 8, seed=1)
    close(made(x), torch.stack([plain(made, row, **ARMS[arm]) for row in x]))


def test_without_its_parts_it_is_self_attention_to_the_bit():
    made, plain = block(**OFF), SelfAttention(8, 4, posenc.fox.fox()).double()
    plain.load_state_dict(made.state_dict())
    x = normal(2, 6, 8)
    assert torch.equal(made(x), plain(x))


@pytest.mark.parametrize("arm", ARMS)
def test_a_switch_changes_no_weight_but_its_own(arm):
    """Nor what is made after the block: two models that differ in a switch start with the same weights elsewhere."""
    torch.manual_seed(3)
    plain, after = SelfAttention(8, 4, posenc.fox.fox()).state_dict(), torch.rand(3)
    torch.manual_seed(3)
    weights, mine = FoxPro(8, 4, **ARMS[arm]).state_dict(), torch.rand(3)
    torch.manual_seed(3)
    whole = FoxPro(8, 4).state_dict()
    assert torch.equal(mine, after)
    assert all(torch.equal(weights[name], plain[name]) for name in plain)
    assert all(torch.equal(weights[name], whole[name]) for name in weights)


@pytest.mark.parametrize("chunks", [[1] * 7, [3, 1, 3]], ids=str)
@pytest.mark.parametrize("arm", ARMS)
def test_decoding_gives_what_the_full_pass_gives(arm, chunks):
    made, x, cache = block(num_kv_heads=2, **ARMS[arm]), normal(2, 7, 8), KVCache()
    steps = [made(part, cache=cache) for part in x.split(chunks, dim=1)]
    close(torch.cat(steps, dim=1), made(x))


PADDED = {"on the left": [3, 4, 5, 6, 7], "all over": [1, 2, 6, 7, 9]}


@pytest.mark.parametrize("chunks", [None, 3], ids="chunks of {}".format)
@pytest.mark.parametrize("where", PADDED)
def test_padding_is_as_if_it_were_not_there(where, chunks):
    made, x, columns = block(num_kv_heads=2), normal(1, 5, 8), PADDED[where]
    row, valid = 9 * normal(1, max(columns) + 1, 8, seed=5), torch.zeros(1, max(columns) + 1, dtype=torch.bool)
    row[:, columns], valid[:, columns] = x, True
    positions, cache = (valid.long().cumsum(1) - 1).clamp(min=0), None if chunks is None else KVCache()
    parts = [part.split(chunks or 99, dim=1) for part in (row, valid, positions)]
    steps = [made(a, valid=b, positions=c, cache=cache) for a, b, c in zip(*parts)]
    close(torch.cat(steps, dim=1)[:, columns], made(x))


@pytest.mark.parametrize("chunks", [[7], [2, 3, 2]], ids=str)
def test_a_packed_row_equals_its_sequences_alone(chunks):
    """The shift stops at a border that the mask draws."""
    made, x = block(num_kv_heads=2), normal(1, 7, 8)
    segment = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    mask, cache, steps, start = segment[:, None] == segment[None, :], KVCache(), [], 0
    for part in x.split(chunks, dim=1):
        end = start + part.shape[1]
        steps.append(made(part, mask=mask[start:end, :end], cache=cache))
        start = end
    alone = torch.cat((made(x[:, :3]), made(x[:, 3:])), dim=1)
    close(torch.cat(steps, dim=1), alone)
    assert (made(x) - alone)[:, 3:].abs().max() > 1e-3


def test_gradients():
    made, x = block(dim=4, heads=2), normal(1, 4, 4).requires_grad_()
    names, weights = zip(*made.named_parameters())

    def forward(x, *weights):
        return torch.func.functional_call(made, dict(zip(names, weights)), (x,))

    assert torch.autograd.gradcheck(forward, (x, *weights))


def test_norms_and_shift_equal_flash_linear_attentions_references():
    """fla's layer needs Triton on a GPU; its references for the norm, the shift and the attention do not."""
    pytest.importorskip("fla")
    from fla.modules.norm.layernorm import group_norm_ref
    from fla.modules.token_shift import token_shift_ref
    from fla.ops.forgetting_attn.naive import naive_forgetting_attn

    made, x = block(dim=16, num_kv_heads=2).float(), normal(2, 9, 16).float()
    q, raw_k, raw_v = made.to_q(x), made.to_k(x), made.to_v(x)  # [B, T, H D]
    shifted = []
    for y, to_shift in ((raw_k, made.to_shift_k), (raw_v, made.to_shift_v)):
        share = to_shift(x).sigmoid().repeat_interleave(made.head_dim, dim=-1)
        shifted.append(y + share * token_shift_ref(y))
    k, v = shifted
    q = group_norm_ref(q, made.norm_q.weight.flatten(), None, num_groups=4, eps=1e-5, is_rms_norm=True)
    k = group_norm_ref(k, made.norm_k.weight.flatten(), None, num_groups=2, eps=1e-5, is_rms_norm=True)
    gates = torch.nn.functional.logsigmoid(made.to_gates(x))
    o = naive_forgetting_attn(*(y.unflatten(-1, (-1, made.head_dim)) for y in (q, k, v)), gates).flatten(2)
    o = group_norm_ref(o, made.norm_out.weight.flatten(), None, num_groups=4, eps=1e-6, is_rms_norm=True)
    close(made(x), made.to_out(made.to_output_gate(x).sigmoid() * o), 1e-5)
