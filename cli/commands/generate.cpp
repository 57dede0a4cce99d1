// pellucid generate: text from a language model as it is made, how fast it came, and what the cache
// of keys and values gained.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/language/text_model.h"
#include "cli/language/utf8_stream.h"
#include "cli/text.h"
#include "cli/timing.h"
#include "cli/values.h"
#include "pellucid/autograd.h"
#include "pellucid/creation.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

struct GenerateFlags {
  std::string model, prompt;
  int64_t tokens = 200, top_k = 0;
  double temperature = 0.8, top_p = 1;
  uint64_t seed = 1;
  bool no_cache = false, json = false;
};

void read_options(const Args& args, GenerateFlags& o) {
  CommandLine line(args);
  line.add_option("--model", o.model, "A folder: what `train gpt` wrote, or a model of llama2.c")
      ->type_name("DIR")
      ->required();
  line.add_option("--prompt", o.prompt, "How the text begins")->type_name("TEXT");
  line.add_option("--tokens", o.tokens, "Generate at most this many tokens")
      ->type_name("N")
      ->check(at_least(1))
      ->capture_default_str();
  line.add_option("--temperature", o.temperature,
                  "Below 1, likely tokens become likelier; 0 always takes the likeliest")
      ->type_name("T")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--top-k", o.top_k, "Draw from the K likeliest tokens only; 0 for all")
      ->type_name("K")
      ->check(at_least(0))
      ->capture_default_str();
  line.add_option("--top-p", o.top_p,
                  "Draw from the likeliest tokens whose probabilities together reach P")
      ->type_name("P")
      ->check(in_range(0, 1, true))
      ->capture_default_str();
  line.add_option("--seed", o.seed, "Seed of the random choices")
      ->type_name("N")
      ->capture_default_str();
  line.add_flag("--no-cache", o.no_cache, "Recompute all positions for each token");
  line.add_json(o.json);
  line.read();
}

Tensor as_tokens(const std::vector<int64_t>& ids, size_t first, size_t last) {
  const auto at = [&](size_t i) { return ids.begin() + static_cast<std::ptrdiff_t>(i); };
  return tensor(std::vector<int64_t>(at(first), at(last))).unsqueeze(0);
}

// What one more token costs at the end of `ids`, with the cache and without.
struct CacheGain {
  size_t position;
  double with_cache, without;  // seconds
};

std::optional<CacheGain> measure_gain(models::LanguageModel& model,
                                      const std::vector<int64_t>& ids) {
  constexpr size_t kSteps = 8;
  constexpr int kRepeats = 5;
  const size_t end = std::min(ids.size(), static_cast<size_t>(model.max_positions()));
  if (end <= kSteps) return std::nullopt;
  const NoGradGuard off;
  std::vector<double> with, without;
  model.clear_cache();
  model.logits(as_tokens(ids, 0, end - kSteps), true, true);
  for (size_t i = end - kSteps; i < end; ++i)
    with.push_back(seconds_of([&] { model.logits(as_tokens(ids, i, i + 1), true, true); }));
  model.clear_cache();
  for (int i = 0; i < kRepeats; ++i)
    without.push_back(seconds_of([&] { model.logits(as_tokens(ids, 0, end), false, true); }));
  return CacheGain{end, median(with), median(without)};
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The text while it is made, and when each token came.
struct Generated {
  std::vector<int64_t> ids;
  size_t prompt;  // how many of them
  std::string text;
  double first = 0, rest = 0;  // seconds until the first new token, and for the others

  size_t added() const { return ids.size() - prompt; }
  double tokens_per_second() const {
    return added() > 1 ? static_cast<double>(added() - 1) / rest : 1 / first;
  }
};

Generated generate_text(const TextModel& m, const GenerateFlags& o, std::vector<int64_t> prompt,
                        const std::function<void(const std::string&)>& show) {
  Generated g{.ids = {}, .prompt = prompt.size(), .text = {}};
  Utf8Stream whole;
  const auto add = [&](const std::string& text) {
    g.text += text;
    show(text);
  };
  int64_t previous = -1;
  for (const int64_t id : prompt) {
    if (!o.prompt.empty()) add(whole.add(m.piece(previous, id)));
    previous = id;
  }
  const double begun = now_seconds();
  double first = 0;
  bool over = false;
  g.ids = models::generate(*m.model, std::move(prompt),
                           models::GenerateOptions()
                               .tokens(o.tokens)
                               .temperature(o.temperature)
                               .top_k(o.top_k)
                               .top_p(o.top_p)
                               .use_cache(!o.no_cache)
                               .on_token([&](int64_t id) {
                                 if (first == 0) first = now_seconds();
                                 over = std::find(m.ends.begin(), m.ends.end(), id) != m.ends.end();
                                 if (!over)
                                   add(whole.add(m.piece(std::exchange(previous, id), id)));
                                 return !over;
                               }));
  g.rest = now_seconds() - first;
  g.first = first - begun;
  add(whole.finish());
  if (over) g.ids.pop_back();
  return g;
}

std::string report(const TextModel& m, const GenerateFlags& o, const Generated& g,
                   const std::optional<CacheGain>& gain) {
  std::string text = fmt::format("{}\n", m.description);
  text += fmt::format("{} prompt token{} read in {}; {} token{} at {:.0f} tokens/s {} the cache\n",
                      g.prompt, g.prompt == 1 ? "" : "s", format_seconds(g.first), g.added(),
                      g.added() == 1 ? "" : "s", g.tokens_per_second(),
                      o.no_cache ? "without" : "with");
  if (gain)
    text += fmt::format("a token at position {}: {} with the cache, {} without: {:.1f}x\n",
                        gain->position, format_seconds(gain->with_cache),
                        format_seconds(gain->without), gain->without / gain->with_cache);
  if (g.ids.size() > static_cast<size_t>(m.model->max_positions()))
    text += fmt::format("after {} positions the oldest tokens were left out, without the cache\n",
                        m.model->max_positions());
  return text;
}

int run_generate(const Args& args) {
  GenerateFlags o;
  read_options(args, o);
  const TextModel m = load_text_model(o.model);
  const std::vector<int64_t> prompt = m.encode(o.prompt);
  PELLUCID_CHECK(static_cast<int64_t>(prompt.size()) <= m.model->max_positions(), ValueError,
                 "the prompt has {} tokens, but the model knows {} positions.", prompt.size(),
                 m.model->max_positions());
  manual_seed(o.seed);
  const Generated g = generate_text(m, o, prompt, [&](const std::string& text) {
    if (o.json || text.empty()) return;
    fmt::print(args.out, "{}", text);
    std::fflush(args.out);
  });
  const std::optional<CacheGain> gain = measure_gain(*m.model, g.ids);
  if (!o.json) {
    fmt::print(args.out, "\n");
    std::fflush(args.out);
    fmt::print(args.err, "{}", report(m, o, g, gain));
    return 0;
  }
  Json j = {{"model", m.description},
            {"prompt", o.prompt},
            {"text", g.text},
            {"ids", g.ids},
            {"prompt_tokens", g.prompt},
            {"tokens", g.added()},
            {"seconds_to_first_token", g.first},
            {"tokens_per_second", g.tokens_per_second()},
            {"cache", !o.no_cache}};
  j["gain"] = gain ? Json{{"position", gain->position},
                          {"seconds_with_cache", gain->with_cache},
                          {"seconds_without_cache", gain->without},
                          {"ratio", gain->without / gain->with_cache}}
                   : Json(nullptr);
  fmt::print(args.out, "{}", json_text(j));
  return 0;
}

}  // namespace

const Command kGenerate{
    .name = "generate",
    .summary = "Write text with a language model",
    .description =
        "Reads a model that `pellucid train gpt` wrote, or one in llama2.c's format, and writes "
        "text that continues the prompt, each token as soon as it is made. Then it reports, on "
        "standard error, the tokens per second and what a token takes with the cache of keys and "
        "values and without, both measured at the last position.",
    .examples =
        "pellucid generate --model runs/gpt --prompt 'Call me'\n"
        "pellucid generate --model runs/gpt --prompt 'The whale' --temperature 0 --tokens 100\n"
        "pellucid generate --model stories260K --prompt 'Once upon a time' --top-p 0.9 --seed 7\n"
        "pellucid generate --model runs/gpt --no-cache --json",
    .run = run_generate};

}  // namespace pellucid::cli
