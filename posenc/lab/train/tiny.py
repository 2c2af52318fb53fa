r"""Small models to try encodings on, a decoder and an encoder: token embedding, blocks of attention and MLP, a head.

`build` makes the untrained one of a method and a task.
"""

import functools
import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import gelu

from posenc.encoding import Encoding
from posenc.errors import UnsupportedError, check_choice, check_int, check_number, check_tensor
from posenc.lab.train.settings import Settings
from posenc.lab.train.tasks import TASKS, load_corpus
from posenc.layer import KVCache, SelfAttention
from posenc.methods import METHODS, make, sizes


class MLP(nn.Module):
    """Widen each token fourfold, bend, narrow: [B, T, C] -> [B, T, C]. It sees no other token and no position."""

    def __init__(self, dim):
        super().__init__()
        self.widen = nn.Linear(dim, 4 * dim, bias=False)
        self.narrow = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        return self.narrow(gelu(self.widen(x)))


class Block(nn.Module):
    """Attention, then MLP, each on a normalized copy of the stream x [B, T, C] and added to it (pre-norm)."""

    def __init__(self, dim, num_heads, encoding, causal=True, make_attention=SelfAttention):
        super().__init__()
        self.norm_attention = nn.LayerNorm(dim)
        self.attention = make_attention(dim, num_heads, encoding, causal=causal)
        self.norm_mlp = nn.LayerNorm(dim)
        self.mlp = MLP(dim)

    def forward(self, x, positions, mask=None, valid=None, cache=None):
        x = x + self.attention(self.norm_attention(x), positions=positions, mask=mask, valid=valid, cache=cache)
        return x + self.mlp(self.norm_mlp(x))


class Model(nn.Module):
    r"""What `Decoder` and `Encoder` share. Position enters at the four places of its encodings, and nowhere else.

    Arguments: as for `Decoder`.
        make_encoding: called as make_encoding(layer) with layer = 0 .. num_layers - 1, returns that layer's
            `Encoding`: a new one each time, or the same one where layers share it.
        make_attention: called as make_attention(dim, num_heads, encoding, causal=...) for each layer, returns a
            `SelfAttention` or one made from it, such as `FoxPro`.
    An encoding with `embed_at="input"` acts once, before layer 0: it is layer 0's; those of later layers are left out.

    Convention: embeddings start with variance 1/C, as in tensor2tensor, and are multiplied by sqrt(C), as "Attention
    is all you need" says, so that they stand at variance 1 beside a sinusoid of volume 1. This holds for every method,
    with or without anything added there: a difference between two methods is then not one of scale. The head is a
    matrix of its own. No dropout.
    Errors: TypeError or ValueError naming the argument.
    """

    causal: bool

    def __init__(self, vocab_size, dim, num_layers, num_heads, make_encoding, make_attention=SelfAttention):
        super().__init__()
        check_int("vocab_size", vocab_size)
        check_int("dim", dim)
        check_int("num_layers", num_layers)
        if not callable(make_encoding):
            raise TypeError(f"make_encoding={make_encoding!r} must be callable: make_encoding(layer) -> Encoding")
        if not callable(make_attention):
            raise TypeError(f"make_attention={make_attention!r} must be callable, such as posenc.SelfAttention")
        with torch.random.fork_rng(devices=[]):  # with random numbers of their own: all else starts alike for a seed
            torch.default_generator.manual_seed(int(torch.randint(2**62, (), device="cpu")))
            encodings = [make_encoding(layer) for layer in range(num_layers)]
        for layer, encoding in enumerate(encodings):
            if not isinstance(encoding, Encoding):
                raise TypeError(f"make_encoding({layer}) must return an Encoding, got {type(encoding).__name__}")

        self.dim = dim
        self.embedding = nn.Embedding(vocab_size, dim)
        nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(dim))
        self.embed = encodings[0].at_input().embed
        self.blocks = nn.ModuleList(
            Block(dim, num_heads, encoding.in_layers(), self.causal, make_attention) for encoding in encodings
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab_size, bias=False)

    def forward(self, tokens, *, positions=None, mask=None, valid=None, caches=None):
        r"""Predict a token at each of tokens [B, T]: the next one (`Decoder`) or the one that stands there (`Encoder`).

        Arguments:
            positions: [T] or [B, T]; default counts on from the caches' length.
            mask: bool, True where a query may look, [T, Tk] or broadcastable to [B, 1, T, Tk], cached keys included.
            valid: [B, T] bool, False at padding.
            caches: one `KVCache` a layer, from `Decoder.new_caches`, extended in place.
        Returns: logits [B, T, vocab_size].
        """
        check_tensor("tokens", tokens, "[B, T] of integers", ndim=2)
        if caches is not None and not self.causal:
            raise UnsupportedError("caches: an Encoder looks both ways, so a new token would change all that is cached")
        if caches is not None and len(caches) != len(self.blocks):
            raise ValueError(f"caches holds {len(caches)}, it must hold one for each of {len(self.blocks)} layers")
        if positions is None:
            start = 0 if caches is None else caches[0].seen
            positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)

        x = self.embedding(tokens) * math.sqrt(self.dim)  # [B, T, C]
        if self.embed is not None:
            x = self.embed(x, positions if positions.ndim > 1 else positions[None])
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks)):
            x = block(x, positions, mask, valid, cache)
        return self.head(self.norm(x))


class Encoder(Model):
    r"""A masked language model: every token sees every other, and the head says what stood where a mask stands now.

    Arguments as for `Decoder`; the encodings must be defined without a causal mask. With NoPE the output at each
    token is the same whatever the order of the others: nothing but the encoding tells position.
    Paper: arXiv 1810.04805 (BERT), without its learned positions. Chapter: How to measure position.
    """

    causal = False


class Decoder(Model):
    r"""A causal language model: every token sees those before it, and the head predicts the next one.

    Arguments:
        vocab_size: how many tokens there are.
        dim: C, the width.
        num_layers: how many blocks.
        num_heads: H, a divisor of C.
        make_encoding: make_encoding(layer) -> that layer's `Encoding`; see `Model`.
        make_attention: what each layer attends with, default `SelfAttention`; see `Model`.
    Errors: TypeError or ValueError naming the argument.
    Chapter: Four places.
    """

    causal = True

    def new_caches(self):
        """An empty `KVCache` for each layer."""
        return [KVCache() for _ in self.blocks]

    @torch.no_grad()
    def generate(self, tokens, length, *, temperature=1.0, seed=0, window=None):
        r"""Continue tokens [B, T] by `length` tokens, drawn one after the other.

        Arguments:
            temperature: divides the logits; 0 takes the likeliest token.
            seed: of the draws.
            window: None lets every token see all before it, at positions that go on growing, through the cache. A
                number shows the model the last `window` tokens only, at positions from 0 on: what it was trained on
                when `window` is the training length. Every position then changes at each step, so nothing is cached.
        Returns: [B, T + length].
        Errors: TypeError or ValueError naming the argument.
        """
        check_tensor("tokens", tokens, "[B, T] of integers", ndim=2)
        if tokens.shape[1] == 0:
            raise ValueError("tokens must hold at least one token to continue, got shape [B, 0]")
        check_int("length", length, minimum=0)
        check_number("temperature", temperature, minimum=0)
        check_int("seed", seed, minimum=0)
        if window is not None:
            check_int("window", window)
        generator = torch.Generator(tokens.device).manual_seed(seed)
        caches, new = self.new_caches(), tokens
        for _ in range(length):
            logits = self(new, caches=caches) if window is None else self(tokens[:, -window:])
            logits = logits[:, -1].float()  # [B, vocab_size]
            if temperature == 0:
                new = logits.argmax(-1, keepdim=True)
            else:
                new = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)
            tokens = torch.cat((tokens, new), dim=1)
        return tokens


def encoding_maker(
    method: str | Callable, settings: Settings, causal: bool = True, options: dict | None = None
) -> Callable:
    r"""make_encoding(layer) for a method's name, with the sizes of these settings; a callable is returned as it is.

    Without a causal mask a method gets the options that define it there (`Method.both_ways`); `options` come last.
    """
    if callable(method):
        return method
    heads = {"num_heads": settings.num_heads, "head_dim": settings.dim // settings.num_heads}
    arguments = sizes(method, **heads, length=settings.lengths[-1])  # a learned table has rows for the test's lengths
    arguments |= {option: settings.length * share for option, share in METHODS[method].per_length.items()}
    arguments |= ({} if causal else METHODS[method].both_ways) | (options or {})
    if METHODS[method].shared:
        one = functools.cache(lambda: make(method, **arguments))  # made when asked for, after the seed is set
        return lambda layer: one()
    return lambda layer: make(method, **arguments)


def build(
    method: str | Callable,
    settings: Settings,
    task: str = "text",
    seed: int = 0,
    options: dict | None = None,
    make_attention: Callable = SelfAttention,
) -> Model:
    r"""The untrained model of a task (`Decoder`, or `Encoder` for "masked"): the same weights for the same seed.

    method: a name in `posenc.METHODS` (with `options` of its factory), or make_encoding(layer) -> Encoding.
    make_attention: what each layer attends with; see `Model`.
    """
    check_int("seed", seed, minimum=0)
    check_choice("task", task, TASKS)
    task = TASKS[task]
    make_encoding = encoding_maker(method, settings, task.causal, options)
    kind = Decoder if task.causal else Encoder
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        shape = (len(task.vocabulary), settings.dim, settings.num_layers, settings.num_heads)
        return kind(*shape, make_encoding, make_attention)


def own_parameters(model: Model, settings: Settings, task: str = "text") -> list[str]:
    r"""The names of the parameters that a model's encoding brings: those that NoPE's model of these settings lacks."""
    shared = dict(build("nope", settings, task).named_parameters())
    return [name for name, _ in model.named_parameters() if name not in shared]


def pick_device(device: str | torch.device | None = None) -> torch.device:
    """The torch device: the one asked for, else cuda where there is one, else cpu. Errors: ValueError naming it."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device = ("cuda" if count else "cpu") if device is None else device
    there = {"cpu": 1, "cuda": count, "mps": int(torch.backends.mps.is_available())}
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type not in there:
        raise ValueError(f"device={device!r} is not known; choose one of {', '.join(map(repr, there))}, or 'cuda:1'")
    if (found.index or 0) >= there[found.type]:
        seen = f"torch sees {there[found.type]} of this kind here, counted from 0"
        raise UnsupportedError(f"device={str(device)!r}: {seen}; device='cpu' works")
    return found


def precision(device: torch.device) -> torch.autocast:
    """bf16 autocast where the GPU computes in it natively (capability 8.0 and above), else no autocast."""
    native = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=native)


def sample(
    model: Decoder,
    prompt: str = "The ",
    length: int = 200,
    *,
    temperature: float = 0.8,
    seed: int = 0,
    window: int | None = None,
) -> str:
    r"""Text that a model trained on "text" writes after `prompt`; see `Decoder.generate` for `window`."""
    corpus = load_corpus()
    device = next(model.parameters()).device
    tokens = corpus.encode(prompt)[None].to(device)
    return corpus.decode(model.generate(tokens, length, temperature=temperature, seed=seed, window=window)[0])
