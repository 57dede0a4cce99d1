// A transformer encoder that tells speech from narration: whether a passage of a novel stood
// between quotation marks, from its words alone.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "cli/train/classification.h"
#include "cli/train/task.h"
#include "cli/train/texts.h"
#include "pellucid/models.h"
#include "pellucid/operators.h"

namespace pellucid::cli::train {
namespace {

using data::datasets::PairDataset;

constexpr size_t kLeastWords = 8, kMostWords = 24;
constexpr size_t kTestOf = 10;  // every tenth paragraph is kept for testing
constexpr int kLeastOften = 3;  // rarer words are all the same to the model
constexpr int64_t kPadding = 0, kUnknown = 1;
constexpr size_t kEncoderTestBatch = 256;

/// As many spoken as narrated passages: of the larger class, some are left out, evenly spread.
std::vector<Passage> balanced(const std::vector<Passage>& all) {
  const auto spoken = static_cast<size_t>(
      std::count_if(all.begin(), all.end(), [](const Passage& p) { return p.spoken; }));
  const size_t count[2] = {all.size() - spoken, spoken}, least = std::min(count[0], count[1]);
  std::vector<Passage> kept;
  size_t seen[2] = {0, 0};
  for (const Passage& p : all) {
    size_t& i = seen[p.spoken];
    if ((i + 1) * least / count[p.spoken] > i * least / count[p.spoken]) kept.push_back(p);
    ++i;
  }
  return kept;
}

class EncoderTask final : public Task {
 public:
  void add_options(CommandLine& line) override {
    line.add_option("--text", text_.file, "A text with quotation marks; without it, Moby-Dick")
        ->type_name("FILE");
    line.add_option("--word-dropout", word_dropout_,
                    "Share of the words that are hidden from the model while it learns")
        ->type_name("SHARE")
        ->check(in_range(0.0, 0.9))
        ->capture_default_str();
  }
  NamedValues settings() const override {
    return {{"text", text_.setting()}, {"word-dropout", word_dropout_}};
  }

  std::vector<std::string> inputs() const override { return {text_.file}; }

  void prepare(const TrainOptions& o, const Say& say) override {
    const std::string text = read_training_text(text_.file, o, say);
    std::vector<Passage> train, test;
    for (Passage& p : passages(text, kLeastWords, kMostWords))
      (p.paragraph % kTestOf == kTestOf - 1 ? test : train).push_back(std::move(p));
    train = balanced(train);
    test = balanced(test);
    PELLUCID_CHECK(!train.empty() && !test.empty(), ValueError,
                   "train encoder: the text has too few passages of {} words inside and outside "
                   "quotation marks (“…” or \"…\").",
                   kLeastWords);
    number_words(train);
    train_.emplace(as_data(train));
    test_.emplace(as_data(test));
    const int64_t words = static_cast<int64_t>(ids_.size()) + 2;
    say(fmt::format("{} passages to learn from, {} to test on, half of them spoken; {} words",
                    train.size(), test.size(), words));
    model_ = models::EncoderClassifier(models::EncoderClassifierOptions(words, 2)
                                           .d_model(64)
                                           .dim_feedforward(128)
                                           .max_len(kMostWords)
                                           .dropout(0.3));
  }
  nn::Module& model() override { return *model_; }
  std::unique_ptr<Batches> batches(const TrainOptions& o) override {
    return make_batches(PairDataset(*train_).map(data::transforms::Stack<>()), o);
  }
  Tensor loss(const data::Example<>& batch) override {
    // Without this, passages are learned by heart: there are few of them.
    const Tensor hidden = rand(batch.data.sizes()).lt(word_dropout_) & batch.data.ne(kPadding);
    return cross_entropy_loss(scores(batch.data.masked_fill(hidden, kUnknown)), batch.target);
  }
  Evaluation evaluate() override {
    return test_classifier(PairDataset(*test_).map(data::transforms::Stack<>()), kEncoderTestBatch,
                           [&](const Tensor& x) { return scores(x); });
  }

 private:
  Tensor scores(const Tensor& tokens) { return model_->forward(tokens, tokens.eq(kPadding)); }

  void number_words(const std::vector<Passage>& train) {
    std::map<std::string, int> counts;
    for (const Passage& p : train)
      for (const std::string& word : p.words) ++counts[word];
    for (const auto& [word, count] : counts)
      if (count >= kLeastOften) ids_.emplace(word, static_cast<int64_t>(ids_.size()) + 2);
  }

  PairDataset as_data(const std::vector<Passage>& all) const {
    const auto n = static_cast<int64_t>(all.size());
    const auto width = static_cast<int64_t>(kMostWords);
    const Tensor tokens = full({n, width}, kPadding, kInt64), labels = empty({n}, kInt64);
    for (int64_t i = 0; i < n; ++i) {
      const Passage& p = all[static_cast<size_t>(i)];
      int64_t* row = tokens.raw<int64_t>() + i * width;
      for (const std::string& word : p.words) {
        const auto found = ids_.find(word);
        *row++ = found == ids_.end() ? kUnknown : found->second;
      }
      labels.raw<int64_t>()[i] = p.spoken;
    }
    return PairDataset(tokens, labels);
  }

  TextName text_;
  double word_dropout_ = 0.3;
  std::unordered_map<std::string, int64_t> ids_;
  std::optional<PairDataset> train_, test_;
  models::EncoderClassifier model_{nullptr};
};

}  // namespace

const TaskInfo kEncoder{
    .name = "encoder",
    .summary = "A transformer encoder that tells speech from narration",
    .description =
        "Trains an encoder classifier (2 layers, 64 features) to say whether a passage of 8 to 24 "
        "words stood between quotation marks in a novel: of FILE, or of Moby-Dick, fetched as by "
        "`pellucid data text`. Both classes are equally frequent, so guessing gives 50 %. "
        "Every tenth paragraph is the test.",
    .examples =
        "pellucid train encoder\n"
        "pellucid train encoder --text novel.txt --epochs 20",
    .defaults = {.batch_size = 64,
                 .lr = 1e-3,
                 .optimizer = "adamw",
                 .weight_decay = 0.05,
                 .clip_norm = 1,
                 .schedule = "cosine",
                 .warmup = 50,
                 .epochs = 4,
                 .log_interval = 20},
    .first_batch = 0,
    .make = make_task<EncoderTask>};

}  // namespace pellucid::cli::train
