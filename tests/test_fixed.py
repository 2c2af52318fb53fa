r"""Where the numbers live that nobody trains: a model may be built without storage, moved, rounded and copied."""

import copy
import io
import pickle

import pytest
import torch
from cases import DIM, HEAD_DIM, HEADS, NAMES, Block, along_a_line, as_made, encoding, gates, tokens
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import posenc
from posenc import rope, scaling
from posenc.fixed import FixedNumbers

each = pytest.mark.parametrize("name", NAMES)
MORE = {  # beside those of the table
    "xpos": lambda: rope.xpos(HEAD_DIM),
    "dynamic": lambda: scaling.dynamic(
        HEAD_DIM, lambda length: scaling.dynamic_ntk(HEAD_DIM, length=length, trained=4)
    ),
}


def own(name):
    r"""A block of attention in float32 with one of NAMES or MORE, all of its numbers made anew."""
    made = MORE[name]() if name in MORE else None
    block = Block("nope" if made else name, dtype=torch.float32)
    if made:
        block.attention.encoding = made
    return block.requires_grad_(False)


# On a device without storage, then filled


@pytest.mark.parametrize("name", [*NAMES, *MORE])
def test_a_model_built_without_storage_is_filled_by_its_checkpoint(name):
    expected, x = own(name), tokens(2, 9, torch.float32)
    with torch.device("meta"):
        model = own(name)
    assert all(p.is_meta for p in model.parameters())
    model.to_empty(device="cpu").load_state_dict(expected.state_dict())
    assert torch.equal(model(x), expected(x))


@each
def test_parameters_that_no_checkpoint_fills_start_as_the_factory_starts_them(name):
    """`reset_parameters` of every module with parameters of its own: what PyTorch and FSDP2 call after to_empty."""
    torch.manual_seed(3)
    expected = as_made(name)
    with torch.device("meta"):
        made = as_made(name)
    made.to_empty(device="cpu")
    torch.manual_seed(3)
    for module in made.modules():
        if list(module.parameters(recurse=False)):
            module.reset_parameters()
    for (_, found), (key, wanted) in zip(made.named_parameters(), expected.named_parameters()):
        assert torch.equal(found, wanted), key


def test_a_hugging_face_model_holds_every_encoding(tmp_path):
    """`from_pretrained` builds it without storage, sets parameters one by one, and moves no module."""
    transformers = pytest.importorskip("transformers")

    class Tiny(transformers.PreTrainedModel):
        config_class = transformers.PretrainedConfig

        def __init__(self, config):
            super().__init__(config)
            self.blocks = torch.nn.ModuleDict({name: Block(name, dtype=torch.float32) for name in NAMES})
            self.post_init()

        def _init_weights(self, module):
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()

    model, x = Tiny(transformers.PretrainedConfig()).eval(), tokens(1, 7, torch.float32)
    model.save_pretrained(tmp_path)
    loaded, report = Tiny.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    for name, block in loaded.blocks.items():
        assert torch.equal(block(x), model.blocks[name](x)), name


def test_numbers_without_values_are_refused():
    with torch.device("meta"):
        made_here = torch.arange(4.0)
    with pytest.raises(ValueError, match=r"inv_freq is on the device 'meta'.*device='cpu'"):
        posenc.make("rope", head_dim=8, inv_freq=made_here)


# Moved, rounded, copied, kept


@pytest.mark.parametrize("name", posenc.METHODS)
def test_copies_and_files_of_a_model_are_as_good_as_it(name):
    model, x = own(name), tokens(2, 9, torch.float32)
    expected = model(x)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = own(name)
    again.load_state_dict(torch.load(file), strict=True)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), again):
        assert torch.equal(other(x), expected)
    parts = [part for part in model.modules() if isinstance(part, FixedNumbers)]
    assert set(model.state_dict()) == {key for key, _ in model.named_parameters()}, "fixed numbers are in no checkpoint"
    assert all(not part.copies for part in copy.deepcopy(model).modules() if isinstance(part, FixedNumbers))
    assert all(part.copies for part in parts if part.names)


@pytest.mark.parametrize("how", ["replaced", "written to"])
def test_changed_numbers_are_used_from_the_next_call_on(how):
    made, x = posenc.make("alibi", num_heads=HEADS), torch.randn(1, HEADS, 9, HEAD_DIM, dtype=torch.float64)
    posenc.attention(x, x, x, made)  # keeps the slopes, which are float32, in float64
    if how == "replaced":
        made.bias.slopes = made.bias.slopes / 4
    else:
        made.bias.slopes.div_(4)
    at = torch.arange(9)
    expected = posenc.Encoding(bias=lambda *_: posenc.alibi.bias(at, at, made.bias.slopes.double()))
    torch.testing.assert_close(posenc.attention(x, x, x, made), posenc.attention(x, x, x, expected))


def test_copies_made_in_inference_or_in_a_transform_can_be_trained_with():
    """Lanes of ExpoSB's band are multiplied with what is learned, so they are kept for the backward pass."""
    q = torch.randn(1, HEADS, 9, HEAD_DIM)
    for before in (torch.inference_mode(), torch.no_grad()):
        made = encoding("exposb")
        with before:
            posenc.attention(q, q, q, made)
        posenc.attention(q, q, q, made).sum().backward()
        assert made.rotate.band_weights.grad.abs().sum() > 0
    made = encoding("exposb").requires_grad_(False)
    expected = posenc.attention(q, q, q, encoding("exposb"))
    torch.func.grad(lambda q: posenc.attention(q, q, q, made).sum())(q)
    with FakeTensorMode(allow_non_fake_inputs=True):
        posenc.attention(*(torch.randn(1, HEADS, 9, HEAD_DIM) for _ in "qkv"), made)
    assert not made.rotate.copies, "what belongs to a transform or a trace ends with it"
    assert torch.equal(posenc.attention(q, q, q, made), expected)
    assert made.rotate.copies


# Nothing goes from one device to another


class Meetings(TorchDispatchMode):
    r"""Notes operations on a tensor of the CPU, while the model is elsewhere: copies, and what is made there."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        given = [x for x in tree_leaves((args, kwargs, out)) if isinstance(x, torch.Tensor)]
        if any(x.device.type == "cpu" for x in given):
            self.seen.append(f"{function} on {[(x.device.type, list(x.shape)) for x in given]}")
        return out


@pytest.mark.parametrize("name", [*posenc.METHODS, "xpos"])
def test_no_call_copies_from_one_device_to_another(name):
    """The other device is "meta", which stands for a GPU; the numbers of `dynamic` change with the length."""
    block = own(name)
    made = block.to("meta").attention.encoding
    q, x = torch.randn(2, HEADS, 9, HEAD_DIM, device="meta"), torch.randn(2, 9, DIM, device="meta")
    own_gates = gates(made, q, q)
    positions = along_a_line(torch.arange(9, device="meta"), made.axes)
    at = {} if made.axes is None else {"pos_q": positions, "pos_k": positions}
    mask = torch.ones(9, 9, dtype=torch.bool, device="meta")
    here = posenc.At(positions[None], positions[None], mask[None, None], own_gates)
    with Meetings() as meetings:
        block(x, torch.arange(9, device="meta"))
        posenc.attention(q, q, q, made, gates=own_gates, impl="torch", **at)
        posenc.attention(q, q, q, made, gates=own_gates, mask=mask, return_weights=True, **at)
        if hasattr(made.rotate, "kernel_inputs"):
            made.rotate.kernel_inputs(q)
        for place in (made.bias, made.weigh):
            if hasattr(place, "kernel_inputs"):
                place.kernel_inputs(q, here)
    assert not meetings.seen


def test_numbers_are_where_the_model_is_before_the_first_call():
    rotary = posenc.make("rope", head_dim=HEAD_DIM).to("meta").rotate
    kept = {(device.type, dtype) for _, device, dtype in rotary.copies}
    assert kept == {("meta", torch.float32), ("meta", torch.float64)}
    assert rotary.inv_freq.device.type == "cpu" and rotary.inv_freq.dtype == torch.float64
