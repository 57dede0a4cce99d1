// The checkpoint format, little-endian:
//   "PELLUCID", uint32 version, uint32 crc of the next 16 bytes, uint64 bytes of the index, uint64
//   bytes of data; the index (JSON), uint32 crc of the index, zeros up to a multiple of 64; the
//   data: each tensor with zeros up to a multiple of 64, and its crc over both in the index.
// A tensor that is in the index twice is in the data once. (Version 1 had it twice.)
// So every byte of the file is compared with something: a constant, a length or a crc.
#include "pellucid/io/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/atomic_file.h"
#include "base/cpu.h"
#include "base/random.h"
#include "io/crc32c.h"
#include "io/formats.h"
#include "io/value_json.h"
#include "pellucid/autograd.h"
#include "pellucid/memory.h"
#include "pellucid/ops.h"

namespace pellucid::io {
namespace {

using Json = nlohmann::json;
constexpr char kMagic[] = {'P', 'E', 'L', 'L', 'U', 'C', 'I', 'D'};
constexpr uint32_t kOldestVersion = 1, kVersion = 2;
constexpr uint64_t kAlign = 64, kMostIndex = uint64_t{1} << 30;
constexpr char kZeros[kAlign] = {};

struct Head {
  char magic[8];
  uint32_t version, crc;
  uint64_t index_bytes, data_bytes;
  uint32_t expected_crc() const { return crc32c(&index_bytes, 16, crc32c(&version, 4)); }
};
static_assert(sizeof(Head) == 32);

uint64_t padded(uint64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

/// A tensor's place in the data.
struct Place {
  Tensor tensor;
  uint64_t bytes;
};

/// Collects the tensors of values on their way into the index.
class Packer {
 public:
  Json operator()(const Tensor& given) {
    const NoGradGuard off;
    given.expose();
    const pellucid::detail::TensorImpl& impl = given.impl();
    const Key key{impl.storage.get(), impl.offset, impl.dtype, impl.sizes.ref().vec(),
                  impl.strides.ref().vec()};
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    const Tensor t = given.detach().contiguous();
    const uint64_t bytes = t.nbytes();
    uint32_t crc = crc32c(bytes ? t.const_data_ptr() : nullptr, bytes);
    crc = crc32c(kZeros, padded(bytes) - bytes, crc);
    Json json = {std::string(name_of(t.dtype())), std::vector<int64_t>(t.sizes().vec()), at_, crc};
    places.push_back({t, bytes});
    at_ += padded(bytes);
    if (bytes > 0) known_.emplace(key, json);
    return json;
  }
  uint64_t size() const { return at_; }
  std::vector<Place> places;

 private:
  using Key = std::tuple<const void*, int64_t, DType, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<Key, Json> known_;
  uint64_t at_ = 0;
};

/// The file to be read, with errors that name it.
class Source {
 public:
  explicit Source(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    PELLUCID_CHECK(file_ >= 0, IoError, "load_checkpoint: cannot open {}: {} (errno {}).", path,
                   std::strerror(errno), errno);
    struct stat facts {};
    if (fstat(file_, &facts) == 0 && S_ISREG(facts.st_mode))
      size_ = static_cast<uint64_t>(facts.st_size);
  }
  ~Source() { close(file_); }
  Source(const Source&) = delete;
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  void read(void* to, uint64_t bytes, uint64_t at) const {
    auto* p = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got =
          pread(file_, p, std::min<uint64_t>(bytes, uint64_t{1} << 30), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      PELLUCID_CHECK(got >= 0, IoError, "load_checkpoint: cannot read {}: {} (errno {}).", path_,
                     std::strerror(errno), errno);
      require(got > 0, "the file ends early");
      p += got;
      at += static_cast<uint64_t>(got);
      bytes -= static_cast<uint64_t>(got);
    }
  }
  void require(bool condition, std::string_view what) const {
    PELLUCID_CHECK(condition, IoError, "load_checkpoint: {} is damaged: {}.", path_, what);
  }

 private:
  std::string path_;
  int file_;
  uint64_t size_ = 0;
};

/// Reads the tensors that the index speaks of, each with its padding, one after the other.
class Unpacker {
 public:
  Unpacker(const Source& source, uint64_t data_at, uint64_t data_bytes, uint32_t version)
      : source_(source), data_at_(data_at), data_bytes_(data_bytes), version_(version) {}

  Tensor operator()(const Json& json) {
    if (const auto place = json.at(2).get<uint64_t>(); version_ >= 2 && place < at_) {
      const auto known = known_.find(place);
      source_.require(known != known_.end() && known->second.first == json,
                      "a tensor lies inside another one");
      return known->second.second;
    }
    const DType dtype = dtype_from_name(json.at(0).get<std::string>());
    const auto sizes = json.at(1).get<std::vector<int64_t>>();
    source_.require(json.at(2).get<uint64_t>() == at_, "a tensor does not follow the one before");
    uint64_t bytes = static_cast<uint64_t>(element_size(dtype));
    for (const int64_t n : sizes)
      source_.require(n >= 0 && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(n), &bytes),
                      "a tensor's sizes are impossible");
    source_.require(bytes <= data_bytes_ - at_ && padded(bytes) <= data_bytes_ - at_,
                    "a tensor is larger than the file");
    const Tensor t = empty(sizes, dtype);
    char rest[kAlign];
    const uint64_t zeros = padded(bytes) - bytes;
    if (bytes > 0) source_.read(t.raw_data(), bytes, data_at_ + at_);
    source_.read(rest, zeros, data_at_ + at_ + bytes);
    uint32_t crc = crc32c(bytes ? t.raw_data() : nullptr, bytes);
    crc = crc32c(rest, zeros, crc);
    source_.require(crc == json.at(3).get<uint32_t>(), "a tensor's checksum differs");
    if (bytes > 0) known_.emplace(at_, std::pair(json, t));
    at_ += padded(bytes);
    return t;
  }
  bool at_end() const { return at_ == data_bytes_; }

 private:
  const Source& source_;
  uint64_t data_at_, data_bytes_, at_ = 0;
  uint32_t version_;
  std::map<uint64_t, std::pair<Json, Tensor>> known_;  ///< by place
};

NamedValues read_index(const std::string& index, Unpacker& unpack, const Source& source) {
  NamedValues values;
  try {
    for (const Json& entry : Json::parse(index))
      values.push_back({entry.at(0).get<std::string>(), from_json(entry.at(1), std::ref(unpack))});
  } catch (const Json::exception& e) {
    source.require(false, e.what());
  } catch (const TypeError& e) { source.require(false, e.what()); }
  return values;
}

void check_json(const std::string& text, const std::string& what) {
  PELLUCID_CHECK(Json::accept(text), ValueError, "{} is not valid JSON.", what);
}

}  // namespace

void save_values(const std::string& path, const NamedValues& values) {
  Packer packer;
  Json index = Json::array();
  for (const NamedValue& v : values)
    index.push_back(Json::array({v.name, to_json(v.value, std::ref(packer))}));
  std::string text;
  try {
    text = index.dump();
  } catch (const Json::exception&) {
    pellucid::detail::raise<ValueError>("save_values: a name or text is not UTF-8.");
  }
  Head head{{}, kVersion, 0, text.size(), packer.size()};
  std::memcpy(head.magic, kMagic, 8);
  head.crc = head.expected_crc();
  const uint32_t crc = crc32c(text.data(), text.size());
  AtomicFile file("save_checkpoint", path);
  file.write(&head, sizeof head);
  file.write(text);
  file.write(&crc, 4);
  file.write(kZeros, padded(file.written()) - file.written());
  for (const Place& p : packer.places) {
    if (p.bytes > 0) file.write(p.tensor.const_data_ptr(), p.bytes);
    file.write(kZeros, padded(p.bytes) - p.bytes);
  }
  file.commit();
}

NamedValues load_values(const std::string& path) {
  const Source source(path);
  Head head{};
  char first[8] = {};
  source.read(first, std::min<uint64_t>(8, source.size()), 0);
  refuse_pickle({first, 8}, path);
  PELLUCID_CHECK(source.size() >= sizeof head && std::memcmp(first, kMagic, 8) == 0, IoError,
                 "load_checkpoint: {} is not a checkpoint of pellucid.", path);
  source.read(&head, sizeof head, 0);
  source.require(head.crc == head.expected_crc(), "the checksum of its head differs");
  PELLUCID_CHECK(head.version >= kOldestVersion && head.version <= kVersion, IoError,
                 "load_checkpoint: {} has version {} of the format; this program reads {} to {}.",
                 path, head.version, kOldestVersion, kVersion);
  source.require(head.index_bytes <= kMostIndex && head.data_bytes <= source.size(),
                 "its lengths are impossible");
  const uint64_t index_end = sizeof head + head.index_bytes + 4, data_at = padded(index_end);
  source.require(
      data_at + head.data_bytes == source.size(),
      fmt::format("it has {} bytes instead of {}", source.size(), data_at + head.data_bytes));
  std::string index(head.index_bytes + 4 + (data_at - index_end), '\0');
  source.read(index.data(), index.size(), sizeof head);
  uint32_t crc;
  std::memcpy(&crc, index.data() + head.index_bytes, 4);
  source.require(index.find_first_not_of('\0', head.index_bytes + 4) == std::string::npos,
                 "its padding is not zero");
  index.resize(head.index_bytes);
  source.require(crc == crc32c(index.data(), index.size()), "the checksum of its index differs");
  Unpacker unpack(source, data_at, head.data_bytes, head.version);
  NamedValues values = read_index(index, unpack, source);
  source.require(unpack.at_end(), "it has data that no tensor owns");
  return values;
}

RandomState random_state() {
  const PhiloxRange state = default_generator().get_state();
  return {state.seed, state.offset};
}

void set_random_state(RandomState state) {
  default_generator().set_state({state.seed, state.offset});
}

void save_checkpoint(const std::string& path, const Checkpoint& c) {
  check_json(c.user, "save_checkpoint: the user's part");
  NamedValues all;
  for (const auto& [name, tensor] : c.model) all.push_back({"model." + name, tensor});
  add_part(all, "optimizer", c.optimizer);
  add_part(all, "scheduler", c.scheduler);
  add_part(all, "loader", c.loader);
  add_part(all, "progress", c.progress);
  all.push_back({"random.seed", std::bit_cast<int64_t>(c.random.seed)});
  all.push_back({"random.offset", std::bit_cast<int64_t>(c.random.offset)});
  all.push_back({"user", c.user});
  all.push_back({"isa", std::string(isa_name(isa()))});
  save_values(path, all);
}

Checkpoint load_checkpoint(const std::string& path) {
  const NamedValues all = load_values(path);
  const std::string who = fmt::format("load_checkpoint: {}", path);
  Checkpoint c;
  for (const NamedValue& v : part_of(all, "model")) c.model.emplace_back(v.name, v.value.tensor());
  c.optimizer = part_of(all, "optimizer");
  c.scheduler = part_of(all, "scheduler");
  c.loader = part_of(all, "loader");
  c.progress = part_of(all, "progress");
  c.random = {std::bit_cast<uint64_t>(integer_of(all, "random.seed", who)),
              std::bit_cast<uint64_t>(integer_of(all, "random.offset", who))};
  c.user = text_of(all, "user", who);
  if (find_value(all, "isa")) c.isa = text_of(all, "isa", who);
  return c;
}

std::string Checkpoint::warning() const {
  const std::string_view level = isa_name(pellucid::isa());
  if (isa.empty() || isa == level) return {};
  return fmt::format(
      "the run was saved with the ISA level {} and continues with {}: products and functions such "
      "as exp are rounded differently, so the last digits differ from those of an uninterrupted "
      "run",
      isa, level);
}

}  // namespace pellucid::io
