r"""The states of explorables come back from what is written of them, whatever they hold: drawn by hypothesis."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from profiles import cases

from posenc.lab.explore.arrays import decode_arrays, encode_arrays

numbers = st.one_of(
    st.floats(-1e30, 1e30), st.floats(-30, 30), st.integers(-300, 70000).map(float), st.sampled_from([math.nan, 5e-324])
)
shapes = hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5)


@pytest.mark.weekly
@cases(5)
@given(arrays=st.lists(hnp.arrays(np.float64, shapes, elements=numbers), min_size=1, max_size=6), precise=st.booleans())
@example(arrays=[np.array([0.0, 65535 * 5e-324, 4e-319])], precise=False)  # steps of 5e-324 would meet the gap's code
@example(arrays=[np.array([-1e38, 1e38])], precise=False)
def test_arrays_of_an_explorable_come_back_whatever_they_hold(arrays, precise):
    record = json.loads(json.dumps(encode_arrays(arrays, precise), allow_nan=False))
    for state, array in enumerate(arrays):  # off by less than 5e-4 or float32's share, whose smallest are coarser
        wide = 1e-7 * np.abs(np.nan_to_num(array)) + 1e-37 + (0 if precise else 5e-4)
        found = decode_arrays(record, state)
        assert found.shape == array.shape and np.array_equal(np.isnan(found), np.isnan(array))
        assert not (np.abs(found - array) > wide).any(), (found, array)
