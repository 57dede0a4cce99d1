// Layers: their constructors in the table of twins, in C++.
#include "parity/twins.h"

namespace pellucid::twins {

Modules layers() {
  return {
      {"Linear(4, 3)", [] { return made(nn::Linear(4, 3)); }},
      {"Linear(4, 3, bias=False)",
       [] { return made(nn::Linear(nn::LinearOptions(4, 3).bias(false))); }},
      {"Bilinear(2, 3, 4)", [] { return made(nn::Bilinear(2, 3, 4)); }},
      {"Flatten()", [] { return made(nn::Flatten()); }},
      {"Unflatten(1, (2, 3))",
       [] {
         return made(nn::Unflatten(1, std::vector<int64_t>{2, 3}));
       }},
      {"PixelShuffle(2)", [] { return made(nn::PixelShuffle(2)); }},
      {"PixelUnshuffle(2)", [] { return made(nn::PixelUnshuffle(2)); }},
      {"ChannelShuffle(2)", [] { return made(nn::ChannelShuffle(2)); }},
      {"CosineSimilarity()", [] { return made(nn::CosineSimilarity()); }},
      {"PairwiseDistance(p=3.0)",
       [] { return made(nn::PairwiseDistance(nn::PairwiseDistanceOptions().p(3.0))); }},
      {"Upsample(scale_factor=2.0, mode='bilinear')",
       [] {
         return made(nn::Upsample(
             nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(kBilinear)));
       }},
      {"Upsample(size=(5, 3), mode='nearest')",
       [] {
         return made(
             nn::Upsample(nn::UpsampleOptions().size(std::vector<int64_t>{5, 3}).mode(kNearest)));
       }},
      {"UpsamplingNearest2d(scale_factor=2)",
       [] {
         return made(nn::UpsamplingNearest2d(
             nn::Upsampling2dOptions().scale_factor(ExpandingArray<2, double>(2))));
       }},
      {"UpsamplingBilinear2d(size=(5, 3))",
       [] {
         return made(
             nn::UpsamplingBilinear2d(nn::Upsampling2dOptions().size(ExpandingArray<2>{5, 3})));
       }},
      {"Dropout1d()", [] { return made(nn::Dropout1d()); }},
      {"Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2)",
       [] {
         return made(
             nn::Conv1d(nn::Conv1dOptions(4, 6, 3).stride(2).padding(1).dilation(2).groups(2)));
       }},
      {"Conv2d(2, 3, (3, 2), padding=(1, 0))",
       [] {
         return made(nn::Conv2d(nn::Conv2dOptions(2, 3, {3, 2}).padding({1, 0})));
       }},
      {"Conv2d(2, 3, 3, padding='same', padding_mode='reflect', bias=False)",
       [] {
         return made(nn::Conv2d(
             nn::Conv2dOptions(2, 3, 3).padding(kSame).padding_mode(kReflect).bias(false)));
       }},
      {"Conv2d(2, 3, 3, padding='same', dilation=2)",
       [] { return made(nn::Conv2d(nn::Conv2dOptions(2, 3, 3).padding(kSame).dilation(2))); }},
      {"Conv2d(2, 3, 3, padding=2, padding_mode='circular')",
       [] {
         return made(nn::Conv2d(nn::Conv2dOptions(2, 3, 3).padding(2).padding_mode(kCircular)));
       }},
      {"ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2)",
       [] {
         return made(nn::ConvTranspose2d(
             nn::ConvTranspose2dOptions(4, 2, 3).stride(2).padding(1).output_padding(1).groups(2)));
       }},
      {"ConvTranspose1d(3, 2, 4, stride=2, bias=False)",
       [] {
         return made(
             nn::ConvTranspose1d(nn::ConvTranspose1dOptions(3, 2, 4).stride(2).bias(false)));
       }},
      {"Conv3d(2, 3, (2, 3, 1), stride=(1, 2, 1), padding=(1, 0, 1))",
       [] {
         return made(
             nn::Conv3d(nn::Conv3dOptions(2, 3, {2, 3, 1}).stride({1, 2, 1}).padding({1, 0, 1})));
       }},
      {"Conv3d(4, 2, 2, dilation=(1, 2, 1), groups=2, bias=False)",
       [] {
         return made(
             nn::Conv3d(nn::Conv3dOptions(4, 2, 2).dilation({1, 2, 1}).groups(2).bias(false)));
       }},
      {"Conv3d(1, 2, (3, 2, 3), padding='same', padding_mode='circular')",
       [] {
         return made(
             nn::Conv3d(nn::Conv3dOptions(1, 2, {3, 2, 3}).padding(kSame).padding_mode(kCircular)));
       }},
      {"ConvTranspose3d(2, 2, (2, 3, 2), stride=2, padding=(0, 1, 0), output_padding=(1, 0, 0))",
       [] {
         return made(nn::ConvTranspose3d(nn::ConvTranspose3dOptions(2, 2, {2, 3, 2})
                                             .stride(2)
                                             .padding({0, 1, 0})
                                             .output_padding({1, 0, 0})));
       }},
      {"Unfold((2, 3), dilation=(1, 2), padding=1, stride=2)",
       [] {
         return made(nn::Unfold(nn::UnfoldOptions({2, 3}).dilation({1, 2}).padding(1).stride(2)));
       }},
      {"Fold((4, 5), (2, 2), padding=(1, 0))",
       [] {
         return made(nn::Fold(nn::FoldOptions({4, 5}, {2, 2}).padding({1, 0})));
       }},
      {"MaxPool2d(2)", [] { return made(nn::MaxPool2d(2)); }},
      {"MaxPool1d(3, stride=2, padding=1)",
       [] { return made(nn::MaxPool1d(nn::MaxPool1dOptions(3).stride(2).padding(1))); }},
      {"MaxPool3d((2, 3, 2), stride=(2, 1, 1), padding=(1, 1, 0), ceil_mode=True)",
       [] {
         return made(nn::MaxPool3d(
             nn::MaxPool3dOptions({2, 3, 2}).stride({2, 1, 1}).padding({1, 1, 0}).ceil_mode(true)));
       }},
      {"AvgPool2d(3, stride=2, padding=1, count_include_pad=False)",
       [] {
         return made(
             nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(2).padding(1).count_include_pad(false)));
       }},
      {"AvgPool1d(2)", [] { return made(nn::AvgPool1d(2)); }},
      {"AvgPool3d((2, 3, 2), stride=(2, 1, 1), padding=(1, 1, 0), ceil_mode=True, "
       "count_include_pad=False)",
       [] {
         return made(nn::AvgPool3d(nn::AvgPool3dOptions({2, 3, 2})
                                       .stride({2, 1, 1})
                                       .padding({1, 1, 0})
                                       .ceil_mode(true)
                                       .count_include_pad(false)));
       }},
      {"AvgPool3d(2, divisor_override=3)",
       [] { return made(nn::AvgPool3d(nn::AvgPool3dOptions(2).divisor_override(3))); }},
      {"AdaptiveAvgPool2d((2, None))",
       [] {
         return made(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({2, std::nullopt})));
       }},
      {"AdaptiveAvgPool1d(3)", [] { return made(nn::AdaptiveAvgPool1d(3)); }},
      {"AdaptiveAvgPool3d((2, None, 3))",
       [] {
         return made(nn::AdaptiveAvgPool3d(nn::AdaptiveAvgPool3dOptions({2, std::nullopt, 3})));
       }},
      {"AdaptiveMaxPool2d(2)", [] { return made(nn::AdaptiveMaxPool2d(2)); }},
      {"AdaptiveMaxPool1d(3)", [] { return made(nn::AdaptiveMaxPool1d(3)); }},
      {"AdaptiveMaxPool3d((2, None, 3))",
       [] {
         return made(nn::AdaptiveMaxPool3d(nn::AdaptiveMaxPool3dOptions({2, std::nullopt, 3})));
       }},
      {"MaxUnpool1d(2, stride=3)",
       [] { return made(nn::MaxUnpool1d(nn::MaxUnpool1dOptions(2).stride(3))); }},
      {"MaxUnpool2d((2, 3))",
       [] {
         return made(nn::MaxUnpool2d(nn::MaxUnpool2dOptions({2, 3})));
       }},
      {"MaxUnpool3d(2, padding=(0, 1, 0))",
       [] {
         return made(nn::MaxUnpool3d(nn::MaxUnpool3dOptions(2).padding({0, 1, 0})));
       }},
      {"LPPool1d(2.0, 3)", [] { return made(nn::LPPool1d(2.0, 3)); }},
      {"LPPool2d(2.0, 2)", [] { return made(nn::LPPool2d(2.0, 2)); }},
      {"LPPool3d(2.0, (2, 1, 2))",
       [] {
         return made(nn::LPPool3d(nn::LPPool3dOptions(2.0, {2, 1, 2})));
       }},
      {"BatchNorm1d(4)", [] { return made(nn::BatchNorm1d(4)); }},
      {"BatchNorm2d(3, eps=1e-3)",
       [] { return made(nn::BatchNorm2d(nn::BatchNorm2dOptions(3).eps(1e-3))); }},
      {"BatchNorm1d(3, affine=False, track_running_stats=False)",
       [] {
         return made(
             nn::BatchNorm1d(nn::BatchNorm1dOptions(3).affine(false).track_running_stats(false)));
       }},
      {"BatchNorm3d(3)", [] { return made(nn::BatchNorm3d(3)); }},
      {"InstanceNorm1d(3, affine=True)",
       [] { return made(nn::InstanceNorm1d(nn::InstanceNorm1dOptions(3).affine(true))); }},
      {"InstanceNorm2d(3)", [] { return made(nn::InstanceNorm2d(3)); }},
      {"InstanceNorm3d(2, affine=True)",
       [] { return made(nn::InstanceNorm3d(nn::InstanceNorm3dOptions(2).affine(true))); }},
      {"InstanceNorm3d(2)", [] { return made(nn::InstanceNorm3d(2)); }},
      {"LayerNorm((3, 4))",
       [] {
         return made(nn::LayerNorm(std::vector<int64_t>{3, 4}));
       }},
      {"LayerNorm(4, bias=False)",
       [] { return made(nn::LayerNorm(nn::LayerNormOptions({4}).bias(false))); }},
      {"RMSNorm(4)", [] { return made(nn::RMSNorm(std::vector<int64_t>{4})); }},
      {"GroupNorm(2, 4)", [] { return made(nn::GroupNorm(2, 4)); }},
      {"LocalResponseNorm(3, alpha=0.5)",
       [] { return made(nn::LocalResponseNorm(nn::LocalResponseNormOptions(3).alpha(0.5))); }},
      {"ReflectionPad1d(2)", [] { return made(nn::ReflectionPad1d(2)); }},
      {"ReflectionPad2d((1, 2, 0, 1))",
       [] {
         return made(nn::ReflectionPad2d(nn::ReflectionPad2dOptions({1, 2, 0, 1})));
       }},
      {"ReflectionPad3d((1, 2, 0, 1, 1, 0))",
       [] {
         return made(nn::ReflectionPad3d(nn::ReflectionPad3dOptions({1, 2, 0, 1, 1, 0})));
       }},
      {"ReplicationPad1d(2)", [] { return made(nn::ReplicationPad1d(2)); }},
      {"ReplicationPad2d((1, 2, 0, 1))",
       [] {
         return made(nn::ReplicationPad2d(nn::ReplicationPad2dOptions({1, 2, 0, 1})));
       }},
      {"ReplicationPad3d(1)", [] { return made(nn::ReplicationPad3d(1)); }},
      {"CircularPad1d(2)", [] { return made(nn::CircularPad1d(2)); }},
      {"CircularPad2d((1, 2, 0, 1))",
       [] {
         return made(nn::CircularPad2d(nn::CircularPad2dOptions({1, 2, 0, 1})));
       }},
      {"CircularPad3d(1)", [] { return made(nn::CircularPad3d(1)); }},
      {"ZeroPad1d(1)", [] { return made(nn::ZeroPad1d(1)); }},
      {"ZeroPad2d(1)", [] { return made(nn::ZeroPad2d(1)); }},
      {"ZeroPad3d((1, 2, 0, 1, 1, 0))",
       [] {
         return made(nn::ZeroPad3d(nn::ZeroPad3dOptions({1, 2, 0, 1, 1, 0})));
       }},
      {"ConstantPad1d(1, 3.5)", [] { return made(nn::ConstantPad1d(1, 3.5)); }},
      {"ConstantPad2d((1, 0, 2, 1), 3.5)",
       [] {
         return made(nn::ConstantPad2d(nn::ConstantPad2dOptions({1, 0, 2, 1}, 3.5)));
       }},
      {"ConstantPad3d(1, 3.5)", [] { return made(nn::ConstantPad3d(1, 3.5)); }},
  };
}

}  // namespace pellucid::twins
