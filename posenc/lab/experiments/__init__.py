r"""The frozen experiments: the sweeps as data, their runner, results, verdicts and plots."""
