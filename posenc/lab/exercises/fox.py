r"""What the lab FoX asks for, and the wrong answers that its checks recognize."""

EXERCISES = {}
ON_PAPER = 0
