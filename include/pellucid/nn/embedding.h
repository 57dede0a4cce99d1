// Embedding: a table of vectors, looked up by number.
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

}  // namespace pellucid::nn
