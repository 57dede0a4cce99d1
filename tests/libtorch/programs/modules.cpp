// Modules in libtorch's ways: nested and named ones, lists, clones, AnyModule, functions as
// modules, archives by hand, streams, parameter groups and a learning rate that is set by hand.
#include <iostream>
#include <sstream>

#include "../libtorch.h"
#include "programs.h"

namespace programs::modules_program {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

int64_t wrong = 0;
void expect(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "modules: " << what << " is wrong\n";
  ++wrong;
}

struct BlockImpl : nn::Module {
  explicit BlockImpl(int64_t width)
      : fc(register_module("fc", nn::Linear(nn::LinearOptions(width, width).bias(false)))),
        norm(register_module("norm", nn::BatchNorm1d(nn::BatchNorm1dOptions(width).eps(1e-4)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return x + F::gelu(norm(fc(x))); }
  nn::Linear fc;
  nn::BatchNorm1d norm;
};
TORCH_MODULE(Block);

struct TowerImpl : nn::Module {
  TowerImpl(int64_t width, int64_t depth) : blocks(nn::ModuleList()) {
    for (int64_t i = 0; i < depth; ++i) blocks->push_back(Block(width));
    register_module("blocks", blocks);
    head = register_module("head", std::make_shared<nn::LinearImpl>(width, 2));
    position = register_buffer("position", torch::arange(width, torch::kFloat));
    gain = register_parameter("gain", torch::full({1}, 0.5));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return head->forward(x * gain + position * 0.01);
  }
  nn::ModuleList blocks;
  std::shared_ptr<nn::LinearImpl> head;
  torch::Tensor position, gain;
};
TORCH_MODULE(Tower);

/// Takes two things, so only an AnyModule can hold it.
struct Scale : nn::Module {
  torch::Tensor forward(torch::Tensor x, double factor) { return x * factor; }
};

void check_structure() {
  Tower tower(4, 2);
  std::vector<std::string> names;
  for (const auto& pair : tower->named_parameters()) names.push_back(pair.key());
  expect(names.size() == 9, "the number of parameters");
  expect(tower->named_parameters().contains("blocks.1.norm.weight"), "the name of a parameter");
  expect(tower->named_buffers().contains("blocks.0.norm.running_mean"), "the name of a buffer");
  expect(tower->named_parameters()["head.bias"].sizes() == torch::IntArrayRef({2}), "a size");
  expect(tower->children().size() == 2 && tower->modules(/*include_self=*/false).size() == 8,
         "the number of modules");
  int64_t count = 0;
  for (const auto& p : tower->parameters()) count += p.numel();
  expect(count == 2 * (16 + 8) + 10 + 1, "the number of weights");

  tower->apply([](nn::Module& module) {
    torch::NoGradGuard no_grad;
    if (auto* linear = module.as<nn::Linear>()) nn::init::kaiming_normal_(linear->weight);
  });
  tower->eval();
  expect(!tower->is_training() && !tower->blocks[0]->is_training(), "eval of what is inside");
  tower->train();
  tower->to(torch::kDouble);
  expect(tower->head->weight.dtype() == torch::kDouble, "the dtype after to()");
  expect(tower->forward(torch::ones({3, 4}, torch::kDouble)).sizes() == torch::IntArrayRef({3, 2}),
         "the size of the result");
}

void check_any_modules() {
  nn::AnyModule any(Scale{});
  expect(any.forward(torch::ones({2}), 3.0).sum().item<float>() == 6, "an AnyModule's result");
  expect(any.get<Scale>().parameters().empty(), "an AnyModule's content");
  nn::Sequential net(nn::Linear(3, 4), nn::Functional(torch::relu),
                     nn::Functional([](const torch::Tensor& x) {
                       return x.view({-1, 2, 2});
                     }),
                     nn::Flatten(), nn::Dropout(0.5), nn::Softmax(nn::SoftmaxOptions(1)));
  expect(net->size() == 6 && net->at<nn::LinearImpl>(0).options.out_features() == 4,
         "what a Sequential holds");
  net->eval();
  const auto x = torch::randn({2, 3});
  auto clone = std::dynamic_pointer_cast<nn::SequentialImpl>(net->clone());
  expect(torch::allclose(clone->forward(x), net->forward(x)), "a clone's result");
  expect(torch::allclose(net->forward(x).sum(1), torch::ones({2})), "the sums of a softmax");
  clone->ptr<nn::LinearImpl>(0)->weight.data().zero_();
  expect(!torch::allclose(clone->forward(x), net->forward(x)), "a clone with other weights");
  nn::ModuleDict parts;
  parts->update({{"a", nn::Linear(2, 2).ptr()}, {"b", nn::ReLU().ptr()}});
  expect(parts->contains("a"), "what a ModuleDict contains");
  std::ostringstream text;
  text << net;
  expect(
      text.str().find("torch::nn::Linear(in_features=3, out_features=4, bias=true)") !=
              std::string::npos ||
          text.str().find("Linear(in_features=3, out_features=4, bias=True)") != std::string::npos,
      "what a Sequential prints");
}

void check_archives(const std::string& out) {
  Tower tower(4, 2), other(4, 2);
  tower->forward(torch::randn({5, 4})).sum().backward();
  std::stringstream stream;
  torch::save(tower, stream);
  torch::load(other, stream);
  for (const auto& pair : tower->named_parameters())
    expect(other->named_parameters()[pair.key()].equal(pair.value()), "a loaded parameter");
  expect(other->named_buffers()["blocks.0.norm.num_batches_tracked"].item<int64_t>() == 1,
         "a loaded count");

  torch::serialize::OutputArchive by_hand;
  tower->save(by_hand);
  by_hand.save_to(out + "/tower.pt");
  torch::serialize::InputArchive from_file;
  from_file.load_from(out + "/tower.pt", torch::kCPU);
  Tower third(4, 2);
  third->load(from_file);
  expect(third->gain.equal(tower->gain), "a module that was loaded from an archive");

  auto shared = std::make_shared<BlockImpl>(3);
  torch::save(shared, out + "/block.pt");
  auto twin = std::make_shared<BlockImpl>(3);
  torch::load(twin, out + "/block.pt");
  expect(twin->fc->weight.equal(shared->fc->weight), "a module that was saved by its pointer");

  std::vector<torch::Tensor> list{torch::ones({2}), torch::arange(3)}, loaded;
  torch::save(list, out + "/list.pt");
  torch::load(loaded, out + "/list.pt");
  expect(loaded.size() == 2 && loaded[1].equal(list[1]), "a loaded list");

  torch::serialize::OutputArchive archive;
  torch::serialize::OutputArchive nested;
  nested.write("x", torch::full({2}, 7));
  nested.write("steps", c10::IValue(static_cast<int64_t>(12)));
  archive.write("nested", nested);
  archive.save_to(out + "/archive.pt");
  torch::serialize::InputArchive input, inner;
  input.load_from(out + "/archive.pt");
  input.read("nested", inner);
  torch::Tensor x;
  inner.read("x", x);
  c10::IValue steps;
  inner.read("steps", steps);
  expect(x.sum().item<int64_t>() == 14 && steps.toInt() == 12, "what an archive gives back");
  expect(!inner.try_read("y", x), "an archive without a key");
}

void check_groups(programs::Run& run) {
  Tower tower(4, 1);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(tower->blocks->parameters());
  groups.emplace_back(tower->head->parameters(), std::make_unique<torch::optim::AdamOptions>(1e-2));
  torch::optim::Adam optimizer(groups, torch::optim::AdamOptions(1e-3).weight_decay(1e-4));
  optimizer.add_param_group({{tower->gain}});
  expect(optimizer.param_groups().size() == 3, "the number of groups");
  const auto x = torch::randn({32, 4});
  const auto y = (x.sum(1) > 0).to(torch::kLong);
  for (int step = 0; step < 40; ++step) {
    optimizer.zero_grad();
    auto loss = F::cross_entropy(tower->forward(x), y,
                                 F::CrossEntropyFuncOptions().reduction(torch::kMean));
    loss.backward();
    optimizer.step();
    run.losses.push_back(loss.item<double>());
    for (auto& group : optimizer.param_groups())
      if (group.has_options()) {
        auto& options = static_cast<torch::optim::AdamOptions&>(group.options());
        options.lr(options.lr() * 0.999);
      }
  }
  std::ostringstream stream;
  torch::save(optimizer, stream);
  torch::optim::Adam again(groups, torch::optim::AdamOptions(1));
  again.add_param_group({{tower->gain}});
  std::istringstream input(stream.str());
  torch::load(again, input);
  const auto& options = static_cast<torch::optim::AdamOptions&>(again.param_groups()[1].options());
  expect(std::abs(options.lr() - 1e-2 * std::pow(0.999, 40)) < 1e-12, "a loaded learning rate");
}

}  // namespace programs::modules_program

programs::Run programs::modules(const std::string& out) {
  using namespace modules_program;
  torch::manual_seed(4);
  wrong = 0;
  Run run;
  check_structure();
  check_any_modules();
  check_archives(out);
  check_groups(run);
  run.result = static_cast<double>(wrong);
  return run;
}
