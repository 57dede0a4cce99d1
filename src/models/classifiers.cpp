// The multilayer perceptron, the MNIST CNN and the encoder classifier.
#include "pellucid/models/classifiers.h"

#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::models {

nn::Sequential mlp(const std::vector<int64_t>& sizes) {
  PELLUCID_CHECK(sizes.size() >= 2, ValueError,
                 "mlp: at least an input and an output size are needed, but got {}.",
                 IntArrayRef(sizes));
  nn::Sequential net;
  for (size_t i = 1; i < sizes.size(); ++i) {
    if (i > 1) net->push_back(nn::ReLU());
    net->push_back(nn::Linear(sizes[i - 1], sizes[i]));
  }
  return net;
}

void MnistCnnImpl::reset() {
  conv1 = register_module("conv1", nn::Conv2d(1, 32, 3));
  conv2 = register_module("conv2", nn::Conv2d(32, 64, 3));
  dropout1 = register_module("dropout1", nn::Dropout(0.25));
  dropout2 = register_module("dropout2", nn::Dropout(0.5));
  fc1 = register_module("fc1", nn::Linear(9216, 128));
  fc2 = register_module("fc2", nn::Linear(128, 10));
}

Tensor MnistCnnImpl::forward(const Tensor& images) {
  const nn::ModuleScope scope(*this);
  // In place: backward of a convolution needs its input, not its output.
  Tensor x = conv1(images).relu_();
  x = conv2(x).relu_();
  x = dropout1(max_pool2d(x, {2}));
  x = fc1(flatten(x, 1)).relu_();
  return log_softmax(fc2(dropout2(x)), 1);
}

EncoderClassifierImpl::EncoderClassifierImpl(const EncoderClassifierOptions& o) : options(o) {
  reset();
}

void EncoderClassifierImpl::reset() {
  const auto& o = options;
  tokens = register_module("tokens", nn::Embedding(o.vocab_size(), o.d_model()));
  positions = register_module("positions", nn::Embedding(o.max_len(), o.d_model()));
  const auto layer = nn::TransformerEncoderLayerOptions(o.d_model(), o.nhead())
                         .dim_feedforward(o.dim_feedforward())
                         .dropout(o.dropout())
                         .activation(kGELU)
                         .batch_first(true)
                         .norm_first(true);
  encoder = register_module(
      "encoder", nn::TransformerEncoder(nn::TransformerEncoderOptions(layer, o.num_layers())));
  norm = register_module("norm", nn::LayerNorm(std::vector<int64_t>{o.d_model()}));
  head = register_module("head", nn::Linear(o.d_model(), o.num_classes()));
  nn::init::normal_(tokens->weight, 0, 0.02);
  nn::init::normal_(positions->weight, 0, 0.02);
}

Tensor EncoderClassifierImpl::forward(const Tensor& ids, const Tensor& padding) {
  const nn::ModuleScope scope(*this);
  PELLUCID_CHECK(ids.dim() == 2, ShapeError,
                 "EncoderClassifier: tokens must be [B, T], but are {}.", ids.sizes());
  PELLUCID_CHECK(ids.size(1) <= options.max_len(), ValueError,
                 "EncoderClassifier: {} tokens are more than max_len {}.", ids.size(1),
                 options.max_len());
  Tensor x = tokens(ids) + positions(arange(ids.size(1)));
  x = norm(encoder(x, Tensor(), padding));
  if (!padding.defined()) return head(x.mean(1));
  const Tensor there = padding.logical_not().to(x.dtype()).unsqueeze(-1);
  return head((x * there).sum(1) / there.sum(1).clamp_min(1));
}

}  // namespace pellucid::models
