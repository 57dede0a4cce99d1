// Convolution of float: which way a shape takes. 3x3 with stride 1 goes by Winograd's algorithm
// (conv_winograd), some shapes straight through loops of our own (conv_direct), the rest on
// oneDNN: its primitives (conv_primitive.h), packed weights, and a gradient of the weights whose
// bits do not depend on threads. The rules for that: forward and backward-data primitives sum each
// output in one order whatever the threads, but for those that unfold images (what oneDNN has for
// odd shapes, above all without AVX-512), whose shapes go through conv_gemm; backward-weights would
// split the batch by threads, so the batch is cut into fixed parts, each run by a primitive made
// for one thread, and added in order; or the output channels are; or conv_direct sums them. double,
// and weights' gradients with neither to cut, go through conv_gemm.
#include "kernels/conv.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/conv_direct.h"
#include "kernels/conv_gemm.h"
#include "kernels/conv_primitive.h"
#include "kernels/conv_winograd.h"
#include "kernels/gemm_scratch.h"
#include "kernels/onednn.h"
#include "kernels/tiles.h"
#include "pellucid/error.h"

namespace pellucid::kernels {

namespace {

using namespace conv_primitive;
using dnnl::memory;

void reorder(const Convolution& c, const memory::desc& from_desc, const float* from,
             const memory::desc& to_desc, float* to) {
  onednn::execute(c.pack, {{DNNL_ARG_FROM, &from_desc, from}, {DNNL_ARG_TO, &to_desc, to}});
}

struct OrderedWeights final : PackedForm {
  OrderedWeights(const memory::desc& d, MemoryCategory category)
      : desc(d), packed(size_of(d), category) {}
  int64_t bytes() const override { return size_of(desc); }
  const memory::desc desc;
  const Scratch packed;
};

/// The weights as the primitive reads them: as they are, as they were kept, or packed now into
/// `form`.
const float* pack_weights(const Convolution& c, const Weights& w,
                          std::shared_ptr<const OrderedWeights>& form) {
  if (!c.pack) return w.as<float>();
  form = w.find<OrderedWeights>([&](const OrderedWeights& f) { return f.desc == c.weights; });
  if (form) return form->packed.as<float>();
  const MemoryCategory category = w.keeps() ? MemoryCategory::Packed : MemoryCategory::Temporary;
  form = std::make_shared<const OrderedWeights>(c.weights, category);
  reorder(c, c.plain_weights, w.as<float>(), c.weights, form->packed.as<float>());
  if (w.keeps()) w.keep(form);
  return form->packed.as<float>();
}

bool is_empty(const ConvShape& s) {
  return s.N == 0 || s.O == 0 || s.C == 0 || s.OD() <= 0 || s.OH() <= 0 || s.OW() <= 0;
}

/// The output channels of a part where parts of the weights' gradient are cut by these: for one
/// image, and where adding up parts of the batch would cost more than the copies of dy that this
/// takes. Otherwise 0.
int64_t outputs_of_part(const ConvShape& s) {
  const int64_t weights = s.weight_count(), pixels = s.N * s.out_pixels();
  const bool large =
      weights >= (int64_t{1} << 18) || (weights >= (int64_t{1} << 17) && pixels < 2048);
  if (s.groups != 1 || !(s.N == 1 || large)) return 0;
  const int64_t most = s.taps() == 1 ? 128 : 32;
  int64_t outputs = 16;
  while (2 * outputs <= std::min(most, s.O / 4)) outputs *= 2;
  return s.O % outputs == 0 && s.O > outputs ? outputs : 0;
}

/// Into how many parts the batch is cut for the weights' gradient; 0 if matrix products are the
/// better way.
int64_t batch_parts(const ConvShape& s) {
  const int64_t weights = s.weight_count(), pixels = s.out_pixels();
  // Few pixels for many weights: adding up the parts would cost more than computing them.
  const bool few_pixels = s.N * pixels < 1024 && weights > (int64_t{1} << 18);
  if (s.groups == 1 && (s.N == 1 || few_pixels)) return 0;
  int64_t parts = std::min<int64_t>(s.N, 16);
  while (parts > 2 && parts * weights > (int64_t{1} << 20)) parts = (parts + 1) / 2;
  return parts;
}

void backward_weights_in_parts(const ConvShape& s, int64_t parts, const float* x, const float* dy,
                               float* dw, float* dbias, PrimitiveSlot* slot) {
  const int64_t images = (s.N + parts - 1) / parts;
  parts = (s.N + images - 1) / images;
  const int64_t x_step = s.in_pixels() * s.C, y_step = s.out_pixels() * s.O;
  const auto convolution = [&](int64_t part) {
    Key key{s, Kind::BackwardWeights, dbias != nullptr, 1};
    key.shape.N = std::min(images, s.N - part * images);
    const onednn::OneThread one;
    return conv_primitive::get(key, part == 0 ? slot : nullptr);
  };
  const auto first = convolution(0), last = s.N % images == 0 ? first : convolution(parts - 1);
  PELLUCID_ASSERT(first->weights == last->weights);
  const int64_t count = size_of(first->weights) / static_cast<int64_t>(sizeof(float));
  const Scratch sums(parts * count * static_cast<int64_t>(sizeof(float)));
  const Scratch bias_sums(dbias == nullptr ? 0 : parts * s.O * static_cast<int64_t>(sizeof(float)));
  parallel_chunks(parts, [&](int64_t part) {
    const Convolution& c = part + 1 < parts ? *first : *last;
    const onednn::OneThread one;
    const Scratch pad(size_of(c.scratchpad));
    onednn::execute(c.run, {{DNNL_ARG_SRC, &c.x, x + part * images * x_step},
                            {DNNL_ARG_DIFF_DST, &c.y, dy + part * images * y_step},
                            {DNNL_ARG_DIFF_WEIGHTS, &c.weights, sums.as<float>() + part * count},
                            {DNNL_ARG_DIFF_BIAS, &c.bias,
                             dbias == nullptr ? nullptr : bias_sums.as<float>() + part * s.O},
                            {DNNL_ARG_SCRATCHPAD, &c.scratchpad, pad.as<void>()}});
  });
  float* const total = first->pack ? sums.as<float>() : dw;
  parallel_for(0, count, 16384, [&](int64_t b, int64_t e) {
    if (total != sums.as<float>()) std::copy(sums.as<float>() + b, sums.as<float>() + e, total + b);
    for (int64_t p = 1; p < parts; ++p) {
      const float* const more = sums.as<float>() + p * count;
      for (int64_t i = b; i < e; ++i) total[i] += more[i];
    }
  });
  if (dbias != nullptr) {
    for (int64_t o = 0; o < s.O; ++o) {
      dbias[o] = bias_sums.as<float>()[o];
      for (int64_t p = 1; p < parts; ++p) dbias[o] += bias_sums.as<float>()[p * s.O + o];
    }
  }
  const onednn::OneThread one;
  if (first->pack) reorder(*first, first->weights, total, first->plain_weights, dw);
}

/// Each part has its own output channels, so that nothing is added up afterwards.
void backward_weights_by_outputs(const ConvShape& s, int64_t outputs, const float* x,
                                 const float* dy, float* dw, float* dbias, PrimitiveSlot* slot) {
  Key key{s, Kind::BackwardWeights, dbias != nullptr, 1};
  key.shape.O = outputs;
  const auto c = [&] {
    const onednn::OneThread one;
    return conv_primitive::get(key, slot);
  }();
  const int64_t rows = s.N * s.out_pixels(), count = key.shape.weight_count();
  parallel_chunks(s.O / outputs, [&](int64_t part) {
    const Scratch pad(size_of(c->scratchpad)), packed(c->pack ? size_of(c->weights) : 0),
        slice(rows * outputs * static_cast<int64_t>(sizeof(float)));
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(dy + r * s.O + part * outputs, outputs, slice.as<float>() + r * outputs);
    const onednn::OneThread one;
    float* const to = dw + part * count;
    onednn::execute(
        c->run,
        {{DNNL_ARG_SRC, &c->x, x},
         {DNNL_ARG_DIFF_DST, &c->y, slice.as<float>()},
         {DNNL_ARG_DIFF_WEIGHTS, &c->weights, c->pack ? packed.as<float>() : to},
         {DNNL_ARG_DIFF_BIAS, &c->bias, dbias == nullptr ? nullptr : dbias + part * outputs},
         {DNNL_ARG_SCRATCHPAD, &c->scratchpad, pad.as<void>()}});
    if (c->pack) reorder(*c, c->weights, packed.as<float>(), c->plain_weights, to);
  });
}

/// Forward on oneDNN; false, with nothing done, where its bits would depend on the threads.
bool run_forward(const ConvShape& s, const float* x, const Weights& w, const float* bias, float* y,
                 PrimitiveSlot* slot) {
  const TeamLock team;
  const auto c = conv_primitive::get({s, Kind::Forward, bias != nullptr, team.num_threads()}, slot);
  if (c->by_products) return false;
  std::shared_ptr<const OrderedWeights> form;
  const float* const weights = pack_weights(*c, w, form);
  const Scratch pad(size_of(c->scratchpad));
  onednn::execute(c->run, {{DNNL_ARG_SRC, &c->x, x},
                           {DNNL_ARG_WEIGHTS, &c->weights, weights},
                           {DNNL_ARG_BIAS, &c->bias, bias},
                           {DNNL_ARG_DST, &c->y, y},
                           {DNNL_ARG_SCRATCHPAD, &c->scratchpad, pad.as<void>()}});
  return true;
}

/// The same for the gradient of the input.
bool run_backward_data(const ConvShape& s, const float* dy, const Weights& w, float* dx,
                       PrimitiveSlot* slot) {
  const TeamLock team;
  const auto c = conv_primitive::get({s, Kind::BackwardData, false, team.num_threads()}, slot);
  if (c->by_products) return false;
  std::shared_ptr<const OrderedWeights> form;
  const float* const weights = pack_weights(*c, w, form);
  const Scratch pad(size_of(c->scratchpad));
  onednn::execute(c->run, {{DNNL_ARG_DIFF_DST, &c->y, dy},
                           {DNNL_ARG_WEIGHTS, &c->weights, weights},
                           {DNNL_ARG_DIFF_SRC, &c->x, dx},
                           {DNNL_ARG_SCRATCHPAD, &c->scratchpad, pad.as<void>()}});
  return true;
}

/// Packed weights and the primitive's own memory.
int64_t primitive_scratch(const ConvShape& s, Kind kind, bool bias) {
  const TeamLock team;
  const auto c = conv_primitive::get({s, kind, bias, team.num_threads()});
  if (c->by_products) return conv_gemm::scratch<float>(s, false);
  return (c->pack ? size_of(c->weights) : 0) + size_of(c->scratchpad);
}

/// As backward_weights_by_outputs and backward_weights_in_parts.
int64_t part_scratch(const ConvShape& s, bool bias) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(float));
  Key key{s, Kind::BackwardWeights, bias, 1};
  const int64_t outputs = outputs_of_part(s), parts = batch_parts(s);
  if (outputs != 0)
    key.shape.O = outputs;
  else
    key.shape.N = (s.N + parts - 1) / parts;
  const onednn::OneThread one;
  const auto c = conv_primitive::get(key);
  const int64_t pad = size_of(c->scratchpad), weights = size_of(c->weights);
  if (outputs != 0)
    return std::min<int64_t>(s.O / outputs, get_num_threads()) *
           (pad + (c->pack ? weights : 0) + s.N * s.out_pixels() * outputs * kSize);
  const int64_t count = (s.N + key.shape.N - 1) / key.shape.N;
  return count * (weights + (bias ? s.O * kSize : 0)) +
         std::min<int64_t>(count, get_num_threads()) * pad;
}

}  // namespace

template <> int64_t conv_forward_scratch<float>(const ConvShape& s, bool bias) {
  if (is_empty(s)) return 0;
  if (conv_winograd::forward_is_faster(s)) return conv_winograd::forward_scratch(s);
  if (conv_direct::forward_is_faster(s)) return conv_direct::forward_scratch(s);
  return primitive_scratch(s, Kind::Forward, bias);
}

template <> int64_t conv_backward_data_scratch<float>(const ConvShape& s) {
  if (is_empty(s)) return 0;
  if (conv_winograd::data_is_faster(s)) return conv_winograd::data_scratch(s);
  return primitive_scratch(s, Kind::BackwardData, false);
}

template <> int64_t conv_backward_weights_scratch<float>(const ConvShape& s, bool bias) {
  if (is_empty(s)) return 0;
  if (conv_winograd::weights_are_faster(s)) return conv_winograd::weights_scratch(s);
  if (conv_direct::weights_are_faster(s)) return conv_direct::weights_scratch(s);
  if (outputs_of_part(s) == 0 && batch_parts(s) == 0) return conv_gemm::scratch<float>(s, true);
  return part_scratch(s, bias);
}

template <> int64_t conv_forward_scratch<double>(const ConvShape& s, bool) {
  return is_empty(s) ? 0 : conv_gemm::scratch<double>(s, false);
}
template <> int64_t conv_backward_data_scratch<double>(const ConvShape& s) {
  return is_empty(s) ? 0 : conv_gemm::scratch<double>(s, false);
}
template <> int64_t conv_backward_weights_scratch<double>(const ConvShape& s, bool) {
  return is_empty(s) ? 0 : conv_gemm::scratch<double>(s, true);
}

template <>
void conv_forward<float>(const ConvShape& s, const float* x, const Weights& w, const float* bias,
                         float* y, const Epilogue* then, PrimitiveSlot* slot) {
  if (is_empty(s)) return;
  if (conv_winograd::forward_is_faster(s) && conv_winograd::forward(s, x, w, bias, y, then)) return;
  if (conv_direct::forward_is_faster(s)) return conv_direct::forward(s, x, w, bias, y, then);
  if (!run_forward(s, x, w, bias, y, slot)) conv_gemm::forward(s, x, w, bias, y);
  if (then == nullptr) return;
  const int64_t size = s.out_pixels() * s.O;
  parallel_for(0, s.N, 1, [&](int64_t b, int64_t e) {
    for (int64_t n = b; n < e; ++n) (*then)({y + n * size, 1, size, size});
  });
}

bool conv_forward_has_blocks(const ConvShape& s) {
  if (is_empty(s)) return false;
  return conv_winograd::forward_is_faster(s) ? conv_winograd::forward_has_blocks(s)
                                             : conv_direct::forward_is_faster(s);
}

template <>
void conv_backward_data<float>(const ConvShape& s, const float* dy, const Weights& w,
                               const float* bias, float* dx, PrimitiveSlot* slot) {
  const int64_t rows = s.N * s.in_pixels();
  if (is_empty(s)) {
    for (int64_t i = 0; i < rows * s.C; ++i) dx[i] = bias == nullptr ? 0.0f : bias[i % s.C];
    return;
  }
  if (conv_winograd::data_is_faster(s) && conv_winograd::backward_data(s, dy, w, bias, dx)) return;
  if (!run_backward_data(s, dy, w, dx, slot)) return conv_gemm::backward_data(s, dy, w, bias, dx);
  if (bias != nullptr) {
    parallel_for(0, rows, std::max<int64_t>(1, 32768 / s.C), [&](int64_t b, int64_t e) {
      for (int64_t r = b; r < e; ++r)
        for (int64_t c = 0; c < s.C; ++c) dx[r * s.C + c] += bias[c];
    });
  }
}

template <>
void conv_backward_weights<float>(const ConvShape& s, const float* x, const float* dy, float* dw,
                                  float* dbias, PrimitiveSlot* slot) {
  if (is_empty(s)) {
    std::fill_n(dw, s.weight_count(), 0.0f);
    if (dbias != nullptr) std::fill_n(dbias, s.O, 0.0f);
    return;
  }
  if (conv_winograd::weights_are_faster(s) && conv_winograd::backward_weights(s, x, dy, dw, dbias))
    return;
  if (conv_direct::weights_are_faster(s)) return conv_direct::backward_weights(s, x, dy, dw, dbias);
  if (const int64_t outputs = outputs_of_part(s); outputs != 0)
    return backward_weights_by_outputs(s, outputs, x, dy, dw, dbias, slot);
  const int64_t parts = batch_parts(s);
  if (parts == 0) return conv_gemm::backward_weights(s, x, dy, dw, dbias);
  backward_weights_in_parts(s, parts, x, dy, dw, dbias, slot);
}

template <>
void conv_forward<double>(const ConvShape& s, const double* x, const Weights& w, const double* bias,
                          double* y, const Epilogue*, PrimitiveSlot*) {
  if (!is_empty(s)) conv_gemm::forward(s, x, w, bias, y);
}

template <>
void conv_backward_data<double>(const ConvShape& s, const double* dy, const Weights& w,
                                const double* bias, double* dx, PrimitiveSlot*) {
  if (is_empty(s)) {
    for (int64_t i = 0; i < s.N * s.in_pixels() * s.C; ++i)
      dx[i] = bias == nullptr ? 0.0 : bias[i % s.C];
    return;
  }
  conv_gemm::backward_data(s, dy, w, bias, dx);
}

template <>
void conv_backward_weights<double>(const ConvShape& s, const double* x, const double* dy,
                                   double* dw, double* dbias, PrimitiveSlot*) {
  if (is_empty(s)) {
    std::fill_n(dw, s.weight_count(), 0.0);
    if (dbias != nullptr) std::fill_n(dbias, s.O, 0.0);
    return;
  }
  conv_gemm::backward_weights(s, x, dy, dw, dbias);
}

}  // namespace pellucid::kernels
