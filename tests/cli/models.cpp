// Models by name and by spec, and the rates of a machine.
#include <doctest/doctest.h>

#include "cli/analyze/model_profile.h"
#include "cli/analyze/rates.h"
#include "cli/analyze/spec.h"
#include "cli/expr/error.h"
#include "pellucid/ops.h"

using namespace pellucid;
using namespace pellucid::cli;

TEST_CASE("models: every name can be built, run and differentiated without memory") {
  for (const std::string& name : model_names()) {
    INFO(name);
    const EstimateGuard guard;
    MadeModel model = make_model(name, name.find("gpt") == 0 || name.find("llama") == 0 ? 8 : 0);
    REQUIRE(!model.sample.empty());
    std::vector<int64_t> sizes = {2};
    sizes.insert(sizes.end(), model.sample.begin(), model.sample.end());
    const Tensor loss = model.loss(model.module.forward(make_input(model, sizes)));
    CHECK(loss.dim() == 0);
    loss.backward();
    for (const Tensor& p : model.module.ptr()->parameters()) CHECK(p.grad().defined());
  }
}

TEST_CASE("models: a spec is built as it is written") {
  nn::AnyModule m = parse_module(
      "Sequential(Conv2d(1, 8, (3, 3), padding=1), BatchNorm2d(8), ReLU(), MaxPool2d(2), "
      "Flatten(), "
      "Sequential(Linear(392, 16, bias=False), GELU(), Dropout(0.1)), LayerNorm(16), Linear(16, "
      "4), "
      "Softmax(-1))");
  CHECK(m.forward(randn({2, 1, 14, 14})).sizes() == IntArrayRef({2, 4}));
  CHECK(count_parameters(m) == 8 * 9 + 8 + 16 + 392 * 16 + 32 + 16 * 4 + 4);
  CHECK(count_parameters(parse_module("Sequential(3 * Sequential(Linear(4, 8), Linear(8, 4)))")) ==
        3 * (4 * 8 + 8 + 8 * 4 + 4));
  CHECK(make_model("2 * Linear(7, 7)").sample == std::vector<int64_t>{7});
  for (const char* wrong : {"0 * Linear(2, 2)", "1001 * ReLU()", "2 + ReLU()", "ReLU() * 2"})
    CHECK_THROWS_AS(parse_module(wrong), expr::ExprError);
  CHECK(make_model("Sequential(Linear(7, 3), Tanh())").sample == std::vector<int64_t>{7});
  const MadeModel tokens = make_model("Sequential(Embedding(50, 8), Linear(8, 50))", 6);
  CHECK(tokens.vocabulary == 50);
  CHECK(tokens.sample == std::vector<int64_t>{6});
  CHECK_THROWS_AS(parse_module("Sequential(3)"), expr::ExprError);
  CHECK_THROWS_AS(parse_module("Linear(2, 3, True, 4)"), expr::ExprError);
  CHECK_THROWS_AS(parse_module("Linear(2, 1.5)"), expr::ExprError);
  CHECK_THROWS_AS(parse_module("Linear(2, -3)"), Error);
  CHECK_THROWS_AS(make_model("nonsense"), UsageError);
  CHECK(is_model("resnet18"));
  CHECK(is_model("Linear(2, 3)"));
  CHECK(is_model("12*Linear(2, 2)"));
  CHECK(!is_model("12 * "));
  CHECK(!is_model("./resnet18"));
  CHECK(!is_model("Linear"));
}

TEST_CASE("models: sizes and rates") {
  CHECK(read_sizes("64,784", "--input") == std::vector<int64_t>{64, 784});
  for (const char* wrong : {"", "64,", "a", "3,-1", "0", "2;3"})
    CHECK_THROWS_AS(read_sizes(wrong, "--input"), UsageError);
  const MachineRates m = read_machine("50GB/s, 1.5 TFLOP/s");
  CHECK(m.flops_per_second == 1.5e12);
  CHECK(m.bytes_per_second == 50e9);
  for (const char* wrong :
       {"", "1GFLOP/s", "1GB/s", "xGB/s,1GFLOP/s", "1GB/s,1ZFLOP/s", "0B/s,1FLOP/s"})
    CHECK_THROWS_AS(read_machine(wrong), UsageError);
  CHECK(format_count(236'027'904, "FLOP") == "236.03 MFLOP");
  CHECK(format_count(12, "FLOP") == "12 FLOP");
  const std::pair<double, const char*> amounts[] = {{36, "36 B"},
                                                    {33'024, "0.03 MB"},
                                                    {9'449'472, "9.45 MB"},
                                                    {12'500'000, "12.50 MB"},
                                                    {226'676'736, "226.7 MB"},
                                                    {500'000'000, "500 MB"},
                                                    {1'000'000'016, "1,000 MB"},
                                                    {2e9, "2,000 MB"},
                                                    {349.2e9, "349.20 GB"}};
  for (const auto& [bytes, text] : amounts) CHECK(format_megabytes(bytes) == text);
}
