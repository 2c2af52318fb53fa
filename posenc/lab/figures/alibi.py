r"""Explorables of the ALiBi chapter."""

import math

import torch

from posenc.bias.alibi import bias, slopes
from posenc.lab.experiments import ONE_A_PLACE, load_results, mean_and_spread
from posenc.lab.explore import COLORS, explorable, slider
from posenc.methods import METHODS

KEYS = 128
MATCH, MATCH_LOGIT = 24, 6.0  # one key fits the query: its logit stands this far above the flat level
FLOOR = 1e-6  # weights below this are not drawn


def content_logits():
    """Seeded content logits of the keys: noise of spread 1, and one key that fits the query."""
    noise = torch.randn(KEYS, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    noise[MATCH] = MATCH_LOGIT
    return noise


def _log10(weights):
    """Base-10 logarithms for a drawing, gaps where the weight is below FLOOR."""
    return [math.log10(w) if w >= FLOOR else math.nan for w in weights]


def _decay(heads, head, query, *, slopes=slopes, bias=bias):
    chosen = min(head, heads) - 1  # with fewer heads, the last one
    m = slopes(heads).double()
    position = torch.arange(KEYS)
    seen = position[: query + 1]
    row = bias(position[query : query + 1], seen, m)[:, 0]  # [H, query + 1]
    flat = torch.softmax(row[chosen], -1)
    content = torch.softmax(content_logits()[: query + 1] + row[chosen], -1)

    fan_x, fan_y = [], []
    for line in row:
        fan_x += [0, query, math.nan]
        fan_y += [line[0], line[query], math.nan]
    data = [
        dict(
            type="scatter",
            name="bias of every head",
            x=fan_x,
            y=fan_y,
            mode="lines",
            line=dict(color=COLORS["gray"], width=1, dash="dot"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="bias of this head",
            x=[0, query],
            y=[row[chosen, 0], row[chosen, query]],
            mode="lines",
            line=dict(color=COLORS["blue"], width=3),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="equal logits",
            x=seen,
            y=_log10(flat),
            mode="lines",
            yaxis="y2",
            line=dict(color=COLORS["blue"], width=3, dash="dash"),
        ),
        dict(
            type="scatter",
            name="content logits",
            x=seen,
            y=_log10(content),
            mode="markers",
            yaxis="y2",
            marker=dict(color=COLORS["orange"], size=5),
        ),
        dict(
            type="scatter",
            name=f"key {MATCH}",
            x=[MATCH] if query >= MATCH else [],
            y=_log10(content[MATCH : MATCH + 1]),
            mode="markers",
            yaxis="y2",
            marker=dict(color=COLORS["red"], size=13, symbol="star"),
        ),
    ]
    layout = dict(
        height=480,
        xaxis=dict(range=[-2, KEYS + 1], title=dict(text="key position j"), anchor="y2"),
        yaxis=dict(range=[-16, 1], domain=[0.6, 1], title=dict(text="bias")),
        yaxis2=dict(
            range=[-6.2, 0.2],
            domain=[0, 0.52],
            title=dict(text="weight"),
            tickvals=[-6, -4, -2, 0],
            ticktext=["10⁻⁶", "10⁻⁴", "10⁻²", "1"],
        ),
    )
    slope = m[chosen].item()
    near = 1 + math.floor(math.log(20) / slope)
    readouts = {
        "which": f"head {chosen + 1} of {heads}",
        "slope": slope,
        "half": math.log(2) / slope,
        "window": f"{near} keys" if near <= query + 1 else f"{near} keys (more than there are)",
        "match": f"{content[MATCH].item():.2g}" if query >= MATCH else "not seen yet",
    }
    return dict(data=data, layout=layout), readouts


decay = explorable(
    _decay,
    id="alibi.decay",
    title="ALiBi: a straight penalty, an exponential window",
    alt="Above, the bias of each head, this one thick: straight lines that fall from zero at the query towards older "
    "keys. Below, the weights of this head, on a log scale: with equal logits a straight line again (dashed), "
    f"with content dots scattered around it, and above them a star: key {MATCH}, which fits the query.",
    readout="{which}: slope m = {slope:.4f}, weight halves every {half:.1f} tokens, 95% of it on {window}; "
    f"weight of key {MATCH}: {{match}}",
    depends={
        "bias of every head": ["heads", "query"],
        "bias of this head": ["heads", "head", "query"],
        "equal logits": ["heads", "head", "query"],
        "content logits": ["heads", "head", "query"],
        f"key {MATCH}": ["heads", "head", "query"],
        "readout.which": ["heads", "head"],
        "readout.slope": ["heads", "head"],
        "readout.half": ["heads", "head"],
        "readout.window": ["heads", "head", "query"],
        "readout.match": ["heads", "head", "query"],
    },
    heads=slider([2, 4, 8, 12, 16], label="number of heads H", default=8),
    head=slider(range(1, 17), label="head h (the last one, if there are fewer)", default=4),
    query=slider(range(7, KEYS, 8), label="query position i", default=127),
)


TITLES = {key: METHODS[key].title for key in ONE_A_PLACE}
WHOLE, CUT, BOTH = "whole", "cut to the training window", "both"
NEAR = 0.06  # half the height of the lower panel, in nats per character


def far_context(whole, cut):
    r"""What the paired difference whole - cut of some seeds says about the far context, in words.

    A difference counts where it is at least 0.001 nats and beyond 2.8 standard errors (95% for five seeds).
    """
    mean, spread = mean_and_spread([a - b for a, b in zip(whole, cut)])
    if abs(mean) < 0.001 or abs(mean) < 2.8 * spread / math.sqrt(len(whole)):
        return "no difference: what is far is ignored"
    return f"what is far {'costs' if mean > 0 else 'saves'} {abs(mean):.3f}"


def _extrapolates_or_ignores(method, length, attention, *, results=None):
    results = load_results("train_short_test_long", ONE_A_PLACE) if results is None else results
    key = next(k for k, title in TITLES.items() if title == method)
    lengths, runs = results["lengths"], results["methods"][key]
    upto = lengths.index(length) + 1
    seeds = range(len(runs["whole"]))
    top = max(max(map(max, m["whole"] + m["cut"])) for m in results["methods"].values())
    bottom = min(min(map(min, m["whole"] + m["cut"])) for m in results["methods"].values())

    def dots(kind, shown):
        x = [lengths[n] * 2 ** (0.05 * (s - (len(seeds) - 1) / 2)) for s in seeds for n in range(upto)]
        return (x, [runs[kind][s][n] for s in seeds for n in range(upto)]) if shown else ([], [])

    def means(kind, shown):
        y = [mean_and_spread([runs[kind][s][n] for s in seeds])[0] for n in range(upto)]
        return (lengths[:upto], y) if shown else ([], [])

    show_whole, show_cut = attention != CUT, attention != WHOLE
    gap = [[w - c for w, c in zip(runs["whole"][s], runs["cut"][s])] for s in seeds]
    gaps_x, gaps_y = dots("whole", attention == BOTH)[0], []
    off_x, off_y = [], []
    if attention == BOTH:
        for place, value in enumerate(gap[s][n] for s in seeds for n in range(upto)):
            inside = abs(value) <= NEAR
            gaps_y.append(value if inside else math.nan)
            if not inside:
                off_x.append(gaps_x[place])
                off_y.append(math.copysign(0.93 * NEAR, value))
    blue, orange = COLORS["blue"], COLORS["orange"]
    (wx, wy), (cx, cy) = dots("whole", show_whole), dots("cut", show_cut)
    (wmx, wmy), (cmx, cmy) = means("whole", show_whole), means("cut", show_cut)
    data = [
        dict(
            type="scatter",
            name="whole, mean",
            x=wmx,
            y=wmy,
            mode="lines",
            line=dict(color=blue, width=2),
            showlegend=False,
        ),
        dict(type="scatter", name="whole", x=wx, y=wy, mode="markers", marker=dict(color=blue, size=7)),
        dict(
            type="scatter",
            name="cut, mean",
            x=cmx,
            y=cmy,
            mode="lines",
            line=dict(color=orange, width=2, dash="dash"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="cut",
            x=cx,
            y=cy,
            mode="markers",
            marker=dict(color=orange, size=9, symbol="diamond-open"),
        ),
        dict(
            type="scatter",
            name="whole minus cut",
            x=gaps_x,
            y=gaps_y,
            mode="markers",
            yaxis="y2",
            marker=dict(color=COLORS["purple"], size=7, symbol="square"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="off the scale",
            x=off_x,
            y=off_y,
            mode="markers",
            yaxis="y2",
            marker=dict(color=COLORS["purple"], size=11, symbol="triangle-up"),
        ),
    ]
    pad = 0.05 * (top - bottom)
    layout = dict(
        height=500,
        xaxis=dict(
            type="log",
            range=[math.log10(lengths[0]) - 0.08, math.log10(lengths[-1]) + 0.08],
            tickvals=lengths,
            ticktext=[str(n) for n in lengths],
            title=dict(text="characters of context"),
            anchor="y2",
        ),
        yaxis=dict(range=[bottom - pad, top + pad], domain=[0.42, 1], title=dict(text="loss")),
        yaxis2=dict(
            range=[-NEAR, NEAR],
            domain=[0, 0.32],
            title=dict(text="whole − cut"),
            tickvals=[-0.05, 0, 0.05],
            ticktext=["−0.05", "0", "+0.05"],
        ),
    )
    n = upto - 1
    at_first = mean_and_spread([runs["whole"][s][0] for s in seeds])[0]
    whole_now, cut_now = ([runs[kind][s][n] for s in seeds] for kind in ("whole", "cut"))
    words = [f"{method}, trained at {lengths[0]}, tested at {length}"]
    if show_whole:
        mean, spread = mean_and_spread(whole_now)
        words.append(f"whole {mean:.3f} ± {spread:.3f} ({mean - at_first:+.3f} against {lengths[0]})")
    if show_cut:
        mean, spread = mean_and_spread(cut_now)
        words.append(f"cut {mean:.3f} ± {spread:.3f}")
    if attention == BOTH:
        words.append("the two are one" if n == 0 else far_context(whole_now, cut_now))
    return dict(data=data, layout=layout), {"words": "; ".join(words)}


extrapolates_or_ignores = explorable(
    _extrapolates_or_ignores,
    id="alibi.extrapolates_or_ignores",
    title="Extrapolates, or ignores?",
    alt="Above, the loss of a trained model, in nats per character, on the same characters as the context in front of "
    "them grows, a mark for each seed: with all of the context visible, and with attention cut to the training window. "
    "Below, the difference of the two on a finer scale: above zero what is far harms, below it helps, at zero the "
    "model makes nothing of it. A triangle is off the scale.",
    readout="{words}",
    method=slider(list(TITLES.values()), label="method", default="RoPE"),
    length=slider([64, 128, 256, 512], label="characters of context", default=512),
    attention=slider([WHOLE, CUT, BOTH], label="attention", default=BOTH),
)
