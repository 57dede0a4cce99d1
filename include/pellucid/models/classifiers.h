// Small classifiers: a multilayer perceptron, the CNN of PyTorch's MNIST example, and a transformer
// encoder over tokens.
#pragma once

#include <vector>

#include "pellucid/nn.h"

namespace pellucid::models {

/// Linear layers of the given sizes with ReLU between them: mlp({1000, 100, 10}).
PELLUCID_API nn::Sequential mlp(const std::vector<int64_t>& sizes);

/// Two convolutions (1-32-64 channels, 3x3), max pool, dropout, and linear layers 9216-128-10;
/// takes [B, 1, 28, 28] and returns log probabilities.
class PELLUCID_API MnistCnnImpl : public nn::Cloneable<MnistCnnImpl> {
 public:
  MnistCnnImpl() { reset(); }
  void reset() override;
  Tensor forward(const Tensor& images);
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::Dropout dropout1{nullptr}, dropout2{nullptr};
  nn::Linear fc1{nullptr}, fc2{nullptr};
};
using MnistCnn = nn::ModuleHolder<MnistCnnImpl>;

struct EncoderClassifierOptions {
  EncoderClassifierOptions(int64_t vocab_size, int64_t num_classes)
      : vocab_size_(vocab_size), num_classes_(num_classes) {}
  PELLUCID_ARG(int64_t, vocab_size);
  PELLUCID_ARG(int64_t, num_classes);
  PELLUCID_ARG(int64_t, d_model) = 128;
  PELLUCID_ARG(int64_t, nhead) = 4;
  PELLUCID_ARG(int64_t, num_layers) = 2;
  PELLUCID_ARG(int64_t, dim_feedforward) = 256;
  PELLUCID_ARG(int64_t, max_len) = 512;
  PELLUCID_ARG(double, dropout) = 0.1;
};

/// Token and position embeddings, a transformer encoder, the mean over positions, a linear layer.
class PELLUCID_API EncoderClassifierImpl : public nn::Cloneable<EncoderClassifierImpl> {
 public:
  EncoderClassifierImpl(int64_t vocab_size, int64_t num_classes)
      : EncoderClassifierImpl(EncoderClassifierOptions(vocab_size, num_classes)) {}
  explicit EncoderClassifierImpl(const EncoderClassifierOptions& options);
  void reset() override;
  /// Logits [B, classes] of tokens [B, T]; padding [B, T] is true where there is no token.
  Tensor forward(const Tensor& tokens, const Tensor& padding = {});
  EncoderClassifierOptions options;
  nn::Embedding tokens{nullptr}, positions{nullptr};
  nn::TransformerEncoder encoder{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear head{nullptr};
};
using EncoderClassifier = nn::ModuleHolder<EncoderClassifierImpl>;

}  // namespace pellucid::models
