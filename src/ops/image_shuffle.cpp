// Rearrangements of channels: pixels to channels and back, groups mixed.
#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

// The sizes before the last three dims, then `last`.
Dims with_last(const Tensor& t, std::initializer_list<int64_t> last) {
  Dims sizes(t.sizes().slice(0, t.sizes().size() - 3));
  for (const int64_t n : last) sizes.push_back(n);
  return sizes;
}

// The dims before the last five stay, the others come in the order given.
Tensor reordered(const Tensor& t, std::initializer_list<int64_t> order) {
  Dims dims;
  const int64_t first = t.dim() - 5;
  for (int64_t d = 0; d < first; ++d) dims.push_back(d);
  for (const int64_t d : order) dims.push_back(first + d);
  return t.permute(dims);
}

void check_image(const Call& c, std::string_view factor) {
  check_defined(c, 0, "self");
  PELLUCID_CHECK(c.in(0).dim() >= 3, ShapeError,
                 "{}: self must have at least 3 dimensions, found sizes {}.", c.name(),
                 c.in(0).sizes());
  PELLUCID_CHECK(c.integer(0) > 0, ValueError, "{}: {} must be positive, found {}.", c.name(),
                 factor, c.integer(0));
  // So that no product of it with sizes passes 2^63.
  PELLUCID_CHECK(c.integer(0) < 1 << 16, ValueError, "{}: {} must be below 65536, found {}.",
                 c.name(), factor, c.integer(0));
}

Tensor compose_pixel_shuffle(const Call& c) {
  check_image(c, "upscale_factor");
  const Tensor& x = c.in(0);
  const int64_t r = c.integer(0), channels = x.size(-3), h = x.size(-2), w = x.size(-1);
  PELLUCID_CHECK(channels % (r * r) == 0, ShapeError,
                 "pixel_shuffle: the number of channels must be divisible by the square of "
                 "upscale_factor, found sizes {} and {}.",
                 x.sizes(), r);
  const int64_t left = channels / (r * r);
  return reordered(x.reshape(with_last(x, {left, r, r, h, w})), {0, 3, 1, 4, 2})
      .reshape(with_last(x, {left, h * r, w * r}));
}

Tensor compose_pixel_unshuffle(const Call& c) {
  check_image(c, "downscale_factor");
  const Tensor& x = c.in(0);
  const int64_t r = c.integer(0), channels = x.size(-3), h = x.size(-2), w = x.size(-1);
  PELLUCID_CHECK(h % r == 0 && w % r == 0, ShapeError,
                 "pixel_unshuffle: height and width must be divisible by downscale_factor, found "
                 "sizes {} and {}.",
                 x.sizes(), r);
  return reordered(x.reshape(with_last(x, {channels, h / r, r, w / r, r})), {0, 2, 4, 1, 3})
      .reshape(with_last(x, {channels * r * r, h / r, w / r}));
}

Tensor compose_channel_shuffle(const Call& c) {
  check_image(c, "groups");
  const Tensor& x = c.in(0);
  const int64_t groups = c.integer(0);
  PELLUCID_CHECK(x.size(1) % groups == 0, ShapeError,
                 "channel_shuffle: the number of channels must be divisible by groups, found sizes "
                 "{} and {}.",
                 x.sizes(), groups);
  Dims sizes(x.sizes().slice(0, 1));
  sizes.push_back(groups), sizes.push_back(x.size(1) / groups);
  for (int64_t d = 2; d < x.dim(); ++d) sizes.push_back(x.size(d));
  return x.reshape(sizes).transpose(1, 2).reshape(x.sizes());
}

}  // namespace

extern constinit const OpDef pixel_shuffle_op = {
    .schema = "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
    .doc = "[…, C r^2, H, W] to […, C, H r, W r].",
    .compose = [](const Call& c) -> Tensors { return {compose_pixel_shuffle(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 8, 2, 3}), 2});
          s.add({sample_randn({4, 1, 2}), 2});
          s.error({sample_randn({1, 3, 2, 2}), 2}, "divisible by the square of upscale_factor");
          s.error({sample_randn({1, 4, 2, 2}), 0}, "must be positive");
          s.error({sample_randn({4, 4}), 2}, "at least 3 dimensions");
        },
};

extern constinit const OpDef pixel_unshuffle_op = {
    .schema = "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
    .doc = "The reverse of pixel_shuffle.",
    .compose = [](const Call& c) -> Tensors { return {compose_pixel_unshuffle(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 2, 4, 6}), 2});
          s.add({sample_randn({1, 2, 4}), 2});
          s.error({sample_randn({1, 3, 2, 3}), 2}, "divisible by downscale_factor");
          s.error({sample_randn({1, 4, 2, 2}), -1}, "must be positive");
        },
};

extern constinit const OpDef channel_shuffle_op = {
    .schema = "channel_shuffle(Tensor self, int groups) -> Tensor",
    .doc = "Mixes the channels of the groups: channel i of every group, one group after the other.",
    .compose = [](const Call& c) -> Tensors { return {compose_channel_shuffle(c)}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 6, 2, 2}), 3});
          s.add({sample_randn({1, 4, 3}), 2});
          s.error({sample_randn({1, 3, 2, 2}), 2}, "divisible by groups");
          s.error({sample_randn({1, 4, 2, 2}), 0}, "must be positive");
        },
};

}  // namespace pellucid
