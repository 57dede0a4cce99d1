// Writes the contraction FLOPs of the built-in models, forward and backward, for
// tests/parity/flops.py, which compares them with torch.utils.flop_counter's. Nothing is run, and
// nothing happens unless PELLUCID_PARITY_DIR is set.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "pellucid/estimate.h"
#include "pellucid/models.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using nlohmann::json;

namespace {

json contraction_flops(const std::function<Tensor()>& loss) {
  EstimateGuard guard;
  const Tensor value = loss();
  guard.phase("backward");
  value.backward();
  double by_phase[2] = {0, 0};
  for (const EstimatedCall& c : guard.calls()) by_phase[c.phase] += c.flops.contraction;
  return {{"forward", by_phase[0]}, {"backward", by_phase[1]}};
}

}  // namespace

TEST_CASE("parity: flops of contractions") {
  const char* const folder = std::getenv("PELLUCID_PARITY_DIR");
  if (!folder) return;
  json out;
  out["resnet18"] = contraction_flops([] {
    return models::resnet18()->forward(randn({2, 3, 224, 224})).sum();
  });
  out["gpt2"] = contraction_flops([] {
    return models::GPT()->forward(zeros({2, 128}, kInt64)).sum();
  });
  out["cnn"] = contraction_flops([] {
    return models::MnistCnn()->forward(randn({64, 1, 28, 28})).sum();
  });
  std::ofstream file(std::string(folder) + "/flops.json");
  file << out.dump(1);
  CHECK(file.good());
}
