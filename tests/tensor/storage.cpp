// Storages that are exported, grow, or lie in memory that processes share.
#include "tensor/storage.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "pellucid/pellucid.h"

using namespace pellucid;
using pellucid::detail::ExportedStorage;
using pellucid::detail::open_shared_storage;
using pellucid::detail::resize_tensor;
using pellucid::detail::share_storage;
using pellucid::detail::shared_file_of;
using pellucid::detail::view_of_storage;

namespace {

detail::Storage& storage_of(const Tensor& t) { return *t.impl().storage; }

}  // namespace

TEST_CASE("storage: an export keeps the bytes when the tensor gets others") {
  Tensor t = arange(4, kFloat32);
  const auto* data = static_cast<const float*>(t.raw_data());
  {
    const ExportedStorage exported(t.impl().storage);
    t.set_data(zeros({2}));
    const Tensor other = full({4}, -1.0f);  // would take the memory if it were free
    CHECK(data[3] == 3.0f);
    CHECK(other.raw_data() != data);
  }
  Tensor u = arange(4, kFloat32);
  { const ExportedStorage exported(u.impl().storage); }
  CHECK_THROWS_WITH_AS(resize_tensor(u, {100}), doctest::Contains("not resizable"), ValueError);
  CHECK(u.equal(arange(4, kFloat32)));
  resize_tensor(u, {2});
  CHECK(u.equal(arange(2, kFloat32)));
}

TEST_CASE("storage: growing moves it for all of its tensors") {
  const Tensor t = arange(6, kFloat32), view = t.slice(0, 2, 4);
  resize_tensor(view, {10});
  CHECK(storage_of(t).bytes == 48);
  view.fill_(7);
  CHECK(t.equal(tensor({0.0f, 1.0f, 7.0f, 7.0f, 7.0f, 7.0f})));
  CHECK_THROWS_AS(resize_tensor(t, {int64_t{1} << 62}), ValueError);
  CHECK_THROWS_AS(resize_tensor(t, {-1}), ShapeError);
  CHECK(t.numel() == 6);
  float memory[4] = {};
  CHECK_THROWS_AS(resize_tensor(from_blob(memory, {4}), {5}), ValueError);
}

TEST_CASE("storage: views beyond a storage are refused") {
  const auto storage = detail::new_storage(16);
  const auto view = [&](DType dtype, int64_t offset, IntArrayRef sizes, IntArrayRef strides) {
    return view_of_storage("test", storage, dtype, offset, sizes, strides);
  };
  CHECK(view(kFloat32, 1, {2}, {2})->numel == 2);
  CHECK(view(kInt64, 0, {1 << 20, 2}, {0, 1})->numel == 2 << 20);
  CHECK(view(kFloat32, 0, {0, 5}, {5, 1})->numel == 0);
  CHECK_THROWS_AS(view(kFloat32, 1, {2}, {3}), ValueError);
  CHECK_THROWS_AS(view(kFloat32, 4, {1}, {1}), ValueError);
  CHECK_THROWS_AS(view(kFloat32, -1, {1}, {1}), ValueError);
  CHECK_THROWS_AS(view(kFloat32, 0, {2}, {-1}), ValueError);
  CHECK_THROWS_AS(view(kFloat32, 0, {2}, {INT64_MAX}), ValueError);
  CHECK_THROWS_AS(view(kFloat32, INT64_MAX, {1}, {1}), ValueError);
  CHECK_THROWS_AS(view(kFloat32, 0, {1}, {}), ShapeError);
}

TEST_CASE("storage: shared memory is seen by a child, counted, and given back") {
  const int64_t before = memory_stats().allocated;
  {
    const Tensor t = zeros({1000}), view = t.slice(0, 10, 20);
    share_storage(storage_of(t));
    CHECK(shared_file_of(storage_of(view)) >= 0);
    CHECK(memory_stats().allocated == before + 4000);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      static_cast<float*>(view.raw_data())[0] = 5;
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    CHECK(t[10].item<float>() == 5);
    // Its file, opened again, is the same storage.
    const int file = dup(shared_file_of(storage_of(t)));
    CHECK(open_shared_storage(file, 4000).get() == &storage_of(t));
    CHECK_THROWS_AS(open_shared_storage(dup(shared_file_of(storage_of(t))), 5000), IoError);
    const Tensor empty = zeros({0});
    share_storage(storage_of(empty));
    CHECK(shared_file_of(storage_of(empty)) >= 0);
    const Tensor exported = ones({3});
    const ExportedStorage looks(exported.impl().storage);
    CHECK_THROWS_WITH_AS(share_storage(storage_of(exported)), doctest::Contains("looks at"),
                         ValueError);
  }
  CHECK(memory_stats().allocated == before);
}

TEST_CASE("storage: a shared one is found again while another thread drops it") {
  for (int round = 0; round < 300; ++round) {
    Tensor t = full({4}, 3.0);
    share_storage(storage_of(t));
    const int file = dup(shared_file_of(storage_of(t)));
    std::atomic<bool> go{false};
    std::thread dropper([&] {
      while (!go) {}
      t.reset();
    });
    go = true;
    const auto found = open_shared_storage(file, 16);
    dropper.join();
    CHECK(static_cast<const float*>(found->data)[3] == 3.0f);
  }
}
