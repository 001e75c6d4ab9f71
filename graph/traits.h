// What passes need to know about an op besides its meaning. An op declares it (graph/op.h), and the
// pass that is named here reads it: no pass has a table of ops. Every default is the safe answer:
// an op that declares nothing is treated correctly, if not at its fastest.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace plimsoll::graph {

// The type in which an op works under mixed precision (amp/).
enum class Precision : uint8_t {
  kLow,         // operands and results in the low type, products summed in float32
  kLowStorage,  // operands and results in the low type, the arithmetic between them in float32
  kFloat32,     // operands and results in float32
  kAsInput,     // whatever type the input has: nothing is computed
};

struct PrecisionRule {
  Precision precision = Precision::kFloat32;
  // One line for the documented table of ops that models may use. Empty: not in the table.
  std::string_view reason = "";
  // The float32 kernel rounds the operands of its products to TF32 where the attribute "tf32" is
  // set.
  bool tf32 = false;
  // Inputs that are float32 in whatever type the op works, such as statistics.
  std::vector<int> float32_inputs = {};
};

// What limits an op's speed; used by memory/device_rates and profiles.
enum class CostClass : uint8_t {
  kBandwidth,  // the bytes that it reads and writes
  kProducts,   // the FLOPs of matrix products
  kAttention,  // the same with a softmax between two of them; attributes "heads" and "kv_heads"
};

// One half of an asynchronous transfer that overlaps other nodes (ops/data_movement/copy.h,
// ops/collectives/collective.h).
enum class Transfer : uint8_t {
  kNone,
  kCopyStart,
  kCopyDone,
  kCollectiveStart,
  kCollectiveDone,
};

constexpr bool IsCopy(Transfer half) {
  return half == Transfer::kCopyStart || half == Transfer::kCopyDone;
}
constexpr bool IsDone(Transfer half) {
  return half == Transfer::kCopyDone || half == Transfer::kCollectiveDone;
}

// How an op works on tensors that tensor-parallel ranks share (parallel/tensor_parallel.h).
struct ShardingRule {
  // How results are split when the first `inputs` inputs are shared and split alike. The other
  // inputs are parameters and scalars.
  enum Follows : uint8_t {
    kNothing,   // all inputs must be whole
    kRows,      // results are split as the inputs are; rows must be whole: each row by itself
    kElements,  // the same, but a part of a row's columns is enough: each element by itself
    kHeads,     // results are split as the inputs are, by heads in the last dimension, which the
                // attributes "heads" and "kv_heads" count; all tokens must be there. An op with
                // parameters of all heads gets the attribute "axis"
  };
  // What the op becomes when the ranks share its parameter at `weight`.
  enum SplitWeight : uint8_t {
    kRefused,
    kProduct,    // x·Wᵀ + bias, bias follows W: some of the outputs, or a part of a sum
    kLowRank,    // a product added to the ranges of columns that its attribute "columns" names
    kLookup,     // gives zeros for rows that other ranks hold: a part of a sum
    kReduction,  // the op itself reduces over the ranks along its attribute "axis"
  };
  Follows follows = kNothing;
  int inputs = 1;
  SplitWeight split_weight = kRefused;
  int weight = -1;
};

// What a pass needs to know to continue a text from earlier tokens (inference/kv_cache.h).
struct Continuation {
  // The op that replaces this one and reads keys and values of earlier tokens from carried caches.
  // Empty: none, as each token is handled by itself.
  std::string_view cached_op = "";
  // The optional input for the position of the first token. -1: positions don't matter.
  int position = -1;
  // Positions matter only where this optional input is given. -1: always.
  int position_table = -1;
};

}  // namespace plimsoll::graph
