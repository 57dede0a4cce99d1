// Reading and writing the folders of language models.
#include "cli/language/text_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "cli/text.h"
#include "data/files.h"
#include "pellucid/io/safetensors.h"
#include "pellucid/models/llama.h"

namespace pellucid::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kCharacters = "characters.txt";
constexpr const char* kVocabulary = "vocab.json";
constexpr const char* kMerges = "merges.txt";
constexpr const char* kModelType = "pellucid-gpt";
constexpr const char* kCheckpoint = "checkpoint.pellucid";

std::string path_in(const std::string& folder, std::string_view name) {
  return fmt::format("{}/{}", folder, name);
}

std::string describe_model(std::string_view kind, const nn::Module& m, int64_t positions) {
  int64_t parameters = 0;
  for (const Tensor& p : m.parameters()) parameters += p.numel();
  return fmt::format("{} with {} parameters, {} positions", kind, group_digits(parameters),
                     positions);
}

// ---- what train gpt writes

models::GPTOptions read_config(const std::string& path) {
  Json json;
  try {
    json = Json::parse(data::read_file("generate", path));
  } catch (const Json::exception& e) {
    pellucid::detail::raise<IoError>("generate: {} is not valid JSON: {}.", path, e.what());
  }
  const std::string type = json.is_object() ? json.value("model_type", Json()).dump() : "";
  PELLUCID_CHECK(type == fmt::format("\"{}\"", kModelType), IoError,
                 "generate: {} describes no model of `pellucid train gpt`: its model_type is {}, "
                 "not \"{}\".",
                 path, type.empty() ? "missing" : type, kModelType);
  const auto size = [&](const char* key, int64_t most) {
    const Json value = json.value(key, Json());
    const int64_t n = value.is_number_integer() ? value.get<int64_t>() : 0;
    PELLUCID_CHECK(n >= 1 && n <= most, IoError,
                   "generate: {}: {} must be a whole number from 1 to {}, found {}.", path, key,
                   most, value.dump());
    return n;
  };
  models::GPTOptions o;
  o.vocab_size(size("vocab_size", 1 << 24)).block_size(size("block_size", 1 << 24));
  o.n_layer(size("n_layer", 1 << 10)).n_head(size("n_head", 1 << 10));
  return o.n_embd(size("n_embd", 1 << 16)).bias(json.value("bias", true));
}

// The sizes come from one file and the weights from another: memory for a model is taken only where
// the weights fill it.
void check_size(const models::GPTOptions& o, const io::SafeTensors& weights,
                const std::string& folder) {
  double there = 0;
  for (const auto& [name, tensor] : weights.tensors) there += static_cast<double>(tensor.numel());
  const auto width = static_cast<double>(o.n_embd());
  const double wanted = width * static_cast<double>(o.vocab_size() + o.block_size()) +
                        static_cast<double>(o.n_layer()) * 12 * width * width;
  PELLUCID_CHECK(wanted <= there, IoError,
                 "generate: {}: config.json describes a model of at least {:.0f} parameters, but "
                 "{} holds {:.0f} numbers.",
                 folder, wanted, kWeights, there);
}

TextModel load_gpt(const std::string& folder) {
  const models::GPTOptions options = read_config(path_in(folder, kConfig));
  TextModel m;
  if (fs::exists(path_in(folder, kCharacters))) {
    const std::string characters = data::read_file("generate", path_in(folder, kCharacters));
    PELLUCID_CHECK(!characters.empty(), IoError, "generate: {} is empty.",
                   path_in(folder, kCharacters));
    m.tokenizer = std::make_shared<data::CharVocabulary>(characters);
    m.start = {characters.find('\n') == std::string::npos ? 0 : m.tokenizer->encode("\n")[0]};
  } else {
    auto pairs = std::make_shared<data::Gpt2Tokenizer>(
        data::Gpt2Tokenizer::from_files(path_in(folder, kVocabulary), path_in(folder, kMerges)));
    const auto end = pairs->id_of("<|endoftext|>");
    m.start = pairs->encode("\n");  // `train gpt` never shows a model the end of a text
    if (end) m.ends = {*end};
    m.tokenizer = std::move(pairs);
  }
  PELLUCID_CHECK(static_cast<int64_t>(m.tokenizer->vocab_size()) == options.vocab_size(), IoError,
                 "generate: {} has a vocabulary of {}, but config.json says {}.", folder,
                 m.tokenizer->vocab_size(), options.vocab_size());
  const io::SafeTensors weights = io::load_safetensors(path_in(folder, kWeights));
  check_size(options, weights, folder);
  models::GPT gpt(options);
  gpt->load_state_dict(io::dict_of<nn::StateDict>(weights.tensors));
  gpt->eval();
  m.description = describe_model("GPT", *gpt, options.block_size());
  m.model = gpt.ptr();
  return m;
}

// ---- llama2.c

struct LlamaFiles {
  std::string model, tokenizer;
};

// The one model and the one tokenizer among the folder's .bin files.
LlamaFiles find_llama(const std::string& folder) {
  LlamaFiles files;
  int models = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".bin") continue;
    if (entry.path().filename().string().starts_with("tok")) {
      files.tokenizer = entry.path().string();
    } else {
      files.model = entry.path().string();
      ++models;
    }
  }
  PELLUCID_CHECK(models <= 1, IoError, "generate: {} holds {} models (*.bin); leave one.", folder,
                 models);
  PELLUCID_CHECK(models == 1 && !files.tokenizer.empty(), IoError,
                 "generate: {} holds no model: neither {} as `pellucid train gpt` writes it, nor a "
                 "model of llama2.c (NAME.bin and tok….bin).",
                 folder, kConfig);
  return files;
}

TextModel load_llama(const std::string& folder) {
  const LlamaFiles files = find_llama(folder);
  models::Llama llama = models::load_llama2c(files.model);
  llama->eval();
  TextModel m;
  m.tokenizer = std::make_shared<data::LlamaTokenizer>(
      files.tokenizer, static_cast<size_t>(llama->options.vocab_size()));
  m.start = {data::LlamaTokenizer::kBos};
  m.ends = {data::LlamaTokenizer::kBos, data::LlamaTokenizer::kEos};
  m.description = describe_model("Llama", *llama, llama->options.max_seq_len());
  m.model = llama.ptr();
  return m;
}

void write_file(const std::string& path, std::string_view bytes) {
  io::AtomicFile file("train", path);
  file.write(bytes);
  file.commit();
}

}  // namespace

std::vector<int64_t> TextModel::encode(const std::string& prompt) const {
  return prompt.empty() ? start : tokenizer->encode(prompt);
}

std::string TextModel::piece(int64_t previous, int64_t id) const {
  if (const auto* llama = dynamic_cast<const data::LlamaTokenizer*>(tokenizer.get()))
    return llama->piece(previous, id);
  return tokenizer->decode(id);
}

TextModel load_text_model(const std::string& folder) {
  PELLUCID_CHECK(!fs::is_regular_file(folder), IoError,
                 "generate: {} is a file; give the folder that holds the model.", folder);
  PELLUCID_CHECK(fs::is_directory(folder), IoError, "generate: there is no folder {}.", folder);
  if (fs::exists(path_in(folder, kConfig))) return load_gpt(folder);
  PELLUCID_CHECK(
      !fs::exists(path_in(folder, kCheckpoint)), IoError,
      "generate: {0} holds a run of `pellucid train`, but no language model: a run of "
      "gpt that is not finished (continue with: pellucid train gpt --resume --out {0}), or "
      "one of another task.",
      folder);
  return load_llama(folder);
}

std::vector<std::string> text_model_files() { return {kConfig, kCharacters, kVocabulary, kMerges}; }

void save_text_config(const std::string& folder, const models::GPTOptions& o,
                      const data::Tokenizer& tokenizer, const std::string& vocabulary) {
  const Json config = {
      {"model_type", kModelType}, {"vocab_size", o.vocab_size()}, {"block_size", o.block_size()},
      {"n_layer", o.n_layer()},   {"n_head", o.n_head()},         {"n_embd", o.n_embd()},
      {"bias", o.bias()}};
  write_file(path_in(folder, kConfig), config.dump(2) + "\n");
  if (const auto* characters = dynamic_cast<const data::CharVocabulary*>(&tokenizer)) {
    write_file(path_in(folder, kCharacters), characters->characters());
    return;
  }
  for (const char* name : {kVocabulary, kMerges})
    write_file(path_in(folder, name), data::read_file("train", path_in(vocabulary, name)));
}

}  // namespace pellucid::cli
