// EmbeddingBag as a module.
#include "nn/parameter.h"
#include "nn/repr.h"
#include "pellucid/autograd.h"
#include "pellucid/nn/embedding.h"
#include "pellucid/nn/functional/layers.h"
#include "pellucid/nn/init.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

namespace {
constexpr const char* kModes[] = {"sum", "mean", "max"};
}

EmbeddingBagImpl::EmbeddingBagImpl(EmbeddingBagOptions o) : options(std::move(o)) { reset(); }

void EmbeddingBagImpl::reset() {
  const int64_t rows = options.num_embeddings(), columns = options.embedding_dim();
  if (auto& padding = options.padding_idx()) {
    PELLUCID_CHECK(*padding < rows && *padding >= -rows, IndexError,
                   "EmbeddingBag: padding_idx {} is out of range for {} embeddings.", *padding,
                   rows);
    if (*padding < 0) *padding += rows;
  }
  if (options._weight().defined()) {
    PELLUCID_CHECK(options._weight().sizes() == IntArrayRef({rows, columns}), ShapeError,
                   "EmbeddingBag: the weight is {}, but {} embeddings of size {} were asked for.",
                   options._weight().sizes(), rows, columns);
    weight = register_parameter("weight", options._weight());
    return;
  }
  weight = register_parameter("weight", new_parameter({rows, columns}));
  reset_parameters();
}

void EmbeddingBagImpl::reset_parameters() {
  init::normal_(weight);
  if (!options.padding_idx()) return;
  const NoGradGuard off;
  weight.select(0, *options.padding_idx()).fill_(0);
}

Tensor EmbeddingBagImpl::forward(const Tensor& input, const Tensor& offsets,
                                 const Tensor& per_sample_weights) {
  const ModuleScope scope(*this);
  return functional::embedding_bag(input, weight,
                                   functional::EmbeddingBagFuncOptions()
                                       .offsets(offsets)
                                       .max_norm(options.max_norm())
                                       .norm_type(options.norm_type())
                                       .scale_grad_by_freq(options.scale_grad_by_freq())
                                       .mode(options.mode())
                                       .sparse(options.sparse())
                                       .per_sample_weights(per_sample_weights)
                                       .include_last_offset(options.include_last_offset())
                                       .padding_idx(options.padding_idx()));
}

std::string EmbeddingBagImpl::extra_repr() const {
  std::string s = fmt::format("{}, {}", options.num_embeddings(), options.embedding_dim());
  if (options.max_norm()) s += ", max_norm=" + repr::text(*options.max_norm());
  if (options.norm_type() != 2) s += ", norm_type=" + repr::text(options.norm_type());
  if (options.scale_grad_by_freq()) s += ", scale_grad_by_freq=True";
  s += fmt::format(", mode='{}'", kModes[options.mode().index()]);
  if (options.padding_idx()) s += fmt::format(", padding_idx={}", *options.padding_idx());
  return s;
}

EmbeddingBag EmbeddingBag::from_pretrained(const Tensor& embeddings,
                                           const EmbeddingBagFromPretrainedOptions& o) {
  PELLUCID_CHECK(embeddings.dim() == 2, ShapeError,
                 "EmbeddingBag::from_pretrained: a matrix is needed, but got {}.",
                 embeddings.sizes());
  EmbeddingBag made(EmbeddingBagOptions(embeddings.size(0), embeddings.size(1))
                        ._weight(embeddings)
                        .max_norm(o.max_norm())
                        .norm_type(o.norm_type())
                        .scale_grad_by_freq(o.scale_grad_by_freq())
                        .mode(o.mode())
                        .sparse(o.sparse())
                        .include_last_offset(o.include_last_offset())
                        .padding_idx(o.padding_idx()));
  made->weight.set_requires_grad(!o.freeze());
  return made;
}

}  // namespace pellucid::nn
