r"""Bring your own encoding, or a whole model, and get a report: what holds, what fails, and where to look.

    def my_rotation(x, positions): ...          # x [B, H, T, D], positions [T]

    print(posenc.audit.audit(my_rotation, "rotate"))
    print(posenc.audit.model(my_model))         # any causal model of transformers

An audit looks for counterexamples. It finds no proof, and says nothing about whether a method learns.
"""

from .encodings import FORMS, NEW, QUESTIONS, SLOPE, WIDTH, WRONG, Finding, Report, audit, percent
from .models import CHECKS, ModelFinding, ModelReport, model

__all__ = [
    "CHECKS",
    "FORMS",
    "NEW",
    "QUESTIONS",
    "SLOPE",
    "WIDTH",
    "WRONG",
    "Finding",
    "ModelFinding",
    "ModelReport",
    "Report",
    "audit",
    "model",
    "percent",
]
