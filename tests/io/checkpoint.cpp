// Checkpoints: everything comes back bit for bit, every damage is seen, and whatever goes wrong
// while saving leaves the old or the new state. PELLUCID_TEST_LONG lengthens the loops.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/atomic_file.h"
#include "base/cpu.h"
#include "io/crc32c.h"
#include "pellucid/data.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"
#include "pellucid/serialize.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::io;
using pellucid::test::read_bytes;
using pellucid::test::TemporaryFolder;
using pellucid::test::write_bytes;

namespace {

bool full_length() { return std::getenv("PELLUCID_TEST_LONG") != nullptr; }

Checkpoint sample(int64_t step) {
  Checkpoint c;
  c.model = {{"fc.weight", full({3, 5}, static_cast<double>(step))},
             {"fc.bias", arange(3, kFloat64)},
             {"seen", tensor(step)},
             {"none", zeros({0})}};
  c.model.emplace_back("tied", c.model[0].second);
  c.optimizer = {{"param_groups.0.lr", 0.1}, {"state.0.exp_avg", randn({3, 5}, kFloat32)}};
  c.scheduler = {{"last_epoch", 4}, {"base_lrs", Values{0.1, -0.0}}};
  c.loader = {{"batches", 17}};
  c.progress = {{"step", step}, {"best", INFINITY}, {"name", "läuft"}};
  c.random = {0xfedcba9876543210, 12};
  c.user = "{\"a\": [1, 2]}";
  return c;
}

int64_t step_of(const std::string& path) {
  return integer_of(load_checkpoint(path).progress, "step", "test");
}

struct FaultGuard {
  explicit FaultGuard(FaultHook hook) { set_fault_hook(std::move(hook)); }
  ~FaultGuard() { set_fault_hook(nullptr); }
};

size_t files_in(const TemporaryFolder& folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder.path())) ++n;
  return n;
}

}  // namespace

TEST_CASE("crc32c: the values of RFC 3720, and in parts") {
  CHECK(crc32c("", 0) == 0);
  CHECK(crc32c("123456789", 9) == 0xe3069283);
  const std::string zeros(32, '\0');
  CHECK(crc32c(zeros.data(), 32) == 0x8a9136aa);
  CHECK(crc32c("456789", 6, crc32c("123", 3)) == 0xe3069283);
}

TEST_CASE("checkpoint: all parts come back") {
  const TemporaryFolder folder;
  const Checkpoint c = sample(7);
  save_checkpoint(folder / "c", c);
  const Checkpoint d = load_checkpoint(folder / "c");
  REQUIRE(d.model.size() == c.model.size());
  for (size_t i = 0; i < c.model.size(); ++i) {
    CHECK(d.model[i].first == c.model[i].first);
    CHECK(d.model[i].second.dtype() == c.model[i].second.dtype());
    CHECK(d.model[i].second.equal(c.model[i].second));
  }
  CHECK(value_of(d.optimizer, "state.0.exp_avg", "").tensor().equal(c.optimizer[1].value.tensor()));
  CHECK(integer_of(d.scheduler, "last_epoch", "") == 4);
  CHECK(std::signbit(numbers_of(d.scheduler, "base_lrs", "")[1]));
  CHECK(number_of(d.progress, "best", "") == INFINITY);
  CHECK(text_of(d.progress, "name", "") == "läuft");
  CHECK(d.random == c.random);
  CHECK(d.user == c.user);
  Checkpoint bad = c;
  bad.user = "{";
  CHECK_THROWS_AS(save_checkpoint(folder / "c", bad), ValueError);
  CHECK(step_of(folder / "c") == 7);
}

TEST_CASE("checkpoint: a tensor that is saved twice is in the file once, and one again") {
  const TemporaryFolder folder;
  const Tensor w = randn({64, 32}), turned = w.t();
  Checkpoint tied, once;
  tied.model = {{"embedding", w}, {"head", w}, {"turned", turned}, {"turned again", w.t()}};
  tied.progress = {{"list", Values{w, w.slice(0, 0, 2)}}};
  once.model = {{"embedding", w}, {"turned", turned}};
  save_checkpoint(folder / "tied", tied);
  save_checkpoint(folder / "once", once);
  CHECK(std::filesystem::file_size(folder / "tied") <
        std::filesystem::file_size(folder / "once") + w.nbytes());
  const Checkpoint c = load_checkpoint(folder / "tied");
  CHECK(c.model[0].second.is_same(c.model[1].second));
  CHECK(c.model[2].second.is_same(c.model[3].second));
  CHECK(c.model[0].second.equal(w));
  CHECK(c.model[2].second.equal(turned));
  const Values list = *value_of(c.progress, "list", "").as<Values>();
  CHECK(list[0].tensor().is_same(c.model[0].second));
  CHECK(list[1].tensor().equal(w.slice(0, 0, 2)));
}

TEST_CASE("checkpoint: files of the first version load, a tensor inside another one does not") {
  const TemporaryFolder folder;
  const std::string path = folder / "c";
  const auto with_version = [&](uint32_t version) {
    std::string bytes = read_bytes(path);
    std::memcpy(bytes.data() + 8, &version, 4);
    const uint32_t crc = crc32c(bytes.data() + 16, 16, crc32c(&version, 4));
    std::memcpy(bytes.data() + 12, &crc, 4);
    write_bytes(path, bytes);
  };
  Checkpoint c = sample(3);
  c.model.pop_back();  // it is tied
  save_checkpoint(path, c);
  with_version(1);
  CHECK(step_of(path) == 3);
  with_version(3);
  CHECK_THROWS_WITH_AS(load_checkpoint(path), doctest::Contains("version 3"), IoError);
  const Tensor w = ones({32});
  Checkpoint tied;
  tied.model = {{"a", w}, {"b", w}};
  save_checkpoint(path, tied);
  with_version(1);
  CHECK_THROWS_WITH_AS(load_checkpoint(path), doctest::Contains("does not follow"), IoError);
  with_version(2);
  CHECK(load_checkpoint(path).model.size() == 2);
  // The second entry of [dtype, sizes, place, crc] says [16] in the place of [32].
  std::string bytes = read_bytes(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data() + 16, 8);
  const size_t second = bytes.find("[32]", bytes.find("[32]") + 1);
  REQUIRE(second < 32 + length);
  bytes.replace(second, 4, "[16]");
  const uint32_t crc = crc32c(bytes.data() + 32, length);
  std::memcpy(bytes.data() + 32 + length, &crc, 4);
  write_bytes(path, bytes);
  CHECK_THROWS_WITH_AS(load_checkpoint(path), doctest::Contains("inside another"), IoError);
}

TEST_CASE("checkpoint: the ISA level is kept, and another one is said") {
  const TemporaryFolder folder;
  {
    const IsaGuard least(Isa::Baseline);
    save_checkpoint(folder / "c", sample(1));
    CHECK(load_checkpoint(folder / "c").warning().empty());
  }
  const IsaGuard best(available_isas().back());
  const Checkpoint c = load_checkpoint(folder / "c");
  CHECK(c.isa == "baseline");
  CHECK(c.warning().empty() == (available_isas().size() == 1));
  if (!c.warning().empty()) CHECK(c.warning().find("the ISA level baseline") != std::string::npos);
}

TEST_CASE("checkpoint: every changed byte and every length is seen") {
  const TemporaryFolder folder;
  const std::string path = folder / "c";
  save_checkpoint(path, sample(1));
  const std::string good = read_bytes(path);
  std::mt19937_64 random(1);
  const size_t stride = full_length() ? 1 : 7;
  for (size_t i = 0; i < good.size(); i += stride) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ static_cast<char>(1 + random() % 255));
    write_bytes(path, bytes);
    INFO("byte " << i);
    CHECK_THROWS_AS(load_checkpoint(path), IoError);
  }
  for (size_t n = 0; n < good.size(); n += stride) {
    write_bytes(path, good.substr(0, n));
    INFO("length " << n);
    CHECK_THROWS_AS(load_checkpoint(path), IoError);
  }
  write_bytes(path, good + std::string(1, '\0'));
  CHECK_THROWS_WITH_AS(load_checkpoint(path), doctest::Contains(path.c_str()), IoError);
  write_bytes(path, "PK\x03\x04 0123456789");
  CHECK_THROWS_WITH_AS(load_checkpoint(path), doctest::Contains("is a pickle or zip"), IoError);
  write_bytes(path, "");
  CHECK_THROWS_AS(load_checkpoint(path), IoError);
  CHECK_THROWS_WITH_AS(load_checkpoint(folder / "none"), doctest::Contains("errno 2"), IoError);
  CHECK_THROWS_AS(load_checkpoint(folder.path()), IoError);
}

TEST_CASE("checkpoint: bytes changed at will, with right checksums, never crash") {
  const TemporaryFolder folder;
  const std::string path = folder / "c";
  save_checkpoint(path, sample(1));
  const std::string good = read_bytes(path);
  uint64_t length = 0;
  std::memcpy(&length, good.data() + 16, 8);
  std::mt19937_64 random(2);
  for (int i = 0; i < (full_length() ? 50'000 : 500); ++i) {
    std::string bytes = good;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = 32 + random() % length;
      bytes[at] =
          random() % 2 ? static_cast<char>('0' + random() % 10) : "[]{},\":tlfi-"[random() % 12];
    }
    const uint32_t crc = crc32c(bytes.data() + 32, length);
    std::memcpy(bytes.data() + 32 + length, &crc, 4);
    write_bytes(path, bytes);
    try {
      load_checkpoint(path);
    } catch (const Error&) { continue; }
  }
}

TEST_CASE("checkpoint: a fault at any step of a save leaves the former file") {
  const TemporaryFolder folder;
  const std::string path = folder / "c";
  save_checkpoint(path, sample(1));
  int steps = 0;
  {
    const FaultGuard counting([&](FileStep) { return ++steps, 0; });
    save_checkpoint(path, sample(1));
  }
  CHECK(steps > 8);
  for (int k = 1; k <= steps; ++k) {
    int seen = 0;
    FileStep failed = FileStep::Open;
    std::string message;
    {
      const FaultGuard fault([&](FileStep step) {
        if (++seen != k) return 0;
        failed = step;
        return k % 2 ? ENOSPC : EIO;
      });
      try {
        save_checkpoint(path, sample(2));
      } catch (const IoError& e) { message = e.what(); }
    }
    INFO("step " << k << ": " << message);
    CHECK(message.find(path) != std::string::npos);
    CHECK(message.find(k % 2 ? "errno 28" : "errno 5") != std::string::npos);
    CHECK(step_of(path) == (failed == FileStep::SyncFolder ? 2 : 1));
    CHECK(files_in(folder) == 1);
  }
  save_checkpoint(path, sample(3));
  CHECK(step_of(path) == 3);
}

TEST_CASE("checkpoint: mode, umask, links and places that cannot be written") {
  const TemporaryFolder folder;
  const std::string path = folder / "c";
  const auto mode = [&] {
    struct stat facts {};
    stat(path.c_str(), &facts);
    return facts.st_mode & 07777;
  };
  const mode_t before = umask(027);
  save_checkpoint(path, sample(1));
  CHECK(mode() == 0640);
  chmod(path.c_str(), 0604);
  save_checkpoint(path, sample(2));
  CHECK(mode() == 0604);
  umask(before);
  std::filesystem::create_symlink("c", folder / "link");
  save_checkpoint(folder / "link", sample(3));
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(step_of(path) == 3);
  CHECK_THROWS_AS(save_checkpoint(folder.path(), sample(1)), IoError);
  CHECK_THROWS_WITH_AS(save_checkpoint(folder / "no/c", sample(1)), doctest::Contains("errno 2"),
                       IoError);
  write_bytes(path + ".tmp", "somebody else's");
  save_checkpoint(path, sample(4));
  CHECK(files_in(folder) == 3);  // the file, the link and what is not the checkpoint's
  CHECK(read_bytes(path + ".tmp") == "somebody else's");
}

TEST_CASE("checkpoint: a process killed while saving leaves the old or the new state") {
  const TemporaryFolder folder;
  const std::string path = folder / "c";
  save_checkpoint(path, sample(0));
  std::mt19937_64 random(9);
  const int kills = full_length() ? 200 : 15;
  int64_t last = 0;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        for (int64_t step = last + 1;; ++step) save_checkpoint(path, sample(step));
      } catch (...) { _exit(1); }
    }
    usleep(static_cast<useconds_t>(500 + random() % 8000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    int64_t step = -1;
    REQUIRE_NOTHROW(step = step_of(path));
    CHECK(step >= last);
    last = step;
  }
  save_checkpoint(path, sample(1));
  CHECK(files_in(folder) == 1);
}

TEST_CASE("checkpoint: training resumed in the middle gives the same bits") {
  const TemporaryFolder folder;
  const auto run = [&](bool interrupted) {
    manual_seed(5);
    Tensor w = randn({4, 1}).requires_grad_();
    const Tensor x = randn({24, 4}), y = randn({24, 1});
    auto loader =
        data::make_data_loader(data::datasets::PairDataset(x, y).map(data::transforms::Stack<>()),
                               data::DataLoaderOptions(5).workers(2));
    auto optimizer = std::make_unique<optim::AdamW>(std::vector{w}, optim::AdamWOptions(0.1));
    auto schedule = std::make_unique<optim::CosineAnnealingLR>(*optimizer, 7);
    int64_t step = 0;
    for (int epoch = 0; epoch < 3;) {
      bool again = false;
      for (auto& batch : *loader) {
        optimizer->zero_grad();
        dropout(batch.data.matmul(w), 0.5, true).sub(batch.target).square().mean().backward();
        optimizer->step();
        schedule->step();
        if (++step != 8 || !interrupted) continue;
        save_checkpoint(folder / "c", {.model = {{"w", w}},
                                       .optimizer = optimizer->state_dict(),
                                       .scheduler = schedule->state_dict(),
                                       .loader = loader->state_dict(),
                                       .progress = {},
                                       .random = random_state()});
        again = true;
        break;
      }
      if (!again) {
        ++epoch;
        continue;
      }
      manual_seed(999);  // a fresh process knows nothing
      const Checkpoint c = load_checkpoint(folder / "c");
      w = c.model[0].second.requires_grad_();
      optimizer = std::make_unique<optim::AdamW>(std::vector{w}, optim::AdamWOptions(0.1));
      schedule = std::make_unique<optim::CosineAnnealingLR>(*optimizer, 7);
      optimizer->load_state_dict(c.optimizer);
      schedule->load_state_dict(c.scheduler);
      loader->load_state_dict(c.loader);
      set_random_state(c.random);
    }
    return w.detach();
  };
  const Tensor whole = run(false);
  CHECK(run(true).equal(whole));
}

TEST_CASE("save and load: optimisers") {
  const TemporaryFolder folder;
  const Tensor p = ones({3}).requires_grad_();
  p.mutable_grad() = tensor({1.0, 2.0, 3.0}, kFloat32);
  optim::Adam first({p}, optim::AdamOptions(0.3).betas({0.5, 0.9}));
  first.step();
  save(first, folder / "o.pt");
  optim::Adam second({p}, optim::AdamOptions(0.1));
  load(second, folder / "o.pt");
  const NamedValues a = first.state_dict(), b = second.state_dict();
  REQUIRE(a.size() == b.size());
  CHECK(number_of(b, "param_groups.0.lr", "") == 0.3);
  CHECK(value_of(b, "state.0.exp_avg", "")
            .tensor()
            .equal(value_of(a, "state.0.exp_avg", "").tensor()));
}
