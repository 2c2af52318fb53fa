r"""A whole model asked what mistakes with position change: padding, caches, packed rows, shifts, narrow numbers."""

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import nn

from ..configs import read
from ..errors import check_choice, check_int, check_number, shown
from . import model_questions as asking
from .bench import Finding, Report, decimals
from .by_hand import NotAsked, SubjectError, error_words

#: The questions in the order of the report, each a function called ask_QUESTION.
MODEL_QUESTIONS = tuple(name.removeprefix("ask_") for name in vars(asking) if name.startswith("ask_"))
#: fault: (what a person sees, the likely cause, which lines to look at).
FAULTS = {
    "batch": ("a text reads otherwise beside another", "ids or a mask made for one row serve all", "ids"),
    "seen": ("generation differs with padding", "pads are seen: the mask does not reach attention", "mask"),
    "counted": ("generation differs with padding", "ids count pads", "ids"),
    "cache": ("the first token is fine, then garbage", "ids or a mask are wrong behind a cache", "ids"),
    "ahead": ("the loss is too good, new text is garbage", "in one call tokens see later ones: not causal", "mask"),
    "stretched": (
        "good up to a length, then garbage",
        "beyond {0} tokens frequencies change: cached keys have older ones",
        "turns",
    ),
    "step id": ("the first token is fine, then garbage", "the new token at {0} is read at id {1}", "ids"),
    "step mask": ("text drifts after the first token", "a mask off by one: the new token does not see {1}", "mask"),
    "chunks": ("a prompt read in parts goes wrong", "a mask of new tokens that begins at the first key", "mask"),
    "generate": ("generation differs with padding", "ids or a mask made for generation", "ids"),
    "leak": ("packed texts are learned as one", "a text sees the one before it: no mask parts them", "mask"),
    "packed": ("packed texts are learned as one", "ids that are not those given", "ids"),
    "shift": ("the same text reads otherwise farther on", "ids are read as places, or rounded", "turns"),
    "rounded": ("long texts get worse, short ones don't", "a cast has rounded the frequencies to {0}", "turns"),
    "other": ("the configuration's RoPE is not in force", "it was changed after loading, or overwritten", "turns"),
    "half": ("long texts get worse in bfloat16", "angles or biases are made in bfloat16", "turns"),
    "cast": ("long texts get worse after model.to(bfloat16)", "frequencies are a buffer, which a cast rounds", "turns"),
}
LINES = {
    "ids": r"position_ids =|positions =|\barange\(",
    "mask": r"mask\w* =|create_\w*mask\(",
    "turns": r"inv_freq|alibi =|position_embeds =|\bsin, cos =",
}


class Subject:
    """A model, how it is called, and the texts that it is asked about."""

    def __init__(self, model, call, length, tolerance):
        self.model, self.call, self.own_call, self.length, self.count = model, call, call is not None, length, 0
        self.weights, config = next(model.parameters(), torch.zeros(1)), getattr(model, "config", None)
        self.exact = self.weights.dtype in (torch.float32, torch.float64)
        self.tolerance = tolerance or (1e-4 if self.exact else 0.3)
        self.names = inspect.signature(model.forward).parameters
        self.takes_ids = self.own_call or "position_ids" in self.names
        try:
            self.reading = read(config)
        except (TypeError, ValueError):  # a type that is not read, or no configuration
            self.reading = None
        self.trained = (self.reading and self.reading.trained) or asking.FAR
        lengths = [layer.trained for layer in self.reading or () if layer.rope is not None and layer.rope.dynamic]
        self.stretched = next(iter(lengths), None)  # tokens beyond which frequencies follow the text's length
        self.pad = getattr(config, "pad_token_id", None) or 0

    def begin(self):
        """Read the first text; later calls are compared with it."""
        vocab = self.run(torch.zeros(1, 1, dtype=torch.long)).shape[-1]
        self.ids = torch.randint(vocab, (2, self.length), generator=torch.Generator().manual_seed(0))
        self.ids[self.ids == self.pad] = (self.pad + 1) % vocab
        self.changed = (self.ids + 1 + (self.ids + 1 == self.pad).long()) % vocab  # another token everywhere
        self.at, self.whole = torch.arange(self.length)[None], self.run(self.ids[:1])
        self.spread = self.whole.std().item()
        self.ways = {"ids given": self.at, "ids left to the model": None} if self.takes_ids else {"": None}

    def run(self, ids, positions=None, mask=None, sizes=None, model=None):
        """[B, T, V] float32 of tokens [B, T], in one call or in calls of these sizes, through a cache."""
        device, parts, past, end = self.weights.device, [], None, 0
        for size in sizes or [ids.shape[1]]:
            start, end, self.count = end, end + size, self.count + 1
            at = None if positions is None else positions[:, start:end].expand(len(ids), -1).to(device)
            keys = None if mask is None else (mask if mask.ndim == 4 else mask[:, :end]).to(device)
            told = {"position_ids": at, "attention_mask": keys, "past_key_values": past, "use_cache": sizes is not None}
            try:
                if self.own_call:
                    logits, past = self.call(model or self.model, ids[:, start:end].to(device), **told)
                else:
                    told = {name: x for name, x in told.items() if x is not None and name in self.names}
                    out = (model or self.model)(ids[:, start:end].to(device), **told)
                    logits, past = out.logits, getattr(out, "past_key_values", None)
                parts.append(logits.detach().float().cpu())
            except Exception as error:
                raise SubjectError from error
        return torch.cat(parts, dim=1)

    def off(self, logits, expected):
        """The largest difference, in units of the spread of logits; infinite where it is not finite."""
        return ((logits - expected).abs().max() / self.spread).nan_to_num(nan=float("inf")).item()

    def judge(self, name, cases, fault):
        """The finding from {case: (logits [1, T, V], expected)}; fault: a function of the worst case, to a fault."""
        each = {case: self.off(*pair) for case, pair in cases.items()}
        worst = max(each, key=each.get)
        if each[worst] <= self.tolerance:
            return Finding(name, "holds", each[worst], f"logits agree to {decimals(each[worst])} of their spread")
        apart = (cases[worst][0] - cases[worst][1]).abs().amax((0, 2)) / self.spread
        first = int((~(apart <= self.tolerance)).int().argmax())
        where = f"token {first} is the first, of {len(apart)}; at most {decimals(each[worst])} of the logits' spread"
        return self.fails(name, each[worst], fault(worst), f"{worst}: {where}" if worst else where)

    def fails(self, name, number, fault, example):
        changed = self.stretched and self.length > self.stretched and name in ("steps", "chunks", "generate")
        fault, *values = ("stretched", self.stretched) if changed else fault if isinstance(fault, tuple) else (fault,)
        words, cause, lines = FAULTS[fault]
        return Finding(name, "fails", number, words, example, cause.format(*values), line_of(self.model, lines))


def line_of(model, lines):
    """The first line of the model's forward methods that makes such a thing, as "file:line: code", or ""."""
    for function in dict.fromkeys(inspect.unwrap(type(module).forward) for module in model.modules()):
        try:
            code, start = inspect.getsourcelines(function)
        except (OSError, TypeError):  # compiled, or written into a notebook that is gone
            continue
        for number, line in enumerate(code, start):
            if re.search(LINES[lines], line):
                return f"{Path(inspect.getsourcefile(function)).name}:{number}: {line.strip()}"
    return ""


def model(
    subject: nn.Module, call: Callable | None = None, *, length: int = 24, tolerance: float | None = None,
    questions: Iterable[str] | None = None,
) -> Report:  # fmt: skip
    r"""Ask a causal language model eleven questions that mistakes with position fail, and report the answers.

    Most compare the model with itself: a text alone, behind pads, in parts through the cache, in one row with another.
    Random weights are enough, if the order of tokens matters to them: "runs" tells. What fails says what a person sees,
    the likely cause, and a line of code to look at.

    Arguments:
        subject: a causal model of transformers, or any module with `call`, asked as it is; "half" and "cast" copy it.
        call: how another module is called, (model, ids [B, T], *, position_ids [B, T] or None, attention_mask [B, keys]
            of 0 and 1, or [B, 1, T, keys] to be added, or None, past_key_values, use_cache) -> (logits [B, T, V],
            past). past_key_values is None in a first call; keys are old and new ones.
        length: T of the texts, in tokens, at least 16: more than a window, if windows are to be seen.
        tolerance: the largest difference that counts as none, in units of the spread of logits. None is 1e-4, and 0.3
            for weights in half precision.
        questions: names, default all. Does it run, and order matter (runs)? Is a batch its rows (batch)? Do pads change
            nothing (padding)? Is one token a call, or several, one call (steps, chunks)? Do texts in a batch go on as
            alone (generate), and in a row (packed)? Do moved ids change nothing (shift)? Does it turn as configured
            (turns), far out in bfloat16 as well as near (half), and does a cast round no more (cast)?
    Returns: a `Report`, the same each time. `finding.cause` and `finding.line` are those of what fails.
    Errors: TypeError or ValueError naming the argument. What the model raises is a finding, not an error.
    Chapter: Symptoms.
    """
    if not isinstance(subject, nn.Module):
        raise TypeError(f"subject={shown(subject)} must be a model, a torch.nn.Module; got {type(subject).__name__}")
    if call is not None and not callable(call):
        raise TypeError(f"call={shown(call)} must be a function (model, ids, ...) -> (logits, past), or None")
    check_int("length", length, minimum=16)
    tolerance = tolerance if tolerance is None else check_number("tolerance", tolerance, above=0)
    if not isinstance(questions, list | tuple | set | None):
        raise TypeError(f"questions={shown(questions)} must be a list of names, or None for all")
    for question in questions or ():
        check_choice("questions", question, MODEL_QUESTIONS)
    s, findings, modes = Subject(subject, call, length, tolerance), [], [(m, m.training) for m in subject.modules()]
    reads = getattr(getattr(subject, "config", None), "is_encoder_decoder", False)  # in an encoder
    if call is None and (reads or not {"attention_mask", "past_key_values"} <= {*s.names}):
        causal = "a causal model that takes attention_mask and past_key_values, without an encoder"
        raise ValueError(f"subject={type(subject).__name__} must be {causal}; call=... says how another one is called")
    try:
        subject.eval()
        with torch.no_grad():
            for question in [q for q in MODEL_QUESTIONS if q == "runs" or q in (questions or MODEL_QUESTIONS)]:
                if findings and findings[0].verdict == "fails":
                    findings.append(Finding(question, "not asked", None, "it does not run"))
                    continue
                try:
                    findings.append(getattr(asking, f"ask_{question}")(s))
                except NotAsked as reason:
                    findings.append(Finding(question, "not asked", None, f"{reason}"))
                except SubjectError as error:
                    findings.append(Finding(question, "fails", None, "it raises an error", error_words(error)))
    finally:
        for module, mode in modes:
            module.training = mode
    places = tuple(dict.fromkeys(layer.place for layer in s.reading or () if layer.place))
    places = places if s.reading is not None else ("places that posenc.configs does not know",)
    cost = {"calls": s.count, "words": f"{s.count} calls, of at most {2 * length} tokens"}
    settings = {"length": length, "tolerance": s.tolerance, "dtype": f"{s.weights.dtype}"}
    return Report(type(subject).__name__, places, tuple(findings), cost, settings)
