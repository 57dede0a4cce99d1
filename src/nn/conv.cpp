// Convolutions as modules.
#include "pellucid/nn/conv.h"

#include <cmath>

#include "nn/parameter.h"
#include "nn/repr.h"
#include "pellucid/nn/init.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

namespace {

void check_channels(std::string_view name, int64_t in, int64_t out, int64_t groups) {
  PELLUCID_CHECK(groups > 0, ValueError, "{}: groups must be positive, but is {}.", name, groups);
  PELLUCID_CHECK(in > 0 && out > 0 && in % groups == 0 && out % groups == 0, ValueError,
                 "{}: in_channels {} and out_channels {} must be positive and divisible by groups "
                 "{}.",
                 name, in, out, groups);
}

/// PyTorch's start: uniform within 1 / sqrt(fan in).
void reset_values(const Tensor& weight, const Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const auto fan_in = std::get<0>(init::_calculate_fan_in_and_fan_out(weight));
  const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
  init::uniform_(bias, -bound, bound);
}

template <size_t D> bool all_are(const ExpandingArray<D>& a, int64_t value) {
  for (size_t i = 0; i < D; ++i)
    if (a[i] != value) return false;
  return true;
}

constexpr const char* kPaddingModes[] = {"zeros", "reflect", "replicate", "circular"};

}  // namespace

template <size_t D, class Derived>
ConvNdImpl<D, Derived>::ConvNdImpl(const ConvOptions<D>& o) : options(o) {}

template <size_t D, class Derived> void ConvNdImpl<D, Derived>::reset() {
  check_channels(this->name(), options.in_channels(), options.out_channels(), options.groups());
  if (std::holds_alternative<enumtype::kSame>(options.padding()))
    PELLUCID_CHECK(all_are(options.stride(), 1), ValueError,
                   "{}: padding kSame needs a stride of 1, but it is {}.", this->name(),
                   IntArrayRef(options.stride()));
  std::vector<int64_t> sizes{options.out_channels(), options.in_channels() / options.groups()};
  sizes.insert(sizes.end(), options.kernel_size()->begin(), options.kernel_size()->end());
  weight = this->register_parameter("weight", new_parameter(sizes));
  bias = options.bias() ? this->register_parameter("bias", new_parameter({options.out_channels()}))
                        : this->register_parameter("bias", {}, false);
  reset_parameters();
}

template <size_t D, class Derived> void ConvNdImpl<D, Derived>::reset_parameters() {
  reset_values(weight, bias);
}

template <size_t D, class Derived> std::string ConvNdImpl<D, Derived>::extra_repr() const {
  std::string s = fmt::format("{}, {}, kernel_size={}, stride={}", options.in_channels(),
                              options.out_channels(), repr::tuple(*options.kernel_size()),
                              repr::tuple(*options.stride()));
  if (const auto* p = std::get_if<ExpandingArray<D>>(&options.padding())) {
    if (!all_are(*p, 0)) s += ", padding=" + repr::tuple(**p);
  } else {
    s += options.padding().index() == 1 ? ", padding=valid" : ", padding=same";
  }
  if (!all_are(options.dilation(), 1)) s += ", dilation=" + repr::tuple(*options.dilation());
  if (options.groups() != 1) s += fmt::format(", groups={}", options.groups());
  if (!options.bias()) s += ", bias=False";
  if (options.padding_mode().index() != 0)
    s += fmt::format(", padding_mode={}", kPaddingModes[options.padding_mode().index()]);
  return s;
}

template <size_t D, class Derived>
Tensor ConvNdImpl<D, Derived>::padded(const Tensor& input) const {
  std::vector<int64_t> sides(2 * D, 0);  // the last dimension first, before and after
  for (size_t i = 0; i < D; ++i) {
    const size_t at = 2 * (D - 1 - i);
    if (const auto* p = std::get_if<ExpandingArray<D>>(&options.padding())) {
      sides[at] = sides[at + 1] = (*p)[i];
    } else if (std::holds_alternative<enumtype::kSame>(options.padding())) {
      const int64_t total = options.dilation()[i] * (options.kernel_size()[i] - 1);
      sides[at] = total / 2;
      sides[at + 1] = total - total / 2;
    }
  }
  return pad(input, sides, kPaddingModes[options.padding_mode().index()]);
}

template <size_t D, class Derived>
template <class F>
Tensor ConvNdImpl<D, Derived>::convolve(const Tensor& input, const F& conv) const {
  if (options.padding_mode().index() != 0) return conv(padded(input), IntArrayRef{0});
  if (const auto* p = std::get_if<ExpandingArray<D>>(&options.padding()))
    return conv(input, IntArrayRef(*p));
  return conv(input, TextArg(options.padding().index() == 1 ? "valid" : "same"));
}

Conv1dImpl::Conv1dImpl(const Conv1dOptions& o) : ConvNdImpl(o) { reset(); }
Conv2dImpl::Conv2dImpl(const Conv2dOptions& o) : ConvNdImpl(o) { reset(); }
Conv3dImpl::Conv3dImpl(const Conv3dOptions& o) : ConvNdImpl(o) { reset(); }

Tensor Conv1dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return convolve(input, [&](const Tensor& x, const auto& padding) {
    return conv1d(x, weight, bias, options.stride(), padding, options.dilation(), options.groups());
  });
}

Tensor Conv2dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return convolve(input, [&](const Tensor& x, const auto& padding) {
    return conv2d(x, weight, bias, options.stride(), padding, options.dilation(), options.groups());
  });
}

Tensor Conv3dImpl::forward(const Tensor& input) {
  const ModuleScope scope(*this);
  return convolve(input, [&](const Tensor& x, const auto& padding) {
    return conv3d(x, weight, bias, options.stride(), padding, options.dilation(), options.groups());
  });
}

template <size_t D, class Derived>
ConvTransposeNdImpl<D, Derived>::ConvTransposeNdImpl(const ConvTransposeOptions<D>& o)
    : options(o) {}

template <size_t D, class Derived> void ConvTransposeNdImpl<D, Derived>::reset() {
  check_channels(this->name(), options.in_channels(), options.out_channels(), options.groups());
  PELLUCID_CHECK(options.padding_mode().index() == 0, ValueError,
                 "{}: only padding mode kZeros is possible.", this->name());
  std::vector<int64_t> sizes{options.in_channels(), options.out_channels() / options.groups()};
  sizes.insert(sizes.end(), options.kernel_size()->begin(), options.kernel_size()->end());
  weight = this->register_parameter("weight", new_parameter(sizes));
  bias = options.bias() ? this->register_parameter("bias", new_parameter({options.out_channels()}))
                        : this->register_parameter("bias", {}, false);
  reset_parameters();
}

template <size_t D, class Derived> void ConvTransposeNdImpl<D, Derived>::reset_parameters() {
  reset_values(weight, bias);
}

template <size_t D, class Derived> std::string ConvTransposeNdImpl<D, Derived>::extra_repr() const {
  std::string s = fmt::format("{}, {}, kernel_size={}, stride={}", options.in_channels(),
                              options.out_channels(), repr::tuple(*options.kernel_size()),
                              repr::tuple(*options.stride()));
  if (!all_are(options.padding(), 0)) s += ", padding=" + repr::tuple(*options.padding());
  if (!all_are(options.dilation(), 1)) s += ", dilation=" + repr::tuple(*options.dilation());
  if (!all_are(options.output_padding(), 0))
    s += ", output_padding=" + repr::tuple(*options.output_padding());
  if (options.groups() != 1) s += fmt::format(", groups={}", options.groups());
  if (!options.bias()) s += ", bias=False";
  return s;
}

template <size_t D, class Derived>
std::array<int64_t, D> ConvTransposeNdImpl<D, Derived>::output_padding(
    const Tensor& input, const std::optional<IntArrayRef>& output_size) const {
  if (!output_size) return *options.output_padding();
  const size_t given = output_size->size();
  PELLUCID_CHECK(given >= D, ShapeError, "{}: output_size needs {} sizes, but got {}.",
                 this->name(), D, *output_size);
  std::array<int64_t, D> out{};
  for (size_t i = 0; i < D; ++i) {
    const int64_t in = input.size(static_cast<int64_t>(i) - static_cast<int64_t>(D));
    const int64_t least = (in - 1) * options.stride()[i] - 2 * options.padding()[i] +
                          options.dilation()[i] * (options.kernel_size()[i] - 1) + 1;
    out[i] = (*output_size)[given - D + i] - least;
    PELLUCID_CHECK(out[i] >= 0 && out[i] < options.stride()[i], ShapeError,
                   "{}: output size {} is not possible; size {} must be between {} and {} (input "
                   "{}).",
                   this->name(), *output_size, i, least, least + options.stride()[i] - 1,
                   input.sizes());
  }
  return out;
}

ConvTranspose1dImpl::ConvTranspose1dImpl(const ConvTranspose1dOptions& o) : ConvTransposeNdImpl(o) {
  reset();
}
ConvTranspose2dImpl::ConvTranspose2dImpl(const ConvTranspose2dOptions& o) : ConvTransposeNdImpl(o) {
  reset();
}
ConvTranspose3dImpl::ConvTranspose3dImpl(const ConvTranspose3dOptions& o) : ConvTransposeNdImpl(o) {
  reset();
}

Tensor ConvTranspose1dImpl::forward(const Tensor& input,
                                    const std::optional<IntArrayRef>& output_size) {
  const ModuleScope scope(*this);
  return conv_transpose1d(input, weight, bias, options.stride(), options.padding(),
                          output_padding(input, output_size), options.groups(), options.dilation());
}

Tensor ConvTranspose2dImpl::forward(const Tensor& input,
                                    const std::optional<IntArrayRef>& output_size) {
  const ModuleScope scope(*this);
  return conv_transpose2d(input, weight, bias, options.stride(), options.padding(),
                          output_padding(input, output_size), options.groups(), options.dilation());
}

Tensor ConvTranspose3dImpl::forward(const Tensor& input,
                                    const std::optional<IntArrayRef>& output_size) {
  const ModuleScope scope(*this);
  return conv_transpose3d(input, weight, bias, options.stride(), options.padding(),
                          output_padding(input, output_size), options.groups(), options.dilation());
}

template class ConvNdImpl<1, Conv1dImpl>;
template class ConvNdImpl<2, Conv2dImpl>;
template class ConvNdImpl<3, Conv3dImpl>;
template class ConvTransposeNdImpl<1, ConvTranspose1dImpl>;
template class ConvTransposeNdImpl<2, ConvTranspose2dImpl>;
template class ConvTransposeNdImpl<3, ConvTranspose3dImpl>;

}  // namespace pellucid::nn
