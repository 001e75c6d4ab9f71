#include "graph/shape.h"

#include "base/error.h"

namespace plimsoll::graph {

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank) {
    throw InternalError("a shape has at most " + std::to_string(kMaxRank) + " dimensions, not " +
                        std::to_string(dims.size()));
  }
  int64_t elements = 1;
  for (int64_t d : dims) {
    if (d < 0) throw InternalError("negative dimension " + std::to_string(d));
    if (__builtin_mul_overflow(elements, d, &elements)) {
      throw InternalError("a shape's element count overflows 64 bits");
    }
    dims_[rank_++] = d;
  }
}

int64_t Shape::dim(int index) const {
  const int at = index < 0 ? index + rank_ : index;
  if (at < 0 || at >= rank_) {
    throw InternalError("dimension " + std::to_string(index) + " of shape " + ToString());
  }
  return dims_[at];
}

int64_t Shape::elements() const {
  int64_t n = 1;
  for (int64_t d : dims()) n *= d;
  return n;
}

int64_t Shape::rows() const { return DropLast().elements(); }

Shape Shape::WithLast(int64_t size) const {
  Shape result = *this;
  if (rank_ == 0) throw InternalError("a scalar has no last dimension");
  result.dims_[rank_ - 1] = size;
  return result;
}

Shape Shape::DropLast() const {
  if (rank_ == 0) throw InternalError("a scalar has no last dimension");
  return Shape(dims().first(rank_ - 1));
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) {
    if (i > 0) text += ',';
    text += std::to_string(dims_[i]);
  }
  return text + "]";
}

}  // namespace plimsoll::graph
