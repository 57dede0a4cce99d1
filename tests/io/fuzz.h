// Damaged files: a valid file is changed, cut, doubled or given absurd numbers, and a loader must
// load it or refuse it with a typed error. Neither other exceptions nor memory beyond a limit are
// allowed. PELLUCID_TEST_LONG makes the loops long.
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <typeinfo>

#include "pellucid/error.h"
#include "pellucid/memory.h"
#include "temporary.h"

namespace pellucid::test {

/// Changes bytes as damage and malice would.
class Damage {
 public:
  explicit Damage(uint64_t seed) : random_(seed) {}
  size_t below(size_t n) { return static_cast<size_t>(random_() % std::max<size_t>(1, n)); }

  /// The bytes with one to four changes.
  std::string operator()(std::string bytes) {
    for (size_t n = 1 + below(4); n > 0 && !bytes.empty(); --n) change(bytes);
    return bytes;
  }

 private:
  void change(std::string& bytes) {
    const size_t at = below(bytes.size());
    switch (below(9)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes += bytes.substr(at, 8);
        break;
      case 2:
        bytes.erase(at, 1 + below(8));
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(16)));
        break;
      case 4:  // a number of a binary format
        put_number(bytes, at - at % 4);
        break;
      case 5:  // a number or a mark of a text
        bytes[at] = "[]{},:\"\\-.0123456789eEtfn \n\xff"[below(28)];
        break;
      case 6:
        grow_number(bytes, at);
        break;
      case 7:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      default:
        bytes[at] = static_cast<char>(random_());
    }
  }
  void put_number(std::string& bytes, size_t at) {
    constexpr std::array<int64_t, 12> kNumbers{0,
                                               1,
                                               -1,
                                               INT32_MAX,
                                               INT32_MIN,
                                               INT64_MAX,
                                               INT64_MIN,
                                               1 << 20,
                                               (1 << 20) - 1,
                                               int64_t{1} << 32,
                                               0x7fff'ffff'0000'0000,
                                               255};
    const int64_t number = kNumbers[below(kNumbers.size())];
    std::memcpy(bytes.data() + at, &number, std::min(bytes.size() - at, below(2) ? 4ul : 8ul));
  }
  /// The next number of a text becomes huge, negative or a fraction.
  void grow_number(std::string& bytes, size_t at) {
    constexpr std::array<const char*, 8> kNumbers{
        "9223372036854775807", "18446744073709551615", "-1",        "1e308", "0.5",
        "4611686018427387904", "99999999999999999999", "4294967296"};
    const size_t begin = bytes.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const size_t end = std::min(bytes.find_first_not_of("0123456789", begin), bytes.size());
    bytes.replace(begin, end - begin, kNumbers[below(kNumbers.size())]);
  }
  std::mt19937_64 random_;
};

/// The rounds of a loop: `brief` in a usual run, a hundred times that in a long one.
inline int fuzz_rounds(int brief = 150) {
  return std::getenv("PELLUCID_TEST_LONG") != nullptr ? 100 * brief : brief;
}

/// While it lives, neither tensors nor anything else may take more than 1 GiB of new memory.
class MemoryBound {
 public:
  static constexpr int64_t kMost = int64_t{1} << 30;
  MemoryBound() {
    set_memory_limit(memory_stats().allocated + kMost);
#ifndef __SANITIZE_ADDRESS__  // whose own maps are counted too
    getrlimit(RLIMIT_AS, &former_);
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit bound = former_;
    bound.rlim_cur = pages * 4096 + 4 * static_cast<uint64_t>(kMost);
    setrlimit(RLIMIT_AS, &bound);
#endif
  }
  ~MemoryBound() {
#ifndef __SANITIZE_ADDRESS__
    setrlimit(RLIMIT_AS, &former_);
#endif
    set_memory_limit(0);
  }
  MemoryBound(const MemoryBound&) = delete;

 private:
  [[maybe_unused]] rlimit former_{};
};

/// Runs `load()`; whether it succeeded. Throws nothing: what is no typed error fails the test.
template <class F> bool loads(const F& load) {
  try {
    load();
    return true;
  } catch (const OutOfMemoryError& e) {
    FAIL_CHECK("memory was asked for before the file was checked: " << e.what());
  } catch (const Error& e) {
    if (typeid(e) == typeid(Error)) FAIL_CHECK("an error without a type: " << e.what());
  } catch (const std::exception& e) { FAIL_CHECK("not a typed error: " << e.what()); }
  return false;
}

/// Gives damaged copies of `bytes` to load(path).
template <class F> void fuzz(const std::string& bytes, const F& load, int brief = 150) {
  const TemporaryFolder folder;
  const MemoryBound bound;
  Damage damage(5);
  int refused = 0;
  const int rounds = fuzz_rounds(brief);
  for (int i = 0; i < rounds; ++i) {
    INFO("round " << i);
    write_bytes(folder / "file", damage(bytes));
    refused += !loads([&] { load(folder / "file"); });
  }
  CHECK(refused > 0);
  write_bytes(folder / "file", bytes);
  CHECK(loads([&] { load(folder / "file"); }));
}

/// Gives every beginning of `bytes` (at most `most` of them) to load(path), which must refuse it.
template <class F> void refuse_beginnings(const std::string& bytes, const F& load, size_t most) {
  const TemporaryFolder folder;
  const size_t stride = std::max<size_t>(1, bytes.size() / most);
  for (size_t size = 0; size < bytes.size(); size += stride) {
    INFO(size << " of " << bytes.size() << " bytes");
    write_bytes(folder / "file", bytes.substr(0, size));
    CHECK_FALSE(loads([&] { load(folder / "file"); }));
  }
}

}  // namespace pellucid::test
