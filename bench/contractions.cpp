// Matrix products, convolutions and attention, and the bare oneDNN calls beneath the first two.
#include <dnnl.hpp>

#include "cases.h"

namespace pellucid::bench {
namespace {

std::string sizes_text(std::initializer_list<int64_t> sizes) {
  std::string s;
  for (int64_t n : sizes) s += (s.empty() ? "" : "x") + std::to_string(n);
  return s;
}

void add_matmul(Cases& cases, int64_t m, int64_t n, int64_t k) {
  const std::string size = sizes_text({m, n, k});
  cases.push_back({"matmul/" + size, [=] {
                     const Tensor a = randn({m, k}), b = randn({k, n});
                     return reusing({a, b}, [=] { return matmul(a, b); });
                   }});
  cases.push_back({"onednn_sgemm/" + size, [=] {
                     const Tensor a = randn({m, k}), b = randn({k, n}), c = empty({m, n});
                     return Work{.once = [=] {
                       dnnl_sgemm('N', 'N', m, n, k, 1.0f, a.raw<float>(), k, b.raw<float>(), n,
                                  0.0f, c.raw<float>(), n);
                     }};
                   }});
}

struct ConvShape {
  int64_t batch, in, out, size, kernel, stride, padding;
  std::string text() const {
    return sizes_text({batch, in, size, size}) + "_" + std::to_string(out) + "_" +
           std::to_string(kernel) + "x" + std::to_string(kernel) + "_s" + std::to_string(stride) +
           "_p" + std::to_string(padding);
  }
  int64_t out_size() const { return (size + 2 * padding - kernel) / stride + 1; }
};

// oneDNN's own convolution: source and destination in NHWC, the weight in the layout that it
// prefers, packed beforehand.
Work bare_convolution(const ConvShape& s) {
  using dnnl::memory;
  using Tag = memory::format_tag;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const memory::desc source({s.batch, s.in, s.size, s.size}, memory::data_type::f32, Tag::nhwc);
  const memory::desc weight({s.out, s.in, s.kernel, s.kernel}, memory::data_type::f32, Tag::any);
  const memory::desc bias({s.out}, memory::data_type::f32, Tag::x);
  const memory::desc result({s.batch, s.out, s.out_size(), s.out_size()}, memory::data_type::f32,
                            Tag::nhwc);
  const dnnl::convolution_forward::desc desc(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, source, weight, bias,
      result, {s.stride, s.stride}, {s.padding, s.padding}, {s.padding, s.padding});
  const dnnl::convolution_forward::primitive_desc chosen(desc, engine);
  const auto values = [](const memory::desc& d) {
    return randn({static_cast<int64_t>(d.get_size() / sizeof(float))});
  };
  const std::vector<Tensor> kept = {values(chosen.src_desc()), values(chosen.weights_desc()),
                                    values(chosen.bias_desc()), values(chosen.dst_desc())};
  const std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, memory(chosen.src_desc(), engine, kept[0].raw<float>())},
      {DNNL_ARG_WEIGHTS, memory(chosen.weights_desc(), engine, kept[1].raw<float>())},
      {DNNL_ARG_BIAS, memory(chosen.bias_desc(), engine, kept[2].raw<float>())},
      {DNNL_ARG_DST, memory(chosen.dst_desc(), engine, kept[3].raw<float>())}};
  return {.once = [convolution = dnnl::convolution_forward(chosen), stream = dnnl::stream(engine),
                   arguments, kept]() mutable {
    convolution.execute(stream, arguments);
    stream.wait();
  }};
}

Tensor nhwc(IntArrayRef sizes) { return randn(sizes).contiguous(MemoryFormat::ChannelsLast); }

void add_convolution(Cases& cases, const ConvShape& s) {
  cases.push_back({"conv2d/" + s.text(), [=] {
                     const Tensor x = nhwc({s.batch, s.in, s.size, s.size}),
                                  w = randn({s.out, s.in, s.kernel, s.kernel}), b = randn({s.out});
                     return reusing({x, w, b}, [=] {
                       const NoGradGuard guard;
                       return conv2d(x, w, b, IntArrayRef{s.stride, s.stride},
                                     IntArrayRef{s.padding, s.padding});
                     });
                   }});
  cases.push_back({"onednn_convolution/" + s.text(), [=] { return bare_convolution(s); }});
  cases.push_back(
      {"conv2d_train/" + s.text(), [=] {
         const Tensor x = nhwc({s.batch, s.in, s.size, s.size}).requires_grad_(),
                      b = randn({s.out}).requires_grad_();
         const Tensor w = (randn({s.out, s.in, s.kernel, s.kernel}) * 0.1).requires_grad_();
         const Tensor g = nhwc({s.batch, s.out, s.out_size(), s.out_size()});
         return Work{.once =
                         [=] {
                           for (const Tensor& t : {x, w, b}) t.zero_grad();
                           conv2d(x, w, b, IntArrayRef{s.stride, s.stride},
                                  IntArrayRef{s.padding, s.padding})
                               .backward(g);
                         },
                     .inputs = {x, w, b, g},
                     .results =
                         [=] {
                           return std::vector<Tensor>{x.grad(), w.grad(), b.grad()};
                         }};
       }});
}

void add_attention(Cases& cases, int64_t batch, int64_t heads, int64_t tokens, int64_t width,
                   bool causal) {
  const std::string name = sizes_text({batch, heads, tokens, width}) + (causal ? "_causal" : "");
  const auto input = [=] { return randn({batch, heads, tokens, width}); };
  cases.push_back({"attention/" + name, [=] {
                     const Tensor q = input(), k = input(), v = input();
                     return reusing({q, k, v}, [=] {
                       return scaled_dot_product_attention(q, k, v, {}, 0.0, causal);
                     });
                   }});
  cases.push_back({"attention_train/" + name, [=] {
                     const Tensor q = input().requires_grad_(), k = input().requires_grad_(),
                                  v = input().requires_grad_(), g = input();
                     return Work{
                         .once =
                             [=] {
                               for (const Tensor& t : {q, k, v}) t.zero_grad();
                               scaled_dot_product_attention(q, k, v, {}, 0.0, causal).backward(g);
                             },
                         .inputs = {q, k, v, g},
                         .results =
                             [=] {
                               return std::vector<Tensor>{q.grad(), k.grad(), v.grad()};
                             }};
                   }});
}

}  // namespace

void add_contraction_cases(Cases& cases) {
  add_matmul(cases, 64, 100, 1000);
  add_matmul(cases, 256, 256, 256);
  add_matmul(cases, 1024, 3072, 768);
  add_matmul(cases, 2048, 2048, 2048);
  add_convolution(cases, {8, 128, 128, 28, 3, 1, 1});
  add_convolution(cases, {8, 32, 64, 26, 3, 1, 0});
  add_convolution(cases, {8, 3, 64, 224, 7, 2, 3});
  add_attention(cases, 4, 8, 512, 64, false);
  add_attention(cases, 4, 8, 512, 64, true);
  add_attention(cases, 1, 12, 2048, 64, true);
  cases.push_back(
      {"expression/(x@y+100)+(x@z+1000)", [] {
         const Tensor x = randn({1000, 1000}), y = randn({1000, 1000}), z = randn({1000, 1000});
         return reusing({x, y, z}, [=] { return (matmul(x, y) + 100) + (matmul(x, z) + 1000); });
       }});
}

}  // namespace pellucid::bench
