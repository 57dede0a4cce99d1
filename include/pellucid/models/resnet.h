// ResNets of basic blocks, with torchvision's names and initialisation.
#pragma once

#include <array>

#include "pellucid/nn.h"

namespace pellucid::models {

/// Two 3x3 convolutions with batch norms, and a shortcut around them.
class PELLUCID_API BasicBlockImpl : public nn::Cloneable<BasicBlockImpl> {
 public:
  BasicBlockImpl(int64_t in_channels, int64_t out_channels, int64_t stride);
  void reset() override;
  Tensor forward(const Tensor& x);
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  nn::ReLU relu{nullptr};
  nn::Sequential downsample{nullptr};  ///< of the shortcut, where sizes change

 private:
  int64_t in_, out_, stride_;
};
using BasicBlock = nn::ModuleHolder<BasicBlockImpl>;

/// Four stages of basic blocks with 64, 128, 256 and 512 channels; takes [B, 3, H, W].
class PELLUCID_API ResNetImpl : public nn::Cloneable<ResNetImpl> {
 public:
  explicit ResNetImpl(std::array<int64_t, 4> blocks, int64_t num_classes = 1000);
  void reset() override;
  Tensor forward(const Tensor& images);
  nn::Conv2d conv1{nullptr};
  nn::BatchNorm2d bn1{nullptr};
  nn::ReLU relu{nullptr};
  nn::MaxPool2d maxpool{nullptr};
  nn::Sequential layer1{nullptr}, layer2{nullptr}, layer3{nullptr}, layer4{nullptr};
  nn::AdaptiveAvgPool2d avgpool{nullptr};
  nn::Linear fc{nullptr};

 private:
  std::array<int64_t, 4> blocks_;
  int64_t num_classes_;
};
using ResNet = nn::ModuleHolder<ResNetImpl>;

/// 18 layers, 11,689,512 parameters for 1,000 classes.
PELLUCID_API ResNet resnet18(int64_t num_classes = 1000);
/// 34 layers.
PELLUCID_API ResNet resnet34(int64_t num_classes = 1000);

}  // namespace pellucid::models
