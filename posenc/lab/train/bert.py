r"""An encoding inside a BERT of Hugging Face's transformers: its position table silenced, its attention replaced.

Nothing here imports transformers: whoever has a BERT to change has it.

Chapter: One model, five encodings.
"""

from collections.abc import Callable

import torch
from torch import nn

from posenc.attention import attention
from posenc.encoding import Encoding
from posenc.errors import UnsupportedError


class BertAttention(nn.Module):
    r"""In place of a layer's `attention.self`: the same three projections, and position where the encoding says."""

    def __init__(self, own: nn.Module, encoding: Encoding, causal: bool):
        super().__init__()
        self.query, self.key, self.value, self.dropout = own.query, own.key, own.value, own.dropout
        self.num_heads, self.encoding, self.causal = own.num_attention_heads, encoding, causal

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, **_):
        if past_key_values is not None:
            raise UnsupportedError("past_key_values: this attention keeps no cache; give the model use_cache=False")
        if attention_mask is not None and attention_mask.dtype != torch.bool:
            attention_mask = attention_mask >= 0  # transformers adds 0 where a query may look, else a large negative
        placed = hidden_states
        if self.encoding.embed is not None:  # "layer_qk" or "layer_qkv": added here, in each layer
            placed = self.encoding.embed(
                hidden_states, torch.arange(hidden_states.shape[1], device=placed.device)[None]
            )
        values = placed if self.encoding.embed_at == "layer_qkv" else hidden_states
        sources = ((self.query, placed), (self.key, placed), (self.value, values))
        q, k, v = (project(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for project, x in sources)
        output = attention(q, k, v, self.encoding, causal=self.causal, mask=attention_mask)  # [B, H, T, D]
        return output.transpose(1, 2).flatten(-2), None


def encode_bert(model: nn.Module, make_encoding: Callable, causal: bool = False, silence: bool = True) -> nn.Module:
    r"""Exchange what a BERT knows of position for an encoding.

    Arguments:
        model: a `BertModel` of transformers, changed in place; it keeps its projections and all other weights.
        make_encoding: make_encoding(layer) -> that layer's `Encoding`, without anything at the input.
        causal: whether a token sees those before it alone, as in the report's causal model.
        silence: True sets the table of positions in the model's embeddings to zero, and keeps it there. False leaves
            it: the model then has two encodings, and a comparison compares neither.
    Returns: the model. Dropout acts everywhere but on the attention weights.
    Errors: UnsupportedError for a model of another kind, or an encoding that acts on the embeddings.
    Chapter: One model, five encodings.
    """
    embeddings = getattr(model, "embeddings", None)
    if not hasattr(embeddings, "position_embeddings") or not hasattr(model, "encoder"):
        raise UnsupportedError(f"model={type(model).__name__} must be a BertModel, with embeddings and encoder")
    for index, layer in enumerate(model.encoder.layer):
        encoding = make_encoding(index)
        if encoding.embed is not None and encoding.embed_at == "input":
            raise UnsupportedError(
                f"make_encoding({index}) acts on the embeddings, BERT's own place: take embed_at='layer_qk'"
            )
        layer.attention.self = BertAttention(layer.attention.self, encoding, causal)
    if silence:
        table = embeddings.position_embeddings.weight
        nn.init.zeros_(table)
        table.requires_grad_(False)
    return model
