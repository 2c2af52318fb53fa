"""What people type who have a symptom, a key of a configuration or an error: the search names the page that answers."""

from urllib.parse import quote

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.weekly]

#: a page that answers: what people type.
TYPED = {
    "symptoms": [
        "first token fine then garbage", "index out of range in self", "rope_scaling must be a dictionary",
        "The size of tensor a must match the size of tensor b", "perplexity explodes",
        "generation differs with padding",
        "short prompts get worse", "rope_deltas", "cache_position", "window_size", "sliding_window off by one",
        "gguf", "rotate_half", "DINOv2", "interpolate_pos_encoding", "timm", "cu_seqlens", "packed texts leak",
        "eviction", "StreamingLLM", "is_causal", "chunked prefill", "speculative decoding", "partial_rotary_factor",
        "no attribute rope_theta", "mscale_all_dim", "mrope_section", "qk_rope_head_dim", "MLA", "no_rope_layers",
        "rope_scaling does nothing", "second_per_grid_ts", "rel_shift", "relative_attention_bias", "tensor parallel",
        "new image size", "long_factor", "illegal memory access", "to_empty", "alibi_slopes",
        "position ids after eviction", "KeyError original_max_position_embeddings",
        "gibberish", "context shift", "Unexpected key inv_freq", "batch_first", "relative_position_bias_table",
        "whisper", "onnx", "odd d_model",
        "single prompt works, batch garbage", "seq_len = x.shape[-2]", "must match the existing size (512)",
        "XLM-R packed", "context parallel", "zigzag", "MPS float64", "aten::polar", "merge KV caches",
        "embeddings.position_ids",
        # whole lines, of which no page has all words
        "RuntimeError: The size of tensor a (2049) must match the size of tensor b (2048) at non-singleton dimension 3",
        "IndexError: index out of range in self, torch.nn.functional.embedding, position_ids of 513 tokens",
        "ValueError: `rope_scaling` must be a dictionary with two fields, got {'factor': 8.0, 'rope_type': 'llama3'}",
        "model.half()", "device-side assert triggered", "NaN gradients", "Gemma 3 rope_scaling", "use_sliding_window",
    ],
    "practice": ["left padding", "kv cache"],
    "rope_closely": ["partial rotary"],
    "scaling": ["dynamic NTK", "LongRoPE"],
    "in_your_own_model": ["config.json", "read_rope"],
}  # fmt: skip


@pytest.mark.parametrize("part", range(4))
def test_what_people_type_is_answered_among_the_first_three(part, base, open_page):
    page, misses = open_page(base + "search.html"), {}
    for answer, typed in [(answer, typed) for answer, strings in TYPED.items() for typed in strings][part::4]:
        page.goto(f"{base}search.html?q={quote(typed)}")
        page.locator(".search-summary").filter(has_text="best come first").or_(
            page.get_by_text("No page has all")
        ).wait_for()
        links = [link.get_attribute("href") for link in page.locator("#search-results li a").all()[:3]]
        if not any(f"book/{answer}/" in link for link in links):
            misses[typed] = links
    assert not misses
