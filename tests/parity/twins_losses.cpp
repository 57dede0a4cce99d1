// Activations and losses: their constructors in the table of twins, in C++.
#include "parity/twins.h"

namespace pellucid::twins {

Modules activations_and_losses() {
  return {
      {"ELU(0.7)", [] { return made(nn::ELU(nn::ELUOptions().alpha(0.7))); }},
      {"CELU(1.3)", [] { return made(nn::CELU(nn::CELUOptions().alpha(1.3))); }},
      {"SELU()", [] { return made(nn::SELU()); }},
      {"GLU()", [] { return made(nn::GLU()); }},
      {"GELU()", [] { return made(nn::GELU()); }},
      {"GELU(approximate='tanh')",
       [] { return made(nn::GELU(nn::GELUOptions().approximate("tanh"))); }},
      {"Hardshrink()", [] { return made(nn::Hardshrink()); }},
      {"Hardtanh(-0.5, 0.3)",
       [] { return made(nn::Hardtanh(nn::HardtanhOptions().min_val(-0.5).max_val(0.3))); }},
      {"LeakyReLU(0.2)",
       [] { return made(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2))); }},
      {"ReLU()", [] { return made(nn::ReLU()); }},
      {"ReLU6()", [] { return made(nn::ReLU6()); }},
      {"RReLU()", [] { return made(nn::RReLU()); }},
      {"SiLU()", [] { return made(nn::SiLU()); }},
      {"Mish()", [] { return made(nn::Mish()); }},
      {"Hardswish()", [] { return made(nn::Hardswish()); }},
      {"Hardsigmoid()", [] { return made(nn::Hardsigmoid()); }},
      {"Softplus(2.0)", [] { return made(nn::Softplus(nn::SoftplusOptions().beta(2.0))); }},
      {"Softshrink(0.2)", [] { return made(nn::Softshrink(0.2)); }},
      {"Threshold(0.1, 20)", [] { return made(nn::Threshold(0.1, 20)); }},
      {"Softmax(1)", [] { return made(nn::Softmax(1)); }},
      {"Softmin(0)", [] { return made(nn::Softmin(0)); }},
      {"LogSoftmax(1)", [] { return made(nn::LogSoftmax(1)); }},
      {"PReLU(4)", [] { return made(nn::PReLU(nn::PReLUOptions().num_parameters(4))); }},
      {"LogSigmoid()", [] { return made(nn::LogSigmoid()); }},
      {"Sigmoid()", [] { return made(nn::Sigmoid()); }},
      {"Tanh()", [] { return made(nn::Tanh()); }},
      {"Softsign()", [] { return made(nn::Softsign()); }},
      {"Tanhshrink()", [] { return made(nn::Tanhshrink()); }},
      {"Softmax2d()", [] { return made(nn::Softmax2d()); }},
      {"Identity()", [] { return made(nn::Identity()); }},
      {"L1Loss()", [] { return made(nn::L1Loss()); }},
      {"L1Loss(reduction='sum')", [] { return made(nn::L1Loss(kSum)); }},
      {"MSELoss()", [] { return made(nn::MSELoss()); }},
      {"MSELoss(reduction='none')", [] { return made(nn::MSELoss(kNone)); }},
      {"SmoothL1Loss(beta=0.5)",
       [] { return made(nn::SmoothL1Loss(nn::SmoothL1LossOptions().beta(0.5))); }},
      {"HuberLoss(delta=0.7)",
       [] { return made(nn::HuberLoss(nn::HuberLossOptions().delta(0.7))); }},
      {"BCELoss()", [] { return made(nn::BCELoss()); }},
      {"BCELoss(weight=pos(4))",
       [] { return made(nn::BCELoss(nn::BCELossOptions().weight(pos({4})))); }},
      {"BCEWithLogitsLoss(pos_weight=pos(4))",
       [] {
         return made(nn::BCEWithLogitsLoss(nn::BCEWithLogitsLossOptions().pos_weight(pos({4}))));
       }},
      {"MultiLabelSoftMarginLoss()", [] { return made(nn::MultiLabelSoftMarginLoss()); }},
      {"MultiLabelSoftMarginLoss(weight=pos(4), reduction='none')",
       [] {
         return made(nn::MultiLabelSoftMarginLoss(
             nn::MultiLabelSoftMarginLossOptions().weight(pos({4})).reduction(kNone)));
       }},
      {"MultiLabelMarginLoss()", [] { return made(nn::MultiLabelMarginLoss()); }},
      {"MultiLabelMarginLoss(reduction='none')",
       [] { return made(nn::MultiLabelMarginLoss(kNone)); }},
      {"KLDivLoss(reduction='batchmean')", [] { return made(nn::KLDivLoss(kBatchMean)); }},
      {"KLDivLoss(log_target=True)",
       [] { return made(nn::KLDivLoss(nn::KLDivLossOptions().log_target(true))); }},
      {"KLDivLoss(reduction='sum')", [] { return made(nn::KLDivLoss(kSum)); }},
      {"NLLLoss(weight=pos(4))",
       [] { return made(nn::NLLLoss(nn::NLLLossOptions().weight(pos({4})))); }},
      {"CrossEntropyLoss(label_smoothing=0.1, ignore_index=0)",
       [] {
         return made(nn::CrossEntropyLoss(
             nn::CrossEntropyLossOptions().label_smoothing(0.1).ignore_index(0)));
       }},
      {"CrossEntropyLoss()", [] { return made(nn::CrossEntropyLoss()); }},
      {"CrossEntropyLoss(weight=pos(4), reduction='none')",
       [] {
         return made(
             nn::CrossEntropyLoss(nn::CrossEntropyLossOptions().weight(pos({4})).reduction(kNone)));
       }},
      {"MultiMarginLoss()", [] { return made(nn::MultiMarginLoss()); }},
      {"MultiMarginLoss(p=2, margin=0.8, weight=pos(4))",
       [] {
         return made(
             nn::MultiMarginLoss(nn::MultiMarginLossOptions().p(2).margin(0.8).weight(pos({4}))));
       }},
      {"SoftMarginLoss()", [] { return made(nn::SoftMarginLoss()); }},
      {"HingeEmbeddingLoss()", [] { return made(nn::HingeEmbeddingLoss()); }},
      {"HingeEmbeddingLoss(margin=0.4, reduction='sum')",
       [] {
         return made(
             nn::HingeEmbeddingLoss(nn::HingeEmbeddingLossOptions().margin(0.4).reduction(kSum)));
       }},
      {"PoissonNLLLoss()", [] { return made(nn::PoissonNLLLoss()); }},
      {"PoissonNLLLoss(log_input=False, full=True)",
       [] {
         return made(nn::PoissonNLLLoss(nn::PoissonNLLLossOptions().log_input(false).full(true)));
       }},
      {"GaussianNLLLoss()", [] { return made(nn::GaussianNLLLoss()); }},
      {"GaussianNLLLoss(full=True, reduction='none')",
       [] {
         return made(nn::GaussianNLLLoss(nn::GaussianNLLLossOptions().full(true).reduction(kNone)));
       }},
      {"CosineEmbeddingLoss(margin=0.1)",
       [] { return made(nn::CosineEmbeddingLoss(nn::CosineEmbeddingLossOptions().margin(0.1))); }},
      {"MarginRankingLoss(margin=0.3)",
       [] { return made(nn::MarginRankingLoss(nn::MarginRankingLossOptions().margin(0.3))); }},
      {"TripletMarginLoss(swap=True)",
       [] { return made(nn::TripletMarginLoss(nn::TripletMarginLossOptions().swap(true))); }},
      {"TripletMarginLoss(margin=0.5, p=1.0, reduction='none')",
       [] {
         return made(nn::TripletMarginLoss(
             nn::TripletMarginLossOptions().margin(0.5).p(1.0).reduction(kNone)));
       }},
      {"TripletMarginWithDistanceLoss()", [] { return made(nn::TripletMarginWithDistanceLoss()); }},
      {"TripletMarginWithDistanceLoss(swap=True, margin=0.4, reduction='sum')",
       [] {
         return made(nn::TripletMarginWithDistanceLoss(
             nn::TripletMarginWithDistanceLossOptions().swap(true).margin(0.4).reduction(kSum)));
       }},
      {"CTCLoss()", [] { return made(nn::CTCLoss()); }},
      {"CTCLoss(reduction='sum', blank=3)",
       [] { return made(nn::CTCLoss(nn::CTCLossOptions().reduction(kSum).blank(3))); }},
      {"CTCLoss(reduction='sum', zero_infinity=True)",
       [] { return made(nn::CTCLoss(nn::CTCLossOptions().reduction(kSum).zero_infinity(true))); }},
  };
}

}  // namespace pellucid::twins
