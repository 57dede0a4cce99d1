// Printing: the expected texts are what PyTorch 2.13 prints for the same tensors.
#include <doctest/doctest.h>

#include <limits>
#include <sstream>

#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();
}

TEST_CASE("print: a whole number") { CHECK(tensor(3).toString() == R"(tensor(3))"); }

TEST_CASE("print: a floating number") { CHECK(tensor(3.5).toString() == R"(tensor(3.5000))"); }

TEST_CASE("print: no elements") { CHECK(zeros({0}).toString() == R"(tensor([]))"); }

TEST_CASE("print: no elements in two dims") {
  CHECK(zeros({0, 3}, kInt64).toString() == R"(tensor([], size=(0, 3), dtype=torch.int64))");
}

TEST_CASE("print: whole floats") {
  CHECK(tensor({1.0, 2.0, -3.0}).toString() == R"(tensor([ 1.,  2., -3.]))");
}

TEST_CASE("print: zeros") { CHECK(zeros({3}).toString() == R"(tensor([0., 0., 0.]))"); }

TEST_CASE("print: fractions") {
  CHECK(tensor({{1.5, -2.25}, {0.125, 1000.0}}).toString() ==
        R"(tensor([[ 1.5000e+00, -2.2500e+00],
        [ 1.2500e-01,  1.0000e+03]]))");
}

TEST_CASE("print: a wide range is scientific") {
  CHECK(tensor({1.0, 0.0001, 2000.0}).toString() ==
        R"(tensor([1.0000e+00, 1.0000e-04, 2.0000e+03]))");
}

TEST_CASE("print: large whole numbers are scientific") {
  CHECK(tensor({1.0e9, 1.0e9}).toString() == R"(tensor([1.0000e+09, 1.0000e+09]))");
}

TEST_CASE("print: small ones too") {
  CHECK(tensor({0.00001, 0.00002}).toString() == R"(tensor([1.0000e-05, 2.0000e-05]))");
}

TEST_CASE("print: nan and inf among fractions") {
  CHECK(tensor({0.5, kNan, -kInf, kInf}).toString() ==
        R"(tensor([0.5000,    nan,   -inf,    inf]))");
}

TEST_CASE("print: nan and inf among whole floats") {
  CHECK(tensor({1.0, kNan, -kInf}).toString() == R"(tensor([1., nan, -inf]))");
}

TEST_CASE("print: only nan") { CHECK(tensor({kNan, kNan}).toString() == R"(tensor([nan, nan]))"); }

TEST_CASE("print: negative zero") {
  CHECK(tensor({-0.0, 1.0}).toString() == R"(tensor([-0., 1.]))");
}

TEST_CASE("print: bools") {
  CHECK(tensor({true, false}).toString() == R"(tensor([ True, False]))");
}

TEST_CASE("print: integers of several widths") {
  CHECK(tensor({1, -20, 300}).toString() == R"(tensor([  1, -20, 300]))");
}

TEST_CASE("print: another integer dtype") {
  CHECK(tensor({1, 2}, kInt32).toString() == R"(tensor([1, 2], dtype=torch.int32))");
}

TEST_CASE("print: another floating dtype") {
  CHECK(tensor({1.5, 2.0}, kFloat64).toString() ==
        R"(tensor([1.5000, 2.0000], dtype=torch.float64))");
}

TEST_CASE("print: bfloat16") {
  CHECK(tensor({1.5, 0.1}, kBFloat16).toString() ==
        R"(tensor([1.5000, 0.1001], dtype=torch.bfloat16))");
}

TEST_CASE("print: float16") {
  CHECK(tensor({0.1, 65504.0}, kFloat16).toString() ==
        R"(tensor([9.9976e-02, 6.5504e+04], dtype=torch.float16))");
}

TEST_CASE("print: lines break at 80 columns") {
  CHECK(arange(40).toString() ==
        R"(tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,
        36, 37, 38, 39]))");
}

TEST_CASE("print: lines of fractions") {
  CHECK(linspace(0, 1, 23).toString() ==
        R"(tensor([0.0000, 0.0455, 0.0909, 0.1364, 0.1818, 0.2273, 0.2727, 0.3182, 0.3636,
        0.4091, 0.4545, 0.5000, 0.5455, 0.5909, 0.6364, 0.6818, 0.7273, 0.7727,
        0.8182, 0.8636, 0.9091, 0.9545, 1.0000]))");
}

TEST_CASE("print: rows") {
  CHECK(arange(6).view({2, 3}).toString() ==
        R"(tensor([[0, 1, 2],
        [3, 4, 5]]))");
}

TEST_CASE("print: three dims have empty lines between") {
  CHECK(arange(12).view({2, 2, 3}).toString() ==
        R"(tensor([[[ 0,  1,  2],
         [ 3,  4,  5]],

        [[ 6,  7,  8],
         [ 9, 10, 11]]]))");
}

TEST_CASE("print: four dims") {
  CHECK(zeros({2, 1, 2, 1}).toString() ==
        R"(tensor([[[[0.],
          [0.]]],


        [[[0.],
          [0.]]]]))");
}

TEST_CASE("print: a transposed tensor") {
  CHECK(arange(6).view({2, 3}).t().toString() ==
        R"(tensor([[0, 3],
        [1, 4],
        [2, 5]]))");
}

TEST_CASE("print: more than 1000 elements are summarised") {
  CHECK(arange(1001).toString() == R"(tensor([   0,    1,    2,  ...,  998,  999, 1000]))");
}

TEST_CASE("print: 1000 elements in full") {
  CHECK(zeros({10, 100})[9].slice(0, 0, 5).toString() == R"(tensor([0., 0., 0., 0., 0.]))");
}

TEST_CASE("print: summarised rows") {
  CHECK(arange(1200).view({30, 40}).toString() ==
        R"(tensor([[   0,    1,    2,  ...,   37,   38,   39],
        [  40,   41,   42,  ...,   77,   78,   79],
        [  80,   81,   82,  ...,  117,  118,  119],
        ...,
        [1080, 1081, 1082,  ..., 1117, 1118, 1119],
        [1120, 1121, 1122,  ..., 1157, 1158, 1159],
        [1160, 1161, 1162,  ..., 1197, 1198, 1199]]))");
}

TEST_CASE("print: summarised floats look at the edges alone") {
  CHECK(full({1001}, 0.5).index_fill(0, tensor({500}), 1.0e9).toString() ==
        R"(tensor([0.5000, 0.5000, 0.5000,  ..., 0.5000, 0.5000, 0.5000]))");
}

TEST_CASE("print: summarised three dims") {
  CHECK(arange(1100).view({11, 10, 10}).to(kFloat32).toString() ==
        R"(tensor([[[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 7.0000e+00,
          8.0000e+00, 9.0000e+00],
         [1.0000e+01, 1.1000e+01, 1.2000e+01,  ..., 1.7000e+01,
          1.8000e+01, 1.9000e+01],
         [2.0000e+01, 2.1000e+01, 2.2000e+01,  ..., 2.7000e+01,
          2.8000e+01, 2.9000e+01],
         ...,
         [7.0000e+01, 7.1000e+01, 7.2000e+01,  ..., 7.7000e+01,
          7.8000e+01, 7.9000e+01],
         [8.0000e+01, 8.1000e+01, 8.2000e+01,  ..., 8.7000e+01,
          8.8000e+01, 8.9000e+01],
         [9.0000e+01, 9.1000e+01, 9.2000e+01,  ..., 9.7000e+01,
          9.8000e+01, 9.9000e+01]],

        [[1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.0700e+02,
          1.0800e+02, 1.0900e+02],
         [1.1000e+02, 1.1100e+02, 1.1200e+02,  ..., 1.1700e+02,
          1.1800e+02, 1.1900e+02],
         [1.2000e+02, 1.2100e+02, 1.2200e+02,  ..., 1.2700e+02,
          1.2800e+02, 1.2900e+02],
         ...,
         [1.7000e+02, 1.7100e+02, 1.7200e+02,  ..., 1.7700e+02,
          1.7800e+02, 1.7900e+02],
         [1.8000e+02, 1.8100e+02, 1.8200e+02,  ..., 1.8700e+02,
          1.8800e+02, 1.8900e+02],
         [1.9000e+02, 1.9100e+02, 1.9200e+02,  ..., 1.9700e+02,
          1.9800e+02, 1.9900e+02]],

        [[2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 2.0700e+02,
          2.0800e+02, 2.0900e+02],
         [2.1000e+02, 2.1100e+02, 2.1200e+02,  ..., 2.1700e+02,
          2.1800e+02, 2.1900e+02],
         [2.2000e+02, 2.2100e+02, 2.2200e+02,  ..., 2.2700e+02,
          2.2800e+02, 2.2900e+02],
         ...,
         [2.7000e+02, 2.7100e+02, 2.7200e+02,  ..., 2.7700e+02,
          2.7800e+02, 2.7900e+02],
         [2.8000e+02, 2.8100e+02, 2.8200e+02,  ..., 2.8700e+02,
          2.8800e+02, 2.8900e+02],
         [2.9000e+02, 2.9100e+02, 2.9200e+02,  ..., 2.9700e+02,
          2.9800e+02, 2.9900e+02]],

        ...,

        [[8.0000e+02, 8.0100e+02, 8.0200e+02,  ..., 8.0700e+02,
          8.0800e+02, 8.0900e+02],
         [8.1000e+02, 8.1100e+02, 8.1200e+02,  ..., 8.1700e+02,
          8.1800e+02, 8.1900e+02],
         [8.2000e+02, 8.2100e+02, 8.2200e+02,  ..., 8.2700e+02,
          8.2800e+02, 8.2900e+02],
         ...,
         [8.7000e+02, 8.7100e+02, 8.7200e+02,  ..., 8.7700e+02,
          8.7800e+02, 8.7900e+02],
         [8.8000e+02, 8.8100e+02, 8.8200e+02,  ..., 8.8700e+02,
          8.8800e+02, 8.8900e+02],
         [8.9000e+02, 8.9100e+02, 8.9200e+02,  ..., 8.9700e+02,
          8.9800e+02, 8.9900e+02]],

        [[9.0000e+02, 9.0100e+02, 9.0200e+02,  ..., 9.0700e+02,
          9.0800e+02, 9.0900e+02],
         [9.1000e+02, 9.1100e+02, 9.1200e+02,  ..., 9.1700e+02,
          9.1800e+02, 9.1900e+02],
         [9.2000e+02, 9.2100e+02, 9.2200e+02,  ..., 9.2700e+02,
          9.2800e+02, 9.2900e+02],
         ...,
         [9.7000e+02, 9.7100e+02, 9.7200e+02,  ..., 9.7700e+02,
          9.7800e+02, 9.7900e+02],
         [9.8000e+02, 9.8100e+02, 9.8200e+02,  ..., 9.8700e+02,
          9.8800e+02, 9.8900e+02],
         [9.9000e+02, 9.9100e+02, 9.9200e+02,  ..., 9.9700e+02,
          9.9800e+02, 9.9900e+02]],

        [[1.0000e+03, 1.0010e+03, 1.0020e+03,  ..., 1.0070e+03,
          1.0080e+03, 1.0090e+03],
         [1.0100e+03, 1.0110e+03, 1.0120e+03,  ..., 1.0170e+03,
          1.0180e+03, 1.0190e+03],
         [1.0200e+03, 1.0210e+03, 1.0220e+03,  ..., 1.0270e+03,
          1.0280e+03, 1.0290e+03],
         ...,
         [1.0700e+03, 1.0710e+03, 1.0720e+03,  ..., 1.0770e+03,
          1.0780e+03, 1.0790e+03],
         [1.0800e+03, 1.0810e+03, 1.0820e+03,  ..., 1.0870e+03,
          1.0880e+03, 1.0890e+03],
         [1.0900e+03, 1.0910e+03, 1.0920e+03,  ..., 1.0970e+03,
          1.0980e+03, 1.0990e+03]]]))");
}

TEST_CASE("print: a leaf that requires a gradient") {
  CHECK(tensor({1.0, 2.0}).requires_grad_().toString() ==
        R"(tensor([1., 2.], requires_grad=True))");
}

TEST_CASE("print: a result knows its operation") {
  CHECK((tensor({1.0, 2.0}).requires_grad_() * 2).toString() ==
        R"(tensor([2., 4.], grad_fn=<MulBackward0>))");
}

TEST_CASE("print: suffixes go to a new line") {
  CHECK((linspace(0, 1, 8, kFloat64).requires_grad_() + 1).toString() ==
        R"(tensor([1.0000, 1.1429, 1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000],
       dtype=torch.float64, grad_fn=<AddBackward0>))");
}

TEST_CASE("print: an undefined tensor, and a stream") {
  CHECK(Tensor().toString() == "[ Tensor (undefined) ]");
  std::ostringstream out;
  out << tensor({1, 2});
  CHECK(out.str() == "tensor([1, 2])");
}

TEST_CASE("print: the default dtype needs no suffix") {
  set_default_dtype(kFloat64);
  const std::string text = tensor({1.5}).toString(), single = tensor({1.5}, kFloat32).toString();
  set_default_dtype(kFloat32);
  CHECK(text == "tensor([1.5000])");
  CHECK(single == "tensor([1.5000], dtype=torch.float32)");
}

TEST_CASE("print: options change all of it, and wrong ones are refused") {
  struct Restore {
    ~Restore() { set_print_options({}); }
  } const restore;
  const Tensor x = tensor({{1.5, -2.25}, {0.125, 8.0}});
  set_print_options({.precision = 2});
  CHECK(x.toString() == "tensor([[ 1.50, -2.25],\n        [ 0.12,  8.00]])");
  set_print_options({.precision = 1, .sci_mode = true});
  CHECK(tensor({1.0, 20.0}).toString() == "tensor([1.0e+00, 2.0e+01])");
  set_print_options({.sci_mode = false});
  CHECK(tensor({1.0, 2000.5}).toString() == "tensor([   1.0000, 2000.5000])");
  set_print_options({.threshold = 4, .edgeitems = 1});
  CHECK(arange(5).toString() == "tensor([0,  ..., 4])");
  set_print_options({.linewidth = 14});
  CHECK(arange(4).toString() == "tensor([0, 1,\n        2, 3])");
  CHECK_THROWS_AS(set_print_options({.precision = -1}), ValueError);
  CHECK_THROWS_AS(set_print_options({.linewidth = -1}), ValueError);
  CHECK(get_print_options().linewidth == 14);
}
