r"""The sweeps as data: what is trained and measured for each, and what was predicted.

    SWEEPS["flipflop"].predictions["rope"]        # ("rises", why), written before it was trained
    python -m posenc.lab.experiments sweep flipflop         # trains it, and writes results/flipflop.json

Chapter: How to measure position.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch

from posenc.lab.train import measures
from posenc.lab.train.measures import KINDS
from posenc.lab.train.tasks import TASKS
from posenc.methods import METHODS

# Written before the study ran: what theory or the papers say, and how large a rise from the training length to eight
# times that counts as one. "holds": by no more than TOLERANCE nats per character. "rises": by more.
TOLERANCE = 0.05
# fmt: off
PREDICTIONS = {
    "nope": ("rises", "Nothing tells the model how far away a key is, so eight times as many keys share one softmax "
        "that was trained with 64: attention thins out and the loss rises. The causal mask tells order at depth, so it "
        "should train."),
    "sinusoidal": ("rises", "Positions beyond 63 add vectors to the embeddings that training never showed, so the loss "
        "rises, although the paper hoped that the sinusoid may extrapolate. Cutting attention does not help: the "
        "vectors remain unseen."),
    "learned": ("rises", "Rows beyond 63 never got a gradient: they hold what they were drawn as, so the loss rises. "
        "Cutting attention does not help, since the rows are added to the targets themselves."),
    "shaw": ("holds", "Beyond the clip of 16 every offset reads the same row, so no row is unseen at any length. Only "
        "the number of keys is new, and near keys have rows of their own to win by."),
    "transformer_xl": ("rises", "Its sinusoid of the distance enters through a learned matrix, which was fitted to "
        "distances up to 63 only."),
    "t5": ("holds", "Distances from 64 on read buckets that training hardly showed or never, but all distances from "
        "128 on read one number, which started near 0; trained biases of near keys stand above it."),
    "kerple": ("holds", "A logarithmic penalty: every distance has one, and distant keys lose to near ones, as the "
        "paper says."),
    "fire": ("holds", "The network only sees shares from 0 to 1, all of which training showed, as the paper says."),
    "rope": ("rises", "Distances beyond 63 turn the slow lane pairs by angles that training never showed, so the loss "
        "rises. Cutting attention to 64 keys takes those distances away, and the loss stays."),
    "alibi": ("holds", "Distant keys are penalized ever more, so the loss holds at eight times the length, as the "
        "paper says. If it is the same with attention cut, then it holds because what is far is ignored."),
    "stickbreaking": ("holds", "Near keys take their share first and no position is ever unseen, so the loss holds or "
        "improves with length, as the paper says. If it is the same with attention cut, then nothing far away is "
        "used."),
    "exposb": ("rises", "Its angles are RoPE's, unseen beyond 63. The factor on logits lies between 0.7 and 1 and "
        "penalizes no key."),
    "rse": ("rises", "The stick is broken from the first key on: with eight times as many keys in front, the near ones "
        "are asked last, and training showed no reason to let the early ones pass."),
    "cope": ("rises", "Gates of eight times as many keys add up, so far keys stand at rows near the clamp that "
        "training hardly reached, and nothing makes them weaker: the softmax spreads over them."),
    "fox": ("holds", "Gates that close a little at each token discount what is far, as slopes do, so the loss holds, "
        "as the paper says. If it is the same with attention cut, then what is far is forgotten."),
    "inkling": ("rises", "What lies beyond its curves has bias 0, whatever near keys have: with eight times as many "
        "keys the far ones share the softmax, as without position."),
    "sink": ("rises", "It is NoPE that may look at nothing. What was put on the sink beside 64 keys does not grow with "
        "eight times as many."),
}
# fmt: on


class Sweep(NamedTuple):
    r"""One experiment: a task, what each trained model is asked, and what was predicted.

    measure(model, settings) returns {"scores": {column: number}, ...}, all of it kept for each seed. A prediction for
    an arm is (claim, why) on the change of `unit` from one column to another, `contrast`; or, with `against`, from
    that arm to this one in the column `contrast[1]`, where None is the training length. arms: {name: (method, its
    options)}, default the methods with a prediction. changes: what it changes in the preset's settings.
    """

    task: str
    question: str
    measure: Callable
    contrast: tuple
    predictions: dict
    headline: str  # the paper's, cited
    shows_not: str
    unit: str = "share of wrong answers"
    tolerance: float = TOLERANCE
    against: str | None = None
    arms: dict | None = None
    facts: Callable = lambda settings: {}  # what stands once in the results
    changes: dict = {}


def arms_of(sweep):
    """The arms of a sweep: its own, or the methods that it has a prediction for or compares with."""
    return list(sweep.arms or [name for name in METHODS if name in sweep.predictions or name == sweep.against])


def made(sweep: Sweep, arm: str) -> tuple[str, dict]:
    """(method, its options) of an arm."""
    return (sweep.arms or {}).get(arm, (arm, {}))


def measure_text(model, settings):
    losses = measures.short_long(model, settings) | measures.unfair_losses(model, settings)
    del losses["lengths"]
    return losses | {
        "distance_and_keys": measures.distance_and_keys(model, settings)["loss"],
        "context_cut": measures.context_cut(model, settings)["loss"],
        "by_position": measures.loss_by_position(model, settings)["loss"],
    }


def text_facts(settings):
    facts = {"targets": settings.targets, "length": settings.length, "reach": settings.length - 1}
    longest = settings.lengths[-1]
    return {
        "lengths": settings.lengths,
        "target_characters": settings.windows * settings.targets,
        "definitions": {kind: text.format(**facts) for kind, text in KINDS.items()},
        "gaps": measures.unseen_gaps(settings),
        "cuts": measures.key_cuts(settings),
        "until": [int(part[-1]) for part in torch.arange(longest).tensor_split(32)],
    }


def measure_volume(model, settings):
    losses = measures.short_long(model, settings)
    scores = {str(length): loss for length, loss in zip(losses.pop("lengths"), losses["whole"])}
    return {"scores": scores} | losses


def volume_facts(settings):
    return {"lengths": settings.lengths, "tests": {str(n): f"context {n}" for n in settings.lengths}}


def with_own(measure):
    """`measure`, and {"own": {parameter: a row a layer}} of an encoding that learns a few numbers a layer."""

    def each(model, settings):
        layers = [dict(block.attention.encoding.named_parameters()) for block in model.blocks]
        own = {n: [layer[n].tolist() for layer in layers] for n, value in layers[0].items() if value.numel() <= 16}
        return measure(model, settings) | ({"own": own} if own else {})

    return each


def measure_masked(model, settings):
    losses = measures.masked_losses(model, settings)
    scores = {str(length): loss for length, loss in zip(losses.pop("lengths"), losses.pop("whole"))}
    return {"scores": scores} | losses


CUT = "longer 4x, cut"


def puzzle(task):
    """Of a sweep over a puzzle: what it measures, the shares of wrong answers on its tests and on CUT, and tells."""

    def measure(model, settings):
        longest = measures.fixed_batch(task, settings, TASKS[task].tests(settings.length)["longer 4x"])
        scores = measures.task_errors(model, task, settings)
        return {"scores": scores | {CUT: measures.share_wrong(model, longest, cut=settings.length)}}

    words = {CUT: "As longer 4x, each query seeing only the nearest keys, as many as in training."}
    return {"task": task, "measure": measure, "facts": lambda settings: {"tests": TASKS[task].words | words}}


def measure_needle(model, settings):
    errors = measures.needle_errors(model, settings)
    far = [distance >= settings.length for distance in errors["distances"]]

    def mean(row, side):
        values = [value for value, is_far in zip(row, far) if value is not None and is_far == side]
        return sum(values) / len(values)

    first, last, cut = errors["grid"][0], errors["grid"][-1], errors["cut_row"]
    scores = {
        "in": mean(first, False),
        "near": mean(last, False),
        "far": mean(last, True),
        "near, cut": mean(cut, False),
        "far, cut": mean(cut, True),
    }
    return {"scores": scores, "grid": errors["grid"], "cut_row": cut}


def needle_facts(settings):
    reach, longest = settings.length - 6, settings.lengths[-1]
    tests = {
        "in": f"context {settings.length}, the needle within the trained distance, {reach} tokens",
        "near": f"context {longest}, the needle within the trained distance",
        "far": f"context {longest}, the needle farther back than any in training",
        "near, cut": f"as near, attention cut to {settings.length} keys",
        "far, cut": f"as far, attention cut to {settings.length} keys",
    }
    return {"tests": tests, "contexts": settings.lengths, "distances": measures.needle_distances(settings)}


def measure_recall(model, settings):
    scores = measures.task_errors(model, "recall", settings)
    return {"scores": scores, "by_pairs": [measures.share_wrong(model, batch) for batch in recall_batches(settings)]}


def recall_pairs(settings):
    """Numbers of pairs to test with; the third is the most of training."""
    most = TASKS["recall"].tests(settings.length)["more 1x"]["pairs"]
    return [most // 4, most // 2, most, most * 3 // 2, *(n * most for n in (2, 3, 4))]


def recall_batches(settings):
    for pairs in recall_pairs(settings):
        length = max(settings.length, 4 * pairs)
        yield measures.fixed_batch("recall", settings, {"length": length, "pairs": pairs}, 128)


# ExpoSB and RSE taken apart. The names of the arms are those of the parts that are switched on.
BARE = {"gain": False, "band": False, "decay": False}
PARTS = {
    "nope": ("nope", {}),
    "rope": ("rope", {}),
    "exposb": ("exposb", {}),
    "exposb_gain": ("exposb", BARE | {"gain": True}),
    "exposb_band": ("exposb", BARE | {"band": True}),
    "exposb_pairs": ("exposb", BARE | {"band": True, "per_pair": True}),
    "exposb_logits": ("exposb", BARE | {"decay": True}),
    "exposb_weights": ("exposb", BARE | {"decay": True, "on": "weights"}),
    "exposb_log": ("exposb", BARE | {"decay": True, "on": "log"}),
    "rse": ("rse", {}),
    "rse_recent": ("rse", {"order": "recent"}),
    "rse_softmax": ("rse", {"stick": False}),
    "rse_penalty": ("rse", {"rotation": False, "stick": False}),
    "rse_stick": ("rse", {"rotation": False, "penalty": False}),
    "stickbreaking": ("stickbreaking", {}),
}

VOLUMES = (0.0, 0.03, 96**-0.5, 0.3, 1.0, 3.0, 10.0)

# fmt: off
SWEEPS = {
    "train_short_test_long": Sweep(
        task="text",
        question="What does a context longer than the training window do to the loss on the same characters?",
        measure=measure_text,
        unit="nats per character",
        contrast=(),
        predictions=PREDICTIONS,
        headline="ALiBi (arXiv 2108.12409): trained at 1024, it matches a sinusoidal model trained at 2048 on 2048 "
        "tokens. Stick-breaking (arXiv 2410.17980): trained at 2048, perplexity still improves to 16384.",
        shows_not="That anybody uses a far context: models of so short windows take nothing from it, so what holds may "
        "only ignore.",
        facts=text_facts,
    ),
    "masked": Sweep(
        task="masked",
        question="Does position help to fill in hidden characters, where no causal mask gives order away?",
        measure=measure_masked,
        unit="nats per masked character",
        contrast=(None, None),
        against="nope",
        predictions={
            "sinusoidal": ("falls", "Without position the encoder sees a bag of characters. Any position beats that."),
            "learned": ("falls", "As the sinusoid: each place has a vector, here one that training chooses."),
            "shaw": ("falls", "A vector for each of the nearest offsets, sides told apart: what filling in asks for."),
            "transformer_xl": ("falls", "Distance with its sign enters by two terms; neighbors and sides are told."),
            "t5": ("falls", "One number for each near offset, sides told apart. It steers without looking at content."),
            "kerple": ("falls", "It tells how far a neighbor is but not on which side, as ALiBi's symmetric form."),
            "rope": ("falls", "It tells the distance and the side of each neighbor, all that a bag lacks."),
            "alibi": ("falls", "The symmetric form tells how far a neighbor is but not on which side; half of the "
                "order should still beat none."),
            "stickbreaking": ("falls", "Breaking the stick from the first key on favors early keys, which is some "
                "order. It names no neighbor, so it should gain less than the others."),
            "exposb": ("falls", "It rotates as RoPE does, and its factors are near 1 at these lengths."),
            "rse": ("falls", "It rotates, which tells neighbors and sides; the stick adds an order."),
            "inkling": ("falls", "Its curves count back from the query: what stands behind is told by distance, what "
                "follows is not."),
            "sink": ("stays", "Beside NoPE it only lets a token look at nothing, which tells no order."),
        },
        headline="BERT (arXiv 1810.04805) trains with this rule and adds learned positions; its paper has no arm "
        "without them.",
        shows_not="What a long training gives: at this budget the models mostly learn letter statistics of neighbors.",
        facts=lambda settings: {
            "tests": {str(n): f"context {n}, the characters that count in its middle" for n in settings.lengths}
        },
    ),
    "needle": Sweep(
        task="needle",
        question="Is a needle found in a longer context, near and far, and does cutting the attention help or hurt?",
        measure=measure_needle,
        contrast=("in", "far"),
        predictions={
            "nope": ("rises", "The softmax spreads over eight times as many keys, against which it has only content."),
            "sinusoidal": ("rises", "Every token of the longer context stands at a position never seen."),
            "learned": ("rises", "Every token of the longer context adds a row that never got a gradient."),
            "shaw": ("holds", "All offsets beyond the clip are one, in training too: a far needle looks like a nearer "
                "one."),
            "transformer_xl": ("rises", "The needle stands at a distance that its matrix was never fitted to."),
            "t5": ("rises", "The farthest buckets were never trained, and eight times as many keys share the softmax."),
            "kerple": ("rises", "The penalty grows slowly, but so do the keys, and each costs the needle a share."),
            "fire": ("rises", "Its shares are seen, but keys eight times as many stand between needle and question."),
            "rope": ("rises", "The needle stands at a distance never seen."),
            "alibi": ("rises", "The penalty on a far key exceeds what its content can bring back."),
            "stickbreaking": ("rises", "Keys nearer than the needle each take a little of the stick; over hundreds of "
                "them it adds up."),
            "exposb": ("rises", "The needle stands at a distance never seen, as with RoPE."),
            "rse": ("rises", "The needle is penalized by its distance, which is also new to the rotation."),
            "cope": ("rises", "Filler that counts pushes the needle to the clamp; filler that doesn't leaves it "
                "content alone."),
            "fox": ("rises", "A gate that stays open for the needle stays open for all filler, and then keys share the "
                "softmax."),
            "inkling": ("rises", "Beyond its curves every key has bias 0: it has only content there, as NoPE."),
            "sink": ("rises", "It has only content, and eight times as many keys share the softmax."),
        },
        headline="RULER (arXiv 2404.06654): most long-context models fall well short of their claimed length on "
        "retrieval that goes beyond the plain needle.",
        shows_not="Language: filler, keys and values are single tokens that share nothing with one another.",
        facts=needle_facts,
    ),
    "flipflop": Sweep(
        question="Is the last written bit still found when nearly everything after it is to be ignored?",
        **puzzle("flipflop"),
        contrast=("in", "sparser"),
        predictions={
            "nope": ("rises", "It has no way to prefer the last write over an earlier one but by depth."),
            "sinusoidal": ("rises", "The last write stands farther back than usual; absolute positions glitch there."),
            "learned": ("rises", "As the sinusoid: the paper on CoPE reports most errors for absolute positions."),
            "shaw": ("rises", "Beyond its clip all writes look equally far, so the last one is not told from others."),
            "transformer_xl": ("rises", "It tells distances, but must learn that nearer writes win at each of them."),
            "t5": ("rises", "Far buckets are shared by many offsets, so two far writes may look equally far."),
            "kerple": ("rises", "The penalty prefers near keys, ignored ones too, though a far write loses less than "
                "under ALiBi."),
            "fire": ("rises", "Its shares are seen, but two far writes differ by a small share."),
            "rope": ("rises", "The paper on CoPE reports it: good in distribution, glitches when writes are sparse."),
            "alibi": ("rises", "The penalty prefers near keys, ignored ones too, over a far write."),
            "stickbreaking": ("holds", "Ignored keys need not take anything, then the last write takes all."),
            "exposb": ("rises", "As RoPE: glitches when the last write stands at an unusual distance."),
            "rse": ("rises", "Earlier writes are asked before the last one, and only the penalty speaks for it."),
            "cope": ("holds", "Ignored tokens can get closed gates, so the last write stands at 1 wherever it lies."),
            "fox": ("holds", "A write can close the gate on all before it: then the last write is all that is left."),
            "inkling": ("rises", "Two far writes have the same bias, 0, so the last is not told from an earlier one."),
            "sink": ("rises", "Looking at nothing tells no write from another."),
        },
        headline="CoPE (arXiv 2405.18719), error in / out of distribution: absolute 6.8% / 21.7%, RoPE 1.8% / 20.3%, "
        "CoPE 0% / 4.9%.",
        shows_not="The paper's scale: its sequences are eight times as long and its models larger.",
    ),
    "selective_copy": Sweep(
        question="Are scattered letters copied when the blanks between them are more than in training?",
        **puzzle("selective_copy"),
        contrast=("in", "sparser"),
        predictions={
            "nope": ("rises", "More keys share the softmax."),
            "sinusoidal": ("rises", "Answers stand at positions that training never showed."),
            "learned": ("rises", "Answers stand at positions whose rows never got a gradient."),
            "shaw": ("rises", "Beyond the clip it cannot tell which letter comes next in order."),
            "transformer_xl": ("rises", "The letters stand at distances that training never showed."),
            "t5": ("rises", "The letters stand at distances whose buckets training never or hardly showed."),
            "kerple": ("rises", "The letters stand farther back, and the penalty grows with distance, if slowly."),
            "fire": ("rises", "Every blank changes every letter's share of the row."),
            "rope": ("rises", "The letters stand at distances that training never showed."),
            "alibi": ("rises", "The letters stand farther back, and the penalty grows with distance."),
            "stickbreaking": ("holds", "Blanks need not take anything, so their number does not matter."),
            "exposb": ("rises", "The letters stand at distances that training never showed, as with RoPE."),
            "rse": ("rises", "The letters stand farther back: penalized, and at angles never seen."),
            "cope": ("holds", "Blanks can get closed gates: then letters are counted, and blanks do not matter."),
            "fox": ("rises", "Gates forget or keep what is old; which letter comes next they do not tell."),
            "inkling": ("rises", "Letters beyond its curves all have bias 0."),
            "sink": ("rises", "More keys share the softmax."),
        },
        headline="CoPE (arXiv 2405.18719), Tables 2 and 3: CoPE copies without an error in and out of distribution, "
        "absolute positions and RoPE do not.",
        shows_not="Which of position, distance and number of keys is to blame: they grow together here.",
    ),
    "counting": Sweep(
        question="Is the count since the last reset right when a sequence is four times as long as in training?",
        **puzzle("counting"),
        contrast=("in", "longer 4x"),
        predictions={
            "nope": ("rises", "Counting by an average over the context depends on how long the context is."),
            "sinusoidal": ("rises", "Positions beyond the training window are new."),
            "learned": ("rises", "Positions beyond the training window have rows that never got a gradient."),
            "shaw": ("holds", "What matters since the last reset is near, within the clip or shortly beyond."),
            "transformer_xl": ("rises", "Distances beyond the training window are new to its matrix."),
            "t5": ("holds", "What matters is near and has buckets of its own; what is far shares one."),
            "kerple": ("holds", "What is far is penalized, and what matters since the last reset is near."),
            "fire": ("rises", "A share of a row four times as long is another share for the same distance."),
            "rope": ("rises", "Distances beyond the training window are new, though few are needed."),
            "alibi": ("holds", "What is far is penalized, and what matters since the last reset is near."),
            "stickbreaking": ("holds", "The last reset takes what is left of the stick, whatever lies before it."),
            "exposb": ("rises", "Distances beyond the training window are new, as with RoPE."),
            "rse": ("rises", "All that lies before the last reset is asked first, and there is four times as much."),
            "cope": ("holds", "The gates of additions count them, and the last reset stands where the count says."),
            "fox": ("holds", "A reset closes the gate on all before it, so the length of that does not matter."),
            "inkling": ("holds", "What matters is within its curves, and what is beyond them has one bias."),
            "sink": ("rises", "Counting by an average over the context depends on how long the context is."),
        },
        headline="CoPE (arXiv 2405.18719), counting task: CoPE and relative positions count well in distribution, "
        "absolute positions worst.",
        shows_not="Counting beyond nine, or several counters at once.",
    ),
    "recall": Sweep(
        task="recall",
        question="How many pairs of key and value can be held in the context and looked up?",
        measure=measure_recall,
        contrast=("in", "more 2x"),
        predictions={
            "nope": ("rises", "A value must be joined to the key before it, which without position takes depth."),
            "sinusoidal": ("rises", "The second half of the pairs stands at positions never seen."),
            "learned": ("rises", "The second half of the pairs stands at rows that never got a gradient."),
            "shaw": ("rises", "The previous key is told by its own row, but more pairs share one softmax."),
            "transformer_xl": ("rises", "The pairs asked for stand at distances never seen."),
            "t5": ("rises", "The pairs asked for stand in buckets that training hardly showed."),
            "kerple": ("rises", "Pairs far back are penalized, and all are asked for."),
            "fire": ("rises", "The previous key is told by its share, and more pairs share one softmax."),
            "rope": ("rises", "The pairs asked for stand at distances never seen."),
            "alibi": ("rises", "Pairs far back are penalized, and all are asked for."),
            "stickbreaking": ("holds", "The key takes the stick by content, at any distance."),
            "exposb": ("rises", "The pairs asked for stand at distances never seen, as with RoPE."),
            "rse": ("rises", "The pairs asked for stand at distances never seen by its rotation."),
            "cope": ("rises", "Positions of the second half of the pairs lie at the clamp, and more pairs share one "
                "softmax."),
            "fox": ("rises", "Gates that close a little at each token cost the first pairs most, and all are asked "
                "for."),
            "inkling": ("rises", "The previous key is told by its own number, but more pairs share one softmax."),
            "sink": ("rises", "A value must be joined to the key before it, and looking at nothing does not help with "
                "that."),
        },
        headline="Arora et al. (arXiv 2312.04927): attention solves multi-query recall at any number of pairs that "
        "they train, convolutions and recurrences need width that grows with it.",
        shows_not="Recall of as many pairs as trained for in a longer context: here both grow together.",
        facts=lambda settings: {"pairs": recall_pairs(settings), "trained_pairs": recall_pairs(settings)[2]},
    ),
    "ablation_text": Sweep(
        task="text",
        question="Which part of ExpoSB and of RSE changes the loss, beside the rotation that both start from?",
        measure=with_own(measure_volume),
        unit="nats per character",
        contrast=(None, None),
        against="rope",
        tolerance=0.03,
        predictions={
            "nope": ("rises", "Without rotation and mask alone, order is told by depth only."),
            "exposb": ("stays", "Each part changes scores by a fifth or less, and the projections can undo that."),
            "exposb_gain": ("stays", "All queries and keys of the window grow by nearly the same fifth."),
            "exposb_band": ("stays", "Constant factors on lanes, which the projections can undo."),
            "exposb_pairs": ("stays", "The same, a pair at a time."),
            "exposb_logits": ("stays", "Within 64 tokens the factor is at least 0.9."),
            "exposb_weights": ("stays", "The farthest weight loses a tenth, and the row with it."),
            "exposb_log": ("stays", "The farthest key loses a tenth of a nat of its logit."),
            "rse": ("rises", "Early keys claim first, and what predicts the next character is near."),
            "rse_recent": ("falls", "Rotation and the order that language models gain from, as stick-breaking did."),
            "rse_softmax": ("stays", "A penalty of a hundredth of a nat a token, which training may move."),
            "rse_penalty": ("rises", "One slope for all heads tells distance worse than the rotation."),
            "rse_stick": ("rises", "The order of the stick is the only position, and it starts at the wrong end."),
            "stickbreaking": ("falls", "It did in the first sweep, by which this claim is no prediction but a check."),
        },
        headline="The report that defines ExpoSB and RSE names its training setup and prints no loss, seed or held-out "
        "text.",
        shows_not="What longer training or a wider model makes of the parts.",
        arms=PARTS,
        facts=volume_facts,
    ),
    "ablation_needle": Sweep(
        task="needle",
        question="Which part of ExpoSB and of RSE lets a needle be found beyond the training window?",
        measure=with_own(lambda model, settings: {"scores": measure_needle(model, settings)["scores"]}),
        contrast=("in", "far"),
        predictions={arm: ("rises", {
            "nope": "The softmax spreads over eight times as many keys.",
            "exposb": "Its angles are RoPE's, and no part of it was made for unseen ones.",
            "rse_recent": "Nearer keys are asked first and each takes a little.",
            "rse_penalty": "The penalty on a far key exceeds what its content brings back.",
            "rse_stick": "More keys are asked before the needle when it stands later in the context.",
            "stickbreaking": "As in the sweep over methods.",
        }.get(arm, "The needle stands at a distance that the rotation never showed.")) for arm in PARTS},
        headline="The report claims length extrapolation for RoPE, ExpoSB and RSE alike, and shows no test of it.",
        shows_not="Language: filler, keys and values are single tokens that share nothing with one another.",
        arms=PARTS,
        facts=needle_facts,
    ),
    "sinusoidal_volume": Sweep(
        task="text",
        question="How loud must the sinusoid be beside the embeddings?",
        measure=measure_volume,
        unit="nats per character",
        contrast=(None, None),
        against="0.0000",
        predictions={
            "0.0300": ("stays", "Far below the embeddings it is drowned: NoPE."),
            "0.1021": ("stays", "What embeddings of variance 1, multiplied by sqrt(C), leave of it: drowned, nearly "
                "NoPE."),
            "0.3000": ("falls", "A third of the embeddings' size is heard."),
            "1.0000": ("falls", "As loud as the embeddings, as the paper's scaling makes it."),
            "3.0000": ("falls", "Louder than the characters, which are still heard."),
            "10.0000": ("stays", "The characters are drowned: no better than NoPE, which at least reads them."),
        },
        headline="Attention is all you need (arXiv 1706.03762) multiplies embeddings by sqrt(C) and gives no reason.",
        shows_not="Longer training, in which embeddings may grow until the balance is right.",
        arms={f"{volume:.4f}": ("sinusoidal", {"volume": volume}) for volume in VOLUMES},
        facts=lambda settings: volume_facts(settings) | {"volumes": VOLUMES, "drowned": 96**-0.5},
    ),
}
# fmt: on
