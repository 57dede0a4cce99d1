"""The Tensor type: creation, operators, indexing, conversions, copies, pickling."""
import copy
import pickle

import pytest

import pellucid as torch


def test_values_from_nested_lists():
    assert torch.tensor([[1, 2], [3, 4]]).dtype is torch.int64
    assert torch.tensor([1, 2.5]).tolist() == [1.0, 2.5]
    assert torch.tensor([True, False]).dtype is torch.bool
    assert torch.tensor(3).shape == ()
    assert torch.tensor([]).shape == (0,)
    assert torch.tensor([[1.0], [2.0]], dtype=torch.float64).dtype is torch.float64
    assert torch.tensor([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]
    assert torch.tensor([2**53 + 1]).item() == 2**53 + 1


@pytest.mark.parametrize("data", [[[1, 2], [3]], [[1], 2], [1, [2]], [object()], ["a"]])
def test_bad_data_is_refused(data):
    with pytest.raises((ValueError, TypeError)):
        torch.tensor(data)


def test_operators_take_numbers_on_both_sides():
    x = torch.tensor([1.0, 2.0, 4.0])
    assert (x + 1).tolist() == [2, 3, 5] and (1 + x).tolist() == [2, 3, 5]
    assert (1 - x).tolist() == [0, -1, -3] and (8 / x).tolist() == [8, 4, 2]
    assert (2 ** x).tolist() == [2, 4, 16] and (x ** 2).tolist() == [1, 4, 16]
    assert (7 // x).tolist() == [7, 3, 1] and (x % 3).tolist() == [1, 2, 1]
    assert (-x).tolist() == [-1, -2, -4] and abs(-x).tolist() == x.tolist()
    assert (x > 1).tolist() == [False, True, True] and (1 < x).tolist() == [False, True, True]
    assert (torch.tensor([5, 6]) & 3).tolist() == [1, 2] and (~torch.tensor([True])).tolist() == [False]
    assert (torch.ones(2, 3) @ torch.ones(3, 1)).tolist() == [[3.0], [3.0]]
    with pytest.raises(TypeError):
        x + "text"
    with pytest.raises(TypeError):
        torch.ones(2) @ 3


def test_in_place_operators_keep_the_object():
    x = y = torch.ones(2)
    x += 1
    x *= 3
    assert x is y and y.tolist() == [6, 6]
    assert x.add_(1) is x and torch.relu_(x) is x


def test_numbers_promote_weakly():
    assert (torch.tensor([1], dtype=torch.int32) + 1).dtype is torch.int32
    assert (torch.tensor([1]) + 1.5).dtype is torch.float32
    assert (torch.tensor([1.0], dtype=torch.float16) * 2.5).dtype is torch.float16


def test_indexing_reads_what_python_allows():
    x = torch.arange(24).reshape(2, 3, 4)
    assert x[1, 2, 3].item() == 23 and x[-1].shape == (3, 4)
    assert x[..., 0].shape == (2, 3) and x[:, None].shape == (2, 1, 3, 4)
    assert x[0, 1:, ::2].tolist() == [[4, 6], [8, 10]]
    assert x[x > 20].tolist() == [21, 22, 23]
    assert x[[0, 1], [1, 2]].shape == (2, 4) and x[torch.tensor([1])].shape == (1, 3, 4)
    assert x[True].shape == (1, 2, 3, 4) and x[0][1][2].item() == 6
    for key, error in [((0, 0, 0, 0), IndexError), (5, IndexError), (slice(None, None, -1), ValueError), ("a", IndexError),
                       (1.5, IndexError)]:
        with pytest.raises(error):
            x[key]


def test_indexing_writes():
    x = torch.zeros(3, 3)
    x[0] = 1
    x[:, 2] = torch.tensor([7.0, 8.0, 9.0])
    x[x == 0] = -1
    x[[1, 2], [0, 1]] = 5.0
    assert x.tolist() == [[1, 1, 7], [5, -1, 8], [-1, 5, 9]]
    with pytest.raises(RuntimeError):
        x[0] = torch.zeros(2)
    with pytest.raises(TypeError):
        del x[0]


def test_conversions_to_python():
    assert float(torch.tensor(1.5)) == 1.5 and int(torch.tensor(2.9)) == 2 and bool(torch.tensor(0)) is False
    assert [10, 20][torch.tensor(1)] == 20 and len(torch.zeros(4, 2)) == 4
    assert [t.item() for t in torch.arange(3)] == [0, 1, 2] and 2 in torch.tensor([1, 2]) and 3 not in torch.tensor([1, 2])
    assert f"{torch.tensor(1.5):.2f}" == "1.50"
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(torch.ones(2))
    with pytest.raises(TypeError, match="0-d"):
        len(torch.tensor(1))
    with pytest.raises(TypeError):
        iter(torch.tensor(1))
    with pytest.raises(TypeError):
        [1, 2][torch.tensor(1.0)]


def test_printing_is_pytorchs():
    assert repr(torch.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(torch.tensor([1, 2])) == "tensor([1, 2])"
    assert repr(torch.ones(2, dtype=torch.float64)) == "tensor([1., 1.], dtype=torch.float64)"
    assert str(torch.Size([2, 3])) == "torch.Size([2, 3])" and repr(torch.float32) == "torch.float32"


def test_copies_and_pickles():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = copy.deepcopy(x)
    assert y.requires_grad and not y.data_ptr() == x.data_ptr() and torch.equal(x, y)
    z = pickle.loads(pickle.dumps(x))
    assert z.requires_grad and torch.equal(x, z)
    assert pickle.loads(pickle.dumps(torch.float16)) is torch.float16
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(x * 2)
    x.note = "kept"
    assert x.note == "kept"


def test_sizes_behave_as_tuples():
    s = torch.zeros(2, 3, 4).shape
    assert s == (2, 3, 4) and s[1] == 3 and isinstance(s[1:], torch.Size) and s.numel() == 24 and s[-1] == 4
    assert torch.zeros(s).shape == s and torch.zeros(2, 3).size(1) == 3 and torch.zeros(2, 3).stride() == (3, 1)


def test_to_and_device():
    x = torch.ones(2)
    assert x.to(torch.float32) is x and x.to("cpu") is x and x.to(torch.float64).dtype is torch.float64
    assert x.to(torch.device("cpu"), torch.int64).dtype is torch.int64 and x.long().dtype is torch.int64
    assert x.device == torch.device("cpu") and str(x.device) == "cpu"
    with pytest.raises(RuntimeError, match="cuda"):
        x.to("cuda")
    with pytest.raises(RuntimeError):
        torch.zeros(2, device="cuda")


def test_named_tuples():
    result = torch.tensor([[1.0, 5.0], [7.0, 2.0]]).max(dim=1)
    assert result.values.tolist() == [5, 7] and result.indices.tolist() == [1, 0]
    values, indices = torch.sort(torch.tensor([3, 1, 2]), descending=True)
    assert values.tolist() == [3, 2, 1] and indices.tolist() == [0, 2, 1]
    assert type(result).__name__ == "max"


@pytest.mark.parametrize("call, text", [
    (lambda: torch.add(torch.ones(1), "x"), r"add\(\): argument 'other' \(position 1\) must be Tensor or Number, not str"),
    (lambda: torch.add(torch.ones(1)), r'add\(\) missing 1 required positional arguments: "other"'),
    (lambda: torch.relu(torch.ones(1), 3), r"relu\(\) takes 1 positional argument but 2 were given"),
    (lambda: torch.relu(torch.ones(1), foo=3), r"relu\(\) got an unexpected keyword argument 'foo'"),
    (lambda: torch.add(torch.ones(1), 1, other=2), r"add\(\) got multiple values for argument 'other'"),
    (lambda: torch.ones(2).max("x", 3, 4), r"max\(\) received an invalid combination of arguments - got \(str, int, int\)"),
    (lambda: torch.pow(2, 3), "must be Tensor"),
])
def test_type_errors_are_worded_as_pytorchs(call, text):
    with pytest.raises(TypeError, match=text):
        call()


def test_keywords_and_their_numpy_names():
    x = torch.ones(2, 3)
    assert torch.sum(input=x, dim=1).tolist() == [3, 3] and x.sum(axis=0, keepdims=True).shape == (1, 3)
    assert torch.zeros(size=(2,)).shape == (2,) and x.view(3, 2).shape == (3, 2) and x.view((6,)).shape == (6,)
    assert torch.zeros(2, 3).shape == torch.zeros([2, 3]).shape
    assert torch.ones(2, requires_grad=True).requires_grad


def test_errors_have_both_types():
    with pytest.raises(torch.ShapeError):
        torch.ones(2, 3) @ torch.ones(2, 3)
    with pytest.raises(IndexError):
        torch.ones(2).sum(dim=3)
    assert issubclass(torch.ShapeError, RuntimeError) and issubclass(torch.ValueError, ValueError)


def test_generators():
    a = torch.randn(3, generator=torch.Generator().manual_seed(5))
    b = torch.randn(3, generator=torch.Generator().manual_seed(5))
    before = torch.get_rng_state()
    torch.rand(3)
    torch.set_rng_state(before)
    assert torch.equal(a, b)
    first = torch.rand(3)
    torch.set_rng_state(before)
    assert torch.equal(first, torch.rand(3))


def test_every_record_is_a_function_with_a_docstring():
    functions = torch._C.functions
    assert len(functions) > 400
    for name, f in functions.items():
        assert f.__name__ == name and f.schemas and len(f.__doc__) > len(name) + 4


def test_set_without_strides_is_contiguous():
    for source in (torch.arange(12.0), torch.arange(12.0).untyped_storage()):
        t = torch.empty(0).set_(source, 2, (2, 4))
        assert t.tolist() == [[2, 3, 4, 5], [6, 7, 8, 9]] and t.stride() == (4, 1) and t.storage_offset() == 2
