r"""An encoding in code that is not ours: PyTorch's FlexAttention and fused attention, models of transformers."""

from .functions import flex, sdpa_bias, turn
from .models import attach, read_rope, write_rope

__all__ = ["attach", "flex", "read_rope", "sdpa_bias", "turn", "write_rope"]
