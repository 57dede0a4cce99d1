// PELLUCID_LAZY=check: each captured call also runs at once, on copies, and what it gives when it
// runs later is compared with that, bit by bit. For finding an op, a group or a rule of the capture
// that gives other results than eager execution does.
#pragma once

#include <span>
#include <string>

#include "core/capture.h"

namespace pellucid::detail {

/// Whether captured calls are checked. PELLUCID_LAZY=check sets it before the first call.
extern constinit std::atomic<bool> checks_captures;

/// Runs a call that is about to be captured, on copies of what other captured calls will write.
void check_later(const CapturedCall& call);
/// Compares what calls gave that just ran, as one group or alone; tells of the first difference.
void check_now(std::span<const std::unique_ptr<CapturedCall>> calls);
/// The call will not run, or was compared.
void forget_check(const CapturedCall& call) noexcept;
/// No captured call writes the storage any more.
void forget_copy(const Storage& s) noexcept;

/// What is done about a difference. At first it is written to stderr, and the process ends with 1.
using DifferenceHandler = void (*)(const std::string& message);
DifferenceHandler set_difference_handler(DifferenceHandler handler);

}  // namespace pellucid::detail
