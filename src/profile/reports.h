// The tables of report(), one function each; report.cpp names them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pellucid/profile_report.h"

namespace pellucid::profile {

std::vector<ReportTable> overview_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> function_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> averages_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> module_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> summary_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> memory_lines_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> peak_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> timeline_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> roofline_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> samples_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> steps_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> advice_report(const Profile& p, const ReportOptions& o);
std::vector<ReportTable> counts_report(const Profile& p, const ReportOptions& o);

/// The overview's first sentence: where time and memory go and what binds. Empty where nothing is
/// known of either.
std::string overview_sentence(const Profile& p);
/// "was killed by signal 9 (Killed); the profile ends there": how the program ended, where that is
/// worth saying.
std::string ending_of(const RunInfo& run);
/// "train.cpp:12(main) holds 41 % of the samples": the program's own line that most of them are of.
std::string sampled_sentence(const Profile& p);

}  // namespace pellucid::profile
