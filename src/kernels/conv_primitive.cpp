// Building and keeping the primitives of convolution; see conv_primitive.h.
#include "kernels/conv_primitive.h"

#include <atomic>
#include <list>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "kernels/onednn.h"
#include "pellucid/error.h"

namespace pellucid::kernels {
namespace conv_primitive {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

struct KeyHash {
  size_t operator()(const Key& k) const {
    const ConvShape& s = k.shape;
    const int64_t words[] = {
        s.N,          s.C,
        s.H,          s.W,
        s.O,          s.KH,
        s.KW,         s.stride_h,
        s.stride_w,   s.pad_h,
        s.pad_w,      s.dilation_h,
        s.dilation_w, s.groups,
        s.D,          s.KD,
        s.stride_d,   s.pad_d,
        s.dilation_d, static_cast<int64_t>(k.kind) * 2 + k.bias + (int64_t{k.threads} << 8)};
    uint64_t hash = 0;
    for (const int64_t w : words)
      hash = (hash ^ static_cast<uint64_t>(w)) * 0x9E3779B97F4A7C15u, hash ^= hash >> 29;
    return hash;
  }
};

memory::desc input_desc(const ConvShape& s) {
  if (s.is_volume()) return {{s.N, s.C, s.D, s.H, s.W}, memory::data_type::f32, Tag::ndhwc};
  return {{s.N, s.C, s.H, s.W}, memory::data_type::f32, Tag::nhwc};
}

memory::desc output_desc(const ConvShape& s) {
  if (s.is_volume())
    return {{s.N, s.O, s.OD(), s.OH(), s.OW()}, memory::data_type::f32, Tag::ndhwc};
  return {{s.N, s.O, s.OH(), s.OW()}, memory::data_type::f32, Tag::nhwc};
}

/// A list for depth, height and width; images have no depth.
memory::dims per_dim(const ConvShape& s, int64_t d, int64_t h, int64_t w) {
  return s.is_volume() ? memory::dims{d, h, w} : memory::dims{h, w};
}

/// The weights as PyTorch has them, or in whatever order oneDNN likes.
memory::desc weight_desc(const ConvShape& s, bool any) {
  memory::dims sizes{s.O / s.groups, s.C / s.groups};
  if (s.groups != 1) sizes.insert(sizes.begin(), s.groups);
  const memory::dims kernel = per_dim(s, s.KD, s.KH, s.KW);
  sizes.insert(sizes.end(), kernel.begin(), kernel.end());
  const Tag plain = s.groups == 1 ? (s.is_volume() ? Tag::oidhw : Tag::oihw)
                                  : (s.is_volume() ? Tag::goidhw : Tag::goihw);
  return {sizes, memory::data_type::f32, any ? Tag::any : plain};
}

std::shared_ptr<Convolution> finish(const Key& key, const dnnl::primitive_desc_base& pd,
                                    dnnl::primitive run) {
  auto made = std::make_shared<Convolution>();
  made->key = key;
  const ConvShape& s = key.shape;
  made->run = std::move(run);
  made->x = input_desc(s);
  made->y = output_desc(s);
  made->plain_weights = weight_desc(s, false);
  made->bias = {{s.O}, memory::data_type::f32, Tag::x};
  made->scratchpad = pd.scratchpad_desc();
  made->by_products = std::string_view(pd.impl_info_str()).find("gemm") != std::string_view::npos;
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
  const memory::desc x = input_desc(s), y = output_desc(s);
  const memory::desc w = weight_desc(s, true);
  const memory::desc bias =
      key.bias ? memory::desc({s.O}, memory::data_type::f32, Tag::x) : memory::desc();
  const memory::dims strides = per_dim(s, s.stride_d, s.stride_h, s.stride_w),
                     dilations = per_dim(s, s.dilation_d - 1, s.dilation_h - 1, s.dilation_w - 1),
                     before = per_dim(s, s.pad_d, s.pad_h, s.pad_w);
  // What the window needs after the last row and column; negative where it stops short of the
  // border.
  const memory::dims after =
      per_dim(s, (s.OD() - 1) * s.stride_d + s.dilation_d * (s.KD - 1) + 1 - s.D - s.pad_d,
              (s.OH() - 1) * s.stride_h + s.dilation_h * (s.KH - 1) + 1 - s.H - s.pad_h,
              (s.OW() - 1) * s.stride_w + s.dilation_w * (s.KW - 1) + 1 - s.W - s.pad_w);
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

}  // namespace

std::shared_ptr<Convolution> get(const Key& key, PrimitiveSlot* slot) {
  static Cache* const cache = new Cache;  // never destroyed: threads may outlive static objects
  if (slot == nullptr) return cache->get(key);
  auto kept = std::static_pointer_cast<Convolution>(*slot);
  if (kept == nullptr || kept->key != key) *slot = kept = cache->get(key);
  return kept;
}

}  // namespace conv_primitive

int64_t conv_primitives_built() { return conv_primitive::built.load(std::memory_order_relaxed); }

}  // namespace pellucid::kernels
