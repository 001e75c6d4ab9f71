#include "trainer/save_and_resume/moved_runs.h"

#include <algorithm>

namespace plimsoll::trainer {
namespace {

struct Piece {
  int64_t in_whole, in_part, elements;
};

// In order of both the whole and the part.
std::vector<Piece> PiecesOf(PartOf part, int64_t elements) {
  if (part.split == nullptr) return {{0, 0, elements}};
  std::vector<Piece> pieces;
  part.split->ForPieces(part.rank, [&](int64_t in_whole, int64_t in_part, int64_t count) {
    pieces.push_back({in_whole, in_part, count});
  });
  return pieces;
}

}  // namespace

std::vector<MovedRun> MovedRuns(PartOf saved, PartOf now, int64_t elements,
                                models::ElementRange wanted) {
  const std::vector<Piece> before = PiecesOf(saved, elements), after = PiecesOf(now, elements);
  std::vector<MovedRun> runs;
  for (auto a = before.begin(), b = after.begin(); a != before.end() && b != after.end();) {
    const int64_t begin =
        std::max({a->in_whole, b->in_whole, b->in_whole + (wanted.begin - b->in_part)});
    const int64_t end = std::min({a->in_whole + a->elements, b->in_whole + b->elements,
                                  b->in_whole + (wanted.end - b->in_part)});
    if (begin < end) {
      runs.push_back(
          {a->in_part + (begin - a->in_whole), b->in_part + (begin - b->in_whole), end - begin});
    }
    a->in_whole + a->elements < b->in_whole + b->elements ? void(++a) : void(++b);
  }
  return runs;
}

}  // namespace plimsoll::trainer
