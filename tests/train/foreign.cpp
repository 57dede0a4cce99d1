// Checkpoints and folders that come from elsewhere: nothing outside the run's folder is written,
// nothing in it that is not the run's own, and no value from a file becomes an option, a path or a
// number of rounds that the user did not ask for.
#include <sys/stat.h>

#include <cmath>
#include <map>

#include "base/cpu.h"
#include "cli/commands/commands.h"
#include "cli/language/text_model.h"
#include "io/fuzz.h"
#include "pellucid/models.h"
#include "pellucid/pellucid.h"
#include "support.h"

using namespace pellucid;
using namespace pellucid::test;

namespace {

struct Outcome {
  int code = 0;
  std::string out, err;
};

/// Runs a command in this process.
Outcome run(const std::vector<std::string>& words) {
  const std::vector<const cli::Command*> commands{&cli::kTrain, &cli::kGenerate};
  const cli::AppInfo app{
      .name = "pellucid", .version = "test", .summary = "", .examples = "", .commands = commands};
  char *out = nullptr, *err = nullptr;
  size_t out_size = 0, err_size = 0;
  std::FILE *out_stream = open_memstream(&out, &out_size),
            *err_stream = open_memstream(&err, &err_size);
  Outcome o;
  o.code = cli::run_app(app, words, out_stream, err_stream);
  std::fclose(out_stream);
  std::fclose(err_stream);
  o.out.assign(out, out_size);
  o.err.assign(err, err_size);
  std::free(out);
  std::free(err);
  return o;
}

std::vector<std::string> little_run(const std::string& out, const std::string& more = "") {
  std::vector<std::string> words = {"train",        "two-layer", "--out",          out,
                                    "--batch-size", "2",         "--steps",        "3",
                                    "--epochs",     "1",         "--log-interval", "100"};
  if (!more.empty()) words.push_back(more);
  return words;
}

/// Every file below the folder with its contents; links are named, not followed.
std::map<std::string, std::string> everything(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& e : std::filesystem::recursive_directory_iterator(folder))
    files[e.path().string()] = e.is_symlink()        ? "-> " + e.path().string()
                               : e.is_regular_file() ? read_bytes(e.path().string())
                                                     : "";
  return files;
}

void change(const std::string& run_folder, const std::string& name, const Value& value) {
  NamedValues values = io::load_values(checkpoint_in(run_folder));
  bool found = false;
  for (NamedValue& v : values)
    if (v.name == name) v.value = value, found = true;
  if (!found) values.push_back({name, value});
  io::save_values(checkpoint_in(run_folder), values);
}

}  // namespace

TEST_CASE("train: names from a checkpoint do not lead out of the run") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  REQUIRE(run(little_run(out)).code == 0);
  write_bytes(folder / "victim", "precious");
  const std::string good = read_bytes(checkpoint_in(out));
  std::filesystem::create_symlink("../victim", out + "/events.out.tfevents.link");
  for (const std::string& name :
       {std::string("../victim"), folder / "victim", std::string(".."), std::string(""),
        std::string("metrics.jsonl"), std::string("events.out.tfevents.link"),
        std::string("events.out.tfevents./../../victim"),
        std::string("events.out.tfevents.\0/x", 23), std::string("events.out.tfevents.absent")}) {
    write_bytes(checkpoint_in(out), good);
    change(out, "progress.log.events", name);
    const auto before = everything(folder.path());
    const Outcome o = run({"train", "two-layer", "--out", out, "--resume", "--epochs", "2"});
    INFO(name << ": " << o.err);
    CHECK(o.code == 1);
    CHECK(everything(folder.path()) == before);
  }
  write_bytes(checkpoint_in(out), good);
  change(out, "progress.log.line_bytes", int64_t{-1});
  CHECK(run({"train", "two-layer", "--out", out, "--resume", "--epochs", "2"}).code == 1);
  CHECK(read_bytes(folder / "victim") == "precious");
}

TEST_CASE("train: files of a run that are links are refused") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  REQUIRE(run(little_run(out)).code == 0);
  write_bytes(folder / "victim", "precious");
  for (const char* name :
       {"metrics.jsonl", "model.safetensors", "loss.svg", "checkpoint.pellucid"}) {
    std::filesystem::rename(out + "/" + name, folder / "kept");
    std::filesystem::create_symlink("../victim", out + "/" + name);
    const Outcome o = run({"train", "two-layer", "--out", out, "--resume", "--epochs", "2"});
    INFO(name << ": " << o.err);
    CHECK(o.code == 1);
    CHECK(o.err.find("is a link") != std::string::npos);
    CHECK(read_bytes(folder / "victim") == "precious");
    std::filesystem::rename(folder / "kept", out + "/" + name);
  }
}

TEST_CASE("train: options in a checkpoint are values of the run's own options") {
  const TemporaryFolder folder;
  const std::string out = folder / "run", elsewhere = folder / "elsewhere";
  REQUIRE(run(little_run(out)).code == 0);
  const std::string good = read_bytes(checkpoint_in(out));
  const auto resumed = [&] {
    return run({"train", "two-layer", "--out", out, "--resume", "--epochs", "2"});
  };
  const std::vector<std::pair<std::string, Value>> injected = {
      {"out", elsewhere},
      {"resume", "true"},
      {"force", "true"},
      {"isa", "baseline"},
      {"json", "true"},
      {"TASK", "mnist"},
      {"help", "true"},
      {"no-such-option", "1"},
      {"lr", "--out"},
      {"lr", "-1"},
      {"data", elsewhere},
      {"log-interval", "0"},
      {"log-interval", Value()},
      {"save-every", Values{"1", "--out", elsewhere}},
      {"epochs", "1 --out " + elsewhere}};
  for (const auto& [name, value] : injected) {
    write_bytes(checkpoint_in(out), good);
    change(out, "progress.options." + name, value);
    const Outcome o = resumed();
    INFO(name << ": " << o.err);

    CHECK(o.code == 1);
    CHECK_FALSE(std::filesystem::exists(elsewhere));
  }
  // Words of a former format are not read.
  write_bytes(checkpoint_in(out), good);
  change(out, "progress.words", Values{"--out", elsewhere});
  CHECK(resumed().code == 0);
  CHECK_FALSE(std::filesystem::exists(elsewhere));
}

TEST_CASE("train: what was given before holds, and what is given now counts") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  std::vector<std::string> words = little_run(out);
  words.insert(words.end(), {"--lr", "1e-5", "--save-every", "2", "--epochs", "2"});
  REQUIRE(run(words).code == 0);
  const Outcome o = run({"train", "two-layer", "--out", out, "--resume", "--epochs", "3"});
  INFO(o.err);
  REQUIRE(o.code == 0);
  const NamedValues options =
      part_of(part_of(io::load_values(checkpoint_in(out)), "progress"), "options");
  CHECK(text_of(options, "lr", "") == "1e-5");
  CHECK(text_of(options, "epochs", "") == "3");
  CHECK(text_of(options, "save-every", "") == "2");
  const Outcome other = run({"train", "two-layer", "--out", out, "--resume", "--lr", "1e-4"});
  CHECK(other.code == 2);
  CHECK(other.err.find("started with 1e-05") != std::string::npos);
}

TEST_CASE("train: a folder with files of other programs is left alone") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  for (const char* name : {"metrics.jsonl", "model.safetensors", "loss.svg", "loss.png"}) {
    std::filesystem::remove_all(out);
    std::filesystem::create_directory(out);
    write_bytes(out + "/" + name, "precious");
    write_bytes(out + "/events.out.tfevents.0.other", "events of another program");
    for (const char* how : {"", "--resume"}) {
      const Outcome o = run(little_run(out, how));
      INFO(name << ": " << o.err);
      CHECK(o.code == 2);
      CHECK(o.err.find(name) != std::string::npos);
      CHECK(o.err.find("--force") != std::string::npos);
      CHECK(read_bytes(out + "/" + name) == "precious");
    }
    const Outcome forced = run(little_run(out, "--force"));
    INFO(forced.err);
    CHECK(forced.code == 0);
    CHECK(read_bytes(out + "/" + name) != "precious");
    CHECK(read_bytes(out + "/events.out.tfevents.0.other") == "events of another program");
  }
  // A run that is there begins anew only where that is asked for.
  CHECK(run(little_run(out)).code == 2);
  CHECK(run(little_run(out, "--force")).code == 0);
  // What a run reads is never what it writes.
  std::filesystem::create_directory(folder / "text");
  write_bytes(folder / "text/characters.txt", std::string(5000, 'a'));
  const Outcome same = run({"train", "gpt", "--text", folder / "text/characters.txt", "--out",
                            folder / "text", "--force"});
  CHECK(same.code == 2);
  CHECK(read_bytes(folder / "text/characters.txt").size() == 5000);
}

TEST_CASE("train: one process at a time in a folder") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  TrainProcess first({"two-layer", "--out", out, "--steps", "100000", "--batch-size", "2"});
  for (int i = 0; i < 6000 && !std::filesystem::exists(out + "/metrics.jsonl"); ++i) usleep(10'000);
  const Outcome second = run(little_run(out, "--resume"));
  CHECK(second.code == 1);
  CHECK(second.err.find("in use by process ") != std::string::npos);
  CHECK(second.err.find("pellucid") != std::string::npos);
  first.kill(SIGKILL);
  first.wait();
  // Killed before its first checkpoint: its files are known to be a run's, and begun anew.
  const Outcome third = run(little_run(out, "--resume"));
  INFO(third.err);
  CHECK(third.code == 0);
  size_t events = 0;
  for (const auto& e : std::filesystem::directory_iterator(out))
    events += e.path().filename().string().starts_with("events.out");
  CHECK(events == 1);
  CHECK_FALSE(std::filesystem::exists(out + "/.pellucid-run"));
  CHECK_FALSE(std::filesystem::exists(out + "/.pellucid-lock"));
}

TEST_CASE("train: going on with another ISA level is said") {
  if (available_isas().size() < 2) return;
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  const std::string best(isa_name(available_isas().back()));
  std::vector<std::string> words = little_run(out);
  words.insert(words.end(), {"--isa", "baseline"});
  REQUIRE(run(words).code == 0);
  CHECK(io::load_checkpoint(checkpoint_in(out)).isa == "baseline");
  const Outcome same =
      run({"train", "two-layer", "--out", out, "--resume", "--epochs", "2", "--isa", "baseline"});
  CHECK(same.code == 0);
  CHECK(same.err.find("ISA") == std::string::npos);
  const Outcome other =
      run({"train", "two-layer", "--out", out, "--resume", "--epochs", "3", "--isa", best});
  CHECK(other.code == 0);
  CHECK(other.err.find("saved with the ISA level baseline and continues with " + best) !=
        std::string::npos);
  CHECK(run({"train", "two-layer", "--out", out, "--resume", "--isa", "v9"}).code == 2);
}

TEST_CASE("fuzz: train goes on or refuses, whatever a checkpoint with right checksums says") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  std::vector<std::string> words = little_run(out);
  words.insert(words.end(), {"--optimizer", "adam", "--save-every", "2"});
  REQUIRE(run(words).code == 0);
  std::filesystem::copy(out, folder / "kept");
  const NamedValues good = io::load_values(checkpoint_in(out));
  write_bytes(folder / "victim", "precious");
  const std::vector<Value> others{Value(),
                                  Value(-1),
                                  Value(int64_t{1} << 62),
                                  Value(INT64_MIN),
                                  Value(std::nan("")),
                                  Value(1e300),
                                  Value("../victim"),
                                  Value("--out=../victim"),
                                  Value(zeros({7})),
                                  Value(tensor(3)),
                                  Value(Values{1, "a"}),
                                  Value(true),
                                  Value(zeros({0}, kBool)),
                                  Value(Values{}),
                                  Value(std::string(100'000, 'x')),
                                  Value("\x1b]0;title\x07"),
                                  Value(full({2, 2}, std::nan("")))};
  Damage damage(11);
  int refused = 0;
  const int rounds = fuzz_rounds(120);
  for (int i = 0; i < rounds; ++i) {
    NamedValues values = good;
    for (size_t n = 1 + damage.below(3); n > 0; --n) {
      const size_t at = damage.below(values.size());
      if (damage.below(5) == 0)
        values.erase(values.begin() + static_cast<std::ptrdiff_t>(at));
      else if (damage.below(6) == 0)
        values[at].name += damage.below(2) ? ".0" : "x";
      else
        values[at].value = others[damage.below(others.size())];
    }
    std::filesystem::remove_all(out);
    std::filesystem::copy(folder / "kept", out);
    io::save_values(checkpoint_in(out), values);
    const Outcome o = run({"train", "two-layer", "--out", out, "--resume", "--epochs", "2"});
    INFO("round " << i << ": " << o.err);
    CHECK(o.err.find("internal error") == std::string::npos);
    CHECK(o.err.find('\x1b') == std::string::npos);
    CHECK(o.code <= 2);
    refused += o.code != 0;
  }
  CHECK(refused > 0);
  CHECK(refused < rounds);
  CHECK(read_bytes(folder / "victim") == "precious");
}

TEST_CASE("fuzz: generate writes or refuses, whatever the model's files say") {
  const TemporaryFolder folder;
  const std::string good = folder / "good", bad = folder / "bad";
  std::filesystem::create_directory(good);
  manual_seed(1);
  const data::CharVocabulary characters("ab\x1b\ncd\xc2\x9b");
  const auto options = models::GPTOptions()
                           .vocab_size(static_cast<int64_t>(characters.vocab_size()))
                           .block_size(8)
                           .n_layer(1)
                           .n_head(2)
                           .n_embd(4);
  models::GPT model(options);
  io::save_safetensors(good + "/model.safetensors", io::named_tensors(model->state_dict()));
  cli::save_text_config(good, options, characters, "");
  const std::vector<std::string> words = {
      "generate", "--model", good, "--prompt", "ab\n", "--tokens", "30", "--temperature", "2"};
  const Outcome whole = run(words);
  INFO(whole.err);
  REQUIRE(whole.code == 0);
  CHECK(whole.out.find('\x1b') == std::string::npos);
  CHECK(whole.out.find("\xc2\x9b") == std::string::npos);
  const MemoryBound bound;
  Damage damage(12);
  const int rounds = fuzz_rounds(60);
  for (int i = 0; i < rounds; ++i) {
    std::filesystem::remove_all(bad);
    std::filesystem::copy(good, bad);
    const char* name = std::vector<const char*>{"/config.json", "/characters.txt",
                                                "/model.safetensors"}[damage.below(3)];
    write_bytes(bad + name, damage(read_bytes(good + name)));
    const Outcome o = run({"generate", "--model", bad, "--tokens", "5"});
    INFO("round " << i << " " << name << ": " << o.err);
    CHECK(o.err.find("internal error") == std::string::npos);
    CHECK(o.err.find("out of memory") == std::string::npos);
    CHECK((o.out + o.err).find('\x1b') == std::string::npos);
    CHECK(o.code <= 1);
  }
  // Sizes that the weights do not have are refused before memory is taken for them.
  write_bytes(bad + "/model.safetensors", read_bytes(good + "/model.safetensors"));
  write_bytes(bad + "/characters.txt", read_bytes(good + "/characters.txt"));
  write_bytes(bad + "/config.json",
              fmt::format(R"({{"model_type": "pellucid-gpt", "vocab_size": {}, "block_size": 8, )"
                          R"("n_layer": 1024, "n_head": 2, "n_embd": 65536, "bias": true}})",
                          characters.vocab_size()));
  const Outcome huge = run({"generate", "--model", bad});
  CHECK(huge.code == 1);
  CHECK(huge.err.find("config.json describes a model of at least") != std::string::npos);
}
