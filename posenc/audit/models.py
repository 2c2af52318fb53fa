r"""A whole model against itself: padded and not, in a batch and alone, with a cache and without, packed and apart."""

import copy
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from textwrap import fill
from typing import NamedTuple

import torch
from torch import nn

from ..configs import read
from ..encoding import At
from ..errors import check_choice, check_int, check_number, shown
from .encodings import WIDTH, Answers, NotAsked, SubjectError, error_words, small

ROUNDING = 4  # other sums, in another order: rounding may be this many times what the weights' last bits do
DRIFT = 2  # errors of a median token differ by less where they are rounding alone
EPS = 2.0**-24  # float32 rounds to this share


class Check(NamedTuple):
    r"""What a check asks, the symptom that a person sees where it fails, the likely cause, and where to look."""

    question: str
    symptom: str
    cause: str
    look: str


#: The checks in the order of the report.
CHECKS = {
    "batch": Check(
        "a batch is its rows",
        "the same prompt gives other text when its neighbor in the batch changes",
        "ids, a mask or a statistic of one row are used for all",
        "position_ids[0] or a table of cosines [1, T, D] where rows differ; means over the batch",
    ),
    "right padding": Check(
        "a row padded on the right is the row",
        "a loss or an embedding changes with the longest row of its batch",
        "real tokens see the padding, or ids count from the row's end",
        "attention_mask; read a row's last logits at its own length, not at -1",
    ),
    "left padding": Check(
        "a row padded on the left, and what is decoded after it, is the row",
        "right alone, worse in a batch of prompts of several lengths",
        "ids count the padding, or the mask forgets it once there is a cache",
        "position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0), cut to the new tokens, in every call",
    ),
    "steps": Check(
        "token by token with a cache is the whole at once",
        "the first new token is fine, then garbage; fine with use_cache=False",
        "cache and mask disagree on which keys the new token sees",
        "attention_mask as long as cache and new token; what the cache keeps, and in which order",
    ),
    "windows": Check(
        "several tokens at a time with a cache are the whole at once",
        "speculative or chunked decoding gives other text than decoding one by one",
        "the mask of a chunk is aligned with the first key, or all of its tokens get one id",
        "token i of a chunk sees keys up to past + i; is_causal=True is wrong with fewer queries than keys",
    ),
    "packed": Check(
        "sequences packed in one row are the sequences",
        "trained on packed rows, its loss is another than on the same texts apart",
        "tokens see the sequence before theirs, or ids run on",
        "position_ids that restart at 0, and a block-diagonal mask (or cu_seqlens)",
    ),
    "shift": Check(
        "moving all position_ids changes nothing, where a model is relative",
        "the same text is read differently behind a long prompt, or far out",
        "ids, angles, cosines or a bias are rounded to half precision, wrap around, or are not read at all",
        "the lines that make cos and sin: whole ids, float32 angles; position_ids handed on to every layer",
    ),
    "eviction": Check(
        "keys cut out of the cache are keys hidden by the mask",
        "garbage once old tokens are dropped from the cache",
        "ids or masks count the slots of the shortened cache, while its keys were turned by their old ids",
        "position_ids of the next token: how many tokens there have been; or turn the kept keys anew",
    ),
    "half precision": Check(
        "rounding to bf16 costs no more far out than near",
        "in bf16 fine at the start of a context, worse toward its end",
        "ids, frequencies or angles in bf16: from 256 on, neighbors share a position",
        "inv_freq and angles in float32; load by from_pretrained(dtype=...), not model.to(torch.bfloat16)",
    ),
}
FROM_ZERO = "each call counts its ids from 0, not from the tokens before it", "position_ids = past + arange(new tokens)"
NOT_READ = "with a cache the position_ids that you give are not read", "where forward makes position_ids of its own"
WINDOW = "the window is another with a cache than without", "keys seen: past + i - window < j; how many the cache keeps"


class ModelFinding(NamedTuple):
    r"""The answer to one of `CHECKS`.

    verdict: "holds", "fails", "told" (a fact with nothing to be right or wrong about) or "not asked". difference: the
    largest between two logits that should be one, or None; of half precision, how many times the error near that far
    out is. words: what that means, or why it is not asked. symptom, cause, look: what a person sees where it fails, the
    likely cause, and the line or argument to look at.
    """

    name: str
    verdict: str
    difference: float | None
    words: str
    symptom: str
    cause: str
    look: str


@dataclass
class ModelReport(Answers):
    r"""What `model` found. report["steps"] is one `ModelFinding`; print(report) reads as text.

    settings: among them "tolerance", the largest difference of two logits that counts as rounding, and "position", the
    largest that other position_ids make: a fault that does less than the first is not seen.
    """

    subject: str
    findings: tuple
    settings: dict = field(default_factory=dict)

    def __str__(self):
        effect, tolerance = self.settings["position"], small(self.settings["tolerance"])
        lines = [f"Audit of {self.subject}: {self.counts}"]
        note = f"logits that differ by up to {tolerance} count as equal"
        note += "" if effect is None else f"; other position_ids change them by {small(effect)}"
        lines.append(fill(note, WIDTH))
        for finding in self.findings:
            row = f"{finding.verdict:<10s}{finding.name:<15s}"
            lines.append(fill(finding.words, WIDTH, initial_indent=row, subsequent_indent=" " * 25))
            if finding.verdict == "fails":
                for title, words in zip(("you see", "likely", "look at"), finding[4:]):
                    row = f"{'':10s}{title + ':':<10s}"
                    lines.append(fill(words, WIDTH, initial_indent=row, subsequent_indent=" " * 20))
        return "\n".join(lines)


def call_transformers(model, ids, positions, mask, cache, keep):
    """(logits, cache) of a causal model of transformers, as `model` calls it."""
    if mask is not None:
        mask = mask.long() if mask.ndim == 2 else torch.where(mask, 0.0, torch.finfo(torch.float32).min)
    given = {"position_ids": positions, "attention_mask": mask, "past_key_values": cache}
    out = model(input_ids=ids, use_cache=keep, **{name: x for name, x in given.items() if x is not None})
    return out.logits, getattr(out, "past_key_values", None) if keep else None


def typical(x):
    """The root mean square of a token's logits, for the median token: a few that go to other experts don't count."""
    return x.square().mean(-1).sqrt().median().item()


class Trial:
    r"""A model in float32, tokens [3, T], and what is known of it: whether it takes ids, how far they go, its rows."""

    def __init__(self, model, call, vocab, length, far, tolerance, seed):
        self.model = copy.deepcopy(model).float().eval()
        self.call, self.length, self.generator = call or call_transformers, length, torch.Generator().manual_seed(seed)
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        config = getattr(model, "config", None)
        config = config.get_text_config() if callable(getattr(config, "get_text_config", None)) else config
        try:
            self.reading = read(config)
        except (TypeError, ValueError):
            self.reading = None
        self.rows = rows = () if self.reading is None else self.reading.layers
        self.window = min((row.window or row.chunk for row in rows if row.window or row.chunk), default=None)
        ends = [row.rows for row in rows if row.rows is not None]
        ends += [] if rows else [getattr(config, "max_position_embeddings", None)]
        self.room = min((end for end in ends if end), default=torch.inf)  # ids beyond it may have no row in a table
        if 2 * length > self.room:
            raise ValueError(f"length={length} must be at most {self.room // 2}, half of the positions that it has")
        self.far = int(min(far, self.room - length))
        pad = getattr(config, "pad_token_id", None)
        self.pad = pad if isinstance(pad, int) and 0 <= pad < vocab else 0
        ids = torch.randint(0, vocab - 1, (3, length), generator=self.generator)
        self.ids = (ids + (ids >= self.pad)).to(device)
        self.at = torch.arange(length, device=device)[None]
        self.takes = call is not None or "position_ids" in inspect.signature(model.forward).parameters
        self.full = self.run(self.ids)[0]
        nudged, _ = self.run(self.ids, model=self.nudged())
        least = EPS * self.full.abs().max().item()
        self.tolerance = tolerance or 0.0
        self.tolerance = tolerance or ROUNDING * max(self.off(nudged, self.full)[0], least)
        self.moved, self.reason = None, "it takes no position_ids"
        if self.takes:
            try:
                self.moved = self.run(self.ids, 2 * self.at)[0] - self.full  # by other gaps
            except NotAsked as reason:
                self.takes, self.reason = False, str(reason)

    def nudged(self):
        """The model with the last bit of each weight at random: what this does to logits is rounding."""
        other = copy.deepcopy(self.model)
        with torch.no_grad():
            for p in other.parameters():
                p.mul_(1 + EPS * torch.randint(-2, 3, p.shape, generator=self.generator).to(p.device, p.dtype))
        return other

    def run(self, ids, positions=None, mask=True, cache=None, keep=False, model=None):
        """(logits [B, T, V] in float64, cache); mask=True says that all is real, None says nothing."""
        if mask is True:
            mask = torch.ones_like(ids, dtype=torch.bool)
        if positions is not None:
            positions = positions.expand(len(ids), -1)
        try:
            with torch.no_grad():
                out = self.call(model or self.model, ids, positions, mask, cache, keep)
        except NotImplementedError as error:
            raise NotAsked(str(error) or "the adapter can't") from None
        except Exception as error:
            raise SubjectError from error
        logits, cache = out if isinstance(out, tuple) and len(out) == 2 else (out, None)
        if not isinstance(logits, torch.Tensor) or logits.shape[:-1] != ids.shape:
            raise TypeError(f"call must return (logits [B, T, V], cache) for ids {list(ids.shape)}, got {shown(out)}")
        if keep and cache is None:
            raise NotAsked("it returns no cache")
        return logits.double(), cache

    def parts(self, ids, sizes, positions=None, mask=None):
        """Logits of tokens given in parts of these sizes, with a cache."""
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        pieces, cache, start = [], None, 0
        for size in sizes:
            new = slice(start, start := start + size)
            at = None if positions is None else positions[:, new]
            logits, cache = self.run(ids[:, new], at, mask[:, :start], cache, keep=True)
            pieces.append(logits)
        return torch.cat(pieces, 1)

    def off(self, a, b):
        """(largest difference, the first token with one) of logits [B, T, V]."""
        worst = (a - b).abs().amax((0, 2)).nan_to_num(torch.inf)
        return worst.max().item(), int((worst > self.tolerance).int().argmax())

    def differ(self, difference):
        return not difference <= self.tolerance  # True for nan

    def needs_ids(self):
        if not self.takes:
            raise NotAsked(self.reason)


def finding(name, difference, fails, words, cause=None, look=None, verdict=None):
    check = CHECKS[name]
    verdict = verdict or ("fails" if fails else "holds")
    return ModelFinding(name, verdict, difference, words, check.symptom, cause or check.cause, look or check.look)


def check_batch(trial):
    """Rows of one length: with the model's own ids, and each row with ids of its own, other gaps included."""
    worst, words = 0.0, "rows in a batch are the rows alone"
    own = torch.cat((trial.at, 2 * trial.at, trial.at + 1))
    for positions, how in [(None, "")] + [(own, ", each with ids of its own")] * trial.takes:
        together, _ = trial.run(trial.ids, positions)
        at = [None] * 3 if positions is None else positions[:, None]
        alone = torch.cat([trial.run(row[None], at[i])[0] for i, row in enumerate(trial.ids)])
        difference, token = trial.off(together, alone)
        worst = max(worst, difference)
        if trial.differ(difference):
            words = f"token {token} of a row is off by {small(difference)} in a batch{how}"
            break
    return finding("batch", worst, trial.differ(worst), words)


def padded(trial, left):
    """(ids, mask, positions) of a whole row and a shorter one [2, T], and where the shorter one is."""
    size = trial.length - max(3, trial.length // 4)
    real = slice(trial.length - size, None) if left else slice(size)
    ids, mask = trial.ids[:2].clone(), torch.zeros_like(trial.ids[:2], dtype=torch.bool)
    ids[1], mask[0], mask[1, real] = trial.pad, True, True
    ids[1, real] = trial.ids[1, :size]
    return ids, mask, (mask.cumsum(-1) - 1).clamp(min=0), real


def check_padding(trial, left):
    """The real tokens of a padded row; on the left also what is decoded after it, as generation does."""
    name = "left padding" if left else "right padding"
    ids, mask, positions, real = padded(trial, left)
    alone, _ = trial.run(trial.ids[1:2, : int(mask[1].sum())])
    results = []
    for at in [positions, None] if trial.takes else [None]:
        outs = [trial.run(ids, at, mask)[0]]
        try:
            outs += [trial.parts(ids, [trial.length - 3, 1, 1, 1], at, mask)] if left else []
        except NotAsked:
            pass
        results.append(max((trial.off(out[1:, real], alone)[0], how) for out, how in zip(outs, ("", " with a cache"))))
    (difference, how), (own, _) = results[0], results[-1]
    words = f"real tokens are those of the row alone{' to ' + small(difference) if difference else ''}"
    if trial.differ(difference):
        words = f"a real token is off by {small(difference)}{how}"
    elif trial.differ(own):
        words += f"; without position_ids they are off by {small(own)}: always give them"
    return finding(name, difference, trial.differ(difference), words)


def check_cache(trial, name):
    """Token by token, or a prompt and then chunks, with ids given and left to the model."""
    length = trial.length
    sizes = [1] * length if name == "steps" else [length // 4, *[3] * (length // 4), length - length // 4 * 4]

    def parts(at):
        return trial.parts(trial.ids[:1], [size for size in sizes if size], at)

    found = {}
    for how, at in {"left to the model": None, "given": trial.at}.items():
        if at is None or trial.takes:
            found[how] = trial.off(parts(at), trial.full[:1])
    how, (difference, token) = max(found.items(), key=lambda item: item[1][0])
    pieces = "one by one" if name == "steps" else "in chunks of 3"
    words = f"tokens {pieces} are those of the whole to {small(difference)}"
    unseen = trial.window is not None and trial.window >= length
    words += f"; its window of {trial.window:,} is not reached, ask with a longer length" if unseen else ""
    if not trial.differ(difference):
        return finding(name, difference, False, words)
    words = f"tokens {pieces} are off by {small(difference)}, ids {how}, from token {token} on"
    cause = (None, None)
    if how == "left to the model" and "given" in found and not trial.differ(found["given"][0]):
        cause = FROM_ZERO
    elif trial.window is not None and trial.window <= token + 1:
        cause = WINDOW
    elif "given" in found and not trial.differ(trial.off(parts(trial.at), parts(2 * trial.at))[0]):
        cause = NOT_READ
    return finding(name, difference, True, words, *cause)


def check_packed(trial):
    """Two sequences in a row: ids that restart and a block-diagonal mask; then the ids alone."""
    trial.needs_ids()
    size = max(2, min(trial.length // 2, trial.window or trial.length))  # no mask of ours knows windows
    parts = [trial.ids[:1, : size - 1], trial.ids[1:2, :size]]
    apart = torch.cat([trial.run(part)[0] for part in parts], 1)
    ids, at = torch.cat(parts, 1), torch.cat([trial.at[:, : part.shape[1]] for part in parts], 1)
    blocks = torch.block_diag(*[torch.ones(part.shape[1], part.shape[1]) for part in parts]).tril().bool()
    alone, _ = trial.off(trial.run(ids, at, None)[0], apart)
    knows = "ids that restart are enough" if not trial.differ(alone) else f"by ids alone off by {small(alone)}"
    try:
        difference, token = trial.off(trial.run(ids, at, blocks[None, None].to(ids.device))[0], apart)
    except SubjectError as error:
        return finding("packed", alone, trial.differ(alone), f"{knows}; no mask [1, 1, T, T]: {error_words(error)}")
    if trial.differ(difference):
        return finding("packed", difference, True, f"with a mask, token {token} is off by {small(difference)}; {knows}")
    knows += ": give the mask" if trial.differ(alone) else " without a cache"
    return finding("packed", difference, False, f"with a mask, apart to {small(difference)}; {knows}")


def place_known(trial):
    """Why logits follow the place by design, in words; "" where they should not; None where that is not known."""
    if not trial.rows:
        return None
    reasons = {f"a {row.method} table is added" for row in trial.rows if row.method in ("learned", "sinusoidal")}
    reasons |= {"queries grow with position (a temperature)" for row in trial.rows if row.temperature}
    reasons |= {f"{row.scaling} scaling follows the length" for row in trial.rows if row.scaling in LENGTHS}
    return ", ".join(sorted(reasons))


LENGTHS = ("dynamic", "longrope")  # scalings that turn otherwise once a text is longer than in training


def check_shift(trial):
    """All ids moved, a little and far; what may change is rounding, of the angles too."""
    trial.needs_ids()
    reason, effect = place_known(trial), trial.moved.abs().max().item()
    reads = any(row.lanes or row.rows or row.method == "sinusoidal" for row in trial.rows)
    if not trial.differ(effect):
        words = "other position_ids change nothing: they are not read"
        if reads:
            return finding("shift", effect, True, words + ", and the config has layers that should")
        raise NotAsked(words)
    worst, reached, fails, words, end = 0.0, 0, False, "", ""
    for shift in sorted({min(7, trial.far), trial.far}):
        try:
            difference, _ = trial.off(trial.run(trial.ids, trial.at + shift)[0], trial.full)
        except SubjectError as error:  # a table's end
            end = f"; ids from {shift:,} on are refused, {error_words(error)}"
            break
        # an angle at position p is rounded by p EPS; an angle of order 1 changes logits by about `effect`
        limit = trial.tolerance + ROUNDING * EPS * (shift + trial.length) * effect
        worst, reached = max(worst, difference), shift
        if not difference <= limit:
            fails, words = True, f"ids moved by {shift:,} change logits by {small(difference)}"
            break
    if not fails:
        return finding("shift", worst, False, f"ids moved by up to {reached:,} change logits by {small(worst)}{end}")
    if reason != "":
        why = f"the model is absolute by design: {reason}" if reason else "no config says whether it should be relative"
        return finding("shift", worst, False, f"{words}; {why}", verdict="told")
    return finding("shift", worst, True, f"{words}, and its config says that it is relative")


def check_eviction(trial):
    """Cut the oldest keys out of a cache; the next token sees what it would with these hidden."""
    trial.needs_ids()
    past, gone = trial.length - 1, trial.length // 3
    ids, last, at = trial.ids[:1, :past], trial.ids[:1, past:], trial.at[:, past:]
    shown_keys = (trial.at >= gone).bool()
    _, cache = trial.run(ids, keep=True)
    layers = getattr(cache, "layers", ())
    if not layers or any(getattr(layer, "keys", ids).shape[2:3] != (past,) for layer in layers):
        raise NotAsked("its cache has no .layers that all hold the .keys of all tokens (windows drop some themselves)")
    hidden, _ = trial.run(last, at, shown_keys, copy.deepcopy(cache), keep=True)
    for layer in layers:
        layer.keys, layer.values = layer.keys[:, :, gone:], layer.values[:, :, gone:]

    def cut(positions, cache):
        return trial.off(trial.run(last, positions, shown_keys[:, gone:], copy.deepcopy(cache), keep=True)[0], hidden)[
            0
        ]

    difference, own = cut(at, cache), cut(None, cache)
    words = f"keys cut out are keys hidden, to {small(difference)}"
    if trial.differ(difference):
        words = f"after keys are cut out, the next token is off by {small(difference)}, with its true position_ids"
    elif trial.differ(own):
        words += f"; left to count in the shorter cache it is off by {small(own)}"
        if turned_anew(trial, layers, gone):
            words += f", and by {small(cut(at - gone, cache))} with its keys turned anew by what the config says"
        words += ": give its true position_ids"
    return finding("eviction", difference, trial.differ(difference), words)


def turned_anew(trial, layers, back):
    """Turn the cached keys to positions that are smaller by `back`, as the config says; False where it can't tell."""
    plain = [row.method in ("rope", "nope") and row.attention_factor == 1 for row in trial.rows]
    if not plain or not all(plain) or len(plain) != len(layers) or place_known(trial) or not trial.rows[0].head_dim:
        return False
    for row, layer in zip(trial.rows, layers):
        if row.lanes:
            at = torch.full_like(trial.at[:, : layer.keys.shape[2]], -back)
            rotate = trial.reading.encoding(row.index).to(at.device).rotate
            layer.keys = rotate(layer.keys, layer.keys, At(at, at, None))[1]
    return True


def check_half(trial):
    """bf16 against float32, near and far; and buffers of frequencies that were rounded before they came here."""
    for name, x in trial.model.named_buffers():
        rounded = torch.equal(x.bfloat16().to(x.dtype), x) and not torch.equal(x.log2().round(), x.log2())
        if name.endswith("inv_freq") and rounded:
            words = f"all numbers of {name} have the 8 binary digits of bf16: it was cast"
            return finding("half precision", None, True, words, look="load by from_pretrained(dtype=...): " + name)
    trial.needs_ids()
    if trial.far < 1024:
        raise NotAsked(f"a text can stand at {trial.far:,} at most here, too near for bf16 to lose count")
    other = copy.deepcopy(trial.model)
    for p in other.parameters():  # as from_pretrained(dtype=torch.bfloat16) does; .to would round buffers too
        p.data = p.data.bfloat16()
    late = trial.length // 2
    near, far = trial.at, trial.at + (trial.far - late) * (trial.at >= late)  # the later half looks back from far out
    cast, errors = copy.deepcopy(trial.model).bfloat16(), []
    for positions, half in ((near, other), (far, other), (far, cast)):
        try:
            difference = trial.run(trial.ids, positions, model=half)[0] - trial.run(trial.ids, positions)[0]
        except SubjectError as error:
            raise NotAsked(f"it does not run in bf16 or so far out ({error_words(error)})") from None
        errors.append(typical(difference[:, late:]))
    if errors[0] > typical(trial.moved):
        raise NotAsked("bf16 rounds its logits by more than its positions change them, so nothing can be told")
    ratio, wrong = (error / errors[0] for error in errors[1:])
    words = f"a text whose second half stands at {trial.far:,} has {small(ratio)} times the error of one without a gap"
    if ratio <= DRIFT < wrong:
        words += f"; cast by model.to(torch.bfloat16), which rounds buffers too, {small(wrong)} times"
    return finding("half precision", ratio, not ratio <= DRIFT, words)


ASK = {
    "batch": check_batch,
    "right padding": lambda trial: check_padding(trial, left=False),
    "left padding": lambda trial: check_padding(trial, left=True),
    "steps": lambda trial: check_cache(trial, "steps"),
    "windows": lambda trial: check_cache(trial, "windows"),
    "packed": check_packed,
    "shift": check_shift,
    "eviction": check_eviction,
    "half precision": check_half,
}


def model(
    model: nn.Module,
    call: Callable | None = None,
    *,
    vocab: int | None = None,
    length: int = 24,
    far: int = 8000,
    tolerance: float | None = None,
    checks: Iterable[str] | None = None,
    name: str | None = None,
    seed: int = 0,
) -> ModelReport:
    r"""Ask a causal language model nine questions about positions, padding, batches and caches, on random tokens.

    Arguments:
        model: a causal model of transformers, or any module with `call`. It is copied, and the copy cast to float32. On
            a GPU, float32 products must not be TF32 (torch's default).
        call: how to run it, where it isn't run as transformers' models are: f(model, ids [B, T], positions [B, T] or
            None, mask, cache, keep) -> (logits [B, T, V], cache). mask: bool, [B, tokens in the cache + T], True at
            real tokens, or [B, 1, T, T], True where a query sees a key, or None. cache: what the call before returned,
            None at first; keep: whether one is wanted; return None where there is none. NotImplementedError says
            that something can't be done: that is then not asked, with its message.
        vocab: how many tokens it knows; default, that of model.config.
        length: T, of the texts, in tokens; windows of layers should be shorter.
        far: where "shift" and "half precision" end, a position; a learned table's end if that is nearer.
        tolerance: the largest difference of two logits that counts as rounding. None: 4 times what a random last bit
            of each weight changes, since a sum in float32 is the exact sum of numbers that are off by a few last bits.
        checks: names from `CHECKS`, default all of them.
        name: what the report calls the model.
        seed: of tokens and last bits; the same seed gives the same report.
    Returns: a `ModelReport`.
    Errors: TypeError or ValueError naming the argument. What the model raises is a finding, unless it does not run.
    Chapter: Auditing a proposal.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model={shown(model)} must be an nn.Module, got {type(model).__name__}")
    if call is not None and not callable(call):
        raise TypeError(f"call={shown(call)} must be a function, got {type(call).__name__}")
    if vocab is None:
        config = getattr(model, "config", None)
        config = config.get_text_config() if callable(getattr(config, "get_text_config", None)) else config
        vocab = getattr(config, "vocab_size", None)
        if vocab is None:
            raise ValueError("vocab=None: say how many tokens the model knows; it has no config.vocab_size")
    vocab, length = check_int("vocab", vocab, minimum=3), check_int("length", length, minimum=12)
    far, seed = check_int("far", far), check_int("seed", seed, minimum=0)
    tolerance = None if tolerance is None else check_number("tolerance", tolerance, above=0)
    checks = tuple(CHECKS) if checks is None else tuple(checks)
    for check in checks:
        check_choice("checks", check, tuple(CHECKS))
    try:
        trial = Trial(model, call, vocab, length, far, tolerance, seed)
    except SubjectError as error:
        raise ValueError(f"model does not run on ids [3, {length}]: {error_words(error)}") from error
    findings = []
    for check in checks:
        try:
            findings.append(ASK[check](trial))
        except NotAsked as reason:
            findings.append(finding(check, None, False, str(reason), verdict="not asked"))
        except SubjectError as error:
            findings.append(finding(check, None, True, f"it raises an error, {error_words(error)}"))
    effect = None if trial.moved is None else trial.moved.abs().max().item()
    settings = dict(vocab=vocab, length=length, far=far, tolerance=trial.tolerance, position=effect, seed=seed)
    return ModelReport(name or type(model).__name__, tuple(findings), settings)
