r"""What the chapter on the four places checks behind its prose: its twelve lines, and its example by hand."""

import torch

import posenc
from posenc.encoding import At

#: What the page's lines are held against: encodings at each place, at two, at none.
HELD = ("nope", "sinusoidal", "rope", "alibi", "t5", "kerple", "stickbreaking", "sink", "rse")
SIZES = dict(num_heads=4, head_dim=8, length=16)


def check_short(attend, limit=1e-6):
    r"""Hold the page's attention against `posenc.attention`. Errors: AssertionError naming the method that is off."""
    generator = torch.Generator().manual_seed(0)
    x, W = (torch.randn(*shape, generator=generator) for shape in ((2, 16, 32), (3, 32, 32)))
    W = W / 32**0.5
    positions = torch.stack((torch.arange(16), torch.arange(16) + 1000))
    visible = torch.ones(16, 16).tril().bool()
    for name in HELD:
        encoding = posenc.make(name, **posenc.methods.sizes(name, **SIZES))
        functions = {place: getattr(encoding, place) for place in encoding.places}
        ours = attend(x, *W, 4, At(positions, positions, visible), **functions)
        put_in = posenc.embed_input(encoding, x, positions)
        q, k, v = ((put_in @ w.T).unflatten(-1, (4, 8)).transpose(1, 2) for w in W)
        theirs = posenc.attention(q, k, v, encoding, pos_q=positions, pos_k=positions)
        error = (ours - theirs).abs().max().item()
        assert error < limit, f"{name}: off by {error}"


def by_hand() -> dict[str, list[float]]:
    r"""The weights of the example by hand, {row of the table: three weights}."""
    q = torch.tensor([2.0, 0, 1, 0]).view(1, 1, 1, 4)
    k = torch.tensor([[0.0, 1, 0, 1], [1, 0, 0, 1], [1, 1, 2, 0]]).view(1, 1, 3, 4)
    places = {
        "nowhere": posenc.make("nope"),
        "penalty": posenc.Encoding(bias=lambda q, k, at: at.pos_k[:, None, None] - at.pos_q[:, None, :, None]),
        "keys alone": posenc.Encoding(bias=lambda q, k, at: at.pos_k[:, None, None]),
        "stick": posenc.make("stickbreaking", attend_current=True),
    }
    return {
        name: posenc.attention(q, k, k, encoding, return_weights=True)[1].flatten().tolist()
        for name, encoding in places.items()
    }
