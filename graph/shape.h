// Shape of a tensor: up to kMaxRank dimensions, row-major, rank 0 is a scalar.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace plimsoll::graph {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);  // throws InternalError if there are more than
                                                  // kMaxRank dimensions or one is negative

  int rank() const { return rank_; }
  // Negative indices count from the end, as in PyTorch: dim(-1) is the innermost.
  int64_t dim(int index) const;
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }

  int64_t elements() const;
  // The product of all dimensions but the last: the number of rows for a row-wise op.
  int64_t rows() const;

  // This shape with the last dimension replaced.
  Shape WithLast(int64_t size) const;
  // The shape without its last dimension.
  Shape DropLast() const;

  bool operator==(const Shape&) const = default;
  std::string ToString() const;  // "[4,64,64]"

 private:
  std::array<int64_t, kMaxRank> dims_ = {};
  int rank_ = 0;
};

}  // namespace plimsoll::graph
