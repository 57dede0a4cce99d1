// Digits drawn from strokes. A digit is a few strokes, each a smooth curve through some points of
// the unit square. The points tremble, the curves are bent by a smooth random field and moved by an
// affine map, and a round pen draws them with soft edges, as a scanner would see ink.
#include "pellucid/data/datasets/drawn_digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/parallel.h"
#include "base/philox.h"
#include "pellucid/creation.h"
#include "pellucid/memory.h"

namespace pellucid::data::datasets {
namespace {

constexpr int kSide = 28;
constexpr int kCurveSteps = 6;  // straight parts between two points of a curve

struct Point {
  float x, y;  // x to the right, y down
};
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

// Ways to write each digit. A corner is where one stroke ends and the next begins.
const std::vector<Glyph>& glyphs(int64_t digit) {
  static const std::vector<std::vector<Glyph>> all = {
      {{{{.55f, 0},
         {.22f, .15f},
         {.1f, .5f},
         {.22f, .87f},
         {.5f, 1},
         {.8f, .86f},
         {.9f, .5f},
         {.8f, .14f},
         {.55f, 0}}}},
      {{{{.5f, 0}, {.5f, 1}}},
       {{{.3f, .22f}, {.55f, 0}}, {{.55f, 0}, {.52f, 1}}},
       {{{.3f, .22f}, {.55f, 0}}, {{.55f, 0}, {.55f, 1}}, {{.3f, 1}, {.8f, 1}}}},
      {{{{.12f, .25f}, {.3f, .04f}, {.6f, 0}, {.85f, .2f}, {.74f, .5f}, {.4f, .8f}, {.1f, 1}},
        {{.1f, 1}, {.92f, .98f}}},
       {{{.15f, .22f},
         {.45f, 0},
         {.8f, .18f},
         {.68f, .55f},
         {.35f, .92f},
         {.12f, .95f},
         {.2f, .8f},
         {.5f, .9f},
         {.95f, .98f}}}},
      {{{{.15f, .12f}, {.45f, 0}, {.8f, .14f}, {.74f, .38f}, {.4f, .48f}},
        {{.4f, .48f}, {.8f, .57f}, {.88f, .8f}, {.58f, 1}, {.1f, .9f}}},
       {{{.12f, .03f}, {.82f, .03f}},
        {{.82f, .03f}, {.45f, .42f}},
        {{.45f, .42f}, {.85f, .55f}, {.85f, .83f}, {.5f, 1}, {.1f, .9f}}}},
      {{{{.25f, 0}, {.1f, .55f}}, {{.1f, .55f}, {.92f, .52f}}, {{.74f, .03f}, {.68f, 1}}},
       {{{.66f, 0}, {.08f, .66f}}, {{.08f, .66f}, {.95f, .64f}}, {{.66f, 0}, {.64f, 1}}}},
      {{{{.85f, .02f}, {.25f, .04f}},
        {{.25f, .04f}, {.18f, .45f}},
        {{.18f, .45f}, {.5f, .36f}, {.85f, .55f}, {.8f, .86f}, {.45f, 1}, {.1f, .9f}}}},
      {{{{.75f, .02f},
         {.4f, .2f},
         {.14f, .6f},
         {.22f, .9f},
         {.5f, 1},
         {.8f, .86f},
         {.78f, .6f},
         {.48f, .52f},
         {.18f, .72f}}}},
      {{{{.08f, .05f}, {.9f, .03f}}, {{.9f, .03f}, {.6f, .5f}, {.42f, 1}}},
       {{{.08f, .05f}, {.9f, .03f}},
        {{.9f, .03f}, {.62f, .5f}, {.42f, 1}},
        {{.32f, .52f}, {.8f, .5f}}}},
      {{{{.5f, .48f},
         {.2f, .3f},
         {.26f, .07f},
         {.52f, 0},
         {.77f, .08f},
         {.78f, .3f},
         {.5f, .48f},
         {.16f, .7f},
         {.2f, .93f},
         {.5f, 1},
         {.82f, .93f},
         {.84f, .7f},
         {.5f, .48f}}}},
      {{{{.84f, .22f},
         {.56f, 0},
         {.22f, .1f},
         {.14f, .35f},
         {.4f, .52f},
         {.7f, .44f},
         {.84f, .22f}},
        {{.84f, .22f}, {.82f, .6f}, {.66f, 1}}},
       {{{.84f, .22f},
         {.56f, 0},
         {.22f, .1f},
         {.14f, .35f},
         {.4f, .52f},
         {.7f, .44f},
         {.84f, .22f}},
        {{.84f, .22f}, {.84f, .65f}, {.6f, .98f}, {.22f, .9f}}}}};
  return all[static_cast<size_t>(digit)];
}

// The random numbers of one image.
class Dice {
 public:
  Dice(uint64_t seed, int64_t image) : seed_(seed), next_(static_cast<uint64_t>(image) << 12) {}
  // Uniform in [low, high).
  float uniform(float low, float high) {
    if (used_ == 4) {
      block_ = philox4x32(seed_, next_++);
      used_ = 0;
    }
    return low + (high - low) * uniform_float(block_[used_++]);
  }
  // In [-size, size], small values more often than large ones.
  float tremble(float size) { return size * 0.5f * (uniform(-1, 1) + uniform(-1, 1)); }

 private:
  uint64_t seed_, next_;
  PhiloxBlock block_{};
  size_t used_ = 4;
};

// A smooth random displacement: three waves across the square.
struct Field {
  struct Wave {
    float size_x, size_y, along_x, along_y, phase;
  };
  std::array<Wave, 3> waves;

  explicit Field(Dice& dice) {
    constexpr float kMostTurns = 0.9f;  // over the square: bends strokes, never wrinkles them
    for (Wave& w : waves)
      w = {dice.tremble(0.05f), dice.tremble(0.05f), dice.uniform(-kMostTurns, kMostTurns),
           dice.uniform(-kMostTurns, kMostTurns), dice.uniform(0, 1)};
  }
  Point moved(Point p) const {
    Point to = p;
    for (const Wave& w : waves) {
      const float s =
          std::sin(2 * std::numbers::pi_v<float> * (w.along_x * p.x + w.along_y * p.y + w.phase));
      to.x += w.size_x * s;
      to.y += w.size_y * s;
    }
    return to;
  }
};

// Turned, sheared, scaled and shifted into the picture, about its middle.
struct Affine {
  float xx, xy, yx, yy, shift_x, shift_y;

  explicit Affine(Dice& dice) {
    const float turn = dice.tremble(0.22f), shear = dice.uniform(-0.12f, 0.32f);
    const float width = dice.uniform(11.5f, 17.5f), height = dice.uniform(17.5f, 21.0f);
    const float c = std::cos(turn), s = std::sin(turn);
    xx = c * width;
    yx = s * width;
    xy = (-s - shear * c) * height;
    yy = (c - shear * s) * height;
    shift_x = dice.tremble(1.8f) + kSide / 2.0f;
    shift_y = dice.tremble(1.8f) + kSide / 2.0f;
  }
  Point moved(Point p) const {
    const float x = p.x - 0.5f, y = p.y - 0.5f;
    return {xx * x + xy * y + shift_x, yx * x + yy * y + shift_y};
  }
};

// The curve through the points (Catmull and Rom), as straight parts.
Stroke smooth(const Stroke& points) {
  if (points.size() == 2) {  // straight, but with points between, so that the field can bend it
    Stroke line;
    for (int i = 0; i <= kCurveSteps; ++i) {
      const float t = static_cast<float>(i) / kCurveSteps;
      line.push_back({points[0].x + t * (points[1].x - points[0].x),
                      points[0].y + t * (points[1].y - points[0].y)});
    }
    return line;
  }
  const auto at = [&](size_t i, int step) {
    const auto j = static_cast<std::ptrdiff_t>(i) + step;
    return points[static_cast<size_t>(
        std::clamp<std::ptrdiff_t>(j, 0, static_cast<std::ptrdiff_t>(points.size()) - 1))];
  };
  const auto mix = [](float a, float b, float c, float d, float t) {
    return 0.5f *
           (2 * b + t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a))));
  };
  Stroke curve;
  for (size_t i = 0; i + 1 < points.size(); ++i)
    for (int step = 0; step < kCurveSteps; ++step) {
      const float t = static_cast<float>(step) / kCurveSteps;
      const Point a = at(i, -1), b = at(i, 0), c = at(i, 1), d = at(i, 2);
      curve.push_back({mix(a.x, b.x, c.x, d.x, t), mix(a.y, b.y, c.y, d.y, t)});
    }
  curve.push_back(points.back());
  return curve;
}

float distance(Point p, Point a, Point b) {
  const float dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  const float t =
      length > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.f, 1.f) : 0.f;
  return std::hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

// A round pen from a to b. Coverage falls from 1 to 0 over `soft` pixels around its edge.
void draw_line(uint8_t* image, Point a, Point b, float radius, float soft) {
  const float reach = radius + soft;
  const auto cell = [](float v) {
    return std::clamp(static_cast<int>(std::floor(v)), 0, kSide - 1);
  };
  for (int y = cell(std::min(a.y, b.y) - reach); y <= cell(std::max(a.y, b.y) + reach); ++y)
    for (int x = cell(std::min(a.x, b.x) - reach); x <= cell(std::max(a.x, b.x) + reach); ++x) {
      const Point middle{static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f};
      const float ink = std::clamp(0.5f + (radius - distance(middle, a, b)) / soft, 0.f, 1.f);
      uint8_t& pixel = image[y * kSide + x];
      pixel = std::max(pixel, static_cast<uint8_t>(std::lround(255 * ink)));
    }
}

void draw(uint8_t* image, int64_t digit, Dice dice) {
  const std::vector<Glyph>& ways = glyphs(digit);
  const auto way = static_cast<size_t>(dice.uniform(0, static_cast<float>(ways.size())));
  Glyph glyph = ways[way];
  // Where strokes meet they tremble together, so that corners stay closed.
  std::vector<std::pair<Point, Point>> seen;
  for (Stroke& stroke : glyph)
    for (Point& p : stroke) {
      const auto known = std::find_if(seen.begin(), seen.end(), [&](const auto& s) {
        return s.first.x == p.x && s.first.y == p.y;
      });
      if (known == seen.end()) {
        const Point trembled{p.x + dice.tremble(0.06f), p.y + dice.tremble(0.06f)};
        seen.emplace_back(p, trembled);
        p = trembled;
      } else {
        p = known->second;
      }
    }
  const Field field(dice);
  const Affine affine(dice);
  const float radius = dice.uniform(0.75f, 1.75f), soft = dice.uniform(0.9f, 1.5f);
  for (const Stroke& stroke : glyph) {
    const Stroke curve = smooth(stroke);
    for (size_t i = 0; i + 1 < curve.size(); ++i)
      draw_line(image, affine.moved(field.moved(curve[i])), affine.moved(field.moved(curve[i + 1])),
                radius, soft);
  }
}

}  // namespace

MNIST drawn_digits(int64_t count, uint64_t seed, MNIST::Mode mode) {
  PELLUCID_CHECK(count >= 1, ValueError, "drawn_digits: the count must be at least 1, found {}.",
                 count);
  const MemoryCategoryGuard category(MemoryCategory::Data);
  const Tensor images = zeros({count, kSide, kSide}, kUInt8), labels = empty({count}, kUInt8);
  auto* pixels = images.raw<uint8_t>();
  auto* digits = labels.raw<uint8_t>();
  parallel_for(0, count, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      digits[i] = static_cast<uint8_t>(i % 10);
      draw(pixels + i * kSide * kSide, i % 10, Dice(seed, i));
    }
  });
  return MNIST(images, labels, mode);
}

}  // namespace pellucid::data::datasets
