r"""The comparison of the report that this book began with: five encodings, two objectives, one model.

    python -m posenc.lab.experiments rates report_causal               # then sweep report_causal --rates
    python -m posenc.lab.experiments rates report_causal_original --device cuda        # at the report's sizes

Chapter: One model, five encodings.
"""

from posenc.encoding import Encoding
from posenc.lab.experiments.sweeps import Sweep, measure_masked, measure_volume, volume_facts, with_own
from posenc.lab.train import settings_for
from posenc.lab.train.tiny import encoding_maker

# The report's five, as it places them; then NoPE and what the other places usually do.
ARMS = {
    "absolute": ("sinusoidal", {"embed_at": "layer_qk"}),
    "standard": ("learned", {"embed_at": "layer_qkv"}),
    "rope": ("rope", {}),
    "exposb": ("exposb", {}),
    "rse": ("rse", {}),
    "nope": ("nope", {}),
    "sinusoidal": ("sinusoidal", {}),
    "alibi": ("alibi", {}),
    "stickbreaking": ("stickbreaking", {}),
}
FIVE = tuple(ARMS)[:5]
RAN = {"rse": {"stick": False}}  # a softmax, which its code falls back to
# "original" has the report's sizes; "small" a third of each, but four heads, for ALiBi, and a rate for that size.
TESTED = {"multiples": (1, 2, 4), "windows": 960}
SMALL = {"dim": 128, "num_layers": 2, "num_heads": 4, "length": 85, "steps": 600, "warmup": 50, "lr": 2e-3}
SIZES = {"": settings_for("original", **SMALL, **TESTED), "_original": settings_for("original", **TESTED)}

NEW_PLACES = "Every token beyond the training length stands at a position whose vector the projections never read."
NEW_ROWS = "The rows beyond the training length never get a gradient."
NEW_ANGLES = "Distances beyond the training length turn the slow pairs by angles never seen."
CAUSAL = {  # from the training length to four times that, written before the runs
    "absolute": ("rises", NEW_PLACES),
    "standard": ("rises", NEW_ROWS),
    "rope": ("rises", NEW_ANGLES),
    "exposb": ("rises", f"{NEW_ANGLES} Its factors stay near 1."),
    "rse": ("rises", f"{NEW_ANGLES} Early keys claim first, and there are more of them."),
    "nope": ("rises", "More keys share the softmax, and nothing tells near from far."),
    "sinusoidal": ("rises", NEW_PLACES),
    "alibi": ("holds", "What is far is penalized more than anything in training was."),
    "stickbreaking": ("holds", "Near keys take their share first, however many stand behind them."),
} | {f"{arm}_ran": ("rises", "BERT's own table adds rows that never get a gradient.") for arm in FIVE}
PREDICTIONS = {
    "causal": CAUSAL,
    "masked": CAUSAL
    | {
        "nope": ("holds", "A larger bag of characters is still a bag: the shares of letters in it change little."),
        "stickbreaking": ("rises", "From the first key on, keys before the trained window now claim first."),
    },
}


class AsRun(Encoding):
    """An encoding in the layers of a BERT whose own table is still added to the embeddings."""

    def __init__(self, table, layer):
        super().__init__()
        self.table, self.layer = table, layer

    def at_input(self):
        return self.table

    def in_layers(self):
        return self.layer


def as_run(arm, settings, causal):
    """make_encoding(layer) of an arm as the report's code ran it: decay rates unwired, BERT's own table left in."""
    method, options = ARMS[arm]
    make_layer = encoding_maker(method, settings, causal, options | RAN.get(arm, {}))
    make_table = encoding_maker("learned", settings)

    def make(layer):
        encoding = make_layer(layer)
        if arm == "exposb":
            encoding.rotate.decay_rates.requires_grad_(False)
        return AsRun(make_table(layer), encoding)

    return make


def with_rows(measure):
    """`measure`, and the size of each row of a table in the first layer, the root of its mean square."""

    def each(model, settings):
        table = getattr(model.blocks[0].attention.encoding.embed, "table", None)
        rows = {} if table is None else {"rows": table.detach().square().mean(-1).sqrt().tolist()}
        return measure(model, settings) | rows

    return each


def sweep_of(objective: str, settings) -> Sweep:
    """The sweep of one objective, for models of these settings."""
    causal = objective == "causal"
    return Sweep(
        task="text" if causal else "masked",
        question="What do five encodings make of one model, at its training length and beyond?",
        measure=with_own(with_rows(measure_volume if causal else measure_masked)),
        unit="nats per character" if causal else "nats per masked character",
        contrast=(str(settings.lengths[0]), str(settings.lengths[-1])),
        predictions=PREDICTIONS[objective],
        headline="The report prints curves without numbers, seeds or held-out text, and concludes that RoPE, ExpoSB "
        "and RSE extrapolate where a learned table fails.",
        shows_not="What the report's own sizes, steps and text would give.",
        arms=ARMS | {f"{arm}_ran": (as_run(arm, settings, causal), {}) for arm in FIVE},
        facts=volume_facts,
        changes=settings.as_dict(),
    )


EXTRA = {
    f"report_{objective}{size}": sweep_of(objective, settings)
    for size, settings in SIZES.items()
    for objective in PREDICTIONS
}
