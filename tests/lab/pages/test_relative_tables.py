"""What the chapter Relative position computes beside its text: from the frozen results, and right."""

import json
import math
from pathlib import Path
from statistics import fmean

import pytest
import torch

import posenc
from posenc.lab.pages import relative as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


@pytest.fixture(scope="module")
def frozen():
    return json.loads((RESULTS / "train_short_test_long.json").read_text("utf-8"))


def test_the_chapters_methods_are_those_of_the_table():
    assert page.ARMS == [name for name, method in posenc.METHODS.items() if method.page == "relative"]
    assert len(page.change_table().splitlines()) == 1 + len(page.ARMS)
    assert len(page.predictions().data.splitlines()) == 2 + len(page.ARMS)


def test_a_phrase_carries_its_weights_along_under_relative_codes_alone():
    moved = page.moved_weight()
    assert all(len(shares) == len(page.STARTS) and shares[0] == 0 for shares in moved.values())
    assert max(moved["Shaw"]) < 1e-6 < 0.1 < max(moved["sinusoidal"]) < 1
    rows = page.phrase_at(5, page.codes()["sinusoidal"])
    torch.testing.assert_close(rows.sum(-1), torch.ones(page.PHRASE))
    assert rows.triu(1).abs().max() == 0


def test_parameters_by_their_formulas():
    counts = page.parameter_counts()
    assert counts == {
        "Learned, once at the input": (512 * 768, 512 * 768),
        "Shaw, keys": (33 * 64, 12 * 33 * 64),
        "Shaw, keys and values": (2 * 33 * 64, 12 * 2 * 33 * 64),
        "Transformer-XL": (768 * 768 + 2 * 768, 12 * (768 * 768 + 2 * 768)),
        "T5, shared": (32 * 12, 32 * 12),
        "KERPLE": (2 * 12, 12 * 2 * 12),
        "FIRE": counts["FIRE"],
        "ALiBi": (0, 0),
    }
    assert len(page.parameter_table().splitlines()) == 1 + len(counts)


def test_errors_are_of_rounding():
    errors = page.check_errors()
    assert len(errors) == 10 and max(errors.values()) < 1e-10
    assert len(page.check_table(errors).splitlines()) == 10


def test_shaw_as_written_by_loops():
    q, k, v, _ = page.samples()
    torch.manual_seed(1)
    encoding = posenc.make("shaw", head_dim=page.D, clip=3, values=True).double()
    i, keys, values = 7, encoding.bias.keys.detach(), encoding.bias.values.detach()
    rows = [max(j - i, -3) + 3 for j in range(i + 1)]
    logits = [(q[1, 2, i] @ (k[1, 2, j] + keys[rows[j]])).item() / math.sqrt(page.D) for j in range(i + 1)]
    w = [math.exp(x) / sum(map(math.exp, logits)) for x in logits]
    wanted = sum(w[j] * (v[1, 2, j] + values[rows[j]]) for j in range(i + 1))
    torch.testing.assert_close(page.shaw_as_written(q, k, v, encoding)[1, 2, i], wanted)


def test_what_training_never_showed(frozen):
    first, last = frozen["lengths"][0], frozen["lengths"][-1]
    rows = page.unseen_rows()
    assert rows["XL's distances"] == (first, last - first) and rows["Shaw's rows"] == (17, 0)
    assert sum(rows["T5's buckets"]) == 32, "the decoder's buckets are all in use at the end"
    assert len(page.unseen_table().splitlines()) == 5


def test_losses_are_the_frozen_ones(frozen):
    whole = frozen["methods"]["fire"]["whole"]
    assert page.loss("fire", "whole", -1) == pytest.approx(fmean(seed[-1] for seed in whole))
    rise = fmean(seed[-1] - seed[0] for seed in whole)
    assert page.result_numbers()["fire_up"] == f"{rise:.2f}"
    gaps = [grid[0][-1] - grid[0][0] for grid in frozen["methods"]["t5"]["distance_and_keys"]]
    assert page.alone("t5", 0, -1) == pytest.approx(fmean(gaps))


def test_the_other_experiments_show_each_of_the_chapters_methods_that_they_hold():
    rows = 0
    for task in page.TASKS:
        rows += len(set(json.loads((RESULTS / f"{task}.json").read_text("utf-8"))["methods"]) & set(page.ARMS))
    assert rows > 0 and len(page.task_table().splitlines()) == 2 + rows


def test_a_study_without_one_of_the_methods_is_refused(monkeypatch, frozen):
    methods = {name: runs for name, runs in frozen["methods"].items() if name != "kerple"}
    monkeypatch.setattr(page, "load_results", lambda name: frozen | {"methods": methods})
    with pytest.raises(ValueError, match="kerple"):
        page.study.__wrapped__()


def own_shaw(q, k, a, offset):
    clip = len(a) // 2
    return (q @ k.T + (q @ a.T).gather(-1, offset.clamp(-clip, clip) + clip)) / math.sqrt(q.shape[-1])


def own_xl(q, k, r, u, v, distance):
    return (q @ k.T + (q @ r.T).gather(-1, distance) + k @ u + (r @ v)[distance]) / math.sqrt(q.shape[-1])


def own_t5(q, k, t, bucket):
    return q @ k.T + t[bucket]


def test_the_chapters_own_lines_are_held_against_the_package_and_the_example():
    right = own_shaw, own_xl, own_t5
    assert page.hand_table(*right).splitlines()[0] == "Shaw            0.665 0.245 0.090"

    def swapped(q, k, a, offset):
        return own_shaw(q, k, a, -offset)

    def without_c(q, k, r, u, v, distance):
        return own_xl(q, k, r, 0 * u, v, distance)

    def divided(q, k, t, bucket):
        return own_t5(q, k, t, bucket) / 2

    for place, wrong in enumerate((swapped, without_c, divided)):
        with pytest.raises(AssertionError, match="not close"):
            page.hand_weights(*(wrong if i == place else one for i, one in enumerate(right)))


def test_the_cards_curves_are_what_the_captions_say():
    curves = page.curves()
    assert list(curves) == [posenc.METHODS[name].title for name in page.ARMS]
    assert (curves["Shaw"][:, 16:] == curves["Shaw"][:, 16:17]).all() and curves["Shaw"][:, :16].std() > 0
    assert (curves["T5"][:, 128:] == curves["T5"][:, 128:129]).all() and (curves["KERPLE"].diff() < 0).all()
    assert (curves["FIRE"][0] - curves["FIRE"][1]).abs().max() > 1e-3
    assert len(page.card_figure().axes) == 6


def test_the_verdict_has_a_row_for_each_method(frozen):
    rows = page.verdict_table().data.splitlines()[2:]
    assert len(rows) == len(page.ARMS) and [row.rsplit(" ", 2)[1] for row in rows].count("failed") == 3
    cut = fmean(seed[-1] for seed in frozen["methods"]["t5"]["cut"])
    assert any(row.startswith("| T5 |") and f"{cut:.3f}" in row for row in rows)
