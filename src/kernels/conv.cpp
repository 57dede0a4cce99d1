// Convolution of float on oneDNN: primitives kept in a bounded cache, packed weights, and a
// gradient of the weights whose bits do not depend on threads. The rules for that: forward and
// backward-data primitives sum each output in one order whatever the threads; backward-weights
// would split the batch by threads, so the batch is cut into fixed parts, each run by a primitive
// made for one thread, and added in order. double, and weights' gradients with little batch to cut,
// go through conv_gemm.
#include "kernels/conv.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <unordered_map>

#include "base/parallel.h"
#include "kernels/conv_gemm.h"
#include "kernels/gemm_scratch.h"
#include "kernels/onednn.h"
#include "pellucid/error.h"

namespace pellucid::kernels {

struct PackedWeight::State {
  const void* source = nullptr;
  uint64_t version = 0;
  dnnl::memory::desc desc;
  std::unique_ptr<Scratch> memory;
  int64_t bytes = 0;
};

struct PackedWeightAccess {
  static PackedWeight::State& state(PackedWeight& p) { return *p.state_; }
};

PackedWeight::PackedWeight() : state_(std::make_unique<State>()) {}
PackedWeight::~PackedWeight() = default;
PackedWeight::PackedWeight(PackedWeight&&) noexcept = default;
PackedWeight& PackedWeight::operator=(PackedWeight&&) noexcept = default;
int64_t PackedWeight::bytes() const { return state_->bytes; }

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

enum class Kind : int { Forward, BackwardData, BackwardWeights };

struct Key {
  ConvShape shape;
  Kind kind;
  bool bias;
  int threads;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& k) const {
    const ConvShape& s = k.shape;
    const int64_t words[] = {s.N,
                             s.C,
                             s.H,
                             s.W,
                             s.O,
                             s.KH,
                             s.KW,
                             s.stride_h,
                             s.stride_w,
                             s.pad_h,
                             s.pad_w,
                             s.dilation_h,
                             s.dilation_w,
                             s.groups,
                             static_cast<int64_t>(k.kind) * 2 + k.bias + (int64_t{k.threads} << 8)};
    uint64_t hash = 0;
    for (const int64_t w : words)
      hash = (hash ^ static_cast<uint64_t>(w)) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
    return hash;
  }
};

/// A primitive with the descriptions of what it reads and writes.
struct Convolution {
  dnnl::primitive run,
      pack;  // pack: between plain and the primitive's own weights; empty if they are the same
  memory::desc x, y, plain_weights, weights, bias, scratchpad;
};

memory::desc activation(int64_t n, int64_t c, int64_t h, int64_t w) {
  return {{n, c, h, w}, memory::data_type::f32, Tag::nhwc};
}

/// The weights as PyTorch has them, or in whatever order oneDNN likes.
memory::desc weight_desc(const ConvShape& s, bool any) {
  if (s.groups == 1)
    return {{s.O, s.C, s.KH, s.KW}, memory::data_type::f32, any ? Tag::any : Tag::oihw};
  return {{s.groups, s.O / s.groups, s.C / s.groups, s.KH, s.KW},
          memory::data_type::f32,
          any ? Tag::any : Tag::goihw};
}

std::shared_ptr<Convolution> finish(const Key& key, const dnnl::primitive_desc_base& pd,
                                    dnnl::primitive run) {
  auto made = std::make_shared<Convolution>();
  const ConvShape& s = key.shape;
  made->run = std::move(run);
  made->x = activation(s.N, s.C, s.H, s.W);
  made->y = activation(s.N, s.O, s.OH(), s.OW());
  made->plain_weights = weight_desc(s, false);
  made->bias = {{s.O}, memory::data_type::f32, Tag::x};
  made->scratchpad = pd.scratchpad_desc();
  const bool gradient = key.kind == Kind::BackwardWeights;
  made->weights = pd.query_md(gradient ? dnnl::query::diff_weights_md : dnnl::query::weights_md);
  if (made->weights != made->plain_weights) {
    const auto& from = gradient ? made->weights : made->plain_weights;
    const auto& to = gradient ? made->plain_weights : made->weights;
    made->pack =
        dnnl::reorder(dnnl::reorder::primitive_desc(onednn::engine(), from, onednn::engine(), to));
  }
  return made;
}

std::atomic<int64_t> built{0};

/// Builds for the number of OpenMP threads that is set now.
std::shared_ptr<Convolution> build(const Key& key) {
  built.fetch_add(1, std::memory_order_relaxed);
  const ConvShape& s = key.shape;
  const memory::desc x = activation(s.N, s.C, s.H, s.W), y = activation(s.N, s.O, s.OH(), s.OW());
  const memory::desc w = weight_desc(s, true);
  const memory::desc bias =
      key.bias ? memory::desc({s.O}, memory::data_type::f32, Tag::x) : memory::desc();
  const memory::dims strides{s.stride_h, s.stride_w}, dilations{s.dilation_h - 1, s.dilation_w - 1};
  const memory::dims before{s.pad_h, s.pad_w};
  // What the window needs after the last row and column; negative where it stops short of the
  // border.
  const memory::dims after{
      (s.OH() - 1) * s.stride_h + s.dilation_h * (s.KH - 1) + 1 - s.H - s.pad_h,
      (s.OW() - 1) * s.stride_w + s.dilation_w * (s.KW - 1) + 1 - s.W - s.pad_w};
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {key.kind == Kind::Forward ? dnnl::prop_kind::forward_inference
                                 : dnnl::prop_kind::forward_training,
       algorithm, x, w, bias, y, strides, dilations, before, after},
      attributes, onednn::engine());
  switch (key.kind) {
    case Kind::Forward:
      return finish(key, forward, dnnl::convolution_forward(forward));
    case Kind::BackwardData: {
      const dnnl::convolution_backward_data::primitive_desc pd(
          {algorithm, x, w, y, strides, dilations, before, after}, attributes, onednn::engine(),
          forward);
      return finish(key, pd, dnnl::convolution_backward_data(pd));
    }
    case Kind::BackwardWeights: {
      const dnnl::convolution_backward_weights::primitive_desc pd(
          {algorithm, x, w, bias, y, strides, dilations, before, after}, attributes,
          onednn::engine(), forward);
      return finish(key, pd, dnnl::convolution_backward_weights(pd));
    }
  }
  __builtin_unreachable();
}

/// The primitives in use, least recently used first in `order`.
class Cache {
 public:
  std::shared_ptr<Convolution> get(const Key& key) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto it = entries_.find(key); it != entries_.end()) {
        order_.splice(order_.end(), order_, it->second.place);
        return it->second.value;
      }
    }
    std::shared_ptr<Convolution> made;
    try {
      made = build(key);  // outside the lock: 0.3-0.9 ms
    } catch (const dnnl::error& e) {
      detail::raise<Error>("convolution: oneDNN cannot build it: {}", e.what());
    }
    const std::lock_guard lock(mutex_);
    const auto [it, inserted] = entries_.try_emplace(key);
    if (!inserted) return it->second.value;  // another thread was faster
    it->second = {made, order_.insert(order_.end(), key)};
    if (entries_.size() > kConvPrimitives) {
      entries_.erase(order_.front());
      order_.pop_front();
    }
    return made;
  }

 private:
  struct Entry {
    std::shared_ptr<Convolution> value;
    std::list<Key>::iterator place;
  };
  std::mutex mutex_;
  std::unordered_map<Key, Entry, KeyHash> entries_;
  std::list<Key> order_;
};

Cache& cache() {
  static Cache* const instance = new Cache;  // never destroyed: threads may outlive static objects
  return *instance;
}

int64_t size_of(const memory::desc& d) { return static_cast<int64_t>(d.get_size()); }

void reorder(const Convolution& c, const memory::desc& from_desc, const float* from,
             const memory::desc& to_desc, float* to) {
  onednn::execute(c.pack, {{DNNL_ARG_FROM, &from_desc, from}, {DNNL_ARG_TO, &to_desc, to}});
}

/// The weights as the primitive reads them: as they are, from the caller's cache, or packed into
/// `local`.
const float* pack_weights(const Convolution& c, const float* w, WeightCache cached,
                          std::unique_ptr<Scratch>& local) {
  if (!c.pack) return w;
  if (cached.packed == nullptr) {
    local = std::make_unique<Scratch>(size_of(c.weights));
    reorder(c, c.plain_weights, w, c.weights, local->as<float>());
    return local->as<float>();
  }
  PackedWeight::State& state = PackedWeightAccess::state(*cached.packed);
  if (state.memory == nullptr || state.source != w || state.version != cached.version ||
      state.desc != c.weights) {
    state.source = nullptr;
    if (state.memory == nullptr || state.bytes != size_of(c.weights)) {
      state.memory.reset();
      state.bytes = 0;
      state.memory = std::make_unique<Scratch>(size_of(c.weights), MemoryCategory::Packed);
      state.bytes = size_of(c.weights);
    }
    reorder(c, c.plain_weights, w, c.weights, state.memory->as<float>());
    state.source = w;
    state.version = cached.version;
    state.desc = c.weights;
  }
  return state.memory->as<float>();
}

bool is_empty(const ConvShape& s) {
  return s.N == 0 || s.O == 0 || s.C == 0 || s.OH() <= 0 || s.OW() <= 0;
}

/// Into how many parts the batch is cut for the weights' gradient; 0 if matrix products are the
/// better way.
int64_t batch_parts(const ConvShape& s) {
  const int64_t weights = s.weight_count(), pixels = s.OH() * s.OW();
  // Few pixels for many weights: adding up the parts would cost more than computing them.
  const bool few_pixels = s.N * pixels < 1024 && weights > (int64_t{1} << 18);
  if (s.groups == 1 && (s.N == 1 || few_pixels)) return 0;
  int64_t parts = std::min<int64_t>(s.N, 16);
  while (parts > 2 && parts * weights > (int64_t{1} << 20)) parts = (parts + 1) / 2;
  return parts;
}

void backward_weights_in_parts(const ConvShape& s, int64_t parts, const float* x, const float* dy,
                               float* dw, float* dbias) {
  const int64_t images = (s.N + parts - 1) / parts;
  parts = (s.N + images - 1) / images;
  const int64_t x_step = s.H * s.W * s.C, y_step = s.OH() * s.OW() * s.O;
  const auto convolution = [&](int64_t part) {
    Key key{s, Kind::BackwardWeights, dbias != nullptr, 1};
    key.shape.N = std::min(images, s.N - part * images);
    const onednn::OneThread one;
    return cache().get(key);
  };
  const auto first = convolution(0), last = convolution(parts - 1);
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

}  // namespace

int64_t conv_primitives_built() { return built.load(std::memory_order_relaxed); }

template <>
void conv_forward<float>(const ConvShape& s, const float* x, const float* w, const float* bias,
                         float* y, WeightCache cached) {
  if (is_empty(s)) return;
  const TeamLock team;
  const auto c = cache().get({s, Kind::Forward, bias != nullptr, team.num_threads()});
  std::unique_ptr<Scratch> local;
  const float* const weights = pack_weights(*c, w, cached, local);
  const Scratch pad(size_of(c->scratchpad));
  onednn::execute(c->run, {{DNNL_ARG_SRC, &c->x, x},
                           {DNNL_ARG_WEIGHTS, &c->weights, weights},
                           {DNNL_ARG_BIAS, &c->bias, bias},
                           {DNNL_ARG_DST, &c->y, y},
                           {DNNL_ARG_SCRATCHPAD, &c->scratchpad, pad.as<void>()}});
}

template <>
void conv_backward_data<float>(const ConvShape& s, const float* dy, const float* w,
                               const float* bias, float* dx, WeightCache cached) {
  const int64_t rows = s.N * s.H * s.W;
  if (is_empty(s)) {
    for (int64_t i = 0; i < rows * s.C; ++i) dx[i] = bias == nullptr ? 0.0f : bias[i % s.C];
    return;
  }
  {
    const TeamLock team;
    const auto c = cache().get({s, Kind::BackwardData, false, team.num_threads()});
    std::unique_ptr<Scratch> local;
    const float* const weights = pack_weights(*c, w, cached, local);
    const Scratch pad(size_of(c->scratchpad));
    onednn::execute(c->run, {{DNNL_ARG_DIFF_DST, &c->y, dy},
                             {DNNL_ARG_WEIGHTS, &c->weights, weights},
                             {DNNL_ARG_DIFF_SRC, &c->x, dx},
                             {DNNL_ARG_SCRATCHPAD, &c->scratchpad, pad.as<void>()}});
  }
  if (bias != nullptr) {
    parallel_for(0, rows, std::max<int64_t>(1, 32768 / s.C), [&](int64_t b, int64_t e) {
      for (int64_t r = b; r < e; ++r)
        for (int64_t c = 0; c < s.C; ++c) dx[r * s.C + c] += bias[c];
    });
  }
}

template <>
void conv_backward_weights<float>(const ConvShape& s, const float* x, const float* dy, float* dw,
                                  float* dbias) {
  if (is_empty(s)) {
    std::fill_n(dw, s.weight_count(), 0.0f);
    if (dbias != nullptr) std::fill_n(dbias, s.O, 0.0f);
    return;
  }
  const int64_t parts = batch_parts(s);
  if (parts == 0) return conv_gemm::backward_weights(s, x, dy, dw, dbias);
  backward_weights_in_parts(s, parts, x, dy, dw, dbias);
}

template <>
void conv_forward<double>(const ConvShape& s, const double* x, const double* w, const double* bias,
                          double* y, WeightCache) {
  if (!is_empty(s)) conv_gemm::forward(s, x, w, bias, y);
}

template <>
void conv_backward_data<double>(const ConvShape& s, const double* dy, const double* w,
                                const double* bias, double* dx, WeightCache) {
  if (is_empty(s)) {
    for (int64_t i = 0; i < s.N * s.H * s.W * s.C; ++i)
      dx[i] = bias == nullptr ? 0.0 : bias[i % s.C];
    return;
  }
  conv_gemm::backward_data(s, dy, w, bias, dx);
}

template <>
void conv_backward_weights<double>(const ConvShape& s, const double* x, const double* dy,
                                   double* dw, double* dbias) {
  if (is_empty(s)) {
    std::fill_n(dw, s.weight_count(), 0.0);
    if (dbias != nullptr) std::fill_n(dbias, s.O, 0.0);
    return;
  }
  conv_gemm::backward_weights(s, x, dy, dw, dbias);
}

}  // namespace pellucid::kernels
