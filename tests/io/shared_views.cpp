// Files that keep what tensors share: storages are written once, views and strides come back, and a
// file that was read may change.
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "io/fuzz.h"
#include "pellucid/nn.h"
#include "pellucid/pellucid.h"
#include "pellucid/serialize.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::io;
using pellucid::test::Damage;
using pellucid::test::fuzz_rounds;
using pellucid::test::loads;
using pellucid::test::MemoryBound;
using pellucid::test::read_bytes;
using pellucid::test::TemporaryFolder;
using pellucid::test::write_bytes;

namespace {

NamedTensors views_of(const Tensor& x) {
  return {{"x", x},
          {"row", x[1]},
          {"turned", x.t()},
          {"alone", ones({2})},
          {"expanded", tensor({2.0f}).expand({4})},
          {"part", arange(10, kFloat64).slice(0, 3, 9, 2)},
          {"empty", x.slice(0, 1, 1)},
          {"again", x}};
}

/// Two names for one parameter.
struct Tied : nn::Module {
  explicit Tied(double value) {
    first = register_parameter("first", full({40, 40}, value));
    second = register_parameter("second", first);
  }
  Tensor first, second;
};

}  // namespace

TEST_CASE("shared views: storages, strides and offsets come back, in order") {
  const TemporaryFolder folder;
  const Tensor x = arange(12, kFloat32).view({3, 4});
  const NamedTensors saved = views_of(x);
  save_tensors(folder / "f", saved, {{"note", "kept"}});
  for (const SafeTensors& got :
       {load_safetensors(folder / "f"), load_safetensors(folder / "f", true),
        parse_safetensors(read_bytes(folder / "f"))}) {
    REQUIRE(got.tensors.size() == saved.size());
    CHECK(got.metadata == Metadata{{"note", "kept"}});
    for (size_t i = 0; i < saved.size(); ++i) {
      INFO(saved[i].first);
      CHECK(got.tensors[i].first == saved[i].first);
      CHECK(got.tensors[i].second.equal(saved[i].second));
      if (saved[i].second.numel() > 0)
        CHECK(got.tensors[i].second.strides() == saved[i].second.strides());
    }
    for (const char* name : {"row", "turned", "again"})
      CHECK(got.at(name).is_alias_of(got.at("x")));
    CHECK_FALSE(got.at("alone").is_alias_of(got.at("x")));
    CHECK(got.at("part").storage_offset() == 3);
    got.at("x").zero_();
    CHECK(got.at("row").sum().item<float>() == 0);
    CHECK(x[2][3].item<float>() == 11);
  }
}

TEST_CASE("shared views: files without them are plain, and storages are written once") {
  const TemporaryFolder folder;
  const NamedTensors plain{{"a", ones({3})}, {"b", zeros({0, 2})}, {"c", tensor(1.5)}};
  CHECK(tensors_bytes(plain, {{"k", "v"}}) == safetensors_bytes(plain, {{"k", "v"}}));
  const Tensor w = ones({1000});
  CHECK(tensors_bytes({{"a", w}, {"b", w}, {"c", w.slice(0, 0, 10)}}).size() < 4600);
  CHECK_THROWS_AS(tensors_bytes({{"a", w}, {"a", w}}), ValueError);
  CHECK_THROWS_AS(tensors_bytes({{"a", Tensor()}}), ValueError);
  CHECK_THROWS_AS(tensors_bytes(plain, {{"shared_views", ""}}), ValueError);
}

TEST_CASE("shared views: torch::save of vectors and tied modules") {
  const TemporaryFolder folder;
  const Tensor x = arange(1000, kFloat32);
  save(std::vector<Tensor>{x, x.slice(0, 10, 20), x.view({10, 100}).t()}, folder / "v");
  CHECK(read_bytes(folder / "v").size() < 5000);
  std::vector<Tensor> got;
  load(got, folder / "v");
  REQUIRE(got.size() == 3);
  CHECK(got[1].is_alias_of(got[0]));
  CHECK(got[2].strides() == IntArrayRef({1, 100}));
  got[0].zero_();
  CHECK(got[1].abs().sum().item<float>() == 0);

  Tensor leaf = ones({2}).requires_grad_(), loaded, present = zeros({2});
  save(leaf, folder / "leaf");
  load(loaded, folder / "leaf");
  load(present, folder / "leaf");
  CHECK(loaded.requires_grad());
  CHECK(loaded.is_leaf());
  CHECK_FALSE(present.requires_grad());
  CHECK(present.equal(ones({2})));
  save(std::vector<Tensor>{ones({1}), leaf}, folder / "leaves");
  std::vector<Tensor> leaves;
  load(leaves, folder / "leaves");
  CHECK_FALSE(leaves[0].requires_grad());
  CHECK(leaves[1].requires_grad());

  const Tied tied(1);
  save(tied, folder / "m");
  CHECK(read_bytes(folder / "m").size() < 2 * 40 * 40 * 4);
  Tied other(0);
  load(other, folder / "m");
  CHECK(other.second.equal(ones({40, 40})));
  CHECK(other.second.is_alias_of(other.first));
}

TEST_CASE("load_safetensors: a file that changes or is cut off changes nothing that was read") {
  const TemporaryFolder folder;
  const std::string path = folder / "f";
  const Tensor saved = arange(1'000'000, kFloat32);
  save_safetensors(path, {{"a", saved}});
  const Tensor t = load_safetensors(path).at("a");
  const std::string bytes = read_bytes(path);
  std::ofstream(path, std::ios::binary) << std::string(bytes.size(), 'x');  // the same file
  CHECK(t.equal(saved));
  REQUIRE(truncate(path.c_str(), 0) == 0);
  CHECK(t.equal(saved));
  std::ofstream(path, std::ios::binary) << bytes;
  const Tensor mapped = load_safetensors(path, true).at("a");
  save_safetensors(path, {{"a", mapped}});  // saving replaces the file and never cuts it
  CHECK(mapped.equal(saved));
  CHECK(load_safetensors(path).at("a").equal(saved));
}

TEST_CASE("fuzz: lists of views in files that are correct otherwise") {
  const std::string good = tensors_bytes(views_of(arange(12, kFloat32).view({3, 4})));
  uint64_t length = 0;
  std::memcpy(&length, good.data(), 8);
  const std::string header = good.substr(8, length);
  const size_t from = header.find("shared_views"), to = header.find("\"}", from);
  REQUIRE(from < to);
  const MemoryBound bound;
  Damage damage(4);
  int loaded = 0, refused = 0;
  const int rounds = fuzz_rounds(1'000);
  for (int i = 0; i < rounds; ++i) {
    std::string changed = header.substr(0, from + 15) +
                          damage(header.substr(from + 15, to - from - 15)) + header.substr(to);
    const uint64_t size = changed.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &size, 8);
    bytes += changed + good.substr(8 + length);
    INFO(changed);
    const bool whole = loads([&] {
      for (const auto& [name, t] : parse_safetensors(bytes).tensors)
        if (t.numel() < 1000) t.to(kFloat64).sum();
    });
    loaded += whole;
    refused += !whole;
  }
  CHECK(loaded > 0);
  CHECK(refused > rounds / 4);
}
