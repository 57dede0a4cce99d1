// The op that makes a batch out of a data set in memory.
#include "kernels/gather_normalize.h"
#include "kernels/index.h"
#include "ops/common.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

// Inputs self, index, mean, std; attribute scale.
void infer(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "index");
  const Tensor &self = c.in(0), &index = c.in(1);
  PELLUCID_CHECK(self.dtype() == kUInt8 || self.dtype() == kFloat32, TypeError,
                 "gather_normalize: 'self' must be uint8 or float32, found {}.", self.dtype());
  PELLUCID_CHECK(self.dim() >= 2, ShapeError,
                 "gather_normalize: 'self' must have at least 2 dimensions (rows, channels), found "
                 "sizes {}.",
                 self.sizes());
  PELLUCID_CHECK(index.dim() == 1 && index.dtype() == kInt64, TypeError,
                 "gather_normalize: 'index' must be a 1-dimensional int64 tensor, found {}.",
                 describe(index));
  PELLUCID_CHECK(c.has_in(2) == c.has_in(3), ValueError,
                 "gather_normalize: give 'mean' and 'std', or neither.");
  for (size_t i = 2; i < 4 && c.has_in(i); ++i)
    PELLUCID_CHECK(
        c.in(i).dtype() == kFloat32 && c.in(i).dim() == 1 && c.in(i).numel() == self.size(1),
        ShapeError,
        "gather_normalize: '{}' must be float32 with one number a channel ({}), found "
        "{}.",
        i == 2 ? "mean" : "std", self.size(1), describe(c.in(i)));
  Dims sizes(self.sizes());
  sizes[0] = index.numel();
  c.make_output(sizes, kFloat32);
}

Tensor checked_rows(const Call& c) {
  Tensor index = contiguous_values(c.in(1));
  const int64_t rows = c.in(0).size(0);
  const int64_t bad = kernels::first_bad_index(index.raw<int64_t>(), index.sizes(),
                                               index.raw_strides(), rows, false);
  PELLUCID_CHECK(bad < 0, IndexError,
                 "gather_normalize: index {} at position {} is outside the {} rows of 'self'.",
                 index.raw<int64_t>()[bad], bad, rows);
  return index;
}

void run(Call& c) {
  const NoGradGuard off;
  const Tensor self = contiguous_values(c.in(0)), index = checked_rows(c);
  const Tensor mean = c.has_in(2) ? contiguous_values(c.in(2)) : Tensor();
  const Tensor stddev = c.has_in(3) ? contiguous_values(c.in(3)) : Tensor();
  const int64_t channels = self.size(1);
  if (c.out().numel() == 0) return;
  kernels::gather_normalize(self.dtype(), self.raw_data(), index.raw<int64_t>(), index.numel(),
                            channels, c.out().numel() / index.numel() / channels,
                            static_cast<float>(c.number(0)),
                            mean.defined() ? mean.raw<float>() : nullptr,
                            stddev.defined() ? stddev.raw<float>() : nullptr, c.out().raw<float>());
}

}  // namespace

extern constinit const OpDef gather_normalize_op = {
    .schema =
        "gather_normalize(Tensor self, Tensor index, Tensor? mean, Tensor? std, "
        "float scale=1) -> Tensor",
    .doc =
        "(self[index] / scale - mean) / std in float32, with one mean and std a channel (dim 1): "
        "a batch of images out of a data set. No gradient flows.",
    .kind = OpKind::Index,
    .infer = infer,
    .cost =
        [](const Call& c) {
          const auto n = static_cast<double>(c.out().numel());
          return Cost{3 * n, n * static_cast<double>(c.in(0).element_size() + 4)};
        },
    .kernel = run,
    .check = [](const Call& c) { checked_rows(c); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          const Tensor bytes = sample_ints({5, 2, 3}, 0, 256).to(kUInt8);
          const Tensor index = sample_ints({4}, 0, 5);
          const Tensor mean = full({2}, 0.5, kFloat32), deviation = full({2}, 0.25, kFloat32);
          s.add_no_grad({bytes, index, mean, deviation}, {{"scale", 255.0}});
          s.add_no_grad({bytes, index, Value(), Value()});
          s.error({bytes, full({1}, 5, kInt64), Value(), Value()}, "outside the 5 rows");
          s.error({bytes.to(kInt64), index, Value(), Value()}, "must be uint8 or float32");
          s.error({bytes, index, mean, Value()}, "or neither");
          s.error({bytes, index, ones({3}, kFloat32), ones({3}, kFloat32)},
                  "one number a channel (2)");
        }};

}  // namespace pellucid
