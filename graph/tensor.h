// A tensor of a program: a name, a type, and properties that the memory planner needs. A Tensor
// holds no data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/mesh.h"
#include "graph/dtype.h"
#include "graph/shape.h"

namespace plimsoll::graph {

// Index into Program::tensors().
using TensorId = int32_t;
inline constexpr TensorId kNoTensor = -1;  // an absent optional input or output

struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;

  int64_t bytes() const { return shape.elements() * ByteSize(dtype); }
  bool scalar() const { return shape.rank() == 0; }
  bool operator==(const TensorType&) const = default;
  std::string ToString() const;  // "f32[4,64]"
};

// The purpose of a tensor; memory reports sum by role.
enum class Role : uint8_t {
  kInput,           // a buffer that the host fills before a program runs
  kParameter,       // trained weight
  kGradient,        // gradient of a parameter
  kMaster,          // remainder of a low-precision parameter's float32 value
  kOptimizerState,  // moments and counters
  kState,           // other carried state (batch-norm statistics, loss scale)
  kPending,         // new value of a state, until the update commits it
  kActivation,      // any other result of a node
  kWorkspace,       // scratch of one node
  kMetric,          // a buffer that the host reads after a program has run
  kSnapshot,        // copy of carried state, until it is written to disk
};

inline constexpr size_t kRoles = static_cast<size_t>(Role::kSnapshot) + 1;

enum class Place : uint8_t { kDevice, kHost };

// How a result of the forward pass reaches the backward pass. A policy sets it (checkpointing/);
// the passes `recompute` and `offload` act on it. On tensors that are no such results it has no
// meaning.
enum class Retention : uint8_t {
  kSave,       // stays in memory
  kRecompute,  // dies after the forward pass and is computed again where it is needed
  kOffload,    // is offloaded to host memory until it is needed
};

// The relation of a tensor to its owner.
enum class OwnedAs : uint8_t {
  kGradient,   // gradient of a parameter (GradientsOf)
  kRemainder,  // remainder of a bf16 value: both together are the float32 value
  kMaster,     // the float32 value
  kMoment,     // moment of gradients
  kVariance,   // moment of squared gradients, and so never negative
  kScale,      // scale of blocks of codes
  kAverage,    // average over updates
  kHistory,    // the values that the last updates committed to it
  kPending,    // the new value, which an applied update commits to it
};

// How the values that a step's micro-steps compute for a carried tensor become one value.
enum class OverMicroSteps : uint8_t {
  kLast,  // each micro-step continues from the value of the one before; the last value counts
  kSum,   // each micro-step adds its value
  kMean,  // each micro-step adds its value; the update divides the sum by their number
  kMax,   // the largest magnitude, element by element; NaN where a value is NaN (f32)
};

// How the values of data ranks become one value, after those of micro-steps have become one. All
// tensor ranks have the same value.
enum class OverRanks : uint8_t {
  kSame,   // all ranks have the same value: it does not depend on the rank's part of the batch
  kSum,    // all ranks have the sum
  kMean,   // all ranks have the sum; the update divides it by the number of ranks
  kMax,    // all ranks have the largest magnitude, with OverMicroSteps::kMax
  kFirst,  // the update takes the first rank's value
  kOwn,    // each rank keeps its own value
};

std::string_view Name(OwnedAs as);
std::optional<OwnedAs> ParseOwnedAs(std::string_view name);
std::string_view Name(OverMicroSteps over);
std::optional<OverMicroSteps> ParseOverMicroSteps(std::string_view name);
std::string_view Name(OverRanks over);
std::optional<OverRanks> ParseOverRanks(std::string_view name);
std::string_view Name(Role role);
std::optional<Role> ParseRole(std::string_view name);
std::string_view Name(Place place);
std::optional<Place> ParsePlace(std::string_view name);
std::string_view Name(Retention retention);
std::optional<Retention> ParseRetention(std::string_view name);

// A view: the tensor's bytes are those of `base`, beginning at `byte_offset`.
struct Alias {
  TensorId base = kNoTensor;
  int64_t byte_offset = 0;
  // An axis of the mesh, or empty. With an axis, the base consists of one tensor of this type per
  // rank along that axis, in the order of ranks, and the view is this rank's own part. The program
  // is the same on all ranks; `byte_offset` is 0.
  std::string part_along = {};
  bool operator==(const Alias&) const = default;

  bool own_part() const { return !part_along.empty(); }
  // Where the view begins within its base, on that rank.
  int64_t OffsetOn(const MeshPosition& rank, int64_t view_bytes) const {
    return own_part() ? rank.at(part_along) * view_bytes : byte_offset;
  }
};

// The name of the tensor that a tensor belongs to. A program that has one of the two tensors need
// not have the other.
struct Owner {
  std::string name;
  OwnedAs as = OwnedAs::kMoment;
  bool operator==(const Owner&) const = default;
};

// How the values of micro-steps and ranks become the one value of a step. Tensors of the role
// kPending have a Merge, and so have metrics that are complete only at the end of the step.
struct Merge {
  OverMicroSteps micro_steps = OverMicroSteps::kLast;
  OverRanks ranks = OverRanks::kMean;
  bool operator==(const Merge&) const = default;
};
inline constexpr Merge kSummed = {OverMicroSteps::kSum, OverRanks::kSum};

struct Tensor {
  std::string name;  // unique in its program: "block.3.attn.qkv"
  TensorType type;
  Role role = Role::kActivation;
  Place place = Place::kDevice;
  // Carried: outlives the program. Persistent tensors are shared by name among the programs of a
  // step and may be written more than once; all others are written by exactly one node.
  bool persistent = false;
  Retention retention = Retention::kSave;
  std::optional<Alias> alias;
  // For gradients and carried tensors: the tensor that it belongs to.
  std::optional<Owner> owner = {};
  std::optional<Merge> merge = {};  // for carried tensors to which micro-steps or ranks contribute:
                                    // how their values become one
  // For a history (OwnedAs::kHistory): the checksum of the names of the tensors that its elements
  // are about. A saved history fits a program's history only if the checksums are equal.
  std::optional<uint32_t> names_crc = {};

  int64_t bytes() const { return type.bytes(); }
};

// Whether training continues from this tensor: true for parameters and for the state that updates
// them.
bool OutlivesSteps(const Tensor& tensor);

// Whether the tensor is the new value of a state (OwnedAs::kPending).
bool IsPending(const Tensor& tensor);

// The name of a state's tensor with the role kPending.
std::string PendingName(std::string_view state);

}  // namespace plimsoll::graph
