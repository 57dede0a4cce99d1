#include "base/caller.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <link.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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

bool is_header_file(std::string_view file) {
  return file.find("include/pellucid/") != std::string_view::npos;
}

// Debug information of this process, opened at the first question. Guarded by its mutex.
class DebugInformation {
 public:
  static DebugInformation& get() {
    static auto* const information = new DebugInformation;
    return *information;
  }
  std::mutex mutex;

  /// The module that holds an address; null where it is in none.
  Dwfl_Module* module_of(Dwarf_Addr at) {
    Dwfl_Module* found = dwfl_ ? dwfl_addrmodule(dwfl_, at) : nullptr;
    if (!found && report()) found = dwfl_addrmodule(dwfl_, at);  // loaded since
    return found;
  }

  /// The source line of an address as "file:12"; the file alone on request.
  static std::string line_of(Dwfl_Module* module, Dwarf_Addr at, bool with_number) {
    Dwfl_Line* line = module ? dwfl_module_getsrc(module, at) : nullptr;
    int number = 0;
    const char* file =
        line ? dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr) : nullptr;
    if (!file) return {};
    return with_number ? std::string(file) + ":" + std::to_string(number) : std::string(file);
  }

  /// The same; where code of headers was inlined, the line of the program that called it.
  const std::string& program_line_of(Dwarf_Addr at) {
    const auto [known, is_new] = lines_.try_emplace(at);
    if (!is_new) return known->second;
    Dwfl_Module* const module = module_of(at);
    std::string& found = known->second = line_of(module, at, true);
    if (found.empty() || is_of_program(found)) return found;
    Dwarf_Addr bias = 0;
    Dwarf_Die* const unit = dwfl_module_addrdie(module, at, &bias);
    std::vector<Dwarf_Die> inlined;
    if (unit) find_inlined(unit, at - bias, inlined);
    for (auto die = inlined.rbegin(); die != inlined.rend(); ++die)
      if (std::string caller = call_of(unit, &*die); is_of_program(caller)) {
        found = std::move(caller);
        break;
      }
    return found;
  }

 private:
  static bool is_of_program(std::string_view line) {
    return !line.empty() && !is_header_file(line) && !line.starts_with("/usr/include/");
  }
  static Dwarf_Word number_of(Dwarf_Die* die, unsigned kind) {
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    return dwarf_attr(die, kind, &attribute) && dwarf_formudata(&attribute, &value) == 0 ? value
                                                                                         : 0;
  }
  // The inlined functions around an address, the innermost last. A lambda is written inside a
  // function that does not hold its addresses, so every function is looked into.
  static bool find_inlined(Dwarf_Die* in, Dwarf_Addr at, std::vector<Dwarf_Die>& inlined) {
    Dwarf_Die child;
    if (dwarf_child(in, &child) != 0) return false;
    do {
      const int tag = dwarf_tag(&child);
      const bool is_code = tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block ||
                           tag == DW_TAG_inlined_subroutine;
      const bool holds = is_code && dwarf_haspc(&child, at) > 0;
      const bool may_hold = tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block ||
                            tag == DW_TAG_namespace || tag == DW_TAG_structure_type ||
                            tag == DW_TAG_class_type;
      if (holds && tag == DW_TAG_inlined_subroutine) inlined.push_back(child);
      if (((holds || may_hold) && find_inlined(&child, at, inlined)) || holds) return true;
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
  }
  // Where an inlined function was called, as "file:12".
  static std::string call_of(Dwarf_Die* unit, Dwarf_Die* inlined) {
    Dwarf_Files* files = nullptr;
    size_t count = 0;
    const Dwarf_Word file = number_of(inlined, DW_AT_call_file);
    if (dwarf_getsrcfiles(unit, &files, &count) != 0 || file >= count) return {};
    const char* const name = dwarf_filesrc(files, file, nullptr, nullptr);
    return name ? name + (":" + std::to_string(number_of(inlined, DW_AT_call_line)))
                : std::string();
  }
  bool report() {
    static char* debug_path = nullptr;
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo,
                                             .section_address = nullptr,
                                             .debuginfo_path = &debug_path};
    if (dwfl_) dwfl_end(dwfl_);
    dwfl_ = dwfl_begin(&callbacks);
    if (!dwfl_ || dwfl_linux_proc_report(dwfl_, getpid()) != 0) return false;
    dwfl_report_end(dwfl_, nullptr, nullptr);
    return true;
  }
  Dwfl* dwfl_ = nullptr;
  std::unordered_map<Dwarf_Addr, std::string> lines_;  // of the program, by address
};

// Whether the function that holds an address is written in one of our headers.
[[gnu::noinline]] bool find_header_code(uintptr_t address) {
  DebugInformation& information = DebugInformation::get();
  const std::lock_guard lock(information.mutex);
  const Dwarf_Addr at = address - 1;  // the call, not what follows it
  Dwfl_Module* module = information.module_of(at);
  GElf_Off offset = 0;
  GElf_Sym symbol;
  if (!module || !dwfl_module_addrinfo(module, at, &offset, &symbol, nullptr, nullptr, nullptr))
    return false;
  const std::string file = DebugInformation::line_of(module, at - offset, false);
  return is_header_file(file);
}

// The answers so far: an entry is a code address and, in its lowest bit, the answer. Every address
// is asked for once; where the table has no room for it, it counts as the program's.
bool is_header_code(const void* code) {
  constexpr size_t kEntries = 4096, kProbes = 16;
  static constinit std::array<std::atomic<uintptr_t>, kEntries> known{};
  const auto address = reinterpret_cast<uintptr_t>(code);
  const size_t first = address * 0x9e3779b97f4a7c15u >> 52;
  for (size_t i = 0; i < kProbes; ++i) {
    std::atomic<uintptr_t>& entry = known[(first + i) % kEntries];
    const uintptr_t found = entry.load(std::memory_order_relaxed);
    if (found >> 1 == address) [[likely]]
      return (found & 1) != 0;
    if (found != 0) continue;
    const bool answer = find_header_code(address);
    entry.store(address << 1 | static_cast<uintptr_t>(answer), std::memory_order_relaxed);
    return answer;
  }
  return false;
}

// A function of our headers that the compiler did not inline, in code that may have no frame
// pointers: its caller is found by unwinding.
const void* caller_outside_headers() {
  const void* found = nullptr;
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* out) {
        const auto* at = reinterpret_cast<const void*>(_Unwind_GetIP(context));
        if (!at || is_library_code(at) || is_header_code(at)) return _URC_NO_REASON;
        *static_cast<const void**>(out) = at;
        return _URC_END_OF_STACK;
      },
      &found);
  return found;
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
__attribute__((no_sanitize("address")))
#endif
const void*
caller_outside_library() {
  const Range own = own_code();
  const auto* frame = static_cast<const Frame*>(__builtin_frame_address(0));
  for (int depth = 0; depth < 256 && frame; ++depth) {
    if (!own.contains(reinterpret_cast<uintptr_t>(frame->return_address))) {
      if (!is_header_code(frame->return_address)) [[likely]]
        return frame->return_address;
      const void* caller = caller_outside_headers();
      return caller ? caller : frame->return_address;
    }
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
  DebugInformation& information = DebugInformation::get();
  const std::lock_guard lock(information.mutex);
  const auto at = reinterpret_cast<Dwarf_Addr>(address) - 1;  // the call, not what follows it
  return information.program_line_of(at);
}

}  // namespace pellucid
