// TensorImpl, Storage and the free lists that they and the tape's nodes come from.
#include "pellucid/detail/tensor_impl.h"

#include <array>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "base/allocator.h"
#include "kernels/pointwise_plan.h"
#include "pellucid/tensor.h"
#include "tensor/history.h"
#include "tensor/layout.h"
#include "tensor/mode.h"

namespace pellucid {

namespace detail {

constinit thread_local uint8_t modes = kUnknown;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kPooled = false;
#else
constexpr bool kPooled = true;
#endif

constexpr size_t kClassBytes = 64, kClasses = 16;
constexpr uint32_t kKept = 4096;  // blocks of one class: what a graph of as many ops gives back

// Blocks of one thread, by size class. Blocks freed on another thread stay there: the lists are
// bounded. Constant-initialised and without a destructor, so that reaching it takes one
// instruction.
struct Pool {
  struct Block {
    Block* next;
  };
  std::array<Block*, kClasses> free{};
  std::array<uint32_t, kClasses>
      room{};  // how many more blocks may be kept; 0 until `Owner` is there
};
constinit thread_local Pool pool;

// Gives the blocks back when the thread ends; from then on nothing is kept.
struct Owner {
  Owner() { pool.room.fill(kKept); }
  ~Owner() {
    pool.room.fill(0);
    for (Pool::Block*& first : pool.free)
      while (first) std::free(std::exchange(first, first->next));
  }
};

[[gnu::noinline]] void open_pool() { thread_local const Owner owner; }

}  // namespace

void* pool_allocate(size_t bytes) {
  const size_t c = (bytes + kClassBytes - 1) / kClassBytes;
  if (kPooled && c < kClasses) {
    if (Pool::Block* b = pool.free[c]) [[likely]] {
      pool.free[c] = b->next;
      ++pool.room[c];
      return b;
    }
    open_pool();
  }
  void* p = std::malloc(c * kClassBytes);
  if (!p) throw std::bad_alloc();
  return p;
}

void pool_release(void* p, size_t bytes) noexcept {
  const size_t c = (bytes + kClassBytes - 1) / kClassBytes;
  if (kPooled && c < kClasses && pool.room[c] > 0) {
    auto* b = static_cast<Pool::Block*>(p);
    b->next = pool.free[c];
    pool.free[c] = b;
    --pool.room[c];
    return;
  }
  std::free(p);
}

Ref<Storage> new_storage(size_t bytes) {
  const MemoryCategory category = current_memory_category();
  void* data = allocate(bytes, category);
  auto* s = new (pool_allocate(sizeof(Storage))) Storage;
  s->data = data;
  s->bytes = bytes;
  s->category = category;
  return Ref<Storage>::adopt(s);
}

Ref<Storage> borrow_storage(void* data, size_t bytes, std::function<void(void*)> deleter) {
  auto* s = new (pool_allocate(sizeof(Storage))) Storage;
  auto ref = Ref<Storage>::adopt(s);
  s->data = data;
  s->bytes = bytes;
  s->borrowed = true;
  s->notes = Storage::kPointerGivenOut;
  if (deleter) s->deleter = std::make_unique<std::function<void(void*)>>(std::move(deleter));
  return ref;
}

void TensorImpl::destroy(TensorImpl* t) noexcept {
  if (t->meta) release_meta(t->meta);
  t->~TensorImpl();
  pool_release(t, sizeof(TensorImpl));
}

int64_t checked_numel(IntArrayRef sizes) {
  PELLUCID_CHECK(sizes.size() <= kernels::kMaxDims, ShapeError,
                 "a tensor has at most {} dimensions, but {} were asked for.", kernels::kMaxDims,
                 sizes.size());
  int64_t n = 1;
  bool overflow = false, empty = false;
  for (int64_t s : sizes) {
    PELLUCID_CHECK(s >= 0, ShapeError, "sizes must not be negative, found {} in {}.", s, sizes);
    if (s == 0) empty = true;
    overflow |= __builtin_mul_overflow(n, s == 0 ? 1 : s, &n);
  }
  PELLUCID_CHECK(
      empty || !overflow, ValueError,
      "a tensor of sizes {} would have more than 2^63 - 1 elements; choose smaller sizes.", sizes);
  return empty ? 0 : n;
}

namespace {

// The stride after a dim of `size` with stride `step`; 0 beyond 2^63, where only an empty tensor
// gets.
int64_t next_stride(int64_t step, int64_t size) {
  return __builtin_mul_overflow(step, std::max<int64_t>(size, 1), &step) ? 0 : step;
}

}  // namespace

Dims contiguous_strides(IntArrayRef sizes) {
  Dims strides(sizes.size(), 1);
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step = next_stride(step, sizes[i]);
  }
  return strides;
}

Dims channels_last_strides(IntArrayRef sizes) {
  PELLUCID_CHECK(sizes.size() >= 3 && sizes.size() <= 5, ShapeError,
                 "channels_last needs [N, C, …] with one to three more dims, found sizes {}.",
                 sizes);
  Dims strides(sizes.size(), 1);
  int64_t step = sizes[1];
  for (size_t i = sizes.size(); i-- > 2;) {
    strides[i] = step;
    step = next_stride(step, sizes[i]);
  }
  strides[0] = step;
  return strides;
}

void TensorImpl::set_contiguous(IntArrayRef new_sizes) {
  if (new_sizes.size() == 1 && new_sizes[0] >= 0) {
    numel = new_sizes[0];
    sizes.assign(new_sizes);
    strides.resize(1);
    strides[0] = 1;
    return;
  }
  numel = checked_numel(new_sizes);
  sizes.assign(new_sizes);
  const size_t n = new_sizes.size();
  strides.resize(n);
  int64_t step = 1;
  for (size_t i = n; i-- > 0;) {
    strides[i] = step;
    step = next_stride(step, sizes[i]);
  }
}

bool TensorImpl::is_contiguous_nd() const {
  if (numel == 0) return true;
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != step) return false;
    step *= sizes[i];
  }
  return true;
}

bool TensorImpl::is_channels_last() const {
  if (sizes.size() != 4) return false;
  if (numel == 0) return true;
  int64_t step = 1;
  for (size_t i : {1u, 3u, 2u, 0u}) {
    if (sizes[i] == 1) continue;
    if (strides[i] != step) return false;
    step *= sizes[i];
  }
  return true;
}

Ref<TensorImpl> new_impl(DType dtype, IntArrayRef sizes) {
  auto t = Ref<TensorImpl>::adopt(new (pool_allocate(sizeof(TensorImpl))) TensorImpl);
  t->dtype = dtype;
  t->set_contiguous(sizes);
  return t;
}

Ref<TensorImpl> alias_impl(const TensorImpl& src) {
  auto t = Ref<TensorImpl>::adopt(new (pool_allocate(sizeof(TensorImpl))) TensorImpl);
  std::unique_lock<std::mutex> lock;
  if (hides_layout(src)) [[unlikely]]
    lock = std::unique_lock(layout_mutex(src));
  t->dtype = src.dtype;
  t->hidden_layout = src.hidden_layout;
  t->inference = src.inference;
  t->sizes = src.sizes;
  t->strides = src.strides;
  t->numel = src.numel;
  t->offset = src.offset;
  t->storage = src.storage;
  return t;
}

std::mutex& layout_mutex(const TensorImpl& t) {
  static constinit std::array<std::mutex, 16> mutexes;
  return mutexes[(reinterpret_cast<uintptr_t>(&t) >> 6) % mutexes.size()];
}

}  // namespace detail

}  // namespace pellucid
