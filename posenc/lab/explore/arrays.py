r"""Numbers in few bytes: one array for each state, and fingerprints of what a picture shows."""

import base64
import hashlib
import json
import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from posenc.lab.explore.leaves import plain

STEP = 9e-4  # the coarsest step that keeps a state within 5e-4
GAPS = {"u1": 255, "u2": 65535}  # the code that stands for NaN
DTYPES = {"u1": "<u1", "u2": "<u2", "f4": "<f4"}


def encode_arrays(values: list, precise: bool = False) -> dict:
    r"""Store one array for each state: `values[s]` is a float64 array, or a JSON value, of state `s`.

    Equal entries are stored once, with an index where needed. Numbers take one byte (whole numbers, span up to 254),
    two bytes (`min + step * code`, step at most 9e-4, so the error is below 5e-4; whole numbers exact up to a span of
    65,534) or four (float32: wider spans, and `precise=True` for log axes). The highest code stands for NaN.
    The record is plain JSON; `decode_arrays` and the player read it.
    """
    if not all(isinstance(value, np.ndarray) for value in values):
        texts = [json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")) for value in values]
        unique, index = _distinct(texts)
        return {"type": "json", "rows": [json.loads(text) for text in unique], **index}
    arrays = {id(value): value for value in values}  # states that draw the same share an array
    kind, low, step = _precision(np.concatenate([array.ravel() for array in arrays.values()]), precise)
    rows = {key: (array.shape, _codes(array, kind, low, step).tobytes()) for key, array in arrays.items()}
    unique, index = _distinct([rows[id(value)] for value in values])
    shapes = [list(shape) for shape, _ in unique]
    record = {"type": kind, "min": low, "step": step, "data": _base64(b"".join(row for _, row in unique))}
    record |= {"shape": shapes[0]} if all(shape == shapes[0] for shape in shapes) else {"shapes": shapes}
    return record | index


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _precision(numbers: np.ndarray, precise: bool) -> tuple[str, float, float]:
    r"""The smallest type that is exact enough, the number of its code 0, and the step from code to code."""
    real = numbers[~np.isnan(numbers)]
    if real.size and np.abs(real).max() > np.finfo(np.float32).max:
        raise ValueError(f"{real[np.abs(real).argmax()]:g} is too large for a page, which holds float32")
    low, high = (float(real.min()), float(real.max())) if real.size else (0.0, 0.0)
    span = high - low
    if np.all(real == np.round(real)) and span <= 65534:
        return ("u1" if span <= 254 else "u2"), low, 1.0
    if not precise and span <= 65534 * STEP:
        return "u2", low, max(span / 65534, 1e-300)  # of a smaller span the steps would overflow
    return "f4", 0.0, 1.0


def _codes(value: np.ndarray, kind: str, low: float, step: float) -> np.ndarray:
    if kind == "f4":
        return value.astype(DTYPES[kind])
    return np.where(np.isnan(value), GAPS[kind], np.round((np.nan_to_num(value) - low) / step)).astype(DTYPES[kind])


def _distinct(rows: list[Hashable]) -> tuple[list, dict]:
    r"""The rows without repetition, and the index that says which of them each state has."""
    places: dict[Hashable, int] = {}
    index = [places.setdefault(row, len(places)) for row in rows]
    if len(places) == 1:
        return list(places), {"index": 0}
    if len(places) == len(rows):
        return list(places), {}
    return list(places), {"index": _base64(np.array(index, dtype="<u2").tobytes())}


def decode_arrays(record: Mapping, state: int) -> Any:
    r"""The array (or JSON value) of state number `state` in a record of `encode_arrays`."""
    row = record.get("index", state)
    if isinstance(row, str):
        row = int(np.frombuffer(base64.b64decode(row), dtype="<u2")[state])
    kind = record["type"]
    if kind == "json":
        return record["rows"][row]
    if "shape" in record:
        shape, start = record["shape"], row * math.prod(record["shape"])
    else:
        shape, start = record["shapes"][row], sum(math.prod(shape) for shape in record["shapes"][:row])
    codes = np.frombuffer(base64.b64decode(record["data"]), DTYPES[kind])[start : start + math.prod(shape)]
    numbers = record["min"] + record["step"] * codes.reshape(shape).astype(np.float64)
    return numbers if kind == "f4" else np.where(codes.reshape(shape) == GAPS[kind], np.nan, numbers)


def fingerprint(items: Mapping[str, dict]) -> str:
    r"""What a picture of a figure taken apart shows: a hash of all but the fractions, then two sums of each array.

    Sums are compared with a tolerance (`same_fingerprint`), so another machine's rounding does not matter.
    """
    sums, rest = [], []
    for item, leaves in items.items():
        if item == "readout":
            continue
        for path, value in sorted(leaves.items()):
            if isinstance(value, np.ndarray) and not np.all(value == np.round(value)):
                rest.append([item, path, list(value.shape), int(np.isnan(value).sum())])
                numbers = np.nan_to_num(value).ravel()
                waves = np.cos(1 + 0.7 * np.arange(numbers.size))  # two numbers that swap places change this sum
                sums.append(f"{numbers.sum():.6g}:{(numbers * waves).sum():.6g}:{np.abs(numbers).sum():.6g}")
            else:
                rest.append([item, path, plain(value)])
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:16]
    return ";".join([digest, *sums])


def same_fingerprint(one: str, other: str) -> bool:
    r"""Whether two fingerprints show the same state, up to rounding."""
    (digest, *sums), (other_digest, *other_sums) = one.split(";"), other.split(";")
    if digest != other_digest or len(sums) != len(other_sums):
        return False
    try:
        numbers, other_numbers = (
            np.array([[float(v) for v in part.split(":")] for part in parts]).reshape(len(sums), 3)
            for parts in (sums, other_sums)
        )
    except ValueError:  # a damaged picture
        return False
    slack = 1e-3 + 1e-5 * numbers[:, 2:]
    return bool((np.abs(numbers - other_numbers)[:, :2] <= slack).all())
