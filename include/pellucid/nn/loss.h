// Losses as modules.
#pragma once

#include "pellucid/nn/options/loss.h"
#include "pellucid/nn/options_module.h"

namespace pellucid::nn {

class PELLUCID_API L1LossImpl : public detail::OptionsModule<L1LossImpl, L1LossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input, const Tensor& target);
};
using L1Loss = ModuleHolder<L1LossImpl>;

class PELLUCID_API MSELossImpl : public detail::OptionsModule<MSELossImpl, MSELossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input, const Tensor& target);
};
using MSELoss = ModuleHolder<MSELossImpl>;

class PELLUCID_API SoftMarginLossImpl
    : public detail::OptionsModule<SoftMarginLossImpl, SoftMarginLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input, const Tensor& target);
};
using SoftMarginLoss = ModuleHolder<SoftMarginLossImpl>;

class PELLUCID_API MultiLabelMarginLossImpl
    : public detail::OptionsModule<MultiLabelMarginLossImpl, MultiLabelMarginLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input, const Tensor& target);
};
using MultiLabelMarginLoss = ModuleHolder<MultiLabelMarginLossImpl>;

class PELLUCID_API HingeEmbeddingLossImpl
    : public detail::OptionsModule<HingeEmbeddingLossImpl, HingeEmbeddingLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input, const Tensor& target);
};
using HingeEmbeddingLoss = ModuleHolder<HingeEmbeddingLossImpl>;

class PELLUCID_API BCELossImpl : public Cloneable<BCELossImpl> {
 public:
  explicit BCELossImpl(BCELossOptions options = {});
  void reset() override;
  Tensor forward(const Tensor& input, const Tensor& target);
  BCELossOptions options;
  Tensor weight;
};
using BCELoss = ModuleHolder<BCELossImpl>;

class PELLUCID_API BCEWithLogitsLossImpl : public Cloneable<BCEWithLogitsLossImpl> {
 public:
  explicit BCEWithLogitsLossImpl(BCEWithLogitsLossOptions options = {});
  void reset() override;
  Tensor forward(const Tensor& input, const Tensor& target);
  BCEWithLogitsLossOptions options;
  Tensor weight, pos_weight;
};
using BCEWithLogitsLoss = ModuleHolder<BCEWithLogitsLossImpl>;

class PELLUCID_API MultiLabelSoftMarginLossImpl : public Cloneable<MultiLabelSoftMarginLossImpl> {
 public:
  explicit MultiLabelSoftMarginLossImpl(MultiLabelSoftMarginLossOptions options = {});
  void reset() override;
  Tensor forward(const Tensor& input, const Tensor& target);
  MultiLabelSoftMarginLossOptions options;
  Tensor weight;
};
using MultiLabelSoftMarginLoss = ModuleHolder<MultiLabelSoftMarginLossImpl>;

class PELLUCID_API KLDivLossImpl : public detail::OptionsModule<KLDivLossImpl, KLDivLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input, const Tensor& target);
};
using KLDivLoss = ModuleHolder<KLDivLossImpl>;

class PELLUCID_API MultiMarginLossImpl : public Cloneable<MultiMarginLossImpl> {
 public:
  explicit MultiMarginLossImpl(MultiMarginLossOptions options = {});
  void reset() override;
  Tensor forward(const Tensor& input, const Tensor& target);
  MultiMarginLossOptions options;
  Tensor weight;
};
using MultiMarginLoss = ModuleHolder<MultiMarginLossImpl>;

class PELLUCID_API SmoothL1LossImpl
    : public detail::OptionsModule<SmoothL1LossImpl, SmoothL1LossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input, const Tensor& target);
};
using SmoothL1Loss = ModuleHolder<SmoothL1LossImpl>;

class PELLUCID_API HuberLossImpl : public detail::OptionsModule<HuberLossImpl, HuberLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input, const Tensor& target);
};
using HuberLoss = ModuleHolder<HuberLossImpl>;

class PELLUCID_API PoissonNLLLossImpl
    : public detail::OptionsModule<PoissonNLLLossImpl, PoissonNLLLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input, const Tensor& target);
};
using PoissonNLLLoss = ModuleHolder<PoissonNLLLossImpl>;

class PELLUCID_API CTCLossImpl : public detail::OptionsModule<CTCLossImpl, CTCLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths);
};
using CTCLoss = ModuleHolder<CTCLossImpl>;

class PELLUCID_API NLLLossImpl : public Cloneable<NLLLossImpl> {
 public:
  explicit NLLLossImpl(NLLLossOptions options = {});
  void reset() override;
  Tensor forward(const Tensor& input, const Tensor& target);
  NLLLossOptions options;
  Tensor weight;
};
using NLLLoss = ModuleHolder<NLLLossImpl>;

class PELLUCID_API CrossEntropyLossImpl : public Cloneable<CrossEntropyLossImpl> {
 public:
  explicit CrossEntropyLossImpl(CrossEntropyLossOptions options = {});
  void reset() override;
  Tensor forward(const Tensor& input, const Tensor& target);
  CrossEntropyLossOptions options;
  Tensor weight;
};
using CrossEntropyLoss = ModuleHolder<CrossEntropyLossImpl>;

class PELLUCID_API GaussianNLLLossImpl
    : public detail::OptionsModule<GaussianNLLLossImpl, GaussianNLLLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input, const Tensor& target, const Tensor& var);
};
using GaussianNLLLoss = ModuleHolder<GaussianNLLLossImpl>;

class PELLUCID_API CosineEmbeddingLossImpl
    : public detail::OptionsModule<CosineEmbeddingLossImpl, CosineEmbeddingLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input1, const Tensor& input2, const Tensor& target);
};
using CosineEmbeddingLoss = ModuleHolder<CosineEmbeddingLossImpl>;

class PELLUCID_API MarginRankingLossImpl
    : public detail::OptionsModule<MarginRankingLossImpl, MarginRankingLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& input1, const Tensor& input2, const Tensor& target);
};
using MarginRankingLoss = ModuleHolder<MarginRankingLossImpl>;

class PELLUCID_API TripletMarginLossImpl
    : public detail::OptionsModule<TripletMarginLossImpl, TripletMarginLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative);
};
using TripletMarginLoss = ModuleHolder<TripletMarginLossImpl>;

class PELLUCID_API TripletMarginWithDistanceLossImpl
    : public detail::OptionsModule<TripletMarginWithDistanceLossImpl,
                                   TripletMarginWithDistanceLossOptions> {
 public:
  using OptionsModule::OptionsModule;
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative);
};
using TripletMarginWithDistanceLoss = ModuleHolder<TripletMarginWithDistanceLossImpl>;

}  // namespace pellucid::nn
