// What cProfile saves: a dict in Python's marshal format,
//   {(file, line, name): (primitive calls, calls, own time, cumulative time, {caller: figures})}
#include <bit>
#include <cstring>

#include "base/escape.h"
#include "profile/exports.h"
#include "profile/functions.h"

namespace pellucid::profile {
namespace {

// Writes values as marshal's codes; numbers are little-endian.
class Marshal {
 public:
  explicit Marshal(Output& out) : out_(out) {}
  void dict() { code('{'); }
  void end_dict() { code('0'); }
  void tuple(char size) {
    code(')');
    code(size);
  }
  void text(std::string_view value) {
    const std::string valid = pellucid::text::utf8(value);
    code('u');
    bytes(static_cast<uint32_t>(valid.size()), 4);
    out_.put(valid);
  }
  void real(double value) {
    code('g');
    bytes(std::bit_cast<uint64_t>(value), 8);
  }
  void integer(int64_t value) {
    if (value == static_cast<int32_t>(value)) {
      code('i');
      return bytes(static_cast<uint32_t>(value), 4);
    }
    // Digits of 15 bits; their count carries the sign.
    std::vector<uint16_t> digits;
    for (uint64_t rest = static_cast<uint64_t>(value < 0 ? -value : value); rest > 0; rest >>= 15)
      digits.push_back(rest & 0x7fff);
    code('l');
    const auto count = static_cast<int32_t>(digits.size());
    bytes(static_cast<uint32_t>(value < 0 ? -count : count), 4);
    for (const uint16_t d : digits) bytes(d, 2);
  }

 private:
  void code(char c) { out_.put({&c, 1}); }
  void bytes(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) code(static_cast<char>(value >> (8 * i) & 0xff));
  }
  Output& out_;
};

// cProfile calls what has no line ('~', 0, '<name>').
void put_function(Marshal& m, const Profile& p, const FunctionStats& stats, int32_t function) {
  const int32_t site = stats.site(function);
  const bool known = site >= 0 && !p.sites[static_cast<size_t>(site)].file.empty();
  m.tuple(3);
  m.text(known ? p.sites[static_cast<size_t>(site)].file : "~");
  m.integer(known ? p.sites[static_cast<size_t>(site)].line : 0);
  m.text(known ? std::string(stats.name(function)) : fmt::format("<{}>", stats.name(function)));
}

}  // namespace

void export_pstats(const Profile& p, Output& out) {
  const FunctionStats stats(p);
  Marshal m(out);
  m.dict();
  size_t edge = 0;
  for (int32_t f = 0; f < stats.functions.number.size(); ++f) {
    const CallFigures& c = stats.figures[static_cast<size_t>(f)];
    put_function(m, p, stats, f);
    m.tuple(5);
    m.integer(c.primitive_calls);
    m.integer(c.calls);
    m.real(static_cast<double>(c.own) * 1e-9);
    m.real(static_cast<double>(c.cumulative) * 1e-9);
    m.dict();
    for (; edge < stats.edges.size() && stats.edges[edge].callee == f; ++edge) {
      const CallFigures& e = stats.edges[edge].figures;
      put_function(m, p, stats, stats.edges[edge].caller);
      m.tuple(4);  // of a caller, all calls come first
      m.integer(e.calls);
      m.integer(e.primitive_calls);
      m.real(static_cast<double>(e.own) * 1e-9);
      m.real(static_cast<double>(e.cumulative) * 1e-9);
    }
    m.end_dict();
  }
  m.end_dict();
}

}  // namespace pellucid::profile
