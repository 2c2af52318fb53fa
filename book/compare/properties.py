r"""What each method is and what it costs, measured on small random models: two tables of *Compare and choose*."""

import functools
import inspect

import torch

from posenc.errors import UnsupportedError
from posenc.lab.experiments import load_results
from posenc.lab.titles import link
from posenc.lab.train import build, encoding_maker, settings_for
from posenc.lab.train.tiny import Decoder, Encoder
from posenc.lab.write import seeded, stirred, table
from posenc.methods import METHODS

LENGTH, VOCABULARY, SHIFT = 24, 50, 100  # tokens, kinds of token, and how far all positions move
SWAPPED = (3, 11)  # the two tokens of the past that change places
NOTHING = 1e-9  # a change below this is rounding
SHORT, LONG = 128, 512  # tokens, where memory is measured


def random_model(name: str, kind=Decoder, causal=True):
    """A random model of one layer around a method, in float64; causal=False takes what it is without a mask."""
    small = settings_for("study")
    model = seeded(lambda: kind(VOCABULARY, small.dim, 1, small.num_heads, encoding_maker(name, small, causal)))
    return stirred(model).double().eval()


def positions(name: str):
    """Positions [T], or [T, n] on a grid for a method with n axes."""
    index, axes = torch.arange(LENGTH), METHODS[name].axes
    return index if axes is None else torch.stack([index // 5**axis % 5 for axis in range(axes)], dim=-1)


def change(a, b) -> float:
    """The largest difference, in standard deviations of b."""
    return ((a - b).abs().max() / b.std()).item()


@functools.cache
@torch.no_grad()
def properties(name: str) -> dict:
    """What is measured of a method: {"shift", "shuffle", "swap": changes, "both ways": words}."""
    tokens, order = seeded(lambda: (torch.randint(VOCABULARY, (2, LENGTH)), torch.randperm(LENGTH)))
    swapped, (one, other) = torch.arange(LENGTH), SWAPPED
    swapped[one], swapped[other] = other, one
    decoder, at = random_model(name), positions(name)
    plain = decoder(tokens, positions=at)
    return {
        "shift": change(decoder(tokens, positions=at + SHIFT), plain),
        "shuffle": change(decoder(tokens, positions=at[order]), plain),
        "swap": change(decoder(tokens[:, swapped], positions=at)[:, -1], plain[:, -1]),
        "both ways": without_mask(name, tokens, order),
    }


def without_mask(name: str, tokens, order) -> str:
    """Which options define a method without a causal mask, and what it then tells of the order; or "refused"."""
    method, at = METHODS[name], positions(name)
    try:
        random_model(name, Encoder)(tokens, positions=at)
        way = "as it is"
    except UnsupportedError:
        if not method.both_ways:
            return "refused"
        way = ", ".join(f"`{option}={value!r}`" for option, value in method.both_ways.items())
    encoder = random_model(name, Encoder, causal=False)
    plain, backwards = encoder(tokens, positions=at), torch.arange(LENGTH).flip(0)
    if change(encoder(tokens[:, order], positions=at), plain[:, order]) < NOTHING:
        return f"{way}: sees a bag"
    if change(encoder(tokens[:, backwards], positions=at), plain[:, backwards]) < NOTHING:
        return f"{way}: can't tell left from right"
    return f"{way}: tells order"


def kind_of(name: str) -> str:
    """What the changes say that a method is."""
    if properties(name)["shuffle"] < NOTHING:
        return "reads no position"
    return "relative" if properties(name)["shift"] < NOTHING else "absolute"


def size(value: float) -> str:
    """A change as its cell prints it: rounding by its power of ten."""
    return "0" if value == 0 else f"{value:.0e}" if value < 1e-3 else f"{value:.2f}"


def properties_table():
    """What each method is, by what changes at the output of a random layer."""
    rows = []
    for name, method in METHODS.items():
        changes = properties(name)
        entered = ", ".join(f"`{place}`" for place in method.places) or ("its own" if own_attention(name) else "none")
        past = "no" if changes["swap"] < NOTHING else "yes"
        cells = [kind_of(name), size(changes["shift"]), size(changes["shuffle"]), past, changes["both ways"]]
        rows.append([link(name), entered, *cells])
    head = ["method", "places", "so it is", f"all positions + {SHIFT}", "positions shuffled"]
    return table([*head, "one causal layer tells past order", "without a mask"], rows)


def check_properties():
    """Assert what the page tells below its first table."""
    bags, by_order = {"nope", "sink"}, {"stickbreaking", "cope", "fox", "path"}
    assert {name for name in METHODS if properties(name)["swap"] < NOTHING} == bags
    assert {name for name in METHODS if kind_of(name) == "reads no position"} == bags | by_order
    distances = "rope alibi shaw transformer_xl t5 kerple rse inkling rope2d mrope comrope".split()
    assert {kind_of(name) for name in distances} == {"relative"}
    # FIRE beyond its threshold; ExpoSB by its gain and its band; LieRE because its generators do not commute
    assert {kind_of(name) for name in ("sinusoidal", "learned", "fire", "exposb", "liere")} == {"absolute"}
    assert all(properties(name)["both ways"].endswith("bag") for name in bags)
    assert properties("alibi")["both ways"].endswith("right")


def own_attention(name: str) -> bool:
    """Whether a method fits no place and brings an attention function, as it comes."""
    return encoding_maker(name, settings_for("study"))(0).attend is not None


@functools.cache
def parameters(name: str, preset: str) -> int:
    """The numbers that a model with this method learns."""
    return sum(p.numel() for p in build(name, settings_for(preset)).parameters())


@functools.cache
def saved_bytes(name: str, length: int) -> int:
    """Bytes that autograd saves of a model of one layer for its backward pass, weights aside; each storage once."""
    small = settings_for("study")
    bounded = "max_positions" in inspect.signature(METHODS[name].factory).parameters
    maker = encoding_maker(name, small, options={"max_positions": length} if bounded else {})
    model = seeded(lambda: Decoder(VOCABULARY, small.dim, 1, small.num_heads, maker))
    at, axes = torch.arange(length), METHODS[name].axes
    at = torch.stack([at] * axes, dim=-1) if axes else at
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    storages = {}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        _out = model(torch.zeros(1, length, dtype=torch.long), positions=at)  # held, so that no storage is used twice
    return sum(nbytes for pointer, nbytes in storages.items() if pointer not in weights)


def costs_table():
    """Learned numbers at two sizes, memory at two lengths, and speed beside plain PyTorch."""
    speed = load_results("training_speed")["ratio_to_plain"]
    rows = []
    for name in METHODS:
        learned = [f"{parameters(name, preset) - parameters('nope', preset):,}" for preset in ("study", "original")]
        memory = [f"{saved_bytes(name, length) / 2**20:.1f}" for length in (SHORT, LONG)]
        rows.append([link(name), *learned, *memory, f"{speed[name]:.2f}" if name in speed else "– (not timed)"])
    head = ["method", "learned numbers, small", "learned numbers, larger"]
    return table([*head, f"MiB kept, {SHORT} tokens", f"MiB kept, {LONG:,} tokens", "speed beside plain PyTorch"], rows)


def cost_numbers() -> dict:
    """Sizes of the two models, and who is heaviest and slowest."""
    for name, method in METHODS.items():  # linear in the length where PyTorch's fused attention serves a method
        growth = saved_bytes(name, LONG) / saved_bytes(name, SHORT) / (LONG / SHORT)
        fused = set(method.places) <= {"embed", "rotate"} and not own_attention(name)
        assert growth < 1.2 if fused else growth > 1.5, name
    heaviest = max(METHODS, key=lambda name: saved_bytes(name, LONG))
    speed = load_results("training_speed")["ratio_to_plain"]
    slowest = min((name for name in METHODS if name in speed), key=speed.get)
    larger = settings_for("original")
    return {
        "original": f"{larger.num_layers} layers, {larger.dim} wide, {larger.num_heads} heads",
        **{f"{preset}_parameters": f"{parameters('nope', preset):,}" for preset in ("study", "original")},
        "heaviest": METHODS[heaviest].title,
        "heaviest_ratio": f"{saved_bytes(heaviest, LONG) / saved_bytes('nope', LONG):.0f}",
        "slowest": f"{METHODS[slowest].title} ({speed[slowest]:.2f})",
    }
