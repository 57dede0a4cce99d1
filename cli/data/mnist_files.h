// Where MNIST is: a folder with its four IDX files, fetched when need be, or the built-in drawn
// digits where there is neither a folder nor a network.
#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "pellucid/data/datasets/mnist.h"

namespace pellucid::cli {

/// A folder with the four IDX files, or the digits that this program draws itself.
struct MnistFiles {
  std::string folder;  ///< "" for drawn digits
  bool drawn() const { return folder.empty(); }
};

/// The folder if one is given: it must hold the files, or be "drawn" for drawn digits. Otherwise
/// the default data folder, fetched into it once; where that fails, drawn digits. `say` is told
/// what happens, in whole lines.
MnistFiles find_or_fetch_mnist(const std::optional<std::string>& folder, std::ostream& say);

/// The data set itself; drawn digits are as many as MNIST has, from fixed seeds.
data::datasets::MNIST open_mnist(const MnistFiles& files, data::datasets::MNIST::Mode mode);

/// What tells a set's pictures and labels from others: "60000 drawn digits, CRC-32C 1a2b3c4d".
std::string mark_of(const MnistFiles& files, const data::datasets::MNIST& set);

/// Stacked batches with the mean and the standard deviation of MNIST's training pixels taken out.
inline auto normalized_mnist(const data::datasets::MNIST& set) {
  return data::datasets::MNIST(set)
      .map(data::transforms::Normalize<>(0.1307, 0.3081))
      .map(data::transforms::Stack<>());
}

}  // namespace pellucid::cli
