// Activations and losses against PyTorch 2.13: outputs and gradients.
#include "nn/same.h"

using namespace pellucid;
using namespace pellucid::nn_tests;

TEST_CASE("nn values: act") {
  same(nn::ELU(nn::ELUOptions().alpha(0.7)), -3.975327777043, 2.185227365458, leaf({3, 4}, 10));
  same(nn::CELU(nn::CELUOptions().alpha(1.3)), -5.045183419255, 2.660051183823, leaf({3, 4}, 10));
  same(nn::SELU(), -6.995691538109, 3.358571807788, leaf({3, 4}, 10));
  same(nn::GLU(), -0.2251626368239, -0.3702770094211, leaf({3, 4}, 10));
  same(nn::GELU(), -2.452204685717, 1.273789724772, leaf({3, 4}, 10));
  same(nn::GELU(nn::GELUOptions().approximate("tanh")), -2.452443961738, 1.274003999409,
       leaf({3, 4}, 10));
  same(nn::Hardshrink(), -5.995883786624, 2.557987745166, leaf({3, 4}, 10));
  same(nn::Hardtanh(nn::HardtanhOptions().min_val(-0.5).max_val(0.3)), -3.302918001032,
       0.8770336866581, leaf({3, 4}, 10));
  same(nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)), -2.861160075541, 1.853312845011,
       leaf({3, 4}, 10));
  same(nn::ReLU(), -2.045784639521, 1.457885698308, leaf({3, 4}, 10));
  same(nn::ReLU6(), -2.045784639521, 1.457885698308, leaf({3, 4}, 10));
  same(in_eval(nn::RReLU()), -2.980068993294, 1.910979303905, leaf({3, 4}, 10));
  same(nn::SiLU(), -2.655160813028, 1.415190928262, leaf({3, 4}, 10));
  same(nn::Mish(), -3.102280158291, 1.630718219187, leaf({3, 4}, 10));
  same(nn::Hardswish(), -2.772798338555, 1.497990952127, leaf({3, 4}, 10));
  same(nn::Hardsigmoid(), 0.2384392483639, 0.5725035890327, leaf({3, 4}, 10));
  same(nn::Softplus(nn::SoftplusOptions().beta(2.0)), -1.803257934439, 1.435278178463,
       leaf({3, 4}, 10));
  same(nn::Softshrink(0.2), -4.576298926432, 3.133474417428, leaf({3, 4}, 10));
  same(nn::Threshold(0.1, 20), 99.01309007206, 1.457885698308, leaf({3, 4}, 10));
  same(nn::Softmax(1), 0.4402620206043, 0.2701480740583, leaf({3, 4}, 10));
  same(nn::Softmin(0), 2.17904691782, -0.6891850916587, leaf({3, 4}, 10));
  same(nn::LogSoftmax(1), -4.423253042564, 0.8340299414168, leaf({3, 4}, 10));
  same(nn::PReLU(nn::PReLUOptions().num_parameters(4)), -3.548054346686, 4.627919227821,
       leaf({3, 4}, 10));
  same(nn::LogSigmoid(), -5.016073370256, 1.875183125378, leaf({3, 4}, 10));
  same(nn::Sigmoid(), -0.1833442253091, 0.781601538998, leaf({3, 4}, 10));
  same(nn::Tanh(), -4.968585804797, 2.480018099021, leaf({3, 4}, 10));
  same(nn::Softsign(), -3.342117898234, 1.546525562986, leaf({3, 4}, 10));
  same(nn::Tanhshrink(), -1.154076014822, 0.955003332803, leaf({3, 4}, 10));
  same(nn::Softmax2d(), -2.745607765874, 1.618508967711, leaf({2, 3, 2, 2}, 10));
}

TEST_CASE("nn values: loss") {
  same(nn::L1Loss(), 0.4861696600451, -0.1029011900861, leaf({3, 4}, 10), leaf({3, 4}, 11));
  same(nn::L1Loss(nn::L1LossOptions(kSum)), 5.834035920541, -1.234814281033, leaf({3, 4}, 10),
       leaf({3, 4}, 11));
  same(nn::MSELoss(), 0.3478760156885, -0.1361714972318, leaf({3, 4}, 10), leaf({3, 4}, 11));
  same(nn::MSELoss(kNone), 0.6047868197032, -0.4949918920015, leaf({3, 4}, 10), leaf({3, 4}, 11));
  same(nn::SmoothL1Loss(nn::SmoothL1LossOptions().beta(0.5)), 0.298136963834, -0.0818077941692,
       leaf({3, 4}, 10), leaf({3, 4}, 11));
  same(nn::HuberLoss(nn::HuberLossOptions().delta(0.7)), 0.1685343176237, -0.05766128708777,
       leaf({3, 4}, 10), leaf({3, 4}, 11));
  same(nn::BCELoss(), 0.6206172534956, 0, prob({3, 4}, 5), prob({3, 4}, 6));
  same(nn::BCEWithLogitsLoss(nn::BCEWithLogitsLossOptions().pos_weight(pos({4}, 3))),
       0.6761765865562, 0.07832542892764, leaf({3, 4}, 10), prob({3, 4}, 6));
  same(nn::MultiLabelSoftMarginLoss(), 0.7481481757387, 0.07101562816645, leaf({3, 4}, 10),
       prob({3, 4}, 6));
  same(nn::KLDivLoss(kBatchMean), -0.09880347260616, 0.2219524264219, leaf({3, 4}, 10),
       prob({3, 4}, 6));
  same(nn::KLDivLoss(nn::KLDivLossOptions().log_target(true)), 0.2047614530296, -0.1962748572036,
       leaf({3, 4}, 10), leaf({3, 4}, 11));
  same(nn::NLLLoss(nn::NLLLossOptions().weight(pos({4}, 3))), 0.6578383684563, 0.1108160706924,
       leaf({3, 4}, 10), tensor({1, 0, 3}));
  same(nn::CrossEntropyLoss(nn::CrossEntropyLossOptions().label_smoothing(0.1).ignore_index(0)),
       1.434750470763, 0.2113269510441, leaf({3, 4}, 10), tensor({1, 0, 3}));
  same(nn::CrossEntropyLoss(), 2.675213646553, 0.5325143697594, leaf({3, 4}, 10), prob({3, 4}, 6));
  same(nn::MultiMarginLoss(nn::MultiMarginLossOptions().p(2).margin(0.8).weight(pos({4}, 3))),
       0.6477096325049, 0.581462652487, leaf({3, 4}, 10), tensor({1, 0, 3}));
  same(nn::SoftMarginLoss(), 0.3602609997735, 0.1001202190969, leaf({3, 4}, 10),
       sign_of({3, 4}, 4));
  same(nn::HingeEmbeddingLoss(), 1.11846310305, -0.2440029564876, leaf({3, 4}, 10),
       sign_of({3, 4}, 4));
  same(nn::PoissonNLLLoss(), 1.08790241168, 0.04465457496259, leaf({3, 4}, 10), prob({3, 4}, 6));
  same(nn::GaussianNLLLoss(), 0.2805241527756, 0.05172317366103, leaf({3, 4}, 10), leaf({3, 4}, 11),
       pos({3, 4}, 7));
  same(nn::CosineEmbeddingLoss(nn::CosineEmbeddingLossOptions().margin(0.1)), 0.4280942871745,
       0.04830172820422, leaf({3, 4}, 10), leaf({3, 4}, 11), sign_of({3}, 4));
  same(nn::MarginRankingLoss(nn::MarginRankingLossOptions().margin(0.3)), 0.3030720283406,
       0.3607803876639, leaf({3, 4}, 10), leaf({3, 4}, 11), sign_of({3, 4}, 4));
  same(nn::TripletMarginLoss(nn::TripletMarginLossOptions().swap(true)), 0.7359814580196,
       0.04186019104198, leaf({3, 4}, 10), leaf({3, 4}, 11), leaf({3, 4}, 12));
  same(nn::TripletMarginWithDistanceLoss(), 0.001328774674837, 0.1149914111403, leaf({3, 4}, 10),
       leaf({3, 4}, 11), leaf({3, 4}, 12));
}
