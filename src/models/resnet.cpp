// ResNets of basic blocks.
#include "pellucid/models/resnet.h"

#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::models {

namespace {

nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel)
                        .stride(stride)
                        .padding(ExpandingArray<2>(kernel / 2))
                        .bias(false));
}

/// The first block of a stage changes the channels and, from the second stage on, halves the size.
nn::Sequential stage(int64_t in, int64_t out, int64_t blocks, int64_t stride) {
  nn::Sequential s;
  for (int64_t i = 0; i < blocks; ++i)
    s->push_back(BasicBlock(i == 0 ? in : out, out, i == 0 ? stride : 1));
  return s;
}

}  // namespace

BasicBlockImpl::BasicBlockImpl(int64_t in_channels, int64_t out_channels, int64_t stride)
    : in_(in_channels), out_(out_channels), stride_(stride) {
  reset();
}

void BasicBlockImpl::reset() {
  conv1 = register_module("conv1", convolution(in_, out_, 3, stride_));
  bn1 = register_module("bn1", nn::BatchNorm2d(out_));
  relu = register_module("relu", nn::ReLU(nn::ReLUOptions().inplace(true)));
  conv2 = register_module("conv2", convolution(out_, out_, 3, 1));
  bn2 = register_module("bn2", nn::BatchNorm2d(out_));
  if (stride_ != 1 || in_ != out_)
    downsample = register_module(
        "downsample", nn::Sequential(convolution(in_, out_, 1, stride_), nn::BatchNorm2d(out_)));
}

Tensor BasicBlockImpl::forward(const Tensor& x) {
  const nn::ModuleScope scope(*this);
  const Tensor shortcut = downsample ? downsample(x) : x;
  Tensor y = relu(bn1(conv1(x)));
  y = bn2(conv2(y));
  return relu(y.add_(shortcut));
}

ResNetImpl::ResNetImpl(std::array<int64_t, 4> blocks, int64_t num_classes)
    : blocks_(blocks), num_classes_(num_classes) {
  reset();
}

void ResNetImpl::reset() {
  conv1 = register_module("conv1", convolution(3, 64, 7, 2));
  bn1 = register_module("bn1", nn::BatchNorm2d(64));
  relu = register_module("relu", nn::ReLU(nn::ReLUOptions().inplace(true)));
  maxpool = register_module("maxpool", nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1)));
  layer1 = register_module("layer1", stage(64, 64, blocks_[0], 1));
  layer2 = register_module("layer2", stage(64, 128, blocks_[1], 2));
  layer3 = register_module("layer3", stage(128, 256, blocks_[2], 2));
  layer4 = register_module("layer4", stage(256, 512, blocks_[3], 2));
  avgpool = register_module("avgpool", nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({1, 1})));
  fc = register_module("fc", nn::Linear(512, num_classes_));
  apply([](nn::Module& m) {
    if (auto* conv = m.as<nn::Conv2d>()) nn::init::kaiming_normal_(conv->weight, 0, kFanOut, kReLU);
  });
}

Tensor ResNetImpl::forward(const Tensor& images) {
  const nn::ModuleScope scope(*this);
  Tensor x = maxpool(relu(bn1(conv1(images))));
  x = layer4(layer3(layer2(layer1(x))));
  return fc(flatten(avgpool(x), 1));
}

ResNet resnet18(int64_t num_classes) {
  return ResNet(std::array<int64_t, 4>{2, 2, 2, 2}, num_classes);
}
ResNet resnet34(int64_t num_classes) {
  return ResNet(std::array<int64_t, 4>{3, 4, 6, 3}, num_classes);
}

}  // namespace pellucid::models
