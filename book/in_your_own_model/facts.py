r"""What the page on posenc in other people's code asks of `posenc.bridges`: which one serves which method."""

from collections import Counter

import torch

import posenc
from posenc import METHODS, UnsupportedError, bridges
from posenc.lab.experiments import load_results
from posenc.lab.titles import link
from posenc.lab.write import say_all, table
from posenc.methods import sizes

HEADS, HEAD_DIM, LENGTH = 4, 8, 6
MASKS = {"flex": bridges.flex, "sdpa_bias": bridges.sdpa_bias}
MODELS = {"attach": bridges.attach, "write_rope": bridges.write_rope}


def tokens_for(encoding):
    r"""q, k, positions and gates that an encoding can read: tokens on a line, where it counts several axes."""
    q, k = torch.randn(2, 1, HEADS, LENGTH, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    axes, gates = encoding.axes, None
    positions = torch.arange(LENGTH) if axes is None else torch.arange(LENGTH)[:, None].expand(-1, axes)
    if encoding.gates is not None:
        size, activation = encoding.gates
        gates = activation(torch.randn(1, HEADS, LENGTH, *size, generator=torch.Generator().manual_seed(1)))
    return q, k, positions, gates


def small_llama():
    r"""A model of transformers with random weights, for heads of this page's size."""
    from transformers import LlamaConfig, LlamaForCausalLM

    width = HEADS * HEAD_DIM
    sizes_of = dict(hidden_size=width, intermediate_size=width, num_attention_heads=HEADS, num_hidden_layers=1)
    return LlamaForCausalLM(LlamaConfig(vocab_size=8, pad_token_id=0, **sizes_of))


def serves(bridge: str, encoding) -> str:
    r"""What a bridge says when it is asked: "yes", "after turn", or "–" where it refuses."""
    try:
        if bridge in MODELS:
            MODELS[bridge](small_llama(), encoding)
            return "yes"
        q, k, positions, gates = tokens_for(encoding)
        if encoding.rotate is None:
            MASKS[bridge](encoding, q, k, pos_q=positions, gates=gates)
            return "yes"
        q, k, rest = bridges.turn(encoding, q, k, pos_q=positions)
        MASKS[bridge](rest, q, k, gates=gates)
        return "after `turn`"
    except UnsupportedError:
        return "–"


def bridges_table():
    r"""Each method, and what each bridge answers for it."""
    given = dict(num_heads=HEADS, head_dim=HEAD_DIM, length=LENGTH)
    rows = [(link(name), posenc.make(name, **sizes(name, **given))) for name in METHODS]
    rows.append(("[RSE](../rse/index.md)'s penalty alone", posenc.rse.penalty()))
    names = [*MASKS, *MODELS]
    answers = [[title, *(serves(bridge, encoding) for bridge in names)] for title, encoding in rows]
    return table(["method", *(f"`{name}`" for name in names)], answers)


def kinds_table():
    r"""Which model types of transformers `attach` serves, and why not the others: most types first."""
    found, order = {}, ("serves", "serves with a list", "refuses", "not built")
    for kind, said in load_results("attach_kinds")["kinds"].items():
        verdict, why = said.split(" | ")
        found.setdefault((verdict, "" if verdict.startswith("serves") else why), []).append(f"`{kind}`")
    rows = sorted(found.items(), key=lambda item: (order.index(item[0][0]), -len(item[1])))
    return table(["`attach`", "why not", "model types"], [[*said, ", ".join(kinds)] for said, kinds in rows])


def speed_table():
    r"""Training beside the same lines by hand, from results/cpu_speed.json: by hand is 1, above it is faster."""
    trained = load_results("cpu_speed")["training"]
    lengths = list(next(iter(trained.values())))
    rows = [[link(name), *(f"{by[length]['ratio']:.2f}" for length in lengths)] for name, by in trained.items()]
    return table(["method", *(f"{length} tokens" for length in lengths)], rows)


def numbers():
    r"""Give the prose how many model types get which answer."""
    answers = Counter(said.split(" | ")[0] for said in load_results("attach_kinds")["kinds"].values())
    counts = {answer.replace(" ", "_"): count for answer, count in answers.items()}
    say_all("own", {name: f"{n}" for name, n in counts.items()})
