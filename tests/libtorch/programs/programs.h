// The programs: each is what a libtorch user's main() would do, and says what it reached.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace programs {

/// The losses of the training steps in order, and what the program found at its end.
struct Run {
  std::vector<double> losses;
  double result = 0;
};

/// Fits a polynomial of degree 4; the result is the largest error of a coefficient.
Run regression();
/// Gradients of the first and second order and custom functions; the result counts what was wrong.
Run autograd();
/// A CNN on the IDX files of a folder, `batches` a epoch; the result is the accuracy on the test
/// images.
Run mnist(const std::string& data_root, int64_t epochs, int64_t batches);
/// A generator against a discriminator, with checkpoints in `out`; the losses are the
/// discriminator's, the result is the mean absolute value of a sample.
Run dcgan(const std::string& data_root, const std::string& out, int64_t batches);
/// A data set of its own with a Sequential of functions; the result is the accuracy.
Run custom_dataset();
/// A trained backbone, saved, loaded and frozen under a new head; the result is the accuracy.
Run transfer(const std::string& out);
/// Modules of modules: clones, AnyModule, hooks into state, archives, schedules; the result counts
/// what was wrong.
Run modules(const std::string& out);
/// Data sets, samplers and transforms of all kinds; the result counts what was wrong.
Run pipeline();
/// A recurrent network that foresees a wave; the result is the last loss over the first.
Run sequence();
/// Packed sentences through a GRU, by Adam and then by LBFGS; the result counts what was wrong.
Run sentences(const std::string& out);
/// Assignments to parts of tensors, reductions along dims, devices, iterators and samplers; the
/// result counts what was wrong.
Run writes();

}  // namespace programs
