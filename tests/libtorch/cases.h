// The programs with what they must reach, for pellucid's tests and for libtorch's run alike.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "libtorch/digits.h"
#include "libtorch/programs/programs.h"

namespace libtorch_test {

struct Case {
  std::string name;
  std::function<programs::Run(const std::string& folder)> run;
  double most_fall;                  ///< of the mean of the last losses over that of the first
  double least_result, most_result;  ///< what the program finds at its end
};

/// All programs. libtorch's MNIST takes only files of 60,000 and 10,000 images.
inline std::vector<Case> cases(uint32_t train_images, uint32_t test_images) {
  using namespace programs;
  const auto digits = [=](const std::string& folder) {
    write_digits(folder, train_images, test_images);
    return folder;
  };
  return {
      {"regression", [](const std::string&) { return regression(); }, 0.1, 0, 0.2},
      {"autograd", [](const std::string&) { return autograd(); }, 1, 0, 0},
      {"mnist", [=](const std::string& f) { return mnist(digits(f), 6, 10); }, 0.7, 0.9, 1},
      {"dcgan", [=](const std::string& f) { return dcgan(digits(f), f, 20); }, 1, 1e-3, 0.999},
      {"custom_dataset", [](const std::string&) { return custom_dataset(); }, 0.6, 0.9, 1},
      {"transfer", [](const std::string& f) { return transfer(f); }, 0.8, 0.85, 1},
      {"sequence", [](const std::string&) { return sequence(); }, 0.4, 0, 0.3},
      {"sentences", [](const std::string& f) { return sentences(f); }, 0.5, 0, 0},
      {"pipeline", [](const std::string&) { return pipeline(); }, 1, 0, 0},
      {"writes", [](const std::string&) { return writes(); }, 1, 0, 0},
      {"modules", [](const std::string& f) { return modules(f); }, 0.95, 0, 0},
  };
}

/// The mean of the last quarter of the losses over that of the first; 1 where there are none.
inline double fall(const programs::Run& run) {
  const auto n = static_cast<std::ptrdiff_t>(run.losses.size());
  if (n < 4) return 1;
  const auto begin = run.losses.begin(), end = run.losses.end();
  return std::accumulate(end - n / 4, end, 0.0) / std::accumulate(begin, begin + n / 4, 0.0);
}

}  // namespace libtorch_test
