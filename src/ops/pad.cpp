// Padding: constant_pad_nd fills the borders with a number; _pad_map reads them from inside the
// tensor (reflect, replicate, circular). `pad` chooses between them. Pads come in pairs (left,
// right), the last dim's first, and may be negative, which crops.
#include <cstring>

#include "base/parallel.h"
#include "kernels/convert.h"
#include "kernels/copy.h"
#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

constexpr int64_t kPadGrain =
    1 << 15;  // elements that one thread moves in about the time of a fork and join

constexpr int64_t kMostPad = int64_t{1} << 62;

/// Left and right padding of each dim.
struct Pads {
  Dims left, right;
};

Pads pads_of(std::string_view op, IntArrayRef pad, int64_t ndim) {
  PELLUCID_CHECK(pad.size() % 2 == 0, ValueError,
                 "{}: pad needs two numbers for each padded dim, found {}.", op, pad);
  PELLUCID_CHECK(pad.size() / 2 <= static_cast<size_t>(ndim), ValueError,
                 "{}: pad {} is for {} dims but the tensor has {}.", op, pad, pad.size() / 2, ndim);
  const auto n = static_cast<size_t>(ndim);
  for (int64_t by : pad)
    PELLUCID_CHECK(by > -kMostPad && by < kMostPad, ValueError, "{}: pad {} is beyond 2^62.", op,
                   pad);
  Pads p{Dims(n, 0), Dims(n, 0)};
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    p.left[n - 1 - i] = pad[2 * i];
    p.right[n - 1 - i] = pad[2 * i + 1];
  }
  return p;
}

Dims padded_sizes(std::string_view op, IntArrayRef sizes, const Pads& p, IntArrayRef pad) {
  Dims out(sizes);
  for (size_t d = 0; d < sizes.size(); ++d) {
    PELLUCID_CHECK(!__builtin_add_overflow(out[d], p.left[d], &out[d]) &&
                       !__builtin_add_overflow(out[d], p.right[d], &out[d]),
                   ValueError, "{}: pad {} is too large for sizes {}.", op, pad, sizes);
    PELLUCID_CHECK(out[d] >= 0, ValueError, "{}: pad {} would give dim {} the size {} (sizes {}).",
                   op, pad, d, out[d], sizes);
  }
  return out;
}

void run_constant_pad(Call& c) {
  const detail::TensorImpl& from = c.in(0).impl();
  const detail::TensorImpl& to = c.out().impl();
  if (to.numel == 0) return;
  const Pads p = pads_of("constant_pad_nd", c.ints(0), c.in(0).dim());
  const int64_t bytes = element_size(to.dtype);
  char* const out = static_cast<char*>(to.data());
  // What of the result comes from self: [start, start + length) of each dim.
  Dims start(to.sizes.size(), 0), length(to.sizes.size(), 0);
  int64_t read = 0, write = 0;
  bool any = true;
  for (size_t d = 0; d < to.sizes.size(); ++d) {
    const int64_t first = std::max<int64_t>(p.left[d], 0),
                  last = std::min(to.sizes[d], from.sizes[d] + p.left[d]);
    start[d] = first;
    length[d] = std::max<int64_t>(last - first, 0);
    any = any && length[d] > 0;
    write += first * to.strides[d];
    read += std::max<int64_t>(-p.left[d], 0) * from.strides[d];
  }
  visit(to.dtype, [&](auto v) {
    using T = decltype(v);
    const T value = c.scalar(1).to<T>();
    const auto fill = [&](IntArrayRef sizes, int64_t offset) {
      for (int64_t n : sizes)
        if (n == 0) return;
      kernels::fill_strided(sizes, out + offset * bytes, to.dtype, to.strides.data(), &value);
    };
    if (!any) return fill(to.sizes, 0);
    // The border of dim d, over the inside of the dims before it: every element is written once.
    Dims sizes(to.sizes);
    int64_t inside = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      sizes[d] = start[d];
      fill(sizes, inside);
      sizes[d] = to.sizes[d] - start[d] - length[d];
      fill(sizes, inside + (start[d] + length[d]) * to.strides[d]);
      sizes[d] = length[d];
      inside += start[d] * to.strides[d];
    }
  });
  if (any)
    kernels::copy_strided(length, out + write * bytes, to.dtype, to.strides.data(),
                          static_cast<const char*>(from.data()) + read * bytes, from.dtype,
                          from.strides.data());
}

enum class PadMode : uint8_t { Reflect, Replicate, Circular };

PadMode pad_mode(std::string_view mode) {
  if (mode == "reflect") return PadMode::Reflect;
  if (mode == "replicate") return PadMode::Replicate;
  PELLUCID_CHECK(mode == "circular", ValueError,
                 "pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', found '{}'.",
                 mode);
  return PadMode::Circular;
}

// What negative pads leave of a dim. Circular padding repeats that, as PyTorch does.
int64_t left_over(int64_t size, const Pads& p, size_t d) {
  return size + std::min<int64_t>(p.left[d], 0) + std::min<int64_t>(p.right[d], 0);
}

Dims mapped_sizes(IntArrayRef sizes, IntArrayRef pad, std::string_view mode_name) {
  const PadMode mode = pad_mode(mode_name);
  PELLUCID_CHECK(!pad.empty(), ValueError,
                 "pad: '{}' padding needs two numbers for at least one dim, pad is empty.",
                 mode_name);
  const Pads p = pads_of("pad", pad, static_cast<int64_t>(sizes.size()));
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t most = std::max(p.left[d], p.right[d]),
                  n = mode == PadMode::Circular ? left_over(sizes[d], p, d) : sizes[d];
    const bool fits = most <= 0 || (mode == PadMode::Replicate ? n > 0
                                    : mode == PadMode::Reflect ? most < n
                                                               : most <= n);
    PELLUCID_CHECK(fits, ValueError,
                   "pad: '{}' padding of dim {} must be {} its size {}, found {} (sizes {}).",
                   mode_name, d, mode == PadMode::Reflect ? "less than" : "at most", n, most,
                   sizes);
  }
  return padded_sizes("pad", sizes, p, pad);
}

// For each dim, the offset in the unpadded tensor that each index of the padded one reads.
std::vector<std::vector<int64_t>> offset_tables(IntArrayRef padded, IntArrayRef sizes,
                                                IntArrayRef strides, const Pads& p, PadMode mode) {
  std::vector<std::vector<int64_t>> tables(padded.size());
  for (size_t d = 0; d < padded.size(); ++d) {
    for (int64_t i = 0; i < padded[d]; ++i) {
      int64_t at = i - p.left[d];
      const int64_t n = sizes[d];
      switch (mode) {
        case PadMode::Reflect:
          at = at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
          break;
        case PadMode::Replicate:
          at = std::clamp<int64_t>(at, 0, n - 1);
          break;
        case PadMode::Circular: {
          const int64_t first = std::max<int64_t>(-p.left[d], 0), kept = left_over(n, p, d);
          at = at < first ? at + kept : at >= first + kept ? at - kept : at;
          break;
        }
      }
      tables[d].push_back(at * strides[d]);
    }
  }
  return tables;
}

// Offset of row `row` of the padded tensor (all dims but the last) in the unpadded one.
int64_t row_offset(const std::vector<std::vector<int64_t>>& tables, int64_t row) {
  int64_t offset = 0;
  for (size_t d = tables.size() - 1; d-- > 0;) {
    const auto n = static_cast<int64_t>(tables[d].size());
    offset += tables[d][static_cast<size_t>(row % n)];
    row /= n;
  }
  return offset;
}

template <class E>
void map_rows(const std::vector<std::vector<int64_t>>& tables, int64_t rows, const E* from, E* to) {
  const std::vector<int64_t>& last = tables.back();
  const auto columns = static_cast<int64_t>(last.size());
  // A run from `first` on that is side by side in the source, mostly the inside of the row: copied
  // at once.
  int64_t first = 0;
  while (first + 1 < columns &&
         last[static_cast<size_t>(first + 1)] != last[static_cast<size_t>(first)] + 1)
    ++first;
  int64_t end = first + 1;
  while (end < columns && last[static_cast<size_t>(end)] == last[static_cast<size_t>(end - 1)] + 1)
    ++end;
  parallel_for(0, rows, std::max<int64_t>(1, kPadGrain / columns), [&](int64_t b, int64_t e) {
    for (int64_t r = b; r < e; ++r) {
      const E* source = from + row_offset(tables, r);
      E* row = to + r * columns;
      for (int64_t i = 0; i < first; ++i) row[i] = source[last[static_cast<size_t>(i)]];
      std::memcpy(row + first, source + last[static_cast<size_t>(first)],
                  static_cast<size_t>(end - first) * sizeof(E));
      for (int64_t i = end; i < columns; ++i) row[i] = source[last[static_cast<size_t>(i)]];
    }
  });
}

void run_pad_map(Call& c) {
  const detail::TensorImpl& from = c.in(0).impl();
  const detail::TensorImpl& to = c.out().impl();
  if (to.numel == 0) return;
  const auto tables = offset_tables(to.sizes, from.sizes, from.strides,
                                    pads_of("pad", c.ints(0), c.in(0).dim()), pad_mode(c.text(1)));
  const int64_t rows = to.numel / to.sizes.back();
  switch (element_size(to.dtype)) {
    case 1:
      return map_rows(tables, rows, c.in(0).raw<uint8_t>(), c.out().raw<uint8_t>());
    case 2:
      return map_rows(tables, rows, c.in(0).raw<uint16_t>(), c.out().raw<uint16_t>());
    case 4:
      return map_rows(tables, rows, c.in(0).raw<uint32_t>(), c.out().raw<uint32_t>());
    default:
      return map_rows(tables, rows, c.in(0).raw<uint64_t>(), c.out().raw<uint64_t>());
  }
}

// Sums each padded element into the one it was read from. Leading dims without padding are
// independent of each other: they are the chunks of parallel work.
template <class T>
void sum_back(const Tensor& grad, const Tensor& out, const Pads& p, PadMode mode) {
  std::memset(out.raw_data(), 0, out.nbytes());
  if (grad.numel() == 0) return;
  const IntArrayRef sizes = out.sizes(), padded = grad.sizes();
  size_t first = 0;
  int64_t outer = 1;
  while (first + 1 < sizes.size() && p.left[first] == 0 && p.right[first] == 0)
    outer *= sizes[first++];
  const auto tables =
      offset_tables(padded.slice(first), sizes.slice(first), out.raw_strides().slice(first),
                    {Dims(p.left.ref().slice(first)), Dims(p.right.ref().slice(first))}, mode);
  const std::vector<int64_t>& last = tables.back();
  const int64_t each = grad.numel() / outer, each_out = out.numel() / outer;
  const auto columns = static_cast<int64_t>(last.size());
  parallel_for(0, outer, std::max<int64_t>(1, kPadGrain / each), [&](int64_t b, int64_t e) {
    for (int64_t o = b; o < e; ++o) {
      for (int64_t r = 0; r < each / columns; ++r) {
        const T* from = grad.raw<T>() + o * each + r * columns;
        T* to = out.raw<T>() + o * each_out + row_offset(tables, r);
        for (int64_t i = 0; i < columns; ++i) to[last[static_cast<size_t>(i)]] += from[i];
      }
    }
  });
}

void run_pad_map_backward(Call& c) {
  const Tensor& out = c.out();
  const Pads p = pads_of("pad", c.ints(1), out.dim());
  const PadMode mode = pad_mode(c.text(2));
  if (out.dtype() == kFloat64) return sum_back<double>(contiguous_values(c.in(0)), out, p, mode);
  if (out.dtype() == kFloat32) return sum_back<float>(contiguous_values(c.in(0)), out, p, mode);
  const Tensor sums = empty(out.sizes(), kFloat32);
  sum_back<float>(contiguous_values(c.in(0).to(kFloat32)), sums, p, mode);
  kernels::block_converter(out.dtype(), kFloat32)(out.raw_data(), sums.raw_data(), out.numel());
}

}  // namespace

extern constinit const OpDef constant_pad_nd_op = {
    .schema = "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
    .doc =
        "Adds borders of a constant; pad gives (left, right) of the last dim, then of the one "
        "before it, and so on.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          const Pads p = pads_of("constant_pad_nd", c.ints(0), c.in(0).dim());
          c.make_output(padded_sizes("constant_pad_nd", c.in(0).sizes(), p, c.ints(0)),
                        c.in(0).dtype());
        },
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel = run_constant_pad,
    .vjp = [](const Vjp& v) -> Tensors {
      Dims pad(v.ints(0));
      for (int64_t& n : pad) n = -n;
      return {constant_pad_nd(v.grad, pad, 0)};
    },
    .onnx = {"Pad", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), Value::ints({1, 2})});
          s.add({sample_randn({2, 3}), Value::ints({1, -1, 0, 2}), 0.5});
          s.add({sample_randn({3, 2}).transpose(0, 1), Value::ints({-1, 1})});
          s.add({sample_randn({0, 2}), Value::ints({0, 1, 1, 1})});
          s.add_no_grad({sample_ints({3}, 0, 9), Value::ints({1, 1}), 7});
          s.error({sample_randn({2, 3}), Value::ints({1})}, "two numbers for each padded dim");
          s.error({sample_randn({3}), Value::ints({1, 1, 1, 1})},
                  "is for 2 dims but the tensor has 1");
          s.error({sample_randn({2, 3}), Value::ints({-2, -2})}, "would give dim 1 the size -1");
          s.large([] { return Values{randn({16, 64, 56, 56}), Value::ints({1, 1, 1, 1})}; });
        },
};

extern constinit const OpDef pad_map_op = {
    .schema = "_pad_map(Tensor self, int[] pad, str mode) -> Tensor",
    .doc =
        "Adds borders read from inside the tensor: mirrored, repeated from the edge, or from the "
        "other end.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          c.make_output(mapped_sizes(c.in(0).sizes(), c.ints(0), c.text(1)), c.in(0).dtype());
        },
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel = run_pad_map,
    .vjp = [](const Vjp& v) -> Tensors {
      return {_pad_map_backward(v.grad, v.in_sizes(0), v.ints(0), v.text(1))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 4}), Value::ints({2, 1}), "reflect"});
          s.add({sample_randn({2, 3, 3}), Value::ints({1, 3, 0, 2}), "replicate"});
          s.add({sample_randn({4, 2, 1}).transpose(0, 1), Value::ints({0, 1, 4, 2}), "circular"});
          s.add({sample_randn({4, 4}), Value::ints({-1, 1, 2, -2}), "circular"});
          s.error({sample_randn({2, 3}), Value::ints({3, 0}), "reflect"},
                  "must be less than its size 3");
          s.error({sample_randn({2, 3}), Value::ints({1, 0}), "mirror"}, "mode must be");
        },
};

extern constinit const OpDef pad_map_backward_op = {
    .schema =
        "_pad_map_backward(Tensor grad_output, int[] input_sizes, int[] pad, str mode) -> Tensor",
    .doc = "Sums the gradient of each padded element into the element it was read from.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          check_floating(c, c.in(0), "grad_output");
          const Dims padded = mapped_sizes(c.ints(0), c.ints(1), c.text(2));
          PELLUCID_CHECK(c.in(0).sizes() == padded.ref(), ShapeError,
                         "_pad_map_backward: grad_output must have sizes {}, found {}.", padded,
                         c.in(0).sizes());
          c.make_output(c.ints(0), c.in(0).dtype());
        },
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_pad_map_backward,
    .vjp = [](const Vjp& v) -> Tensors { return {_pad_map(v.grad, v.ints(1), v.text(2))}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 7}), Value::ints({2, 4}), Value::ints({2, 1}), "reflect"});
          s.error({sample_randn({2, 6}), Value::ints({2, 4}), Value::ints({2, 1}), "reflect"},
                  "must have sizes [2, 7]");
        },
};

extern constinit const OpDef pad_op = {
    .schema = "pad(Tensor self, int[] pad, str mode='constant', float? value=None) -> Tensor",
    .doc =
        "Adds borders: of a constant, mirrored ('reflect'), from the edge ('replicate') or from "
        "the other end ('circular').",
    .compose = [](const Call& c) -> Tensors {
      if (c.text(1) == "constant")
        return {constant_pad_nd(c.in(0), c.ints(0), c.has_attr(2) ? c.number(2) : 0.0)};
      PELLUCID_CHECK(!c.has_attr(2) || c.number(2) == 0, ValueError,
                     "pad: value is for mode 'constant' alone, found it with '{}'.", c.text(1));
      pad_mode(c.text(1));
      return {c.ints(0).empty() ? c.in(0).clone() : _pad_map(c.in(0), c.ints(0), c.text(1))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), Value::ints({1, 2})});
          s.add({sample_randn({2, 3}), Value::ints({1, 2})}, {{"value", 1.5}});
          s.add({sample_randn({2, 4}), Value::ints({2, 1}), "reflect"});
          s.add({sample_randn({1, 2, 3, 3}), Value::ints({1, 1, 2, 0}), "replicate"});
          s.add({sample_randn({1, 3, 4}), Value::ints({4, 1}), "circular"});
          s.error({sample_randn({2, 3}), Value::ints({1, 0}), "mirror"}, "found 'mirror'");
          s.large([] {
            return Values{randn({16, 64, 56, 56}), Value::ints({1, 1, 1, 1}), "reflect"};
          });
        },
};

}  // namespace pellucid
