// Loaders under damaged files: safetensors, archives, checkpoints, llama2.c models, and the states
// that optimisers, schedules and data loaders take from a file. (IDX files and tokenizers:
// tests/data/files.cpp.)
#include "io/fuzz.h"

#include <sstream>

#include "io/crc32c.h"
#include "pellucid/data.h"
#include "pellucid/io/checkpoint.h"
#include "pellucid/models.h"
#include "pellucid/nn.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"
#include "pellucid/serialize.h"

using namespace pellucid;
using namespace pellucid::test;

namespace {

std::string little_model() {
  std::ostringstream out;
  save(nn::Sequential(nn::Linear(3, 2), nn::BatchNorm1d(2)), out);
  return out.str();
}

/// A model with two layers in llama2.c's format; a negative vocabulary has an output of its own.
std::string llama2c(int32_t vocabulary) {
  const int32_t dim = 8, hidden = 12, layers = 2, heads = 4, kv_heads = 2, length = 6;
  const int32_t header[] = {dim, hidden, layers, heads, kv_heads, vocabulary, length};
  const int32_t size = dim / heads, kv = size * kv_heads;
  const int32_t floats = dim * (std::abs(vocabulary) * (vocabulary < 0 ? 2 : 1) + 1) +
                         layers * dim * (2 + 2 * dim + 2 * kv + 3 * hidden) + length * size;
  std::string out(sizeof header, '\0');
  std::memcpy(out.data(), header, sizeof header);
  for (int32_t i = 0; i < floats; ++i) {
    const float value = 0.01f * static_cast<float>(i % 17 - 8);
    out.append(reinterpret_cast<const char*>(&value), 4);
  }
  return out;
}

/// The state with an entry that is missing, of another type or of an absurd value.
NamedValues spoiled(NamedValues values, Damage& damage) {
  const std::vector<Value> others{Value(),
                                  Value(-1),
                                  Value(int64_t{1} << 62),
                                  Value(std::nan("")),
                                  Value(1e300),
                                  Value("text"),
                                  Value(zeros({7})),
                                  Value(tensor(3)),
                                  Value(Values{1, "a"}),
                                  Value(true),
                                  Value(zeros({0}, kBool)),
                                  Value(Values{})};
  for (size_t n = 1 + damage.below(3); n > 0 && !values.empty(); --n) {
    const size_t at = damage.below(values.size());
    switch (damage.below(4)) {
      case 0:
        values.erase(values.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        values[at].name += damage.below(2) ? ".0" : "x";
        break;
      default:
        values[at].value = others[damage.below(others.size())];
    }
  }
  return values;
}

/// Gives spoiled copies of `good` to load(values), then the good one, which must load.
template <class F> void fuzz_state(const NamedValues& good, const F& load) {
  const MemoryBound bound;
  Damage damage(3);
  int refused = 0;
  const int rounds = fuzz_rounds(400);
  for (int i = 0; i < rounds; ++i) {
    const NamedValues values = spoiled(good, damage);
    INFO("round " << i);
    refused += !loads([&] { load(values); });
  }
  CHECK(refused > 0);
  CHECK(loads([&] { load(good); }));
}

}  // namespace

TEST_CASE("fuzz: safetensors files, read and mapped") {
  const std::string good = io::safetensors_bytes(
      {{"a", randn({3, 4})}, {"b", arange(5)}, {"c", zeros({0, 2}, kBool)}, {"d", tensor(1.5)}},
      {{"format", "pt"}});
  const auto load = [](const std::string& path) {
    for (const auto& [name, t] : io::load_safetensors(path).tensors) t.to(kFloat64).sum();
  };
  fuzz(good, load, 600);
  refuse_beginnings(good, load, 500);
  fuzz(
      good,
      [](const std::string& path) {
        for (const auto& [name, t] : io::load_safetensors(path, true).tensors) t.to(kFloat64).sum();
      },
      300);
}

TEST_CASE("fuzz: checkpoints whose checksums are right") {
  const TemporaryFolder folder;
  const Tensor tied = randn({3, 4});
  io::save_values(folder / "good", {{"a", tied},
                                    {"list", Value(Values{1, "text", 0.5, Value(arange(5))})},
                                    {"flag", true},
                                    {"b", zeros({0, 2})},
                                    {"c", tied},
                                    {"d", Value(Values{tied, tied})}});
  const std::string good = read_bytes(folder / "good");
  uint64_t index_bytes = 0;
  std::memcpy(&index_bytes, good.data() + 16, 8);
  const std::string index = good.substr(32, index_bytes);
  const size_t data_at = (32 + index_bytes + 4 + 63) / 64 * 64;
  const MemoryBound bound;
  Damage damage(8);
  int loaded = 0;
  const int rounds = fuzz_rounds(1'000);
  for (int i = 0; i < rounds; ++i) {
    const std::string text = damage(index);
    const uint64_t lengths[] = {text.size(), good.size() - data_at};
    const uint32_t version = 1 + static_cast<uint32_t>(damage.below(2)),
                   text_crc = io::crc32c(text.data(), text.size());
    const uint32_t head_crc = io::crc32c(lengths, 16, io::crc32c(&version, 4));
    std::string bytes = good.substr(0, 8);
    bytes.append(reinterpret_cast<const char*>(&version), 4);
    bytes.append(reinterpret_cast<const char*>(&head_crc), 4);
    bytes.append(reinterpret_cast<const char*>(lengths), 16);
    bytes += text;
    bytes.append(reinterpret_cast<const char*>(&text_crc), 4);
    bytes.append((64 - bytes.size() % 64) % 64, '\0');
    bytes += good.substr(data_at);
    write_bytes(folder / "bad", bytes);
    INFO(text);
    loaded += loads([&] { io::load_values(folder / "bad"); });
  }
  CHECK(loaded > 0);
  CHECK(loaded < rounds);
}

TEST_CASE("fuzz: headers of safetensors whose length is right") {
  const std::string good = io::safetensors_bytes({{"a", randn({3, 4})}, {"b", arange(5)}});
  uint64_t length = 0;
  std::memcpy(&length, good.data(), 8);
  const MemoryBound bound;
  Damage damage(9);
  int loaded = 0;
  const int rounds = fuzz_rounds(1'000);
  for (int i = 0; i < rounds; ++i) {
    std::string header = damage(good.substr(8, length));
    const uint64_t size = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &size, 8);
    bytes += header + good.substr(8 + length);
    INFO(header);
    loaded += loads([&] {
      for (const auto& [name, t] : io::parse_safetensors(bytes).tensors) t.to(kFloat64).sum();
    });
  }
  CHECK(loaded > 0);
  CHECK(loaded < rounds);
}

TEST_CASE("fuzz: archives of modules, optimisers and tensors") {
  const auto load_model = [](const std::string& path) {
    nn::Sequential model(nn::Linear(3, 2), nn::BatchNorm1d(2));
    load(model, path);
    model->forward(ones({2, 3})).sum().item();
  };
  fuzz(little_model(), load_model, 300);
  refuse_beginnings(little_model(), load_model, 200);

  std::ostringstream state;
  nn::Linear layer(3, 2);
  optim::Adam adam(layer->parameters(), optim::AdamOptions(0.1).amsgrad(true));
  layer(ones({1, 3})).sum().backward();
  adam.step();
  save(adam, state);
  fuzz(
      state.str(),
      [](const std::string& path) {
        nn::Linear own(3, 2);
        optim::Adam other(own->parameters(), optim::AdamOptions(0.1));
        load(other, path);
        own(ones({1, 3})).sum().backward();
        other.step();
      },
      300);

  std::ostringstream list;
  save(std::vector<Tensor>{ones({2}), arange(3)}, list);
  fuzz(list.str(), [](const std::string& path) {
    std::vector<Tensor> tensors;
    load(tensors, path);
  });
}

TEST_CASE("fuzz: checkpoints and lists of values") {
  const TemporaryFolder folder;
  io::Checkpoint c;
  c.model = {{"weight", randn({2, 3})}};
  c.model.emplace_back("tied", c.model[0].second);
  c.optimizer = {{"lr", 0.1}, {"state", Value(Values{1, "two", 3.0})}};
  c.user = R"({"name": [1, 2, {"a": null}]})";
  io::save_checkpoint(folder / "c", c);
  const auto load = [](const std::string& path) { io::load_checkpoint(path); };
  fuzz(read_bytes(folder / "c"), load, 400);
  refuse_beginnings(read_bytes(folder / "c"), load, 300);
  io::save_values(folder / "v", c.optimizer);
  fuzz(read_bytes(folder / "v"), [](const std::string& path) { io::load_values(path); });
}

TEST_CASE("fuzz: llama2.c models") {
  const auto load = [](const std::string& path) {
    models::Llama model = models::load_llama2c(path);
    NoGradGuard off;
    model->forward(tensor({{1, 2}}));
  };
  for (const int32_t vocabulary : {10, -10}) {
    const std::string good = llama2c(vocabulary);
    fuzz(good, load, 150);
    refuse_beginnings(good, load, 50);
  }
  // Every field of the header at its most, alone and together.
  const TemporaryFolder folder;
  const MemoryBound bound;
  for (const int32_t most : {(1 << 20) - 1, 1 << 19, 1 << 30, -(1 << 19), INT32_MAX, INT32_MIN, 0})
    for (int fields = 1; fields < 128; ++fields) {
      std::string bytes = llama2c(10);
      for (size_t i = 0; i < 7; ++i)
        if (fields >> i & 1) std::memcpy(bytes.data() + 4 * i, &most, 4);
      write_bytes(folder / "llama", bytes);
      CHECK_FALSE(loads([&] { load(folder / "llama"); }));
    }
}

TEST_CASE("fuzz: states of optimisers, schedules and loaders") {
  nn::Linear layer(3, 2);
  const auto step = [&](optim::Optimizer& o) {
    layer(ones({1, 3})).sum().backward();
    o.step();
  };
  optim::SGD sgd(layer->parameters(), optim::SGDOptions(0.1).momentum(0.9));
  optim::RMSprop rms(layer->parameters(), optim::RMSpropOptions(0.1).centered(true).momentum(0.1));
  step(sgd);
  step(rms);
  fuzz_state(sgd.state_dict(), [&](const NamedValues& v) {
    optim::SGD other(layer->parameters(), optim::SGDOptions(0.1).momentum(0.9));
    other.load_state_dict(v);
    step(other);
  });
  fuzz_state(rms.state_dict(), [&](const NamedValues& v) {
    optim::RMSprop other(layer->parameters(), optim::RMSpropOptions(0.1));
    other.load_state_dict(v);
    step(other);
  });
  optim::StepLR schedule(sgd, 3);
  optim::ReduceLROnPlateau plateau(sgd);
  fuzz_state(schedule.state_dict(), [&](const NamedValues& v) {
    schedule.load_state_dict(v);
    schedule.step();
  });
  fuzz_state(plateau.state_dict(), [&](const NamedValues& v) {
    plateau.load_state_dict(v);
    plateau.step(1.0);
  });
  const auto loader = data::make_data_loader(
      data::datasets::PairDataset(randn({10, 2}), arange(10)).map(data::transforms::Stack<>()),
      /*options=*/4);
  (*loader->begin()).data.sum();
  const NamedValues good = loader->state_dict();
  fuzz_state(good, [&](const NamedValues& v) {
    loader->load_state_dict(v);
    for (const auto& batch : *loader) batch.data.sum();
  });
}
