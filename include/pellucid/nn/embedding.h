// Embedding and EmbeddingBag: a table of vectors, looked up by number, one by one or in bags.
#pragma once

#include "pellucid/nn/cloneable.h"
#include "pellucid/nn/options/layers.h"
#include "pellucid/nn/pimpl.h"

namespace pellucid::nn {

/// input [*] of integers to output [*, embedding_dim]. The row padding_idx is zero and gets no
/// gradient.
class PELLUCID_API EmbeddingImpl : public Cloneable<EmbeddingImpl> {
 public:
  EmbeddingImpl(int64_t num_embeddings, int64_t embedding_dim)
      : EmbeddingImpl(EmbeddingOptions(num_embeddings, embedding_dim)) {}
  explicit EmbeddingImpl(EmbeddingOptions options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& input);
  std::string extra_repr() const override;
  EmbeddingOptions options;
  Tensor weight;
};

class Embedding : public ModuleHolder<EmbeddingImpl> {
 public:
  using ModuleHolder<EmbeddingImpl>::ModuleHolder;
  /// An Embedding over given vectors, frozen unless the options say otherwise.
  PELLUCID_API static Embedding from_pretrained(const Tensor& embeddings,
                                                const EmbeddingFromPretrainedOptions& options = {});
};

/// Sums, means or maxima of the vectors of each bag of integers.
class PELLUCID_API EmbeddingBagImpl : public Cloneable<EmbeddingBagImpl> {
 public:
  EmbeddingBagImpl(int64_t num_embeddings, int64_t embedding_dim)
      : EmbeddingBagImpl(EmbeddingBagOptions(num_embeddings, embedding_dim)) {}
  explicit EmbeddingBagImpl(EmbeddingBagOptions options);
  void reset() override;
  void reset_parameters();
  /// input [bags, size], or a list of integers with where each bag begins in it.
  Tensor forward(const Tensor& input, const Tensor& offsets = {},
                 const Tensor& per_sample_weights = {});
  std::string extra_repr() const override;
  EmbeddingBagOptions options;
  Tensor weight;
};

class EmbeddingBag : public ModuleHolder<EmbeddingBagImpl> {
 public:
  using ModuleHolder<EmbeddingBagImpl>::ModuleHolder;
  /// An EmbeddingBag over given vectors, frozen unless the options say otherwise.
  PELLUCID_API static EmbeddingBag from_pretrained(
      const Tensor& embeddings, const EmbeddingBagFromPretrainedOptions& options = {});
};

}  // namespace pellucid::nn
