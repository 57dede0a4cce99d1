// Layers against PyTorch 2.13: outputs and gradients.
#include "nn/same.h"

using namespace pellucid;
using namespace pellucid::nn_tests;

TEST_CASE("nn values: linear") {
  same(nn::Linear(4, 3), 0.08824244439573, -0.9177371690348, leaf({2, 4}, 10));
  same(nn::Linear(nn::LinearOptions(4, 3).bias(false)), -0.3575734427921, 0.3711814468741,
       leaf({2, 5, 4}, 10));
  same(nn::Bilinear(2, 3, 4), 1.193219507335, -1.150229090264, leaf({5, 2}, 10), leaf({5, 3}, 11));
  same(nn::Flatten(), -11.19957630049, 7.151008543418, leaf({2, 3, 4}, 10));
  same(nn::Unflatten(1, std::vector<int64_t>{2, 3}), -6.122661819619, 3.435021431824,
       leaf({2, 6}, 10));
}

TEST_CASE("nn values: conv") {
  same(nn::Conv1d(nn::Conv1dOptions(4, 6, 3).stride(2).padding(1).dilation(2).groups(2)),
       -2.095822688752, 3.452525459068, leaf({2, 4, 9}, 10));
  same(nn::Conv2d(nn::Conv2dOptions(2, 3, {3, 2}).padding({1, 0})), 14.65247226289, -30.56046717276,
       leaf({2, 2, 5, 6}, 10));
  same(nn::Conv2d(nn::Conv2dOptions(2, 3, 3).padding(kSame).padding_mode(kReflect).bias(false)),
       -0.3943280794822, 0.2547564902025, leaf({1, 2, 5, 6}, 10));
  same(nn::Conv2d(nn::Conv2dOptions(2, 3, 3).padding(kSame).dilation(2)), -3.731821010121,
       12.61347369458, leaf({1, 2, 7, 6}, 10));
  same(nn::Conv2d(nn::Conv2dOptions(2, 3, 3).padding(2).padding_mode(kCircular)), 1.372935215316,
       -0.8547692591926, leaf({1, 2, 5, 6}, 10));
  same(nn::ConvTranspose2d(
           nn::ConvTranspose2dOptions(4, 2, 3).stride(2).padding(1).output_padding(1).groups(2)),
       4.50994001834, -8.991877783846, leaf({2, 4, 3, 4}, 10));
  same(nn::ConvTranspose1d(nn::ConvTranspose1dOptions(3, 2, 4).stride(2).bias(false)),
       4.617078086282, -10.650541427, leaf({2, 3, 5}, 10));
}

TEST_CASE("nn values: pool") {
  same(nn::MaxPool2d(2), 1.989403724984, 2.176297871573, leaf({1, 2, 5, 6}, 10));
  same(nn::MaxPool1d(nn::MaxPool1dOptions(3).stride(2).padding(1)), 1.109308163638,
       -0.6483473749032, leaf({2, 2, 9}, 10));
  same(nn::AvgPool2d(nn::AvgPool2dOptions(3).stride(2).padding(1).count_include_pad(false)),
       -0.1032082338487, -0.4812293142102, leaf({1, 2, 5, 6}, 10));
  same(nn::AvgPool1d(2), 0.1289631669625, -1.175184437423, leaf({1, 2, 6}, 10));
  same(nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({2, std::nullopt})), 0.04026638403507,
       -0.02912194614974, leaf({1, 2, 5, 6}, 10));
  same(nn::AdaptiveAvgPool1d(3), 0.2610353496148, -0.2791770301902, leaf({1, 2, 7}, 10));
  same(nn::AdaptiveMaxPool2d(2), -0.2816883984806, -0.1164217230785, leaf({1, 2, 5, 6}, 10));
  same(nn::AdaptiveMaxPool1d(3), 0.5751735926371, 0.1654182426186, leaf({1, 2, 7}, 10));
  same(nn::LPPool2d(2.0, 2), 3.94112920865, -0.7210206059562, leaf({1, 2, 4, 6}, 10));
}

TEST_CASE("nn values: norm") {
  same(nn::BatchNorm1d(4), -4.857171440692, 10.70962579942, leaf({6, 4}, 10));
  same(nn::BatchNorm2d(nn::BatchNorm2dOptions(3).eps(1e-3)), -16.71678492406, 34.52524968123,
       leaf({2, 3, 4, 4}, 10));
  same(in_eval(nn::BatchNorm1d(nn::BatchNorm1dOptions(3).affine(false).track_running_stats(false))),
       -15.32650313087, 6.614225663937, leaf({4, 3, 2}, 10));
  same(nn::InstanceNorm1d(nn::InstanceNorm1dOptions(3).affine(true)), -4.305502172893,
       7.617432955748, leaf({2, 3, 5}, 10));
  same(nn::InstanceNorm2d(3), -61.92757015474, 27.47772782312, leaf({2, 3, 4, 4}, 10));
  same(nn::LayerNorm(std::vector<int64_t>{3, 4}), 0.746764942202, -1.3501476113,
       leaf({2, 3, 4}, 10));
  same(nn::LayerNorm(nn::LayerNormOptions({4}).bias(false)), -4.039628467994, 8.359241239727,
       leaf({2, 3, 4}, 10));
  same(nn::RMSNorm(std::vector<int64_t>{4}), -5.940000834862, 13.57836559036, leaf({2, 3, 4}, 10));
  same(nn::GroupNorm(2, 4), -5.240124263873, 10.73653934665, leaf({2, 4, 3}, 10));
  same(nn::LocalResponseNorm(nn::LocalResponseNormOptions(3).alpha(0.5)), -12.26371887082,
       6.515781557226, leaf({2, 5, 3}, 10));
}

TEST_CASE("nn values: pad") {
  same(nn::ReflectionPad2d(nn::ReflectionPad2dOptions({1, 2, 0, 1})), -2.73017820879,
       0.1029794826385, leaf({1, 2, 3, 4}, 10));
  same(nn::ReplicationPad1d(2), 0.03133651655141, 1.995954069323, leaf({2, 2, 3}, 10));
  same(nn::ZeroPad2d(1), -5.095832850031, 3.713380108065, leaf({1, 2, 3, 4}, 10));
  same(nn::ConstantPad1d(nn::ConstantPad1dOptions(1, 3.5)), -0.1716320047493, 0.9878352400271,
       leaf({2, 2, 3}, 10));
  same(nn::PixelShuffle(2), 1.673245434173, -0.9871014522841, leaf({1, 8, 2, 3}, 10));
  same(nn::PixelUnshuffle(2), 1.673245434173, -0.9871014522841, leaf({1, 2, 4, 6}, 10));
  same(nn::CosineSimilarity(), 1.526225821677, 0.1603724968287, leaf({3, 4}, 10), leaf({3, 4}, 11));
  same(nn::PairwiseDistance(nn::PairwiseDistanceOptions().p(3.0)), 2.739830004431, -0.561382876763,
       leaf({3, 4}, 10), leaf({3, 4}, 11));
}

TEST_CASE("nn values: embed") {
  same(nn::Embedding(nn::EmbeddingOptions(5, 3).padding_idx(2)), 1.148745025105, -0.2442867551768,
       tensor({0, 2, 4, 4}));
  same(nn::Embedding(nn::EmbeddingOptions(5, 3).max_norm(0.6)), 1.044443836832, -1.547835232754,
       tensor({0, 2, 4, 4}));
  same(nn::Embedding(nn::EmbeddingOptions(5, 3).scale_grad_by_freq(true)), 1.148745025105,
       -0.9175136633555, tensor({0, 2, 4, 4}));
}
