// Rotary position embedding: what it keeps, what it encodes, and a heat map before and after.
#include <pellucid/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>

// One square a value: blue below 0, white at 0, red above; positions to the right, features down.
void draw(std::ofstream& svg, const torch::Tensor& x, int left, const char* title) {
  svg << "<text x='" << left << "' y='20' font-size='14'>" << title << "</text>\n";
  for (int64_t position = 0; position < x.size(0); ++position)
    for (int64_t feature = 0; feature < x.size(1); ++feature) {
      const double v = x[position][feature].item<double>() / 1.5;
      const int fade = static_cast<int>(255 * (1 - std::min(1.0, std::abs(v))));
      svg << "<rect x='" << left + 6 * position << "' y='" << 30 + 10 * feature
          << "' width='6' height='10' fill='rgb(" << (v < 0 ? fade : 255) << "," << fade << ","
          << (v < 0 ? 255 : fade) << ")'/>\n";
    }
  svg << "<text x='" << left << "' y='365' font-size='10'>positions 0 to " << x.size(0) - 1
      << " right, features 0 to " << x.size(1) - 1 << " down; -1.5 blue, 1.5 red</text>\n";
}

int main(int argc, char** argv) {
  torch::manual_seed(0);
  torch::nn::RotaryEmbedding rope(32);
  const torch::Tensor x = torch::randn({2, 48, 32}), heads = torch::randn({2, 48, 4, 32});
  const auto shape = [](const torch::Tensor& t) { return torch::to_string(t.sizes()); };
  std::cout << "[B, L, D]    " << shape(x) << " -> " << shape(rope(x)) << '\n'
            << "[B, L, H, D] " << shape(heads) << " -> " << shape(rope(heads)) << '\n';
  const bool kept = torch::allclose(rope(x).norm(2, {-1}), x.norm(2, {-1}), 1e-5, 1e-5);
  std::cout << "lengths are kept: " << (kept ? "yes" : "no") << '\n';
  // A query at i and a key at j: their product depends on i - j alone.
  const torch::Tensor q = torch::randn({32}), k = torch::randn({32});
  const torch::Tensor at = rope(torch::stack({q, k}).unsqueeze(1).expand({2, 48, 32}));
  const auto product = [&](int i, int j) { return at[0][i].dot(at[1][j]).item<double>(); };
  std::printf("q . k at 5, 2: %.4f; at 40, 37: %.4f; at 40, 2: %.4f\n", product(5, 2),
              product(40, 37), product(40, 2));
  try {
    torch::nn::RotaryEmbedding odd(31);
  } catch (const torch::Error& e) { std::cout << "31 features: " << e.what() << '\n'; }
  if (argc < 2) return 0;
  std::ofstream svg(argv[1]);
  svg << "<svg xmlns='http://www.w3.org/2000/svg' width='640' height='380' "
         "font-family='sans-serif'>\n<rect width='640' height='380' fill='white'/>\n";
  const torch::Tensor ones = torch::ones({1, 48, 32});
  draw(svg, ones[0], 16, "before: every value is 1");
  draw(svg, rope(ones)[0], 336, "after: pairs turn, the first the fastest");
  svg << "</svg>\n";
}
