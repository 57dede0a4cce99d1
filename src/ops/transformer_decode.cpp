// A whole Transformer layer for one token of a text that is generated, as one op. It has no
// gradient: training and longer inputs take the ops one by one, which give the same bits.
#include "kernels/transformer_decode.h"

#include <array>

#include "ops/common.h"
#include "ops/gelu.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

/// The tensors of the call, in the order of the schema.
enum Input : size_t {
  kInput,
  kKeyCache,
  kValueCache,
  kNorm1Weight,
  kNorm1Bias,
  kQkvWeight,
  kQkvBias,
  kOutWeight,
  kOutBias,
  kNorm2Weight,
  kNorm2Bias,
  kFcWeight,
  kFcBias,
  kProjWeight,
  kProjBias,
  kInputs
};

std::string_view argument(const Call& c, size_t i) { return c.op().info->args[i].name; }

void check_sizes(const Call& c, size_t i, IntArrayRef sizes) {
  PELLUCID_CHECK(c.in(i).sizes() == sizes, ShapeError, "{}: '{}' must have sizes {}, found {}.",
                 c.name(), argument(c, i), sizes, c.in(i).sizes());
}

/// A linear layer [rows, k] at input i, and its bias behind it.
void check_linear(const Call& c, size_t i, int64_t rows, int64_t k) {
  check_sizes(c, i, {rows, k});
  if (c.has_in(i + 1)) check_sizes(c, i + 1, {rows});
}

void check_cache(const Call& c, int64_t width) {
  const Tensor& keys = c.in(kKeyCache);
  check_dim(c, keys, 4, "key_cache");
  check_sizes(c, kValueCache, keys.sizes());
  const IntArrayRef s = keys.sizes();
  PELLUCID_CHECK(s[0] == 1 && s[1] > 0 && s[1] * s[3] == width, ShapeError,
                 "{}: the caches must be [1, heads, positions, {} / heads], found {}.", c.name(),
                 width, s);
  PELLUCID_CHECK(c.integer(0) >= 0 && c.integer(0) < s[2], IndexError,
                 "{}: position {} is outside of a cache of {} positions.", c.name(), c.integer(0),
                 s[2]);
}

void infer_decode(Call& c) {
  for (size_t i = 0; i < kInputs; ++i) {
    if (!c.op().info->args[i].optional) check_defined(c, i, argument(c, i));
    if (!c.has_in(i)) continue;
    check_same_dtype(c, c.in(kInput), c.in(i));
    PELLUCID_CHECK(!(autograd::GradMode::is_enabled() && c.in(i).requires_grad()), AutogradError,
                   "{}: '{}' requires a gradient, and this op has none. Call it under NoGradGuard.",
                   c.name(), argument(c, i));
  }
  const Tensor& x = c.in(kInput);
  PELLUCID_CHECK(x.dtype() == kFloat32 || x.dtype() == kFloat64, TypeError,
                 "{}: 'input' must be float32 or float64, found {}.", c.name(), x.dtype());
  PELLUCID_CHECK(x.dim() == 3 && x.size(0) == 1 && x.size(1) == 1 && x.size(2) > 0, ShapeError,
                 "{}: 'input' must be one token [1, 1, width], found {}.", c.name(), x.sizes());
  const int64_t width = x.size(2);
  check_cache(c, width);
  for (const size_t i : {kNorm1Weight, kNorm1Bias, kNorm2Weight, kNorm2Bias})
    if (c.has_in(i)) check_sizes(c, i, {width});
  check_dim(c, c.in(kFcWeight), 2, "fc_weight");
  const int64_t hidden = c.in(kFcWeight).size(0);
  check_linear(c, kQkvWeight, 3 * width, width);
  check_linear(c, kOutWeight, width, width);
  check_linear(c, kFcWeight, hidden, width);
  check_linear(c, kProjWeight, width, hidden);
  gelu_is_tanh(c.name(), c.text(3));
  c.make_output(x.sizes(), x.dtype());
}

/// The call's tensors as the kernel takes them: row-major, or a copy that is.
class Operands {
 public:
  explicit Operands(const Call& c) {
    for (size_t i = 0; i < kInputs; ++i) {
      if (!c.has_in(i)) continue;
      const Tensor& t = c.in(i);
      const bool cache = i == kKeyCache || i == kValueCache;  // these may have gaps between rows
      used_[i] = cache && t.raw_strides()[3] == 1 ? t : contiguous_values(t);
    }
  }
  template <class T> const T* data(size_t i) const {
    return used_[i].defined() ? used_[i].raw<T>() : nullptr;
  }
  template <class T> kernels::HeadTensor<T> cache(size_t i) const {
    const IntArrayRef s = used_[i].raw_strides();
    return {used_[i].raw<T>(), {s[0], s[1], s[2]}};
  }
  template <class T> typename kernels::DecodeLayer<T>::Linear linear(size_t i) const {
    return {{data<T>(i), used_[i].size(0), used_[i].size(1)}, data<T>(i + 1)};
  }
  template <class T> typename kernels::DecodeLayer<T>::Norm norm(size_t i, double eps) const {
    return {data<T>(i), data<T>(i + 1), eps};
  }
  /// Writes the new position back to a cache of which a copy was used.
  void finish(const Call& c, size_t i) const {
    if (used_[i].is_same(c.in(i))) return;
    c.in(i).narrow(2, c.integer(0), 1).copy_(used_[i].narrow(2, c.integer(0), 1));
  }

 private:
  std::array<Tensor, kInputs> used_;
};

template <class T> void run_layer(Call& c, const Operands& in) {
  const bool tanh = gelu_is_tanh(c.name(), c.text(3));
  const Gelu exact;
  const GeluTanh approximate;
  const kernels::LoopTable& loops =
      tanh ? kernels::pointwise_loops<GeluTanh, kernels::ValueKind<1>>()
           : kernels::pointwise_loops<Gelu, kernels::ValueKind<1>>();
  kernels::DecodeLayer<T> layer;
  layer.width = c.in(kInput).size(2);
  layer.heads = c.in(kKeyCache).size(1);
  layer.position = c.integer(0);
  layer.norm1 = in.norm<T>(kNorm1Weight, c.number(1));
  layer.norm2 = in.norm<T>(kNorm2Weight, c.number(2));
  layer.qkv = in.linear<T>(kQkvWeight);
  layer.out = in.linear<T>(kOutWeight);
  layer.fc = in.linear<T>(kFcWeight);
  layer.proj = in.linear<T>(kProjWeight);
  layer.keys = in.cache<T>(kKeyCache);
  layer.values = in.cache<T>(kValueCache);
  layer.activation = kernels::loop_for(loops, dtype_of<T>);
  layer.formula = tanh ? static_cast<const void*>(&approximate) : &exact;
  kernels::decode_layer<T>(layer, in.data<T>(kInput), c.out().raw<T>());
}

void run_decode(Call& c) {
  const NoGradGuard off;
  const Operands in(c);
  if (c.out().dtype() == kFloat64)
    run_layer<double>(c, in);
  else
    run_layer<float>(c, in);
  in.finish(c, kKeyCache);
  in.finish(c, kValueCache);
}

/// As of the ops one by one; of the caches what is read and written.
Cost decode_cost(const Call& c) {
  const auto width = static_cast<double>(c.in(kInput).size(2)),
             hidden = static_cast<double>(c.in(kFcWeight).size(0)),
             heads = static_cast<double>(c.in(kKeyCache).size(1)),
             seen = static_cast<double>(c.integer(0) + 1),
             element = static_cast<double>(element_size(c.in(kInput).dtype()));
  constexpr double kNorm = 8, kSoftmax = 5;
  Cost cost{.flops = 2 * kNorm * width + 2 * width + GeluTanh::kFlops * hidden +
                     seen * (4 * width + kSoftmax * heads),
            .bytes = (2 * width + 2 * width * (seen + 1)) * element};
  for (size_t i = kNorm1Weight; i < kInputs; ++i) {
    if (!c.has_in(i)) continue;
    const auto count = static_cast<double>(c.in(i).numel());
    cost.bytes += count * element;
    const bool norm = i == kNorm1Weight || i == kNorm1Bias || i == kNorm2Weight || i == kNorm2Bias;
    if (!norm) cost.flops += c.in(i).dim() == 2 ? 2 * count : count;
  }
  return cost;
}

/// Sizes and values of a layer of `heads` heads of `size`, with room for `room` positions.
std::vector<Value> sample_layer(int64_t heads, int64_t size, int64_t hidden, int64_t room,
                                int64_t position, bool bias, std::string_view approximate) {
  const int64_t width = heads * size;
  const auto vector = [&](int64_t n) { return bias ? Value(sample_randn({n})) : Value(); };
  return {sample_randn({1, 1, width}),
          sample_randn({1, heads, room, size}),
          sample_randn({1, heads, room, size}),
          sample_randn({width}),
          vector(width),
          sample_randn({3 * width, width}),
          vector(3 * width),
          sample_randn({width, width}),
          vector(width),
          sample_randn({width}),
          vector(width),
          sample_randn({hidden, width}),
          vector(hidden),
          sample_randn({width, hidden}),
          vector(width),
          position,
          1e-5,
          1e-5,
          std::string(approximate)};
}

void decode_samples(Samples& s) {
  s.add_no_grad(sample_layer(2, 2, 5, 3, 2, true, "tanh"));
  s.add_no_grad(sample_layer(1, 3, 4, 2, 0, false, "none"));
  const auto wrong = [&](size_t argument, Value value, std::string message) {
    std::vector<Value> args = sample_layer(2, 2, 5, 3, 2, true, "tanh");
    args[argument] = std::move(value);
    s.error(std::move(args), std::move(message));
  };
  wrong(kInput, sample_randn({1, 2, 4}), "'input' must be one token [1, 1, width]");
  wrong(kInput, sample_randn({1, 1, 4}).to(kFloat32), "found float32 and float64");
  wrong(kKeyCache, sample_randn({1, 3, 3, 2}), "must have sizes [1, 3, 3, 2], found [1, 2, 3, 2]");
  wrong(kQkvWeight, sample_randn({8, 4}), "'qkv_weight' must have sizes [12, 4], found [8, 4]");
  wrong(kProjBias, sample_randn({5}), "'proj_bias' must have sizes [4], found [5]");
  wrong(kInputs, 3, "position 3 is outside of a cache of 3 positions");
  wrong(kInputs + 3, "fast", "approximate must be 'none' or 'tanh'");
  s.large([] {
    const auto matrix = [](int64_t rows, int64_t k) { return randn({rows, k}).mul(0.02); };
    return Values{randn({1, 1, 768}),
                  randn({1, 12, 256, 64}),
                  randn({1, 12, 256, 64}),
                  randn({768}),
                  randn({768}),
                  matrix(2304, 768),
                  randn({2304}),
                  matrix(768, 768),
                  randn({768}),
                  randn({768}),
                  randn({768}),
                  matrix(3072, 768),
                  randn({3072}),
                  matrix(768, 3072),
                  randn({768}),
                  255,
                  1e-5,
                  1e-5,
                  "tanh"};
  });
}

}  // namespace

extern constinit const OpDef transformer_decode_layer_op = {
    .schema =
        "_transformer_decode_layer(Tensor input, Tensor(a!) key_cache, Tensor(a!) value_cache, "
        "Tensor? norm1_weight, Tensor? norm1_bias, Tensor qkv_weight, Tensor? qkv_bias, "
        "Tensor out_weight, Tensor? out_bias, Tensor? norm2_weight, Tensor? norm2_bias, "
        "Tensor fc_weight, Tensor? fc_bias, Tensor proj_weight, Tensor? proj_bias, int position, "
        "float norm1_eps, float norm2_eps, str approximate) -> Tensor",
    .doc =
        "y = x + out(attention(qkv(norm1(x)))), then y + proj(gelu(fc(norm2(y)))), for one token; "
        "its key and value go to the caches at `position`, and it attends to all up to there.",
    .kind = OpKind::Opaque,
    .infer = infer_decode,
    .cost = decode_cost,
    .kernel = run_decode,
    .vjp = no_gradient,
    .samples = decode_samples,
    .run_time_attrs = 0b1};  // position

}  // namespace pellucid
