// Finding MNIST, and what to do where it cannot be had.
#include "cli/data/mnist_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/data/package.h"
#include "io/crc32c.h"
#include "pellucid/data/datasets/drawn_digits.h"

namespace pellucid::cli {

using data::datasets::MNIST;

MnistFiles find_or_fetch_mnist(const std::optional<std::string>& folder, std::ostream& say) {
  if (folder == "drawn") return {};
  if (folder) {
    PELLUCID_CHECK(std::filesystem::is_directory(*folder), IoError,
                   "the data folder {} does not exist; `pellucid data mnist --to {}` makes it.",
                   *folder, *folder);
    return {*folder};
  }
  try {
    return {find_or_fetch(kMnistData, "", say)};
  } catch (const IoError& e) {
    say << e.what()
        << "\nMNIST is not available, so this program draws digits from strokes with random "
           "distortion instead. Accuracy on them is not accuracy on MNIST.\n"
        << std::flush;
    return {};
  }
}

MNIST open_mnist(const MnistFiles& files, MNIST::Mode mode) {
  if (!files.drawn()) return MNIST(files.folder, mode);
  return mode == MNIST::Mode::kTrain ? data::datasets::drawn_digits(60000, 1, mode)
                                     : data::datasets::drawn_digits(10000, 2, mode);
}

std::string mark_of(const MnistFiles& files, const MNIST& set) {
  uint32_t crc = 0;
  for (const Tensor& part : {set.bytes().contiguous(), set.targets().contiguous()})
    crc = io::crc32c(part.const_data_ptr(), part.nbytes(), crc);
  return fmt::format("{} {}, CRC-32C {:08x}", *set.size(),
                     files.drawn() ? "drawn digits" : "pictures", crc);
}

}  // namespace pellucid::cli
