"""What the chapter Longer than trained computes beside its text: from the frozen results, and right."""

import json
import math
import re
from pathlib import Path
from statistics import fmean

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_hex

from posenc.lab.pages import scaling as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


@pytest.fixture(scope="module")
def frozen():
    return json.loads((RESULTS / "scaling.json").read_text("utf-8"))


def test_the_table_of_losses_holds_the_frozen_means(frozen):
    rows = page.loss_rows()
    assert list(rows) == list(page.NAMES) and set(rows) == set(frozen["schemes"])
    for name, row in rows.items():
        for when, cells in (("before", row[:3]), ("after", row[3:])):
            losses = frozen["schemes"][name]["text"][when]
            wanted = [fmean(seed[-1] for seed in losses[key]) for key in ("whole", "cut")]
            assert cells == pytest.approx([*wanted, fmean(losses["price"])])
    assert len(page.loss_table().splitlines()) == 2 + len(rows) + 2


def test_far_needles_are_those_beyond_training(frozen):
    far = [i for i, distance in enumerate(frozen["distances"]) if distance > frozen["lengths"][0]]
    missed = fmean(seed[i] for seed in frozen["schemes"]["plain"]["needle"]["before"] for i in far)
    assert page.needle_numbers()["n_plain"] == f"{missed:.0%}"
    near = [i for i in range(len(frozen["distances"])) if i not in far]
    missed = [fmean(seed[i] for i in near) for seed in frozen["schemes"]["ntk"]["needle"]["after"]]
    assert page.wrong_share("ntk", "after", "near").tolist() == pytest.approx(missed)


@pytest.mark.parametrize("draw", [page.loss_figure, page.position_figure, page.needle_figure])
def test_a_scheme_looks_the_same_in_every_plot_and_is_counted_where_it_has_no_name(draw):
    looks = {page.NAMES[name]: (color, line) for name, (color, _, line) in page.LOOKS.items()}
    assert len(set(looks.values())) == len({color for color, _ in looks.values()}) == len(looks)
    figure = draw()
    plt.close(figure)
    for axes in figure.axes:
        handles, names = axes.get_legend_handles_labels()
        lines = {name: getattr(handle, "lines", [handle])[0] for name, handle in zip(names, handles)}
        for name in lines.keys() & looks.keys():
            line = lines[name]
            assert (to_hex(line.get_color()), line.get_linestyle()) == (to_hex(looks[name][0]), looks[name][1])
        others = [int(found[1]) for name in names if (found := re.match(r"the (\d+) others", name))]
        assert len(lines.keys() & looks.keys()) + sum(others) == len(looks) and len(others) <= 1


def test_the_needles_line_of_others_says_their_most(frozen):
    figure = page.needle_figure()
    plt.close(figure)
    said = [next(name for name in axes.get_legend_handles_labels()[1] if "others" in name) for axes in figure.axes]
    others = ("linear", "yarn", "yarn_rotations", "llama3", "longrope")
    most = [
        max(fmean(column) for name in others for column in zip(*frozen["schemes"][name]["needle"][when]))
        for when in page.WHEN
    ]
    assert most[1] == 0 and [name.split()[-1] for name in said] == [f"{most[0]:.2f}", "0"]


def test_what_distance_and_keys_add_is_counted_from_neither():
    grids = json.loads((RESULTS / "train_short_test_long.json").read_text("utf-8"))["methods"]["rope"]
    for name, (keys, gap) in {"distance": (0, -1), "keys": (-1, 0), "both": (-1, -1)}.items():
        wanted = [grid[keys][gap] - grid[0][0] for grid in grids["distance_and_keys"]]
        assert page.factorial()[name].tolist() == pytest.approx(wanted)


def test_stopping_no_pair_mends_nothing_and_every_pair_nearly_all():
    slow, fast = page.mended_share("slow"), page.mended_share("fast")
    assert slow[0] == fast[0] == 0 and slow[-1] == pytest.approx(fast[-1]) and 0.8 < slow[-1] < 1
    assert page.open_pairs() == sum(2 * math.pi * 10_000 ** (i / 12) > 64 for i in range(12))


def test_yarn_keeps_fast_pairs_whole_and_divides_slow_ones():
    turns = [4096 / (2 * math.pi * 10_000 ** (i / 64)) for i in range(64)]
    shares = page.remaining_share(128, 4096, "rotations")
    kept = [min(max((turn - 1) / 31, 0), 1) for turn in turns]
    wanted = [share + (1 - share) / 8 for share in kept]
    assert shares.tolist() == pytest.approx(wanted, abs=1e-9)


def test_every_prediction_has_verdicts(frozen):
    verdicts = page.verdicts()
    assert set(verdicts) == set(frozen["schemes"])
    outcomes = {outcome for claims in verdicts.values() for _, outcome in claims}
    assert outcomes <= {"came true", "failed", "not decided"}
    rises = {
        name: fmean(seed[-1] - seed[0] for seed in arm["text"]["before"]["whole"])
        for name, arm in frozen["schemes"].items()
    }
    assert page.rise("linear").mean() == pytest.approx(rises["linear"])
    outcome = dict(verdicts["plain"])["rises most"]
    assert (outcome == "failed") == (max(rises, key=rises.get) != "plain") or outcome == "not decided"
    assert len(page.predictions().data.splitlines()) == len(verdicts)


@pytest.mark.parametrize(
    "verdicts, worst", [("hh", "came true"), ("hf", "failed"), ("hw", "not decided"), ("wf", "failed")]
)
def test_several_claims_are_as_good_as_the_worst(verdicts, worst):
    words = {"h": "came true", "f": "failed", "w": "not decided"}
    assert page.worst_verdict(words[letter] for letter in verdicts) == worst


def test_entropy_of_a_softmax_by_its_definition():
    logits = torch.tensor([[0.0, 1.0, -2.0], [3.0, 3.0, 3.0]], dtype=torch.float64)
    weights = logits.softmax(-1)
    assert page.entropy(logits).item() == pytest.approx(-(weights * weights.log()).sum(-1).mean().item())


def test_a_cache_of_turned_keys_is_right_up_to_the_training_length_only():
    errors = page.cache_errors(trained=6, dim=8)
    assert {len(values) for values in errors.values()} == {18}
    assert max(errors["unturned keys"]) < 1e-12 and max(errors["turned keys"][:6]) < 1e-12
    assert min(errors["turned keys"][7:]) > 1e-3


def test_only_divided_frequencies_meet_no_new_angles():
    angles = page.unseen_angles()
    page.check_unseen(angles)
    plain, divided, times = angles
    with pytest.raises(AssertionError, match="angles="):
        page.check_unseen({plain: angles[divided], divided: angles[plain], times: angles[times]})


def test_a_factor_below_one_is_refused_and_one_above_is_no_refusal():
    assert "0.125" in page.refusal(1 / 8)
    with pytest.raises(AssertionError, match="factor=2"):
        page.refusal(2.0)


def test_partial_rotary_wants_the_lanes_that_turn():
    right, wrong = page.partial_divisors(rotary=8, head_dim=16)
    assert right == pytest.approx(8) and wrong == pytest.approx(8 ** (2 * 3 / 14))


@pytest.mark.parametrize(
    "change, words", [({"lengths": [64, 128]}, "lengths"), ({"schemes": {"plain": {}}}, "schemes")]
)
def test_results_that_do_not_fit_are_refused(monkeypatch, frozen, change, words):
    monkeypatch.setattr(page, "load_results", lambda name: frozen | change)
    monkeypatch.setattr(page, "surgery", lambda: frozen)
    monkeypatch.setattr(page, "short_long", lambda: frozen)
    with pytest.raises(ValueError, match=words):
        page.study.__wrapped__()


def test_the_page_s_own_lines_are_held_against_posenc():
    from posenc import scaling

    right = (
        lambda dim, s, base: scaling.linear(dim, s, base=base)[0],
        lambda dim, s, base: scaling.ntk(dim, s, base=base)[0],
        lambda dim, s, base, trained: scaling.llama3(dim, s, trained=trained, base=base)[0],
    )
    page.check_short(*right)
    with pytest.raises(AssertionError):
        page.check_short(right[0], right[0], right[2])


def test_the_verdict_s_table_holds_the_frozen_means(frozen):
    rows = [line.strip("| ").split(" | ") for line in page.verdict_table().data.splitlines()[2:]]
    assert [row[0] for row in rows] == [page.NAMES[name] for name in page.VERDICT]
    ntk = frozen["schemes"]["ntk"]["text"]["before"]
    wanted = [fmean(ntk["price"]), fmean(seed[-1] for seed in ntk["whole"]), fmean(seed[-1] for seed in ntk["cut"])]
    assert [float(cell.split()[0]) for cell in rows[2][1:4]] == pytest.approx(wanted, abs=0.005)


def test_the_claims_are_counted_once_each():
    counted = [int(number) for number in re.findall(r"\d+", page.claim_words())]
    assert counted[0] == sum(counted[1:]) == sum(map(len, page.verdicts().values()))


def test_the_card_s_line_makes_an_encoding():
    import posenc

    line = re.findall(r"^`(posenc\.make.+)`$", page.card().data, re.M)
    assert isinstance(eval(line[0], {"posenc": posenc}), posenc.Encoding)


def test_the_factor_in_a_wrong_place_is_found():
    counts = page.effective_keys()
    page.check_effective(counts)
    with pytest.raises(AssertionError):
        page.check_effective(counts | {"t on both": counts["none"]})
