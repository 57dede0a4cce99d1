// Embedding as a module.
#include "pellucid/nn/embedding.h"

#include "nn/parameter.h"
#include "nn/repr.h"
#include "pellucid/autograd.h"
#include "pellucid/nn/functional/layers.h"
#include "pellucid/nn/init.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

EmbeddingImpl::EmbeddingImpl(EmbeddingOptions o) : options(std::move(o)) { reset(); }

void EmbeddingImpl::reset() {
  const int64_t rows = options.num_embeddings(), columns = options.embedding_dim();
  if (auto& padding = options.padding_idx()) {
    PELLUCID_CHECK(*padding < rows && *padding >= -rows, IndexError,
                   "Embedding: padding_idx {} is out of range for {} embeddings.", *padding, rows);
    if (*padding < 0) *padding += rows;
  }
  if (options._weight().defined()) {
    PELLUCID_CHECK(options._weight().sizes() == IntArrayRef({rows, columns}), ShapeError,
                   "Embedding: the weight is {}, but {} embeddings of size {} were asked for.",
                   options._weight().sizes(), rows, columns);
    weight = register_parameter("weight", options._weight());
    return;
  }
  weight = register_parameter("weight", new_parameter({rows, columns}));
  reset_parameters();
}

void EmbeddingImpl::reset_parameters() {
  init::normal_(weight);
  if (!options.padding_idx()) return;
  const NoGradGuard off;
  weight.select(0, *options.padding_idx()).fill_(0);
}

Tensor EmbeddingImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  if (!options.max_norm())
    return embedding(weight, input, options.padding_idx().value_or(-1),
                     options.scale_grad_by_freq(), options.sparse());
  return functional::embedding(input, weight,
                               functional::EmbeddingFuncOptions()
                                   .padding_idx(options.padding_idx())
                                   .max_norm(options.max_norm())
                                   .norm_type(options.norm_type())
                                   .scale_grad_by_freq(options.scale_grad_by_freq())
                                   .sparse(options.sparse()));
}

std::string EmbeddingImpl::extra_repr() const {
  std::string s = fmt::format("{}, {}", options.num_embeddings(), options.embedding_dim());
  if (options.padding_idx()) s += fmt::format(", padding_idx={}", *options.padding_idx());
  if (options.max_norm()) s += ", max_norm=" + repr::text(*options.max_norm());
  if (options.norm_type() != 2) s += ", norm_type=" + repr::text(options.norm_type());
  if (options.scale_grad_by_freq()) s += ", scale_grad_by_freq=True";
  if (options.sparse()) s += ", sparse=True";
  return s;
}

Embedding Embedding::from_pretrained(const Tensor& embeddings,
                                     const EmbeddingFromPretrainedOptions& o) {
  PELLUCID_CHECK(embeddings.dim() == 2, ShapeError,
                 "Embedding::from_pretrained: a matrix is needed, but got {}.", embeddings.sizes());
  Embedding made(EmbeddingOptions(embeddings.size(0), embeddings.size(1))
                     ._weight(embeddings)
                     .padding_idx(o.padding_idx())
                     .max_norm(o.max_norm())
                     .norm_type(o.norm_type())
                     .scale_grad_by_freq(o.scale_grad_by_freq())
                     .sparse(o.sparse()));
  made->weight.set_requires_grad(!o.freeze());
  return made;
}

}  // namespace pellucid::nn
