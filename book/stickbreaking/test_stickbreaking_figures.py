r"""What the explorables of stick-breaking draw."""

import pytest
import torch

from posenc.chapters.stickbreaking import figures as stickbreaking


@pytest.mark.parametrize("between", [0, 16])
def test_far_keys_take_from_the_softmax_s_match_and_from_the_stick_s_rest(between):
    shares = {}
    for far in (0, 4096):
        figure, said = stickbreaking.dilution.fn(far=far, match=2, rest=-4, between=between)
        lines = {trace["name"]: trace for trace in figure["data"]}
        parts = torch.stack(
            [torch.as_tensor(lines[part]["x"]) for part in stickbreaking.PARTS]
        )  # [part, softmax stick]
        torch.testing.assert_close(parts.sum(0), torch.ones(2, dtype=torch.float64))
        assert [said["soft"], said["stick"]] == pytest.approx(parts[1].tolist())
        shares[far] = parts
    few, many = shares.values()
    assert many[1, 0] < few[1, 0] / 2 and many[1, 1] == pytest.approx(few[1, 1].item())
    assert many[2:, 1].sum() == pytest.approx(few[3, 1].item())
