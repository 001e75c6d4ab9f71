#include "ops/linear/quantize_fusion.h"

#include <algorithm>
#include <map>
#include <utility>

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

class CodesFuser {
 public:
  explicit CodesFuser(Program& program) : program_(program) {
    for (size_t n = 0; n < program.nodes().size(); ++n) {
      const Node& node = program.nodes()[n];
      for (TensorId id : node.inputs) Add(readers_, id, n);
      for (TensorId id : node.outputs) Add(writers_, id, n);
    }
  }

  int Run(const std::function<std::optional<Node>(const ReadAsCodes&)>& fuse) {
    std::vector<Node>& nodes = program_.mutable_nodes();
    std::vector<bool> gone(nodes.size(), false);
    int fused = 0;
    for (size_t n = 0; n < nodes.size(); ++n) {
      const std::optional<Match> match = MatchAt(n);
      if (!match) continue;
      const TensorId y = nodes[n].inputs[quantize::kX];
      const TensorId largest = nodes[n].inputs[quantize::kLargest];
      const bool read = readers_.at(largest).size() > 1;  // a node other than `quantize` reads it
      std::optional<Node> node =
          fuse({nodes[match->maker], nodes[n], y, read ? largest : kNoTensor});
      if (!node) continue;
      // Matches share no nodes, because each has its own y.
      nodes[match->maker] = *std::move(node);
      gone[match->largest] = gone[n] = true;
      ++fused;
    }
    size_t stays = 0;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (gone[n]) continue;
      if (stays != n) nodes[stays] = std::move(nodes[n]);
      ++stays;
    }
    nodes.resize(stays);
    return fused;
  }

 private:
  // Maps a tensor to the nodes that access its memory, in their order.
  using Accesses = std::map<TensorId, std::vector<size_t>>;
  // The indices of the nodes.
  struct Match {
    size_t maker, largest;
  };

  void Add(Accesses& accesses, TensorId id, size_t node) const {
    if (id == kNoTensor) return;
    std::vector<size_t>& nodes = accesses[program_.Root(id)];
    if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
  }

  std::optional<Match> MatchAt(size_t at) const {
    const std::vector<Node>& nodes = program_.nodes();
    const Node& codes = nodes[at];
    if (codes.op->name != "quantize" ||
        ArgumentAt(codes.inputs, quantize::kExpected) == kNoTensor) {
      return std::nullopt;
    }
    const TensorId y = codes.inputs[quantize::kX];
    const std::optional<size_t> maker = OnlyWriter(y);
    const std::optional<size_t> largest = OnlyWriter(codes.inputs[quantize::kLargest]);
    if (!maker || !largest || !(*maker < *largest && *largest < at)) return std::nullopt;
    const Node& finds = nodes[*largest];
    if (finds.op->name != "largest_magnitude" || finds.inputs[0] != y ||
        nodes[*maker].attributes.Has("largest") || nodes[*maker].phase != codes.phase ||
        finds.phase != codes.phase || readers_.at(y) != std::vector{*largest, at}) {
      return std::nullopt;
    }
    for (TensorId id : codes.outputs) {
      if (AnyBetween(readers_, id, *maker, at) || AnyBetween(writers_, id, *maker, at)) {
        return std::nullopt;
      }
    }
    for (const size_t input : {quantize::kAccSums, quantize::kExpected}) {
      if (AnyBetween(writers_, codes.inputs[input], *maker, at)) return std::nullopt;
    }
    return Match{*maker, *largest};
  }

  // The only node that writes the tensor; nullopt unless the tensor is a temporary and no view.
  std::optional<size_t> OnlyWriter(TensorId id) const {
    const auto found = writers_.find(id);
    if (program_.tensor(id).persistent || program_.tensor(id).alias || found == writers_.end() ||
        found->second.size() != 1) {
      return std::nullopt;
    }
    return found->second.front();
  }

  // Whether a node with an index in [first, last) accesses the tensor.
  bool AnyBetween(const Accesses& accesses, TensorId id, size_t first, size_t last) const {
    if (id == kNoTensor) return false;
    const auto found = accesses.find(program_.Root(id));
    return found != accesses.end() &&
           std::ranges::any_of(found->second, [=](size_t n) { return n >= first && n < last; });
  }

  Program& program_;
  Accesses readers_, writers_;
};

}  // namespace

int FuseCodes(Program& program,
              const std::function<std::optional<Node>(const ReadAsCodes&)>& fuse) {
  // Most programs make no codes, and need no table of accesses.
  const auto makes_codes = [](const Node& node) { return node.op->name == "quantize"; };
  if (std::ranges::none_of(program.nodes(), makes_codes)) return 0;
  return CodesFuser(program).Run(fuse);
}

}  // namespace plimsoll::ops
