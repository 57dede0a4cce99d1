// See packed.h.
#include "profile/packed.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/varint.h"

namespace pellucid::profile {
namespace {

uint32_t checksum_of(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// An index as reading a row makes it: what is none is -2, which the checks refuse.
int32_t index_of(int64_t v) { return v < -1 || v > INT32_MAX ? -2 : static_cast<int32_t>(v); }

// One number of a row.
template <class Row> struct Member {
  const char* name;
  int64_t (*get)(const Row&);
  void (*set)(Row&, int64_t);
};

constexpr Member<Event> kEvent[] = {
    {"begin", [](const Event& e) -> int64_t { return e.begin; },
     [](Event& e, int64_t x) { e.begin = x; }},
    {"end", [](const Event& e) -> int64_t { return e.end; },
     [](Event& e, int64_t x) { e.end = x; }},
    {"parent", [](const Event& e) -> int64_t { return e.parent; },
     [](Event& e, int64_t x) { e.parent = index_of(x); }},
    {"signature", [](const Event& e) -> int64_t { return e.signature; },
     [](Event& e, int64_t x) { e.signature = index_of(x); }},
    {"thread", [](const Event& e) -> int64_t { return e.thread; },
     [](Event& e, int64_t x) { e.thread = index_of(x); }},
    {"site", [](const Event& e) -> int64_t { return e.site; },
     [](Event& e, int64_t x) { e.site = index_of(x); }},
    {"module", [](const Event& e) -> int64_t { return e.module; },
     [](Event& e, int64_t x) { e.module = index_of(x); }},
    {"forward", [](const Event& e) -> int64_t { return e.forward; },
     [](Event& e, int64_t x) { e.forward = index_of(x); }},
    {"stack", [](const Event& e) -> int64_t { return e.stack; },
     [](Event& e, int64_t x) { e.stack = index_of(x); }},
    {"step", [](const Event& e) -> int64_t { return e.step; },
     [](Event& e, int64_t x) { e.step = index_of(x); }},
    {"self", [](const Event& e) -> int64_t { return e.self; },
     [](Event& e, int64_t x) { e.self = x; }},
    {"allocated", [](const Event& e) -> int64_t { return e.allocated; },
     [](Event& e, int64_t x) { e.allocated = x; }},
    {"freed", [](const Event& e) -> int64_t { return e.freed; },
     [](Event& e, int64_t x) { e.freed = x; }},
    {"phase", [](const Event& e) -> int64_t { return static_cast<int>(e.phase); },
     [](Event& e, int64_t x) { e.phase = static_cast<Phase>(std::clamp<int64_t>(x, 0, 2)); }},
    {"flags", [](const Event& e) -> int64_t { return (e.threw ? 1 : 0) | (e.open ? 2 : 0); },
     [](Event& e, int64_t x) { e.threw = x & 1, e.open = x & 2; }},
    {"inputs", [](const Event& e) -> int64_t { return e.inputs; },
     [](Event& e, int64_t x) { e.inputs = static_cast<uint32_t>(x); }},
};

constexpr Member<Allocation> kAllocation[] = {
    {"begin", [](const Allocation& a) -> int64_t { return a.begin; },
     [](Allocation& a, int64_t x) { a.begin = x; }},
    {"end", [](const Allocation& a) -> int64_t { return a.end; },
     [](Allocation& a, int64_t x) { a.end = x; }},
    {"bytes", [](const Allocation& a) -> int64_t { return a.bytes; },
     [](Allocation& a, int64_t x) { a.bytes = x; }},
    {"event", [](const Allocation& a) -> int64_t { return a.event; },
     [](Allocation& a, int64_t x) { a.event = index_of(x); }},
    {"freed_by", [](const Allocation& a) -> int64_t { return a.freed_by; },
     [](Allocation& a, int64_t x) { a.freed_by = index_of(x); }},
    {"thread", [](const Allocation& a) -> int64_t { return a.thread; },
     [](Allocation& a, int64_t x) { a.thread = index_of(x); }},
    {"category", [](const Allocation& a) -> int64_t { return static_cast<int>(a.category); },
     [](Allocation& a, int64_t x) {
       a.category =
           static_cast<MemoryCategory>(std::clamp<int64_t>(x, 0, kMemoryCategoryCount - 1));
     }},
    {"before", [](const Allocation& a) -> int64_t { return a.before; },
     [](Allocation& a, int64_t x) { a.before = x != 0; }},
    {"order", [](const Allocation& a) -> int64_t { return a.order; },
     [](Allocation& a, int64_t x) { a.order = x; }},
    {"freed_order", [](const Allocation& a) -> int64_t { return a.freed_order; },
     [](Allocation& a, int64_t x) { a.freed_order = x; }},
    {"address", [](const Allocation& a) -> int64_t { return static_cast<int64_t>(a.address); },
     [](Allocation& a, int64_t x) { a.address = static_cast<uint64_t>(x); }},
};

template <class Row>
void pack_rows(const char* table, std::span<const Member<Row>> members,
               const std::vector<Row>& rows, std::vector<PackedColumn>& out) {
  for (const Member<Row>& m : members) {
    PackedColumn c{.name = std::string(table) + "." + m.name,
                   .rows = static_cast<int64_t>(rows.size())};
    uint64_t before = 0;  // differences wrap around, as their sums do
    for (const Row& row : rows) {
      const auto value = static_cast<uint64_t>(m.get(row));
      put_varint(c.bytes, zigzag(static_cast<int64_t>(value - before)));
      before = value;
    }
    c.checksum = checksum_of(c.bytes);
    out.push_back(std::move(c));
  }
}

template <class Row>
std::optional<std::vector<Row>> unpack_rows(const char* table, std::span<const Member<Row>> members,
                                            const std::vector<PackedColumn>& columns) {
  std::optional<std::vector<Row>> rows;
  for (const Member<Row>& m : members) {
    const std::string name = std::string(table) + "." + m.name;
    const auto c = std::find_if(columns.begin(), columns.end(),
                                [&](const PackedColumn& x) { return x.name == name; });
    // A number takes a byte at least, so the length bounds the rows that are made.
    if (c == columns.end() || c->rows < 0 || static_cast<uint64_t>(c->rows) > c->bytes.size() ||
        checksum_of(c->bytes) != c->checksum)
      return std::nullopt;
    if (!rows) rows.emplace(static_cast<size_t>(c->rows));
    if (rows->size() != static_cast<size_t>(c->rows)) return std::nullopt;
    std::string_view bytes = c->bytes;
    uint64_t value = 0;
    for (Row& row : *rows) {
      const std::optional<uint64_t> folded = take_varint(bytes);
      if (!folded) return std::nullopt;
      value += static_cast<uint64_t>(from_zigzag(*folded));
      m.set(row, static_cast<int64_t>(value));
    }
    if (!bytes.empty()) return std::nullopt;
  }
  return rows;
}

}  // namespace

std::vector<PackedColumn> pack(const Profile& p) {
  std::vector<PackedColumn> columns;
  pack_rows<Event>("event", kEvent, p.events, columns);
  pack_rows<Allocation>("allocation", kAllocation, p.allocations, columns);
  return columns;
}

bool unpack(const std::vector<PackedColumn>& columns, Profile& p) {
  if (columns.size() != std::size(kEvent) + std::size(kAllocation)) return false;
  auto events = unpack_rows<Event>("event", kEvent, columns);
  auto allocations = unpack_rows<Allocation>("allocation", kAllocation, columns);
  if (!events || !allocations) return false;
  p.events = std::move(*events);
  p.allocations = std::move(*allocations);
  return true;
}

}  // namespace pellucid::profile
