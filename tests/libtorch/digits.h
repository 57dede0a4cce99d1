// A small set in MNIST's files: each class is a pattern of strokes with noise, easy to tell apart.
#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <string>

namespace libtorch_test {

/// Big-endian, as IDX wants it.
inline void put(std::ofstream& file, uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) file.put(static_cast<char>(number >> shift));
}

inline void write_part(const std::string& prefix, uint32_t count, uint32_t seed) {
  std::ofstream images(prefix + "-images-idx3-ubyte", std::ios::binary);
  std::ofstream labels(prefix + "-labels-idx1-ubyte", std::ios::binary);
  put(images, 0x803);
  for (const uint32_t size : {count, 28u, 28u}) put(images, size);
  put(labels, 0x801);
  put(labels, count);
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t label = (n * 7 + n / 10) % 10;
    std::array<char, 28 * 28> pixels;
    for (uint32_t i = 0; i < pixels.size(); ++i) {
      seed = seed * 1664525u + 1013904223u;
      const uint32_t row = i / 28, column = i % 28;
      // Five rows or five columns of stripes, two pixels wide, at a place that is the class's own.
      const uint32_t across = label < 5 ? row : column;
      const bool stroke = across / 2 == 2 + 2 * (label % 5) && i % 5 != 0;
      pixels[i] = static_cast<char>(stroke ? 200 + (seed >> 24) % 50 : (seed >> 24) % 40);
    }
    images.write(pixels.data(), pixels.size());
    labels.put(static_cast<char>(label));
  }
}

/// Writes the four files of MNIST into a folder.
inline void write_digits(const std::string& folder, uint32_t train, uint32_t test) {
  write_part(folder + "/train", train, 1);
  write_part(folder + "/t10k", test, 2);
}

}  // namespace libtorch_test
