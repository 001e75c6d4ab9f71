// Traits of an op: properties that passes need to know in addition to the op's meaning. An op
// declares them (graph/op.h), and the passes named here read them: no pass has a table of ops.
// Every default is safe: an op that declares nothing is treated correctly, if not at its fastest.
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
  kAsInput,     // the type of the input, whatever it is: the op computes nothing
};

struct PrecisionRule {
  Precision precision = Precision::kFloat32;
  // One line for the documented table of ops that models may use. Empty if the op is not in the
  // table.
  std::string_view reason = "";
  // Whether the float32 kernel rounds the operands of its products to TF32 if the attribute "tf32"
  // is set.
  bool tf32 = false;
  // Inputs that are float32 in any case, such as statistics.
  std::vector<int> float32_inputs = {};
};

// What limits an op's speed; used by memory/device_rates and profiles.
enum class CostClass : uint8_t {
  kBandwidth,  // the bytes that the op reads and writes
  kProducts,   // the FLOPs of its matrix products
  kAttention,  // the FLOPs of two products with a softmax between them; attributes "heads" and
               // "kv_heads"
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

// How an op works on tensors that are sharded over tensor-parallel ranks
// (parallel/tensor_parallel.h).
struct ShardingRule {
  // How the results are sharded when the first `inputs` inputs are sharded alike. The other inputs
  // are parameters and scalars.
  enum Follows : uint8_t {
    kNothing,   // all inputs must be unsharded
    kRows,      // results are sharded like the inputs; rows must be complete: the op handles each
                // row alone
    kElements,  // results are sharded like the inputs, by rows or columns: the op handles each
                // element alone
    kHeads,     // results are sharded like the inputs, by heads in the last dimension, which the
                // attributes "heads" and "kv_heads" count; all tokens must be there. An op with
                // parameters of all heads gets the attribute "axis"
  };
  // What the op becomes when its parameter at `weight` is sharded.
  enum SplitWeight : uint8_t {
    kRefused,
    kProduct,  // x·Wᵀ + bias, bias follows W: gives some of the outputs, or one addend of a sum
    kLowRank,  // a product added to the ranges of columns that its attribute "columns" names
    kLookup,   // gives zeros for rows that other ranks hold, and so one addend of a sum
    kReduction,  // the op itself reduces over the ranks along its attribute "axis"
  };
  Follows follows = kNothing;
  int inputs = 1;
  SplitWeight split_weight = kRefused;
  int weight = -1;
};

// How a pass replaces the op to continue a text from earlier tokens (inference/kv_cache.h).
struct Continuation {
  // The op that replaces this op, and reads keys and values of earlier tokens from carried caches.
  // Empty if no op replaces it, because it handles each token alone.
  std::string_view cached_op = "";
  // The index of the optional input for the position of the first token. -1 if positions don't
  // matter.
  int position = -1;
  // The index of the optional input without which positions don't matter. -1 if positions always
  // matter.
  int position_table = -1;
};

}  // namespace plimsoll::graph
