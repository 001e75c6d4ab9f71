#include "memory/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "memory/lifetimes.h"
#include "memory/placement.h"
#include "memory/room_placement.h"

namespace plimsoll::memory {
namespace {

using graph::Node;
using graph::Place;
using graph::Program;
using graph::Tensor;
using graph::TensorId;

// Lays out persistent tensors one after another, in the order in which the programs name them.
class PersistentPrefix {
 public:
  PersistentPrefix(int64_t alignment, const StepOrder& order)
      : alignment_(alignment), kept_(order.kept) {}

  void Add(const Program& program) {
    for (const Tensor& tensor : program.tensors()) {
      if (!tensor.persistent) continue;
      if (tensor.alias) {
        CheckBase(program, tensor);
        continue;
      }
      auto [at, fresh] = index_.emplace(tensor.name, tensors_.size());
      if (fresh) {
        tensors_.push_back({tensor.name, tensor.type, tensor.role, tensor.place, 0,
                            RoundUp(tensor.bytes(), alignment_)});
        first_program_.push_back(program.name());
      } else {
        CheckSame(program, tensor, at->second);
      }
    }
  }

  // Places tensors on the device before those on the host, and kept tensors after the other tensors
  // of the device, so that the kept tensors' bytes are contiguous. Otherwise tensors are placed in
  // the order in which programs first name them.
  std::vector<PersistentTensor> Place(int64_t& device_bytes, int64_t& host_bytes) {
    std::ranges::stable_sort(tensors_, {}, [this](const PersistentTensor& tensor) {
      if (tensor.place != graph::Place::kDevice) return 2;
      return kept_.contains(tensor.name) ? 1 : 0;
    });
    for (size_t i = 0; i < tensors_.size(); ++i) {
      PersistentTensor& tensor = tensors_[i];
      int64_t& end = tensor.place == graph::Place::kDevice ? device_bytes : host_bytes;
      tensor.offset = end;
      end += tensor.bytes;
    }
    return std::move(tensors_);
  }

 private:
  static void CheckBase(const Program& program, const Tensor& alias) {
    for (const Tensor* t = &alias; t->alias;) {
      t = &program.tensor(t->alias->base);
      if (!t->persistent) {
        throw InternalError(
            fmt::format("program '{}': persistent tensor '{}' is an alias of the temporary '{}'",
                        program.name(), alias.name, t->name));
      }
    }
  }

  void CheckSame(const Program& program, const Tensor& tensor, size_t index) const {
    const PersistentTensor& known = tensors_[index];
    auto describe = [](const graph::TensorType& type, graph::Role role, graph::Place place) {
      return fmt::format("{} {} on {}", graph::Name(role), type.ToString(), graph::Name(place));
    };
    if (known.type == tensor.type && known.role == tensor.role && known.place == tensor.place) {
      return;
    }
    throw InternalError(fmt::format(
        "persistent tensor '{}' is a {} in program '{}' but a {} in program '{}'", tensor.name,
        describe(known.type, known.role, known.place), first_program_[index],
        describe(tensor.type, tensor.role, tensor.place), program.name()));
  }

  int64_t alignment_;
  const std::set<std::string, std::less<>>& kept_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<PersistentTensor> tensors_;
  std::vector<std::string> first_program_;
};

// The temporaries of one program in one place, the device or the host.
struct Temporaries {
  // The temporaries above the persistent tensors.
  std::vector<Interval> intervals;
  std::vector<int32_t> buffers;  // by interval: its index in Lifetimes::buffers
  int64_t most_above = 0;        // the most bytes of `intervals` alive at once
  Placement placement;
  // The temporaries on the bytes of kept tensors, with their offsets.
  std::vector<std::pair<int32_t, int64_t>> within;

  std::vector<int64_t> live;  // by node: bytes alive, including persistent tensors
  int64_t max_live = 0;
};

// `persistent_bytes`: the bytes of the tensors that are needed throughout the program.
Temporaries Collect(const Lifetimes& lifetimes, Place place, size_t nodes, int64_t alignment,
                    int64_t persistent_bytes) {
  Temporaries result;
  for (size_t i = 0; i < lifetimes.buffers.size(); ++i) {
    const Buffer& buffer = lifetimes.buffers[i];
    if (buffer.place != place) continue;
    result.intervals.push_back({buffer.bytes, buffer.birth, buffer.death});
    result.buffers.push_back(static_cast<int32_t>(i));
  }
  result.live = LiveBytes(lifetimes, place, nodes, alignment);
  result.max_live = persistent_bytes;
  for (int64_t& bytes : result.live) {
    bytes += persistent_bytes;
    result.max_live = std::max(result.max_live, bytes);
  }
  result.most_above = result.max_live - persistent_bytes;
  return result;
}

// The bytes of kept tensors that a program does not need throughout.
struct KeptRoom {
  std::vector<ByteRange> ranges;
  int64_t bytes = 0;
};

KeptRoom RoomOf(const std::vector<PersistentTensor>& persistent, const KeptNeeds& needs) {
  KeptRoom room;
  for (const PersistentTensor& tensor : persistent) {
    const auto need = needs.find(tensor.name);
    if (need == needs.end() || need->second.throughout()) continue;
    if (room.ranges.empty() || room.ranges.back().end != tensor.offset) {
      room.ranges.push_back({tensor.offset, tensor.offset});
    }
    room.ranges.back().end += tensor.bytes;
    room.bytes += tensor.bytes;
  }
  return room;
}

int64_t MostAlive(const std::vector<Interval>& intervals, size_t nodes, int64_t alignment) {
  std::vector<int64_t> change(nodes + 1, 0);
  for (const Interval& interval : intervals) {
    change[static_cast<size_t>(interval.birth)] += RoundUp(interval.size, alignment);
    change[static_cast<size_t>(interval.death) + 1] -= RoundUp(interval.size, alignment);
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return *std::ranges::max_element(change);
}

using OffsetsByName = std::map<std::string, int64_t, std::less<>>;

// Gives some temporaries places in the room of kept tensors; kept tensors have their own places.
void UseRoom(const Program& program, const Lifetimes& lifetimes, const KeptRoom& room,
             const OffsetsByName& persistent, int64_t alignment, Temporaries& temporaries) {
  if (room.ranges.empty()) return;
  std::vector<Interval> intervals;
  std::vector<int32_t> buffers;
  std::vector<FixedBuffer> fixed;
  for (size_t i = 0; i < temporaries.buffers.size(); ++i) {
    const int32_t buffer = temporaries.buffers[i];
    const std::vector<TensorId>& tensors = lifetimes.buffers[buffer].tensors;
    const auto kept =
        std::ranges::find_if(tensors, [&](TensorId id) { return program.tensor(id).persistent; });
    if (kept == tensors.end()) {
      intervals.push_back(temporaries.intervals[i]);
      buffers.push_back(buffer);
    } else {
      const int64_t offset = persistent.find(program.tensor(*kept).name)->second;
      temporaries.within.emplace_back(buffer, offset);
      fixed.push_back({temporaries.intervals[i], offset});
    }
  }
  const std::vector<int64_t> offsets =
      PlaceInRoom(intervals, room.ranges, std::move(fixed), alignment);
  temporaries.intervals.clear();
  temporaries.buffers.clear();
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] >= 0) {
      temporaries.within.emplace_back(buffers[i], offsets[i]);
    } else {
      temporaries.intervals.push_back(intervals[i]);
      temporaries.buffers.push_back(buffers[i]);
    }
  }
  temporaries.most_above = MostAlive(temporaries.intervals, program.nodes().size(), alignment);
}

// Accepted fragmentation, as a fraction of the arena. Reducing it further is not worth an exact
// search, since the budget's solver plans hundreds of programs.
constexpr double kToleratedFragmentation = 0.0005;

// Places the temporaries of all programs, on the device or on the host, and returns the largest
// extent. A program is not packed tighter than the extent of earlier programs, because that would
// save nothing.
int64_t PlaceAll(std::vector<Temporaries>& all, int64_t persistent_bytes,
                 const PlanOptions& plan_options) {
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return all[a].most_above > all[b].most_above; });
  int64_t extent = 0;
  for (size_t p : order) {
    PlacementOptions options;
    options.alignment = plan_options.alignment;
    options.work = plan_options.search_work;
    options.target = extent;
    const int64_t temporary = std::max(all[p].most_above, extent);
    const double share = temporary > 0 ? static_cast<double>(persistent_bytes + temporary) /
                                             static_cast<double>(temporary)
                                       : 1;
    options.tolerated = kToleratedFragmentation * share;
    all[p].placement = memory::Place(all[p].intervals, options);
    extent = std::max(extent, all[p].placement.extent);
  }
  return extent;
}

void FillOffsets(const Program& program, const Lifetimes& lifetimes, const Temporaries& device,
                 const Temporaries& host, const OffsetsByName& persistent,
                 runtime::Layout& layout) {
  std::vector<int64_t> of_buffer(lifetimes.buffers.size(), 0);
  for (size_t i = 0; i < device.buffers.size(); ++i) {
    of_buffer[device.buffers[i]] = layout.persistent_bytes + device.placement.offsets[i];
  }
  for (size_t i = 0; i < host.buffers.size(); ++i) {
    of_buffer[host.buffers[i]] = layout.host_persistent_bytes + host.placement.offsets[i];
  }
  for (const auto& [buffer, offset] : device.within) of_buffer[buffer] = offset;
  const size_t count = program.tensors().size();
  layout.offsets.assign(count, runtime::kUnplaced);
  // A base is placed before its aliases, because its id is smaller.
  for (size_t id = 0; id < count; ++id) {
    const Tensor& tensor = program.tensor(static_cast<TensorId>(id));
    if (tensor.alias) {
      const int64_t base = layout.offsets[tensor.alias->base];
      if (base != runtime::kUnplaced) {
        layout.offsets[id] = base + tensor.alias->OffsetOn(layout.position, tensor.bytes());
      }
    } else if (tensor.persistent) {
      layout.offsets[id] = persistent.find(tensor.name)->second;
    } else if (lifetimes.buffer_of[id] >= 0) {
      layout.offsets[id] = of_buffer[lifetimes.buffer_of[id]];
    }
  }
}

// The kept tensors of the program that no later program needs.
std::vector<TensorId> EndingIn(const Program& program, const KeptNeeds& needs) {
  std::vector<TensorId> ending;
  for (const auto& [name, need] : needs) {
    const TensorId id = program.Find(name);
    if (id == graph::kNoTensor || !program.tensor(id).persistent) continue;
    if (!need.after) ending.push_back(id);
  }
  return ending;
}

std::string Stem(std::string_view name) {
  const size_t dot = name.rfind('.');
  return std::string(dot == std::string_view::npos ? "" : name.substr(0, dot));
}

std::vector<LiveTensor> LiveAtPeak(const Program& program, const Lifetimes& lifetimes,
                                   const std::vector<PersistentTensor>& persistent,
                                   const KeptNeeds& needs, int32_t peak, int64_t alignment) {
  std::vector<LiveTensor> live;
  for (const PersistentTensor& tensor : persistent) {
    const auto need = needs.find(tensor.name);
    if (need != needs.end() && !need->second.throughout()) continue;
    if (tensor.place != Place::kDevice) continue;
    live.push_back(
        {tensor.name, tensor.type, tensor.role, "", Stem(tensor.name), true, tensor.bytes});
  }
  for (const Buffer& buffer : lifetimes.buffers) {
    if (buffer.place != Place::kDevice || buffer.birth > peak || buffer.death < peak) continue;
    // The owner is the tensor of this buffer that was written last up to the peak.
    TensorId owner = buffer.tensors.front();
    for (TensorId id : buffer.tensors) {
      if (lifetimes.first_use[id] <= peak) owner = id;
    }
    const Tensor& tensor = program.tensor(owner);
    if (tensor.persistent) {
      live.push_back({tensor.name, tensor.type, tensor.role, "", Stem(tensor.name), true,
                      RoundUp(buffer.bytes, alignment)});
      continue;
    }
    const Node* writer = WriterOf(program, lifetimes, owner);
    live.push_back(
        {tensor.name, tensor.type, tensor.role, writer == nullptr ? "" : writer->op->name,
         writer == nullptr ? "" : writer->scope, false, RoundUp(buffer.bytes, alignment)});
  }
  std::stable_sort(live.begin(), live.end(),
                   [](const LiveTensor& a, const LiveTensor& b) { return a.bytes > b.bytes; });
  return live;
}

}  // namespace

std::string DescribeNode(const Program& program, int node) {
  const Node& n = program.nodes()[node];
  return fmt::format("node {} of {}: {}{}{}, {}", node, program.nodes().size(), n.op->name,
                     n.scope.empty() ? "" : " in ", n.scope, graph::Name(n.phase));
}

std::string StarNumbers(std::string_view scope) {
  std::string result;
  while (true) {
    const size_t dot = scope.find('.');
    const std::string_view part = scope.substr(0, dot);
    const bool number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    result += number ? "*" : part;
    if (dot == std::string_view::npos) return result;
    result += '.';
    scope.remove_prefix(dot + 1);
  }
}

MemoryPlan MakePlan(std::span<const Program* const> programs, const PlanOptions& options) {
  if (options.alignment <= 0) throw InternalError("memory plan: alignment must be positive");
  const int64_t alignment = options.alignment;
  MemoryPlan plan;
  plan.alignment = alignment;

  PersistentPrefix prefix(alignment, options.order);
  for (const Program* program : programs) prefix.Add(*program);
  plan.persistent = prefix.Place(plan.persistent_bytes, plan.host_persistent_bytes);
  OffsetsByName persistent;
  for (const PersistentTensor& tensor : plan.persistent) persistent[tensor.name] = tensor.offset;

  std::vector<Lifetimes> lifetimes;
  std::vector<Temporaries> device, host;
  const std::vector<KeptNeeds> needs = NeedsOfKept(programs, options.order);
  for (size_t p = 0; p < programs.size(); ++p) {
    const Program* program = programs[p];
    lifetimes.push_back(ComputeLifetimes(*program, options.in_place, needs[p]));
    const size_t nodes = program->nodes().size();
    const KeptRoom room = RoomOf(plan.persistent, needs[p]);
    device.push_back(Collect(lifetimes.back(), Place::kDevice, nodes, alignment,
                             plan.persistent_bytes - room.bytes));
    UseRoom(*program, lifetimes.back(), room, persistent, alignment, device.back());
    host.push_back(
        Collect(lifetimes.back(), Place::kHost, nodes, alignment, plan.host_persistent_bytes));
  }
  plan.arena_bytes = plan.persistent_bytes + PlaceAll(device, plan.persistent_bytes, options);
  plan.host_arena_bytes =
      plan.host_persistent_bytes + PlaceAll(host, plan.host_persistent_bytes, options);

  plan.max_live_bytes = plan.persistent_bytes;
  plan.host_max_live_bytes = plan.host_persistent_bytes;
  for (size_t p = 0; p < programs.size(); ++p) {
    ProgramPlan& part = plan.programs.emplace_back();
    part.name = programs[p]->name();
    part.layout.alignment = alignment;
    part.layout.position = options.position;
    part.layout.arena_bytes = plan.arena_bytes;
    part.layout.persistent_bytes = plan.persistent_bytes;
    part.layout.host_arena_bytes = plan.host_arena_bytes;
    part.layout.host_persistent_bytes = plan.host_persistent_bytes;
    part.temporary_bytes = device[p].placement.extent;
    FillOffsets(*programs[p], lifetimes[p], device[p], host[p], persistent, part.layout);
    part.kept = needs[p];
    part.layout.ending = EndingIn(*programs[p], needs[p]);
    part.max_live_bytes = device[p].max_live;
    part.live_bytes = std::move(device[p].live);
    part.host_live_bytes = std::move(host[p].live);
    if (!part.live_bytes.empty()) {
      const auto peak = std::max_element(part.live_bytes.begin(), part.live_bytes.end());
      part.peak_node = static_cast<int>(peak - part.live_bytes.begin());
      part.peak_at = DescribeNode(*programs[p], part.peak_node);
    }
    if (plan.peak_program < 0 || part.max_live_bytes > plan.max_live_bytes) {
      plan.peak_program = static_cast<int>(p);
      plan.max_live_bytes = part.max_live_bytes;
    }
    plan.host_max_live_bytes = std::max(plan.host_max_live_bytes, host[p].max_live);
  }
  if (plan.max_live_bytes > 0) {
    plan.fragmentation =
        static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.max_live_bytes) - 1;
  }
  if (plan.peak_program >= 0) {
    plan.peak_live =
        LiveAtPeak(*programs[plan.peak_program], lifetimes[plan.peak_program], plan.persistent,
                   needs[plan.peak_program], plan.programs[plan.peak_program].peak_node, alignment);
    for (const LiveTensor& tensor : plan.peak_live) {
      plan.bytes_by_role[static_cast<size_t>(tensor.role)] += tensor.bytes;
      plan.bytes_by_scope[StarNumbers(tensor.scope)] += tensor.bytes;
    }
  }
  return plan;
}

}  // namespace plimsoll::memory
