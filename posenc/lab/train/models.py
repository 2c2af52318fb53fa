r"""The untrained model of a method and a task, the device it stands on, and text that a trained one writes."""

import functools
from collections.abc import Callable

import torch

from posenc.errors import UnsupportedError, check_choice, check_int
from posenc.lab.train.settings import Settings
from posenc.lab.train.tasks import TASKS, load_corpus
from posenc.lab.train.tiny import Decoder, Encoder, Model
from posenc.layer import SelfAttention
from posenc.methods import METHODS, make, sizes

DEVICES = ("cpu", "cuda", "mps")


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
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type not in DEVICES:
        raise ValueError(f"device={device!r} is not known; choose one of {', '.join(map(repr, DEVICES))}, or 'cuda:1'")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if found.type == "cuda" and (found.index or 0) >= count:
        there = f"torch sees {count} CUDA devices here, counted from 0" if count else "torch sees no CUDA device here"
        raise UnsupportedError(f"device={str(device)!r}: {there}; device='cpu' works")
    if found.type == "mps" and not torch.backends.mps.is_available():
        raise UnsupportedError(f"device={str(device)!r}: torch can't use Metal here; device='cpu' works")
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
