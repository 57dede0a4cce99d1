"""Images, volumes, windows and bags from Python: the functions call ops, the modules print and refuse as PyTorch's do."""
import pytest

import pellucid as torch
import pellucid.nn as nn
import pellucid.nn.functional as F


def ramp(*sizes):
    count = 1
    for s in sizes:
        count *= s
    return torch.arange(count, dtype=torch.float32).reshape(sizes)


def test_unfold_and_fold_are_transposes():
    x = ramp(1, 2, 3, 4)
    columns = F.unfold(x, 2)
    assert columns.shape == (1, 8, 6)
    assert columns[0, :4, 0].tolist() == [0, 1, 4, 5]
    counts = F.fold(F.unfold(torch.ones_like(x), 2), (3, 4), 2)
    assert counts[0, 0].tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [1, 2, 2, 1]]
    assert torch.equal(F.fold(columns, (3, 4), 2), x * counts)
    with pytest.raises(RuntimeError, match="has 6 windows"):
        F.fold(columns[:, :, :5], (3, 4), 2)


def test_gradients_are_zero_where_no_output_looks():
    for mode in ("nearest", "nearest-exact", "linear"):
        junk = torch.full((64, 4), 9.0)  # memory that the gradient may get
        del junk
        x = torch.ones(64, 1, 4, requires_grad=True)
        F.interpolate(x, scale_factor=0.5, mode=mode, **({"align_corners": True} if mode == "linear" else {})).sum().backward()
        assert x.grad[0, 0].count_nonzero() == 2 and x.grad.sum() == 128


def test_conv3d_equals_a_sum_over_slices():
    torch.manual_seed(0)
    x, w = torch.randn(1, 2, 4, 5, 5, requires_grad=True), torch.randn(3, 2, 2, 3, 3)
    y = F.conv3d(x, w, padding=(0, 1, 1))
    by_hand = sum(F.conv2d(x[0, :, k:k + 3].transpose(0, 1), w[:, :, k], padding=1) for k in range(2)).transpose(0, 1)
    assert torch.allclose(y[0], by_hand, atol=1e-5)
    assert F.conv3d(x, w, padding="valid").shape == (1, 3, 3, 3, 3)
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert nn.ConvTranspose3d(2, 3, 2, stride=2)(x).shape == (1, 3, 8, 10, 10)
    with pytest.raises(RuntimeError, match="must be"):
        F.conv3d(torch.ones(3, 3), w)


def test_grid_sample_moves_a_picture():
    x = ramp(1, 1, 3, 4)
    shift = torch.tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]])  # a quarter of the width: one pixel
    grid = F.affine_grid(shift, (1, 1, 3, 4), align_corners=False)
    y = F.grid_sample(x, grid, align_corners=False)
    assert torch.allclose(y[0, 0, :, :3], x[0, 0, :, 1:], atol=1e-5)
    assert torch.allclose(y[0, 0, :, 3], torch.zeros(3), atol=1e-5)
    border = F.grid_sample(x, grid, padding_mode="border", align_corners=False)
    assert torch.allclose(border[0, 0, :, 3], x[0, 0, :, 3], atol=1e-5)
    with pytest.raises(ValueError, match="expected mode"):
        F.grid_sample(x, grid, mode="cubic")


def test_interpolate_keeps_dtype_and_names_what_it_cannot():
    x = ramp(1, 1, 2, 2)
    assert F.interpolate(x, scale_factor=2).tolist()[0][0][0] == [0, 0, 1, 1]
    assert F.interpolate(x.to(torch.uint8), size=(4, 4)).dtype is torch.uint8
    assert F.interpolate(x, size=(4, 4), mode="bilinear")[0, 0, 0].tolist() == [0, 0.25, 0.75, 1]
    with pytest.raises(NotImplementedError, match="3D, 4D and 5D"):
        F.interpolate(x, size=4, mode="linear")
    with pytest.raises(ValueError, match="only one of size"):
        F.interpolate(x)


def test_embedding_bag():
    weight = ramp(4, 2).requires_grad_()
    indices, offsets = torch.tensor([0, 1, 1, 3]), torch.tensor([0, 1, 1])
    assert F.embedding_bag(indices, weight, offsets, mode="sum").tolist() == [[0, 1], [0, 0], [10, 13]]
    assert F.embedding_bag(indices, weight, offsets, mode="max").tolist() == [[0, 1], [0, 0], [6, 7]]
    mean = F.embedding_bag(indices.reshape(2, 2), weight)
    assert mean.tolist() == [[1, 2], [4, 5]]
    mean.sum().backward()
    assert weight.grad.tolist() == [[0.5, 0.5], [1, 1], [0, 0], [0.5, 0.5]]
    bag = nn.EmbeddingBag.from_pretrained(weight.detach(), mode="sum", padding_idx=1)
    assert bag(indices, offsets).tolist() == [[0, 1], [0, 0], [6, 7]]
    assert str(bag) == "EmbeddingBag(4, 2, mode='sum', padding_idx=1)"
    _, bags, sizes, _ = torch.embedding_bag(weight.detach(), indices, offsets)
    assert bags.tolist() == [0, 2, 2, 2] and sizes.tolist() == [1, 0, 3]
    with pytest.raises(ValueError):
        F.embedding_bag(indices, weight)


def test_embedding_scales_gradients_by_frequency():
    weight = ramp(3, 2).requires_grad_()
    F.embedding(torch.tensor([1, 1, 2]), weight, scale_grad_by_freq=True, sparse=True).sum().backward()
    assert weight.grad.tolist() == [[0, 0], [1, 1], [1, 1]]


def test_scatter_with_a_reduction():
    x, index = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 2])
    assert x.scatter(0, index, torch.tensor([4.0, 5.0, 6.0]), reduce="add").tolist() == [10, 2, 9]
    assert x.scatter_(0, index, 2.0, reduce="multiply").tolist() == [4, 2, 6]
    with pytest.raises(ValueError, match="'add' or 'multiply'"):
        x.scatter(0, index, 2.0, reduce="mean")


def test_rotary_embedding_turns_pairs():
    rope = nn.RotaryEmbedding(2, max_seq_len=4)
    x = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    y = rope(x)
    assert torch.allclose(y[0], torch.stack([rope.cos[:2, 0], rope.sin[:2, 0]], -1))
    assert torch.allclose(rope(x[:, 1:], offset=1), y[:, 1:])
    assert rope(x.double()).dtype is torch.float64


def test_modules_print_as_pytorchs():
    assert str(nn.Unfold((2, 3), padding=1)) == "Unfold(kernel_size=(2, 3), dilation=1, padding=1, stride=1)"
    assert str(nn.Fold((4, 5), 2)) == "Fold(output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1)"
    assert nn.InstanceNorm3d(2)(torch.randn(1, 2, 2, 3, 3)).shape == (1, 2, 2, 3, 3)
    with pytest.raises(ValueError, match="min_val cannot be greater"):
        F.hardtanh(torch.ones(2), 1.0, 0.0)
