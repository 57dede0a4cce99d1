// See family.h.
#include "serve/family.h"

#include "profile/index.h"

namespace pellucid::serve {
namespace {

using namespace profile;

std::string_view family_of(const Signature& s, bool optimizer) {
  if (s.kind == EventKind::Optimizer || (optimizer && s.kind == EventKind::Op)) return "optimizer";
  for (const std::string_view same : {"contraction", "pointwise", "reduction"})
    if (s.op_kind == same) return same;
  for (const std::string_view moves : {"view", "index", "creation"})
    if (s.op_kind == moves) return "movement";
  return "other";
}

}  // namespace

std::vector<std::string_view> families_of(const Profile& p) {
  std::vector<uint8_t> elsewhere(p.signatures.size()), optimizer(p.signatures.size());
  for (const Event& e : p.events)
    (e.phase == Phase::Optimizer ? optimizer : elsewhere)[at(e.signature)] = 1;
  std::vector<std::string_view> families;
  for (size_t i = 0; i < p.signatures.size(); ++i)
    families.push_back(family_of(p.signatures[i], optimizer[i] != 0 && elsewhere[i] == 0));
  return families;
}

}  // namespace pellucid::serve
