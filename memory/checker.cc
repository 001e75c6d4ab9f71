#include "memory/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/verifier.h"

namespace plimsoll::memory {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Place;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;
using runtime::Layout;

constexpr int kBeforeStart = -1;  // the "node" that wrote bytes present when a program starts

// The owner of a range of bytes. The owner has a name, not an id, because persistent tensors of
// other programs own bytes, too.
struct Owner {
  const std::string* tensor = nullptr;  // the root; nullptr: no node has written these bytes yet
  int writer = kBeforeStart;
  std::vector<int> readers;  // nodes that have read the bytes since `writer` wrote them
  bool persistent = false;

  // Persistence is compared, too: a program's temporary may have the same name as another program's
  // persistent tensor.
  bool Is(const std::string& name, bool is_persistent) const {
    return tensor != nullptr && *tensor == name && persistent == is_persistent;
  }
};

// The bytes of one arena as consecutive pieces: ranges of bytes with one owner each.
class ByteMap {
 public:
  explicit ByteMap(int64_t size) : size_(size) { pieces_[0] = Owner{}; }

  int64_t size() const { return size_; }

  // Calls visit(begin, end, owner) for all pieces that overlap [begin, end), each cut to this
  // range.
  template <typename Visit>
  void ForEach(int64_t begin, int64_t end, Visit visit) {
    if (begin >= end) return;
    Split(begin);
    Split(end);
    for (auto at = pieces_.find(begin); at != pieces_.end() && at->first < end; ++at) {
      auto next = std::next(at);
      visit(at->first, next == pieces_.end() ? size_ : next->first, at->second);
    }
  }

  void Assign(int64_t begin, int64_t end, const Owner& owner) {
    if (begin >= end) return;
    Split(begin);
    Split(end);
    auto first = pieces_.find(begin);
    auto last = pieces_.lower_bound(end);
    first->second = owner;
    pieces_.erase(std::next(first), last);
  }

 private:
  // Makes `at` the start of a piece.
  void Split(int64_t at) {
    if (at >= size_) return;
    auto after = pieces_.upper_bound(at);
    auto piece = std::prev(after);
    if (piece->first != at) pieces_.emplace_hint(after, at, piece->second);
  }

  int64_t size_;
  std::map<int64_t, Owner> pieces_;  // maps the first byte of a piece to its owner
};

struct Bytes {
  int64_t begin, end;
  bool Overlaps(const Bytes& other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Bytes&) const = default;
};

// A persistent tensor of any program.
struct PersistentTensor {
  Bytes bytes;
  Place place;
  const Program* program;  // the first program that names the tensor
};
using PersistentTensors = std::map<std::string, PersistentTensor>;

// The kept tensors whose values a program reads, writes or loses.
struct KeptValues {
  std::set<std::string> read;  // kept tensors whose values the program reads before it writes them
  // At the program's end, the tensors of `written` have a new value, and the bytes of those in
  // `lost` belong to other tensors.
  std::vector<const std::string*> written, lost = {};
};

class Replay {
 public:
  Replay(const Program& program, const Layout& layout, const PersistentTensors& persistent,
         const CheckOptions& options)
      : program_(program),
        layout_(layout),
        persistent_(persistent),
        options_(options),
        device_(layout.arena_bytes),
        host_(layout.host_arena_bytes),
        written_(program.tensors().size(), false) {
    for (const auto& [name, tensor] : persistent) {
      Arena(tensor.place)
          .ForEach(tensor.bytes.begin, tensor.bytes.end, [&](int64_t begin, int64_t, Owner& owner) {
            if (owner.tensor != nullptr) {
              Fail(fmt::format("persistent tensors '{}' and '{}' overlap at byte {}", *owner.tensor,
                               name, begin));
            }
            owner.tensor = &name;
            owner.persistent = true;
          });
    }
    // The host fills inputs before the first node.
    for (size_t i = 0; i < program.tensors().size(); ++i) {
      const Tensor& tensor = program.tensors()[i];
      const TensorId id = static_cast<TensorId>(i);
      if (tensor.persistent || tensor.alias || tensor.role != Role::kInput) continue;
      if (layout.offset(id) != runtime::kUnplaced) Write(kBeforeStart, id);
    }
  }

  KeptValues Run() {
    const int count = static_cast<int>(program_.nodes().size());
    for (int n = 0; n < count; ++n) {
      const Node& node = program_.nodes()[n];
      for (TensorId id : node.inputs) {
        if (id != kNoTensor) Read(n, id);
      }
      for (TensorId id : node.outputs) {
        if (id != kNoTensor) written_[program_.Root(id)] = true;
      }
      // A view accesses no bytes; its output is an alias of its input, and is checked as an alias.
      if (node.op->view) continue;
      CheckWithinNode(n);
      for (TensorId id : node.outputs) {
        if (id != kNoTensor) Write(n, id);
      }
      if (node.workspace != kNoTensor) Write(n, node.workspace);
    }
    // The host reads these tensors after the last node.
    for (size_t i = 0; i < program_.tensors().size(); ++i) {
      const Tensor& tensor = program_.tensors()[i];
      const TensorId id = static_cast<TensorId>(i);
      const bool written = written_[program_.Root(id)];
      if (tensor.role == Role::kMetric && !tensor.persistent && written) Read(count, id);
    }
    FindLeft();
    return std::move(kept_);
  }

 private:
  bool IsKept(const std::string& name) const { return options_.order.kept.contains(name); }

  // Finds which kept tensors still own their bytes at the end of the program.
  void FindLeft() {
    for (const auto& [name, tensor] : persistent_) {
      if (!IsKept(name)) continue;
      bool all = true, old = false;
      Arena(tensor.place)
          .ForEach(tensor.bytes.begin, tensor.bytes.end, [&](int64_t, int64_t, Owner& owner) {
            all = all && owner.Is(name, /*is_persistent=*/true);
            old = old || owner.writer == kBeforeStart;
          });
      if (!all) {
        kept_.lost.push_back(&name);
      } else if (!old) {
        kept_.written.push_back(&name);
      }
    }
  }
  ByteMap& Arena(Place place) { return place == Place::kDevice ? device_ : host_; }

  Bytes BytesOf(TensorId id) const {
    const int64_t begin = layout_.offset(id);
    return {begin, begin + program_.tensor(id).bytes()};
  }

  std::string NodeText(int n) const {
    if (n == kBeforeStart) return "the start";
    if (n >= static_cast<int>(program_.nodes().size())) return "the end";
    return graph::Describe(program_, static_cast<size_t>(n));
  }

  [[noreturn]] void Fail(const std::string& message) const {
    throw InternalError(fmt::format("memory check, program '{}': {}", program_.name(), message));
  }

  // Throws InternalError unless the tensor has memory within its arena and, if it is an alias,
  // within its base.
  void CheckPlace(int n, TensorId id) {
    const Tensor& tensor = program_.tensor(id);
    const Bytes bytes = BytesOf(id);
    if (bytes.begin < 0 || bytes.end > Arena(tensor.place).size()) {
      Fail(fmt::format("{} touches '{}' at bytes {}..{}, outside the arena of {}", NodeText(n),
                       tensor.name, bytes.begin, bytes.end, Arena(tensor.place).size()));
    }
    if (tensor.alias) {
      const Tensor& base = program_.tensor(tensor.alias->base);
      const int64_t base_begin = layout_.offset(tensor.alias->base);
      const int64_t offset = tensor.alias->OffsetOn(layout_.position, tensor.bytes());
      if (bytes.begin != base_begin + offset || bytes.begin < base_begin ||
          bytes.end > base_begin + base.bytes() || tensor.place != base.place) {
        Fail(fmt::format("{} touches '{}' at bytes {}..{}, which is not where its base '{}' has it",
                         NodeText(n), tensor.name, bytes.begin, bytes.end, base.name));
      }
      CheckPlace(n, tensor.alias->base);
    } else if (bytes.begin % options_.alignment != 0) {
      Fail(fmt::format("'{}' at byte {} is not aligned to {}", tensor.name, bytes.begin,
                       options_.alignment));
    }
  }

  void CheckOrder(int earlier, int later, const std::string& what) const {
    if (earlier == kBeforeStart || !options_.ordered ||
        later >= static_cast<int>(program_.nodes().size()) || earlier == later ||
        options_.ordered(program_, earlier, later)) {
      return;
    }
    Fail(
        fmt::format("{} and {} are not ordered, but {}", NodeText(earlier), NodeText(later), what));
  }

  void Read(int n, TensorId id) {
    CheckPlace(n, id);
    const Tensor& tensor = program_.tensor(id);
    const Tensor& root = program_.tensor(program_.Root(id));
    const Bytes bytes = BytesOf(id);
    Arena(tensor.place)
        .ForEach(bytes.begin, bytes.end, [&](int64_t begin, int64_t end, Owner& owner) {
          if (owner.tensor == nullptr) {
            Fail(fmt::format("{} reads '{}', but nothing wrote its bytes {}..{}", NodeText(n),
                             tensor.name, begin, end));
          }
          if (!owner.Is(root.name, root.persistent)) {
            Fail(fmt::format("{} reads '{}', but its bytes {}..{} belong to '{}', written by {}",
                             NodeText(n), tensor.name, begin, end, *owner.tensor,
                             NodeText(owner.writer)));
          }
          if (owner.persistent && owner.writer == kBeforeStart && IsKept(root.name)) {
            kept_.read.insert(root.name);
          }
          CheckOrder(owner.writer, n,
                     fmt::format("the one writes and the other reads '{}'", tensor.name));
          if (options_.ordered && (owner.readers.empty() || owner.readers.back() != n)) {
            owner.readers.push_back(n);
          }
        });
  }

  void Write(int n, TensorId id) {
    CheckPlace(n, id);
    const Tensor& tensor = program_.tensor(id);
    const Tensor& root = program_.tensor(program_.Root(id));
    const Bytes bytes = BytesOf(id);
    ByteMap& arena = Arena(tensor.place);
    arena.ForEach(bytes.begin, bytes.end, [&](int64_t begin, int64_t end, Owner& owner) {
      if (owner.tensor == nullptr) return;
      if (owner.persistent && !owner.Is(root.name, root.persistent) && !IsKept(*owner.tensor)) {
        Fail(fmt::format("{} writes '{}' over bytes {}..{} of the persistent tensor '{}'",
                         NodeText(n), tensor.name, begin, end, *owner.tensor));
      }
      auto what = [&] {
        return fmt::format("both touch bytes {}..{}, as '{}' and as '{}'", begin, end,
                           *owner.tensor, tensor.name);
      };
      if (!options_.ordered) return;
      CheckOrder(owner.writer, n, what());
      for (int reader : owner.readers) CheckOrder(reader, n, what());
    });
    Owner owner;
    owner.tensor = &root.name;
    owner.writer = n;
    owner.persistent = root.persistent;
    arena.Assign(bytes.begin, bytes.end, owner);
  }

  // Whether `part` is this rank's part of `whole`, which a collective completes around that part.
  bool IsOwnPart(TensorId part, TensorId whole) const {
    const std::optional<graph::Alias>& alias = program_.tensor(part).alias;
    return alias && alias->own_part() && alias->base == whole;
  }

  // The outputs of a node must not overlap any other tensor that the node reads or writes.
  void CheckWithinNode(int n) {
    const Node& node = program_.nodes()[n];
    for (TensorId id : node.outputs) {
      if (id != kNoTensor) CheckPlace(n, id);
    }
    if (node.workspace != kNoTensor) CheckPlace(n, node.workspace);
    auto fail = [&](TensorId a, TensorId b) {
      Fail(fmt::format("{} writes '{}', which overlaps its '{}'", NodeText(n),
                       program_.tensor(a).name, program_.tensor(b).name));
    };
    auto overlap = [&](TensorId a, TensorId b) {
      return a != kNoTensor && b != kNoTensor &&
             program_.tensor(a).place == program_.tensor(b).place &&
             BytesOf(a).Overlaps(BytesOf(b));
    };
    for (size_t j = 0; j < node.outputs.size(); ++j) {
      const TensorId output = node.outputs[j];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!overlap(output, node.inputs[i])) continue;
        const bool declared = std::any_of(node.op->in_place.begin(), node.op->in_place.end(),
                                          [&](const graph::InPlacePair& pair) {
                                            return pair.input == static_cast<int>(i) &&
                                                   pair.output == static_cast<int>(j);
                                          });
        const bool same = BytesOf(output) == BytesOf(node.inputs[i]);
        if (!declared || !(same || IsOwnPart(node.inputs[i], output))) fail(output, node.inputs[i]);
      }
      for (size_t other = 0; other < j; ++other) {
        if (overlap(output, node.outputs[other])) fail(output, node.outputs[other]);
      }
      if (overlap(output, node.workspace)) fail(output, node.workspace);
    }
    for (TensorId input : node.inputs) {
      if (overlap(input, node.workspace)) fail(node.workspace, input);
    }
  }

  const Program& program_;
  const Layout& layout_;
  const PersistentTensors& persistent_;
  const CheckOptions& options_;
  ByteMap device_;
  ByteMap host_;
  std::vector<bool> written_;  // by root tensor: whether one of the nodes so far has written it
  KeptValues kept_;
};

// Replays two steps to track which values of kept tensors are known. All other programs run between
// the steps, because each of them may run there.
class KeptReplay {
 public:
  KeptReplay(std::span<const Program* const> programs, const std::vector<KeptValues>& values)
      : programs_(programs), values_(values) {
    for (const KeptValues& of : values) {
      for (const std::string* tensor : of.lost) ever_lost_.insert(*tensor);
    }
  }

  void Run(const StepOrder& order) {
    for (int step = 0; step < 2; ++step) {
      for (const int program : order.runs) {
        RunProgram(static_cast<size_t>(program));
        for (const std::string* tensor : values_[program].written) known_.insert(*tensor);
      }
      for (size_t p = 0; p < programs_.size(); ++p) {
        if (std::ranges::find(order.runs, static_cast<int>(p)) == order.runs.end()) RunProgram(p);
      }
    }
  }

 private:
  void RunProgram(size_t p) {
    const std::string& name = programs_[p]->name();
    for (const std::string& tensor : values_[p].read) {
      if (known_.contains(tensor) || !ever_lost_.contains(tensor)) continue;
      const std::string* lost_by = lost_by_[tensor];
      throw InternalError(
          fmt::format("memory check: program '{}' reads the kept tensor '{}', {}", name, tensor,
                      lost_by == nullptr
                          ? "which no program of the step has written"
                          : fmt::format("whose bytes program '{}' has given to others", *lost_by)));
    }
    for (const std::string* tensor : values_[p].lost) {
      known_.erase(*tensor);
      lost_by_[*tensor] = &name;
    }
  }

  std::span<const Program* const> programs_;
  const std::vector<KeptValues>& values_;
  std::set<std::string> known_, ever_lost_;
  std::map<std::string, const std::string*>
      lost_by_;  // maps a tensor to the name of the program that lost its value
};

// Collects all persistent tensors, and checks that they lie at the same place in every program.
PersistentTensors CollectPersistent(std::span<const Program* const> programs,
                                    std::span<const Layout* const> layouts) {
  PersistentTensors all;
  for (size_t p = 0; p < programs.size(); ++p) {
    for (size_t i = 0; i < programs[p]->tensors().size(); ++i) {
      const Tensor& tensor = programs[p]->tensors()[i];
      if (!tensor.persistent || tensor.alias) continue;
      const int64_t begin = layouts[p]->offsets[i];
      const Bytes bytes{begin, begin + tensor.bytes()};
      auto [known, fresh] =
          all.try_emplace(tensor.name, PersistentTensor{bytes, tensor.place, programs[p]});
      if (!fresh && (known->second.bytes != bytes || known->second.place != tensor.place)) {
        throw InternalError(fmt::format(
            "memory check: persistent tensor '{}' is at bytes {}..{} in program '{}' but at {}..{} "
            "in '{}'",
            tensor.name, known->second.bytes.begin, known->second.bytes.end,
            known->second.program->name(), bytes.begin, bytes.end, programs[p]->name()));
      }
      const int64_t size =
          tensor.place == Place::kDevice ? layouts[p]->arena_bytes : layouts[p]->host_arena_bytes;
      if (bytes.begin < 0 || bytes.end > size) {
        throw InternalError(fmt::format(
            "memory check: persistent tensor '{}' at bytes {}..{} is outside the arena of {}",
            tensor.name, bytes.begin, bytes.end, size));
      }
    }
  }
  return all;
}

}  // namespace

void CheckLayouts(std::span<const Program* const> programs, std::span<const Layout* const> layouts,
                  const CheckOptions& options) {
  if (programs.size() != layouts.size()) {
    throw InternalError("memory check: not one layout per program");
  }
  for (size_t p = 0; p < programs.size(); ++p) {
    if (layouts[p]->offsets.size() == programs[p]->tensors().size()) continue;
    throw InternalError(fmt::format("memory check, program '{}': {} tensors but {} offsets",
                                    programs[p]->name(), programs[p]->tensors().size(),
                                    layouts[p]->offsets.size()));
  }
  const PersistentTensors persistent = CollectPersistent(programs, layouts);
  std::vector<KeptValues> kept;
  for (size_t p = 0; p < programs.size(); ++p) {
    kept.push_back(Replay(*programs[p], *layouts[p], persistent, options).Run());
  }
  KeptReplay(programs, kept).Run(options.order);
}

void CheckPlan(std::span<const Program* const> programs, const MemoryPlan& plan,
               const CheckOptions& options) {
  std::vector<const Layout*> layouts;
  for (const ProgramPlan& program : plan.programs) layouts.push_back(&program.layout);
  CheckLayouts(programs, layouts, options);
}

}  // namespace plimsoll::memory
