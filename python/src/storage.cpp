// Storages for Python: all bytes behind a tensor, views of them, other sizes, shared memory, and
// the files that keep tensors of one storage together.
#include "tensor/storage.h"

#include <cstring>

#include "caster.h"
#include "pellucid/io/safetensors.h"
#include "register.h"

namespace pellucid::python {
namespace {

using Names = std::vector<std::pair<std::string, Tensor>>;
using Metadata = std::vector<std::pair<std::string, std::string>>;

const detail::Ref<detail::Storage>& storage_of(const Tensor& t, const char* who) {
  t.expose();
  PELLUCID_CHECK(t.has_storage(), ValueError, "{}: this tensor has sizes but no values ({}).", who,
                 describe(t));
  return t.impl().storage;
}

nb::object bytes_of(const detail::Ref<detail::Storage>& storage) {
  const int64_t sizes[] = {static_cast<int64_t>(storage->bytes)}, strides[] = {1};
  return nb::steal(
      wrap(Tensor(detail::view_of_storage("storage", storage, kUInt8, 0, sizes, strides))));
}

nb::tuple file_content(const io::SafeTensors& file) {
  nb::list tensors;
  for (const auto& [name, tensor] : file.tensors)
    tensors.append(nb::make_tuple(name, nb::steal(wrap(tensor))));
  return nb::make_tuple(tensors, file.metadata);
}

void register_files(nb::module_& m) {
  m.def(
      "_load_tensors",
      [](const std::string& path, bool mmap) {
        io::SafeTensors file;
        {
          const nb::gil_scoped_release unlocked;
          file = io::load_safetensors(path, mmap);
        }
        return file_content(file);
      },
      nb::arg("path"), nb::arg("mmap") = false);
  m.def("_parse_tensors", [](nb::bytes data) {
    return file_content(io::parse_safetensors({data.c_str(), data.size()}));
  });
  m.def("_save_tensors",
        [](const std::string& path, const Names& tensors, const Metadata& metadata) {
          const nb::gil_scoped_release unlocked;
          io::save_tensors(path, tensors, metadata);
        });
  m.def("_tensors_bytes", [](const Names& tensors, const Metadata& metadata) {
    const std::string data = io::tensors_bytes(tensors, metadata);
    return nb::bytes(data.data(), data.size());
  });
}

}  // namespace

void register_storage(nb::module_& m) {
  m.def("_storage_bytes", [](const Tensor& t) { return bytes_of(storage_of(t, "storage")); });
  m.def("_storage_copy", [](const Tensor& t) {
    const auto& storage = storage_of(t, "storage");
    detail::run_writers(*storage);
    return nb::bytes(static_cast<const char*>(storage->data), storage->bytes);
  });
  m.def("_storage_from", [](nb::bytes data) {
    const auto storage = detail::new_storage(data.size());
    if (data.size() > 0) std::memcpy(storage->data, data.c_str(), data.size());
    return bytes_of(storage);
  });
  m.def("_storage_size", [](const Tensor& t) { return storage_of(t, "storage")->bytes; });
  m.def("_storage_view",
        [](const Tensor& t, DType dtype, int64_t offset, const std::vector<int64_t>& sizes,
           const std::vector<int64_t>& strides) {
          return nb::steal(wrap(Tensor(detail::view_of_storage("storage", storage_of(t, "storage"),
                                                               dtype, offset, sizes, strides))));
        });
  m.def("_resize", [](const Tensor& t, const std::vector<int64_t>& sizes) {
    PELLUCID_CHECK(!t.requires_grad(), AutogradError,
                   "cannot resize variables that require grad; use detach() first.");
    detail::resize_tensor(t, sizes);
  });
  m.def("_grow_storage", [](const Tensor& t, size_t bytes) {
    detail::grow_storage(*storage_of(t, "resize_"), bytes);
  });
  m.def("_share", [](const Tensor& t) { detail::share_storage(*storage_of(t, "share_memory_")); });
  m.def("_is_shared", [](const Tensor& t) {
    return t.has_storage() && detail::shared_file_of(*t.impl().storage) >= 0;
  });
  // The descriptor of a shared storage, which stays the storage's.
  m.def("_shared_file",
        [](const Tensor& t) { return detail::shared_file_of(*storage_of(t, "share")); });
  // All bytes of a memory file, whose descriptor is taken over.
  m.def("_open_shared",
        [](int file, size_t bytes) { return bytes_of(detail::open_shared_storage(file, bytes)); });
  register_files(m);
}

}  // namespace pellucid::python
