// Layers over volumes, windows and bags: texts and refusals. Their values are compared with PyTorch
// by the table of twins (tests/parity/twins.txt).
#include "nn/waves.h"

using namespace pellucid;
using namespace pellucid::nn_tests;
namespace F = pellucid::nn::functional;

namespace {
template <class M> std::string printed(const M& module) {
  std::ostringstream out;
  out << module;
  return out.str();
}
}  // namespace

TEST_CASE("pools and dropout of volumes: texts, whole channels, refusals") {
  CHECK(printed(nn::MaxPool3d(nn::MaxPool3dOptions({2, 3, 2}).stride(2))) ==
        "MaxPool3d(kernel_size=(2, 3, 2), stride=2, padding=0, dilation=1, ceil_mode=False)");
  CHECK(printed(nn::AdaptiveAvgPool3d(nn::AdaptiveAvgPool3dOptions({2, std::nullopt, 3}))) ==
        "AdaptiveAvgPool3d(output_size=(2, None, 3))");
  CHECK(printed(nn::Dropout3d(0.3)) == "Dropout3d(p=0.3, inplace=False)");
  const Tensor dropped = nn::Dropout3d(0.5)(ones({4, 8, 2, 2, 2})).flatten(2);
  CHECK(dropped.equal(dropped.select(2, 0).unsqueeze(2).expand(dropped.sizes())));
  CHECK_THROWS_AS(nn::MaxPool3d(2)(ones({2, 2, 2})), ShapeError);
}

TEST_CASE("alignments of sequences longer than the inputs are refused") {
  const Tensor targets = tensor({{1, 2, 2}, {3, 1, 0}}), lengths = tensor({3, 2});
  CHECK_THROWS_AS(nn::CTCLoss()(leaf({3, 2, 4}, 10), targets, tensor({4, 3}), lengths), ValueError);
}

TEST_CASE("nn repr: volumes, windows and bags") {
  CHECK(printed(nn::Conv3d(nn::Conv3dOptions(2, 3, {2, 3, 1}).padding(1))) ==
        "Conv3d(2, 3, kernel_size=(2, 3, 1), stride=(1, 1, 1), padding=(1, 1, 1))");
  CHECK(printed(nn::ConvTranspose3d(nn::ConvTranspose3dOptions(2, 2, 2).output_padding(0))) ==
        "ConvTranspose3d(2, 2, kernel_size=(2, 2, 2), stride=(1, 1, 1))");
  CHECK(printed(nn::Unfold(nn::UnfoldOptions({2, 3}).padding(1))) ==
        "Unfold(kernel_size=(2, 3), dilation=1, padding=1, stride=1)");
  CHECK(printed(nn::Fold(nn::FoldOptions({4, 5}, 2))) ==
        "Fold(output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1)");
  CHECK(printed(nn::EmbeddingBag(nn::EmbeddingBagOptions(5, 3).max_norm(0.6).padding_idx(-1))) ==
        "EmbeddingBag(5, 3, max_norm=0.6, mode='mean', padding_idx=4)");
  CHECK(printed(nn::InstanceNorm3d(2)) ==
        "InstanceNorm3d(2, eps=1e-05, momentum=0.1, affine=False, bias=False, "
        "track_running_stats=False)");
}

TEST_CASE("volumes, windows and bags say what is wrong") {
  CHECK_THROWS_WITH_AS(nn::Conv3d(2, 3, 2)->forward(ones({2, 4, 4})),
                       doctest::Contains("'input' must be [N, C, D, H, W] or [C, D, H, W]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(nn::BatchNorm3d(2)->forward(ones({2, 2, 4, 4})),
                       doctest::Contains("must have 5 dimensions"), ShapeError);
  nn::EmbeddingBag bag(5, 3);
  CHECK_THROWS_WITH_AS(bag->forward(tensor({1, 2})), doctest::Contains("offsets are needed"),
                       ValueError);
  CHECK_THROWS_WITH_AS(bag->forward(tensor({1, 2}).view({1, 2}), tensor({0})),
                       doctest::Contains("offsets are needed"), ValueError);
  CHECK_THROWS_WITH_AS(bag->forward(tensor({1, 5}), tensor({0})),
                       doctest::Contains("index 5 in 'from' is out of range for 5 rows"),
                       IndexError);
  CHECK_THROWS_WITH_AS(bag->forward(tensor({1, 2}), tensor({0}), ones({2})),
                       doctest::Contains("per_sample_weights need mode 0"), ValueError);
  CHECK_THROWS_AS(nn::EmbeddingBag(nn::EmbeddingBagOptions(5, 3).padding_idx(5)), IndexError);
}

TEST_CASE("a pretrained bag is frozen unless asked otherwise") {
  const Tensor rows = wave({4, 2}, 1).to(kFloat32);
  const nn::EmbeddingBag frozen = nn::EmbeddingBag::from_pretrained(rows);
  CHECK_FALSE(frozen->weight.requires_grad());
  nn::EmbeddingBag free = nn::EmbeddingBag::from_pretrained(
      rows, nn::EmbeddingBagFromPretrainedOptions().freeze(false).mode(kSum));
  CHECK(free->weight.requires_grad());
  CHECK(allclose(free->forward(tensor({1, 3}).view({1, 2})), (rows[1] + rows[3]).view({1, 2})));
}
