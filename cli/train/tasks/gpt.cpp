// A small GPT that learns to continue a text: by characters, or by GPT-2's byte pairs.
#include <fmt/format.h>

#include <cmath>

#include "cli/data/line_stream.h"
#include "cli/data/package.h"
#include "cli/language/text_model.h"
#include "cli/language/utf8_stream.h"
#include "cli/train/signals.h"
#include "cli/train/task.h"
#include "cli/train/texts.h"
#include "pellucid/models.h"
#include "pellucid/ops.h"

namespace pellucid::cli::train {
namespace {

using data::datasets::TextDataset;

constexpr double kTrainShare = 0.9;  // the rest of the text is the test
constexpr size_t kTextTestBatch = 32;

class GptTask final : public Task {
 public:
  void add_options(CommandLine& line) override {
    const auto size = [&](const char* name, int64_t& value, const char* what) {
      line.add_option(name, value, what)
          ->type_name("N")
          ->check(in_range(1, 1 << 20))
          ->capture_default_str();
    };
    line.add_option("--text", text_.file, "The text to learn; without it, Moby-Dick")
        ->type_name("FILE");
    line.add_option("--tokenizer", tokenizer_name_, "characters, or gpt2 for its byte pairs")
        ->type_name("NAME")
        ->check(one_of({"characters", "gpt2"}))
        ->capture_default_str();
    size("--layers", options_.n_layer(), "Blocks of attention and feed-forward");
    size("--heads", options_.n_head(), "Heads of an attention");
    size("--width", options_.n_embd(), "Features of a position");
    size("--context", options_.block_size(), "Positions that the model sees");
    line.add_option("--dropout", options_.dropout(), "Share of features dropped")
        ->type_name("SHARE")
        ->check(in_range(0.0, 0.9))
        ->capture_default_str();
    size("--sample", sample_, "Tokens of the sample at the end");
  }
  NamedValues settings() const override {
    return {{"text", text_.setting()},      {"tokenizer", tokenizer_name_},
            {"layers", options_.n_layer()}, {"heads", options_.n_head()},
            {"width", options_.n_embd()},   {"context", options_.block_size()},
            {"dropout", options_.dropout()}};
  }

  std::vector<std::string> files() const override { return text_model_files(); }
  std::vector<std::string> inputs() const override { return {text_.file}; }

  void prepare(const TrainOptions& o, const Say& say) override {
    const std::string text = read_training_text(text_.file, o, say);
    if (tokenizer_name_ == "gpt2") {
      LineStream said(say);
      vocabulary_ = find_or_fetch(kGpt2Data, "", said);
      tokenizer_ = std::make_unique<data::Gpt2Tokenizer>(data::Gpt2Tokenizer::from_files(
          vocabulary_ + "/vocab.json", vocabulary_ + "/merges.txt"));
    } else {
      tokenizer_ = std::make_unique<data::CharVocabulary>(text);
    }
    const Tensor ids = tokenizer_->encode_tensor(text);
    const int64_t length = options_.block_size();
    const auto kept = static_cast<int64_t>(kTrainShare * static_cast<double>(ids.numel()));
    PELLUCID_CHECK(
        kept > length && ids.numel() - kept > length, ValueError,
        "train gpt: the text has {} tokens, of which a tenth is kept for testing; windows "
        "of {} need at least {}. Give a longer text or a smaller --context.",
        ids.numel(), length, 10 * (length + 2));
    train_.emplace(ids.narrow(0, 0, kept), length, length);
    test_.emplace(ids.narrow(0, kept, ids.numel() - kept), length, length);
    options_.vocab_size(static_cast<int64_t>(tokenizer_->vocab_size()));
    model_ = models::GPT(options_);
    int64_t parameters = 0;
    for (const Tensor& p : model_->parameters()) parameters += p.numel();
    say(fmt::format("{} tokens of {} kinds; GPT with {} parameters", ids.numel(),
                    options_.vocab_size(), parameters));
  }
  nn::Module& model() override { return *model_; }
  std::unique_ptr<Batches> batches(const TrainOptions& o) override {
    return make_batches(TextDataset(*train_).map(data::transforms::Stack<>()), o,
                        /*drop_last=*/true);
  }
  Tensor loss(const data::Example<>& batch) override {
    return cross_entropy_loss(model_->forward(batch.data).flatten(0, 1), batch.target.flatten());
  }

  Evaluation evaluate() override {
    auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
        TextDataset(*test_).map(data::transforms::Stack<>()), kTextTestBatch);
    double sum = 0;
    int64_t right = 0, total = 0;
    for (const data::Example<>& batch : *loader) {
      stop_if_asked();
      const Tensor scores = model_->forward(batch.data).flatten(0, 1);
      const Tensor target = batch.target.flatten();
      sum +=
          cross_entropy_loss(scores, target).item<double>() * static_cast<double>(target.numel());
      right += scores.argmax(1).eq(target).sum().item<int64_t>();
      total += target.numel();
    }
    const double loss = sum / static_cast<double>(total);
    const double accuracy = static_cast<double>(right) / static_cast<double>(total);
    return {fmt::format("Test text: Average loss: {:.4f}, Perplexity: {:.2f}, Accuracy of the next "
                        "token: {}/{} ({:.2f}%)",
                        loss, std::exp(loss), right, total, 100 * accuracy),
            {{"test_loss", loss}, {"test_accuracy", accuracy}}};
  }

  std::string finish(const TrainOptions& o) override {
    save_text_config(o.out, options_, *tokenizer_, vocabulary_);
    const TextModel m = load_text_model(o.out);
    Utf8Stream whole;
    std::string text;
    manual_seed(o.seed);
    models::generate(*m.model, m.start,
                     models::GenerateOptions().tokens(sample_).temperature(0.8).on_token(
                         [&](int64_t id) { return text += whole.add(m.piece(-1, id)), true; }));
    return fmt::format("A sample:\n{}{}\n\nMore: pellucid generate --model {} --prompt …", text,
                       whole.finish(), o.out);
  }

  std::string epoch_title(int64_t, int64_t) const override { return ""; }
  std::string progress_line(const StepReport& r) const override {
    return fmt::format("Batch {}, Loss: {:.4f}", r.batch + 1, r.loss);
  }
  std::string epoch_summary(double average_loss) const override {
    return fmt::format("Epoch completed. Average loss: {:.4f}", average_loss);
  }

 private:
  TextName text_;
  std::string tokenizer_name_ = "characters", vocabulary_;
  int64_t sample_ = 400;
  models::GPTOptions options_ =
      models::GPTOptions().block_size(128).n_layer(4).n_head(4).n_embd(128);
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::optional<TextDataset> train_, test_;
  models::GPT model_{nullptr};
};

}  // namespace

const TaskInfo kGpt{
    .name = "gpt",
    .summary = "A small GPT that learns to continue a text",
    .description =
        "Trains a GPT (4 blocks, 128 features, 128 positions by default) to predict the next token "
        "of a text: of FILE, or of Moby-Dick, fetched as by `pellucid data text`. The last tenth "
        "of the text is the test. At the end a sample is written; the run's folder is a model for "
        "`pellucid generate`.",
    .examples =
        "pellucid train gpt\n"
        "pellucid train gpt --text notes.txt --epochs 5 --out runs/notes\n"
        "pellucid train gpt --layers 6 --heads 6 --width 384 --context 256 --dropout 0.2\n"
        "pellucid train gpt --tokenizer gpt2 --context 64",
    .defaults = {.batch_size = 12,
                 .lr = 2e-3,
                 .optimizer = "adamw",
                 .weight_decay = 0.1,
                 .clip_norm = 1,
                 .schedule = "cosine",
                 .warmup = 50,
                 .epochs = 4,
                 .log_interval = 10},
    .make = make_task<GptTask>};

}  // namespace pellucid::cli::train
