#include "data/batch_rows.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace plimsoll::data {
namespace {

graph::Shape WithRows(const graph::Shape& shape, int64_t rows) {
  std::array<int64_t, graph::Shape::kMaxRank> dims{};
  std::ranges::copy(shape.dims(), dims.begin());
  dims[0] = rows;
  return graph::Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(shape.rank())));
}

}  // namespace

int64_t RowsOf(std::span<const graph::Slot> slots) {
  int64_t rows = 0;
  for (const graph::Slot& slot : slots) {
    const graph::Shape& shape = slot.type.shape;
    if (shape.rank() == 0 || shape.dim(0) == 0) return 1;
    if (rows != 0 && shape.dim(0) != rows) return 1;
    rows = shape.dim(0);
  }
  return rows == 0 ? 1 : rows;
}

void TakeRows(std::span<const graph::Slot> slots, int64_t begin, int64_t count,
              std::vector<graph::Slot>& part) {
  const int64_t rows = RowsOf(slots);
  part.resize(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    part[i] = slots[i];
    if (count == rows) continue;
    const size_t each = slots[i].bytes.size() / static_cast<size_t>(rows);
    part[i].type.shape = WithRows(slots[i].type.shape, count);
    part[i].bytes = slots[i].bytes.subspan(static_cast<size_t>(begin) * each,
                                           static_cast<size_t>(count) * each);
  }
}

}  // namespace plimsoll::data
