"""The fair test: fixed targets, attention cut, distance and keys apart, masked characters, needles."""

import dataclasses
import math
import statistics
import sys

import pytest
import torch
from train_runs import TINY, TINY_TASK

import posenc
from posenc.lab.train import PRESETS, build, measures, settings_for
from posenc.lab.train.measures import (
    context_cut,
    distance_and_keys,
    fixed_batch,
    gap_positions,
    head_scores,
    held_out_windows,
    loss_by_position,
    masked_losses,
    needle_errors,
    short_long,
    some_windows,
    target_losses,
    task_errors,
    unfair_losses,
    validation,
)
from posenc.lab.train.tasks import IGNORE, TASKS, load_corpus, mask_characters

SMALL = settings_for("nano", dim=16, num_heads=2, length=16, targets=8, windows=8)


@pytest.fixture(scope="module")
def corpus():
    return load_corpus()


def sharp(method, settings, seed=3, task="text"):
    """An untrained model whose attention is not even: what a position changes is then large."""
    model = build(method, settings, task, seed=seed).eval()
    for block in model.blocks:
        block.attention.to_q.weight.data *= 8
    return model


def test_the_corpus_is_split_by_topic_and_no_paragraph_stands_on_both_sides(corpus, monkeypatch):
    both = [{p for p in corpus.decode(part).split("\n\n") if len(p) > 60} for part in (corpus.train, corpus.held_out)]
    assert all(len(side) > 50 for side in both) and not both[0] & both[1]
    assert 0.09 < len(corpus.held_out) / (len(corpus.train) + len(corpus.held_out)) < 0.14
    assert corpus.decode(corpus.encode("The if statement\n")) == "The if statement\n"
    with pytest.raises(ValueError, match="'☃'"):
        corpus.encode("a ☃")
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(FileNotFoundError, match="pydoc_data.topics, the corpus, is missing"):
        load_corpus.__wrapped__()


def test_targets_of_different_windows_do_not_overlap(corpus):
    for settings in PRESETS.values():
        size = settings.lengths[-1] + 1
        marked = held_out_windows(torch.arange(len(corpus.held_out)), settings)
        assert marked.shape == (settings.windows, size)
        assert len(marked[:, -settings.targets :].unique()) == settings.windows * settings.targets
        assert torch.equal(marked, marked[:, :1] + torch.arange(size))
    for windows, read in ((8, 4), (96, 48), (960, 48)):  # of what reads each many times
        assert len(some_windows(dataclasses.replace(SMALL, windows=windows))) == read


def test_losses_are_those_of_windows_that_end_alike(corpus, monkeypatch):
    monkeypatch.setattr(measures, "BLOCKS", 4)
    monkeypatch.setattr(measures, "BLOCK", 2)
    model, windows = sharp("rope", SMALL), held_out_windows(corpus.held_out, SMALL)
    losses = short_long(model, SMALL)
    for kind, cut in (("whole", None), ("cut", SMALL.length)):
        for i, length in enumerate(SMALL.lengths):
            each = target_losses(model, windows[:, -(length + 1) :], cut=cut)[:, -SMALL.targets :].mean(1)
            assert losses[kind][i] == pytest.approx(each.mean().item(), abs=1e-5)
            blocks = each.unflatten(0, (4, 2)).mean(1).tolist()
            assert cut or losses["blocks"]["whole"][i] == pytest.approx(blocks, abs=6e-4)
    assert "blocks" not in short_long(model, dataclasses.replace(SMALL, windows=7))
    losses = unfair_losses(model, SMALL)
    early = target_losses(model, windows[:, -(SMALL.targets + 1) :]).mean().item()
    assert losses["early"] == pytest.approx([early] * 4, abs=1e-6)
    found, whole = loss_by_position(model, SMALL, bins=8), target_losses(model, windows)  # [windows, 128]
    pieces = torch.cat([windows[:, at : at + 17] for at in range(0, 128, 16)])  # of 16, each predicted once
    chopped = [target_losses(model, part).mean().item() for part in (pieces, windows)]
    assert [losses["chopped"][0], losses["chopped"][-1]] == pytest.approx(chopped, abs=1e-5)
    assert found["until"] == [15, 31, 47, 63, 79, 95, 111, 127]
    assert found["loss"][2] == pytest.approx(whole[:, 32:48].mean().item(), abs=1e-5)


def test_validation_reads_what_is_held_back_alone(corpus):
    model, kept = sharp("rope", SMALL), corpus.train[-300:]
    ends = range(SMALL.length + 1, 301, SMALL.targets)
    losses = [target_losses(model, kept[None, end - SMALL.length - 1 : end])[0, -SMALL.targets :] for end in ends]
    expected = torch.cat(losses).mean().item()
    assert validation(model, "text", dataclasses.replace(SMALL, held_back=300)) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="held_back=0 .*length=16"):
        validation(model, "text", SMALL)
    other = settings_for("nano", "flipflop", **TINY_TASK)
    model, drawn = build("rope", other, "flipflop"), fixed_batch("flipflop", other, {}, 1024, seed=2**31 + 1)
    asked = drawn.targets >= 0
    expected = -model(drawn.tokens).log_softmax(-1)[asked].gather(-1, drawn.targets[asked][:, None]).mean().item()
    assert validation(model, "flipflop", other) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("layers", [1, 3])
def test_the_cut_hides_all_that_its_reach_does_not_cover(layers, corpus):
    model = build("rope", settings_for("nano", num_layers=layers, length=8, targets=4), seed=3).eval()
    window = corpus.held_out[None, :65]
    cut, last = 8, 63  # the last query reads character 63 and predicts 64
    reach = layers * (cut - 1)
    before = target_losses(model, window, cut=cut)[0, -1]
    for index, hidden in ((last - reach - 1, True), (last - reach, False)):
        other = window.clone()
        other[0, index] = (other[0, index] + 1) % 50
        assert (target_losses(model, other, cut=cut)[0, -1] == before) == hidden, index
        assert target_losses(model, other)[0, -1] != target_losses(model, window)[0, -1]
    with pytest.raises(ValueError, match="cut=0"):
        target_losses(model, window, cut=0)


def test_gap_positions_move_distance_or_keys_alone():
    assert gap_positions(4, 4, 2).tolist() == [0, 1, 2, 3]
    assert gap_positions(7, 4, 2).tolist() == [0, 0, 0, 0, 1, 2, 3]
    assert gap_positions(7, 4, 2, gap=10).tolist() == [0, 0, 0, 0, 1, 12, 13]


@pytest.mark.parametrize("method", posenc.methods.on_text())
def test_the_factorial_starts_where_the_fair_test_does(method, monkeypatch):
    monkeypatch.setattr(measures, "some_windows", lambda settings: held_out_windows(load_corpus().held_out, settings))
    model = sharp(method, SMALL)
    grid, losses, cuts = distance_and_keys(model, SMALL), short_long(model, SMALL), context_cut(model, SMALL)
    assert grid["keys"] == SMALL.lengths and grid["gaps"] == [0, 16, 48, 112]
    assert [len(row) for row in grid["loss"]] == [4] * 4
    assert grid["loss"][0][0] == pytest.approx(losses["whole"][0], abs=1e-6)
    assert cuts["cuts"] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert cuts["loss"][-1] == pytest.approx(losses["whole"][-1], abs=1e-6)
    assert cuts["loss"][4] == pytest.approx(losses["cut"][-1], abs=1e-6)
    assert len({round(loss, 4) for loss in cuts["loss"]}) > 4  # the cut does something
    for row in grid["loss"] if method in ("nope", "stickbreaking") else ():  # which read no position
        assert row == row[:1] * 4
    for row in grid["loss"] if method in ("sinusoidal", "rope", "alibi") else ():
        assert all(abs(row[0] - loss) > 1e-4 for loss in row[1:])


class AsIs(torch.nn.Module):
    """Says with certainty that every token is what it reads, and notes how many it read."""

    def __init__(self, vocabulary):
        super().__init__()
        self.scale, self.read = torch.nn.Parameter(torch.tensor(20.0)), []
        self.vocabulary = vocabulary

    def forward(self, tokens, mask=None):
        self.read.append(tokens.shape[1])
        return torch.nn.functional.one_hot(tokens, self.vocabulary) * self.scale


@pytest.mark.parametrize("changes", [{}, {"length": 9, "targets": 9}])
def test_masked_losses_count_the_same_characters_at_each_length(changes, corpus, monkeypatch):
    monkeypatch.setattr(measures, "BLOCKS", 4)
    monkeypatch.setattr(measures, "BLOCK", 5)
    settings = settings_for("nano", "masked", **{"length": 16, "targets": 8, "windows": 20} | changes)
    letters = len(TASKS["masked"].vocabulary)
    model = AsIs(letters)
    found = masked_losses(model, settings)
    # The loss of a model that looks at nothing but the character itself is the same exactly if the characters are.
    assert list(dict.fromkeys(model.read)) == found["lengths"] == settings.lengths
    assert len({round(loss, 4) for loss in found["whole"]}) == 1
    windows = held_out_windows(corpus.held_out, settings)[:, :-1]
    tokens, targets = mask_characters(torch.Generator().manual_seed(0), windows)
    first = (windows.shape[1] - settings.targets) // 2
    losses = [[] for _ in range(4)]
    for b in range(len(windows)):
        for t in range(first, first + settings.targets):
            if targets[b, t] != IGNORE:
                exact = 20.0 if tokens[b, t] == targets[b, t] else 0.0
                losses[b // 5].append(math.log(math.exp(20.0) + letters - 1) - exact)
    assert found["whole"][0] == pytest.approx(statistics.mean(sum(losses, [])), abs=1e-4)
    for block in found["blocks"]["whole"]:
        assert block == pytest.approx([*map(statistics.mean, losses)], abs=6e-4)


@pytest.mark.parametrize("task", [name for name in TASKS if name not in ("text", "masked")])
def test_the_fixed_batch_is_fixed(task):
    """The same for every model, whatever was drawn before, and none that training has seen."""
    settings = settings_for("nano", task, **TINY_TASK)
    first, trained = fixed_batch(task, settings, {}, 8), TASKS[task].batch(torch.Generator().manual_seed(0), 8, 32)
    again = fixed_batch(task, dataclasses.replace(settings, dim=64, lr=1.0), {}, 8)
    assert all(torch.equal(a, b) for a, b in zip(first, again)) and not torch.equal(first.tokens, trained.tokens)
    model = build("rope", settings, task)
    found = task_errors(model, task, settings, 50)  # more than one chunk
    assert list(found) == list(TASKS[task].tests(32))
    for name, options in TASKS[task].tests(32).items():
        tokens, targets = fixed_batch(task, settings, options, 50)
        said = [pair for row in zip(model(tokens).argmax(-1).tolist(), targets.tolist()) for pair in zip(*row)]
        wrong = [answer != target for answer, target in said if target != IGNORE]
        assert found[name] == sum(wrong) / len(wrong)


class Finder(torch.nn.Module):
    """Finds the needle asked for among the tokens that the mask leaves visible, else says none of the values."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, tokens, mask=None):
        words = TASKS["needle"].vocabulary
        logits = torch.zeros(*tokens.shape, len(words))
        logits[..., -1] = 1
        last = tokens.shape[1] - 1
        for b, row in enumerate(tokens.tolist()):
            for j, token in enumerate(row[:-1]):
                if words[token][0] == words[row[last]][1] and (mask is None or mask[last, j]):  # A5 is asked for by ?A
                    logits[b, last, words.index(words[token][1])] = 2
        return logits


def test_needles_are_found_by_a_model_that_looks_and_the_cut_hides_the_far_ones():
    found = needle_errors(Finder(), settings_for("nano", "needle"), sequences=6)
    assert found["contexts"] == [32, 64, 128, 256] and found["distances"] == [4, 4, 8, 16, 26, 58, 122, 250]
    for context, row in zip(found["contexts"], found["grid"]):
        assert row == [0.0 if distance < context else None for distance in found["distances"]]
    assert found["cut_row"] == [0.0 if distance <= 32 else 1.0 for distance in found["distances"]]


def test_head_scores_are_the_model_s_own(corpus):
    settings = settings_for("nano", length=8, targets=4)
    model = build("rope", settings, seed=1)
    found = head_scores(model, settings, windows=2, longest=16)
    assert len(found["heads"]) == settings.num_layers * settings.num_heads
    w, size = torch.tensor(found["inv_freq"], dtype=torch.float64), settings.dim // settings.num_heads

    def turned(x, position):  # one vector [D], by the pencil
        a, b = x[0::2], x[1::2]
        cos, sin = (position * w).cos(), (position * w).sin()
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten()

    seen = []
    model.blocks[1].attention.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    starts = {8: torch.linspace(0, len(corpus.held_out) - 8, 4).long(), 16: [0, len(corpus.held_out) - 16]}
    for length, begins in starts.items():
        with torch.no_grad():
            model(torch.stack([corpus.held_out[b : b + length] for b in begins]))
    layer, head = model.blocks[1].attention, found["heads"][settings.num_heads + 2]
    assert (head["layer"], head["head"]) == (1, 2)
    by_distance, moved = {d: [] for d in range(16)}, {d: [] for d in (0, 3, 40)}
    for x, distances in ((seen[0], range(8)), (seen[1], range(8, 16))):
        q, k = layer.to_q(x)[..., 2 * size : 3 * size].double(), layer.to_k(x)[..., 2 * size : 3 * size].double()
        for b in range(len(x)):
            for i in range(x.shape[1]):
                for j in range(i + 1):
                    if i - j in distances:
                        score = turned(q[b, i], i) @ turned(k[b, j], j) / math.sqrt(size)
                        by_distance[i - j].append(score.item())
                    for d in moved if distances[0] == 0 else ():
                        moved[d].append((turned(q[b, i], d) @ k[b, j] / math.sqrt(size)).item())
    for d in range(16):
        assert head["mean"][d] == pytest.approx(statistics.mean(by_distance[d]), abs=2e-4), d
        if len(by_distance[d]) > 1:
            assert head["std"][d] == pytest.approx(statistics.stdev(by_distance[d]), abs=2e-4), d
    for d, found_scores in moved.items():
        parts = zip(head["cos"], head["sin"], w.tolist())
        formula = sum(c * math.cos(d * v) + s * math.sin(d * v) for c, s, v in parts)
        assert formula == pytest.approx(statistics.mean(found_scores), abs=2e-4), d
    with pytest.raises(posenc.UnsupportedError, match=r"encodings at \('bias',\)"):
        head_scores(build("alibi", TINY), TINY)
