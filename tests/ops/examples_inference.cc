// Examples of ops for generating text.
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

const ExampleTable kExamples(R"(
  // kCounter sets the position to 3.
  attention_cached "a window of 4"([2,4,24], [2,2,9,4], [2,2,9,4], [1] counter)
      {heads=2, kv_heads=2}
  attention_cached "one token, 2 of 6 kv heads, full cache"([3,1,110], [3,2,4,11], [3,2,4,11],
      [1] counter) {heads=6, kv_heads=2}
  attention_cached "sees 5 tokens"([2,4,24], [2,2,9,4], [2,2,9,4], [1] counter)
      {heads=2, kv_heads=2, window=5}
  attention_cached "capped scores"([2,4,24], [2,2,9,4], [2,2,9,4], [1] counter)
      {heads=2, kv_heads=2, scale=0.8, softcap=1.2, window=5}
)");

}  // namespace
}  // namespace plimsoll::ops
