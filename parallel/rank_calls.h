// The calls in which ranks wait for each other, in the order in which a rank makes them:
// collectives along an axis of the mesh, sends and receives between two ranks. What each rank calls
// is known before any of them starts: prove_calls.h proves of all ranks' calls that they end.
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
    kReduction,  // a collective within an op, such as a loss over a split vocabulary
    kSend,
    kReceive,
    kTransferDone,  // of a send or a receive that doesn't block
  };

  Kind kind = Kind::kCollectiveStart;
  std::string op;       // of collectives
  std::string tensor;   // that is made, sent or received; of a done, the one that its start named
  std::string scope;    // in the model
  std::string types;    // "f32[4,8] → f32[2,8]"; of a transfer what is sent, "bf16[4,8]"
  std::string details;  // the other attributes of the op: "{axis="data", reduction="max"}"
  // Calls of one stream start in their order, each after the end of the one before it. Collectives
  // have one for each axis, by its name; a done has none.
  std::string stream;
  // The rank does nothing else until the call has ended; otherwise the done of the call waits.
  bool blocks = true;
  // Of sends and receives.
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

// The call that the node makes; nothing where it works on this rank alone. A collective blocks, as
// on CPUs, although on GPUs other work runs until its done: whatever ends with blocking calls also
// ends without, since a call then waits for a part of the same calls.
std::optional<RankCall> CallOf(const graph::Program& program, const graph::Node& node);

// What is called in one program, or between programs.
struct CallList {
  std::string program;  // its name
  std::vector<RankCall> calls;

  bool operator==(const CallList&) const = default;
};
CallList CallsOf(const graph::Program& program);

// Of one rank. Ranks with equal lists may share them.
struct RankCalls {
  struct Runs {
    int list = 0;  // index into `lists`
    int64_t times = 1;
  };
  std::vector<std::shared_ptr<const CallList>> lists;
  std::vector<Runs> order;
};

}  // namespace plimsoll::parallel
