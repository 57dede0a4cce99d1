// Layers over volumes, windows and bags against PyTorch 2.13: outputs, gradients, texts, refusals.
#include "nn/same.h"

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

TEST_CASE("nn values: volumes") {
  same(nn::Conv3d(nn::Conv3dOptions(2, 3, {2, 3, 1}).stride({1, 2, 1}).padding({1, 0, 1})),
       1.832584104134, -12.52110794537, leaf({2, 2, 3, 5, 2}, 10));
  same(nn::Conv3d(nn::Conv3dOptions(4, 2, 2).dilation({1, 2, 1}).groups(2).bias(false)),
       14.3161342146, -27.04633730474, leaf({4, 3, 4, 3}, 10));
  same(nn::Conv3d(nn::Conv3dOptions(1, 2, {3, 2, 3}).padding(kSame).padding_mode(kCircular)),
       15.89529650692, -69.89640557767, leaf({1, 1, 3, 4, 4}, 10));
  same(nn::ConvTranspose3d(nn::ConvTranspose3dOptions(2, 2, {2, 3, 2})
                               .stride(2)
                               .padding({0, 1, 0})
                               .output_padding({1, 0, 0})),
       0.628722273399, -0.4202365599127, leaf({1, 2, 2, 3, 2}, 10));
  same(nn::BatchNorm3d(3), -12.06968016697, 26.03213138069, leaf({2, 3, 2, 2, 3}, 10));
  same(nn::InstanceNorm3d(nn::InstanceNorm3dOptions(2).affine(true)), -3.798715045474,
       6.011048214282, leaf({2, 2, 2, 2, 3}, 10));
  same(nn::InstanceNorm3d(2), -15.34129683624, 6.784579942086, leaf({2, 2, 2, 3}, 10));
}

TEST_CASE("nn values: pools of volumes") {
  same(nn::MaxPool3d(
           nn::MaxPool3dOptions({2, 3, 2}).stride({2, 1, 1}).padding({1, 1, 0}).ceil_mode(true)),
       0.7761775899329, -0.2154095217285, leaf({2, 2, 4, 5, 4}, 10));
  same(nn::AvgPool3d(nn::AvgPool3dOptions({2, 3, 2})
                         .stride({2, 1, 1})
                         .padding({1, 1, 0})
                         .ceil_mode(true)
                         .count_include_pad(false)),
       -3.450815952771, 1.028268258158, leaf({2, 2, 4, 5, 4}, 10));
  same(nn::AvgPool3d(nn::AvgPool3dOptions(2).divisor_override(3)), -0.3166886587601,
       -2.051727139221, leaf({2, 4, 5, 4}, 10));
  same(nn::AdaptiveAvgPool3d(nn::AdaptiveAvgPool3dOptions({2, std::nullopt, 3})), -0.8714809516214,
       -0.1579479727152, leaf({1, 2, 4, 3, 5}, 10));
  CHECK(printed(nn::MaxPool3d(nn::MaxPool3dOptions({2, 3, 2}).stride(2))) ==
        "MaxPool3d(kernel_size=(2, 3, 2), stride=2, padding=0, dilation=1, ceil_mode=False)");
  CHECK(printed(nn::AdaptiveAvgPool3d(nn::AdaptiveAvgPool3dOptions({2, std::nullopt, 3}))) ==
        "AdaptiveAvgPool3d(output_size=(2, None, 3))");
  CHECK(printed(nn::Dropout3d(0.3)) == "Dropout3d(p=0.3, inplace=False)");
  const Tensor dropped = nn::Dropout3d(0.5)(ones({4, 8, 2, 2, 2})).flatten(2);
  CHECK(dropped.equal(dropped.select(2, 0).unsqueeze(2).expand(dropped.sizes())));
  CHECK_THROWS_AS(nn::MaxPool3d(2)(ones({2, 2, 2})), ShapeError);
}

TEST_CASE("nn values: alignments of sequences") {
  const Tensor targets = tensor({{1, 2, 2}, {3, 1, 0}}), lengths = tensor({3, 2});
  // PyTorch's gradient is that of scores before log_softmax.
  const auto check = [&](nn::CTCLoss loss, const Tensor& to, std::vector<int64_t> steps,
                         double value, double gradient) {
    const Tensor x = leaf({steps[0], 2, 4}, 10);
    const Tensor found = loss(x.log_softmax(2), to, tensor(steps), lengths);
    CHECK(found.item<double>() == doctest::Approx(value).epsilon(1e-8));
    found.backward();
    CHECK((x.grad() * wave(x.sizes(), 2)).sum().item<double>() ==
          doctest::Approx(gradient).epsilon(1e-7));
  };
  check(nn::CTCLoss(), targets, {6, 5}, 1.783124733687, -0.4331172433115);
  check(nn::CTCLoss(nn::CTCLossOptions().reduction(kSum).blank(3)), tensor({{1, 2, 2}, {0, 1, 0}}),
        {6, 5}, 10.8098791383, -1.146728295475);
  check(nn::CTCLoss(nn::CTCLossOptions().reduction(kSum).zero_infinity(true)), targets, {3, 3},
        3.316901215593, -0.5245351842107);
  CHECK_THROWS_AS(nn::CTCLoss()(leaf({3, 2, 4}, 10), targets, tensor({4, 3}), lengths), ValueError);
}

TEST_CASE("nn values: windows as columns") {
  same(nn::Unfold(nn::UnfoldOptions({2, 3}).dilation({1, 2}).padding(1).stride(2)), 0.6043732098141,
       -0.4273502368838, leaf({2, 2, 4, 6}, 10));
  same(nn::Fold(nn::FoldOptions({4, 5}, {2, 2}).padding({1, 0})), -18.12142831204, -9.418751075877,
       leaf({1, 8, 20}, 10));
}

TEST_CASE("nn values: bags") {
  using Options = nn::EmbeddingBagOptions;
  const Tensor indices = tensor({0, 2, 4, 4, 1}), offsets = tensor({0, 2, 2});
  same(nn::EmbeddingBag(5, 3), -0.7030770259809, 1.970192172326, indices, offsets);
  same(nn::EmbeddingBag(Options(5, 3).mode(kSum).padding_idx(4)), -0.9133589150192, 3.049399951474,
       indices, offsets);
  same(nn::EmbeddingBag(Options(5, 3).mode(kMax)), 0.1536744741894, 1.891904813592, indices,
       offsets);
  same(nn::EmbeddingBag(Options(5, 3).scale_grad_by_freq(true)), -0.1081277776742, 1.712948227658,
       tensor({0, 2, 4, 4}).view({2, 2}));
  const Tensor weights = tensor({0.5, -1.0, 2.0, 0.25, 3.0}, kFloat64).requires_grad_();
  same(nn::EmbeddingBag(Options(5, 3).mode(kSum).include_last_offset(true)), 1.877250774793,
       -2.60508378641, indices, tensor({0, 2, 5}), weights);
  same(nn::EmbeddingBag(Options(5, 3).mode(kSum).max_norm(0.6)), -1.713516441575, 4.823650756226,
       indices, offsets);
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
