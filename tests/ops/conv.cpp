// Convolution by hand: against the defining sum, in every layout; layouts that the program does not
// see and ones that it chose; gradients that nobody needs; bits that do not depend on threads.
#include <doctest/doctest.h>

#include "pellucid/pellucid.h"
#include "threads.h"

using namespace pellucid;

namespace {

struct Settings {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

// Windows taken as views of the padded input, then one sum of products.
Tensor defining_sum(const Tensor& x, const Tensor& w, const Settings& s) {
  const Tensor p = constant_pad_nd(x, {s.padding, s.padding, s.padding, s.padding});
  const int64_t kh = w.size(2), kw = w.size(3),
                oh = (p.size(2) - s.dilation * (kh - 1) - 1) / s.stride + 1,
                ow = (p.size(3) - s.dilation * (kw - 1) - 1) / s.stride + 1, cg = w.size(1),
                og = w.size(0) / s.groups;
  Tensor out = zeros({x.size(0), w.size(0), oh, ow}, x.dtype());
  for (int64_t g = 0; g < s.groups; ++g)
    for (int64_t i = 0; i < kh; ++i)
      for (int64_t j = 0; j < kw; ++j) {
        const Tensor window =
            p.narrow(1, g * cg, cg)
                .slice(2, i * s.dilation, i * s.dilation + (oh - 1) * s.stride + 1, s.stride)
                .slice(3, j * s.dilation, j * s.dilation + (ow - 1) * s.stride + 1, s.stride);
        const Tensor weight = w.narrow(0, g * og, og).select(3, j).select(2, i);  // [og, cg]
        out.narrow(1, g * og, og)
            .add_(window.unsqueeze(1).mul(weight.reshape({1, og, cg, 1, 1})).sum(2));
      }
  return out;
}

}  // namespace

TEST_CASE("conv: agrees with the defining sum, in float and double, in every layout") {
  manual_seed(1);
  const Settings all[] = {{}, {2, 1, 1, 1}, {1, 2, 2, 1}, {1, 1, 1, 2}, {3, 0, 1, 4}, {2, 3, 1, 1}};
  for (const Settings& s : all)
    for (const DType t : {kFloat32, kFloat64}) {
      CAPTURE(s.stride);
      CAPTURE(s.groups);
      const Tensor x = randn({2, 4, 9, 8}, t), w = randn({8, 4 / s.groups, 3, 2}, t),
                   bias = randn({8}, t);
      const Tensor wanted = defining_sum(x, w, s).add(bias.view({-1, 1, 1}));
      const auto close = [&](const Tensor& y) {
        return allclose(y, wanted, 1e-4, t == kFloat32 ? 1e-4 : 1e-9);
      };
      CHECK(close(conv2d(x, w, bias, s.stride, s.padding, s.dilation, s.groups)));
      CHECK(close(conv2d(x.contiguous(MemoryFormat::ChannelsLast), w, bias, s.stride, s.padding,
                         s.dilation, s.groups)));
      CHECK(close(conv2d(x.transpose(2, 3).contiguous().transpose(2, 3),
                         w.contiguous(MemoryFormat::ChannelsLast), bias, s.stride, s.padding,
                         s.dilation, s.groups)));
      CHECK(close(conv2d(x.repeat({1, 1, 1, 2}).narrow(3, 0, 8), w, bias, s.stride, s.padding,
                         s.dilation, s.groups)));
    }
}

TEST_CASE("conv: 1-D is 2-D with one row, and a transposed one is the adjoint") {
  const Tensor x = randn({2, 4, 9}, kFloat64), w = randn({6, 2, 3}, kFloat64);
  const int64_t none = 0;
  const std::vector<int64_t> rows{0, 1};
  CHECK(allclose(conv1d(x, w, {}, 2, 1, 1, 2),
                 conv2d(x.unsqueeze(2), w.unsqueeze(2), {}, {1, 2}, rows, 1, 2).squeeze(2)));
  CHECK(allclose(conv1d(x[0], w, {}, 1, none, 1, 2), conv1d(x, w, {}, 1, none, 1, 2)[0]));
  // <conv(a), b> = <a, conv_transpose(b)>
  const Tensor a = randn({1, 3, 8, 7}, kFloat64), kernel = randn({5, 3, 3, 2}, kFloat64),
               ca = conv2d(a, kernel, {}, 2, 1), b = randn(ca.sizes(), kFloat64);
  CHECK(ca.mul(b).sum().item<double>() ==
        doctest::Approx(a.mul(conv_transpose2d(b, kernel, {}, 2, 1, {1, 1})).sum().item<double>()));
  // Output padding beyond a stride only adds rows that see no input.
  const Tensor t = conv_transpose2d(b, kernel, {}, 1, 0, 2, 1, 3);
  CHECK(allclose(t.narrow(2, 0, t.size(2) - 2).narrow(3, 0, t.size(3) - 2),
                 conv_transpose2d(b, kernel, {}, 1, 0, 0, 1, 3)));
  CHECK(t.narrow(2, t.size(2) - 2, 2).abs().max().item<double>() == 0);
}

TEST_CASE("conv: the layout that an op chose is invisible") {
  const Tensor x = randn({2, 3, 6, 6}), w = randn({4, 3, 3, 3});
  const Tensor y = conv2d(x, w).relu();
  CHECK(y.impl().hidden_layout);
  const Tensor values = y.clone();
  CHECK(max_pool2d(y, 2).impl().hidden_layout);
  CHECK(y.view({2, -1}).sizes() == IntArrayRef({2, 64}));
  CHECK(y.is_contiguous());
  CHECK(y.strides() == IntArrayRef({64, 16, 4, 1}));
  CHECK(equal(y, values));
  CHECK(x.is_contiguous());
  // Chosen by the program it stays visible, as in PyTorch.
  const Tensor last = conv2d(x.contiguous(MemoryFormat::ChannelsLast), w);
  CHECK(last.is_contiguous(MemoryFormat::ChannelsLast));
  CHECK(!last.is_contiguous());
  CHECK(allclose(last.relu(), values, 1e-5, 1e-6));
  // 1-D is always row-major from the outside.
  const Tensor line = conv1d(randn({2, 7, 3}).transpose(1, 2), randn({4, 3, 3}));
  CHECK(line.is_contiguous());
}

TEST_CASE("conv: gradients keep layouts and values right across a view") {
  manual_seed(2);
  const auto run = [](bool channels_last, DType t) {
    manual_seed(5);
    Tensor x = randn({2, 3, 6, 6}, kFloat64), w = randn({4, 3, 3, 3}, kFloat64),
           v = randn({16, 3}, kFloat64);
    x = x.to(t), w = w.to(t), v = v.to(t);
    if (channels_last) x = x.contiguous(MemoryFormat::ChannelsLast);
    x.requires_grad_(), w.requires_grad_();
    const Tensor y = max_pool2d(conv2d(x, w), 2).reshape({2, -1}).matmul(v);
    y.square().sum().backward();
    return Tensors{x.grad().to(kFloat64), w.grad().to(kFloat64)};
  };
  const Tensors right = run(false, kFloat64);
  for (const bool channels_last : {false, true})
    for (const DType t : {kFloat64, kFloat32}) {
      const Tensors g = run(channels_last, t);
      for (size_t i = 0; i < 2; ++i)
        CHECK(allclose(g[i], right[i], 1e-3, t == kFloat64 ? 1e-9 : 1e-3));
    }
  // 16-bit floats are summed in float32 and rounded once.
  const Tensor x = randn({2, 3, 6, 6}).to(kBFloat16), w = randn({4, 3, 3, 3}).to(kBFloat16);
  CHECK(equal(conv2d(x, w), conv2d(x.to(kFloat32), w.to(kFloat32)).to(kBFloat16)));
}

TEST_CASE("conv: a gradient that nobody needs is not computed, and the cost is the worked figure") {
  const Tensor x = randn({1, 3, 8, 8}), w = randn({4, 3, 3, 3}).requires_grad_(), y = conv2d(x, w);
  CHECK(!y.grad_fn()->next_edge(0).is_valid());
  for (const autograd::SavedInfo& s : y.grad_fn()->saved_tensors()) CHECK(s.name == "input");
  const OpDef& op = *find_ops("convolution").at(0);
  const Tensor image = randn({1, 3, 224, 224}), kernel = randn({64, 3, 7, 7}), none;
  const Tensor* const inputs[] = {&image, &kernel, &none};
  const std::vector<int64_t> stride{2, 2}, padding{3, 3}, one{1, 1}, zero{0, 0};
  const Attr attrs[] = {Attr(IntArrayRef(stride)), Attr(IntArrayRef(padding)),
                        Attr(IntArrayRef(one)),    Attr(false),
                        Attr(IntArrayRef(zero)),   Attr(int64_t{1})};
  Call c(op, inputs, attrs);
  op.infer(c);
  CHECK(op.cost(c).flops == 236027904);
}

TEST_CASE("conv: empty batches and 'same' padding") {
  const Tensor w = randn({4, 3, 3, 2}).requires_grad_(), x = randn({0, 3, 8, 8}).requires_grad_();
  const Tensor y = conv2d(x, w, randn({4}));
  CHECK(y.sizes() == IntArrayRef({0, 4, 6, 7}));
  y.sum().backward();
  CHECK(equal(w.grad(), zeros({4, 3, 3, 2})));
  CHECK(x.grad().sizes() == x.sizes());
  const Tensor z = randn({1, 3, 5, 6});
  CHECK(conv2d(z, w, {}, 1, "same").sizes() == IntArrayRef({1, 4, 5, 6}));
  CHECK(allclose(conv2d(z, w, {}, 1, "same"), conv2d(constant_pad_nd(z, {0, 1, 1, 1}), w), 1e-5,
                 1e-5));
  CHECK(allclose(conv2d(z, w, {}, 2, "valid"), conv2d(z, w, {}, 2), 1e-5, 1e-6));
}

TEST_CASE("conv: bits do not depend on the number of threads") {
  manual_seed(4);
  const Tensor x = randn({5, 16, 14, 14}), w = randn({32, 16, 3, 3}), up = randn({16, 8, 3, 3});
  const auto all = [&] {
    const Tensor a = x.detach().requires_grad_(), b = w.detach().requires_grad_(),
                 c = up.detach().requires_grad_();
    const Tensor y = conv2d(a, b, {}, 1, 1), z = conv_transpose2d(a, c, {}, 2, 1);
    y.square().sum().add(z.square().sum()).backward();
    return Tensors{y.detach(), z.detach(), a.grad(), b.grad(), c.grad()};
  };
  const Threads one(1);
  const Tensors first = all();
  const Threads two(2);
  const Tensors second = all();
  for (size_t i = 0; i < first.size(); ++i) CHECK(equal(first[i], second[i]));
}
