#include "trainer/save_and_resume/read_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/lora.h"
#include "base/axes.h"
#include "graph/objective.h"
#include "models/huggingface.h"
#include "models/sharding.h"
#include "optim/update.h"
#include "trainer/step/carried_state.h"
#include "trainer/step/reading_buffers.h"
#include "trainer/step/saved_tensors.h"

namespace plimsoll::trainer {
namespace {

// A run of elements that are consecutive both in the saved part and in the part that a rank has
// now.
struct MovedRun {
  int64_t from = 0, to = 0;  // indices in the saved part and in this rank's part
  int64_t elements = 0;

  int64_t from_end() const { return from + elements; }
};

struct PartOf {
  // nullptr means that the part is the complete tensor.
  const models::SplitParameter* split = nullptr;
  int64_t rank = 0;
};

struct Piece {
  int64_t in_whole, in_part, elements;
};

// The pieces of a part, ordered both in the tensor and in the part.
std::vector<Piece> PiecesOf(PartOf part, int64_t elements) {
  if (part.split == nullptr) return {{0, 0, elements}};
  std::vector<Piece> pieces;
  part.split->ForPieces(part.rank, [&](int64_t in_whole, int64_t in_part, int64_t count) {
    pieces.push_back({in_whole, in_part, count});
  });
  return pieces;
}

// The runs of elements that the part `saved` contains of the range `wanted` of the part `now`,
// ordered in both parts. `elements`: the number in the complete tensor.
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

using formats::TensorType;
using graph::OwnedAs;
using snapshots::Slice;
using snapshots::TensorRecord;

// Writes this rank's part of a tensor, given all of its elements.
void WriteOwn(const StateTensor& tensor, std::span<const std::byte> bytes, Session& session) {
  const int64_t size = graph::ByteSize(tensor.dtype), begin = tensor.begin * size;
  const int64_t end = std::min(begin + tensor.elements * size, std::ssize(bytes));
  if (begin >= end) return;
  session.WriteState(tensor, 0,
                     bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
}

// The elements that this rank needs from a saved part of a tensor.
struct Arriving {
  const TensorRecord* record;
  const StateTensor* tensor;
  std::vector<MovedRun> runs;

  // The first run that ends after `element` of the saved part.
  auto RunBehind(int64_t element) const {
    return std::ranges::upper_bound(runs, element, {}, &MovedRun::from_end);
  }
  bool Needs(const Slice& slice) const {
    const auto run = RunBehind(slice.begin);
    return run != runs.end() && run->from < slice.begin + slice.elements;
  }
};

// Writes this rank's elements among those of a saved part that begin at `first`. Adjacent runs are
// moved together, because each write costs a call to the device.
void WriteRuns(const Arriving& arriving, int64_t first, std::span<std::byte> bytes,
               Session& session) {
  const StateTensor& tensor = *arriving.tensor;
  const int64_t size = graph::ByteSize(tensor.dtype);
  const int64_t last = first + static_cast<int64_t>(bytes.size()) / size;
  // The elements that wait to be written: their index in `bytes`, their number, and their index on
  // this rank.
  int64_t at = 0, count = 0, to = 0;
  const auto write = [&] {
    if (count == 0) return;
    session.WriteState(
        tensor, (to - tensor.begin) * size,
        bytes.subspan(static_cast<size_t>(at * size), static_cast<size_t>(count * size)));
  };
  for (auto run = arriving.RunBehind(first); run != arriving.runs.end() && run->from < last;
       ++run) {
    const int64_t from = std::max(run->from, first);
    const int64_t elements = std::min(run->from_end(), last) - from;
    if (count > 0 && run->to + (from - run->from) == to + count) {
      std::memmove(&bytes[static_cast<size_t>((at + count) * size)],
                   &bytes[static_cast<size_t>((from - first) * size)],
                   static_cast<size_t>(elements * size));
      count += elements;
      continue;
    }
    write();
    at = from - first, count = elements, to = run->to + (from - run->from);
  }
  write();
}

// Reads each slice that has elements for this rank once, using all threads.
void ReadRuns(const snapshots::Snapshot& snapshot, const std::vector<Arriving>& all,
              Session& session) {
  std::vector<snapshots::TensorSlice> slices;
  std::vector<const Arriving*> owners;  // owners of the slices
  for (const Arriving& arriving : all) {
    for (const Slice& slice : arriving.record->slices) {
      if (!arriving.Needs(slice)) continue;
      slices.push_back({arriving.record, &slice});
      owners.push_back(&arriving);
    }
  }
  const ReadingBuffers staging(session);
  snapshot.Read(slices, staging.buffers(), session.device().pool(),
                [&](size_t index, int64_t at, std::span<std::byte> bytes) {
                  const Arriving& arriving = *owners[index];
                  const int64_t size = graph::ByteSize(arriving.tensor->dtype);
                  WriteRuns(arriving, slices[index].slice->begin + at / size, bytes, session);
                });
}

const TensorRecord& RequirePart(const snapshots::Snapshot& snapshot, const StateTensor& tensor,
                                int64_t part, int64_t elements) {
  const TensorRecord* const record = snapshot.manifest().Find(tensor.name, part);
  if (record == nullptr) FailTensor(snapshot, tensor.name, "is missing a part");
  if (record->elements() != elements) {
    FailTensor(snapshot, tensor.name,
               fmt::format("has {} elements, not {}", record->elements(), elements));
  }
  return *record;
}

// For an unchanged number of tensor ranks: each reads its own part.
void ReadParts(const snapshots::Snapshot& snapshot, const std::vector<StateTensor>& state,
               int64_t tensor_rank, Session& session) {
  std::vector<Arriving> arriving;
  for (const StateTensor& tensor : state) {
    const TensorRecord& record =
        RequirePart(snapshot, tensor, tensor.split ? tensor_rank : 0, tensor.shape.elements());
    if (tensor.elements == 0) continue;
    arriving.push_back({&record, &tensor, {{tensor.begin, tensor.begin, tensor.elements}}});
  }
  ReadRuns(snapshot, arriving, session);
}

// For another number of tensor ranks: adds the elements that this rank needs from each saved part
// of a tensor.
void AddMoved(const snapshots::Snapshot& snapshot, const SavedTensors& saved,
              const StateTensor& tensor, const models::SplitParameter* split, int64_t tensor_rank,
              std::vector<Arriving>& arriving) {
  const models::SplitParameter* const before = saved.SplitOf(tensor.parameter);
  const int64_t elements = split != nullptr ? split->shape().elements() : tensor.shape.elements();
  const int64_t parts = before != nullptr ? saved.tensor_ranks() : 1;
  for (int64_t part = 0; part < parts; ++part) {
    const TensorRecord& record = RequirePart(
        snapshot, tensor, part, before != nullptr ? before->LocalShape().elements() : elements);
    std::vector<MovedRun> runs = MovedRuns({before, part}, {split, tensor_rank}, elements,
                                           {tensor.begin, tensor.begin + tensor.elements});
    if (!runs.empty()) arriving.push_back({&record, &tensor, std::move(runs)});
  }
}

// Encodes 8-bit state in this rank's own blocks: each block gets a scale, and each number the
// nearest code.
void Encode(const StateTensor& tensor, const StateTensor& scales, std::span<const float> numbers,
            Session& session) {
  const ops::Encoding& encoding = optim::EncodingOf(tensor.owner->as);
  const auto n = static_cast<int64_t>(numbers.size());
  std::vector<std::byte> codes(static_cast<size_t>(encoding.CodesType({n}).bytes()));
  std::vector<std::byte> block_scales(static_cast<size_t>(encoding.ScalesType({n}).bytes()));
  encoding.encode(numbers.data(), n, codes.data(), block_scales.data());
  WriteOwn(tensor, codes, session);
  WriteOwn(scales, block_scales, session);
}

// Reads state that becomes 8-bit, or stops being 8-bit, because another number of tensor ranks
// shares it. Uses the unsharded tensor in host memory.
void ReadFromWhole(const snapshots::Snapshot& snapshot, const SavedTensors& saved,
                   const StateTensor& tensor, const StateTensor* scales,
                   const models::SplitParameter* split, int64_t tensor_rank, Session& session) {
  const size_t size =
      scales != nullptr ? sizeof(float) : static_cast<size_t>(graph::ByteSize(tensor.dtype));
  const auto elements = static_cast<size_t>(tensor.shape.elements());
  std::vector<std::byte> values = saved.Read(tensor.name, tensor.parameter);
  if (split != nullptr) {
    const std::vector<std::byte> whole =
        std::exchange(values, std::vector<std::byte>(elements * size));
    split->ForPieces(tensor_rank, [&](int64_t in_whole, int64_t in_part, int64_t count) {
      std::copy_n(whole.data() + static_cast<size_t>(in_whole) * size,
                  static_cast<size_t>(count) * size,
                  values.data() + static_cast<size_t>(in_part) * size);
    });
  }
  if (values.size() != elements * size) FailTensor(snapshot, tensor.name, "is of another size");
  if (scales == nullptr) return WriteOwn(tensor, values, session);
  Encode(tensor, *scales, {reinterpret_cast<const float*>(values.data()), elements}, session);
}

bool IsOwnedAs(const TensorRecord& record, OwnedAs as) { return record.as == Name(as); }
bool IsOwnedAs(const StateTensor& tensor, OwnedAs as) {
  return tensor.owner && tensor.owner->as == as;
}
const std::string& OwnerOf(const TensorRecord& record) { return record.owner; }
const std::string& OwnerOf(const StateTensor& tensor) { return tensor.owner->name; }

// Whether the tensor is an average or a counter of averages.
template <typename Tensor>
bool BelongsToAverages(const Tensor& tensor) {
  return IsOwnedAs(tensor, OwnedAs::kAverage) || optim::CountsAverages(tensor.name);
}

// The names of states with a history, and of their histories.
template <typename Tensors>
std::set<std::string> WithHistory(const Tensors& tensors) {
  std::set<std::string> names;
  for (const auto& tensor : tensors) {
    if (!IsOwnedAs(tensor, OwnedAs::kHistory)) continue;
    names.insert(tensor.name);
    names.insert(OwnerOf(tensor));
  }
  return names;
}

// Tensors by name, without scales of 8-bit state, which belong to their codes.
template <typename Tensors>
auto ByName(const Tensors& tensors) {
  std::map<std::string, const typename Tensors::value_type*> named;
  for (const auto& tensor : tensors) {
    if (!IsOwnedAs(tensor, OwnedAs::kScale)) named[tensor.name] = &tensor;
  }
  return named;
}

// Whether a saved type can be converted. Moments of a small tensor stay float32 next to 8-bit ones,
// and with fewer tensor ranks a part may become large enough for 8 bits.
bool CanBecome(const TensorRecord& saved, TensorType wanted, bool same_ranks) {
  const TensorType codes = TensorTypeOf(EncodingOf(saved).codes);
  const auto number = [&](TensorType type) { return type == TensorType::kF32 || type == codes; };
  return saved.type == wanted || (!same_ranks && number(saved.type) && number(wanted));
}

// Whether only other pipeline stages read the tensor: a parameter that this rank lacks, or a tensor
// that belongs to one.
bool IsOfOtherStage(const snapshots::Snapshot& snapshot, const TensorRecord& record,
                    const models::Model& model, const Session& session) {
  std::string name = record.name;
  const TensorRecord* at = &record;
  for (; at != nullptr && !at->owner.empty(); at = snapshot.manifest().Find(name, 0)) {
    name = at->owner;
  }
  std::vector<models::ParameterInfo> parameters = model.parameters();
  std::ranges::copy(adapters::Parameters(session.compiled().options.lora),
                    std::back_inserter(parameters));
  return std::ranges::find(parameters, name, &models::ParameterInfo::name) != parameters.end() &&
         !session.Carries(name);
}

void RequireSameTensors(const snapshots::Snapshot& snapshot, const std::vector<StateTensor>& state,
                        bool same_ranks, const models::Model& model, const Session& session) {
  auto there = ByName(snapshot.manifest().tensors);
  for (const auto& [name, wanted] : ByName(state)) {
    const StateTensor& tensor = *wanted;
    const auto found = there.find(name);
    if (found == there.end()) FailTensor(snapshot, name, "is missing, but this run needs it");
    if (!CanBecome(*found->second, TensorTypeOf(tensor.dtype), same_ranks)) {
      FailTensor(snapshot, tensor.name,
                 fmt::format("is {}, but this run has {}", formats::TypeName(found->second->type),
                             formats::TypeName(TensorTypeOf(tensor.dtype))));
    }
    there.erase(found);
  }
  const bool stages = session.compiled().options.mesh.ranks(kPipelineAxis) > 1;
  const std::set<std::string> histories = WithHistory(snapshot.manifest().tensors);
  std::erase_if(there, [&](const auto& entry) {
    if (stages && IsOfOtherStage(snapshot, *entry.second, model, session)) return true;
    return optim::BeginsAtZero(entry.first) || BelongsToAverages(*entry.second) ||
           histories.contains(entry.first);
  });
  if (!there.empty()) {
    FailTensor(snapshot, there.begin()->first, "has no place in this run");
  }
}

// Reads the states for which each data rank has its own value, if another number of data ranks
// saved them, and removes them from the list.
void ReadOwnStates(const snapshots::Snapshot& snapshot, const SavedTensors& saved,
                   std::vector<StateTensor>& state, Session& session) {
  const CompiledStep& compiled = session.compiled();
  for (const std::string& name : OwnStates(StepProgramsOf(compiled))) {
    const auto tensor = std::ranges::find(state, name, &StateTensor::name);
    if (tensor == state.end()) continue;
    const TensorRecord* const record = snapshot.manifest().Find(name, 0);
    if (record->elements() == tensor->shape.elements()) continue;
    const auto of_model = std::ranges::find(compiled.states, name, &models::StateInfo::name);
    const models::StateInfo info =
        of_model != compiled.states.end()
            ? *of_model
            : models::StateInfo{.name = name,
                                .shape = {tensor->elements},
                                .merge = {.ranks = graph::OverRanks::kOwn}};
    const std::vector<float> values = saved.ReadState(info);
    session.WriteState(*tensor, 0, std::as_bytes(std::span(values)));
    state.erase(tensor);
  }
}

// If the snapshot has no averages of an objective, they begin with the next update.
void BeginMissingAverages(const snapshots::Snapshot& snapshot, std::vector<StateTensor>& state,
                          Session& session) {
  for (const models::Objective& objective : session.compiled().objectives) {
    const std::string count = graph::OfObjective(objective.name, optim::kAverageCount);
    if (!session.Carries(count)) continue;
    if (snapshot.manifest().Find(count, 0) != nullptr) continue;
    const int32_t none = 0;
    session.Write<int32_t>(count, {&none, 1});
    std::erase_if(state, [&](const StateTensor& tensor) {
      return BelongsToAverages(tensor) && snapshot.manifest().Find(tensor.name, 0) == nullptr;
    });
  }
}

// Whether the snapshot's history continues in this tensor. In snapshots of versions without
// checksums of names, the shape alone decides.
Histories CompareHistory(const snapshots::Snapshot& snapshot, const StateTensor& history) {
  const TensorRecord* const saved = snapshot.manifest().Find(history.name, 0);
  if (saved == nullptr) return Histories::kMissing;
  const graph::Shape shape(saved->shape);
  const bool names = !saved->names_crc || saved->names_crc == history.names_crc;
  if (!names || shape.dim(-1) != history.shape.dim(-1)) return Histories::kOtherTensors;
  return shape == history.shape ? Histories::kContinue : Histories::kOtherWindow;
}

void WriteZeros(const StateTensor& tensor, Session& session) {
  const int64_t bytes = tensor.elements * graph::ByteSize(tensor.dtype);
  session.WriteState(tensor, 0, std::vector<std::byte>(static_cast<size_t>(bytes)));
}

// For histories that differ from the snapshot's: sets the histories and their states to zero, and
// removes both from the list.
Histories BeginOtherHistories(const snapshots::Snapshot& snapshot, std::vector<StateTensor>& state,
                              Session& session) {
  Histories worst = Histories::kContinue;
  for (const StateTensor& tensor : state) {
    if (!IsOwnedAs(tensor, OwnedAs::kHistory)) continue;
    worst = std::max(worst, CompareHistory(snapshot, tensor));
  }
  if (worst == Histories::kContinue) return worst;
  const std::set<std::string> histories = WithHistory(state);
  std::erase_if(state, [&](const StateTensor& tensor) {
    if (!histories.contains(tensor.name)) return false;
    WriteZeros(tensor, session);
    return true;
  });
  return worst;
}

}  // namespace

Histories ReadSnapshot(const snapshots::Snapshot& snapshot, const models::Model& model,
                       const Ranks& ranks, Session& session) {
  std::vector<StateTensor> state = session.State();
  std::erase_if(state, [&](const StateTensor& tensor) {
    return optim::BeginsAtZero(tensor.name) && snapshot.manifest().Find(tensor.name, 0) == nullptr;
  });
  const Histories histories = BeginOtherHistories(snapshot, state, session);
  BeginMissingAverages(snapshot, state, session);
  const adapters::Lora& lora = session.compiled().options.lora;
  const SavedTensors saved(snapshot, model, lora);
  const int64_t tensor_ranks = ranks.mesh().ranks(kTensorAxis);
  const int64_t tensor_rank = ranks.position().at(kTensorAxis);
  const bool same_ranks = saved.tensor_ranks() == tensor_ranks;
  RequireSameTensors(snapshot, state, same_ranks, model, session);
  ReadOwnStates(snapshot, saved, state, session);
  if (same_ranks) {
    ReadParts(snapshot, state, tensor_rank, session);
    return histories;
  }
  const auto split = adapters::SplitParameters(model, lora, tensor_ranks);
  std::vector<Arriving> arriving;
  for (const auto& [name, tensor] : ByName(state)) {
    const auto scales = std::ranges::find(state, graph::Owner{name, OwnedAs::kScale},
                                          [](const StateTensor& of) { return of.owner; });
    const auto found = split.find(tensor->parameter);
    const models::SplitParameter* const now = found == split.end() ? nullptr : &found->second;
    if (scales == state.end() && !IsCoded(*saved.Find(name))) {
      AddMoved(snapshot, saved, *tensor, now, tensor_rank, arriving);
    } else {
      ReadFromWhole(snapshot, saved, *tensor, scales == state.end() ? nullptr : &*scales, now,
                    tensor_rank, session);
    }
  }
  ReadRuns(snapshot, arriving, session);
  return histories;
}

std::string Text(Histories histories) {
  constexpr std::string_view kAnew = "the scales of amp.fp8 begin anew:";
  switch (histories) {
    case Histories::kContinue:
      return "";
    case Histories::kMissing:
      return fmt::format("{} the snapshot has none of earlier steps", kAnew);
    case Histories::kOtherWindow:
      return fmt::format("{} the snapshot's are of another amp.fp8.window", kAnew);
    case Histories::kOtherTensors:
      return fmt::format("{} other layers compute in 8 bits than in the snapshot", kAnew);
  }
  return "";
}

}  // namespace plimsoll::trainer
