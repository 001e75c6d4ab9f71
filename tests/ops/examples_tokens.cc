// Examples of ops that move tokens and pixels: widths that fill packs of 16 bytes and others.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  slice_tokens "some"([3,7,8]) {count=4, first=2}
  slice_tokens "first"([2,5,3]) {count=1, first=0}
  place_tokens "in the middle"([3,2,8]) {first=3, tokens=9}
  place_tokens "all"([2,4,3]) {first=0, tokens=4}

  prepend_token([3,5,16], [16], [6,16])
  prepend_token "narrow"([2,4,3], [3], [5,3])

  patches "three channels"([2,8,12,3]) {size=4}
  patches "of odd size"([2,6,9,1]) {size=3}
  patches_backward([2,6,48]) {h=8, size=4, w=12}
)");

}  // namespace
}  // namespace plimsoll::ops
