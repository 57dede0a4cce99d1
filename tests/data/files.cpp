// IDX files and tokenizers: right ones, wrong ones, and bytes changed at random. The length of the
// fuzzing follows PELLUCID_TEST_LONG.
#include <doctest/doctest.h>
#include <zlib.h>

#include <cstring>

#include "io/fuzz.h"
#include "pellucid/data.h"
#include "pellucid/pellucid.h"
#include "shared_data.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::data;
using pellucid::test::fuzz;
using pellucid::test::read_bytes;
using pellucid::test::TemporaryFolder;
using pellucid::test::write_bytes;

namespace {

std::string idx(const std::vector<uint32_t>& sizes, const std::string& values) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const uint32_t s : sizes)
    for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(s >> shift);
  return out + values;
}

void write_gz(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

std::string llama_file(const std::vector<std::pair<std::string, float>>& extra) {
  std::string out{"\x08\0\0\0", 4};
  const auto add = [&](const std::string& piece, float score) {
    char number[4];
    std::memcpy(number, &score, 4);
    out.append(number, 4);
    const auto length = static_cast<int32_t>(piece.size());
    std::memcpy(number, &length, 4);
    out.append(number, 4);
    out += piece;
  };
  for (const char* piece : {"<unk>", "\n<s>\n", "\n</s>\n"}) add(piece, 0);
  for (int b = 0; b < 256; ++b) {
    char piece[8];
    std::snprintf(piece, sizeof piece, "<0x%02X>", b);
    add(piece, 0);
  }
  for (const auto& [piece, score] : extra) add(piece, score);
  return out;
}
const std::vector<std::pair<std::string, float>> kPieces{
    {" ", -1}, {"a", -2}, {"b", -3}, {"ab", -4}, {" a", -5}, {"aba", -6}, {"é", -7}, {"ba", -3.5f}};

/// A byte-level vocabulary with a few merges, as GPT-2's files write it.
std::string gpt2_vocab() {
  std::string json = "{";
  int id = 0;
  uint32_t others = 256;
  for (uint32_t b = 0; b < 256; ++b) {
    const bool printable =
        (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
    const uint32_t c = printable ? b : others++;
    char text[32];
    std::snprintf(text, sizeof text, "\"\\u%04x\": %d, ", c, id++);
    json += text;
  }
  for (const char* piece : {"th", "\\u0120th", "\\u0120the", "he", "in", "in\\u010a"})
    json += "\"" + std::string(piece) + "\": " + std::to_string(id++) + ", ";
  return json + "\"<|endoftext|>\": " + std::to_string(id) + "}";
}
const std::string kMerges = "#version: 0.2\nt h\n\u0120 th\n\u0120th e\nh e\ni n\n";

}  // namespace

TEST_CASE("idx: plain and gzipped files, as MNIST") {
  const TemporaryFolder folder;
  const std::string images =
      idx({2, 2, 3}, std::string("\x00\x33\x66\x99\xcc\xff\x01\x02\x03\x04\x05\x06", 12));
  write_bytes(folder / "train-images-idx3-ubyte", images);
  write_gz(folder / "train-labels-idx1-ubyte.gz", idx({2}, "\x07\x03"));
  const datasets::MNIST set(folder.path());
  CHECK(*set.size() == 2);
  CHECK(set.is_train());
  CHECK(set.images().sizes() == IntArrayRef({2, 1, 2, 3}));
  CHECK(set.images()[0].max().item<float>() == 1);
  CHECK(datasets::MNIST(set).get(0).data.view({6})[1].item<float>() == doctest::Approx(0.2));
  CHECK(set.targets().equal(tensor({7, 3})));
  CHECK_THROWS_WITH_AS(datasets::MNIST(folder.path(), datasets::MNIST::Mode::kTest),
                       doctest::Contains("-ubyte.gz; give the folder"), IoError);
  write_gz(folder / "train-labels-idx1-ubyte.gz", idx({3}, "\x07\x03\x01"));
  CHECK_THROWS_WITH_AS(datasets::MNIST(folder.path()), doctest::Contains("2 images"), ShapeError);
}

TEST_CASE("idx: false headers and sizes are refused before memory is taken") {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& bytes, const char* words) {
    write_bytes(folder / "file", bytes);
    CHECK_THROWS_WITH_AS(datasets::read_idx(folder / "file"), doctest::Contains(words), IoError);
    write_gz(folder / "file", bytes);
    CHECK_THROWS_WITH_AS(datasets::read_idx(folder / "file"), doctest::Contains(words), IoError);
  };
  refuse("", "ends early");
  refuse("not an idx file", "not an IDX file");
  refuse(idx({2, 2}, "abc"), "ends early");
  refuse(idx({2, 2}, "abcde"), "after its 4 values");
  refuse(idx({0xffffffff, 0xffffffff, 0xffffffff}, ""), "claims sizes");
  refuse(idx({0xffffffff}, "abc"), "ends early");
  CHECK_THROWS_WITH_AS(datasets::read_idx(folder / "missing"), doctest::Contains("No such file"),
                       IoError);
  const auto load = [](const std::string& path) { datasets::read_idx(path); };
  fuzz(idx({3, 4}, "123456789012"), load);
  write_gz(folder / "good.gz", idx({20, 20}, std::string(400, 'x')));
  const std::string packed = read_bytes(folder / "good.gz");
  CHECK_NOTHROW(load(folder / "good.gz"));
  fuzz(packed, load);
  for (size_t i = 0; i < packed.size(); ++i) {  // gzip's own checksum and length are heeded
    write_bytes(folder / "cut.gz", packed.substr(0, i));
    CHECK_THROWS_AS(load(folder / "cut.gz"), IoError);
  }
}

TEST_CASE("characters: ids in order, and back") {
  const CharVocabulary v("hello, wörld\n");
  CHECK(v.vocab_size() == 11);
  CHECK(v.decode(v.encode("höll\n")) == "höll\n");
  CHECK(v.encode("\n") == std::vector<int64_t>{0});
  CHECK(CharVocabulary(v.characters()).encode("wöd") == v.encode("wöd"));
  CHECK_THROWS_WITH_AS(v.encode("hex"), doctest::Contains("'x' at byte 2"), ValueError);
  CHECK_THROWS_AS(v.decode(int64_t{11}), IndexError);
  const std::string broken = "a\xff\xc3";  // not UTF-8: bytes survive
  CHECK(CharVocabulary(broken).decode(CharVocabulary(broken).encode(broken)) == broken);
}

TEST_CASE("gpt2: words are cut by GPT-2's pattern") {
  const auto words = [](std::string_view text) {
    std::vector<std::string> out;
    for (const std::string_view w : Gpt2Tokenizer::split(text)) out.emplace_back(w);
    return out;
  };
  using Words = std::vector<std::string>;
  CHECK(words("Hello world") == Words{"Hello", " world"});
  CHECK(words("I'll don't 'tis") == Words{"I", "'ll", " don", "'t", " '", "tis"});
  CHECK(words("a  b   c\n\nd ") == Words{"a", " ", " b", "  ", " c", "\n", "\n", "d", " "});
  CHECK(words("x=12,34!") == Words{"x", "=", "12", ",", "34", "!"});
  CHECK(words("\xc3\xa9t\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xc2\xbd") ==
        Words{"\xc3\xa9t\xc3\xa9", " \xe4\xb8\xad\xe6\x96\x87", " \xc2\xbd"});
  CHECK(words("a\t\tb") == Words{"a", "\t", "\t", "b"});
  CHECK(words("").empty());
}

TEST_CASE("gpt2: pairs are merged by rank; files, tokenizer.json and round trips") {
  const TemporaryFolder folder;
  write_bytes(folder / "vocab.json", gpt2_vocab());
  write_bytes(folder / "merges.txt", kMerges);
  const auto t = Gpt2Tokenizer::from_files(folder / "vocab.json", folder / "merges.txt");
  CHECK(t.vocab_size() == 263);
  CHECK(t.encode("the") == std::vector<int64_t>{256, 'e'});
  CHECK(t.encode(" the") == std::vector<int64_t>{258});
  CHECK(t.encode("he in") == std::vector<int64_t>{259, ' ', 260});
  std::string every;
  for (int b = 0; b < 256; ++b) every += static_cast<char>(b);
  CHECK(t.decode(t.encode(every)) == every);
  CHECK(t.decode(int64_t{262}) == "<|endoftext|>");
  CHECK(t.id_of("<|endoftext|>") == 262);
  CHECK(t.id_of(" the") == 258);
  CHECK(!t.id_of("nothing"));
  const std::string longer(200'000, 't');
  CHECK(t.encode(longer).size() == longer.size());  // and in time
  CHECK_THROWS_AS(t.decode(int64_t{263}), IndexError);

  std::string merges;
  for (const char* m : {"t h", "\\u0120 th", "\\u0120th e", "h e", "i n"})
    merges += (merges.empty() ? "\"" : ", \"") + std::string(m) + "\"";
  const std::string json = "{\"model\": {\"type\": \"BPE\", \"vocab\": " + gpt2_vocab() +
                           ", \"merges\": [" + merges + "]}}";
  write_bytes(folder / "tokenizer.json", json);
  CHECK(Gpt2Tokenizer::from_tokenizer_json(folder / "tokenizer.json").encode("then the") ==
        t.encode("then the"));
  fuzz(json, [](const std::string& path) { Gpt2Tokenizer::from_tokenizer_json(path); });
  const std::string vocab = folder / "vocab.json", pairs = folder / "merges.txt";
  fuzz(gpt2_vocab(), [&](const std::string& path) { Gpt2Tokenizer::from_files(path, pairs); });
  fuzz(kMerges, [&](const std::string& path) { Gpt2Tokenizer::from_files(vocab, path); });
}

TEST_CASE("gpt2: wrong files are refused with their names") {
  const TemporaryFolder folder;
  write_bytes(folder / "vocab.json", gpt2_vocab());
  write_bytes(folder / "few.json", "{\"a\": 0}");
  write_bytes(folder / "merges.txt", "t q\n");
  const std::string vocab = folder / "vocab.json", merges = folder / "merges.txt";
  CHECK_THROWS_WITH_AS(Gpt2Tokenizer::from_files(vocab, merges),
                       doctest::Contains("not all in the vocabulary"), IoError);
  CHECK_THROWS_WITH_AS(Gpt2Tokenizer::from_files(folder / "few.json", merges),
                       doctest::Contains("no piece for the byte 0"), IoError);
  CHECK_THROWS_WITH_AS(Gpt2Tokenizer::from_files(merges, merges),
                       doctest::Contains("not valid JSON"), IoError);
  CHECK_THROWS_WITH_AS(Gpt2Tokenizer::from_tokenizer_json(vocab),
                       doctest::Contains("not a byte-pair tokenizer.json"), IoError);
  CHECK_THROWS_WITH_AS(Gpt2Tokenizer::from_files(folder / "none", merges),
                       doctest::Contains("No such file"), IoError);
}

TEST_CASE("llama: the best score is merged first, unknown characters become bytes") {
  const TemporaryFolder folder;
  write_bytes(folder / "tok.bin", llama_file(kPieces));
  const LlamaTokenizer t(folder / "tok.bin", 259 + kPieces.size());
  CHECK(t.encode("ab") == std::vector<int64_t>{1, 259, 262});
  CHECK(t.encode("aba", false, true) == std::vector<int64_t>{263, 266, 2});
  CHECK(t.encode("") == std::vector<int64_t>{1});
  CHECK(t.encode("é\xff", false, false) == std::vector<int64_t>{259, 265, 3 + 0xff});
  for (const char* text : {"abba", "a b", "héllo \n wörld", "\xf0\x9f\x98\x80"})
    CHECK(t.decode(t.encode(text)) == text);
  CHECK_THROWS_AS(t.decode(int64_t{9999}), IndexError);
  CHECK_THROWS_WITH_AS(LlamaTokenizer(folder / "tok.bin", 300), doctest::Contains("ends after"),
                       IoError);
  CHECK_THROWS_WITH_AS(LlamaTokenizer(folder / "tok.bin", 260), doctest::Contains("bytes after"),
                       IoError);
  fuzz(llama_file(kPieces),
       [](const std::string& path) { LlamaTokenizer(path, 259 + kPieces.size()).encode("aba é"); });
}

TEST_CASE("llama: the tokenizer of stories260K") {
  const auto path = test::shared_data("stories260K/tok512.bin");
  if (!path) return;
  const LlamaTokenizer t(*path, 512);
  // The beginning of what the model writes, in its own ids.
  const std::vector<int64_t> ids{1,   403, 407, 261, 378, 432, 383, 286, 261, 376,
                                 298, 315, 421, 395, 317, 426, 338, 401, 396, 267};
  const std::string text = t.decode(ids);
  CHECK(text == "Once upon a time, there was a little girl named Lily. She loved to");
  CHECK(t.encode(text) == ids);
}
