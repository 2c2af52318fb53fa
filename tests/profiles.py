r"""How many cases the tests with drawn inputs try: a few hundred a file in the gate, thousands once a week.

HYPOTHESIS_PROFILE=weekly draws more of them, and other ones each time (a failure prints how to draw it again).
POSENC_EXAMPLES=N sets how many cases each property gets. In the gate the same command tries the same cases.
"""

import os

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]  # a shared machine is no reason to fail
COUNT = int(os.environ.get("POSENC_EXAMPLES", 0))
settings.register_profile(
    "gate", max_examples=COUNT or 20, derandomize=True, deadline=None, database=None, suppress_health_check=SLOW
)
settings.register_profile(
    "weekly", max_examples=COUNT or 600, deadline=None, database=None, print_blob=True, suppress_health_check=SLOW
)
NAME = os.environ.get("HYPOTHESIS_PROFILE", "gate")


def cases(share=1.0):
    r"""The decorator of a property: `share` of the profile's number of cases, at least one."""
    profile = settings.get_profile(NAME)
    return settings(profile, max_examples=max(1, round(share * profile.max_examples)))
