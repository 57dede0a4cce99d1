// A program compiled without optimisation, so that functions of our headers are functions of their
// own in it: a profile charges their ops to the lines of the program all the same.
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

#include "pellucid/compile.h"
#include "pellucid/lazy.h"
#include "pellucid/nn.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"
#include "pellucid/profile.h"
#include "pellucid/profiler.h"

bool lines_are_of_the_program();

#ifndef FIRST_SIZE
#define FIRST_SIZE 1
#endif

namespace {

using namespace pellucid;

struct Net : nn::Module {
  Net() {
    layers =
        register_module("layers", nn::Sequential(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2)));
    list = register_module("list", nn::ModuleList(nn::Linear(2, 2)));
  }
  Tensor forward(const Tensor& x) { return list[0]->as<nn::Linear>()->forward(layers->forward(x)); }
  nn::Sequential layers{nullptr};
  nn::ModuleList list{nullptr};
};

struct Square : autograd::Function<Square> {
  static Tensor forward(autograd::AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static autograd::variable_list backward(autograd::AutogradContext* ctx,
                                          const autograd::variable_list& grads) {
    return {grads[0] * ctx->get_saved_variables()[0] * 2};
  }
};

// Returns what it changed: a lazy program does not run what nobody sees.
Tensors program() {
  Net net;
  optim::SGD optimizer(net.parameters(), optim::SGDOptions(0.1));
  Tensor x = rand({3, 4});
  x[0] = 2.0;
  x.index({1}) = x.index({0}) + 1;
  const Tensor y = Square::apply(net.forward(x));
  nn::functional::mse_loss(y, zeros_like(y)).backward();
  optimizer.step();
  x += 1;
  Tensors seen = net.parameters();
  seen.push_back(x);
  return seen;
}

}  // namespace

// The same lazily, where ops run later than their lines.
static bool lines_are_of_the_program(bool lazily) {
  ProfilerSession session;
  Tensors results;
  {
    const LazyGuard lazy(lazily);
    results = program();
  }
  const profile::Profile p = session.stop();
  int outside = 0, seen = 0;
  for (const profile::Event& e : p.events) {
    const profile::Signature& signature = p.signatures[static_cast<size_t>(e.signature)];
    if (signature.kind != profile::EventKind::Op) continue;
    const profile::Site site = e.site < 0 ? profile::Site() : p.sites[static_cast<size_t>(e.site)];
    ++seen;
    if (site.file.ends_with("lines.cpp")) continue;
    ++outside;
    std::printf("package: %s is charged to '%s:%d'\n", signature.name.c_str(), site.file.c_str(),
                site.line);
  }
  return seen > 20 && outside == 0;
}

// A warning of a compiled function names the line that called it.
static bool warning_names_its_line() {
  const LazyGuard outermost(false);
  std::ostringstream told;
  std::streambuf* const before = std::cerr.rdbuf(told.rdbuf());
  auto f = compile([](const Tensor& x) { return x * 2 + 1; }, CompileMode::Always);
  for (int64_t n = 0; n < 100; ++n) f(ones({FIRST_SIZE + n}));  // sizes that were never seen
  std::cerr.rdbuf(before);
  const std::string text = told.str();
  if (text.find("lines.cpp:") != std::string::npos) return true;
  std::printf("package: the warning is '%s'\n", text.c_str());
  return false;
}

static bool explanation_names_its_lines() {
  nn::Sequential net(nn::Linear(8, 8), nn::ReLU());
  Tensor y;
  const Explanation e = explain([&] { y = net->forward(ones({4, 8})) * 2 + 1; });
  bool all = !e.parts.empty();
  for (const Explanation::Part& p : e.parts)
    for (size_t i = 0; i < p.ops.size(); ++i) {
      if (p.lines.size() == p.ops.size() && p.lines[i].find("lines.cpp:") != std::string::npos)
        continue;
      std::printf("package: explain charges %s to '%s'\n", p.ops[i].c_str(),
                  i < p.lines.size() ? p.lines[i].c_str() : "");
      all = false;
    }
  return all;
}

// backward() inside a marked step has its own line, not that of the mark.
static bool backward_keeps_its_line() {
  const LazyGuard outermost(false);
  ProfilerSession session;
  const Tensor w = randn({8, 4}).requires_grad_();
  profile::begin_step();
  const int marked = __LINE__ - 1;
  matmul(randn({2, 8}), w).sum().backward();
  profile::end_step();
  const profile::Profile p = session.stop();
  for (const profile::Event& e : p.events) {
    if (p.signatures[static_cast<size_t>(e.signature)].kind != profile::EventKind::Engine) continue;
    const profile::Site site = e.site < 0 ? profile::Site() : p.sites[static_cast<size_t>(e.site)];
    if (site.file.ends_with("lines.cpp") && site.line == marked + 2) return true;
    std::printf("package: backward() is charged to '%s:%d'\n", site.file.c_str(), site.line);
  }
  return false;
}

bool lines_are_of_the_program() {
  return lines_are_of_the_program(false) && lines_are_of_the_program(true) &&
         warning_names_its_line() && explanation_names_its_lines() && backward_keeps_its_line();
}
