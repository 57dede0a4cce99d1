// Options of linear, convolution, dropout, embedding and padding layers and functions.
#pragma once

#include "pellucid/nn/arg.h"
#include "pellucid/tensor.h"

namespace pellucid::nn {

struct LinearOptions {
  LinearOptions(int64_t in_features, int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}
  PELLUCID_ARG(int64_t, in_features);
  PELLUCID_ARG(int64_t, out_features);
  PELLUCID_ARG(bool, bias) = true;
};
struct BilinearOptions {
  BilinearOptions(int64_t in1, int64_t in2, int64_t out)
      : in1_features_(in1), in2_features_(in2), out_features_(out) {}
  PELLUCID_ARG(int64_t, in1_features);
  PELLUCID_ARG(int64_t, in2_features);
  PELLUCID_ARG(int64_t, out_features);
  PELLUCID_ARG(bool, bias) = true;
};
struct FlattenOptions {
  PELLUCID_ARG(int64_t, start_dim) = 1;
  PELLUCID_ARG(int64_t, end_dim) = -1;
};
struct UnflattenOptions {
  UnflattenOptions(int64_t dim, std::vector<int64_t> sizes) : dim_(dim), sizes_(std::move(sizes)) {}
  PELLUCID_ARG(int64_t, dim);
  PELLUCID_ARG(std::vector<int64_t>, sizes);
};

namespace detail {
using conv_padding_mode_t =
    std::variant<enumtype::kZeros, enumtype::kReflect, enumtype::kReplicate, enumtype::kCircular>;
template <size_t D>
using conv_padding_t = std::variant<ExpandingArray<D>, enumtype::kValid, enumtype::kSame>;
}  // namespace detail

template <size_t D> struct ConvOptions {
  using padding_mode_t = detail::conv_padding_mode_t;
  using padding_t = detail::conv_padding_t<D>;
  ConvOptions(int64_t in_channels, int64_t out_channels, ExpandingArray<D> kernel_size)
      : in_channels_(in_channels), out_channels_(out_channels), kernel_size_(kernel_size) {}
  PELLUCID_ARG(int64_t, in_channels);
  PELLUCID_ARG(int64_t, out_channels);
  PELLUCID_ARG(ExpandingArray<D>, kernel_size);
  PELLUCID_ARG(ExpandingArray<D>, stride) = 1;
  /// A number, D numbers, kValid or kSame.
 public:
  auto& padding(std::initializer_list<int64_t> p) {
    padding_ = ExpandingArray<D>(p);
    return *this;
  }
  PELLUCID_ARG(padding_t, padding) = ExpandingArray<D>(0);
  PELLUCID_ARG(ExpandingArray<D>, dilation) = 1;
  PELLUCID_ARG(int64_t, groups) = 1;
  PELLUCID_ARG(bool, bias) = true;
  PELLUCID_ARG(padding_mode_t, padding_mode) = kZeros;
};
using Conv1dOptions = ConvOptions<1>;
using Conv2dOptions = ConvOptions<2>;
using Conv3dOptions = ConvOptions<3>;

template <size_t D> struct ConvTransposeOptions {
  using padding_mode_t = detail::conv_padding_mode_t;
  ConvTransposeOptions(int64_t in_channels, int64_t out_channels, ExpandingArray<D> kernel_size)
      : in_channels_(in_channels), out_channels_(out_channels), kernel_size_(kernel_size) {}
  PELLUCID_ARG(int64_t, in_channels);
  PELLUCID_ARG(int64_t, out_channels);
  PELLUCID_ARG(ExpandingArray<D>, kernel_size);
  PELLUCID_ARG(ExpandingArray<D>, stride) = 1;
  PELLUCID_ARG(ExpandingArray<D>, padding) = 0;
  PELLUCID_ARG(ExpandingArray<D>, output_padding) = 0;
  PELLUCID_ARG(int64_t, groups) = 1;
  PELLUCID_ARG(bool, bias) = true;
  PELLUCID_ARG(ExpandingArray<D>, dilation) = 1;
  PELLUCID_ARG(padding_mode_t, padding_mode) = kZeros;
};
using ConvTranspose1dOptions = ConvTransposeOptions<1>;
using ConvTranspose2dOptions = ConvTransposeOptions<2>;
using ConvTranspose3dOptions = ConvTransposeOptions<3>;

struct DropoutOptions {
  template <::pellucid::detail::Mistaken<double> Given> DropoutOptions(Given) = delete;
  DropoutOptions(double p = 0.5) : p_(p) {}
  PELLUCID_ARG(double, p) = 0.5;
  PELLUCID_ARG(bool, inplace) = false;
};
using Dropout2dOptions = DropoutOptions;
using Dropout3dOptions = DropoutOptions;
using AlphaDropoutOptions = DropoutOptions;
using FeatureAlphaDropoutOptions = DropoutOptions;

struct EmbeddingOptions {
  EmbeddingOptions(int64_t num_embeddings, int64_t embedding_dim)
      : num_embeddings_(num_embeddings), embedding_dim_(embedding_dim) {}
  PELLUCID_ARG(int64_t, num_embeddings);
  PELLUCID_ARG(int64_t, embedding_dim);
  PELLUCID_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
  PELLUCID_ARG(std::optional<double>, max_norm) = std::nullopt;
  PELLUCID_ARG(double, norm_type) = 2.;
  PELLUCID_ARG(bool, scale_grad_by_freq) = false;
  PELLUCID_ARG(bool, sparse) = false;
  PELLUCID_ARG(Tensor, _weight);
};
struct EmbeddingFromPretrainedOptions {
  PELLUCID_ARG(bool, freeze) = true;
  PELLUCID_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
  PELLUCID_ARG(std::optional<double>, max_norm) = std::nullopt;
  PELLUCID_ARG(double, norm_type) = 2.;
  PELLUCID_ARG(bool, scale_grad_by_freq) = false;
  PELLUCID_ARG(bool, sparse) = false;
};

using EmbeddingBagMode = std::variant<enumtype::kSum, enumtype::kMean, enumtype::kMax>;
struct EmbeddingBagOptions {
  EmbeddingBagOptions(int64_t num_embeddings, int64_t embedding_dim)
      : num_embeddings_(num_embeddings), embedding_dim_(embedding_dim) {}
  PELLUCID_ARG(int64_t, num_embeddings);
  PELLUCID_ARG(int64_t, embedding_dim);
  PELLUCID_ARG(std::optional<double>, max_norm) = std::nullopt;
  PELLUCID_ARG(double, norm_type) = 2.;
  PELLUCID_ARG(bool, scale_grad_by_freq) = false;
  PELLUCID_ARG(EmbeddingBagMode, mode) = kMean;
  PELLUCID_ARG(bool, sparse) = false;
  PELLUCID_ARG(Tensor, _weight);
  PELLUCID_ARG(bool, include_last_offset) = false;
  PELLUCID_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
};
struct EmbeddingBagFromPretrainedOptions {
  PELLUCID_ARG(bool, freeze) = true;
  PELLUCID_ARG(std::optional<double>, max_norm) = std::nullopt;
  PELLUCID_ARG(double, norm_type) = 2.;
  PELLUCID_ARG(bool, scale_grad_by_freq) = false;
  PELLUCID_ARG(EmbeddingBagMode, mode) = kMean;
  PELLUCID_ARG(bool, sparse) = false;
  PELLUCID_ARG(bool, include_last_offset) = false;
  PELLUCID_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
};

template <size_t D> struct PadOptions {
  PadOptions(ExpandingArray<D * 2> padding) : padding_(padding) {}
  PELLUCID_ARG(ExpandingArray<D * 2>, padding);
};
template <size_t D> struct ConstantPadOptions {
  ConstantPadOptions(ExpandingArray<D * 2> padding, double value)
      : padding_(padding), value_(value) {}
  PELLUCID_ARG(ExpandingArray<D * 2>, padding);
  PELLUCID_ARG(double, value);
};
using ReflectionPad1dOptions = PadOptions<1>;
using ReflectionPad2dOptions = PadOptions<2>;
using ReflectionPad3dOptions = PadOptions<3>;
using ReplicationPad1dOptions = PadOptions<1>;
using ReplicationPad2dOptions = PadOptions<2>;
using ReplicationPad3dOptions = PadOptions<3>;
using CircularPad1dOptions = PadOptions<1>;
using CircularPad2dOptions = PadOptions<2>;
using CircularPad3dOptions = PadOptions<3>;
using ZeroPad1dOptions = PadOptions<1>;
using ZeroPad2dOptions = PadOptions<2>;
using ZeroPad3dOptions = PadOptions<3>;
using ConstantPad1dOptions = ConstantPadOptions<1>;
using ConstantPad2dOptions = ConstantPadOptions<2>;
using ConstantPad3dOptions = ConstantPadOptions<3>;

struct ChannelShuffleOptions {
  template <::pellucid::detail::Mistaken<int64_t> Given> ChannelShuffleOptions(Given) = delete;
  ChannelShuffleOptions(int64_t groups) : groups_(groups) {}
  PELLUCID_ARG(int64_t, groups);
};

struct PixelShuffleOptions {
  template <::pellucid::detail::Mistaken<int64_t> Given> PixelShuffleOptions(Given) = delete;
  PixelShuffleOptions(int64_t upscale_factor) : upscale_factor_(upscale_factor) {}
  PELLUCID_ARG(int64_t, upscale_factor);
};
struct PixelUnshuffleOptions {
  template <::pellucid::detail::Mistaken<int64_t> Given> PixelUnshuffleOptions(Given) = delete;
  PixelUnshuffleOptions(int64_t downscale_factor) : downscale_factor_(downscale_factor) {}
  PELLUCID_ARG(int64_t, downscale_factor);
};
struct CosineSimilarityOptions {
  PELLUCID_ARG(int64_t, dim) = 1;
  PELLUCID_ARG(double, eps) = 1e-8;
};
struct PairwiseDistanceOptions {
  PELLUCID_ARG(double, p) = 2.0;
  PELLUCID_ARG(double, eps) = 1e-6;
  PELLUCID_ARG(bool, keepdim) = false;
};

namespace functional {
template <size_t D> struct ConvFuncOptions {
  using padding_t = detail::conv_padding_t<D>;
  PELLUCID_ARG(Tensor, bias);
  PELLUCID_ARG(ExpandingArray<D>, stride) = 1;
  PELLUCID_ARG(padding_t, padding) = ExpandingArray<D>(0);
  PELLUCID_ARG(ExpandingArray<D>, dilation) = 1;
  PELLUCID_ARG(int64_t, groups) = 1;
};
using Conv1dFuncOptions = ConvFuncOptions<1>;
using Conv2dFuncOptions = ConvFuncOptions<2>;
using Conv3dFuncOptions = ConvFuncOptions<3>;
template <size_t D> struct ConvTransposeFuncOptions {
  PELLUCID_ARG(Tensor, bias);
  PELLUCID_ARG(ExpandingArray<D>, stride) = 1;
  PELLUCID_ARG(ExpandingArray<D>, padding) = 0;
  PELLUCID_ARG(ExpandingArray<D>, output_padding) = 0;
  PELLUCID_ARG(int64_t, groups) = 1;
  PELLUCID_ARG(ExpandingArray<D>, dilation) = 1;
};
using ConvTranspose1dFuncOptions = ConvTransposeFuncOptions<1>;
using ConvTranspose2dFuncOptions = ConvTransposeFuncOptions<2>;
using ConvTranspose3dFuncOptions = ConvTransposeFuncOptions<3>;
struct DropoutFuncOptions {
  PELLUCID_ARG(double, p) = 0.5;
  PELLUCID_ARG(bool, training) = true;
  PELLUCID_ARG(bool, inplace) = false;
};
using Dropout2dFuncOptions = DropoutFuncOptions;
struct AlphaDropoutFuncOptions {
  PELLUCID_ARG(double, p) = 0.5;
  PELLUCID_ARG(bool, training) = false;
  PELLUCID_ARG(bool, inplace) = false;
};
using FeatureAlphaDropoutFuncOptions = AlphaDropoutFuncOptions;
struct EmbeddingFuncOptions {
  PELLUCID_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
  PELLUCID_ARG(std::optional<double>, max_norm) = std::nullopt;
  PELLUCID_ARG(double, norm_type) = 2.;
  PELLUCID_ARG(bool, scale_grad_by_freq) = false;
  PELLUCID_ARG(bool, sparse) = false;
};
struct EmbeddingBagFuncOptions {
  PELLUCID_ARG(Tensor, offsets);
  PELLUCID_ARG(std::optional<double>, max_norm) = std::nullopt;
  PELLUCID_ARG(double, norm_type) = 2.;
  PELLUCID_ARG(bool, scale_grad_by_freq) = false;
  PELLUCID_ARG(EmbeddingBagMode, mode) = kMean;
  PELLUCID_ARG(bool, sparse) = false;
  PELLUCID_ARG(Tensor, per_sample_weights);
  PELLUCID_ARG(bool, include_last_offset) = false;
  PELLUCID_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
};
struct PadFuncOptions {
  using mode_t = std::variant<enumtype::kConstant, enumtype::kReflect, enumtype::kReplicate,
                              enumtype::kCircular>;
  PadFuncOptions(std::vector<int64_t> pad) : pad_(std::move(pad)) {}
  PELLUCID_ARG(std::vector<int64_t>, pad);
  PELLUCID_ARG(mode_t, mode) = kConstant;
  PELLUCID_ARG(double, value) = 0;
};
using PixelShuffleFuncOptions = PixelShuffleOptions;
using PixelUnshuffleFuncOptions = PixelUnshuffleOptions;
using ChannelShuffleFuncOptions = ChannelShuffleOptions;
using CosineSimilarityFuncOptions = CosineSimilarityOptions;
using PairwiseDistanceFuncOptions = PairwiseDistanceOptions;
}  // namespace functional
}  // namespace pellucid::nn
