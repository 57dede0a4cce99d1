// How well a classifier does on a set of examples: the line of PyTorch's MNIST example and its
// numbers.
#pragma once

#include <fmt/format.h>

#include "cli/train/signals.h"
#include "cli/train/task.h"
#include "pellucid/ops.h"

namespace pellucid::cli::train {

/// `scores` maps a batch's data to logits or log probabilities [B, classes].
template <class Dataset, class Scores>
Evaluation test_classifier(Dataset set, size_t batch_size, const Scores& scores) {
  const auto total = static_cast<int64_t>(set.size().value());
  PELLUCID_CHECK(total > 0, ValueError, "train: the test set is empty.");
  auto loader =
      data::make_data_loader<data::samplers::SequentialSampler>(std::move(set), batch_size);
  double loss = 0;
  int64_t right = 0;
  for (const data::Example<>& batch : *loader) {
    stop_if_asked();
    const Tensor y = scores(batch.data);
    loss += cross_entropy_loss(y, batch.target).template item<double>() *
            static_cast<double>(batch.target.size(0));
    right += y.argmax(1).eq(batch.target).sum().template item<int64_t>();
  }
  loss /= static_cast<double>(total);
  const double accuracy = static_cast<double>(right) / static_cast<double>(total);
  return {fmt::format("Test set: Average loss: {:.4f}, Accuracy: {}/{} ({:.2f}%)", loss, right,
                      total, 100 * accuracy),
          {{"test_loss", loss}, {"test_accuracy", accuracy}}};
}

}  // namespace pellucid::cli::train
