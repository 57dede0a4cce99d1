// Exports, growth and sharing of storages. Shared memory is a memory file (memfd_create): it has no
// name that could be left behind, and goes away with the last process that maps it or holds its
// descriptor. The file is sealed against shrinking, so no process can pull the pages from under
// another.
#include "tensor/storage.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "base/allocator.h"
#include "pellucid/error.h"
#include "tensor/pending.h"
#include "tensor/phantom.h"

namespace pellucid::detail {

namespace {

/// What is known of a storage that was exported or is shared.
struct ExternalUse {
  uint32_t exports = 0;       ///< arrays, memoryviews and capsules that look at the bytes now
  bool was_exported = false;  ///< the program may keep an address: the size is fixed
  int file = -1;              ///< the memory file of shared bytes
};
using FileKey = std::pair<dev_t, ino_t>;

/// Those uses by storage, and which memory files this process has mapped, so that tensors that
/// arrive one by one share a storage again. Every storage in here has kPointerGivenOut, and
/// leaves before it dies.
struct UseTable {
  std::mutex mutex;
  std::unordered_map<const Storage*, ExternalUse> of;
  std::map<FileKey, Storage*> by_file;
  static UseTable& get() {
    static auto* const table = new UseTable;  // storages may outlive static objects
    return *table;
  }
};

/// The memory of a storage, and how it is given back.
struct Bytes {
  void* data;
  size_t bytes;
  MemoryCategory category;
  std::unique_ptr<std::function<void(void*)>> deleter;
  bool borrowed;
};

Bytes take_bytes(Storage& s) noexcept {
  return {s.data, s.bytes, s.category, std::move(s.deleter), s.borrowed};
}

void free_bytes(const Bytes& b) noexcept {
  if (b.deleter)
    (*b.deleter)(b.data);
  else if (!b.borrowed)
    deallocate(b.data, b.bytes, b.category);
}

struct FileFacts {
  FileKey key;
  size_t bytes = 0;
};

FileFacts facts_of(int file) {
  struct stat s {};
  PELLUCID_CHECK(fstat(file, &s) == 0, IoError, "shared memory: descriptor {} is not open: {}.",
                 file, std::strerror(errno));
  return {{s.st_dev, s.st_ino}, static_cast<size_t>(s.st_size)};
}

/// A memory file of `bytes`.
int new_memory_file(size_t bytes) {
  const int file = memfd_create("pellucid", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  PELLUCID_CHECK(file >= 0, IoError,
                 "share_memory_: no memory file can be made: {} (errno {}). Each shared storage "
                 "needs a descriptor; `ulimit -n` shows and raises the limit.",
                 std::strerror(errno), errno);
  const bool good = ftruncate(file, static_cast<off_t>(bytes)) == 0 &&
                    fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  const int error = errno;
  if (!good) close(file);
  PELLUCID_CHECK(good, IoError, "share_memory_: no memory file of {} bytes can be made: {}.", bytes,
                 std::strerror(error));
  return file;
}

void* map_file(int file, size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  PELLUCID_CHECK(p != MAP_FAILED, IoError, "shared memory: {} bytes cannot be mapped: {}.", bytes,
                 std::strerror(errno));
  return p;
}

size_t mapped_bytes(size_t bytes) { return std::max<size_t>(bytes, 1); }

/// Makes `s` the owner of a mapping; its former bytes are gone already. The lock is held.
void adopt_mapping(Storage& s, void* data, int file, size_t bytes, FileKey key) {
  s.data = data;
  s.bytes = bytes;
  // Other processes see the bytes: no result may be written over them, none may be cached.
  s.borrowed = true;
  s.note_pointer_given_out();
  fcntl(file, F_SETFD, FD_CLOEXEC);
  Storage* const self = &s;  // whose category may change
  s.deleter = std::make_unique<std::function<void(void*)>>([=](void* p) {
    count_unmapped(p, bytes, self->category);
    munmap(p, mapped_bytes(bytes));
    close(file);
  });
  count_mapped(data, bytes, s.category);
  UseTable& table = UseTable::get();
  table.of[&s].file = file;
  table.by_file[key] = &s;
}

}  // namespace

ExportedStorage::ExportedStorage(Ref<Storage> storage) : storage_(std::move(storage)) {
  if (!storage_) return;
  settle(*storage_);
  storage_->note_pointer_given_out();
  UseTable& table = UseTable::get();
  const std::lock_guard lock(table.mutex);
  ExternalUse& use = table.of[storage_.get()];
  use.was_exported = true;
  ++use.exports;
}

ExportedStorage::~ExportedStorage() {
  if (!storage_) return;
  UseTable& table = UseTable::get();
  const std::lock_guard lock(table.mutex);
  --table.of[storage_.get()].exports;
}

namespace {

/// Forgets what is held of a storage, and takes it from the table; false where open_shared_storage
/// has given out a new reference meanwhile, so that it lives on. A sole owner's last reference is
/// still counted here (Ref).
[[gnu::noinline]] bool forget_use(Storage* s) {
  bytes_change(*s);
  if (!s->pointer_given_out()) return true;
  UseTable& table = UseTable::get();
  const std::lock_guard lock(table.mutex);
  const auto found = table.of.find(s);
  if (found == table.of.end()) return true;
  if (found->second.file >= 0) {
    if (s->refs.load(std::memory_order_acquire) > 0 &&
        s->refs.fetch_sub(1, std::memory_order_acq_rel) > 1)
      return false;
    std::erase_if(table.by_file, [s](const auto& item) { return item.second == s; });
  }
  table.of.erase(found);
  return true;
}

}  // namespace

void Storage::destroy(Storage* s) noexcept {
  if (s->notes.load(std::memory_order_relaxed) != 0 && !forget_use(s)) return;
  free_bytes(take_bytes(*s));
  s->~Storage();
  pool_release(s, sizeof(Storage));
}

int shared_file_of(const Storage& s) {
  if (!s.pointer_given_out()) return -1;
  UseTable& table = UseTable::get();
  const std::lock_guard lock(table.mutex);
  const auto found = table.of.find(&s);
  return found == table.of.end() ? -1 : found->second.file;
}

void grow_storage(Storage& s, size_t bytes) {
  if (bytes <= s.bytes) return;
  settle(s);
  ExternalUse use;
  {
    UseTable& table = UseTable::get();
    const std::lock_guard lock(table.mutex);
    if (const auto found = table.of.find(&s); found != table.of.end()) use = found->second;
  }
  PELLUCID_CHECK(!s.borrowed && !use.was_exported, ValueError,
                 "Trying to resize storage that is not resizable: {} bytes are needed and it has "
                 "{}, but the memory {}. Resize a clone() instead.",
                 bytes, s.bytes,
                 use.file >= 0 ? "is shared with other processes"
                 : s.borrowed  ? "belongs to another object (from_numpy, from_blob, a file)"
                               : "was given to NumPy, a memoryview or DLPack");
  PELLUCID_CHECK(!is_counted(s), NotImplementedError,
                 "resize_: a tensor made under EstimateGuard has no memory to grow.");
  void* data = allocate(bytes, s.category);
  if (s.bytes > 0) std::memcpy(data, s.data, s.bytes);
  free_bytes(take_bytes(s));
  s.data = data;
  s.bytes = bytes;
}

void share_storage(Storage& s) {
  settle(s);
  UseTable& table = UseTable::get();
  std::unique_lock lock(table.mutex);
  const auto known = table.of.find(&s);
  const ExternalUse use = known == table.of.end() ? ExternalUse{} : known->second;
  if (use.file >= 0) return;
  PELLUCID_CHECK(!is_counted(s), NotImplementedError,
                 "share_memory_: a tensor made under EstimateGuard has no memory to share.");
  PELLUCID_CHECK(use.exports == 0, ValueError,
                 "share_memory_: a NumPy array, memoryview or DLPack capsule looks at this memory, "
                 "so it cannot move to where processes share it. Share first and take the array "
                 "then, or share a clone().");
  const int file = new_memory_file(mapped_bytes(s.bytes));
  void* data = nullptr;
  try {
    data = map_file(file, mapped_bytes(s.bytes));
  } catch (...) {
    close(file);
    throw;
  }
  if (s.bytes > 0) std::memcpy(data, s.data, s.bytes);
  const FileKey key = facts_of(file).key;
  const Bytes former = take_bytes(s);
  adopt_mapping(s, data, file, s.bytes, key);
  lock.unlock();  // a deleter may run any code
  free_bytes(former);
}

Ref<Storage> open_shared_storage(int file, size_t bytes) {
  struct Close {
    int file;
    ~Close() {
      if (file >= 0) close(file);
    }
  } closer{file};
  const FileFacts facts = facts_of(file);
  PELLUCID_CHECK(facts.bytes >= mapped_bytes(bytes), IoError,
                 "shared memory: the file has {} bytes but {} were announced.", facts.bytes, bytes);
  UseTable& table = UseTable::get();
  const std::lock_guard lock(table.mutex);
  if (const auto found = table.by_file.find(facts.key); found != table.by_file.end()) {
    // One whose count has reached zero waits for the lock to leave the list (forget_use).
    uint32_t n = found->second->refs.load(std::memory_order_relaxed);
    while (n > 0 && !found->second->refs.compare_exchange_weak(n, n + 1)) {}
    if (n > 0) {
      if (table.of[found->second].file == file) closer.file = -1;
      return Ref<Storage>::adopt(found->second);
    }
  }
  void* data = map_file(file, mapped_bytes(bytes));
  Ref<Storage> s = borrow_storage(data, bytes, {});
  s->category = current_memory_category();
  adopt_mapping(*s, data, file, bytes, facts.key);
  closer.file = -1;
  return s;
}

size_t reach_of(std::string_view who, DType dtype, int64_t offset, IntArrayRef sizes,
                IntArrayRef strides) {
  PELLUCID_CHECK(sizes.size() == strides.size(), ShapeError, "{}: {} sizes but {} strides.", who,
                 sizes.size(), strides.size());
  PELLUCID_CHECK(offset >= 0, ValueError, "{}: the offset {} is negative.", who, offset);
  const int64_t count = checked_numel(sizes);
  for (const int64_t step : strides)
    PELLUCID_CHECK(step >= 0, ValueError, "{}: strides must not be negative, found {}.", who,
                   strides);
  int64_t last = offset, bytes = 0;
  bool fits = true;
  for (size_t i = 0; i < sizes.size() && count > 0; ++i) {
    int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  fits = fits && !__builtin_add_overflow(last, 1, &last) &&
         !__builtin_mul_overflow(last, element_size(dtype), &bytes);
  PELLUCID_CHECK(fits, ValueError, "{}: sizes {} and strides {} at offset {} pass 2^63 bytes.", who,
                 sizes, strides, offset);
  return count == 0 ? 0 : static_cast<size_t>(bytes);
}

Ref<TensorImpl> view_of_storage(std::string_view who, Ref<Storage> storage, DType dtype,
                                int64_t offset, IntArrayRef sizes, IntArrayRef strides) {
  const size_t reach = reach_of(who, dtype, offset, sizes, strides);
  PELLUCID_CHECK(
      reach <= storage->bytes, ValueError,
      "{}: sizes {} and strides {} of {} at offset {} need {} bytes, but the storage has "
      "{}.",
      who, sizes, strides, dtype, offset, reach, storage->bytes);
  const auto address = reinterpret_cast<uintptr_t>(storage->data);
  PELLUCID_CHECK(reach == 0 || address % static_cast<uintptr_t>(element_size(dtype)) == 0,
                 ValueError, "{}: the storage is not aligned for {}.", who, dtype);
  auto impl = new_impl(dtype, sizes);
  impl->strides.assign(strides);
  impl->offset = offset;
  impl->storage = std::move(storage);
  return impl;
}

void resize_tensor(const Tensor& t, IntArrayRef sizes) {
  t.expose();
  TensorImpl& impl = t.impl();
  if (impl.sizes == sizes) return;
  PELLUCID_CHECK(impl.storage, ValueError, "resize_: this tensor has sizes but no values ({}).",
                 describe(t));
  grow_storage(*impl.storage,
               reach_of("resize_", impl.dtype, impl.offset, sizes, contiguous_strides(sizes)));
  impl.set_contiguous(sizes);
}

}  // namespace pellucid::detail
