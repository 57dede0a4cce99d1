// CallWriter: calls and tensors in files that Python reads (tests/parity/compare.py's Reader).
//
// calls.jsonl holds one call a line. Arguments are JSON values; what JSON lacks is an object with
// one key:
//   {"tensor": {dtype, sizes, strides, offset, at, bytes}}   a view of the storage of `bytes` bytes
//   that starts at byte `at` of
//                                                            tensors.bin; results also have
//                                                            result_strides
//   {"dtype": "float32"}, {"format": "channels_last"}, {"float": "inf"}
#pragma once

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "pellucid/op.h"
#include "pellucid/ops.h"

namespace pellucid::test {

using nlohmann::json;

// A number from a sample that was wrapped into a tensor is a number in PyTorch too.
inline bool is_wrapped(const Tensor& t) { return t.impl().wrapped_number; }

// One past the last element of its storage that a tensor looks at.
inline int64_t storage_extent(const Tensor& t) {
  if (t.numel() == 0) return t.storage_offset();
  int64_t last = t.storage_offset();
  for (int64_t d = 0; d < t.dim(); ++d) last += (t.size(d) - 1) * t.stride(d);
  return last + 1;
}

/// Writes calls.jsonl and tensors.bin in a folder.
class CallWriter {
 public:
  explicit CallWriter(const std::string& folder)
      : calls_(folder + "/calls.jsonl"), bytes_(folder + "/tensors.bin", std::ios::binary) {
    PELLUCID_CHECK(calls_.good() && bytes_.good(), IoError, "CallWriter: cannot write into {}.",
                   folder);
  }

  /// Adds a line to calls.jsonl.
  void line(const json& call) { calls_ << call.dump() << '\n'; }
  /// Whether everything was written.
  bool finish() {
    calls_.flush();
    bytes_.flush();
    return calls_.good() && bytes_.good();
  }

  /// The tensor with its strides.
  json tensor(const Tensor& t) {
    const int64_t size = t.element_size();
    const char* start = static_cast<const char*>(t.const_data_ptr()) - t.storage_offset() * size;
    const int64_t count = storage_extent(t) * size;
    bytes_.write(start, count);
    const json facts = {
        {"dtype", name_of(t.dtype())},  {"sizes", t.sizes().vec()}, {"strides", t.strides().vec()},
        {"offset", t.storage_offset()}, {"at", written_},           {"bytes", count}};
    written_ += count;
    return {{"tensor", facts}};
  }

  /// A result: row-major.
  json contiguous(const Tensor& t) {
    json out = tensor(t.detach().contiguous().clone());
    out["tensor"]["result_strides"] = t.strides().vec();
    return out;
  }

  /// An argument.
  json value(const Value& v) {
    struct Encode {
      CallWriter& w;
      json operator()(Value::None) const { return nullptr; }
      json operator()(bool b) const { return b; }
      json operator()(int64_t i) const { return i; }
      json operator()(double d) const {
        return std::isfinite(d) ? json(d) : json{{"float", fmt::format("{}", d)}};
      }
      json operator()(const std::string& s) const { return s; }
      json operator()(DType t) const { return {{"dtype", name_of(t)}}; }
      json operator()(MemoryFormat f) const { return {{"format", Value(f).repr()}}; }
      json operator()(const Tensor& t) const {
        if (!t.defined()) return nullptr;
        return is_wrapped(t) ? w.value(Value(t.item())) : w.tensor(t);
      }
      json operator()(const Values& list) const {
        json out = json::array();
        for (const Value& e : list) out.push_back(w.value(e));
        return out;
      }
    };
    return std::visit(Encode{*this}, v.get());
  }

 private:
  std::ofstream calls_, bytes_;
  int64_t written_ = 0;
};

/// Name, schema and arguments of a call.
inline json describe_call(CallWriter& w, const Sample& s) {
  const OpInfo& info = *s.op->info;
  json call = {{"op", info.name},          {"overload", info.overload}, {"schema", s.op->schema},
               {"tolerance", s.tolerance}, {"view", info.is_view},      {"args", json::array()},
               {"kwargs", json::array()}};
  for (const Value& v : s.args) call["args"].push_back(w.value(v));
  for (const NamedValue& v : s.kwargs) call["kwargs"].push_back({v.name, w.value(v.value)});
  return call;
}

}  // namespace pellucid::test
