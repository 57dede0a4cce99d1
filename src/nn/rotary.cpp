// RotaryEmbedding: the tables of the op `rotary`, made for every position once.
#include <array>

#include "pellucid/nn/attention.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

RotaryEmbeddingImpl::RotaryEmbeddingImpl(const RotaryEmbeddingOptions& o) : options(o) { reset(); }

void RotaryEmbeddingImpl::reset() {
  const int64_t dim = options.dim(), length = options.max_seq_len();
  PELLUCID_CHECK(dim > 0 && dim % 2 == 0, ValueError,
                 "RotaryEmbedding: dim must be even and positive, because values are turned in "
                 "pairs, but is {}.",
                 dim);
  PELLUCID_CHECK(length > 0, ValueError,
                 "RotaryEmbedding: max_seq_len must be positive, but is {}.", length);
  const auto [c, s] = tables(get_default_dtype());
  cos = register_buffer("cos", c, false);
  sin = register_buffer("sin", s, false);
}

std::array<Tensor, 2> RotaryEmbeddingImpl::tables(DType dtype) const {
  const NoGradGuard off;
  const Tensor pair = arange(0, options.dim(), 2, kFloat64) / static_cast<double>(options.dim());
  const Tensor angle =
      outer(arange(options.max_seq_len(), kFloat64), pow(Scalar(1.0 / options.base()), pair));
  return {angle.cos().to(dtype), angle.sin().to(dtype)};
}

void RotaryEmbeddingImpl::to(DType dtype, bool non_blocking) {
  Module::to(dtype, non_blocking);
  const auto [c, s] = tables(dtype);
  cos.set_data(c);
  sin.set_data(s);
}

Tensor RotaryEmbeddingImpl::forward(const Tensor& x, int64_t offset) {
  const ModuleScope scope(*this);
  PELLUCID_CHECK(x.dim() == 3 || x.dim() == 4, ShapeError,
                 "RotaryEmbedding: the input must be [B, L, D] or [B, L, H, D], but is {}.",
                 x.sizes());
  PELLUCID_CHECK(x.size(-1) == options.dim(), ShapeError,
                 "RotaryEmbedding: the input's last size is {} but dim is {} (input {}).",
                 x.size(-1), options.dim(), x.sizes());
  const int64_t length = x.size(1);
  PELLUCID_CHECK(offset >= 0 && offset + length <= options.max_seq_len(), ValueError,
                 "RotaryEmbedding: positions {} to {} were asked for, but max_seq_len is {}.",
                 offset, offset + length - 1, options.max_seq_len());
  return rotary(x, cos.narrow(0, offset, length), sin.narrow(0, offset, length));
}

std::string RotaryEmbeddingImpl::extra_repr() const {
  return fmt::format("dim={}, max_seq_len={}", options.dim(), options.max_seq_len());
}

}  // namespace pellucid::nn
