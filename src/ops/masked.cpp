// Masks and positions: masked_fill, masked_select, masked_scatter, nonzero and its relatives,
// one_hot, bincount.
#include <cstring>

#include "base/parallel.h"
#include "kernels/index.h"
#include "kernels/sort.h"
#include "ops/formula.h"
#include "ops/index.h"
#include "ops/number_range.h"

namespace pellucid {

namespace {

void check_mask(const Call& c, const Tensor& mask) {
  PELLUCID_CHECK(mask.dtype() == kBool, TypeError,
                 "{}: mask must be a bool tensor, found {}. Compare it, for example mask != 0.",
                 c.name(), mask.dtype());
}

struct MaskedFill {
  template <class M, class V> V value(M mask, V filled, V kept) const {
    return select(mask, filled, kept);
  }
};

void infer_masked_fill(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "mask");
  check_mask(c, c.in(1));
  PELLUCID_CHECK(
      c.in(2).dim() == 0, ShapeError,
      "masked_fill: value must be a number or a tensor without dimensions, found sizes {}.",
      c.in(2).sizes());
  make_pointwise_output(c, c.in(0).dtype());
}

void check_filled(const Call& c) {
  const DType dtype = c.in(0).dtype();
  if (is_integral(dtype, false) && c.in(2).dtype() != dtype)
    check_fits(c.name(), c.in(2).item(), dtype);
}

void run_masked_fill(Call& c) {
  static constexpr size_t inputs[] = {1, 2, 0};  // mask, value, self
  const DType dtype = c.in(0).dtype(), computed = compute_type(dtype);
  const auto run = [&](const Call& with) {
    const MaskedFill f;
    run_loop(with,
             kernels::pointwise_loops<MaskedFill, kernels::SelectKind<3>, kernels::AllTypes>(), &f,
             computed, computed, inputs, 1, true);
  };
  if (is_floating(dtype) || c.in(2).dtype() == dtype) return run(c);
  check_filled(c);
  // The value becomes what self holds first: 0.5 is True in a bool tensor, not the int32 0 of the
  // loop.
  const Tensor value = c.in(2).detach().to(dtype);
  const Tensor* const converted[] = {&c.in(0), &c.in(1), &value};
  Call with(c.op(), converted, c.attrs());
  with.set_output(0, c.out());
  run(with);
}

// Both expanded to the sizes they share.
std::pair<Tensor, Tensor> broadcast_pair(const Call& c) {
  const Dims sizes = broadcast_sizes(c.name(), c.in(0).sizes(), c.in(1).sizes());
  return {c.in(0).detach().expand(sizes), c.in(1).detach().expand(sizes)};
}

constexpr int64_t kChunk = 1 << 16;  // elements of a mask that are one piece of parallel work

// How many elements of a mask are true before each chunk of it; the last entry is their total.
std::vector<int64_t> true_before(const uint8_t* mask, int64_t n, int64_t chunk) {
  const int64_t chunks = n == 0 ? 0 : (n - 1) / chunk + 1;
  std::vector<int64_t> before(static_cast<size_t>(chunks) + 1, 0);
  parallel_chunks(chunks, [&](int64_t i) {
    int64_t count = 0;
    for (int64_t k = i * chunk; k < std::min(n, (i + 1) * chunk); ++k) count += mask[k] != 0;
    before[static_cast<size_t>(i) + 1] = count;
  });
  for (size_t i = 1; i < before.size(); ++i) before[i] += before[i - 1];
  return before;
}

// Writes every element and moves on only past those that are chosen: no branch that a processor
// could not foresee.
template <class E> void compact(const E* in, const uint8_t* mask, int64_t n, E* out) {
  for (int64_t i = 0, k = 0; k < n; ++i) {
    out[k] = in[i];
    k += mask[i] != 0;
  }
}

template <class E> void select_row_major(Call& c, const Tensor& self, const Tensor& mask) {
  const uint8_t* is = mask.raw<uint8_t>();
  const std::vector<int64_t> before = true_before(is, mask.numel(), kChunk);
  c.set_output(0, empty({before.back()}, self.dtype()));
  const E* in = self.raw<E>();
  E* out = c.out().raw<E>();
  parallel_chunks(static_cast<int64_t>(before.size()) - 1, [&](int64_t i) {
    const int64_t first = before[static_cast<size_t>(i)], last = before[static_cast<size_t>(i) + 1];
    compact(in + i * kChunk, is + i * kChunk, last - first, out + first);
  });
}

void run_masked_select(Call& c) {
  const auto [self, mask] = broadcast_pair(c);
  if (self.impl().is_contiguous() && mask.impl().is_contiguous()) {
    switch (self.element_size()) {
      case 1:
        return select_row_major<uint8_t>(c, self, mask);
      case 2:
        return select_row_major<uint16_t>(c, self, mask);
      case 4:
        return select_row_major<uint32_t>(c, self, mask);
      default:
        return select_row_major<uint64_t>(c, self, mask);
    }
  }
  const int64_t n =
      kernels::count_nonzero(kBool, mask.raw_data(), mask.sizes(), mask.raw_strides());
  c.set_output(0, empty({n}, self.dtype()));
  if (n > 0)
    kernels::masked_select(self.element_size(), self.raw_data(), self.raw_strides(),
                           mask.raw<bool>(), mask.raw_strides(), mask.sizes(), c.out().raw_data());
}

// The counterpart of compact: n chosen elements of out get those of the source, in order.
template <class E> void spread(const E* source, const uint8_t* mask, int64_t n, E* out) {
  for (int64_t i = 0, k = 0; k < n; ++i) {
    const E kept = out[i], next = source[k];
    const bool chosen = mask[i] != 0;
    out[i] = chosen ? next : kept;
    k += chosen;
  }
}

// How many elements of the mask, expanded to the result, are true before each chunk.
std::vector<int64_t> checked_mask(const Call& c, const Tensor& mask) {
  std::vector<int64_t> before = true_before(mask.raw<uint8_t>(), mask.numel(), kChunk);
  PELLUCID_CHECK(c.in(2).numel() >= before.back(), ShapeError,
                 "masked_scatter: the mask has {} true elements but source only {} elements.",
                 before.back(), c.in(2).numel());
  return before;
}

void check_masked_scatter(const Call& c) {
  if (c.in(2).numel() < c.out().numel())  // else there are enough, whatever the mask is
    checked_mask(c, contiguous_values(c.in(1).detach().expand(c.out().sizes())));
}

void run_masked_scatter(Call& c) {
  const Tensor& out = c.out();
  const Tensor self = c.in(0).detach().expand(out.sizes());
  const Tensor mask = contiguous_values(c.in(1).detach().expand(out.sizes())),
               source = contiguous_values(c.in(2).detach());
  const uint8_t* is = mask.raw<uint8_t>();
  const std::vector<int64_t> before = checked_mask(c, mask);
  if (!c.in_place() && out.numel() > 0) copy_values(out, self);
  with_contiguous(out, [&](const Tensor& to) {
    const auto run = [&](auto zero) {
      using E = decltype(zero);
      parallel_chunks(static_cast<int64_t>(before.size()) - 1, [&](int64_t i) {
        const int64_t first = before[static_cast<size_t>(i)];
        spread(static_cast<const E*>(source.raw_data()) + first, is + i * kChunk,
               before[static_cast<size_t>(i) + 1] - first,
               static_cast<E*>(to.raw_data()) + i * kChunk);
      });
    };
    const int64_t bytes = to.element_size();
    bytes == 1   ? run(uint8_t{})
    : bytes == 2 ? run(uint16_t{})
    : bytes == 4 ? run(uint32_t{})
                 : run(uint64_t{});
  });
}

Tensors masked_scatter_vjp(const Vjp& v) {
  const Tensor& mask = v.in(1);
  Tensors out(3);
  if (v.needs(0)) out[0] = v.grad.masked_fill(mask, 0);
  if (v.needs(2)) {
    const Tensor used = v.grad.masked_select(mask);
    const int64_t total = detail::checked_numel(v.in_sizes(2));
    out[2] = constant_pad_nd(used, {0, total - used.numel()}, 0).view(v.in_sizes(2));
  }
  return out;
}

// Writes the coordinates of the true elements of rows [first, last) of a row-major mask.
void write_coordinates(const Tensor& mask, int64_t first, int64_t last, int64_t* to) {
  const IntArrayRef sizes = mask.sizes();
  const size_t dims = sizes.size();
  const int64_t columns = sizes.back();
  std::vector<int64_t> found(static_cast<size_t>(columns) +
                             1);  // one more: a write that is not kept
  Dims at(dims, 0);
  int64_t rest = first;
  for (size_t d = dims - 1; d-- > 0;) {
    at[d] = rest % sizes[d];
    rest /= sizes[d];
  }
  for (int64_t r = first; r < last; ++r) {
    const uint8_t* row = mask.raw<uint8_t>() + r * columns;
    size_t count = 0;
    for (int64_t i = 0; i < columns; ++i) {
      found[count] = i;
      count += row[i] != 0;
    }
    for (size_t k = 0; k < count; ++k) {
      for (size_t d = 0; d + 1 < dims; ++d) *to++ = at[d];
      *to++ = found[k];
    }
    for (size_t d = dims - 1; d-- > 0;) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
}

void nonzero_row_major(Call& c, const Tensor& mask) {
  const int64_t columns = mask.sizes().back(), rows = mask.numel() / columns;
  const int64_t rows_each = std::max<int64_t>(1, kChunk / columns);
  const std::vector<int64_t> before =
      true_before(mask.raw<uint8_t>(), mask.numel(), rows_each * columns);
  c.set_output(0, empty({before.back(), mask.dim()}, kInt64));
  parallel_chunks(static_cast<int64_t>(before.size()) - 1, [&](int64_t i) {
    write_coordinates(mask, i * rows_each, std::min(rows, (i + 1) * rows_each),
                      c.out().raw<int64_t>() + before[static_cast<size_t>(i)] * mask.dim());
  });
}

void run_nonzero(Call& c) {
  const Tensor& self = c.in(0);
  if (self.dtype() == kBool && self.dim() > 0 && self.numel() > 0 && self.impl().is_contiguous())
    return nonzero_row_major(c, self);
  const int64_t n =
      kernels::count_nonzero(self.dtype(), self.raw_data(), self.sizes(), self.raw_strides());
  c.set_output(0, empty({n, self.dim()}, kInt64));
  if (c.out().numel() > 0)
    kernels::nonzero(self.dtype(), self.raw_data(), self.sizes(), self.raw_strides(),
                     c.out().raw<int64_t>());
}

// The least and greatest of an int64 tensor that is not empty.
std::pair<int64_t, int64_t> extremes(const Tensor& t) {
  const int64_t* p = t.raw<int64_t>();
  const auto [low, high] = std::minmax_element(p, p + t.numel());
  return {*low, *high};
}

void infer_one_hot(Call& c) {
  check_defined(c, 0, "self");
  PELLUCID_CHECK(c.in(0).dtype() == kInt64, TypeError,
                 "one_hot: the classes must be int64, found {}. Convert them with .to(kInt64).",
                 c.in(0).dtype());
  const int64_t classes = c.integer(0);
  PELLUCID_CHECK(classes >= -1 && classes != 0, ValueError,
                 "one_hot: num_classes must be at least 1, or -1 to find it, found {}.", classes);
  PELLUCID_CHECK(classes > 0 || c.in(0).numel() > 0, ValueError,
                 "one_hot: num_classes cannot be found from an empty tensor; pass it.");
  if (classes < 0) return c.make_unknown_output(kInt64);
  Dims sizes(c.in(0).sizes());
  sizes.push_back(classes);
  c.make_output(sizes, kInt64);
}

// The greatest class, of classes that are not empty.
int64_t checked_classes(const Call& c, const Tensor& self) {
  const int64_t classes = c.integer(0);
  const auto [low, high] = extremes(self);
  PELLUCID_CHECK(low >= 0, ValueError, "one_hot: classes must not be negative, found {}.", low);
  PELLUCID_CHECK(classes < 0 || high < classes, ValueError,
                 "one_hot: class {} is not less than num_classes {}.", high, classes);
  PELLUCID_CHECK(high < INT64_MAX, ValueError, "one_hot: class {} is too large.", high);
  return high;
}

void check_one_hot(const Call& c) {
  if (c.in(0).numel() > 0) checked_classes(c, contiguous_values(c.in(0)));
}

void run_one_hot(Call& c) {
  const Tensor self = contiguous_values(c.in(0));
  int64_t classes = c.integer(0);
  if (self.numel() > 0) {
    const int64_t high = checked_classes(c, self);
    if (classes < 0) {
      classes = high + 1;
      Dims sizes(self.sizes());
      sizes.push_back(classes);
      c.set_output(0, empty(sizes, kInt64));
    }
  }
  kernels::one_hot(self.raw<int64_t>(), self.numel(), classes, c.out().raw<int64_t>());
}

void infer_bincount(Call& c) {
  check_defined(c, 0, "self");
  PELLUCID_CHECK(c.in(0).dim() == 1 && is_integral(c.in(0).dtype(), false), TypeError,
                 "bincount: a vector of integers is needed, found {}.", describe(c.in(0)));
  PELLUCID_CHECK(!c.has_in(1) || c.in(1).sizes() == c.in(0).sizes(), ShapeError,
                 "bincount: weights must have the sizes of self, found {} and {}.",
                 describe(c.in(1)), c.in(0).sizes());
  PELLUCID_CHECK(c.integer(0) >= 0, ValueError,
                 "bincount: minlength must not be negative, found {}.", c.integer(0));
  c.make_unknown_output(!c.has_in(1) ? kInt64 : c.in(1).dtype() == kFloat32 ? kFloat32 : kFloat64);
}

void run_bincount(Call& c) {
  const Tensor self = contiguous_values(c.in(0).to(kInt64));
  int64_t bins = c.integer(0);
  if (self.numel() > 0) {
    const auto [low, high] = extremes(self);
    PELLUCID_CHECK(low >= 0, ValueError, "bincount: values must not be negative, found {}.", low);
    PELLUCID_CHECK(high < INT64_MAX, ValueError, "bincount: value {} is too large.", high);
    bins = std::max(bins, high + 1);
  }
  const DType dtype = c.out().dtype();
  c.set_output(0, zeros({bins}, dtype));
  const int64_t* at = self.raw<int64_t>();
  if (dtype == kInt64) {
    for (int64_t i = 0; i < self.numel(); ++i) ++c.out().raw<int64_t>()[at[i]];
    return;
  }
  const Tensor weights = contiguous_values(c.in(1).detach().to(dtype));
  const auto add = [&](auto* to, const auto* from) {
    for (int64_t i = 0; i < self.numel(); ++i) to[at[i]] += from[i];
  };
  if (dtype == kFloat32)
    add(c.out().raw<float>(), weights.raw<float>());
  else
    add(c.out().raw<double>(), weights.raw<double>());
}

}  // namespace

extern constinit const OpDef masked_fill_op = {
    .schema = "masked_fill[_](Tensor self, Tensor mask, Tensor|Scalar value) -> Tensor",
    .doc = "value where the mask is true, self elsewhere.",
    .kind = OpKind::Pointwise,
    .infer = infer_masked_fill,
    .cost = [](const Call& c) { return elementwise_cost(c, 1); },
    .kernel = run_masked_fill,
    .check = check_filled,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.needs(0) ? v.grad.masked_fill(v.in(1), 0) : Tensor(), Tensor(),
              v.needs(2) ? v.grad.masked_fill(v.in(1).logical_not(), 0) : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), sample_randn({3, 4}).gt(0), 0.5});
          s.add({sample_randn({3, 4}), sample_randn({4}).gt(0), sample_randn({})});
          s.add({sample_randn({4, 3}).transpose(0, 1), sample_randn({3, 1}).gt(0), -1});
          s.add({sample_randn({1, 4}), sample_randn({3, 1}).gt(0), 2.0});
          s.add_no_grad({sample_ints({4}, 0, 9), sample_randn({4}).gt(0), 7});
          s.error({sample_randn({3}), sample_randn({3}), 0}, "mask must be a bool tensor");
          s.error({sample_randn({3}), sample_randn({3}).gt(0), sample_randn({3})},
                  "value must be a number or a tensor without dimensions");
          s.error({sample_randn({3}), sample_randn({2}).gt(0), 0}, "do not broadcast");
          s.error({sample_ints({3}, 0, 9), sample_randn({3}).gt(0), 1e300}, "does not fit int64");
          s.large([] { return Values{randn({4096, 1024}), randn({4096, 1024}).gt(0), 0.0}; });
        },
    .any_layout = true,
};

extern constinit const OpDef masked_select_op = {
    .schema = "masked_select(Tensor self, Tensor mask) -> Tensor",
    .doc = "The elements where the mask is true, as a vector.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          check_mask(c, c.in(1));
          broadcast_sizes("masked_select", c.in(0).sizes(), c.in(1).sizes());
          c.make_unknown_output(c.in(0).dtype());
        },
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel = run_masked_select,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      const Dims sizes = broadcast_sizes("masked_select", v.in_sizes(0), v.in_sizes(1));
      return {zeros(sizes, v.grad.dtype()).masked_scatter_(v.in(1), v.grad), Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), sample_randn({3, 4}).gt(0)});
          s.add({sample_randn({3, 1}), sample_randn({4}).gt(0)});
          s.add({sample_randn({4, 3}).transpose(0, 1), sample_randn({3, 4}).gt(0)});
          s.add({sample_randn({3}), sample_randn({3}).gt(99)});
          s.error({sample_randn({3}), sample_randn({3})}, "mask must be a bool tensor");
          s.large([] { return Values{randn({4096, 1024}), randn({4096, 1024}).gt(0)}; });
        },
};

extern constinit const OpDef masked_scatter_op = {
    .schema = "masked_scatter[_](Tensor self, Tensor mask, Tensor source) -> Tensor",
    .doc = "self with the elements where the mask is true taken from source, in order.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          check_mask(c, c.in(1));
          check_same_dtype(c, c.in(0), c.in(2));
          c.make_output(broadcast_sizes("masked_scatter", c.in(0).sizes(), c.in(1).sizes()),
                        c.in(0).dtype());
        },
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel = run_masked_scatter,
    .check = check_masked_scatter,
    .saved = Saved::input(1),
    .vjp = masked_scatter_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), sample_randn({3, 4}).gt(0), sample_randn({12})});
          s.add({sample_randn({3, 4}), sample_randn({4}).gt(0), sample_randn({4, 3})});
          s.error({sample_randn({3}), sample_randn({3}).gt(-99), sample_randn({2})},
                  "3 true elements but source only 2");
        },
    .writes_over = 1,
};

extern constinit const OpDef nonzero_op = {
    .schema = "nonzero(Tensor self) -> Tensor",
    .doc = "The coordinates of the elements that are not zero, one row each, in row-major order.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          c.make_unknown_output(kInt64);
        },
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel = run_nonzero,
    .vjp = no_gradient,
    .onnx = {"NonZero", 13},
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 2)});
          s.add_no_grad({sample_randn({4, 2}).transpose(0, 1).gt(0)});
          s.add_no_grad({sample_randn({})});
          s.add_no_grad({sample_randn({0, 3})});
          s.large([] { return Values{randn({4096, 1024}).gt(0)}; });
        },
};

extern constinit const OpDef argwhere_op = {
    .schema = "argwhere(Tensor self) -> Tensor",
    .doc = "nonzero under NumPy's name.",
    .compose = [](const Call& c) -> Tensors { return {c.in(0).nonzero()}; },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 2)});
        },
};

extern constinit const OpDef nonzero_numpy_op = {
    .schema = "nonzero_numpy(Tensor self) -> Tensor[]",
    .doc = "The coordinates of the elements that are not zero, one vector for each dim.",
    .compose = [](const Call& c) -> Tensors { return c.in(0).atleast_1d().nonzero().unbind(1); },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 2)});
          s.add_no_grad({sample_randn({})});
        },
};

extern constinit const OpDef where_nonzero_op = {
    .schema = "where(Tensor condition) -> Tensor[]",
    .doc = "The coordinates of the elements that are true, one vector for each dim.",
    .compose = [](const Call& c) -> Tensors { return c.in(0).nonzero_numpy(); },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({3, 4}).gt(0)});
        },
};

extern constinit const OpDef count_nonzero_op = {
    .schema = "count_nonzero(Tensor self, int[1]? dim=None) -> Tensor",
    .doc = "How many elements, over the given dims or of all, are not zero.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor is = c.in(0).ne(0);
      return {c.has_attr(0) ? is.sum(c.ints(0)) : is.sum()};
    },
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({3, 4}, 0, 2)});
          s.add_no_grad({sample_ints({3, 4}, 0, 2), 1});
          s.add_no_grad({sample_ints({3, 4, 2}, 0, 2), Value::ints({0, 2})});
        },
};

extern constinit const OpDef one_hot_op = {
    .schema = "one_hot(Tensor self, int num_classes=-1) -> Tensor",
    .doc = "A new last dim with 1 at the class and 0 elsewhere.",
    .kind = OpKind::Index,
    .infer = infer_one_hot,
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel = run_one_hot,
    .check = check_one_hot,
    .vjp = no_gradient,
    .onnx = {"OneHot", 11},
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({2, 3}, 0, 4)});
          s.add_no_grad({sample_ints({5}, 0, 4), 6});
          s.error({sample_ints({2}, 4, 5), 3}, "class 4 is not less than num_classes 3");
          s.error({sample_ints({2}, -1, 0)}, "must not be negative");
          s.error({sample_randn({2})}, "must be int64");
          s.large([] { return Values{randint(1024, {4096}), 1024}; });
        },
};

extern constinit const OpDef bincount_op = {
    .schema = "bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor",
    .doc = "How often each integer from 0 on occurs, or the sum of its weights.",
    .kind = OpKind::Index,
    .infer = infer_bincount,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_bincount,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_ints({8}, 0, 5)});
          s.add_no_grad({sample_ints({8}, 0, 5), sample_randn({8}), 7});
          s.error({sample_ints({2}, -2, -1)}, "must not be negative");
          s.error({sample_randn({2})}, "a vector of integers is needed");
        },
};

}  // namespace pellucid
