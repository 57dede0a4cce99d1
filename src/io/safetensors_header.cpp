// The header is read as a stream of events, so that a hostile one costs no more memory than its own
// size, and a name that comes twice is seen.
#include "io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace pellucid::io {
namespace {

using Json = nlohmann::json;

struct DTypeName {
  std::string_view name;
  DType dtype;
};
constexpr DTypeName kNames[] = {
    {"F64", kFloat64}, {"F32", kFloat32}, {"F16", kFloat16}, {"BF16", kBFloat16}, {"I64", kInt64},
    {"I32", kInt32},   {"I16", kInt16},   {"I8", kInt8},     {"U8", kUInt8},      {"BOOL", kBool}};

DType dtype_called(const std::string& name, const std::string& tensor, const std::string& where) {
  for (const DTypeName& n : kNames)
    if (n.name == name) return n.dtype;
  pellucid::detail::raise<TypeError>("{}: tensor '{}' has dtype {}, which pellucid lacks.", where,
                                     tensor, name);
}

/// Takes the events of the parser. Depth 1 is the header's object, 2 a tensor or the metadata, 3 a
/// list in a tensor.
class Events final : public nlohmann::json_sax<Json> {
 public:
  Events(Header& header, const std::string& where) : header_(header), where_(where) {}

  bool key(string_t& name) override {
    if (depth_ == 1) {
      require(names_.insert(name).second, "has the name twice", name);
      in_metadata_ = name == "__metadata__";
      current_ = {};
      current_.name = name;
      seen_ = 0;
    } else {
      field_ = name;
      if (!in_metadata_) {
        const unsigned bit = field_ == "dtype"          ? 1
                             : field_ == "shape"        ? 2
                             : field_ == "data_offsets" ? 4
                                                        : 0;
        require(bit && !(seen_ & bit), "has an unknown or repeated field in", current_.name);
        seen_ |= bit;
      } else {
        require(fields_.insert(name).second, "has the metadata twice:", name);
      }
    }
    return true;
  }
  bool start_object(std::size_t) override {
    require(!in_list_ && depth_ < 2, "nests objects too deeply in", current_.name);
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata_) finish();
    return true;
  }
  bool start_array(std::size_t) override {
    require(depth_ == 2 && !in_metadata_ && !in_list_ && field_ != "dtype", "has a list in",
            current_.name);
    in_list_ = true;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    if (field_ == "shape") {
      for (const uint64_t n : numbers_) {
        require(n <= static_cast<uint64_t>(INT64_MAX), "has a size beyond 2^63 in", current_.name);
        current_.sizes.push_back(static_cast<int64_t>(n));
      }
    } else {
      require(numbers_.size() == 2, "has not two data_offsets in", current_.name);
      current_.begin = numbers_[0];
      current_.end = numbers_[1];
    }
    return true;
  }
  bool number_unsigned(number_unsigned_t n) override {
    require(in_list_ && numbers_.size() < 64, "has a number where none belongs in", current_.name);
    numbers_.push_back(n);
    return true;
  }
  bool string(string_t& text) override {
    require(depth_ == 2 && !in_list_ && (in_metadata_ || field_ == "dtype"),
            "has a string where none belongs in", current_.name);
    if (in_metadata_)
      header_.metadata.emplace_back(field_, text);
    else
      current_.dtype = dtype_called(text, current_.name, where_);
    return true;
  }
  bool null() override { return refuse(); }
  bool boolean(bool) override { return refuse(); }
  bool number_integer(number_integer_t) override { return refuse(); }
  bool number_float(number_float_t, const string_t&) override { return refuse(); }
  bool binary(binary_t&) override { return refuse(); }
  bool parse_error(std::size_t at, const std::string&, const Json::exception&) override {
    pellucid::detail::raise<IoError>("{}: the header is not valid JSON at byte {}.", where_, at);
  }

 private:
  void require(bool condition, std::string_view what, const std::string& name) const {
    PELLUCID_CHECK(condition, IoError, "{}: the header {} '{}'.", where_, what, name);
  }
  bool refuse() const {
    require(false, "has a value of a wrong type in", current_.name);
    return false;
  }
  void finish() {
    require(seen_ == 7, "lacks dtype, shape or data_offsets of", current_.name);
    header_.entries.push_back(std::move(current_));
    current_ = {};
  }
  Header& header_;
  const std::string& where_;
  std::unordered_set<std::string> names_, fields_;
  HeaderEntry current_;
  std::string field_;
  std::vector<uint64_t> numbers_;
  unsigned seen_ = 0;
  int depth_ = 0;
  bool in_list_ = false, in_metadata_ = false;
};

/// The bytes of an entry's elements; throws where its shape and its offsets differ.
void check_entry(const HeaderEntry& e, uint64_t data_bytes, const std::string& where) {
  uint64_t bytes = static_cast<uint64_t>(element_size(e.dtype));
  bool overflow = false, empty = false;
  for (const int64_t n : e.sizes) {
    empty |= n == 0;
    overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(n), &bytes);
  }
  if (empty) bytes = 0;
  PELLUCID_CHECK(
      !(overflow && !empty) && e.begin <= e.end && e.end <= data_bytes && e.end - e.begin == bytes,
      IoError,
      "{}: tensor '{}' of dtype {} and shape {} lies at bytes {} to {} of {}, which "
      "does not fit.",
      where, e.name, e.dtype, e.sizes, e.begin, e.end, data_bytes);
}

}  // namespace

Header parse_header(std::string_view json, uint64_t data_bytes, const std::string& where) {
  Header header;
  PELLUCID_CHECK(!json.empty() && json[0] == '{', IoError,
                 "{}: the header does not begin with '{{'.", where);
  Events events(header, where);
  Json::sax_parse(json.begin(), json.end(), &events);
  std::vector<const HeaderEntry*> order;
  for (const HeaderEntry& e : header.entries) {
    check_entry(e, data_bytes, where);
    order.push_back(&e);
  }
  std::sort(order.begin(), order.end(), [](const HeaderEntry* a, const HeaderEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t filled = 0;
  for (const HeaderEntry* e : order) {
    PELLUCID_CHECK(e->begin == filled, IoError,
                   "{}: tensor '{}' begins at byte {} but the one before ends at {}.", where,
                   e->name, e->begin, filled);
    filled = e->end;
  }
  PELLUCID_CHECK(filled == data_bytes, IoError,
                 "{}: the tensors have {} bytes but the file has {}.", where, filled, data_bytes);
  return header;
}

std::string write_header(const Header& header) {
  const auto text = [](const auto& value) -> std::string {
    try {
      return nlohmann::json(value).dump();
    } catch (const Json::exception&) {
      pellucid::detail::raise<ValueError>("save_safetensors: a name or text is not UTF-8.");
    }
  };
  std::string out = "{";
  if (!header.metadata.empty()) {
    out += "\"__metadata__\":{";
    for (const auto& [key, value] : header.metadata)
      out += text(key) + ":" + text(value) + (&value == &header.metadata.back().second ? "}" : ",");
  }
  for (const HeaderEntry& e : header.entries) {
    const auto* name = std::find_if(std::begin(kNames), std::end(kNames),
                                    [&](const DTypeName& n) { return n.dtype == e.dtype; });
    if (out.size() > 1) out += ',';
    out += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                       text(e.name), name->name, fmt::join(e.sizes, ","), e.begin, e.end);
  }
  out += '}';
  out.append((8 - out.size() % 8) % 8, ' ');
  return out;
}

}  // namespace pellucid::io
