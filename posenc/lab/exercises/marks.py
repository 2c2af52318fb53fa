r"""What an exercise asks of a student in minutes, and what an answer is worth between all and nothing.

Minutes and difficulty are an author's estimate; no class was timed.
"""

from typing import NamedTuple

from posenc.lab.exercises.exercise import Exercise
from posenc.lab.exercises.variants import PLAIN

#: Of the points of an exercise, for an answer that makes one named mistake and no other.
SHARE = 0.5
#: Named mistakes that leave nothing of what the exercise is about and get no share: {exercise: how they begin}.
NO_SHARE = {
    "alibi.slopes": ("every head has the same slope",),
    "alibi.window": ("1/m does not depend on the share",),
    "comrope.skew": ("the diagonal is 0, but",),
    "comrope.rotation": ("this is the exponent", "torch.exp takes the exponential of each entry"),
    "comrope.commutator_error": ("* multiplies entry by entry",),
    "cope.positions": ("every key counts 1", "the logits are summed"),
    "cope.cope_scores": ("every gate is open", "q.k is missing", "the bias is missing"),
    "cope.sentence_logits": ("this counts words", "this counts tokens"),
    "exposb.fade_log": ("this is the report's form",),
    "fox.alibi_gate": ("this is the slope",),
    "gradients.rotation_backward": ("the gradient is handed on unturned",),
    "one_model.project": ("the position is missing",),
    "one_model.became": ("the mean alone decides nothing",),
    "relative.shift": ("nothing has moved", "it transposes"),
    "rope.rotate": ("the even and the odd lanes are masked",),
    "rope2d.rotate_axes": ("the sine is missing",),
    "rse.stick": ("this is the softmax",),
    "rse.by_rate": ("this is the softmax's",),
    "scaling.ntk": ("this is linear scaling",),
    "scaling.yarn": ("these are NTK's frequencies",),
    "sinusoidal.embed": ("the encoding is missing",),
    "stickbreaking.stick": ("this is the softmax",),
    "stickbreaking.log_weights": ("this is the logarithm of the softmax",),
    "stickbreaking.weigh": ("this is the softmax",),
    "stickbreaking.jacobian": ("this is the softmax's Jacobian",),
}
#: Share of the points -> what is there, for answers on paper, which a person grades.
RUBRIC = {
    1: "the claim, each step with its reason, and where the assumption enters that the exercise is about",
    0.75: "the steps are right, one reason is missing or only asserted",
    0.5: "the right idea, in words or in one example, and no argument for the general case",
    0.25: "a true statement that does not lead there",
    0: "the opposite sign or direction, without a step that could be checked",
}


class Effort(NamedTuple):
    """How hard an exercise is, in a word, and the minutes that it takes."""

    difficulty: str
    minutes: int


EASY, MEDIUM, HARD = "easy", "medium", "hard"
#: {lab: {exercise: (difficulty, minutes)}}; "paper" is what is answered in prose.
EFFORT = {
    "sinusoidal": {
        "table": (EASY, 7),
        "rotation": (MEDIUM, 8),
        "embed": (EASY, 4),
        "terms": (MEDIUM, 7),
        "paper": (MEDIUM, 30),
    },
    "learned": {
        "lookup": (EASY, 5),
        "stretch": (HARD, 12),
        "count": (EASY, 4),
        "fold": (MEDIUM, 7),
        "paper": (EASY, 15),
    },
    "relative": {"shaw_term": (MEDIUM, 12), "shift": (HARD, 12), "bucket": (HARD, 15), "paper": (EASY, 10)},
    "rope": {
        "inv_freq": (EASY, 2),
        "rotate": (MEDIUM, 7),
        "rotate_half": (MEDIUM, 5),
        "permutation": (EASY, 4),
        "shift_error": (MEDIUM, 5),
        "paper": (MEDIUM, 35),
    },
    "alibi": {"slopes": (MEDIUM, 12), "bias": (EASY, 5), "window": (MEDIUM, 8), "paper": (EASY, 10)},
    "stickbreaking": {
        "stick": (EASY, 6),
        "log_weights": (MEDIUM, 8),
        "weigh": (MEDIUM, 8),
        "jacobian": (HARD, 10),
        "paper": (HARD, 30),
    },
    "cope": {
        "positions": (MEDIUM, 8),
        "lookup": (MEDIUM, 10),
        "cope_scores": (MEDIUM, 7),
        "sentence_logits": (EASY, 5),
        "paper": (MEDIUM, 25),
    },
    "fox": {
        "log_forget": (EASY, 6),
        "decay": (MEDIUM, 10),
        "alibi_gate": (EASY, 4),
        "next_decay": (HARD, 12),
        "paper": (HARD, 35),
    },
    "scaling": {
        "frozen_angles": (EASY, 6),
        "linear": (EASY, 2),
        "ntk": (MEDIUM, 5),
        "pair_of_turns": (MEDIUM, 5),
        "ramp": (MEDIUM, 7),
        "yarn": (MEDIUM, 7),
        "paper": (HARD, 40),
    },
    "rope2d": {
        "axial_freqs": (MEDIUM, 8),
        "angles": (EASY, 5),
        "rotate_axes": (MEDIUM, 8),
        "positions_for": (HARD, 14),
        "paper": (HARD, 35),
    },
    "comrope": {
        "skew": (EASY, 2),
        "rotation": (MEDIUM, 7),
        "commutator_error": (MEDIUM, 7),
        "ap_generators": (HARD, 10),
        "ld_generators": (HARD, 9),
        "paper": (HARD, 35),
    },
    "exposb": {
        "lane_filter": (MEDIUM, 9),
        "fade_logits": (EASY, 4),
        "fade_log": (MEDIUM, 6),
        "hazard_weights": (HARD, 11),
        "paper": (EASY, 10),
    },
    "rse": {
        "penalize": (EASY, 4),
        "stick": (EASY, 7),
        "by_rate": (HARD, 14),
        "peak": (MEDIUM, 9),
        "paper": (MEDIUM, 20),
    },
    "kernels": {
        "unit_rows": (EASY, 7),
        "turn_halves": (MEDIUM, 11),
        "online_softmax": (MEDIUM, 12),
        "attend": (HARD, 15),
        "break_stick": (HARD, 15),
        "tile_kind": (EASY, 5),
        "paper": (HARD, 40),
    },
    "find_the_bug": {"faults": (HARD, 60), "paper": (MEDIUM, 15)},
    "pretrained": {
        "unfinished": (EASY, 5),
        "weight_by_distance": (MEDIUM, 8),
        "pair_parts": (MEDIUM, 8),
        "with_gap": (EASY, 6),
        "paper": (MEDIUM, 8),
    },
    "one_model": {
        "project": (EASY, 4),
        "never_trained": (MEDIUM, 6),
        "paired_interval": (MEDIUM, 7),
        "became": (EASY, 4),
        "paper": (MEDIUM, 10),
    },
}


def effort(lab: str, exercise: str) -> Effort | None:
    r"""The `Effort` of an exercise of a lab, or of its "paper"; None where none is known, as of a teacher's own."""
    known = EFFORT.get(lab, {}).get(exercise)
    return Effort(*known) if known else None


def partial(name: str, exercise: Exercise, mistake: str | None) -> float:
    r"""The points that an answer gets with partial credit, which is wrong by this named mistake.

    Arguments: name: "lab.exercise". exercise: the `Exercise` that it was held against. mistake: its words, as in
        `Exercise.mistakes`; None where no mistake was named.
    Returns: a multiple of a half; 0 for None.
    """
    if mistake in (None, PLAIN) or mistake.startswith(NO_SHARE.get(name, ())):
        return 0  # also where a seed asks for another version than the public solution
    return half_points(SHARE * exercise.points)


def rubric(points: float) -> list[tuple[float, str]]:
    r"""The rubric of an answer on paper in points: [(3, what is there), ...], in steps of a half."""
    return [(half_points(share * points), words) for share, words in RUBRIC.items()]


def half_points(points: float) -> float:
    r"""Points in steps of a half; a quarter counts up."""
    return int(2 * points + 0.5) / 2
