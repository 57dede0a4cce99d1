// What can go wrong while a run saves or computes: full disks, failing disks, losses that are not
// finite. The former checkpoint stays, the exit code is not 0, the message says what and where.
#include "support.h"

using namespace pellucid;
using namespace pellucid::test;

namespace {

std::vector<std::string> run_of(const std::string& out, const std::string& steps) {
  return {"two-layer", "--out",     out, "--batch-size", "4", "--steps",
          steps,       "--threads", "1", "--save-every", "1", "--resume"};
}

}  // namespace

TEST_CASE("train: a fault at any write leaves a checkpoint that loads and goes on") {
  const TemporaryFolder folder;
  REQUIRE(run_train(run_of(folder / "whole", "4")).code() == 0);
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"ENOSPC", "errno 28"}, {"EIO", "errno 5"}, {"EROFS", "errno 30"}};
  const int stride = full_length() ? 1 : 17;
  int failed = 0;
  for (int k = 1;; k += stride) {
    const auto& [fault, number] = faults[static_cast<size_t>(k) % faults.size()];
    const std::string out = folder / ("run" + std::to_string(k));
    const Ending e =
        run_train(run_of(out, "4"), {{"PELLUCID_FAULT", std::to_string(k) + ":" + fault}});
    if (e.code() == 0) break;  // there were fewer writes
    ++failed;
    INFO("write " << k << ": " << e.err);
    CHECK(e.code() == 1);
    CHECK(e.err.find(out) != std::string::npos);
    CHECK(e.err.find(number) != std::string::npos);
    // A run that failed before its first file has taken its folder away.
    if (std::filesystem::exists(out)) check_no_litter(out);
    if (std::filesystem::exists(checkpoint_in(out))) CHECK_NOTHROW(step_of(out));
    REQUIRE(run_train(run_of(out, "4")).code() == 0);
    check_same_run(out, folder / "whole");
  }
  CHECK(failed > (full_length() ? 80 : 5));
  const Ending wrong = run_train(run_of(folder / "x", "4"), {{"PELLUCID_FAULT", "soon"}});
  CHECK(wrong.code() == 1);
  CHECK(wrong.err.find("PELLUCID_FAULT") != std::string::npos);
}

TEST_CASE("train: a loss that is not finite stops the run and spares the checkpoint") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  std::vector<std::string> words = run_of(out, "50");
  words.insert(words.end(), {"--lr", "0.1"});
  const Ending e = run_train(words);
  INFO(e.err);
  CHECK(e.code() == 1);
  CHECK(e.err.find(" at step ") != std::string::npos);
  CHECK(e.err.find("Try a smaller --lr") != std::string::npos);
  CHECK(e.err.find("is untouched") != std::string::npos);
  // What, with sizes, and where: the op that made the first infinity of finite numbers.
  CHECK(e.err.find("The first op whose result is not finite is mse_loss(float32[4, 10], "
                   "float32[4, 10])") != std::string::npos);
  CHECK(e.err.find("outside the model: inf at index []") != std::string::npos);
  const io::Checkpoint c = io::load_checkpoint(checkpoint_in(out));
  for (const auto& [name, tensor] : c.model) {
    INFO(name);
    CHECK(tensor.isfinite().all().item<bool>());
  }
}

TEST_CASE("train: a value that is not finite is traced to its op and module") {
  const TemporaryFolder folder;
  const std::string data = folder / "data";
  write_digits(data, 8, 4);
  const Ending e =
      run_train({"mnist", "--data", data, "--out", folder / "digits", "--batch-size", "4",
                 "--threads", "1", "--optimizer", "sgd", "--lr", "1e25", "--warmup", "0"});
  INFO(e.err);
  CHECK(e.code() == 1);
  CHECK(e.err.find(" is not finite is ") != std::string::npos);
  CHECK(e.err.find("in conv2 (Conv2d)") != std::string::npos);
  // A loss that is finite, with gradients that are not: nothing is moved by them.
  std::vector<std::string> words = run_of(folder / "norm", "50");
  words.insert(words.end(), {"--batch-size", "64", "--lr", "0.1", "--clip-norm", "1e30"});
  const Ending norm = run_train(words);
  INFO(norm.err);
  CHECK(norm.code() == 1);
  CHECK(norm.err.find("the norm of the gradients is inf at step ") != std::string::npos);
  CHECK(norm.err.find("Try a smaller --lr;") != std::string::npos);
}

TEST_CASE("train: a run does not go on with other data") {
  const TemporaryFolder folder;
  const std::string data = folder / "data";
  write_digits(data, 8, 4);
  const std::vector<std::string> words{"mnist",        "--data",   data,           "--out",
                                       folder / "run", "--resume", "--batch-size", "4",
                                       "--threads",    "1"};
  REQUIRE(run_train(words).code() == 0);
  std::string images = read_bytes(data + "/train-images-idx3-ubyte");
  images.back() ^= 1;
  write_bytes(data + "/train-images-idx3-ubyte", images);
  const Ending e = run_train(words);
  CHECK(e.code() == 1);
  INFO(e.err);
  CHECK(e.err.find("started with other data (8 pictures, CRC-32C ") != std::string::npos);
}

TEST_CASE("train: data that cannot be trained on") {
  const TemporaryFolder folder;
  const auto message = [&](uint32_t train, uint32_t test, const std::string& batch) {
    const std::string data = folder / ("data" + std::to_string(train));
    write_digits(data, train, test);
    const Ending e = run_train({"mnist", "--data", data, "--out", folder / "run", "--batch-size",
                                batch, "--threads", "1"});
    CHECK(e.code() == 1);
    return e.err;
  };
  CHECK(message(0, 4, "4").find("the data set is empty") != std::string::npos);
  CHECK(message(3, 4, "4").find("the batch size 4 is larger than the data set, which has 3") !=
        std::string::npos);
  CHECK(message(2, 0, "2").find("the test set is empty") != std::string::npos);
  const std::string data = folder / "labels";
  write_digits(data, 4, 4);
  write_bytes(data + "/train-labels-idx1-ubyte", idx({4}, "\x01\x02\x03\x0a"));
  const Ending e =
      run_train({"mnist", "--data", data, "--out", folder / "run", "--batch-size", "2"});
  CHECK(e.code() == 1);
  INFO(e.err);
  CHECK(e.err.find("10") != std::string::npos);
  const Ending none = run_train({"mnist", "--data", folder / "none", "--out", folder / "run"});
  CHECK(none.code() == 1);
  CHECK(none.err.find("does not exist") != std::string::npos);
}
