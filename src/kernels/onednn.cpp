// The shared parts of the oneDNN kernels; see onednn.h.
#include "kernels/onednn.h"

#include "pellucid/error.h"

namespace pellucid::kernels::onednn {

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

const dnnl::stream& stream() {
  thread_local const dnnl::stream mine(engine());
  return mine;
}

void execute(const dnnl::primitive& primitive, std::initializer_list<Argument> arguments) {
  constexpr int kMost = 8;
  dnnl_exec_arg_t list[kMost];
  int count = 0;
  dnnl_status_t status = dnnl_success;
  for (const Argument& a : arguments) {
    if (a.data == nullptr) continue;
    PELLUCID_ASSERT(count < kMost);
    status = dnnl_memory_create(&list[count].memory, &a.desc->data, engine().get(),
                                const_cast<void*>(a.data));
    if (status != dnnl_success) break;
    list[count++].arg = a.role;
  }
  if (status == dnnl_success)
    status = dnnl_primitive_execute(primitive.get(), stream().get(), count, list);
  if (status == dnnl_success) status = dnnl_stream_wait(stream().get());
  for (int i = 0; i < count; ++i) dnnl_memory_destroy(list[i].memory);
  PELLUCID_CHECK(status != dnnl_out_of_memory, OutOfMemoryError,
                 "oneDNN: a primitive could not get memory");
  PELLUCID_CHECK(status == dnnl_success, Error, "oneDNN: a primitive failed with status {}",
                 static_cast<int>(status));
}

}  // namespace pellucid::kernels::onednn
