// A comparison as JSON, for programs and the viewer.
#include <cmath>
#include <nlohmann/json.hpp>

#include "pellucid/profile_report.h"

namespace pellucid::profile {

std::string to_json(const Diff& d) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const DiffRow& r : d.rows) {
    Json row = {{"name", r.name},
                {d.bytes ? "first_bytes" : "first_seconds", r.first},
                {d.bytes ? "second_bytes" : "second_seconds", r.second},
                {"change", std::isfinite(r.change) ? Json(r.change) : Json(nullptr)},
                {"first_calls", r.first_calls},
                {"second_calls", r.second_calls},
                {"verdict", name_of(r.verdict)},
                {"regression", r.regression}};
    row["interval"] = r.has_interval ? Json{r.low, r.high} : Json(nullptr);
    rows.push_back(std::move(row));
  }
  const Json all = {{"what", d.what},
                    {"scatter", d.scatter},
                    {"between_runs", d.between_runs},
                    {"regression", d.regression},
                    {"warnings", d.warnings},
                    {"rows", rows}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace pellucid::profile
