// Sequences of several lengths: packing, padding, and recurrent layers over them.
#include "nn/waves.h"

using namespace pellucid;
using namespace pellucid::nn_tests;
namespace rnn = nn::utils::rnn;

TEST_CASE("packed sequences: each sequence is as if it were alone, its start state too") {
  nn::LSTM lstm(nn::LSTMOptions(2, 3).bidirectional(true).batch_first(true));
  fill_parameters(*lstm);
  const Tensor x = wave({2, 5, 2}, 1), h = wave({2, 2, 3}, 2), c = wave({2, 2, 3}, 3);
  const auto [out, states] = lstm->forward_with_packed_input(
      rnn::pack_padded_sequence(x, tensor({2, 5}), true, false), std::tuple(h, c));
  const Tensor padded = std::get<0>(rnn::pad_packed_sequence(out, true));
  const int64_t lengths[] = {2, 5};
  for (int64_t i = 0; i < 2; ++i) {
    const auto [alone, last] =
        lstm(x[i].slice(0, 0, lengths[i]), std::tuple(h.select(1, i), c.select(1, i)));
    CHECK(padded[i].slice(0, 0, lengths[i]).allclose(alone, 1e-12));
    CHECK(std::get<0>(states).select(1, i).allclose(std::get<0>(last), 1e-12));
    CHECK(std::get<1>(states).select(1, i).allclose(std::get<1>(last), 1e-12));
  }
  CHECK(padded[0].slice(0, 2).abs().max().item<double>() == 0);
}

TEST_CASE("packed sequences: packing, padding and back") {
  const Tensor a = tensor({1, 2, 3}), b = tensor({4}), c = tensor({5, 6});
  const Tensor padded = rnn::pad_sequence({a, b, c}, true, -1);
  CHECK(equal(padded, tensor({{1, 2, 3}, {4, -1, -1}, {5, 6, -1}})));
  CHECK(equal(rnn::pad_sequence({b, c}, true, 0, "left"), tensor({{0, 4}, {5, 6}})));
  const rnn::PackedSequence packed = rnn::pack_sequence({a, b, c}, /*enforce_sorted=*/false);
  CHECK(equal(packed.data(), tensor({1, 5, 4, 2, 6, 3})));
  CHECK(equal(packed.batch_sizes(), tensor({3, 2, 1})));
  CHECK(equal(packed.sorted_indices(), tensor({0, 2, 1})));
  const auto [back, lengths] = rnn::pad_packed_sequence(packed, true, -1);
  CHECK(equal(back, padded));
  CHECK(equal(lengths, tensor({3, 1, 2})));
  CHECK_FALSE(rnn::pack_sequence({a, c, b}).sorted_indices().defined());
  const std::vector<Tensor> unpacked = rnn::unpack_sequence(packed);
  REQUIRE(unpacked.size() == 3);
  CHECK((equal(unpacked[0], a) && equal(unpacked[1], b) && equal(unpacked[2], c)));
  CHECK(equal(rnn::unpad_sequence(padded, lengths, true)[2], c));
}

TEST_CASE("packed sequences: wrong lengths are refused") {
  const Tensor x = ones({4, 2, 3});
  CHECK_THROWS_WITH_AS(rnn::pack_padded_sequence(x, tensor({1, 2})),
                       doctest::Contains("lengths must fall"), ValueError);
  CHECK_THROWS_AS(rnn::pack_padded_sequence(x, tensor({2, 0})), ValueError);
  CHECK_THROWS_WITH_AS(rnn::pack_padded_sequence(x, tensor({5, 1})),
                       doctest::Contains("a length of 5 is beyond the 4 steps"), ValueError);
  CHECK_THROWS_AS(rnn::pack_padded_sequence(x, tensor({2})), ShapeError);
  const rnn::PackedSequence packed = rnn::pack_padded_sequence(x, tensor({2, 1}));
  CHECK_THROWS_AS(rnn::pad_packed_sequence(packed, false, 0, 1), ValueError);
  CHECK_THROWS_WITH_AS(nn::GRU(5, 2)->forward_with_packed_input(packed),
                       doctest::Contains("the input has 3 features but input_size is 5"),
                       ShapeError);
  CHECK_THROWS_AS(rnn::unpad_sequence(x, tensor({1, 2, 3})), ShapeError);
  CHECK_THROWS_AS(rnn::pad_sequence({}), ValueError);
  CHECK_THROWS_AS(rnn::pad_sequence({ones({2, 3}), ones({2, 4})}), ShapeError);
}
