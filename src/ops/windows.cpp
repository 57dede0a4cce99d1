// Windows for spectra, and torch.range: vectors of regular values.
#include <cmath>
#include <initializer_list>
#include <numbers>

#include "ops/common.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

DType window_dtype(const Call& c, size_t at) {
  const DType type = c.dtype_if(at).value_or(get_default_dtype());
  PELLUCID_CHECK(is_floating(type), TypeError, "{}: the dtype must be a floating one, found {}.",
                 c.name(), type);
  return type;
}

// made(positions), where the positions run from 0 to `end` over the window, in float64; the last
// position belongs to a periodic window's next period.
template <class F> Tensor window(const Call& c, size_t dtype_at, double end, F made) {
  const int64_t length = c.integer(0);
  PELLUCID_CHECK(length >= 0, ValueError, "{}: window_length must not be negative, found {}.",
                 c.name(), length);
  const DType type = window_dtype(c, dtype_at);
  if (length <= 1) return ones({length}, type);
  const auto steps = static_cast<double>(c.flag(1) ? length : length - 1);
  return made(arange(length, kFloat64).mul(end / steps)).to(type);
}

// The sum of weights[k] cos(k x) over one turn.
Tensor cosines(const Call& c, size_t dtype_at, std::initializer_list<double> weights) {
  return window(c, dtype_at, 2 * std::numbers::pi, [&](const Tensor& x) {
    Tensor sum = zeros_like(x);
    double k = 0;
    for (const double weight : weights) {
      sum = sum.add(x.mul(k).cos().mul(weight));
      k += 1;
    }
    return sum;
  });
}

void window_samples(Samples& s) {
  s.add({5});
  s.add({6, false}, {{"dtype", kFloat64}});
  s.add({1});
  s.add({0});
  s.error({-1}, "window_length must not be negative");
  s.error({4}, "must be a floating one", {{"dtype", kInt64}});
}

Tensor compose_range(const Call& c) {
  const double start = c.number(0), end = c.number(1), step = c.number(2);
  PELLUCID_CHECK(std::isfinite(start) && std::isfinite(end) && std::isfinite(step), ValueError,
                 "range: start, end and step must be finite, found {}, {}, {}.", start, end, step);
  PELLUCID_CHECK(step != 0, ValueError, "range: step must not be 0.");
  PELLUCID_CHECK(step > 0 ? end >= start : end <= start, ValueError,
                 "range: from {} to {} a step of {} leads the wrong way.", start, end, step);
  const double count = std::floor((end - start) / step) + 1;
  PELLUCID_CHECK(count < 0x1p53, ValueError,
                 "range: from {} to {} by {} there are too many numbers.", start, end, step);
  const DType type = c.dtype_if(3).value_or(get_default_dtype());
  return arange(static_cast<int64_t>(count), kFloat64).mul(step).add(start).to(type);
}

}  // namespace

extern constinit const OpDef hann_window_op = {
    .schema =
        "hann_window(int window_length, bool periodic=True, *, ScalarType? dtype=None, Device? "
        "device=None) -> Tensor",
    .doc = "0.5 - 0.5 cos over one turn.",
    .kind = OpKind::Creation,
    .compose = [](const Call& c) -> Tensors {
      return {cosines(c, 2, {0.5, -0.5})};
    },
    .samples = window_samples,
};

extern constinit const OpDef hamming_window_op = {
    .schema =
        "hamming_window(int window_length, bool periodic=True, float alpha=0.54, float beta=0.46, "
        "*, ScalarType? dtype=None, Device? device=None) -> Tensor",
    .doc = "alpha - beta cos over one turn.",
    .kind = OpKind::Creation,
    .compose = [](const Call& c) -> Tensors {
      return {cosines(c, 4, {c.number(2), -c.number(3)})};
    },
    .samples =
        [](Samples& s) {
          window_samples(s);
          s.add({5, true, 0.6, 0.4});
        },
};

extern constinit const OpDef blackman_window_op = {
    .schema =
        "blackman_window(int window_length, bool periodic=True, *, ScalarType? dtype=None, Device? "
        "device=None) -> Tensor",
    .doc = "0.42 - 0.5 cos + 0.08 cos of the double over one turn.",
    .kind = OpKind::Creation,
    .compose = [](const Call& c) -> Tensors {
      return {cosines(c, 2, {0.42, -0.5, 0.08})};
    },
    .samples = window_samples,
};

extern constinit const OpDef bartlett_window_op = {
    .schema =
        "bartlett_window(int window_length, bool periodic=True, *, ScalarType? dtype=None, Device? "
        "device=None) -> Tensor",
    .doc = "A triangle from 0 to 1 and back.",
    .kind = OpKind::Creation,
    .compose = [](const Call& c) -> Tensors {
      return {window(c, 2, 2.0, [](const Tensor& x) { return x.sub(1).abs().neg().add(1); })};
    },
    .samples = window_samples,
};

extern constinit const OpDef kaiser_window_op = {
    .schema =
        "kaiser_window(int window_length, bool periodic=True, float beta=12.0, *, ScalarType? "
        "dtype=None, Device? device=None) -> Tensor",
    .doc = "i0(beta sqrt(1 - x^2)) / i0(beta) for x from -1 to 1.",
    .kind = OpKind::Creation,
    .compose = [](const Call& c) -> Tensors {
      const double beta = c.number(2);
      return {window(c, 3, 2.0, [&](const Tensor& x) {
        const Tensor heights = x.sub(1).square().neg().add(1).clamp_min(0).sqrt().mul(beta).i0();
        return heights.div(full({}, beta, kFloat64).i0());
      })};
    },
    .samples =
        [](Samples& s) {
          window_samples(s);
          s.add({5, true, 6.0}, {{"dtype", kFloat64}});
        },
};

extern constinit const OpDef range_op = {
    .schema =
        "range(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Device? "
        "device=None) -> Tensor",
    .doc = "Numbers from start to end, both included.",
    .kind = OpKind::Creation,
    .compose = [](const Call& c) -> Tensors { return {compose_range(c)}; },
    .samples =
        [](Samples& s) {
          s.add({1, 4});
          s.add({0.5, 2.0, 0.5}, {{"dtype", kFloat64}});
          s.add({3, 1, -1});
          s.error({1, 4, 0}, "step must not be 0");
          s.error({4, 1}, "leads the wrong way");
        },
};

}  // namespace pellucid
