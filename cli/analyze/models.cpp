// The built-in models by name and size, their inputs and losses.
#include "pellucid/models.h"

#include <charconv>

#include "cli/analyze/spec.h"
#include "cli/app.h"
#include "cli/text.h"
#include "pellucid/ops.h"

namespace pellucid::cli {
namespace {

Tensor squared_mean(const Tensor& y) { return y.square().mean(); }
Tensor class_loss(const Tensor& logits) {
  return cross_entropy_loss(logits, zeros({logits.size(0)}, kInt64));
}
Tensor log_probability_loss(const Tensor& y) { return nll_loss(y, zeros({y.size(0)}, kInt64)); }
Tensor token_loss(const Tensor& logits) {
  return class_loss(logits.reshape({-1, logits.size(-1)}));
}

struct Named {
  std::string name;
  MadeModel (*make)(int64_t sequence);
};

MadeModel image(nn::AnyModule module, std::vector<int64_t> sample, LossFunction loss) {
  return {.module = std::move(module), .sample = std::move(sample), .loss = std::move(loss)};
}

MadeModel gpt(int64_t layers, int64_t heads, int64_t width, int64_t length, int64_t sequence) {
  const auto options = models::GPTOptions().n_layer(layers).n_head(heads).n_embd(width).block_size(
      std::max(length, sequence));
  return {.module = nn::AnyModule(models::GPT(options)),
          .sample = {sequence > 0 ? sequence : length},
          .vocabulary = options.vocab_size(),
          .loss = token_loss};
}

struct LlamaSize {
  int64_t dim, hidden, layers, heads, kv_heads, length;
};

MadeModel llama(const LlamaSize& s, int64_t sequence) {
  const auto options = models::LlamaOptions()
                           .dim(s.dim)
                           .hidden_dim(s.hidden)
                           .n_layers(s.layers)
                           .n_heads(s.heads)
                           .n_kv_heads(s.kv_heads)
                           .max_seq_len(std::max(s.length, sequence))
                           .tied(s.dim < 1024);
  return {.module = nn::AnyModule(models::Llama(options)),
          .sample = {sequence > 0 ? sequence : s.length},
          .vocabulary = options.vocab_size(),
          .loss = token_loss};
}

const std::vector<Named>& named_models() {
  using nn::AnyModule;
  static const std::vector<Named> kModels = {
      {"mlp",
       [](int64_t) {
         return image(AnyModule(models::mlp({1000, 100, 10})), {1000}, squared_mean);
       }},
      {"mnist-cnn",
       [](int64_t) {
         return image(AnyModule(models::MnistCnn()), {1, 28, 28}, log_probability_loss);
       }},
      {"resnet18",
       [](int64_t) {
         return image(AnyModule(models::resnet18()), {3, 224, 224}, class_loss);
       }},
      {"resnet34",
       [](int64_t) {
         return image(AnyModule(models::resnet34()), {3, 224, 224}, class_loss);
       }},
      {"gpt2", [](int64_t t) { return gpt(12, 12, 768, 1024, t); }},
      {"gpt2-medium", [](int64_t t) { return gpt(24, 16, 1024, 1024, t); }},
      {"gpt2-large", [](int64_t t) { return gpt(36, 20, 1280, 1024, t); }},
      {"gpt2-xl", [](int64_t t) { return gpt(48, 25, 1600, 1024, t); }},
      {"gpt3-13b", [](int64_t t) { return gpt(40, 40, 5120, 2048, t); }},
      {"gpt3-175b", [](int64_t t) { return gpt(96, 96, 12288, 2048, t); }},
      {"llama-15m",
       [](int64_t t) {
         return llama({288, 768, 6, 6, 6, 256}, t);
       }},
      {"llama-7b",
       [](int64_t t) {
         return llama({4096, 11008, 32, 32, 32, 2048}, t);
       }},
      {"llama-13b",
       [](int64_t t) {
         return llama({5120, 13824, 40, 40, 40, 2048}, t);
       }},
      {"llama-70b", [](int64_t t) {
         return llama({8192, 28672, 80, 64, 8, 4096}, t);
       }}};
  return kModels;
}

// A spec whose first layer tells the sizes of its input needs none.
std::vector<int64_t> sample_of(const nn::Module& module) {
  if (const auto* linear = module.as<nn::Linear>()) return {linear->options.in_features()};
  if (module.as<nn::Sequential>() && !module.named_children().is_empty())
    return sample_of(*module.named_children().front().value());
  return {};
}

int64_t vocabulary_of(const nn::Module& module) {
  if (const auto* embedding = module.as<nn::Embedding>())
    return embedding->options.num_embeddings();
  if (module.as<nn::Sequential>() && !module.named_children().is_empty())
    return vocabulary_of(*module.named_children().front().value());
  return 0;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> out;
  for (const Named& m : named_models()) out.push_back(m.name);
  return out;
}

MadeModel make_model(const std::string& spec, int64_t sequence) {
  for (const Named& m : named_models())
    if (m.name == spec) {
      MadeModel made = m.make(sequence);
      made.name = spec;
      return made;
    }
  if (spec.find('(') == std::string::npos)
    throw UsageError(fmt::format(
        "there is no model '{}' (known are {}, and specs such as 'Sequential(Linear(784,128), "
        "ReLU())'){}",
        spec, fmt::join(model_names(), ", "), did_you_mean(spec, model_names())));
  MadeModel made{.name = spec, .module = parse_module(spec), .loss = squared_mean};
  made.sample = sample_of(*made.module.ptr());
  made.vocabulary = vocabulary_of(*made.module.ptr());
  if (made.vocabulary > 0 && sequence > 0) made.sample = {sequence};
  return made;
}

Tensor make_input(const MadeModel& model, const std::vector<int64_t>& sizes) {
  return model.vocabulary > 0 ? randint(0, model.vocabulary, sizes, kInt64) : randn(sizes);
}

std::vector<int64_t> read_sizes(const std::string& text, std::string_view option) {
  std::vector<int64_t> out;
  for (const char *at = text.data(), *end = at + text.size(); at <= end; ++at) {
    int64_t n = 0;
    const auto [next, error] = std::from_chars(at, end, n);
    if (error != std::errc() || n <= 0 || (next != end && *next != ','))
      throw UsageError(fmt::format("{}: expected sizes such as 64,784, found '{}'", option, text));
    out.push_back(n);
    at = next;
  }
  return out;
}

}  // namespace pellucid::cli
