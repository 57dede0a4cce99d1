// Modules print as PyTorch 2.13's Python prints them.
#include <doctest/doctest.h>

#include <sstream>

#include "pellucid/torch.h"

using namespace pellucid;

namespace {
template <class M> void prints(const M& module, const std::string& expected) {
  std::ostringstream out;
  out << module;
  CHECK(out.str() == expected);
}
}  // namespace

TEST_CASE("nn repr: layers") {
  prints(nn::Linear(nn::LinearOptions(3, 4).bias(false)),
         "Linear(in_features=3, out_features=4, bias=False)");
  prints(nn::Bilinear(2, 3, 4),
         "Bilinear(in1_features=2, in2_features=3, out_features=4, bias=True)");
  prints(nn::Identity(), "Identity()");
  prints(nn::Flatten(), "Flatten(start_dim=1, end_dim=-1)");
  prints(nn::Unflatten(1, std::vector<int64_t>{2, 3}), "Unflatten(dim=1, unflattened_size=(2, 3))");
  prints(nn::Conv1d(2, 4, 3), "Conv1d(2, 4, kernel_size=(3,), stride=(1,))");
  prints(nn::Conv2d(nn::Conv2dOptions(1, 32, 3).padding(1).bias(false)),
         "Conv2d(1, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)");
  prints(nn::Conv2d(nn::Conv2dOptions(2, 4, {3, 5}).padding(kSame).padding_mode(kReflect)),
         "Conv2d(2, 4, kernel_size=(3, 5), stride=(1, 1), padding=same, padding_mode=reflect)");
  prints(nn::ConvTranspose2d(
             nn::ConvTranspose2dOptions(4, 2, 3).stride(2).output_padding(1).bias(false)),
         "ConvTranspose2d(4, 2, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1), "
         "bias=False)");
  prints(nn::MaxPool2d(2),
         "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, "
         "ceil_mode=False)");
  prints(nn::MaxPool2d(nn::MaxPool2dOptions({2, 2})),
         "MaxPool2d(kernel_size=(2, 2), stride=(2, 2), padding=0, dilation=1, ceil_mode=False)");
  prints(nn::AvgPool1d(2), "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))");
  prints(nn::AvgPool2d(2), "AvgPool2d(kernel_size=2, stride=2, padding=0)");
  prints(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({1, 1})),
         "AdaptiveAvgPool2d(output_size=(1, 1))");
  prints(nn::AdaptiveAvgPool2d(1), "AdaptiveAvgPool2d(output_size=1)");
  prints(nn::BatchNorm2d(nn::BatchNorm2dOptions(4).momentum(std::nullopt)),
         "BatchNorm2d(4, eps=1e-05, momentum=None, affine=True, bias=True, "
         "track_running_stats=True)");
  prints(nn::InstanceNorm2d(3),
         "InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, "
         "track_running_stats=False)");
  prints(nn::LayerNorm(nn::LayerNormOptions({2, 3}).bias(false)),
         "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=False)");
  prints(nn::RMSNorm(nn::RMSNormOptions({8}).eps(1e-6)),
         "RMSNorm((8,), eps=1e-06, elementwise_affine=True)");
  prints(nn::GroupNorm(2, 4), "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)");
  prints(nn::LocalResponseNorm(3), "LocalResponseNorm(3, alpha=0.0001, beta=0.75, k=1.0)");
  prints(nn::Dropout(0.25), "Dropout(p=0.25, inplace=False)");
  prints(nn::Embedding(nn::EmbeddingOptions(10, 3).padding_idx(2)),
         "Embedding(10, 3, padding_idx=2)");
  prints(nn::ConstantPad1d(nn::ConstantPad1dOptions(1, 3.5)),
         "ConstantPad1d(padding=(1, 1), value=3.5)");
  prints(nn::ZeroPad2d(nn::ZeroPad2dOptions({1, 2, 3, 4})), "ZeroPad2d((1, 2, 3, 4))");
  prints(nn::PixelShuffle(2), "PixelShuffle(upscale_factor=2)");
  prints(nn::GRU(
             nn::GRUOptions(3, 4).num_layers(2).bidirectional(true).batch_first(true).dropout(0.5)),
         "GRU(3, 4, num_layers=2, batch_first=True, dropout=0.5, bidirectional=True)");
  prints(nn::RNN(nn::RNNOptions(3, 4).bias(false)), "RNN(3, 4, bias=False)");
  prints(nn::LSTMCell(3, 4), "LSTMCell(3, 4)");
  prints(nn::MSELoss(), "MSELoss()");
  prints(nn::CrossEntropyLoss(), "CrossEntropyLoss()");
}

TEST_CASE("nn repr: activations") {
  prints(nn::ELU(), "ELU(alpha=1.0)");
  prints(nn::SELU(), "SELU()");
  prints(nn::GLU(), "GLU(dim=-1)");
  prints(nn::GELU(nn::GELUOptions().approximate("tanh")), "GELU(approximate='tanh')");
  prints(nn::Hardshrink(), "Hardshrink(0.5)");
  prints(nn::Hardtanh(), "Hardtanh(min_val=-1.0, max_val=1.0)");
  prints(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2).inplace(true)),
         "LeakyReLU(negative_slope=0.2, inplace=True)");
  prints(nn::ReLU(true), "ReLU(inplace=True)");
  prints(nn::RReLU(), "RReLU(lower=0.125, upper=0.3333333333333333)");
  prints(nn::Softplus(), "Softplus(beta=1.0, threshold=20.0)");
  prints(nn::Threshold(0.1, 20), "Threshold(threshold=0.1, value=20.0)");
  prints(nn::LogSoftmax(1), "LogSoftmax(dim=1)");
  prints(nn::PReLU(), "PReLU(num_parameters=1)");
  prints(nn::Sigmoid(), "Sigmoid()");
  prints(nn::Softmax2d(), "Softmax2d()");
}
