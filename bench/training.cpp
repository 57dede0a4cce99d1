// Training steps, decoding with a cache, and loading batches: what one run of a program does, not
// one op. Parameters and batches go to the other side with the inputs; the first losses (or the
// logits) are the results.
#include <algorithm>

#include "cases.h"
#include "pellucid/compile.h"
#include "pellucid/data.h"
#include "pellucid/models.h"
#include "pellucid/optim.h"

namespace pellucid::bench {
namespace {

using Model = std::shared_ptr<nn::Module>;

/// Losses of so many steps are compared. Dropout is off until then: no two generators agree.
constexpr size_t kCheckedSteps = 3;

void set_dropout(nn::Module& model, bool on) {
  model.apply([on](nn::Module& m) {
    if (m.as<nn::Dropout>()) m.train(on);
  });
}

void add_parameters(const nn::Module& model, std::vector<Tensor>& inputs) {
  for (const Tensor& p : model.parameters()) inputs.push_back(p.detach().clone());
}

/// A step, run in the way that was asked for.
class Step {
 public:
  explicit Step(std::function<Tensor()> step)
      : plain_(step), compiled_(compile(std::move(step), CompileMode::Always)) {
    begin();
  }
  Tensor operator()() { return way() == Way::Eager ? plain_() : compiled_(); }
  /// The step does something else from now on.
  void begin() {
    if (way() == Way::Sealed) compiled_.seal();
  }

 private:
  std::function<Tensor()> plain_;
  Compiled<std::function<Tensor()>> compiled_;
};

/// Forward, backward, step, zero_grad.
Work training(const Model& model, const std::shared_ptr<optim::Optimizer>& optimizer,
              std::vector<Tensor> batch, const std::function<Tensor()>& loss) {
  add_parameters(*model, batch);
  set_dropout(*model, false);
  const auto losses = std::make_shared<std::vector<Tensor>>();
  const auto run = std::make_shared<Step>([=] {
    const Tensor value = loss();
    value.backward();
    optimizer->step();
    optimizer->zero_grad();
    return value.detach();
  });
  const auto step = [=] {
    const Tensor value = (*run)();
    if (losses->size() == kCheckedSteps) return;
    losses->push_back(value);
    if (losses->size() < kCheckedSteps) return;
    set_dropout(*model, true);
    run->begin();
  };
  return {.once = step, .inputs = std::move(batch), .results = [=] {
            while (losses->size() < kCheckedSteps) step();
            return *losses;
          }};
}

std::shared_ptr<optim::Optimizer> sgd(const Model& model, double rate) {
  return std::make_shared<optim::SGD>(model->parameters(), optim::SGDOptions(rate));
}

Work two_layer() {
  nn::Sequential model = models::mlp({1000, 100, 10});
  const Tensor x = randn({64, 1000}), y = randn({64, 10});
  return training(model.ptr(), sgd(model.ptr(), 1e-4), {x, y}, [=]() mutable {
    return nn::functional::mse_loss(model->forward(x), y, nn::MSELossOptions(kSum));
  });
}

Work mnist_cnn() {
  models::MnistCnn model;
  const Tensor x = randn({64, 1, 28, 28}), y = randint(10, {64});
  return training(model.ptr(), sgd(model.ptr(), 0.01), {x, y},
                  [=]() mutable { return nll_loss(model(x), y); });
}

Work resnet18() {
  models::ResNet model = models::resnet18();
  const Tensor x = randn({8, 3, 224, 224}).contiguous(MemoryFormat::ChannelsLast),
               y = randint(1000, {8});
  return training(model.ptr(), sgd(model.ptr(), 0.01), {x, y},
                  [=]() mutable { return nn::functional::cross_entropy(model(x), y); });
}

Work gpt2() {
  models::GPT model;
  const Tensor x = randint(50257, {4, 64}), y = randint(50257, {4, 64});
  const auto adamw = std::make_shared<optim::AdamW>(model->parameters(), optim::AdamWOptions(3e-4));
  return training(model.ptr(), adamw, {x, y}, [=]() mutable {
    return nn::functional::cross_entropy(model(x).flatten(0, 1), y.flatten());
  });
}

constexpr int64_t kTokens = 256;  ///< a text's length: decoding starts anew after it
constexpr int64_t kBlock = 32;    ///< tokens decoded in one run

/// Decodes kBlock tokens of a given text one by one with the cache, and reads which would follow.
/// From the text's start on, run by run; or, where `near_end`, always the block around its end.
Work decode(bool near_end) {
  const auto model = models::GPT().ptr();
  model->eval();
  for (size_t i = 0; i < model->h->size(); ++i)  // the other side has room from the start, too
    model->h->at<models::GPTBlockImpl>(i).attn->cache.reserve(kTokens + kBlock);
  const Tensor text = randint(50257, {1, kTokens + kBlock});
  const auto position = std::make_shared<int64_t>(0);
  const auto logits = std::make_shared<Tensor>();
  const auto once = [=] {
    const NoGradGuard off;
    for (int64_t i = 0; i < kBlock; ++i) {
      if (*position == kTokens && !near_end) *position = 0;
      if (*position == 0) model->clear_cache();
      *logits = model->logits(text.narrow(1, (*position)++, 1), true, true);
      logits->argmax().item<int64_t>();
    }
  };
  const auto before = [=] {
    const NoGradGuard off;
    model->clear_cache();
    *position = near_end ? kTokens - kBlock / 2 : 0;
    if (near_end) model->logits(text.narrow(1, 0, *position), true, true);
  };
  Work work{.once = once, .steps = kBlock};
  if (near_end) work.before = before;
  work.inputs = {text};
  add_parameters(*model, work.inputs);
  work.results = [=] {
    before();
    once();
    return std::vector<Tensor>{*logits};
  };
  return work;
}

/// The last of kTokens tokens by running all of them.
Work recompute() {
  const auto model = models::GPT().ptr();
  model->eval();
  const Tensor text = randint(50257, {1, kTokens});
  std::vector<Tensor> inputs = {text};
  add_parameters(*model, inputs);
  return reusing(std::move(inputs), [=] {
    const NoGradGuard off;
    return model->logits(text, false, true);
  });
}

/// One more token of CachedAttention(512, 8) at about kTokens, cached or by running all of them.
Work cached_attention(bool cached) {
  const auto layer = nn::CachedAttention(512, 8).ptr();
  const Tensor x = randn({1, kTokens + kBlock, 512});
  if (!cached)
    return reusing({}, [=] {
      const NoGradGuard off;
      return layer->forward(x.narrow(1, 0, kTokens), false, false);
    });
  const int64_t first = kTokens - kBlock / 2;
  return {.once =
              [=] {
                const NoGradGuard off;
                for (int64_t i = 0; i < kBlock; ++i)
                  layer->forward(x.narrow(1, first + i, 1), true, false);
              },
          .steps = kBlock,
          .before =
              [=] {
                const NoGradGuard off;
                layer->forward(x.narrow(1, 0, first), true, true);
              }};
}

/// An epoch of batches of 64 from 60,000 images in memory, shuffled and normalised.
Work mnist_batches() {
  const int64_t count = 60000, batch = 64;
  const auto images = randint(256, {count, 28, 28}).to(kUInt8);
  auto set = data::datasets::MNIST(images, randint(10, {count}).to(kUInt8))
                 .map(data::transforms::Normalize<>(0.1307, 0.3081))
                 .map(data::transforms::Stack<>());
  auto loader = std::shared_ptr(data::make_data_loader(
      std::move(set), data::DataLoaderOptions().batch_size(static_cast<size_t>(batch))));
  return {.once =
              [loader] {
                int64_t seen = 0;
                for (const auto& b : *loader) seen += b.data.size(0);
              },
          .steps = (count + batch - 1) / batch};
}

}  // namespace

void add_training_cases(Cases& cases) {
  cases.push_back({"train/two_layer", two_layer});
  cases.push_back({"train/mnist_cnn", mnist_cnn});
  cases.push_back({"train/resnet18", resnet18});
  cases.push_back({"train/gpt2_124m", gpt2});
  cases.push_back({"decode/gpt2_124m", [] { return decode(false); }});
  cases.push_back({"decode/gpt2_124m_at_256", [] { return decode(true); }});
  cases.push_back({"recompute/gpt2_124m_256", recompute});
  cases.push_back({"cached_attention/512x8_at_256", [] { return cached_attention(true); }});
  cases.push_back({"cached_attention/512x8_recompute_256", [] { return cached_attention(false); }});
  cases.push_back({"loader/mnist_batch", mnist_batches});
}

}  // namespace pellucid::bench
