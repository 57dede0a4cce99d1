// Scaled dot product attention. The composition normalises ranks, masks and heads; the primitive
// works in tiles and never holds the T x S matrix, forward or backward. Gradients of gradients, and
// the gradient of the mask, go through the plain formula softmax(scale q kᵀ + mask) v written with
// ops: right to any order, but T x S in memory.
#include "kernels/attention.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/philox.h"
#include "kernels/copy.h"
#include "ops/conv.h"
#include "ops/plain_gradient.h"

namespace pellucid {
namespace {

// Attributes are signed, seeds are not.
int64_t as_attr(uint64_t v) { return std::bit_cast<int64_t>(v); }
uint64_t as_seed(int64_t v) { return std::bit_cast<uint64_t>(v); }

kernels::AttentionShape shape_of(IntArrayRef q, IntArrayRef k, IntArrayRef v) {
  return {.B = q[0], .H = q[1], .Hkv = k[1], .T = q[2], .S = k[2], .D = q[3], .Dv = v[3]};
}

bool nothing_to_do(const kernels::AttentionShape& s) {
  return s.B == 0 || s.H == 0 || s.T == 0 || s.S == 0 || s.Dv == 0;
}

// q, k, v and the mask of a call whose first of them is input `first`.
kernels::AttentionShape check_heads(const Call& c, size_t first, size_t mask) {
  static constexpr std::string_view names[] = {"query", "key", "value"};
  for (size_t i = 0; i < 3; ++i) {
    check_defined(c, first + i, names[i]);
    check_dim(c, c.in(first + i), 4, names[i]);
    check_floating(c, c.in(first + i), names[i]);
    check_same_dtype(c, c.in(first), c.in(first + i));
  }
  const IntArrayRef q = c.in(first).sizes(), k = c.in(first + 1).sizes(),
                    v = c.in(first + 2).sizes();
  PELLUCID_CHECK(
      q[0] == k[0] && k[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[3] == k[3] && q[3] > 0,
      ShapeError,
      "{}: query [B, H, T, D], key [B, Hkv, S, D] and value [B, Hkv, S, Dv] are needed, found {}, "
      "{} and {}.",
      c.name(), q, k, v);
  PELLUCID_CHECK(k[1] > 0 ? q[1] % k[1] == 0 : q[1] == 0, ShapeError,
                 "{}: the {} heads of the query cannot share the {} of the key.", c.name(), q[1],
                 k[1]);
  if (c.has_in(mask)) {
    const Tensor& m = c.in(mask);
    check_dim(c, m, 4, "attn_mask");
    PELLUCID_CHECK(m.dtype() == kBool || m.dtype() == c.in(first).dtype(), TypeError,
                   "{}: 'attn_mask' must be bool or {}, found {}.", c.name(), c.in(first).dtype(),
                   m.dtype());
    PELLUCID_CHECK(broadcasts_to(m.sizes(), {q[0], q[1], q[2], k[2]}), ShapeError,
                   "{}: 'attn_mask' of sizes {} does not broadcast to [{}, {}, {}, {}].", c.name(),
                   m.sizes(), q[0], q[1], q[2], k[2]);
  }
  return shape_of(q, k, v);
}

void check_dropout(const Call& c, double p) {
  PELLUCID_CHECK(p >= 0 && p < 1, ValueError,
                 "{}: dropout_p must be at least 0 and less than 1, found {}.", c.name(), p);
}

// The kernels read rows without gaps inside; 16-bit floats as float.
Tensor rows(const Tensor& t) {
  const Tensor wide = widened(t);
  return wide.size(3) == 1 || wide.raw_strides()[3] == 1 ? wide : contiguous_values(wide);
}

template <class T> kernels::HeadTensor<T> heads(const Tensor& t) {
  const IntArrayRef s = t.raw_strides();
  return {t.raw<std::remove_const_t<T>>(), {s[0], s[1], s[2]}};
}

// A result with the order of heads and positions that `like` has in memory, so that reshaping it
// back is free.
void make_heads_output(Call& c, IntArrayRef sizes, const Tensor& like) {
  const IntArrayRef order = like.raw_strides();
  if (order[3] == 1 && like.size(1) > 1 && like.size(2) > 1 && order[1] > 0 && order[1] < order[2])
    c.make_output(sizes, {sizes[1] * sizes[2] * sizes[3], sizes[3], sizes[1] * sizes[3], 1},
                  like.dtype());
  else
    c.make_output(sizes, like.dtype());
}

void copy_values(const Tensor& from, const Tensor& to) {
  if (to.numel())
    kernels::copy_strided(to.sizes(), to.raw_data(), to.dtype(), to.raw_strides().data(),
                          from.raw_data(), from.dtype(), from.raw_strides().data());
}

// What a kernel writes for `out`: itself, or floats that are converted afterwards.
Tensor written(const Tensor& out) {
  return out.dtype() == kFloat32 || out.dtype() == kFloat64
             ? out
             : empty_strided(out.sizes(), out.raw_strides(), kFloat32);
}

template <class T>
kernels::AttentionOptions<T> options(const Tensor& mask, double dropout, bool causal, double scale,
                                     uint64_t seed, uint64_t offset) {
  kernels::AttentionOptions<T> o{
      .scale = scale, .is_causal = causal, .dropout = dropout, .seed = seed, .offset = offset};
  if (!mask.defined()) return o;
  if (mask.dtype() == kBool)
    o.bool_mask = mask.raw<bool>();
  else
    o.mask = mask.raw<T>();
  for (size_t d = 0; d < 4; ++d)
    o.mask_strides[d] = mask.sizes()[d] == 1 ? 0 : mask.raw_strides()[d];
  return o;
}

// forward: query, key, value, attn_mask; dropout_p, is_causal, scale.
void infer_attention(Call& c) {
  const kernels::AttentionShape s = check_heads(c, 0, 3);
  check_dropout(c, c.number(0));
  make_heads_output(c, {s.B, s.H, s.T, s.Dv}, c.in(0));
  const DType t = c.in(0).dtype();
  if (c.wants(1))
    c.make_output({s.B, s.H, s.T}, t == kFloat64 ? kFloat64 : kFloat32);
  else
    c.skip_output();
}

void run_attention(Call& c) {
  const NoGradGuard off;
  const kernels::AttentionShape s = shape_of(c.in(0).sizes(), c.in(1).sizes(), c.in(2).sizes());
  if (nothing_to_do(s)) {
    std::memset(c.out().raw_data(), 0, c.out().nbytes());
    if (c.wants(1)) std::memset(c.out(1).raw_data(), 0, c.out(1).nbytes());
    return;
  }
  const Tensor q = rows(c.in(0)), k = rows(c.in(1)), v = rows(c.in(2)),
               mask = c.has_in(3) ? widened(c.in(3)) : Tensor();
  const Tensor out = written(c.out()),
               sums = c.wants(1) ? c.out(1) : empty({s.B, s.H, s.T}, q.dtype());
  const auto run = [&](auto value) {
    using T = decltype(value);
    kernels::attention_forward<T>(
        s, options<T>(mask, c.number(0), c.flag(1), c.number(2), c.seed(), c.random_offset()),
        heads<const T>(q), heads<const T>(k), heads<const T>(v), heads<T>(out), sums.raw<T>());
  };
  if (q.dtype() == kFloat64)
    run(double{});
  else
    run(float{});
  if (!out.is_same(c.out())) copy_values(out, c.out());
}

// Of each pair of positions that the kernel looks at (half of them with a causal mask): the
// multiply-adds of its products, and what softmax and its gradient do.
Cost cost_of_pairs(const Call& c, const kernels::AttentionShape& s, int64_t products,
                   double softmax) {
  const double pairs =
      static_cast<double>(s.B * s.H) * static_cast<double>(s.T) * static_cast<double>(s.S);
  const double seen = c.flag(1) ? pairs / 2 : pairs, flops = 2.0 * static_cast<double>(products);
  return {seen * (flops + softmax), moved_bytes(c), seen * softmax, (pairs - seen) * flops};
}

Cost attention_cost(const Call& c) {
  const kernels::AttentionShape s = shape_of(c.in(0).sizes(), c.in(1).sizes(), c.in(2).sizes());
  constexpr double kSoftmax = 5;  // scale, mask, maximum, exponential, sum
  return cost_of_pairs(c, s, s.D + s.Dv, kSoftmax);
}

int64_t scratch_of_attention(const Call& c) {
  const kernels::AttentionShape s = shape_of(c.in(0).sizes(), c.in(1).sizes(), c.in(2).sizes());
  return c.in(0).dtype() == kFloat64 ? kernels::attention_scratch<double>(s)
                                     : kernels::attention_scratch<float>(s);
}

// The formula of attention for 4-D q, k, v, with the dropout that (seed, offset) draws.
struct Plain {
  double dropout;
  bool causal;
  double scale;
  uint64_t seed, offset;

  Tensor operator()(const Tensor& q, Tensor k, Tensor v, const Tensor& mask) const {
    const int64_t groups = q.size(1) / std::max<int64_t>(k.size(1), 1);
    if (groups > 1) k = k.repeat_interleave(groups, 1), v = v.repeat_interleave(groups, 1);
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    Tensor scores = q.matmul(k.mT()).mul(scale);
    if (causal) scores = where(ones({q.size(2), k.size(2)}, kBool).tril(), scores, kHidden);
    if (mask.defined())
      scores = mask.dtype() == kBool ? where(mask, scores, kHidden) : scores.add(mask);
    // A position that sees nothing has weights 0, not 0 / 0.
    const Tensor sees = scores.detach().ne(kHidden).any(-1, true);
    Tensor weights = where(sees, where(sees, scores, 0.0).softmax(-1), 0.0);
    if (dropout > 0) weights = _attention_dropout(weights, dropout, as_attr(seed), as_attr(offset));
    return weights.matmul(v);
  }
};

Tensors attention_vjp(const Vjp& v) {
  Tensors out(4);
  const Tensor mask = v.has_in(3) ? v.in(3) : Tensor();
  if (v.needs(3)) {
    const Plain plain{v.number(0), v.flag(1), v.number(2), v.seed(), v.random_offset()};
    const PlainFormula formula = [&](const Tensors& in) -> Tensors {
      return {plain(in[0], in[1], in[2], in[3])};
    };
    return plain_gradients(formula, {v.in(0), v.in(1), v.in(2), mask},
                           {v.needs(0), v.needs(1), v.needs(2), true}, v.grads);
  }
  std::tie(out[0], out[1], out[2]) = flash_attention_backward(
      v.grad_or_zeros(0), v.in(0), v.in(1), v.in(2), v.out(0), v.out(1), mask, v.number(0),
      v.flag(1), v.number(2), as_attr(v.seed()), as_attr(v.random_offset()));
  return out;
}

// backward: grad_out, query, key, value, out, logsumexp, attn_mask; dropout_p, is_causal, scale,
// seed, offset.
void infer_attention_backward(Call& c) {
  check_defined(c, 0, "grad_out");
  check_defined(c, 4, "out");
  check_defined(c, 5, "logsumexp");
  const kernels::AttentionShape s = check_heads(c, 1, 6);
  check_dropout(c, c.number(0));
  for (const size_t i : {size_t{0}, size_t{4}}) {
    PELLUCID_CHECK(c.in(i).sizes() == IntArrayRef({s.B, s.H, s.T, s.Dv}), ShapeError,
                   "{}: 'grad_out' and 'out' must have sizes [{}, {}, {}, {}], found {}.", c.name(),
                   s.B, s.H, s.T, s.Dv, c.in(i).sizes());
    check_same_dtype(c, c.in(1), c.in(i));
  }
  const DType t = c.in(1).dtype() == kFloat64 ? kFloat64 : kFloat32;
  PELLUCID_CHECK(c.in(5).sizes() == IntArrayRef({s.B, s.H, s.T}), ShapeError,
                 "{}: 'logsumexp' must be {} of sizes [{}, {}, {}], found {} of sizes {}.",
                 c.name(), t, s.B, s.H, s.T, c.in(5).dtype(), c.in(5).sizes());
  PELLUCID_CHECK(c.in(5).dtype() == t, TypeError, "{}: 'logsumexp' must be {}, found {}.", c.name(),
                 t, c.in(5).dtype());
  for (size_t i = 1; i < 4; ++i) make_heads_output(c, c.in(i).sizes(), c.in(i));
}

void run_attention_backward(Call& c) {
  const NoGradGuard off;
  const kernels::AttentionShape s = shape_of(c.in(1).sizes(), c.in(2).sizes(), c.in(3).sizes());
  if (nothing_to_do(s)) {
    for (size_t i = 0; i < 3; ++i) std::memset(c.out(i).raw_data(), 0, c.out(i).nbytes());
    return;
  }
  const Tensor g = rows(c.in(0)), q = rows(c.in(1)), k = rows(c.in(2)), v = rows(c.in(3)),
               out = rows(c.in(4)), sums = contiguous_values(c.in(5));
  const Tensor mask = c.has_in(6) ? widened(c.in(6)) : Tensor();
  const Tensor dq = written(c.out(0)), dk = written(c.out(1)), dv = written(c.out(2));
  const auto run = [&](auto value) {
    using T = decltype(value);
    kernels::attention_backward<T>(s,
                                   options<T>(mask, c.number(0), c.flag(1), c.number(2),
                                              as_seed(c.integer(3)), as_seed(c.integer(4))),
                                   heads<const T>(q), heads<const T>(k), heads<const T>(v),
                                   heads<const T>(out), sums.raw<T>(), heads<const T>(g),
                                   heads<T>(dq), heads<T>(dk), heads<T>(dv));
  };
  if (q.dtype() == kFloat64)
    run(double{});
  else
    run(float{});
  if (dq.is_same(c.out(0))) return;
  copy_values(dq, c.out(0));
  copy_values(dk, c.out(1));
  copy_values(dv, c.out(2));
}

// out and logsumexp are functions of the other inputs: their share of the derivative is in that of
// q, k, v and the mask.
Tensors attention_backward_vjp(const Vjp& v) {
  const Plain plain{v.number(0), v.flag(1), v.number(2), as_seed(v.integer(3)),
                    as_seed(v.integer(4))};
  const PlainFormula formula = [&](const Tensors& in) -> Tensors {
    Tensors of;
    for (size_t i = 1; i < 4; ++i)
      of.push_back(in[i].requires_grad() ? in[i] : in[i].detach().requires_grad_());
    return autograd::grad({plain(of[0], of[1], of[2], in[4])}, of, {in[0]}, true, true);
  };
  const Tensor mask = v.has_in(6) ? v.in(6) : Tensor();
  const Tensors found =
      plain_gradients(formula, {v.in(0), v.in(1), v.in(2), v.in(3), mask},
                      {v.needs(0), v.needs(1), v.needs(2), v.needs(3), v.needs(6)}, v.grads);
  return {found[0], found[1], found[2], found[3], Tensor(), Tensor(), found[4]};
}

Cost attention_backward_cost(const Call& c) {
  const kernels::AttentionShape s = shape_of(c.in(1).sizes(), c.in(2).sizes(), c.in(3).sizes());
  constexpr double kSoftmax = 8;  // the weights again, and their gradient
  return cost_of_pairs(c, s, 3 * s.D + 2 * s.Dv, kSoftmax);
}

int64_t scratch_of_attention_backward(const Call& c) {
  const kernels::AttentionShape s = shape_of(c.in(1).sizes(), c.in(2).sizes(), c.in(3).sizes());
  const bool dropout = c.number(0) > 0;
  return c.in(0).dtype() == kFloat64 ? kernels::attention_backward_scratch<double>(s, dropout)
                                     : kernels::attention_backward_scratch<float>(s, dropout);
}

void run_attention_dropout(Call& c) {
  const NoGradGuard off;
  const Tensor x = contiguous_values(c.in(0));
  const int64_t columns = std::max<int64_t>(x.size(-1), 1), blocks = (columns + 3) / 4;
  const auto limit = static_cast<float>(c.number(0));
  visit(x.dtype(), [&](auto value) {
    using T = decltype(value);
    if constexpr (is_floating(dtype_of<T>)) {
      const T* const from = x.raw<T>();
      T* const to = c.out().raw<T>();
      const auto scale = static_cast<T>(1 / (1 - c.number(0)));
      for (int64_t i = 0; i < x.numel(); ++i) {
        const int64_t row = i / columns, column = i % columns;
        const PhiloxBlock bits =
            philox4x32(as_seed(c.integer(1)),
                       as_seed(c.integer(2)) + static_cast<uint64_t>(row * blocks + column / 4));
        to[i] = uniform_float(bits[static_cast<size_t>(column % 4)]) >= limit
                    ? static_cast<T>(from[i] * scale)
                    : T(0);
      }
    }
  });
}

void check_attention(const Call& c) {
  static constexpr std::string_view names[] = {"query", "key", "value"};
  for (size_t i = 0; i < 3; ++i) {
    check_defined(c, i, names[i]);
    PELLUCID_CHECK(
        c.in(i).dim() >= 2, ShapeError,
        "{}: '{}' needs at least 2 dimensions [..., positions, features], found sizes {}.",
        c.name(), names[i], c.in(i).sizes());
    check_same_dtype(c, c.in(0), c.in(i));
    check_floating(c, c.in(i), names[i]);
  }
  const Tensor &q = c.in(0), &k = c.in(1), &v = c.in(2);
  PELLUCID_CHECK(q.size(-1) == k.size(-1) && k.size(-2) == v.size(-2), ShapeError,
                 "{}: query [..., T, D], key [..., S, D] and value [..., S, Dv] are needed, found "
                 "{}, {} and {}.",
                 c.name(), q.sizes(), k.sizes(), v.sizes());
  PELLUCID_CHECK(c.number(0) >= 0 && c.number(0) <= 1, ValueError,
                 "{}: dropout_p must be between 0 and 1, found {}.", c.name(), c.number(0));
  PELLUCID_CHECK(!(c.has_in(3) && c.flag(1)), ValueError,
                 "{}: give attn_mask or is_causal = true, not both.", c.name());
}

// Whether several heads of the query share one of key and value: if asked for, or if those have a
// single one.
bool is_grouped(const Call& c) {
  const Tensor &q = c.in(0), &k = c.in(1), &v = c.in(2);
  if (q.dim() < 3 || k.dim() < 3 || v.dim() < 3) return false;
  if (!c.flag(3)) return k.size(-3) == 1 && v.size(-3) == 1;
  PELLUCID_CHECK(k.size(-3) == v.size(-3) && k.size(-3) > 0 && q.size(-3) % k.size(-3) == 0,
                 ShapeError,
                 "{}: with enable_gqa the heads of the query must be a multiple of those of key "
                 "and value, found {}, {} and {}.",
                 c.name(), q.size(-3), k.size(-3), v.size(-3));
  return true;
}

// The leading dimensions, heads included, of the query after broadcasting.
Dims leading_sizes(const Call& c, bool grouped) {
  Dims out;
  for (size_t i = 0; i < 3; ++i) {
    const IntArrayRef sizes = c.in(i).sizes();
    out = broadcast_sizes(c.name(), out, sizes.slice(0, sizes.size() - (grouped ? 3 : 2)));
  }
  if (grouped) out.push_back(c.in(0).size(-3));
  return out;
}

// [..., T, D] as [B, H, T, D]: missing dimensions are 1, more than two leading ones become one B.
Tensor four_dims(Tensor t, const Dims& leading, bool grouped) {
  Dims sizes(leading);
  if (grouped) sizes.back() = t.size(-3);
  sizes.push_back(t.size(-2));
  sizes.push_back(t.size(-1));
  if (t.sizes() != sizes.ref()) t = t.expand(sizes);
  while (t.dim() < 4) t = t.unsqueeze(0);
  if (t.dim() == 4) return t;
  int64_t batch = 1;
  for (size_t d = 0; d + 1 < leading.size(); ++d) batch *= leading[d];
  return t.reshape({batch, t.size(-3), t.size(-2), t.size(-1)});
}

Tensor four_dims_mask(const Call& c, const Dims& leading) {
  Tensor mask = c.in(3);
  Dims full(leading);
  full.push_back(c.in(0).size(-2));
  full.push_back(c.in(1).size(-2));
  PELLUCID_CHECK(mask.dtype() == kBool || mask.dtype() == c.in(0).dtype(), TypeError,
                 "{}: 'attn_mask' must be bool or {}, found {}.", c.name(), c.in(0).dtype(),
                 mask.dtype());
  PELLUCID_CHECK(broadcasts_to(mask.sizes(), full), ShapeError,
                 "{}: 'attn_mask' of sizes {} does not broadcast to {}.", c.name(), mask.sizes(),
                 full);
  if (full.size() > 4) return four_dims(mask.expand(full), leading, false);
  while (mask.dim() < 4) mask = mask.unsqueeze(0);
  return mask;
}

Tensor compose_attention(const Call& c) {
  check_attention(c);
  const bool grouped = is_grouped(c);
  const Dims leading = leading_sizes(c, grouped);
  const Tensor q = four_dims(c.in(0), leading, false), k = four_dims(c.in(1), leading, grouped),
               v = four_dims(c.in(2), leading, grouped);
  const Tensor mask = c.has_in(3) ? four_dims_mask(c, leading) : Tensor();
  const double p = c.number(0),
               scale = c.has_attr(2) ? c.number(2) : 1 / std::sqrt(static_cast<double>(q.size(-1)));
  // With p = 1 everything is dropped, but the result still depends on its inputs.
  const Tensor out = p == 1 ? flash_attention(q, k, v, mask, 0, c.flag(1), scale).mul(0.0)
                            : flash_attention(q, k, v, mask, p, c.flag(1), scale);
  if (leading.size() == 2) return out;
  Dims sizes(leading);
  sizes.push_back(out.size(2));
  sizes.push_back(out.size(3));
  return out.reshape(sizes);
}

}  // namespace

extern constinit const OpDef flash_attention_op = {
    .schema =
        "flash_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, float "
        "dropout_p, bool is_causal, float scale) -> (Tensor out, Tensor _logsumexp)",
    .doc =
        "softmax(scale * query @ key.mT + attn_mask) @ value for [B, H, T, D], in tiles; key and "
        "value may have fewer heads.",
    .kind = OpKind::Contraction,
    .infer = infer_attention,
    .cost = attention_cost,
    .scratch = scratch_of_attention,
    .kernel = run_attention,
    .saved = Saved{0b1111, 0b11, 0},
    .vjp = attention_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 4, 2}), sample_randn({1, 2, 4, 3}),
                 Value(), 0.0, false, 0.7});
          s.add({sample_randn({1, 2, 3, 2}), sample_randn({1, 1, 3, 2}), sample_randn({1, 1, 3, 2}),
                 Value(), 0.0, true, 0.7});
          s.add({sample_randn({1, 2, 2, 2}).transpose(1, 2), sample_randn({1, 2, 3, 2}),
                 sample_randn({1, 2, 3, 2}), sample_randn({1, 1, 2, 3}), 0.0, false, 0.7});
          s.add({sample_randn({1, 1, 2, 2}), sample_randn({1, 1, 3, 2}), sample_randn({1, 1, 3, 2}),
                 sample_ints({1, 1, 2, 3}, 0, 2).to(kBool), 0.0, false, 0.7});
          s.add_no_grad({sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 4, 2}),
                         sample_randn({1, 2, 4, 3}), Value(), 0.5, false, 0.7});
          s.add({sample_randn({0, 2, 3, 2}), sample_randn({0, 2, 4, 2}), sample_randn({0, 2, 4, 3}),
                 Value(), 0.0, false, 0.7});
          s.error({sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 4, 3}),
                   sample_randn({1, 2, 4, 3}), Value(), 0.0, false, 0.7},
                  "query [B, H, T, D], key [B, Hkv, S, D]");
          s.error({sample_randn({1, 3, 3, 2}), sample_randn({1, 2, 4, 2}),
                   sample_randn({1, 2, 4, 3}), Value(), 0.0, false, 0.7},
                  "the 3 heads of the query cannot share the 2 of the key");
          s.error({sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 4, 2}),
                   sample_randn({1, 2, 4, 3}), sample_randn({1, 1, 4, 4}), 0.0, false, 0.7},
                  "does not broadcast to [1, 2, 3, 4]");
          s.error({sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 4, 2}),
                   sample_randn({1, 2, 4, 3}), Value(), 1.0, false, 0.7},
                  "less than 1");
          s.large([] {
            return Values{randn({4, 12, 256, 64}),
                          randn({4, 12, 256, 64}),
                          randn({4, 12, 256, 64}),
                          Value(),
                          0.0,
                          true,
                          0.125};
          });
        },
    .structural_attrs = 0b001,  // whether there is dropout
    .random_count = [](const Call& c) -> uint64_t {
      if (c.number(0) == 0) return 0;
      return static_cast<uint64_t>(kernels::attention_dropout_counters(
          shape_of(c.in(0).sizes(), c.in(1).sizes(), c.in(2).sizes())));
    }};

extern constinit const OpDef flash_attention_backward_op = {
    .schema =
        "flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor "
        "out, Tensor logsumexp, Tensor? attn_mask, float dropout_p, bool is_causal, float scale, "
        "int seed, int offset) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
    .doc = "The gradients of flash_attention in one pass over the tiles, which are computed again.",
    .kind = OpKind::Contraction,
    .infer = infer_attention_backward,
    .cost = attention_backward_cost,
    .scratch = scratch_of_attention_backward,
    .kernel = run_attention_backward,
    .saved = Saved{0b1001111, 0, 0},
    .vjp = attention_backward_vjp,
    .samples =
        [](Samples& s) {
          // out and logsumexp depend on the other inputs, so finite differences do not apply;
          // flash_attention's do.
          const auto add = [&](const Value& mask, bool causal) {
            const Tensor q = sample_randn({1, 2, 3, 2}), k = sample_randn({1, 2, 3, 2}),
                         v = sample_randn({1, 2, 3, 2});
            const Tensor scores = q.matmul(k.mT()).mul(0.7);
            s.add_no_grad({sample_randn({1, 2, 3, 2}), q, k, v, scores.softmax(-1).matmul(v),
                           scores.logsumexp(-1), mask, 0.0, causal, 0.7, 0, 0});
          };
          add(Value(), false);
          const Tensor t = sample_randn({1, 2, 3, 2});
          s.error({t, t, t, t, t, sample_randn({1, 2, 4}), Value(), 0.0, false, 0.7, 0, 0},
                  "'logsumexp' must be float64 of sizes [1, 2, 3]");
          s.error({sample_randn({1, 2, 4, 2}), t, t, t, t, sample_randn({1, 2, 3}), Value(), 0.0,
                   false, 0.7, 0, 0},
                  "'grad_out' and 'out' must have sizes [1, 2, 3, 2]");
        },
    .run_time_attrs = 0b11000,   // seed and offset
    .structural_attrs = 0b001};  // whether there is dropout

extern constinit const OpDef attention_dropout_op = {
    .schema = "_attention_dropout(Tensor self, float p, int seed, int offset) -> Tensor",
    .doc =
        "The dropout of flash_attention's weights [B, H, T, S] that drew from (seed, offset), for "
        "the plain formula.",
    .kind = OpKind::Opaque,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          check_floating(c, c.in(0), "self");
          PELLUCID_CHECK(c.in(0).dim() >= 1, ShapeError,
                         "_attention_dropout: 'self' needs at least 1 dimension.");
          check_dropout(c, c.number(0));
          c.make_output(c.in(0).sizes(), c.in(0).dtype());
        },
    .cost = [](const Call& c) { return elementwise_cost(c, 2); },
    .kernel = run_attention_dropout,
    .vjp = [](const Vjp& v) -> Tensors {
      return {_attention_dropout(v.grad, v.number(0), v.integer(1), v.integer(2))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 2, 2, 5}), 0.4, 7, 3});
          s.error({sample_randn({2, 2}), 1.0, 7, 3}, "less than 1");
        },
    .run_time_attrs = 0b110};  // seed and offset

extern constinit const OpDef scaled_dot_product_attention_op = {
    .schema =
        "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
        "attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool "
        "enable_gqa=False) -> Tensor",
    .doc =
        "softmax(query @ key.mT * scale + attn_mask) @ value; scale is 1 / sqrt(D) unless given, a "
        "bool mask hides where it is false.",
    .kind = OpKind::Contraction,
    .compose = [](const Call& c) -> Tensors { return {compose_attention(c)}; },
    .samples =
        [](Samples& s) {
          s.add(
              {sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 4, 2}), sample_randn({1, 2, 4, 3})});
          s.add({sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 3, 2}),
                 Value(), 0.0, true});
          s.add({sample_randn({2, 3, 2}), sample_randn({2, 4, 2}), sample_randn({2, 4, 2}),
                 sample_randn({3, 4})});
          s.add({sample_randn({3, 2}), sample_randn({4, 2}), sample_randn({4, 2})},
                {{"scale", 0.5}});
          s.add(
              {sample_randn({1, 4, 2, 2}), sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 3, 2})},
              {{"enable_gqa", true}});
          s.add({sample_randn({2, 1, 2, 2, 2}), sample_randn({1, 2, 1, 2, 2}),
                 sample_randn({2, 2, 2})});
          s.add({sample_randn({1, 1, 2, 2}), sample_randn({1, 1, 3, 2}), sample_randn({1, 1, 3, 2}),
                 sample_ints({2, 3}, 0, 2).to(kBool)});
          s.add_no_grad({sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 4, 2}),
                         sample_randn({1, 2, 4, 3}), Value(), 1.0});
          s.error({sample_randn({2}), sample_randn({4, 2}), sample_randn({4, 2})},
                  "'query' needs at least 2 dimensions");
          s.error({sample_randn({3, 2}), sample_randn({4, 3}), sample_randn({4, 2})},
                  "query [..., T, D], key [..., S, D]");
          s.error({sample_randn({3, 2}), sample_randn({4, 2}), sample_randn({4, 2}),
                   sample_randn({3, 4}), 0.0, true},
                  "not both");
          s.error({sample_randn({3, 2}), sample_randn({4, 2}), sample_randn({4, 2}),
                   sample_randn({5, 4})},
                  "'attn_mask' of sizes [5, 4] does not broadcast");
          s.error(
              {sample_randn({1, 3, 2, 2}), sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 3, 2})},
              "must be a multiple", {{"enable_gqa", true}});
          s.error(
              {sample_randn({1, 4, 2, 2}), sample_randn({1, 2, 3, 2}), sample_randn({1, 2, 3, 2})},
              "do not broadcast");
          s.error({sample_randn({3, 2}), sample_randn({4, 2}), sample_randn({4, 2}), Value(), 1.5},
                  "dropout_p must be between 0 and 1");
          s.large([] {
            return Values{randn({4, 12, 256, 64}),
                          randn({4, 12, 256, 64}),
                          randn({4, 12, 256, 64}),
                          Value(),
                          0.0,
                          true};
          });
        }};

}  // namespace pellucid
