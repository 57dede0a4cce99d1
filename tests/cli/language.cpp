// Folders of language models, and bytes that arrive in pieces.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cli/language/text_model.h"
#include "cli/language/utf8_stream.h"
#include "pellucid/io/safetensors.h"
#include "pellucid/pellucid.h"
#include "shared_data.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::cli;
using test::TemporaryFolder;

namespace {

const models::GPTOptions kSmall =
    models::GPTOptions().vocab_size(5).block_size(16).n_layer(2).n_head(2).n_embd(8);

// A model of five characters in the folder, as `train gpt` leaves it.
models::GPT save_small(const TemporaryFolder& folder) {
  manual_seed(3);
  models::GPT gpt(kSmall);
  io::save_safetensors(folder / "model.safetensors", io::named_tensors(gpt->state_dict()));
  save_text_config(folder.path(), kSmall, data::CharVocabulary("\nab—c"), "");
  return gpt;
}

}  // namespace

TEST_CASE("text models: what train gpt writes is read again") {
  const TemporaryFolder folder;
  models::GPT gpt = save_small(folder);
  const TextModel m = load_text_model(folder.path());
  CHECK(m.description.starts_with("GPT with "));
  CHECK(m.encode("") == std::vector<int64_t>{0});  // a line's end begins a text
  const std::vector<int64_t> ids = m.encode("ab—");
  CHECK(ids == std::vector<int64_t>{1, 2, 4});
  CHECK(m.piece(1, 4) == "—");
  gpt->eval();
  const NoGradGuard off;
  const Tensor tokens = tensor(ids).unsqueeze(0);
  CHECK(equal(m.model->logits(tokens, false, false), gpt->logits(tokens, false, false)));
  CHECK_THROWS_WITH_AS(m.encode("abz"), doctest::Contains("'z' at byte 2"), ValueError);
}

TEST_CASE("text models: folders that are none") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(load_text_model(folder / "absent"), doctest::Contains("there is no folder"),
                       IoError);
  CHECK_THROWS_WITH_AS(load_text_model(folder.path()), doctest::Contains("holds no model"),
                       IoError);
  save_small(folder);
  const std::string config = test::read_bytes(folder / "config.json");
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(config);
    json[key] = value;
    test::write_bytes(folder / "config.json", json.dump());
  };
  for (const nlohmann::json& bad : {nlohmann::json(0), nlohmann::json(-1), nlohmann::json("2"),
                                    nlohmann::json(1.5), nlohmann::json(int64_t{1} << 60)}) {
    with("n_layer", bad);
    CHECK_THROWS_WITH_AS(load_text_model(folder.path()), doctest::Contains("n_layer must be"),
                         IoError);
  }
  with("model_type", "bert");
  CHECK_THROWS_WITH_AS(load_text_model(folder.path()),
                       doctest::Contains("its model_type is \"bert\""), IoError);
  with("vocab_size", 6);
  CHECK_THROWS_WITH_AS(load_text_model(folder.path()), doctest::Contains("a vocabulary of 5"),
                       IoError);
  with("n_embd", 4);
  CHECK_THROWS_AS(load_text_model(folder.path()), Error);  // the weights do not fit
  test::write_bytes(folder / "config.json", "{");
  CHECK_THROWS_WITH_AS(load_text_model(folder.path()), doctest::Contains("is not valid JSON"),
                       IoError);
  test::write_bytes(folder / "config.json", config);
  test::write_bytes(folder / "model.safetensors", "broken");
  CHECK_THROWS_AS(load_text_model(folder.path()), IoError);
}

TEST_CASE("text models: a model of llama2.c") {
  const auto folder = test::shared_data("stories260K");
  if (!folder) return;
  const TextModel m = load_text_model(*folder);
  CHECK(m.description == "Llama with 260,032 parameters, 512 positions");
  CHECK(m.encode("") == std::vector<int64_t>{1});
  const std::vector<int64_t> ids = m.encode("Once upon a time");
  std::string text;
  for (size_t i = 1; i < ids.size(); ++i) text += m.piece(ids[i - 1], ids[i]);
  CHECK(text == "Once upon a time");
}

TEST_CASE("utf-8 in pieces: whole characters only") {
  Utf8Stream s;
  CHECK(s.add("a\xE2\x80") == "a");
  CHECK(s.add("\x94z") == "—z");
  CHECK(s.add("\xF0\x9F") == "");
  CHECK(s.add("\x90\xB3") == "\xF0\x9F\x90\xB3");
  CHECK(s.finish() == "");
  CHECK(s.add("\x80") == "\uFFFD");    // the middle of nothing
  CHECK(s.add("\xE2q") == "\uFFFDq");  // begun, then another character
  CHECK(s.add("\xFF\xC0") == "\uFFFD\uFFFD");
  CHECK(s.add("\xE2\x80") == "");
  CHECK(s.finish() == "\uFFFD");
  CHECK(s.finish() == "");
}
