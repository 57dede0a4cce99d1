// Values become unsigned keys whose order is the wanted one; items of key and position are sorted
// by radix, or by comparison where lines are short. Positions break ties, so the order is stable
// whatever algorithm ran. Distinct integers that span few values are found with a table instead.
#include "kernels/sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "base/parallel.h"
#include "kernels/reduce_convert.h"
#include "kernels/scan_lines.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kTaskElements = 4096;
constexpr size_t kRadixFrom = 1024;  // below this comparing is faster

/// An unsigned key in the order of the values; -0 and 0 are equal, all NaN are equal and largest.
inline uint64_t key_of(double v) {
  if (v != v) return std::numeric_limits<uint64_t>::max();
  const uint64_t bits = std::bit_cast<uint64_t>(v == 0 ? 0.0 : v);
  return bits >> 63 ? ~bits : bits | (uint64_t{1} << 63);
}
inline uint64_t key_of(int64_t v) { return static_cast<uint64_t>(v) ^ (uint64_t{1} << 63); }
inline uint32_t key_of(float v) {
  if (v != v) return std::numeric_limits<uint32_t>::max();
  const uint32_t bits = std::bit_cast<uint32_t>(v == 0 ? 0.0f : v);
  return bits >> 31 ? ~bits : bits | (uint32_t{1} << 31);
}
inline uint32_t key_of(int32_t v) { return static_cast<uint32_t>(v) ^ (uint32_t{1} << 31); }

/// A 32-bit key and a 32-bit position in one word.
struct Packed {
  uint64_t word;
  using Key = uint32_t;
  static constexpr int kKeyBytes = 4;
  static Packed make(Key key, int64_t position) {
    return {uint64_t{key} << 32 | static_cast<uint32_t>(position)};
  }
  Key key() const { return static_cast<Key>(word >> 32); }
  int64_t position() const { return static_cast<int64_t>(word & 0xffffffffu); }
  friend bool operator<(Packed a, Packed b) { return a.word < b.word; }
};
/// A 64-bit key and its position.
struct Wide {
  uint64_t key_, position_;
  using Key = uint64_t;
  static constexpr int kKeyBytes = 8;
  static Wide make(Key key, int64_t position) { return {key, static_cast<uint64_t>(position)}; }
  Key key() const { return key_; }
  int64_t position() const { return static_cast<int64_t>(position_); }
  friend bool operator<(Wide a, Wide b) {
    return a.key_ != b.key_ ? a.key_ < b.key_ : a.position_ < b.position_;
  }
};

/// Sorts items that are in the order of their positions.
template <class Item> void sort_items(std::vector<Item>& items) {
  if (items.size() < kRadixFrom) {
    std::sort(items.begin(), items.end());
    return;
  }
  std::vector<std::array<size_t, 256>> counts(Item::kKeyBytes);
  for (const Item& item : items)
    for (int b = 0; b < Item::kKeyBytes; ++b) ++counts[b][item.key() >> (8 * b) & 0xff];
  std::vector<Item> other(items.size());
  for (int b = 0; b < Item::kKeyBytes; ++b) {
    std::array<size_t, 256>& count = counts[b];
    if (count[items[0].key() >> (8 * b) & 0xff] == items.size())
      continue;  // this byte is the same everywhere
    size_t sum = 0;
    for (size_t& c : count) sum += std::exchange(c, sum);
    for (const Item& item : items) other[count[item.key() >> (8 * b) & 0xff]++] = item;
    items.swap(other);
  }
}

/// Items of a run of n values; the keys are complemented for descending order.
template <class T, class Item>
void make_items(DType type, const void* in, int64_t stride, int64_t n, bool descending,
                std::vector<Item>& items) {
  items.resize(static_cast<size_t>(n));
  T buffer[512];
  for (int64_t first = 0; first < n; first += 512) {
    const int64_t count = std::min<int64_t>(512, n - first);
    convert(type, static_cast<const std::byte*>(in) + first * stride * element_size(type), stride,
            dtype_of<T>, buffer, 1, count);
    for (int64_t i = 0; i < count; ++i) {
      const typename Item::Key key = key_of(buffer[i]);
      items[static_cast<size_t>(first + i)] =
          Item::make(descending ? static_cast<typename Item::Key>(~key) : key, first + i);
    }
  }
}

/// Calls f.template operator()<T, Item>(): how values of `type` are read, and what is sorted.
template <class F> void with_items(DType type, int64_t n, const F& f) {
  const bool narrow = n <= std::numeric_limits<uint32_t>::max();
  if (type == kFloat64)
    f.template operator()<double, Wide>();
  else if (is_floating(type))
    narrow ? f.template operator()<float, Packed>() : f.template operator()<double, Wide>();
  else if (type == kInt64 || !narrow)
    f.template operator()<int64_t, Wide>();
  else
    f.template operator()<int32_t, Packed>();
}

template <class T> void copy_at(const void* in, int64_t in_offset, void* out, int64_t out_offset) {
  static_cast<T*>(out)[out_offset] = static_cast<const T*>(in)[in_offset];
}
using CopyAt = void (*)(const void*, int64_t, void*, int64_t);
CopyAt copy_for(int64_t bytes) {
  return bytes == 1   ? copy_at<uint8_t>
         : bytes == 2 ? copy_at<uint16_t>
         : bytes == 4 ? copy_at<uint32_t>
                      : copy_at<uint64_t>;
}

/// Runs select(items), which leaves `k` items in front, on each line, and writes those.
template <class Select>
void for_lines(const SortArgs& a, int64_t k, bool descending, const Select& select) {
  const Lines<2> lines(a.sizes, a.dim, {a.in_strides, a.out_strides});
  if (lines.count == 0 || lines.length == 0) return;
  const CopyAt copy = copy_for(element_size(a.type));
  with_items(a.type, lines.length, [&]<class T, class Item>() {
    parallel_for(0, lines.count, std::max<int64_t>(1, kTaskElements / lines.length),
                 [&](int64_t begin, int64_t end) {
                   std::vector<Item> items;
                   for (int64_t line = begin; line < end; ++line) {
                     const auto [in, out] = lines.start(line);
                     make_items<T>(a.type,
                                   static_cast<const std::byte*>(a.in) + in * element_size(a.type),
                                   lines.step[0], lines.length, descending, items);
                     select(items);
                     for (int64_t i = 0; i < k; ++i) {
                       const int64_t position = items[static_cast<size_t>(i)].position(),
                                     at = out + i * lines.step[1];
                       if (a.indices) a.indices[at] = position;
                       if (a.values) copy(a.in, in + position * lines.step[0], a.values, at);
                     }
                   }
                 });
  });
}

}  // namespace

void sort(const SortArgs& a, bool descending) {
  const int64_t length = a.sizes.empty() ? 1 : a.sizes[static_cast<size_t>(a.dim)];
  for_lines(a, length, descending, [](auto& items) { sort_items(items); });
}

void topk(const SortArgs& a, int64_t k, bool largest) {
  for_lines(a, k, largest, [k](auto& items) {
    const auto n = static_cast<int64_t>(items.size());
    if (k * 8 <= n) {  // a heap of few: most items cost one comparison
      std::partial_sort(items.begin(), items.begin() + k, items.end());
      return;
    }
    if (k < n) std::nth_element(items.begin(), items.begin() + k, items.end());
    std::sort(items.begin(), items.begin() + k);
  });
}

void kthvalue(const SortArgs& a, int64_t k, bool nan_wins) {
  const bool floating = is_floating(a.type);
  for_lines(a, 1, false, [=](auto& items) {
    using Key = typename std::remove_reference_t<decltype(items)>::value_type::Key;
    const auto is_nan = [](const auto& item) {
      return item.key() == std::numeric_limits<Key>::max();
    };
    const auto nan =
        nan_wins && floating ? std::find_if(items.begin(), items.end(), is_nan) : items.end();
    if (nan != items.end()) {
      items[0] = *nan;
      return;
    }
    std::nth_element(items.begin(), items.begin() + k, items.end());
    items[0] = items[static_cast<size_t>(k)];
  });
}

namespace {

/// Calls f(position, value) for n integers.
template <class F> void visit_integers(DType type, const void* in, int64_t n, const F& f) {
  int64_t buffer[512];
  for (int64_t first = 0; first < n; first += 512) {
    const int64_t count = std::min<int64_t>(512, n - first);
    convert(type, static_cast<const std::byte*>(in) + first * element_size(type), 1, kInt64, buffer,
            1, count);
    for (int64_t i = 0; i < count; ++i) f(first + i, buffer[i]);
  }
}

/// unique of integers that span few values, by a table of those; false where they span too many.
bool unique_by_table(DType type, const void* in, int64_t n, int64_t* inverse, Unique& u) {
  int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();
  visit_integers(type, in, n, [&](int64_t, int64_t v) {
    least = std::min(least, v);
    most = std::max(most, v);
  });
  const uint64_t span = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
  if (n == 0 || span >= static_cast<uint64_t>(n)) return false;
  struct Seen {
    int64_t first, count, number;
  };
  std::vector<Seen> seen(static_cast<size_t>(span) + 1, Seen{0, 0, 0});
  const auto of = [&](int64_t v) -> Seen& { return seen[static_cast<size_t>(v - least)]; };
  visit_integers(type, in, n, [&](int64_t position, int64_t v) {
    Seen& s = of(v);
    if (s.count++ == 0) s.first = position;
  });
  for (Seen& s : seen) {
    if (s.count == 0) continue;
    s.number = static_cast<int64_t>(u.first.size());
    u.first.push_back(s.first);
    u.counts.push_back(s.count);
  }
  if (inverse)
    visit_integers(type, in, n,
                   [&](int64_t position, int64_t v) { inverse[position] = of(v).number; });
  return true;
}

}  // namespace

Unique unique(DType type, const void* in, int64_t n, int64_t* inverse) {
  Unique u;
  if (!is_floating(type) && unique_by_table(type, in, n, inverse, u)) return u;
  with_items(type, n, [&]<class T, class Item>() {
    std::vector<Item> items;
    make_items<T>(type, in, 1, n, false, items);
    sort_items(items);
    for (size_t i = 0; i < items.size(); ++i) {
      const bool nan =
          is_floating(type) && items[i].key() == std::numeric_limits<typename Item::Key>::max();
      if (i == 0 || nan || items[i].key() != items[i - 1].key()) {
        u.first.push_back(items[i].position());
        u.counts.push_back(0);
      }
      ++u.counts.back();
      if (inverse) inverse[items[i].position()] = static_cast<int64_t>(u.first.size()) - 1;
    }
  });
  return u;
}

}  // namespace pellucid::kernels
