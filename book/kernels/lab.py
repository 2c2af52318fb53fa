# %% [markdown]
# # Lab: From formula to kernel
#
# {{badge}}
#
# You will
# - **write** five Triton kernels: rows of length 1, RoPE, a softmax in one walk, causal attention, stick-breaking,
# - **see** what a forgotten mask and a rest shared by a block do,
# - **count** what a kernel moves and computes, and time yours where there is a GPU.
#
# Time: about 75 minutes of yours, of which the computer works less than 1. No GPU is needed: without one, Triton's interpreter runs your
# kernels in Python, slowly and with the same result. The chapter *From formula to kernel* has the derivations.

# %% tags=["install"]
# {{install}}

# %%
import os

import torch

try:
    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"  # no GPU: interpret kernels. Must be set before triton is imported
    import triton
    import triton.language as tl

    have_triton = True
except ImportError:  # Triton comes for Linux only
    from posenc.chapters.kernels.launch import without_triton as triton

    tl, have_triton = triton, False

# %%
import matplotlib.pyplot as plt
from IPython.display import display
from ipywidgets import FloatSlider, IntSlider, SelectionSlider

import posenc
from posenc.lab.check import check, student_seed
from posenc.lab.explore import interact

device = "cuda" if torch.cuda.is_available() else "cpu"
print("device:", torch.cuda.get_device_name() if device == "cuda" else "CPU, kernels are interpreted")
if not have_triton:
    print("There is no Triton on this system (it comes for Linux only). You can read this lab here; run it in Colab.")
print("seed:", student_seed())  # 0, unless your teacher gave you one: %env POSENC_SEED=17 in a cell above


def normal(*shape, seed=0):
    """Random numbers [*shape] on the device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


# %% [markdown]
# ## 1. A first kernel, to read
#
# A kernel is a function that runs many times at once, each time as a *program* with a number of its own. A program works on a *block* of
# numbers. This one doubles a vector of 21 numbers, 8 to a program:
#
# - `tl.program_id(0)` is the program's number, `tl.arange(0, BLOCK)` counts 0 to 7. `at` holds the 8 places of this program.
# - `x_ptr` is the address where `x` begins; `x_ptr + at` are 8 addresses. `tl.load` reads there, `tl.store` writes.
# - Three programs have 24 places. The last three lie behind the end: the **mask** says which places count, `other` what a masked place reads as.
# - `BLOCK` is `tl.constexpr`: known when the kernel is compiled, and a power of two, as `tl.arange` wants it.
# - `double_kernel[(3,)](...)` starts three programs; `(3,)` is the *grid*. The kernel returns nothing, it writes to `out`.


# %%
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, 2 * x, mask=at < n)


x = torch.arange(21.0, device=device)
out = torch.full((24,), float("nan"), device=device)  # 21 for the result, 3 behind its end
if have_triton:
    double_kernel[(triton.cdiv(21, 8),)](x, out, 21, BLOCK=8)
    print(out.tolist())

# %% [markdown]
# Three numbers at the end are still NaN: nobody wrote there. Now the same without the mask in `tl.store`. What stands in the last three places?


# %%
@triton.jit
def unmasked_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, 2 * x)


if have_triton:
    out.fill_(float("nan"))
    unmasked_kernel[(triton.cdiv(21, 8),)](x, out, 21, BLOCK=8)
    print("behind the end:", out[21:].tolist())
    assert out[21:].eq(0).all()

# %% [markdown]
# The result is right, and the memory behind it is spoiled. There, some other tensor may begin: nothing warns you. So every check below puts your
# tensors into a larger memory full of NaN, and says what was read or written outside, and what was never written.
#
# **If Python ends or CUDA reports an illegal access**, an address was far off. Restart the kernel, mend it, run all.

# %% [markdown]
# ## 2. Rows of length 1
#
# $$ y_i = x_i / \lVert x_i \rVert, \qquad \lVert x_i \rVert = (x_i \cdot x_i)^{1/2} $$
#
# `x` and `out` are `[T, D]`, with the rows $x_i$ and $y_i$. In PyTorch: `out = x / x.square().sum(-1, keepdim=True).sqrt()`.
#
# The number `x[i, lane]` lies at `x_ptr + i * x_row + lane * x_col`. `x_row` and `x_col` are the *strides*: how many numbers lie between neighbors in
# a column and in a row. In a transposed or sliced tensor they aren't `D` and 1.
#
# **Exercise 1.** Fill the kernel; the launcher under it is ready. One program takes one row, in one block with `BLOCK` at least `D`.
# Hints: which row it is says `tl.program_id(0)`. Masked places must not change the sum, so load them with `other=0.0`. You need `tl.sum` and `tl.sqrt`.


# %% nbgrader={"grade": false, "grade_id": "unit_rows", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def unit_rows_kernel(x_ptr, out_ptr, D, x_row, x_col, out_row, out_col, BLOCK: tl.constexpr):
    """Program t divides row t of x by its length."""
    ### BEGIN SOLUTION
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + cols * x_col, mask=cols < D, other=0.0)
    length = tl.sqrt(tl.sum(x * x))
    tl.store(out_ptr + row * out_row + cols * out_col, x / length, mask=cols < D)
    ### END SOLUTION


def unit_rows(x, block, out):
    """x [T, D] -> out [T, D]: one program a row."""
    T, D = x.shape
    unit_rows_kernel[(T,)](x, out, D, *x.stride(), *out.stride(), BLOCK=block)


# %%
unit_rows = check("kernels.unit_rows", unit_rows)

# %% [markdown]
# A transposed matrix needs no copy: only its strides are others.

# %%
x = normal(5, 3)
for name, view in (("x", x), ("x.T", x.T)):
    out = torch.empty_like(view)
    unit_rows(view, 8, out)
    print(f"{name:4} strides {view.stride()}: lengths of the rows {[round(r, 6) for r in out.norm(dim=1).tolist()]}")

# %% [markdown]
# ## 3. RoPE
#
# Now a block is a tile: `BLOCK` rows of `x [T, D]`, `HALF` pairs of lanes. As in the chapter *RoPE*, $i$ counts pairs here and $m$ is the position of a row:
# its pair $i$ holds lanes $i$ and $i + D/2$, $(a, b)$, and turns by $\theta = m\,\omega_i$, with `positions [T]` and `inv_freq [D/2]`:
#
# $$ (a, b) \to (a\cos\theta - b\sin\theta,\ a\sin\theta + b\cos\theta) $$
#
# ```python
# angle = positions[:, None].float() * inv_freq
# a, b = x.float().chunk(2, dim=-1)
# out = torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), dim=-1)
# ```
#
# **Exercise 2.** Fill the kernel. Angles in float32, also where `x` is float16. Hints: `rows[:, None] * x_row + lanes[None, :] * x_col`
# makes offsets `[BLOCK, HALF]`, and masks join by `&` in the same way. `T` need not be a multiple of `BLOCK`, nor `D/2` a power of two. `.to(tl.float32)`
# converts; `tl.store` converts to what `out` holds.


# %% nbgrader={"grade": false, "grade_id": "turn_halves", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def turn_halves_kernel(
    x_ptr,
    positions_ptr,
    inv_freq_ptr,
    out_ptr,
    T,
    D,
    x_row,
    x_col,
    out_row,
    out_col,
    BLOCK: tl.constexpr,
    HALF: tl.constexpr,
):
    """Program n turns the rows from n * BLOCK on; HALF is a power of two, at least D/2."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    lanes = tl.arange(0, HALF)
    inside = (rows[:, None] < T) & (lanes[None, :] < D // 2)
    position = tl.load(positions_ptr + rows, mask=rows < T, other=0).to(tl.float32)
    frequency = tl.load(inv_freq_ptr + lanes, mask=lanes < D // 2, other=0.0)
    angle = position[:, None] * frequency[None, :]  # [BLOCK, HALF]
    cos = tl.cos(angle)
    sin = tl.sin(angle)
    at_x = x_ptr + rows[:, None] * x_row + lanes[None, :] * x_col
    a = tl.load(at_x, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(at_x + D // 2 * x_col, mask=inside, other=0.0).to(tl.float32)
    at_out = out_ptr + rows[:, None] * out_row + lanes[None, :] * out_col
    tl.store(at_out, a * cos - b * sin, mask=inside)
    tl.store(at_out + D // 2 * out_col, a * sin + b * cos, mask=inside)
    ### END SOLUTION


def turn_halves(x, positions, inv_freq, block, out):
    """x [T, D], positions [T], inv_freq [D/2] -> out [T, D]: one program a block of rows."""
    T, D = x.shape
    grid, half = (triton.cdiv(T, block),), triton.next_power_of_2(D // 2)
    turn_halves_kernel[grid](x, positions, inv_freq, out, T, D, *x.stride(), *out.stride(), BLOCK=block, HALF=half)


# %%
turn_halves = check("kernels.turn_halves", turn_halves)

# %% [markdown]
# Against the package's reference, in blocks of another size each time:

# %%
x, at, w = normal(50, 12), torch.arange(50, device=device) + 1000, posenc.rope.inv_freq(12).to(device)
out, wanted = torch.empty_like(x), posenc.rope.rotate(x, at, w, layout="half")
for block in (8, 32):
    turn_halves(x, at, w, block, out)
    print(f"blocks of {block:2} rows: off by {(out - wanted).abs().max():.0e}")

# %% [markdown]
# ## 4. A softmax in one walk
#
# A row of scores may be longer than any block. So a program walks over it and keeps three numbers of the keys $S$ read so far: the maximum
# $m_S$, and relative to it the normalizer $l_S = \sum_{j \in S} e^{s_{ij} - m_S}$ and the weighted sum $a_S = \sum_{j \in S} e^{s_{ij} - m_S} v_j$. When a block
# raises the maximum to $m_{S'}$, everything kept so far shrinks by the factor $r = e^{m_S - m_{S'}}$; then the block's own terms are added. At the end, for row $i$,
#
# $$ \mathrm{lse}_i = m_S + \ln l_S = \ln \sum_j e^{s_{ij}}, \qquad o_i = a_S / l_S = \sum_j A_{ij}\, v_j, \qquad A_{ij} = \operatorname{softmax}_j(s_{ij}) $$
#
# Here each $v_j$ is one number, so $o_i$ is a `mean`. In PyTorch: `lse = scores.logsumexp(-1)`, `mean = scores.softmax(-1) @ values`, with `scores [N, T]`, `values [T]`, `lse`, `mean [N]`.
#
# **Exercise 3.** One program takes one row. Hints: `for start in range(0, T, BLOCK):` is a loop in a kernel as in Python. `tl.max` gives a block's
# maximum, `tl.maximum` the larger of two numbers. Start with $m_S$ at `-float("inf")`. What must a masked score be loaded as, so that its weight is 0?


# %% nbgrader={"grade": false, "grade_id": "online_softmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def online_softmax_kernel(scores_ptr, values_ptr, lse_ptr, mean_ptr, T, scores_row, scores_col, BLOCK: tl.constexpr):
    """Program n walks over row n of the scores once."""
    ### BEGIN SOLUTION
    row = tl.program_id(0)
    m = -float("inf")
    l = 0.0
    acc = 0.0
    for start in range(0, T, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        s = tl.load(scores_ptr + row * scores_row + cols * scores_col, mask=cols < T, other=-float("inf"))
        v = tl.load(values_ptr + cols, mask=cols < T, other=0.0)
        new = tl.maximum(m, tl.max(s))
        old = tl.exp(m - new)  # what everything so far shrinks by
        p = tl.exp(s - new)
        l = l * old + tl.sum(p)
        acc = acc * old + tl.sum(p * v)
        m = new
    tl.store(lse_ptr + row, m + tl.log(l))
    tl.store(mean_ptr + row, acc / l)
    ### END SOLUTION


def online_softmax(scores, values, block, lse, mean):
    """scores [N, T], values [T] -> lse [N], mean [N]: one program a row."""
    N, T = scores.shape
    online_softmax_kernel[(N,)](scores, values, lse, mean, T, *scores.stride(), BLOCK=block)


# %%
online_softmax = check("kernels.online_softmax", online_softmax)

# %% [markdown]
# What the walk knows after $n$ keys is the softmax over these $n$ keys. Your kernel on the first $n$ of 40 scores: what happens to the mean when a larger
# score comes in? And what does the size of the block change?


# %% mystnb={"image": {"alt": "Forty scores with those seen so far in color, above the weighted mean after each number of keys, at one position of the sliders."}}
def walk(seen, block):
    """The scores, and your kernel's mean over the first n of them."""
    scores, values = 1.5 * normal(1, 40, seed=2), normal(40, seed=3)
    scores[0, 25] = 5.0
    lse, mean = torch.zeros(2, 41, 1, device=device)
    for n in range(1, seen + 1):
        online_softmax(scores[:, :n], values[:n], block, lse[n], mean[n])
    fig, axes = plt.subplots(2, 1, figsize=(8, 3.5), sharex=True, layout="constrained")
    colors = ["tab:blue" if j < seen else "lightgray" for j in range(40)]
    axes[0].bar(range(40), scores[0].tolist(), color=colors)
    axes[0].set(ylabel="score", title=f"log-sum-exp {float(lse[seen]):.4f}, mean {float(mean[seen]):+.4f}")
    axes[1].plot(range(seen), mean[1 : seen + 1, 0].tolist(), "o-", color="tab:orange")
    axes[1].set(xlabel="key", ylabel="mean so far", ylim=(-2, 2))
    plt.show()


interact(
    walk,
    seen=IntSlider(30, min=1, max=40, continuous_update=False),
    block=SelectionSlider(options=[4, 8, 16, 64], value=8, continuous_update=False),
)

# %% [markdown]
# ## 5. Attention
#
# The same walk for `BLOCK_Q` queries at once, each with its own $m_S$, $l_S$ and a row of accumulators:
#
# $$ s_{ij} = q_i \cdot k_j / \sqrt{D} \ \text{ for } j \le i, \qquad o_i = \sum_{j \le i} A_{ij}\, v_j, \qquad A_{ij} = \operatorname{softmax}_j(s_{ij}) $$
#
# `q`, `k`, `v`, `out` are `[H, T, D]`, all with the same strides.
#
# ```python
# s = (q @ k.mT * D**-0.5).masked_fill(hidden, float("-inf"))  # hidden[i, j] is j > i
# out = s.softmax(-1) @ v
# ```
#
# **Exercise 4.** Program $(n, h)$ takes the queries from `n * BLOCK_Q` on in head $h$. The plan:
#
# 1. Load the tile of queries `[BLOCK_Q, D]`, rows behind the end as 0. Start with `m = tl.full([BLOCK_Q], float("-inf"), tl.float32)` and
#    `tl.zeros` of the same type for `l` and for `acc [BLOCK_Q, D]`.
# 2. Walk over blocks of keys from 0. Behind the tile's last query no key is seen, so stop at `tl.minimum(T, first + BLOCK_Q)`.
# 3. Load tiles of keys and values `[BLOCK_K, D]`. Scores: `tl.dot(q, tl.trans(k), input_precision="ieee")`, times `scale`.
# 4. Hide: `tl.where(rows[:, None] >= cols[None, :], s, float("-inf"))`, with the true indices of queries and keys, *before* anything is exponentiated.
# 5. Update `m`, `l`, `acc` as in exercise 3, now with `axis=1` in `tl.max` and `tl.sum`, and `tl.dot(p.to(v.dtype), v, input_precision="ieee")` for the values.
# 6. Divide and store.
#
# `tl.dot` uses the GPU's matrix units, which want at least 16 in each direction: blocks here are 16 or more. `input_precision="ieee"` keeps float32
# whole; without it a GPU rounds the inputs to 10 bits behind the point.


# %% nbgrader={"grade": false, "grade_id": "attend", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def attend_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    T,
    scale,
    head_stride,
    row_stride,
    lane_stride,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Program (n, h): queries from n * BLOCK_Q on, head h, walk over the keys that they see."""
    ### BEGIN SOLUTION
    first = tl.program_id(0) * BLOCK_Q
    head = tl.program_id(1) * head_stride
    rows = first + tl.arange(0, BLOCK_Q)
    lanes = tl.arange(0, D)
    at_q = head + rows[:, None] * row_stride + lanes[None, :] * lane_stride
    q = tl.load(q_ptr + at_q, mask=rows[:, None] < T, other=0.0)
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, D], tl.float32)
    for start in range(0, tl.minimum(T, first + BLOCK_Q), BLOCK_K):
        cols = start + tl.arange(0, BLOCK_K)
        at_k = head + cols[:, None] * row_stride + lanes[None, :] * lane_stride
        k = tl.load(k_ptr + at_k, mask=cols[:, None] < T, other=0.0)
        v = tl.load(v_ptr + at_k, mask=cols[:, None] < T, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where(rows[:, None] >= cols[None, :], s, float("-inf"))
        new = tl.maximum(m, tl.max(s, axis=1))
        old = tl.exp(m - new)
        p = tl.exp(s - new[:, None])
        l = l * old + tl.sum(p, axis=1)
        acc = acc * old[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = new
    tl.store(out_ptr + at_q, acc / l[:, None], mask=rows[:, None] < T)
    ### END SOLUTION


def attend(q, k, v, block_q, block_k, out):
    """q, k, v [H, T, D] of the same strides -> out [H, T, D]: one program a block of queries and head."""
    H, T, D = q.shape
    grid = (triton.cdiv(T, block_q), H)
    attend_kernel[grid](q, k, v, out, T, D**-0.5, *q.stride(), D=D, BLOCK_Q=block_q, BLOCK_K=block_k)


# %%
attend = check("kernels.attend", attend)

# %% [markdown]
# ## 6. Stick-breaking
#
# The walk turns around: the most recent key is asked first. With $\beta_{ij} = \sigma(z_{ij})$ and $z_{ij} = q_i \cdot k_j / \sqrt D$,
#
# $$ \log A_{ij} = \log \beta_{ij} + \sum_{j < k < i} \log(1 - \beta_{ik}), \qquad o_i = \sum_{j<i} A_{ij} v_j, \qquad \rho_i = \prod_{k<i} (1 - \beta_{ik}) $$
#
# ($\rho_i$ is `rest`.) The sum splits at each block's edge: a part inside the block, and a part over all blocks that were asked before. The second is one number a query, the
# **logarithm of the rest**. It is what a block hands to the next.
#
# ```python
# kept = F.logsigmoid(-z).masked_fill(hidden, 0.0)  # log(1 - beta); hidden[i, j] is j >= i
# before = kept.flip(-1).cumsum(-1).flip(-1) - kept
# out = (F.logsigmoid(z) + before).exp().masked_fill(hidden, 0.0) @ v
# rest = kept.sum(-1).exp()
# ```
#
# **Exercise 5.** The frame is that of exercise 4. `log_rest [BLOCK_Q]` starts at 0. Hints:
#
# - The last block of keys that the tile sees has the number `last = (tl.minimum(T, first + BLOCK_Q) - 1) // BLOCK_K`; `for n in range(0, last + 1)` with
#   `start = (last - n) * BLOCK_K` walks back from there.
# - $\log(1-\beta) = -\text{softplus}(z)$ and $\log\beta = z - \text{softplus}(z)$. In Triton: `tl.maximum(z, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(z)))`, which doesn't overflow. (For
#   keys of logits below about $-15$ it is imprecise; the chapter says what mends it. Not needed here.)
# - `tl.cumsum(x, axis=1, reverse=True)` sums from the right, and counts the key itself: subtract it.
# - A key that isn't in the past must neither take nor break: hide it twice.
# - `rest[h, i]` lies at `rest_ptr + h * rest_head_stride + i`.


# %% nbgrader={"grade": false, "grade_id": "break_stick", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def break_stick_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    rest_ptr,
    T,
    scale,
    head_stride,
    row_stride,
    lane_stride,
    rest_head_stride,
    D: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Program (n, h): queries from n * BLOCK_Q on, head h, walk back over the keys before them."""
    ### BEGIN SOLUTION
    first = tl.program_id(0) * BLOCK_Q
    head = tl.program_id(1) * head_stride
    rows = first + tl.arange(0, BLOCK_Q)
    lanes = tl.arange(0, D)
    at_q = head + rows[:, None] * row_stride + lanes[None, :] * lane_stride
    q = tl.load(q_ptr + at_q, mask=rows[:, None] < T, other=0.0)
    log_rest = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, D], tl.float32)
    last = (tl.minimum(T, first + BLOCK_Q) - 1) // BLOCK_K
    for n in range(0, last + 1):
        cols = (last - n) * BLOCK_K + tl.arange(0, BLOCK_K)
        at_k = head + cols[:, None] * row_stride + lanes[None, :] * lane_stride
        k = tl.load(k_ptr + at_k, mask=cols[:, None] < T, other=0.0)
        v = tl.load(v_ptr + at_k, mask=cols[:, None] < T, other=0.0)
        z = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        past = rows[:, None] > cols[None, :]
        softplus = tl.maximum(z, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(z)))
        kept = tl.where(past, -softplus, 0.0)  # log(1 - beta)
        before = tl.cumsum(kept, axis=1, reverse=True) - kept  # of the keys to the right in this block
        log_a = z - softplus + before + log_rest[:, None]
        a = tl.where(past, tl.exp(log_a), 0.0)
        acc += tl.dot(a.to(v.dtype), v, input_precision="ieee")
        log_rest += tl.sum(kept, axis=1)
    tl.store(out_ptr + at_q, acc, mask=rows[:, None] < T)
    tl.store(rest_ptr + tl.program_id(1) * rest_head_stride + rows, tl.exp(log_rest), mask=rows < T)
    ### END SOLUTION


def break_stick(q, k, v, block_q, block_k, out, rest):
    """q, k, v [H, T, D] of the same strides -> out [H, T, D], rest [H, T]: one program a block of queries and head."""
    H, T, D = q.shape
    grid, strides = (triton.cdiv(T, block_q), H), (*q.stride(), rest.stride(0))
    break_stick_kernel[grid](q, k, v, out, rest, T, D**-0.5, *strides, D=D, BLOCK_Q=block_q, BLOCK_K=block_k)


# %%
break_stick = check("kernels.break_stick", break_stick)

# %% [markdown]
# Give every key a value of its own, a row of the unit matrix, and the output is the matrix of weights. Both kernels on the same queries and keys, in blocks of 16
# keys or 32. Can you see where a block ends? Say first what `louder` does to each map.


# %% mystnb={"image": {"alt": "Two maps of weights, softmax attention and stick-breaking by your kernels, at one position of the sliders."}}
def maps(block_k, louder):
    """The weights that your two kernels give 32 queries."""
    q, k, v = louder * normal(1, 32, 32, seed=4), normal(1, 32, 32, seed=5), torch.eye(32, device=device)[None]
    soft, stick, rest = torch.empty_like(q), torch.empty_like(q), torch.empty(1, 32, device=device)
    attend(q, k, v, 16, block_k, soft)
    break_stick(q, k, v, 16, block_k, stick, rest)
    fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
    for ax, name, weights in zip(axes, ("softmax", "stick-breaking"), (soft[0], stick[0])):
        image = ax.imshow(weights.cpu(), vmin=0, vmax=1, cmap="viridis")
        ax.set(title=f"{name}: last row sums to {float(weights[-1].sum()):.3f}", xlabel="key", ylabel="query")
    fig.colorbar(image, ax=axes, label="weight")
    plt.show()


interact(
    maps,
    block_k=SelectionSlider(options=[16, 32], value=16, continuous_update=False),
    louder=FloatSlider(1.0, min=0, max=4, step=0.5, continuous_update=False),
)

# %% [markdown]
# ## 7. Break it: one rest for a whole block
#
# A kernel that looks right: the rest is handed from block to block, but inside of a block all keys take from the same rest.
# 256 keys, each asks for $\beta = 0.3$. A stick has length 1. What do the pieces sum to, in blocks of 16, 32, 64?


# %% mystnb={"image": {"alt": "Sum of all pieces against the number of keys asked, one curve a block size, rising far above the length of the stick."}}
@triton.jit
def shared_rest_kernel(logits_ptr, pieces_ptr, T, BLOCK: tl.constexpr):
    rest = 1.0
    for n in range(0, tl.cdiv(T, BLOCK)):
        keys = T - 1 - n * BLOCK - tl.arange(0, BLOCK)  # the most recent first
        beta = tl.sigmoid(tl.load(logits_ptr + keys, mask=keys >= 0, other=-float("inf")))
        tl.store(pieces_ptr + keys, beta * rest, mask=keys >= 0)  # wrong: one rest for all keys of the block
        rest = rest * tl.exp(tl.sum(tl.log(1.0 - beta)))


BETA, SIZES = 0.3, (16, 32, 64)
logits = torch.full((256,), BETA, device=device).logit()
if have_triton:
    for size in SIZES:
        pieces = torch.empty_like(logits)
        shared_rest_kernel[(1,)](logits, pieces, 256, BLOCK=size)
        total = float(pieces.sum())
        print(f"blocks of {size}: the pieces sum to {total:.2f}, BLOCK * beta is {size * BETA:.2f}")
        assert abs(total - size * BETA) < 0.05
        plt.plot(range(1, 257), pieces.flip(0).cumsum(0).tolist(), label=f"blocks of {size}")
    plt.axhline(1, color="black", linestyle="--", label="the whole stick")
    plt.xlabel("keys asked")
    plt.ylabel("sum of the pieces")
    plt.xscale("log", base=2)
    plt.legend()
    plt.show()

# %% [markdown]
# The sum is about `BLOCK * beta`: a number that no formula holds. Two tests would have found it: the weights and the rest sum to 1, and the answer doesn't
# depend on the block. Yours:

# %%
T = 256
q, k = torch.full((2, 1, T, 16), 1.0, device=device)
q = q * logits[0] / 4  # q.k / sqrt(16) is then the logit of 0.3
for size in SIZES:
    sums, rest = torch.empty_like(q), torch.empty(1, T, device=device)
    break_stick(q, k, torch.ones_like(q), 64, size, sums, rest)
    print(f"blocks of {size}: pieces {float(sums[0, -1, 0]):.6f}, rest {float(rest[0, -1]):.1e}")
    assert abs(float(sums[0, -1, 0] + rest[0, -1]) - 1) < 1e-4

# %% [markdown]
# ## 8. What a causal kernel skips
#
# Tiles of scores in which no query sees a key need not be computed. In those where each query sees each key, no mask is needed. Only the tiles that the diagonal
# cuts, or that hang over the end of the queries, need the mask.
#
# **Exercise 6.** Query `i` sees the keys up to `i`, and there are `length` of both. A tile has the queries from `i` on and the keys from `j` on, both below `length`.
# Return `"skip"`, `"whole"` or `"mask"`. Hint: compare the first key with the last query that there is, and the last key with the first query.

# %%
# {{exercise tile_kind}}

# %% [markdown]
# The chapter's map, its tiles sorted by your function. For long sequences, which share of the tiles is skipped at most, and what do smaller tiles change?

# %%
from posenc.chapters.kernels import figures

WORDS = {"skip": figures.SKIPPED, "whole": figures.WHOLE, "mask": figures.MASKED}


def mine(query, key, block_q, block_k, queries, keys):
    """Your tile_kind in the form that the figure calls: its queries are the last of the keys."""
    if queries == keys:
        return WORDS[tile_kind(query, key, block_q, block_k, keys)]
    return figures.tile_kind(query, key, block_q, block_k, queries, keys)


display(figures.causal_blocks.with_function(kind=mine))

# %% [markdown]
# ## 9. What the interpreter proves, and what not
#
# It runs your kernel in NumPy, one program after the other. What it proves is the **algebra**: indices, masks, strides, the order of the walk. It doesn't show
#
# - **speed**: a kernel that takes a second here may take microseconds, and one that is slow on a GPU looks like any other;
# - **races**: programs that write to the same place, as below;
# - **what a GPU refuses**: tiles too large for its registers or shared memory, a `tl.dot` with fewer than 16 rows;
# - **its numbers**: matrix units that round float32 inputs (`input_precision`), sums in another order, half precision that overflows;
# - **`other`**: a masked load without it reads 0 here. On a GPU it may read anything.
#
# 64 programs each add 1 to one number, by a load and a store. How much is it at the end, here and on a GPU?


# %%
@triton.jit
def count_kernel(total_ptr):
    tl.store(total_ptr, tl.load(total_ptr) + 1)  # on a GPU many programs load before the others have stored


total = torch.zeros(1, device=device)
if have_triton:
    count_kernel[(64,)](total)
    print(f"64 programs counted to {int(total)}")

# %% [markdown]
# ## 10. How fast is it?
#
# `triton.testing.do_bench` starts a function many times, empties the cache in between, and gives the median in milliseconds. Compare with the least time that the
# memory allows: bytes read and written, over the bandwidth. Everything here is larger than in the checks, attention in float16.


# %%
def times(name, mine, theirs, moved):
    """Print the median times of two launches, and the rate at which yours moves its `moved` bytes."""
    ms, other = (triton.testing.do_bench(f, return_mode="median") for f in (mine, theirs))
    print(f"{name:15} yours {ms:8.3f} ms, PyTorch {other:8.3f} ms, yours moves {moved / ms / 1e6:6.0f} GB/s")


if device == "cuda" and have_triton:
    F = torch.nn.functional
    x = normal(16384, 1024)
    out, at, w = torch.empty_like(x), torch.arange(16384, device=device), posenc.rope.inv_freq(1024).to(device)
    times("unit_rows", lambda: unit_rows(x, 1024, out), lambda: F.normalize(x, dim=-1), 8 * x.numel())
    turned = lambda: posenc.rope.rotate(x, at, w, layout="half")  # noqa: E731
    times("turn_halves", lambda: turn_halves(x, at, w, 4, out), turned, 8 * x.numel())
    scores, values = normal(4096, 16384), normal(16384, seed=1)
    lse, mean = torch.empty(2, 4096, device=device)
    chain = lambda: (scores.logsumexp(-1), scores.softmax(-1) @ values)  # noqa: E731
    times("online_softmax", lambda: online_softmax(scores, values, 4096, lse, mean), chain, 4 * scores.numel())
    q, k, v = (normal(16, 2048, 64, seed=n).half() for n in range(3))
    out, rest = torch.empty_like(q), torch.empty(16, 2048, device=device)
    fused = lambda: F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)  # noqa: E731
    times("attend", lambda: attend(q, k, v, 64, 32, out), fused, 8 * q.numel())
    sticks = posenc.make("stickbreaking")
    whole = lambda: posenc.attention(q[None], k[None], v[None], sticks, impl="torch")  # noqa: E731
    times("break_stick", lambda: break_stick(q, k, v, 64, 32, out, rest), whole, 8 * q.numel())
else:
    print("No GPU here, so nothing is timed: the interpreter's seconds say nothing about a kernel.")

# %% [markdown]
# The package's own kernels, forward only, beside its PyTorch references.

# %%
if device == "cuda" and have_triton:
    for name in ("nope", "stickbreaking"):
        encoding = posenc.make(name)
        for impl in ("torch", "triton"):
            call = lambda: posenc.attention(q[None], k[None], v[None], encoding, impl=impl)  # noqa: B023, E731
            print(f"{name:14} {impl:7} {triton.testing.do_bench(call, return_mode='median'):8.3f} ms")
else:
    print("No GPU here.")

# %% [markdown]
# ## 11. Exercises
#
# What bounds a kernel on a GPU? *Kernels without a GPU* says it with two numbers: operations a second, and bytes a second from memory. Their
# quotient is the number of operations a byte from which on arithmetic is the limit, and not memory. From the data sheets, dense half precision:

# %%
GPUS = {"T4": (65e12, 320e9), "A100 40 GB": (312e12, 1555e9), "H100 SXM": (989e12, 3350e9), "H200": (989e12, 4800e9)}
for name, (operations, memory) in GPUS.items():
    balance = f"{operations / memory:4.0f} operations a byte"
    print(f"{name:11} {operations / 1e12:4.0f} Tflop/s, {memory / 1e9:5.0f} GB/s: {balance}")

# %% [markdown]
# **Exercise 7** (on paper). The chapter's exercises *Merge two softmaxes* and *Count the tiles*; and *Count bytes and operations*: a multiplication and an addition are
# two operations; leave exponentials and the causal mask out.
#
# 1. How many bytes does `unit_rows` move in float32, and how many operations does it do? What bounds it?
# 2. `attend` in float16 with $D = 64$, on an H200: from how many queries in a block on is it bound by arithmetic, if every tile of keys comes from memory? And from
#    which length on, if q, k, v are read once and out is written once?
# 3. A model writes one token: one query, 32,768 cached keys and values, 32 heads of $D = 128$, float16. How many operations a byte? What is the least time of
#    this attention on an H200, and on a T4?
#
# Write your answers here.

# %% [markdown] nbgrader={"grade": true, "grade_id": "paper", "locked": false, "points": 4, "schema_version": 3, "solution": true, "task": false}
# Merge two softmaxes: $m = \max(m_1, m_2)$, $l = e^{m_1 - m} l_1 + e^{m_2 - m} l_2$, $a$ likewise; it is symmetric, and it is the state of the union, whatever the order.
# Many programs can share one query. The stick merges too, but only in the order of asking: $a = a_1 + \rho_1 a_2$, $\rho = \rho_1 \rho_2$.
#
# Count the tiles: $n(n-1)/2$ skipped, $n(n-1)/2$ whole, $n$ masked. Computed are $b^2 n(n+1)/2$ entries, of them $n\,b(b-1)/2$ wasted, a share of $(1 - 1/b)/(n+1)$: below one in ten from $n = 9$ on.
#
# Count bytes and operations, 1: $8TD$ bytes, about $3TD$ operations, $3/8$ a byte: memory on every GPU.
#
# 2: with $b$ queries $b$ operations a byte, so from 207 on, in practice 256. All read once: $T/2$ operations a byte, so from $T = 413$ on.
#
# 3: $4TD$ operations and $4TD$ bytes a head: one operation a byte, memory. $4 \cdot 32768 \cdot 128 \cdot 32$ bytes are 537 MB: 0.11 ms on an H200, 1.7 ms on a T4.

# %% [markdown]
# **Exercise 8** (open). *A bias by distance.* Give a copy of your attention kernel ALiBi: head $h$ subtracts $m_h (i - j)$ from the score, with slopes $m$ `[H]`. That
# is one more pointer, one load and one line. Call it `attend_alibi(q, k, v, slopes, block_q, block_k, out)` and set `WRITTEN`. Does the answer depend on the
# blocks? Is the line better before or after the mask, and does it matter? Then go on with the chapter's *Skip what ALiBi hides*.

# %%
WRITTEN = False  # True once attend_alibi is written

slopes = posenc.alibi.slopes(4).to(device)
q, k, v = (normal(4, 50, 16, seed=n) for n in (10, 11, 12))
wanted = posenc.attention(q[None], k[None], v[None], posenc.make("alibi", num_heads=4).to(device), impl="torch")[0]
if WRITTEN:
    for blocks in ((16, 16), (32, 16), (16, 64)):
        out = torch.full_like(q, float("nan"))
        attend_alibi(q, k, v, slopes, *blocks, out)  # noqa: F821
        print(f"blocks {blocks}: off by {(out - wanted).abs().max():.0e}")
