// Which pixels a resized image reads, along one dimension. Positions are ratios of integers, or one
// product in float32, so that all devices read the same pixels with the same weights.
#pragma once

#include <cstdint>
#include <numeric>
#include <type_traits>

namespace plimsoll::ops {

// The most pixels of one dimension: twice the product of two sizes must fit in 32 bits.
inline constexpr int64_t kMostResizeSize = int64_t{1} << 15;

// The pixels of y that read a pixel of x; no pixel if begin ≥ end.
struct ResizeRange {
  int32_t begin, end;
};

// Nearest interpolation: pixel o of y is pixel ⌊o · (in / out)⌋ of x, at most in − 1. As in
// PyTorch, ratio and product are rounded to float32 for any type of tensor.
struct NearestAxis {
  static constexpr int kTaps = 1;

  int32_t in, out;
  float ratio;

  constexpr NearestAxis(int64_t in_size, int64_t out_size)
      : in(static_cast<int32_t>(in_size)),
        out(static_cast<int32_t>(out_size)),
        ratio(static_cast<float>(in) / static_cast<float>(out)) {}

  constexpr int32_t Nearest(int32_t o) const {
    const auto at = static_cast<int32_t>(static_cast<float>(o) * ratio);
    return at < in ? at : in - 1;
  }

  // The pixels of x that pixel o of y reads, and their weights.
  template <typename T>
  constexpr void Read(int32_t o, int32_t (&pixels)[kTaps], T (&weights)[kTaps]) const {
    pixels[0] = Nearest(o);
    weights[0] = 1;
  }

  constexpr ResizeRange Readers(int32_t pixel) const {
    return {FirstFrom(pixel), pixel + 1 < in ? FirstFrom(pixel + 1) : out};
  }

  // The weight of `pixel` in pixel o of y, which reads it.
  template <typename T>
  constexpr T Weight(int32_t /*o*/, int32_t /*pixel*/) const {
    return 1;
  }

 private:
  // The first pixel of y that reads `pixel` or a later one. The search begins where exact
  // arithmetic finds it.
  constexpr int32_t FirstFrom(int32_t pixel) const {
    int32_t o = (pixel * out + in - 1) / in;
    while (o > 0 && Nearest(o - 1) >= pixel) --o;
    while (o < out && Nearest(o) < pixel) ++o;
    return o;
  }
};

// Linear interpolation: pixel o of y is at position p(o) = (o · step + start) / unit among the
// pixels of x, and reads the two pixels next to p(o). With aligned corners p = o · (in − 1) / (out
// − 1), otherwise p + 1/2 = (o + 1/2) · in / out; y is constant beyond the first and the last pixel
// of x.
struct LinearAxis {
  static constexpr int kTaps = 2;

  int32_t in, out;
  int32_t step, start, unit;
  float inverse;  // 1 / unit: exact if the sizes differ by a power of 2

  constexpr LinearAxis(int64_t in_size, int64_t out_size, bool align_corners)
      : in(static_cast<int32_t>(in_size)), out(static_cast<int32_t>(out_size)) {
    if (!align_corners) {
      step = 2 * in;
      start = in - out;
      unit = 2 * out;
    } else {
      // If y has a single pixel, it is the first pixel of x.
      step = out > 1 ? in - 1 : 0;
      start = 0;
      unit = out > 1 ? out - 1 : 1;
    }
    const int32_t common = std::gcd(std::gcd(step, start), unit);
    step /= common;
    start /= common;
    unit /= common;
    inverse = 1 / static_cast<float>(unit);
  }

  // The pixels of x that pixel o of y reads, and their weights. If o reads only one pixel, it reads
  // this pixel twice, with weights of 1/2: a weight of 0 would turn infinity into NaN.
  template <typename T>
  constexpr void Read(int32_t o, int32_t (&pixels)[kTaps], T (&weights)[kTaps]) const {
    const int32_t from_start = o * step + start;
    const int32_t position = from_start > 0 ? from_start : 0;
    pixels[0] = position / unit;
    const int32_t rest = position - pixels[0] * unit;
    const bool alone = rest == 0 || pixels[0] + 1 == in;
    pixels[1] = alone ? pixels[0] : pixels[0] + 1;
    weights[0] = alone ? T(0.5) : Part<T>(unit - rest);
    weights[1] = alone ? T(0.5) : Part<T>(rest);
  }

  constexpr ResizeRange Readers(int32_t pixel) const {
    if (step == 0) return {0, pixel == 0 ? out : 0};
    ResizeRange readers{0, out};
    if (pixel > 0) {  // pixels o of y with p(o) > pixel − 1
      const int32_t beyond = (pixel - 1) * unit - start;
      if (beyond >= 0) readers.begin = beyond / step + 1;
    }
    if (pixel + 1 < in) {  // pixels o of y with p(o) < pixel + 1
      const int32_t before = (pixel + 1) * unit - start;
      const int32_t end = before > 0 ? (before - 1) / step + 1 : 0;
      if (end < out) readers.end = end;
    }
    return readers;
  }

  // The weight of `pixel` in pixel o of y, which reads it.
  template <typename T>
  constexpr T Weight(int32_t o, int32_t pixel) const {
    const int32_t distance = o * step + start - pixel * unit;
    if (distance < 0) return pixel == 0 ? 1 : Part<T>(unit + distance);
    return pixel + 1 == in ? 1 : Part<T>(unit - distance);
  }

 private:
  template <typename T>
  constexpr T Part(int32_t units) const {
    if constexpr (std::is_same_v<T, float>) {
      return static_cast<float>(units) * inverse;
    } else {
      return static_cast<T>(units) / static_cast<T>(unit);
    }
  }
};

}  // namespace plimsoll::ops
