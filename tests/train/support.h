// What the tests of `pellucid train` share: small data, and the comparison of two runs.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "process.h"

namespace pellucid::test {

inline bool full_length() { return std::getenv("PELLUCID_TEST_LONG") != nullptr; }

/// An IDX file of bytes.
inline std::string idx(const std::vector<uint32_t>& sizes, const std::string& bytes) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const uint32_t n : sizes)
    for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(n >> shift);
  return out + bytes;
}

/// MNIST's four files with so many random images.
inline void write_digits(const std::string& folder, uint32_t train, uint32_t test) {
  std::filesystem::create_directories(folder);
  std::mt19937 random(3);
  for (const auto& [name, count] : {std::pair("/train", train), std::pair("/t10k", test)}) {
    std::string images(size_t{count} * 28 * 28, '\0'), labels(count, '\0');
    for (char& c : images) c = static_cast<char>(random());
    for (char& c : labels) c = static_cast<char>(random() % 10);
    write_bytes(folder + name + "-images-idx3-ubyte", idx({count, 28, 28}, images));
    write_bytes(folder + name + "-labels-idx1-ubyte", idx({count}, labels));
  }
}

inline std::string checkpoint_in(const std::string& run) { return run + "/checkpoint.pellucid"; }
inline int64_t step_of(const std::string& run) {
  return integer_of(io::load_checkpoint(checkpoint_in(run)).progress, "step", "test");
}

inline bool same_values(const Value& a, const Value& b) {
  const Tensor *s = a.as<Tensor>(), *t = b.as<Tensor>();
  if (s && t) return s->dtype() == t->dtype() && s->equal(*t);
  return a.repr() == b.repr();
}

/// Two runs ended in the same state, bit for bit, with the same metrics.
inline void check_same_run(const std::string& run, const std::string& reference) {
  // The name of TensorBoard's file holds the time and the process.
  const auto values = [](const std::string& folder) {
    NamedValues all = io::load_values(checkpoint_in(folder));
    std::erase_if(all, [](const NamedValue& v) { return v.name == "progress.log.events"; });
    return all;
  };
  const NamedValues a = values(run), b = values(reference);
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name);
    CHECK(a[i].name == b[i].name);
    CHECK(same_values(a[i].value, b[i].value));
  }
  CHECK(read_bytes(run + "/metrics.jsonl") == read_bytes(reference + "/metrics.jsonl"));
  CHECK(read_bytes(run + "/model.safetensors") == read_bytes(reference + "/model.safetensors"));
  CHECK(read_bytes(run + "/loss.svg") == read_bytes(reference + "/loss.svg"));
}

/// No temporary file is left in the folder.
inline void check_no_litter(const std::string& run) {
  std::vector<std::string> litter;
  for (const auto& e : std::filesystem::directory_iterator(run))
    if (const std::string name = e.path().filename().string();
        name.ends_with(".tmp") || name.ends_with(".part"))
      litter.push_back(name);
  CHECK(litter == std::vector<std::string>());
}

}  // namespace pellucid::test
