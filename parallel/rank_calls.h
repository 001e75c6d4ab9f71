// The calls in which ranks wait for each other, in the order in which a rank makes them:
// collectives along an axis of the mesh, and sends and receives between two ranks. The calls of
// each rank are known before any of them starts, so prove_calls.h can prove that the calls of all
// ranks end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/program.h"

namespace plimsoll::parallel {

struct RankCall {
  enum class Kind : uint8_t {
    kCollectiveStart,
    kCollectiveDone,
    kReduction,  // a collective within an op, such as a loss over a sharded vocabulary
    kSend,
    kReceive,
    kTransferDone,  // the end of a send or of a receive that doesn't block
  };

  Kind kind = Kind::kCollectiveStart;
  std::string op;       // the op of a collective
  std::string tensor;   // the tensor made, sent or received; in a …Done call, the tensor of its
                        // start
  std::string scope;    // the scope in the model
  std::string types;    // "f32[4,8] → f32[2,8]"; for transfers only the type sent, "bf16[4,8]"
  std::string details;  // the other attributes of the op: "{axis="data", reduction="max"}"
  // The calls of one stream start in their order, each after the end of the previous one.
  // Collectives have one stream for each axis, with the axis's name; a …Done call has no stream.
  std::string stream;
  // Whether the rank does nothing else until the call has ended. If false, the matching …Done call
  // waits for the end.
  bool blocks = true;
  // For sends and receives: the other rank, and the message.
  int64_t peer = -1;
  int64_t micro_batch = -1;
  int64_t slot = 0;

  bool operator==(const RankCall&) const = default;

  bool collective() const { return kind == Kind::kCollectiveStart || kind == Kind::kReduction; }
  bool transfer() const { return kind == Kind::kSend || kind == Kind::kReceive; }
  bool done() const { return kind == Kind::kCollectiveDone || kind == Kind::kTransferDone; }
};

// "all_reduce_start of %w.grad.sum @block.0: f32[4,8] → f32[4,8] {axis="data"}"
std::string Text(const RankCall& call);

// The call that the node makes; nullopt if the node works on this rank alone. In this model a
// collective blocks, as on CPUs, although on GPUs other work runs until its end is awaited. This is
// enough: if all calls end when collectives block, they also end when collectives don't block,
// since each call then waits for fewer calls.
std::optional<RankCall> CallOf(const graph::Program& program, const graph::Node& node);

// The calls of one program, or the calls between programs.
struct CallList {
  std::string program;  // the program's name
  std::vector<RankCall> calls;

  bool operator==(const CallList&) const = default;
};
CallList CallsOf(const graph::Program& program);

// The calls of one rank. Ranks with equal lists may share them.
struct RankCalls {
  struct Runs {
    int list = 0;  // index into `lists`
    int64_t times = 1;
  };
  std::vector<std::shared_ptr<const CallList>> lists;
  std::vector<Runs> order;
};

}  // namespace plimsoll::parallel
