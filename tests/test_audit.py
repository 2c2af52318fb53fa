"""The audit: each question has a subject that passes and one that fails, and the frozen verdicts come out again."""

import copy
import functools
import importlib.metadata
import math

import audit_libraries
import pytest
import torch
from torch import nn

import posenc
from posenc.audit import QUESTIONS, audit
from posenc.chapters.rope.exercises import masks_lanes, pairs_of_one_angles_of_other, reads_pairs_writes_halves
from posenc.lab.experiments import load_results
from posenc.rotate.rope import inv_freq, rotate

torch.set_num_threads(1)
W = inv_freq(16, dtype=torch.float64)


def options_of(name):
    return posenc.methods.sizes(name, num_heads=4, head_dim=16, length=64)


def method(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return posenc.make(name, **options_of(name))


@pytest.mark.parametrize("name", posenc.METHODS)
def test_every_method_gets_the_verdicts_that_its_chapter_claims(name):
    report = audit(method(name), name=name, like=name)
    assert report["same"].verdict == "holds" and report["same"].number == 0
    assert set(report.failures) == set(posenc.METHODS[name].fails), str(report)
    assert (report["norm"].verdict != "not asked") == ("rotate" in report.places)
    for finding in report.findings:
        assert finding.verdict in ("holds", "fails", "told", "not asked") and finding.words
        assert (finding.verdict == "told") == (finding.name == "distance" and finding.verdict != "not asked")
        if finding.verdict == "holds":
            assert not finding.example


@pytest.mark.parametrize("name, options", [("alibi", {"symmetric": True}), ("rse", {}), ("rope", {})], ids=str)
def test_without_a_causal_mask_time_is_not_asked_about(name, options):
    report = audit(posenc.make(name, **options_of(name) | options), causal=False)
    assert report["causality"].verdict == report["cache"].verdict == "not asked"
    assert report["relative"].verdict == report["weights"].verdict == "holds"


def turn(x, positions, w=W):
    """A right rotation by hand."""
    return rotate(x, positions, w)


def rope_attends(q, k, v, positions, causal):
    """A whole attention function."""
    queries = positions[-q.shape[2] :]
    return posenc.attention(q, k, v, posenc.rope.rope(16), pos_q=queries, pos_k=positions, causal=causal)


class Backward(torch.autograd.Function):
    """Code that reads pairs and writes halves, with a backward pass by hand; `right` undoes the reordering."""

    @staticmethod
    def forward(ctx, x, positions, right):
        ctx.save_for_backward(positions)
        ctx.right = right
        return reads_pairs_writes_halves(x, positions, W)

    @staticmethod
    def backward(ctx, grad):
        angles = ctx.saved_tensors[0][:, None] * W
        cos, sin = angles.cos(), angles.sin()
        if ctx.right:
            a, b = grad.chunk(2, -1)
            pairs = torch.stack((a * cos + b * sin, b * cos - a * sin), -1)
            return pairs.flatten(-2), None, None
        a, b = grad[..., 0::2], grad[..., 1::2]  # as printed: the order of the input, not of the output
        return torch.cat((a * cos + b * sin, b * cos - a * sin), -1), None, None


def documented(x, positions):
    """The shapes that a docstring names: cos and sin [T, D], which pairs [.., D/2] can't be multiplied by."""
    angles = positions[:, None] * W.repeat_interleave(2)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)


def positions_in_the_dtype_of_x(x, positions):
    return rotate(x, positions.to(x.dtype).double(), W)  # rounded: half precision itself is refused


def looks_ahead(x, positions):
    return turn(x, positions) / x.norm(dim=-1).max()  # of all tokens, later ones too


def counts_from_zero(x, positions):
    return turn(x, torch.arange(x.shape[2]))


def right_stick(scores, at):
    return posenc.stickbreaking.weigh(scores, at.visible, order="first")


def right_stick_of_the_nearest(scores, at):
    return posenc.stickbreaking.weigh(scores, at.visible)


def one_rest_a_block(scores, at, block=16):
    """A blocked kernel that updates the rest of the stick once for each block of keys."""
    beta = torch.sigmoid(scores).masked_fill(~at.visible, 0.0)
    rest, parts = torch.ones_like(beta[..., :1]), []
    for keys in beta.split(block, -1):
        parts.append(keys * rest)
        rest = (rest * (1 - parts[-1].sum(-1, keepdim=True))).clamp(min=1e-6)
    return torch.cat(parts, -1)


def ignores_the_mask(scores, at):
    return torch.softmax(scores, -1)


class Table(nn.Module):
    """A learned table; with `words` it says where it ends."""

    def __init__(self, words):
        super().__init__()
        self.words, self.table = words, nn.Embedding(64, 64)

    def forward(self, x, positions):
        if self.words and positions.max() >= 64:
            raise ValueError(f"position {positions.max()} is beyond the table's 64 rows")
        return x + self.table(positions.long())


def logarithm(pos_q, pos_k):
    return -(1 + (pos_q[:, None] - pos_k).abs().double()).log().expand(4, -1, -1)


def by_distance_table(pos_q, pos_k):
    distance = (pos_q[:, None] - pos_k).clamp(0).long()
    return nn.functional.embedding(distance, torch.zeros(64, 4, dtype=torch.float64)).permute(2, 0, 1)


def nan_from_distance_64(pos_q, pos_k):
    return torch.where(pos_q[:, None] - pos_k < 64, 0.0, math.nan).double().expand(4, -1, -1)


def window_of_16(pos_q, pos_k):
    return torch.where(pos_q[:, None] - pos_k < 16, 0.0, -math.inf).double().expand(4, -1, -1)


def clipped(pos_q, pos_k):
    return -(pos_q[:, None] - pos_k).clamp(0, 16).double().expand(4, -1, -1)


def one_for_queries_another_for_keys(q, k, at):
    return rotate(q, at.pos_q[:, None], W), rotate(k, at.pos_k[:, None], W, layout="half")


def quarter(pos_q, pos_k):
    """ALiBi of slope 1/4, rounded to bf16 as key times slope."""
    return (torch.tensor(0.25, dtype=torch.bfloat16) * pos_k).double().expand(4, len(pos_q), -1)


def looks_at_the_batch(x, positions):
    return turn(x, positions) / x.norm(dim=0).clamp(min=1e-3)  # a length across the sequences of a batch


def positions_of_the_first_row(q, k, at):
    return clipped(at.pos_q[0], at.pos_k[0])


def reward(pos_q, pos_k):
    """ALiBi with a plus."""
    return -posenc.alibi.bias(pos_q, pos_k, posenc.alibi.slopes(4).double())


LONGER_KEYS = posenc.Encoding(rotate=lambda q, k, at: (q, 1.1 * k))
CASES = {  # question: [(the one that passes, the broken one, place, what its finding says)]
    "shape": [(turn, documented, "rotate", "size of tensor"), (turn, lambda x, p: x[..., :4], "rotate", "returned")],
    "relative": [
        (turn, masks_lanes, "rotate", "moved by"),
        (clipped, quarter, "bias", "moved by 4088"),
        (clipped, lambda i, j: -(i[:, None] * j).double() / 50, "bias", "at home"),
    ],
    "norm": [
        (turn, masks_lanes, "rotate", "times as long"),
        (posenc.make("rope", head_dim=16), LONGER_KEYS, None, "a key at position"),
    ],
    "layout": [
        (turn, masks_lanes, "rotate", "lanes never mix: each is scaled, none turns"),
        (turn, pairs_of_one_angles_of_other, "rotate", "do not turn as one"),
        (turn, lambda x, p: turn(x, p) * torch.linspace(0.5, 1, 16), "rotate", "lanes (0, 1) get lengths"),
        (posenc.rope.rope(16), posenc.Encoding(rotate=one_for_queries_another_for_keys), None, "keys as half-split"),
    ],
    "gradient": [
        (lambda x, p: Backward.apply(x, p, True), lambda x, p: Backward.apply(x, p, False), "rotate", "backward says"),
        (turn, lambda x, p: turn(x.detach(), p), "rotate", "backward says 0.0000"),
        (clipped, lambda q, k, v, p, causal: v.detach(), "bias|attention", "backward says"),
    ],
    "precision": [(turn, positions_in_the_dtype_of_x, "rotate", "bf16 is first wrong at position 257")],
    "causality": [
        (turn, looks_ahead, "rotate", "the output of token"),
        (right_stick, ignores_the_mask, "weigh", "the output of token 0 moves"),
    ],
    "cache": [(turn, counts_from_zero, "rotate", "one token at a time, token 1 is off by")],
    "batch": [
        (turn, looks_at_the_batch, "rotate", "both at the same positions"),
        (posenc.alibi.alibi(4), posenc.Encoding(bias=positions_of_the_first_row), None, "each at positions of its own"),
        (Table(words=True), lambda x, p: x - x.mean(0), "embed", "off by"),
    ],
    "weights": [
        (right_stick, one_rest_a_block, "weigh", "its weights sum to"),
        (right_stick, ignores_the_mask, "weigh", "which it must not see"),
        (right_stick, lambda scores, at: scores.masked_fill(~at.visible, 0.0) / 64, "weigh", "a weight of -"),
    ],
    "distance": [  # asked with the claim that distance is a penalty
        (logarithm, reward, "bias", "head 0: a key 62 tokens away gets"),
        (window_of_16, lambda i, j: 0 * clipped(i, j), "bias", "weighs all distances alike"),
        (right_stick_of_the_nearest, right_stick, "weigh", "a farther key gets more"),
        (posenc.kerple.kerple(4), posenc.t5.t5(4), None, "a farther key gets more"),
    ],
    "finite": [
        (Table(words=True), Table(words=False), "embed", "index out of range"),
        (logarithm, by_distance_table, "bias", "it refuses distance 127 in words that name no limit"),
        (logarithm, nan_from_distance_64, "bias", "keys up to distance 127"),
    ],
    "unseen": [
        (clipped, logarithm, "bias", "trained on -4.16 to 0.00"),
        (window_of_16, logarithm, "bias", "leave the range of training"),
        (lambda x, p: turn(x, p, W[:2]), turn, "rotate", "8 of 16 lanes are turned by angles not trained on"),
        (posenc.t5.t5(4, num_buckets=8, max_distance=32), posenc.t5.t5(4), None, "never reached"),
    ],
}
assert list(CASES) == list(QUESTIONS)  # every question is tried
TRIALS = [(question, index) for question, cases in CASES.items() for index in range(len(cases))]


def bound(function):
    """Variants of the RoPE chapter take their frequencies as a third argument."""
    known = (masks_lanes, pairs_of_one_angles_of_other, reads_pairs_writes_halves)
    return (lambda x, positions: function(x, positions, W)) if function in known else function


@pytest.mark.parametrize("question, index", TRIALS)
def test_a_question_tells_right_from_broken(question, index):
    right, broken, place, words = CASES[question][index]
    places = place.split("|") if place else [None]
    claims = {"decays": question == "distance"}
    good = audit(right, places[0], questions=[question], **claims)[question]
    assert good.verdict == "holds", good
    bad = audit(bound(broken), places[-1], questions=[question], **claims)[question]
    assert bad.verdict == "fails" and words in f"{bad.words}; {bad.example}", bad


PARTIAL = posenc.make("rope", head_dim=16, rotary_dim=8)
T5 = posenc.t5.t5(4)


def penalty(slopes):
    return lambda i, j: -slopes.double()[:, None, None] * (i[:, None] - j)


def table_bias(by):
    return lambda i, j: T5.bias.table.detach()[:, posenc.t5.bucket(j - i[:, None] - by, bidirectional=False)].double()


class Buckets(nn.Module):
    """T5's table, at zero, and its buckets or others."""

    def __init__(self, by):
        super().__init__()
        self.table, self.by = nn.Parameter(torch.zeros(4, 32)), by

    def forward(self, i, j):
        return self.table[:, posenc.t5.bucket(j - i[:, None] - self.by, bidirectional=False)]


ALIBI = {"num_heads": 12, "like": "alibi"}
SAME = {  # (the one that is the same, one that is not, place, options, what is said of the latter)
    "exponent": (lambda x, p: turn(x, p, W[::2]), lambda x, p: turn(x, p, W[:4]), "rotate", {"like": PARTIAL}, "every"),
    "sign": (turn, lambda x, p: turn(x, -p), "rotate", {"like": "rope"}, "first query at 1, key at 0, head 0: 0."),
    "layout": (turn, lambda x, p: rotate(x, p, W, layout="half"), "rotate", {"like": turn}, "that of the other"),
    "slopes": (penalty(posenc.alibi.slopes(12)), penalty(2.0 ** -(torch.arange(1, 13) / 1.5)), "bias", ALIBI, "alibi"),
    "buckets": (table_bias(0), table_bias(1), "bias", {"like": T5}, "every head"),
    "zero numbers": (Buckets(0), Buckets(1), "bias", {"like": "t5"}, "that of t5"),
    "far": (table_bias(0), lambda i, j: table_bias(0)(i.clamp(max=4000), j), "bias", {"like": T5}, "query at 4097"),
}


@pytest.mark.parametrize("case", SAME)
def test_the_same_is_told_from_what_is_nearly_so(case):
    right, wrong, place, options, words = SAME[case]
    good, bad = (audit(code, place, questions=[], **options)["same"] for code in (right, wrong))
    assert good.verdict == "holds" and good.number < 1e-6, good
    assert bad.verdict == "fails" and bad.number > 1e-3 and words in f"{bad.words}; {bad.example}", bad


def test_outputs_are_compared_where_weights_are_the_same_or_not_given():
    torch.manual_seed(0)
    shaw = posenc.shaw.shaw(16, clip=3, values=True)
    other = copy.deepcopy(shaw)
    other.gather.values.data += 1.0
    finding = audit(shaw, like=other, questions=[])["same"]
    assert finding.verdict == "fails" and "an output" in finding.words
    assert audit(rope_attends, "attention", like=posenc.rope.rope(16), questions=[])["same"].verdict == "holds"
    finding = audit(rope_attends, "attention", like=posenc.rope.rope(16, base=100.0), questions=[])["same"]
    assert finding.verdict == "fails" and "an output" in finding.words


def test_a_comparison_goes_as_far_as_both_go():
    table = Table(words=True)
    finding = audit(table, "embed", like=copy.deepcopy(table), questions=[])["same"]
    assert finding.verdict == "holds" and "up to position 63" in finding.words


LAYOUTS = [
    (turn, "interleaved"),
    (lambda x, p: rotate(x, p, W, layout="half"), "half-split"),
    (lambda x, p: rotate(x, p, W[:3]), "interleaved, 6 of 16 lanes"),
    (reads_pairs_writes_halves, "reads interleaved, writes half-split: harmless while queries and keys share it"),
]


@pytest.mark.parametrize("code, says", LAYOUTS, ids=range(len(LAYOUTS)))
def test_layouts_have_names(code, says):
    finding = audit(bound(code), "rotate", questions=["layout"])["layout"]
    assert finding.verdict == "holds" and finding.words == says


def test_what_gathers_is_asked_by_its_outputs():
    def turns(weights, v, at, back=1):
        return rotate(weights.to(v.dtype) @ rotate(v, at.pos_k[:, None], W), -back * at.pos_q[:, None], W)

    assert not audit(turns, "gather").failures
    finding = audit(functools.partial(turns, back=0), "gather", questions=["relative"])["relative"]
    assert finding.verdict == "fails" and "output" in finding.example
    assert audit(posenc.make("rope", head_dim=16, values=True)).failures == ("unseen",)


def test_a_whole_attention_function():
    report = audit(rope_attends, "attention")
    assert not report.failures and report.places == ("attention",)
    assert report["cache"].verdict == report["relative"].verdict == report["weights"].verdict == "holds"

    def doubles(q, k, v, positions, causal):
        return 2 * rope_attends(q, k, v, positions, causal)

    assert audit(doubles, "attention", questions=["weights"])["weights"].number == pytest.approx(2)

    def square(q, k, v, positions, causal):
        if q.shape[2] != k.shape[2]:
            raise ValueError("queries and keys must be as many")
        return rope_attends(q, k, v, positions, causal)

    finding = audit(square, "attention", questions=["cache"])["cache"]
    assert finding.verdict == "not asked" and "must be as many" in finding.words


def test_without_a_claim_the_report_tells_which_keys_win_and_blames_nobody():
    for subject, place, words in (
        (posenc.alibi.alibi(4), None, "the nearest keys win in every head"),
        (reward, "bias", "the farthest keys win in every head"),
        (posenc.Encoding(), None, "neither the nearest keys win nor the farthest"),
    ):
        report = audit(subject, place, questions=["distance"])
        assert report["distance"].verdict == "told" and words in report["distance"].words
        assert not report.failures


def test_the_report_reads_as_text_and_is_the_same_twice():
    reports = [audit(bound(masks_lanes), "rotate", name="masked") for _ in range(2)]
    text = str(reports[0])
    assert text == str(reports[1]) and "masked (at rotate): 8 holds, 4 fails" in text
    assert all(f" {name} " in text for name in QUESTIONS)
    with pytest.raises(ValueError, match="'norms'.*'norm'"):
        reports[0]["norms"]


def raises_at_home(x, positions):
    if len(positions) > 5:
        raise RuntimeError("no more than five")
    return x


def test_what_the_subject_raises_is_a_finding():
    for subject in ((posenc.learned.learned(8, 64),), (raises_at_home, "rotate")):
        failed = [finding for finding in audit(*subject).findings if finding.verdict == "fails"]
        assert any("Error: " in f"{finding.words}; {finding.example}" for finding in failed)


def test_the_subject_is_left_as_it_was():
    table = Table(words=True)
    before = table.table.weight.detach().clone()
    audit(table, "embed")
    assert torch.equal(table.table.weight, before) and table.table.weight.dtype == torch.float32
    assert table.table.weight.grad is None


def test_cost_counts():
    plain, turned, table = (audit(method(name), questions=["shape"]).cost for name in ("nope", "rope", "learned"))
    assert (plain["parameters"], plain["written_ratio"]) == (0, 1.0)
    assert turned["parameters"] == 0 and 1.1 < turned["written_ratio"] < 2
    assert table["parameters"] == 64 * 64
    assert "counted, not timed" in turned["words"]


def test_a_longer_trained_length_sees_more_or_less():
    """An audit answers for the settings it is given."""
    assert audit(posenc.t5.t5(4), trained_length=256, questions=["unseen"])["unseen"].verdict == "holds"
    gain = posenc.exposb.exposb(16, 4, band=False, decay=False)
    assert audit(gain, questions=["relative"])["relative"].verdict == "fails"
    assert audit(gain, far=16, tolerance=0.02, questions=["relative"])["relative"].verdict == "holds"


WRONG = [
    (3, {"place": "rotate"}, "subject=3.*callable"),
    (turn, {}, "place=None"),
    (turn, {"place": "rotation"}, "place='rotation'.*'rotate'"),
    (posenc.Encoding(), {"place": "rotate"}, "place='rotate'.*None"),
    (turn, {"place": "rotate", "like": "rop"}, "like='rop'.*'rope'"),
    (turn, {"place": "rotate", "like": "mrope"}, "like='mrope' has axes=3"),
    (clipped, {"place": "bias", "like": "t5"}, "like='t5' learns.*Encoding"),
    (posenc.Encoding(), {"like": turn}, "like.*Encoding"),
    (posenc.alibi.alibi(4), {"causal": False}, "causal=False"),
    (turn, {"place": "rotate", "questions": ["norms"]}, "questions='norms'.*'norm'"),
    (turn, {"place": "rotate", "head_dim": 7}, "head_dim=7"),
]


def test_bad_input_is_named():
    for subject, options, words in WRONG:
        with pytest.raises((TypeError, ValueError), match=words):
            audit(subject, **options)


FROZEN = load_results("audit")


def test_the_frozen_table_is_of_these_versions_and_subjects():
    assert FROZEN["libraries"] == {name: importlib.metadata.version(name) for name in audit_libraries.LIBRARIES}
    assert list(FROZEN["subjects"]) == list(audit_libraries.SUBJECTS)
    assert FROZEN["questions"] == QUESTIONS and FROZEN["definition"] == audit_libraries.__doc__.split("\n\n")[2]


@pytest.mark.weekly
@pytest.mark.parametrize("key", audit_libraries.SUBJECTS)
def test_other_libraries_get_the_frozen_verdicts(key):
    report, frozen = audit_libraries.report_on(key), FROZEN["subjects"][key]
    assert report.verdicts == frozen["verdicts"], str(report)
    assert report["layout"].words == frozen["words"]["layout"]
    if report["precision"].verdict == "fails":  # where it first goes wrong
        assert report["precision"].example == frozen["examples"]["precision"]
