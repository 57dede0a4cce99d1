#include "base/caller.h"

#include <elfutils/libdwfl.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>

namespace pellucid {
namespace {

struct Range {
  uintptr_t begin = 0, end = 0;
  bool contains(uintptr_t a) const { return a - begin < end - begin; }
};

// The executable segment that holds this very function.
Range own_code() {
  static const Range range = [] {
    Range found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* out) {
          const auto here = reinterpret_cast<uintptr_t>(&caller_outside_library);
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const ElfW(Phdr)& p = info->dlpi_phdr[i];
            if (p.p_type != PT_LOAD || !(p.p_flags & PF_X)) continue;
            const Range r{info->dlpi_addr + p.p_vaddr, info->dlpi_addr + p.p_vaddr + p.p_memsz};
            if (r.contains(here)) {
              *static_cast<Range*>(out) = r;
              return 1;
            }
          }
          return 0;
        },
        &found);
    return found;
  }();
  return range;
}

struct Frame {
  const Frame* previous;
  const void* return_address;
};

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
__attribute__((no_sanitize("address")))
#endif
const void*
caller_outside_library() {
  const Range own = own_code();
  const auto* frame = static_cast<const Frame*>(__builtin_frame_address(0));
  for (int depth = 0; depth < 256 && frame; ++depth) {
    if (!own.contains(reinterpret_cast<uintptr_t>(frame->return_address)))
      return frame->return_address;
    const Frame* next = frame->previous;
    // Frames of a stack lie above each other; anything else is not a frame of ours.
    const auto step = reinterpret_cast<uintptr_t>(next) - reinterpret_cast<uintptr_t>(frame);
    if (step - 1 >= uintptr_t{1} << 22) return nullptr;
    frame = next;
  }
  return nullptr;
}

bool is_library_code(const void* address) {
  return own_code().contains(reinterpret_cast<uintptr_t>(address));
}

std::string source_line(const void* address) {
  if (!address) return {};
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static char* debug_path = nullptr;
  static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                           .find_debuginfo = dwfl_standard_find_debuginfo,
                                           .section_address = nullptr,
                                           .debuginfo_path = &debug_path};
  const std::unique_ptr<Dwfl, void (*)(Dwfl*)> dwfl(dwfl_begin(&callbacks), dwfl_end);
  if (!dwfl || dwfl_linux_proc_report(dwfl.get(), getpid()) != 0) return {};
  dwfl_report_end(dwfl.get(), nullptr, nullptr);
  const auto at = reinterpret_cast<Dwarf_Addr>(address) - 1;  // the call, not what follows it
  Dwfl_Module* module = dwfl_addrmodule(dwfl.get(), at);
  Dwfl_Line* line = module ? dwfl_module_getsrc(module, at) : nullptr;
  if (!line) return {};
  int number = 0;
  const char* file = dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
  return file ? std::string(file) + ":" + std::to_string(number) : std::string();
}

}  // namespace pellucid
