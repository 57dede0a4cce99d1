// Convolutions as modules.
#pragma once

#include "pellucid/nn/cloneable.h"
#include "pellucid/nn/options/layers.h"
#include "pellucid/nn/pimpl.h"

namespace pellucid::nn {

/// What Conv1d, Conv2d and Conv3d share. The weight is [out_channels, in_channels / groups,
/// kernel…].
template <size_t D, class Derived> class PELLUCID_API ConvNdImpl : public Cloneable<Derived> {
 public:
  explicit ConvNdImpl(const ConvOptions<D>& options);
  void reset() override;
  void reset_parameters();
  std::string extra_repr() const override;
  ConvOptions<D> options;
  Tensor weight, bias;

 protected:
  /// The input padded by hand, for padding modes other than zeros.
  Tensor padded(const Tensor& input) const;
  /// conv(input, padding) with the input and the padding as the options say.
  template <class F> Tensor convolve(const Tensor& input, const F& conv) const;
};

class PELLUCID_API Conv1dImpl : public ConvNdImpl<1, Conv1dImpl> {
 public:
  Conv1dImpl(int64_t in_channels, int64_t out_channels, ExpandingArray<1> kernel_size)
      : Conv1dImpl(Conv1dOptions(in_channels, out_channels, kernel_size)) {}
  explicit Conv1dImpl(const Conv1dOptions& options);
  Tensor forward(const Tensor& input);
};
using Conv1d = ModuleHolder<Conv1dImpl>;

class PELLUCID_API Conv2dImpl : public ConvNdImpl<2, Conv2dImpl> {
 public:
  Conv2dImpl(int64_t in_channels, int64_t out_channels, ExpandingArray<2> kernel_size)
      : Conv2dImpl(Conv2dOptions(in_channels, out_channels, kernel_size)) {}
  explicit Conv2dImpl(const Conv2dOptions& options);
  Tensor forward(const Tensor& input);
};
using Conv2d = ModuleHolder<Conv2dImpl>;

class PELLUCID_API Conv3dImpl : public ConvNdImpl<3, Conv3dImpl> {
 public:
  Conv3dImpl(int64_t in_channels, int64_t out_channels, ExpandingArray<3> kernel_size)
      : Conv3dImpl(Conv3dOptions(in_channels, out_channels, kernel_size)) {}
  explicit Conv3dImpl(const Conv3dOptions& options);
  Tensor forward(const Tensor& input);
};
using Conv3d = ModuleHolder<Conv3dImpl>;

/// What the transposed convolutions share. The weight is [in_channels, out_channels / groups,
/// kernel…].
template <size_t D, class Derived>
class PELLUCID_API ConvTransposeNdImpl : public Cloneable<Derived> {
 public:
  explicit ConvTransposeNdImpl(const ConvTransposeOptions<D>& options);
  void reset() override;
  void reset_parameters();
  std::string extra_repr() const override;
  ConvTransposeOptions<D> options;
  Tensor weight, bias;

 protected:
  /// The padding that makes the result as large as asked for.
  std::array<int64_t, D> output_padding(const Tensor& input,
                                        const std::optional<IntArrayRef>& output_size) const;
};

class PELLUCID_API ConvTranspose1dImpl : public ConvTransposeNdImpl<1, ConvTranspose1dImpl> {
 public:
  ConvTranspose1dImpl(int64_t in_channels, int64_t out_channels, ExpandingArray<1> kernel_size)
      : ConvTranspose1dImpl(ConvTranspose1dOptions(in_channels, out_channels, kernel_size)) {}
  explicit ConvTranspose1dImpl(const ConvTranspose1dOptions& options);
  Tensor forward(const Tensor& input, const std::optional<IntArrayRef>& output_size = std::nullopt);
};
using ConvTranspose1d = ModuleHolder<ConvTranspose1dImpl>;

class PELLUCID_API ConvTranspose2dImpl : public ConvTransposeNdImpl<2, ConvTranspose2dImpl> {
 public:
  ConvTranspose2dImpl(int64_t in_channels, int64_t out_channels, ExpandingArray<2> kernel_size)
      : ConvTranspose2dImpl(ConvTranspose2dOptions(in_channels, out_channels, kernel_size)) {}
  explicit ConvTranspose2dImpl(const ConvTranspose2dOptions& options);
  Tensor forward(const Tensor& input, const std::optional<IntArrayRef>& output_size = std::nullopt);
};
using ConvTranspose2d = ModuleHolder<ConvTranspose2dImpl>;

class PELLUCID_API ConvTranspose3dImpl : public ConvTransposeNdImpl<3, ConvTranspose3dImpl> {
 public:
  ConvTranspose3dImpl(int64_t in_channels, int64_t out_channels, ExpandingArray<3> kernel_size)
      : ConvTranspose3dImpl(ConvTranspose3dOptions(in_channels, out_channels, kernel_size)) {}
  explicit ConvTranspose3dImpl(const ConvTranspose3dOptions& options);
  Tensor forward(const Tensor& input, const std::optional<IntArrayRef>& output_size = std::nullopt);
};
using ConvTranspose3d = ModuleHolder<ConvTranspose3dImpl>;

extern template class ConvNdImpl<1, Conv1dImpl>;
extern template class ConvNdImpl<2, Conv2dImpl>;
extern template class ConvNdImpl<3, Conv3dImpl>;
extern template class ConvTransposeNdImpl<1, ConvTranspose1dImpl>;
extern template class ConvTransposeNdImpl<2, ConvTranspose2dImpl>;
extern template class ConvTransposeNdImpl<3, ConvTranspose3dImpl>;

}  // namespace pellucid::nn
