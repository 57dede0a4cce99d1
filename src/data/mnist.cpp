// IDX files (http://yann.lecun.com/exdb/mnist: a magic number, sizes as big-endian int32, then
// bytes), plain or gzipped, and the MNIST data set made of them. A file is read no further than
// its header says, so that neither a false size nor a gzip bomb costs memory.
#include "pellucid/data/datasets/mnist.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "pellucid/memory.h"
#include "pellucid/ops.h"

namespace pellucid::data::datasets {
namespace {

/// zlib's reader takes plain files as they are.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rbe")) {
    PELLUCID_CHECK(file_, IoError, "read_idx: cannot open {}: {}.", path, std::strerror(errno));
    gzbuffer(file_, 1 << 18);
  }
  ~Reader() { gzclose(file_); }
  Reader(const Reader&) = delete;

  void read(void* to, size_t bytes) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const unsigned part = static_cast<unsigned>(std::min<size_t>(bytes, 1 << 30));
      const int got = gzread(file_, at, part);
      int code = 0;
      const char* message = gzerror(file_, &code);
      PELLUCID_CHECK(got > 0, IoError, "read_idx: {}: {}.", path_,
                     got == 0 && code == Z_OK ? "the file ends early" : message);
      at += got;
      bytes -= static_cast<size_t>(got);
    }
  }
  /// Throws unless the file ends here, whole (a gzip file has a checksum at its end).
  void finish(int64_t values) {
    char extra;
    const int got = gzread(file_, &extra, 1);
    int code = 0;
    const char* message = gzerror(file_, &code);
    PELLUCID_CHECK(got <= 0, IoError, "read_idx: {} has bytes after its {} values.", path_, values);
    PELLUCID_CHECK(got == 0 && code == Z_OK, IoError, "read_idx: {}: {}.", path_, message);
  }
  uint32_t big_endian() {
    unsigned char b[4];
    read(b, 4);
    return uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
  }

 private:
  std::string path_;
  gzFile file_;
};

constexpr int64_t kMostBytes = int64_t{1} << 32;

/// The file itself, or the same with .gz.
std::string find(const std::string& root, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    const std::string path = root + "/" + name + ending;
    if (std::filesystem::exists(path)) return path;
  }
  pellucid::detail::raise<IoError>(
      "MNIST: there is neither {0}/{1} nor {0}/{1}.gz; give the folder with the four IDX files.",
      root, name);
}

}  // namespace

Tensor read_idx(const std::string& path) {
  Reader file(path);
  const uint32_t magic = file.big_endian();
  const uint32_t dims = magic & 0xff;
  PELLUCID_CHECK(magic >> 8 == 0x08 && dims >= 1 && dims <= 4, IoError,
                 "read_idx: {} is not an IDX file of unsigned bytes with 1 to 4 dimensions (magic "
                 "number 0x{:08x}).",
                 path, magic);
  Dims sizes;
  int64_t bytes = 1;
  for (uint32_t d = 0; d < dims; ++d) {
    sizes.push_back(file.big_endian());
    PELLUCID_CHECK(!__builtin_mul_overflow(bytes, sizes.back(), &bytes) && bytes <= kMostBytes,
                   IoError, "read_idx: {} claims sizes {}, more than {} bytes.", path, sizes,
                   kMostBytes);
  }
  // In parts: a false size is found out before the memory is taken.
  const MemoryCategoryGuard category(MemoryCategory::Data);
  std::vector<uint8_t> values;
  for (int64_t done = 0; done < bytes;) {
    const int64_t part = std::min<int64_t>(bytes - done, int64_t{1} << 24);
    values.resize(static_cast<size_t>(done + part));
    file.read(values.data() + done, static_cast<size_t>(part));
    done += part;
  }
  file.finish(bytes);
  const Tensor t = empty(sizes, kUInt8);
  if (bytes > 0) std::memcpy(t.raw_data(), values.data(), values.size());
  return t;
}

MNIST::MNIST(const std::string& root, Mode mode)
    : MNIST(read_idx(find(
                root, mode == Mode::kTrain ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte")),
            read_idx(find(
                root, mode == Mode::kTrain ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte")),
            mode) {}

MNIST::MNIST(Tensor images, Tensor labels, Mode mode) : mode_(mode) {
  PELLUCID_CHECK(images.dtype() == kUInt8 && images.dim() == 3, ShapeError,
                 "MNIST: images must be uint8 [N, height, width], found {}.", describe(images));
  PELLUCID_CHECK(labels.dim() == 1 && labels.size(0) == images.size(0), ShapeError,
                 "MNIST: {} images but labels of sizes {}.", images.size(0), labels.sizes());
  bytes_ = images.unsqueeze(1).contiguous();
  targets_ = labels.to(kInt64);
}

Example<> MNIST::get(size_t index) {
  detail::check_index("MNIST", index, *size());
  return {detail::gather(bytes_, index, 255)[0], targets_[static_cast<int64_t>(index)]};
}

Example<> MNIST::get_whole(ArrayRef<size_t> indices, const Normalization& normalization) {
  return {detail::gather(bytes_, indices, 255, normalization), detail::gather(targets_, indices)};
}

std::optional<size_t> MNIST::size() const { return static_cast<size_t>(bytes_.size(0)); }

Tensor MNIST::images() const { return bytes_.to(kFloat32).div(255); }

}  // namespace pellucid::data::datasets
