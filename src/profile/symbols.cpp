#include "profile/symbols.h"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>

namespace pellucid::profile {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string s = status == 0 && text ? text : name;
  std::free(text);
  return s;
}

// Without what stands in round or pointed brackets.
std::string without_brackets(std::string_view name) {
  int depth = 0;
  std::string out;
  for (const char c : name) {
    depth += c == '<' || c == '(';
    if (depth == 0) out += c;
    depth -= c == '>' || c == ')';
  }
  return out;
}

// Without parameters and template arguments: a table has no room for them. A lambda is named after
// the function that it is written in: "main::{lambda#1}".
std::string short_function(std::string name) {
  const size_t call = name.rfind("::operator()");
  if (call != std::string::npos && name.find("{lambda(") < call)
    return without_brackets(std::string_view(name).substr(0, call));
  if (name.starts_with("operator") || name.find("::operator") != std::string::npos) return name;
  int depth = 0;
  std::string out;
  for (const char c : name) {
    if (c == '(' && depth == 0 && !out.empty() && !out.ends_with("::")) break;
    depth += c == '<' || c == '(';
    if (depth == 0) out += c;
    depth -= c == '>' || c == ')';
  }
  return out.empty() ? name : out;
}

const char* die_name(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned kind : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name})
    if (dwarf_attr_integrate(die, kind, &attribute))
      if (const char* name = dwarf_formstring(&attribute)) return name;
  return nullptr;
}

int number_of(Dwarf_Die* die, unsigned kind) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  return dwarf_attr(die, kind, &attribute) && dwarf_formudata(&attribute, &value) == 0
             ? static_cast<int>(value)
             : 0;
}

// Compilers write paths as they were given; relative ones start where the compiler ran.
std::string whole_path(const std::string& folder, const std::string& file) {
  return (std::filesystem::path(folder) / file).lexically_normal().string();
}

std::string folder_of(Dwarf_Die* unit) {
  Dwarf_Attribute attribute;
  const char* folder = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
  return folder ? folder : "";
}

const char* call_file(Dwarf_Die* unit, Dwarf_Die* die) {
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  const auto index = static_cast<size_t>(number_of(die, DW_AT_call_file));
  if (dwarf_getsrcfiles(unit, &files, &count) != 0 || index >= count) return nullptr;
  return dwarf_filesrc(files, index, nullptr, nullptr);
}

}  // namespace

struct Symbols::Impl {
  std::map<std::string, Dwfl*> files;

  Dwfl* open(const std::string& object) {
    const auto [it, is_new] = files.try_emplace(object, nullptr);
    if (!is_new) return it->second;
    static char* debug_path = nullptr;
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo,
                                             .section_address = dwfl_offline_section_address,
                                             .debuginfo_path = &debug_path};
    Dwfl* dwfl = dwfl_begin(&callbacks);
    if (!dwfl) return nullptr;
    dwfl_report_begin(dwfl);
    // At address 0: an offset is then an address.
    Dwfl_Module* module = dwfl_report_elf(dwfl, object.c_str(), object.c_str(), -1, 0, true);
    dwfl_report_end(dwfl, nullptr, nullptr);
    if (!module) {
      dwfl_end(dwfl);
      return nullptr;
    }
    return it->second = dwfl;
  }
};

Symbols::Symbols() : impl_(std::make_unique<Impl>()) {}
Symbols::~Symbols() {
  for (const auto& [name, dwfl] : impl_->files)
    if (dwfl) dwfl_end(dwfl);
}

namespace {

// A function that has no name: the file it lies in and where it begins there, which the tables for
// unwinding know. Samples of one function then have one name, and those of two have two.
std::string nameless_function(Dwfl_Module* module, uint64_t address, const std::string& object) {
  Dwarf_Addr begin = 0, bias = 0, start = 0, end = 0;
  dwfl_module_info(module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
  uint64_t offset = address - begin;
  for (Dwarf_CFI* cfi : {dwfl_module_eh_cfi(module, &bias), dwfl_module_dwarf_cfi(module, &bias)}) {
    Dwarf_Frame* frame = nullptr;
    if (!cfi || dwarf_cfi_addrframe(cfi, address - bias, &frame) != 0) continue;
    if (dwarf_frame_info(frame, &start, &end, nullptr) >= 0 && start != 0)
      offset = start + bias - begin;
    std::free(frame);
    break;
  }
  const std::string name = std::filesystem::path(object).filename().string();
  return fmt::format("{}+{:#x}", name.empty() ? "?" : name, offset);
}

}  // namespace

std::vector<Site> frames_at(Dwfl_Module* module, uint64_t address, const std::string& object) {
  Site plain;
  plain.object = object;
  if (!module) {
    if (object.empty() && address != 0) plain.function = "(code made at run time)";
    return {plain};
  }
  if (const char* name = dwfl_module_addrname(module, address))
    plain.function = short_function(demangled(name));
  else
    plain.function = nameless_function(module, address, object);
  if (Dwfl_Line* line = dwfl_module_getsrc(module, address))
    if (const char* file = dwfl_lineinfo(line, nullptr, &plain.line, nullptr, nullptr, nullptr)) {
      const char* folder = dwfl_line_comp_dir(line);
      plain.file = whole_path(folder ? folder : "", file);
    }

  Dwarf_Addr bias = 0;
  Dwarf_Die* unit = dwfl_module_addrdie(module, address, &bias);
  Dwarf_Die *innermost = nullptr, *scopes = nullptr;
  // The first call follows an inlined function to where it was written; the second one goes up to
  // where it was called.
  int count = unit ? dwarf_getscopes(unit, address - bias, &innermost) : 0;
  if (count > 0) count = dwarf_getscopes_die(&innermost[0], &scopes);
  std::free(innermost);
  std::vector<Site> found;
  Site next = plain;
  for (int i = 0; i < count; ++i) {
    const int tag = dwarf_tag(&scopes[i]);
    if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) continue;
    if (const char* name = die_name(&scopes[i])) next.function = short_function(demangled(name));
    // A lambda's own entry says no more than that it is called; its symbol says where it is
    // written.
    if (tag == DW_TAG_subprogram && next.function == "operator()" && !plain.function.empty())
      next.function = plain.function;
    found.push_back(next);
    if (tag == DW_TAG_subprogram) break;
    const char* file = call_file(unit, &scopes[i]);
    next = plain;
    next.file = file ? whole_path(folder_of(unit), file) : "";
    next.line = number_of(&scopes[i], DW_AT_call_line);
  }
  std::free(scopes);
  if (found.empty()) found.push_back(plain);
  return found;
}

bool is_library_header(const std::string& file) {
  return file.find("/include/pellucid/") != std::string::npos;
}

Site Symbols::program_line(const std::string& object, uint64_t offset) {
  Dwfl* dwfl = object.empty() ? nullptr : impl_->open(object);
  const std::vector<Site> all =
      frames_at(dwfl ? dwfl_addrmodule(dwfl, offset) : nullptr, offset, object);
  for (const Site& s : all) {
    const bool standard = s.file.starts_with("/usr/include/");
    if (!s.file.empty() && !is_library_header(s.file) && !standard) return s;
  }
  return all.front();
}

}  // namespace pellucid::profile
