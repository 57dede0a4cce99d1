// Which line of the program runs: an address in its code without unwinding, Python's line, or on
// request the whole stack. Names are looked up after the run; here an address becomes a file and an
// offset.
#include <link.h>
#include <unistd.h>
#include <unwind.h>

#include <nlohmann/json.hpp>

#include "base/caller.h"
#include "recorder/python_place.h"
#include "recorder/recorder_state.h"

namespace pellucid::profile {
namespace {

struct CodePlace {
  uintptr_t address = 0;
  std::string object;
  uintptr_t offset = 0;
};

int find_object(dl_phdr_info* info, size_t, void* out) {
  auto& place = *static_cast<CodePlace*>(out);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p.p_vaddr;
    if (p.p_type != PT_LOAD || place.address < begin || place.address >= begin + p.p_memsz)
      continue;
    place.object = info->dlpi_name;
    place.offset = place.address - info->dlpi_addr;
    return 1;
  }
  return 0;
}

// The members of a site's definition: the file that holds the code, and where in it.
std::string code_place(uint64_t address) {
  CodePlace place{static_cast<uintptr_t>(address) - 1, {}, 0};  // the call, not what follows it
  if (dl_iterate_phdr(find_object, &place) == 0) return "\"object\":\"\",\"offset\":0";
  if (place.object.empty()) place.object = own_program();
  return fmt::format("\"object\":{},\"offset\":{}", json_text(place.object), place.offset);
}

struct Backtrace {
  static constexpr int kMost = 64;
  uint64_t addresses[kMost];
  int count = 0;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* out) {
  auto& b = *static_cast<Backtrace*>(out);
  const auto address = static_cast<uint64_t>(_Unwind_GetIP(context));
  if (address && !is_library_code(reinterpret_cast<const void*>(address)))
    b.addresses[b.count++] = address;
  return b.count < Backtrace::kMost ? _URC_NO_REASON : _URC_END_OF_STACK;
}

// The stack of the program above the library, as a number.
uint32_t current_stack() noexcept {
  Recorder& r = Recorder::get();
  if (r.python.stack_key)
    if (const uint64_t key = r.python.stack_key())
      return kRawStack | number(&ThreadLog::stacks, &Recorder::stacks, key, "stack",
                                [&] { return "\"frames\":" + r.python.describe_stack(key); });
  Backtrace b;
  _Unwind_Backtrace(add_frame, &b);
  if (b.count == 0) return 0;
  uint64_t key = 0x57ac;
  for (int i = 0; i < b.count; ++i) key = mix(key, b.addresses[i]);
  return kRawStack | number(&ThreadLog::stacks, &Recorder::stacks, key, "stack", [&] {
           std::string frames;
           for (int i = 0; i < b.count; ++i)
             frames += fmt::format("{}{{{}}}", i ? "," : "", code_place(b.addresses[i]));
           return "\"frames\":[" + frames + "]";
         });
}

// Set once, when the package for Python is imported.
constinit std::atomic<uint64_t (*)() noexcept> g_python_key{nullptr};

}  // namespace

void set_python_sites(PythonSites sites) noexcept {
  Recorder::get().python = sites;
  g_python_key.store(sites.key);
}

std::string python_line_now() noexcept {
  try {
    const PythonSites& python = Recorder::get().python;
    const uint64_t key = python.key ? python.key() : 0;
    if (key == 0) return {};
    const auto j = nlohmann::json::parse("{" + python.describe(key) + "}", nullptr, false);
    const std::string file = j.value("file", "");
    return file.empty() ? "" : fmt::format("{}:{}", file, j.value("line", 0));
  } catch (const std::exception&) { return {}; }
}

uint64_t find_place() noexcept {
  if (g_stacks.load(std::memory_order_relaxed)) [[unlikely]]
    return kNumbered | current_stack();
  if (const auto python_key = g_python_key.load(std::memory_order_relaxed)) {
    if (const uint64_t key = python_key())
      return kNumbered | number(&ThreadLog::sites, &Recorder::sites, key, "site",
                                [&] { return Recorder::get().python.describe(key); });
  }
  return reinterpret_cast<uint64_t>(caller_outside_library());
}

uint32_t site_of(uint64_t place) noexcept {
  if (place == 0 || place & kNumbered) return static_cast<uint32_t>(place);
  return number(&ThreadLog::sites, &Recorder::sites, place, "site",
                [&] { return code_place(place); });
}

std::string own_program() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string();
}

}  // namespace pellucid::profile
