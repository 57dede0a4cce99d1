// Tensors of regular values: ranges, the identity, triangle indices. Constant ones are in
// memory.cpp, random ones in creation_random.cpp.
#include <cmath>

#include "base/parallel.h"
#include "ops/common.h"
#include "ops/number_range.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

constexpr int64_t kGrain = 1 << 14;

Cost step_cost(const Call& c) {
  return {static_cast<double>(c.out().numel()), static_cast<double>(c.out().nbytes())};
}

/// start, end and step of an arange, from whichever overload was called.
struct Range {
  Scalar start = int64_t{0}, end, step = int64_t{1};
  std::optional<DType> dtype;
};

Range range_of(const Call& c, int numbers) {
  Range r;
  if (numbers == 1) {
    r.end = c.scalar(0);
  } else {
    r.start = c.scalar(0);
    r.end = c.scalar(1);
  }
  if (numbers == 3) r.step = c.scalar(2);
  r.dtype = c.dtype_if(static_cast<size_t>(numbers));
  return r;
}

int64_t range_length(const Range& r, DType dtype) {
  const double start = r.start.toDouble(), end = r.end.toDouble(), step = r.step.toDouble();
  PELLUCID_CHECK(std::isfinite(start) && std::isfinite(end) && std::isfinite(step), ValueError,
                 "arange: start, end and step must be finite, found {}, {}, {}.", r.start, r.end,
                 r.step);
  PELLUCID_CHECK(step != 0, ValueError, "arange: step must not be 0.");
  PELLUCID_CHECK(step > 0 ? end >= start : end <= start, ValueError,
                 "arange: from {} to {} a step of {} leads the wrong way.", r.start, r.end, r.step);
  if (!is_floating(dtype)) {
    PELLUCID_CHECK(std::abs(start) < 0x1p63 && std::abs(end) < 0x1p63 && std::abs(step) < 0x1p63,
                   ValueError, "arange: {}, {} and {} do not fit {}.", r.start, r.end, r.step,
                   dtype);
    PELLUCID_CHECK(r.step.toLong() != 0, ValueError, "arange: a step of {} is 0 in {}.", r.step,
                   dtype);
  }
  double n = std::ceil((end - start) / step);
  if (dtype == kInt64) {  // exact beyond 2^53
    const __int128 distance = static_cast<__int128>(r.end.toLong()) - r.start.toLong(),
                   by = r.step.toLong();
    const __int128 count = (distance + by - (by > 0 ? 1 : -1)) / by;
    n = static_cast<double>(count);
  }
  PELLUCID_CHECK(n < 0x1p62, ValueError,
                 "arange: from {} to {} by {} there are more than 2^62 numbers.", r.start, r.end,
                 r.step);
  return static_cast<int64_t>(n);
}

template <int numbers> void infer_arange(Call& c) {
  const Range r = range_of(c, numbers);
  const bool integers =
      !r.start.isFloatingPoint() && !r.end.isFloatingPoint() && !r.step.isFloatingPoint();
  const DType dtype = r.dtype.value_or(integers ? kInt64 : get_default_dtype());
  PELLUCID_CHECK(dtype != kBool, TypeError,
                 "arange: the dtype must be an integer or a floating one, found bool.");
  c.make_output({range_length(r, dtype)}, dtype);
}

// out[i] = f(i), computed in float64 (int64 where f gives that) and converted.
template <class F> void fill_by_index(const Tensor& out, F f) {
  visit(out.dtype(), [&](auto v) {
    using T = decltype(v);
    T* to = out.raw<T>();
    parallel_for(0, out.numel(), kGrain, [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) to[i] = Scalar(f(i)).template to<T>();
    });
  });
}

// out[i] = start + step * i in float64, for the two common types in a loop that is vectorised.
template <class T> void fill_line(T* to, int64_t n, double start, double step) {
  parallel_for(0, n, kGrain, [&](int64_t b, int64_t e) {
    for (int64_t block = b; block < e; block += kGrain) {
      const auto count = static_cast<int32_t>(std::min(kGrain, e - block));
      const auto base = static_cast<double>(
          block);  // the sum below is exact, and int32 converts faster than int64
      for (int32_t i = 0; i < count; ++i)
        to[block + i] = static_cast<T>(start + step * (base + static_cast<double>(i)));
    }
  });
}

template <int numbers> void run_arange(Call& c) {
  const Range r = range_of(c, numbers);
  if (!is_floating(c.out().dtype())) {
    const auto start = static_cast<uint64_t>(r.start.toLong()),
               step = static_cast<uint64_t>(r.step.toLong());
    fill_by_index(c.out(), [=](int64_t i) {
      return static_cast<int64_t>(start + step * static_cast<uint64_t>(i));
    });
  } else {
    const double start = r.start.toDouble(), step = r.step.toDouble();
    if (c.out().dtype() == kFloat32)
      return fill_line(c.out().raw<float>(), c.out().numel(), start, step);
    if (c.out().dtype() == kFloat64)
      return fill_line(c.out().raw<double>(), c.out().numel(), start, step);
    fill_by_index(c.out(), [=](int64_t i) { return start + step * static_cast<double>(i); });
  }
}

// From both ends towards the middle, so that the last number is exactly `end`.
double spaced(double start, double end, int64_t steps, int64_t i) {
  if (steps == 1) return start;
  const double step = (end - start) / static_cast<double>(steps - 1);
  return i < steps / 2 ? start + step * static_cast<double>(i)
                       : end - step * static_cast<double>(steps - 1 - i);
}

// Attributes: start, end, steps, [base,] dtype.
template <size_t dtype_at> void infer_space(Call& c) {
  PELLUCID_CHECK(c.integer(2) >= 0, ValueError, "{}: steps must not be negative, found {}.",
                 c.name(), c.integer(2));
  c.make_output({c.integer(2)}, c.dtype_if(dtype_at).value_or(get_default_dtype()));
}

template <bool two> void infer_eye(Call& c) {
  c.make_output({c.integer(0), two ? c.integer(1) : c.integer(0)},
                c.dtype_if(two ? 2 : 1).value_or(get_default_dtype()));
}

void run_eye(Call& c) {
  const Tensor& out = c.out();
  visit(out.dtype(), [&](auto v) {
    using T = decltype(v);
    T* to = out.raw<T>();
    std::fill_n(to, out.numel(), T(0));
    const int64_t columns = out.size(1);
    for (int64_t i = 0; i < std::min(out.size(0), columns); ++i) to[i * (columns + 1)] = T(1);
  });
}

// The columns of row r that belong to the triangle: [first, last).
std::pair<int64_t, int64_t> triangle_row(int64_t r, int64_t columns, int64_t offset, bool lower) {
  const int64_t edge = std::clamp<int64_t>(r + offset + (lower ? 1 : 0), 0, columns);
  return lower ? std::pair<int64_t, int64_t>(0, edge) : std::pair(edge, columns);
}

// How many elements of the lower triangle there are, without walking the rows.
__int128 lower_count(int64_t rows, int64_t columns, int64_t offset) {
  const int64_t first = std::clamp<int64_t>(-offset, 0, rows);  // rows before have none
  const int64_t full =
      std::clamp<int64_t>(columns - offset - 1, first, rows);  // rows from here on have all
  const __int128 partial =
      static_cast<__int128>(full - first) * (first + offset + 1 + full + offset) / 2;
  return partial + static_cast<__int128>(rows - full) * columns;
}

template <bool lower> void infer_triangle_indices(Call& c) {
  const int64_t rows = c.integer(0), columns = c.integer(1), offset = c.integer(2);
  constexpr int64_t most = int64_t{1} << 60;
  PELLUCID_CHECK(rows >= 0 && columns >= 0, ValueError,
                 "{}: row and col must not be negative, found {} and {}.", c.name(), rows, columns);
  PELLUCID_CHECK(rows < most && columns < most && offset > -most && offset < most, ValueError,
                 "{}: row {}, col {} and offset {} must be below 2^60.", c.name(), rows, columns,
                 offset);
  const __int128 count =
      lower ? lower_count(rows, columns, offset)
            : static_cast<__int128>(rows) * columns - lower_count(rows, columns, offset - 1);
  PELLUCID_CHECK(count < most, ValueError,
                 "{}: the triangle of a {} x {} matrix has more than 2^60 elements.", c.name(),
                 rows, columns);
  const DType dtype = c.dtype_if(3).value_or(kInt64);
  PELLUCID_CHECK(dtype == kInt64 || dtype == kInt32, TypeError,
                 "{}: the dtype must be int64 or int32, found {}.", c.name(), dtype);
  c.make_output({2, static_cast<int64_t>(count)}, dtype);
}

template <bool lower> void run_triangle_indices(Call& c) {
  const int64_t count = c.out().size(1), rows = c.integer(0);
  if (count == 0) return;
  // The rows that have elements: no others are walked, there may be 2^60 of them.
  const int64_t begin = lower ? std::clamp<int64_t>(-c.integer(2), 0, rows) : 0;
  const int64_t end = lower ? rows : std::clamp<int64_t>(c.integer(1) - c.integer(2), 0, rows);
  const auto write = [&](auto* to) {
    int64_t at = 0;
    for (int64_t r = begin; r < end; ++r) {
      const auto [first, last] = triangle_row(r, c.integer(1), c.integer(2), lower);
      for (int64_t k = first; k < last; ++k, ++at) {
        to[at] = static_cast<std::remove_reference_t<decltype(*to)>>(r);
        to[count + at] = static_cast<std::remove_reference_t<decltype(*to)>>(k);
      }
    }
  };
  if (c.out().dtype() == kInt64)
    write(c.out().raw<int64_t>());
  else
    write(c.out().raw<int32_t>());
}

}  // namespace

extern constinit const OpDef arange_op = {
    .schema = "arange(Scalar end, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    .doc = "0, 1, 2… below end.",
    .kind = OpKind::Creation,
    .infer = infer_arange<1>,
    .cost = step_cost,
    .kernel = run_arange<1>,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({5});
          s.add({2.5});
          s.add({0});
          s.error({-1}, "leads the wrong way");
          s.error({5}, "found bool", {{"dtype", kBool}});
          s.large([] { return Values{int64_t{1} << 22}; }, {{"dtype", kFloat32}});
        },
    .structural_attrs = 0b1,  // they say how many there are
};

extern constinit const OpDef arange_start_op = {
    .schema =
        "arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Device? device=None) -> "
        "Tensor",
    .doc = "start, start + 1… below end.",
    .kind = OpKind::Creation,
    .infer = infer_arange<2>,
    .cost = step_cost,
    .kernel = run_arange<2>,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({2, 5});
          s.add({0.5, 3});
          s.error({3, 2}, "leads the wrong way");
        },
    .structural_attrs = 0b11,  // they say how many there are
};

extern constinit const OpDef arange_step_op = {
    .schema =
        "arange.start_step(Scalar start, Scalar end, Scalar step, *, ScalarType? dtype=None, "
        "Device? device=None) -> Tensor",
    .doc = "start, start + step, start + 2 step… before end.",
    .kind = OpKind::Creation,
    .infer = infer_arange<3>,
    .cost = step_cost,
    .kernel = run_arange<3>,
    .vjp = no_gradient,
    .onnx = {"Range", 11},
    .samples =
        [](Samples& s) {
          s.add({0, 10, 3});
          s.add({5, 0, -2});
          s.add({0.0, 1.0, 0.25});
          s.add({0, 10, 3}, {{"dtype", kFloat64}});
          s.error({0, 5, 0}, "step must not be 0");
          s.error({0, 5, -1}, "leads the wrong way");
        },
    .structural_attrs = 0b111,  // they say how many there are
};

extern constinit const OpDef linspace_op = {
    .schema =
        "linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Device? "
        "device=None) -> Tensor",
    .doc = "`steps` evenly spaced numbers from start to end, both included.",
    .kind = OpKind::Creation,
    .infer = infer_space<3>,
    .cost = step_cost,
    .kernel =
        [](Call& c) {
          const double start = c.scalar(0).toDouble(), end = c.scalar(1).toDouble();
          fill_by_index(c.out(),
                        [=, n = c.integer(2)](int64_t i) { return spaced(start, end, n, i); });
        },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({0, 1, 5});
          s.add({-1.5, 3, 1});
          s.add({3, -3, 4}, {{"dtype", kFloat64}});
          s.add({0, 10, 5}, {{"dtype", kInt64}});
          s.error({0, 1, -1}, "steps must not be negative");
          s.large([] { return Values{0, 1, int64_t{1} << 22}; });
        },
};

extern constinit const OpDef logspace_op = {
    .schema =
        "logspace(Scalar start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, "
        "Device? device=None) -> Tensor",
    .doc = "base to the power of evenly spaced numbers from start to end.",
    .kind = OpKind::Creation,
    .infer = infer_space<4>,
    .cost = step_cost,
    .kernel =
        [](Call& c) {
          const double start = c.scalar(0).toDouble(), end = c.scalar(1).toDouble(),
                       base = c.number(3);
          fill_by_index(c.out(), [=, n = c.integer(2)](int64_t i) {
            return std::pow(base, spaced(start, end, n, i));
          });
        },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({0, 3, 4});
          s.add({-2, 2, 5, 2.0}, {{"dtype", kFloat64}});
          s.error({0, 1, -1}, "steps must not be negative");
        },
};

extern constinit const OpDef eye_op = {
    .schema = "eye(int n, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    .doc = "The n x n matrix with ones on the diagonal.",
    .kind = OpKind::Creation,
    .infer = infer_eye<false>,
    .cost = step_cost,
    .kernel = run_eye,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({3});
          s.add({0});
          s.add({2}, {{"dtype", kBool}});
          s.error({-1}, "sizes must not be negative");
        },
};

extern constinit const OpDef eye_m_op = {
    .schema = "eye.m(int n, int m, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    .doc = "The n x m matrix with ones on the diagonal.",
    .kind = OpKind::Creation,
    .infer = infer_eye<true>,
    .cost = step_cost,
    .kernel = run_eye,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({2, 3});
          s.add({3, 2}, {{"dtype", kInt64}});
        },
};

extern constinit const OpDef tril_indices_op = {
    .schema =
        "tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=int64, Device? "
        "device=None) -> Tensor",
    .doc = "Rows and columns, as a [2, n] tensor, of the lower triangle of a row x col matrix.",
    .kind = OpKind::Creation,
    .infer = infer_triangle_indices<true>,
    .cost = step_cost,
    .kernel = run_triangle_indices<true>,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({3, 3});
          s.add({4, 3, -1});
          s.error({-1, 3}, "must not be negative");
        },
};

extern constinit const OpDef triu_indices_op = {
    .schema =
        "triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=int64, Device? "
        "device=None) -> Tensor",
    .doc = "Rows and columns, as a [2, n] tensor, of the upper triangle of a row x col matrix.",
    .kind = OpKind::Creation,
    .infer = infer_triangle_indices<false>,
    .cost = step_cost,
    .kernel = run_triangle_indices<false>,
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({3, 3});
          s.add({4, 3, 1});
          s.error({-1, 3}, "must not be negative");
        },
};

extern constinit const OpDef scalar_tensor_op = {
    .schema = "scalar_tensor(Scalar s, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    .doc = "A number as a tensor without dimensions.",
    .kind = OpKind::Creation,
    .infer =
        [](Call& c) {
          const DType dtype = c.dtype_if(1).value_or(get_default_dtype());
          check_fits("scalar_tensor", c.scalar(0), dtype);
          c.make_output({}, dtype);
        },
    .cost = step_cost,
    .kernel = [](Call& c) { fill_by_index(c.out(), [&](int64_t) { return c.scalar(0); }); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({2.5});
          s.add({3}, {{"dtype", kInt64}});
        },
};

}  // namespace pellucid
