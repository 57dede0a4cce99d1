// safetensors: every dtype there and back, the format's own bytes, and files that lie. The length
// of the fuzzing follows PELLUCID_TEST_LONG.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "pellucid/nn.h"
#include "pellucid/pellucid.h"
#include "pellucid/serialize.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::io;
using pellucid::test::read_bytes;
using pellucid::test::TemporaryFolder;
using pellucid::test::write_bytes;

namespace {

int rounds() { return std::getenv("PELLUCID_TEST_LONG") != nullptr ? 100'000 : 1'500; }

/// A file with the given header and data.
std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

NamedTensors every_dtype() {
  NamedTensors tensors;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    tensors.emplace_back(std::string(name_of(type)), arange(6, kInt64).to(type).view({2, 3}));
  }
  tensors.emplace_back("empty", zeros({0, 4}));
  tensors.emplace_back("number", tensor(2.5, kFloat64));
  tensors.emplace_back("turned", arange(6, kFloat32).view({2, 3}).t());
  tensors.emplace_back("läufer \"1\"", ones({1}));
  return tensors;
}

}  // namespace

TEST_CASE("safetensors: every dtype, order, names and metadata come back") {
  const TemporaryFolder folder;
  const NamedTensors saved = every_dtype();
  save_safetensors(folder / "w.safetensors", saved, {{"format", "pt"}, {"note", "ä\n"}});
  for (const SafeTensors& loaded : {load_safetensors(folder / "w.safetensors"),
                                    parse_safetensors(read_bytes(folder / "w.safetensors"))}) {
    REQUIRE(loaded.tensors.size() == saved.size());
    for (size_t i = 0; i < saved.size(); ++i) {
      CHECK(loaded.tensors[i].first == saved[i].first);
      CHECK(loaded.tensors[i].second.dtype() == saved[i].second.dtype());
      CHECK(loaded.tensors[i].second.equal(saved[i].second));
    }
    CHECK(loaded.metadata == Metadata{{"format", "pt"}, {"note", "ä\n"}});
    CHECK(loaded.at("number").item<double>() == 2.5);
    CHECK_THROWS_AS(loaded.at("none"), ValueError);
  }
}

TEST_CASE("safetensors: the bytes are the format's, and loaded tensors do not write to the file") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  save_safetensors(path, {{"a", tensor({1, 2}, kInt16)}});
  std::string header = "{\"a\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]}}";
  header.append((8 - header.size() % 8) % 8, ' ');
  CHECK(read_bytes(path) == file_of(header, std::string("\1\0\2\0", 4)));
  const std::string before = read_bytes(path);
  for (const bool mmap : {false, true}) {
    save_safetensors(path, {{"a", tensor({1, 2}, kInt16)}});
    const Tensor t = load_safetensors(path, mmap).at("a");
    t.fill_(7);
    CHECK(t[1].item<int>() == 7);
    CHECK(read_bytes(path) == before);
    save_safetensors(path, {{"a", zeros({1})}});  // the old pages stay while they are used
    CHECK(t[0].item<int>() == 7);
  }
  // A file whose data lies at an odd place is copied.
  write_bytes(path, file_of("{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}} ",
                            std::string("\0\0\0\0\0\0\xf8\x3f", 8)));
  CHECK(load_safetensors(path).at("a").item<double>() == 1.5);
  CHECK(load_safetensors(path, true).at("a").item<double>() == 1.5);
}

TEST_CASE("safetensors: a header whose length begins like a pickle is read") {
  const TemporaryFolder folder;
  for (const size_t length : {640, 896, 1152, 1408, 66176}) {  // 80 02, 80 03, 80 04, 80 05 …
    std::string header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
    header.append(length - header.size(), ' ');
    const std::string bytes = file_of(header, "\1\2");
    write_bytes(folder / "f", bytes);
    CHECK(load_safetensors(folder / "f").at("a").equal(tensor({1, 2}, kUInt8)));
    CHECK(parse_safetensors(bytes).at("a").equal(tensor({1, 2}, kUInt8)));
  }
}

TEST_CASE("safetensors: files that lie are refused") {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& bytes, const char* words) {
    write_bytes(folder / "bad", bytes);
    INFO(words);
    CHECK_THROWS_WITH_AS(load_safetensors(folder / "bad"), doctest::Contains(words), Error);
    CHECK_THROWS_AS(parse_safetensors(bytes), Error);
  };
  const auto entry = [](const char* name, const char* dtype, const char* shape,
                        const char* offsets) {
    return fmt::format("\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{}]}}", name,
                       dtype, shape, offsets);
  };
  const std::string a = entry("a", "U8", "4", "0,4");
  refuse("", "too few");
  refuse("1234567", "too few");
  refuse(std::string(8, '\xff'), "the header would have");
  refuse(file_of("{}", "").substr(0, 9), "the header would have");
  refuse(file_of("[]", ""), "does not begin");
  refuse(file_of("{\"a\":", ""), "not valid JSON");
  refuse(file_of("{" + a + "," + a + "}", "1234"), "the name twice 'a'");
  refuse(file_of("{" + a + "}", "123"), "does not fit");
  refuse(file_of("{" + a + "}", "12345"), "4 bytes but the file has 5");
  refuse(file_of("{" + a + "," + entry("b", "U8", "2", "5,7") + "}", "1234567"),
         "begins at byte 5");
  refuse(file_of("{" + a + "," + entry("b", "U8", "2", "3,5") + "}", "12345"), "begins at byte 3");
  refuse(file_of("{" + entry("a", "U8", "4", "4,0") + "}", "1234"), "does not fit");
  refuse(file_of("{" + entry("a", "F32", "2", "0,4") + "}", "1234"), "does not fit");
  refuse(file_of("{" + entry("a", "F32", "4611686018427387904,4", "0,0") + "}", ""),
         "does not fit");
  refuse(file_of("{" + entry("a", "F32", "18446744073709551615", "0,4") + "}", "1234"),
         "beyond 2^63");
  refuse(file_of("{" + entry("a", "U8", "-1", "0,4") + "}", "1234"), "wrong type");
  refuse(file_of("{" + entry("a", "F8_E4M3", "4", "0,4") + "}", "1234"), "which pellucid lacks");
  refuse(file_of("{" + entry("a", "BOOL", "2", "0,2") + "}", "\1\2"), "other than 0 and 1");
  refuse(file_of("{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", ""), "lacks dtype, shape");
  refuse(file_of("{\"a\":{\"x\":{}}}", ""), "unknown or repeated field");
  refuse(file_of("{\"__metadata__\":{\"a\":1}}", ""), "number where none belongs");
  refuse(file_of("{\"a\":5}", ""), "number where none belongs");
  refuse(file_of("{\"a\":" + std::string(100'000, '['), ""), "");
  refuse("PK\x03\x04 and so on", "safetensors.torch.save_file");
  refuse("\x80\x02}q\x01.", "Such a file can run any program");
  CHECK_THROWS_WITH_AS(load_safetensors(folder / "none"), doctest::Contains("No such file"),
                       IoError);
  CHECK_THROWS_WITH_AS(load_safetensors(folder.path()), doctest::Contains("not a regular file"),
                       IoError);
  CHECK_THROWS_AS(save_safetensors(folder / "x", {{"a", ones({1})}, {"a", ones({1})}}), ValueError);
  CHECK_THROWS_AS(save_safetensors(folder / "x", {{"a", Tensor()}}), ValueError);
  CHECK_THROWS_AS(save_safetensors(folder / "x", {{"\xff", ones({1})}}), ValueError);
  CHECK_THROWS_WITH_AS(save_safetensors(folder / "no/x", {}), doctest::Contains("errno 2"),
                       IoError);
}

TEST_CASE("safetensors: damaged files load or are refused, never crash") {
  const std::string good = safetensors_bytes(every_dtype(), {{"key", "value"}});
  std::mt19937_64 random(3);
  int refused = 0, loaded = 0;
  for (int i = 0; i < rounds(); ++i) {
    std::string bytes = good;
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % (random() % 2 ? 400 : bytes.size());
      if (random() % 8 == 0)
        bytes.resize(at);
      else if (at < bytes.size())
        bytes[at] =
            random() % 2 ? static_cast<char>(random()) : static_cast<char>('0' + random() % 10);
      if (bytes.empty()) break;
    }
    try {
      for (const auto& [name, t] : parse_safetensors(bytes).tensors) t.to(kFloat64).sum();
      ++loaded;
    } catch (const Error&) { ++refused; }
  }
  CHECK(refused > 0);
  CHECK(loaded > 0);
}

TEST_CASE("save and load: tensors, lists, files and streams") {
  const TemporaryFolder folder;
  const Tensor t = randn({3, 2}).requires_grad_();
  save(t, folder / "t.pt");
  Tensor back;
  load(back, folder / "t.pt");
  CHECK(back.equal(t));
  const Tensor parameter = zeros({3, 2}).requires_grad_();
  Tensor same = parameter;
  load(same, folder / "t.pt");
  CHECK(same.is_same(parameter));  // values change, the parameter stays
  CHECK(parameter.equal(t));
  Tensor wrong = zeros({2, 3}).requires_grad_();
  CHECK_THROWS_WITH_AS(load(wrong, folder / "t.pt"),
                       doctest::Contains("was saved as float32[3, 2]"), ShapeError);
  CHECK(wrong.size(0) == 2);
  Tensor other = zeros({7}, kInt64);  // no parameter: takes what was saved, as in libtorch
  const Tensor twin = other;
  load(other, folder / "t.pt");
  CHECK(other.equal(t));
  CHECK(twin.is_same(other));

  std::stringstream stream;
  save(std::vector<Tensor>{t, ones({2}, kInt64)}, stream);
  std::vector<Tensor> list;
  load(list, stream);
  REQUIRE(list.size() == 2);
  CHECK(list[1].equal(ones({2}, kInt64)));
  std::stringstream nothing("not a file");
  CHECK_THROWS_AS(load(list, nothing), IoError);
  CHECK_THROWS_AS(load(list, folder / "t.pt"), ValueError);
}

TEST_CASE("archives: nested keys and values") {
  const TemporaryFolder folder;
  serialize::OutputArchive out, inner;
  inner.write("weight", ones({2}));
  inner.write("eps", Value(1e-5));
  out.write("layer", inner);
  out.write("name", Value("ü"));
  out.write("sizes", Value::ints({1, 2}));
  out.write("nan", Value(std::nan("")));
  out.save_to(folder / "a");
  serialize::InputArchive in, layer;
  in.load_from(folder / "a");
  CHECK(in.keys() == std::vector<std::string>{"layer", "name", "sizes", "nan"});
  in.read("layer", layer);
  Tensor w;
  layer.read("weight", w);
  CHECK(w.equal(ones({2})));
  CHECK(number_of(layer.values(), "eps", "test") == 1e-5);
  Value name;
  in.read("name", name);
  CHECK(*name.as<std::string>() == "ü");
  CHECK(std::isnan(number_of(in.values(), "nan", "test")));
  CHECK(!in.try_read("other", w));
  CHECK_THROWS_AS(in.read("other", w), ValueError);
  CHECK_THROWS_AS(in.read("other", layer), ValueError);
}

namespace {

/// What save and load need of a class.
struct Pair {
  Tensor first = randn({2, 2}), second = randn({2});
  void save(serialize::OutputArchive& archive) const {
    archive.write("first", first);
    archive.write("second", second);
  }
  void load(serialize::InputArchive& archive) {
    archive.read("first", first);
    archive.read("second", second);
  }
};

}  // namespace

TEST_CASE("archives: damaged ones load or are refused, never crash") {
  std::stringstream good;
  serialize::OutputArchive out;
  out.write("list", Value(Values{1, 2.5, "text", true, Value()}));
  out.write("type", Value(kFloat32));
  out.write("weight", ones({3}));
  out.save_to(good);
  std::mt19937_64 random(4);
  int refused = 0;
  for (int i = 0; i < rounds(); ++i) {
    std::string bytes = good.str();
    for (uint64_t n = 1 + random() % 3; n > 0; --n)
      bytes[8 + random() % (bytes.size() - 8)] =
          random() % 2 ? "[]{},\":lisfbdn0"[random() % 15] : static_cast<char>(random());
    std::stringstream stream(bytes);
    serialize::InputArchive in;
    try {
      in.load_from(stream);
    } catch (const Error&) { ++refused; }
  }
  CHECK(refused > 0);
}

TEST_CASE("save and load: modules, classes of one's own, and handles to them") {
  const TemporaryFolder folder;
  const nn::Linear a(3, 2);
  nn::Linear b(3, 2), wrong(4, 2);
  save(a, folder / "m.pt");
  load(b, folder / "m.pt");
  CHECK(b->weight.equal(a->weight));
  CHECK(b->bias.requires_grad());
  CHECK(named_tensors(a->state_dict())[1].first == "bias");
  CHECK(dict_of<nn::StateDict>(load_safetensors(folder / "m.pt").tensors).size() == 2);
  CHECK_THROWS_WITH_AS(load(wrong, folder / "m.pt"), doctest::Contains("weight"), ShapeError);
  CHECK(wrong->weight.size(1) == 4);

  const auto first = std::make_shared<Pair>();
  save(first, folder / "p.pt");
  auto second = std::make_shared<Pair>();
  load(second, folder / "p.pt");
  CHECK(second->first.equal(first->first));
  Pair direct;
  load(direct, folder / "p.pt");
  CHECK(direct.second.equal(first->second));
  CHECK_THROWS_AS(load(direct, folder / "m.pt"), ValueError);
}

TEST_CASE("save and load: bytes in memory and functions that take and give them") {
  const Tensor t = arange(5);
  std::string kept;
  save(t, [&](const void* bytes, size_t count) {
    kept.append(static_cast<const char*>(bytes), count);
    return count;
  });
  Tensor a, b, c;
  load(a, kept.data(), kept.size());
  CHECK(a.equal(t));
  const auto size = [&] { return kept.size(); };
  const auto read = [&](uint64_t position, void* to, size_t count) {
    return kept.copy(static_cast<char*>(to), count, position);
  };
  load(b, read, size, kCPU);
  CHECK(b.equal(t));
  CHECK_THROWS_WITH_AS(load(c, read, [&] { return kept.size() + 1; }),
                       doctest::Contains("the function gave"), IoError);
  CHECK_THROWS_AS(save(t, [](const void*, size_t count) { return count - 1; }), IoError);
}

TEST_CASE("save and load: what torch.save wrote in Python is refused with a way out") {
  const TemporaryFolder folder;
  for (const std::string& bytes :
       {std::string("PK\x03\x04\0\0archive/data.pkl", 22), std::string("\x80\x02}q\0.", 6)}) {
    write_bytes(folder / "model.pt", bytes);
    std::istringstream stream(bytes);
    nn::Linear model(2, 2);
    CHECK_THROWS_WITH_AS(load(model, folder / "model.pt"), doctest::Contains("save_file"), IoError);
    CHECK_THROWS_WITH_AS(load(model, stream), doctest::Contains("save_file"), IoError);
  }
}
