// What passes need to know of an op besides its meaning. An op declares it (graph/op.h), and the
// pass that is named here reads it: no pass has a table of ops. Every default is the careful
// answer, so that an op which says nothing is treated correctly, if not at its fastest.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::graph {

// In which type an op works under mixed precision (amp/).
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
  // A float32 kernel that rounds the operands of its products to TF32 where the attribute "tf32"
  // says so.
  bool tf32 = false;
};

// What binds an op's time: memory/device_rates and profiles.
enum class CostClass : uint8_t {
  kBandwidth,  // the bytes that it reads and writes
  kProducts,   // the FLOPs of matrix products
  kAttention,  // the same with a softmax between two of them; attributes "heads" and "kv_heads"
};

// One half of a transfer that other nodes can run beside (ops/copy.h, ops/collective.h).
enum class Transfer : uint8_t {
  kNone,
  kCopyStart,
  kCopyDone,
  kCollectiveStart,
  kCollectiveDone,
};

// How an op works on what tensor-parallel ranks share (parallel/tensor_parallel.h).
struct ShardingRule {
  // How results lie when the first `inputs` inputs are shared and lie alike. Other inputs are
  // parameters and numbers.
  enum Follows : uint8_t {
    kNothing,   // all inputs must be whole
    kRows,      // results lie as inputs do, whose rows must be whole: each row by itself
    kElements,  // the same, and some columns of a row will do: each element by itself
    kHeads,     // the same with some of the heads in the last dimension, which the attributes
                // "heads" and "kv_heads" count; all tokens must be there
  };
  // What the op becomes when the ranks share its parameter at `weight`.
  enum SplitWeight : uint8_t {
    kRefused,
    kProduct,    // x·Wᵀ + bias, bias behind W: some of the outputs, or a part of a sum
    kLowRank,    // a product added to the ranges of columns that its attribute "columns" names
    kLookup,     // rows that other ranks have are zeros: a part of a sum
    kReduction,  // the op itself reduces over ranks, whom its attribute "axis" names
  };
  Follows follows = kNothing;
  int inputs = 1;
  SplitWeight split_weight = kRefused;
  int weight = -1;
};

// What an op needs to know where a text goes on from earlier tokens (inference/kv_cache.h).
struct Continuation {
  // The op that reads keys and values of earlier tokens from carried caches instead. Empty: none,
  // as each token is handled by itself.
  std::string_view cached_op = "";
  // The optional input that takes the position of the first token. -1: positions don't matter.
  int position = -1;
  // Positions matter only where this optional input is given. -1: always.
  int position_table = -1;
};

}  // namespace plimsoll::graph
