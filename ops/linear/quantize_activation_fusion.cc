#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ops/fusions.h"
#include "ops/linear/quantize_activation.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

constexpr size_t kQuantizeX = 0, kQuantizeLargest = 1, kQuantizeExpected = 3;  // inputs
constexpr size_t kLargestOutput = 4;  // of quantize_activation

class ActivationQuantizer {
 public:
  explicit ActivationQuantizer(Program& program) : program_(program) {
    for (size_t n = 0; n < program.nodes().size(); ++n) {
      const Node& node = program.nodes()[n];
      for (TensorId id : node.inputs) {
        if (id == kNoTensor) continue;
        std::vector<size_t>& readers = readers_[program.Root(id)];
        if (readers.empty() || readers.back() != n) readers.push_back(n);
      }
      for (TensorId id : node.outputs) {
        if (id != kNoTensor) writers_[program.Root(id)].push_back(n);
      }
    }
  }

  int Run() {
    std::vector<Match> matches;
    for (size_t n = 0; n < program_.nodes().size(); ++n) {
      if (const std::optional<Match> match = MatchAt(n)) matches.push_back(*match);
    }
    // Matches share no nodes: each has its own y.
    std::vector<Node>& nodes = program_.mutable_nodes();
    std::vector<bool> gone(nodes.size(), false);
    for (const Match& match : matches) {
      nodes[match.quantize] = Fused(match);
      gone[match.maker] = gone[match.largest] = true;
    }
    size_t stays = 0;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (gone[n]) continue;
      if (stays != n) nodes[stays] = std::move(nodes[n]);
      ++stays;
    }
    nodes.resize(stays);
    return static_cast<int>(matches.size());
  }

 private:
  // Nodes by position: what makes y, what finds its largest magnitude, what makes its codes.
  struct Match {
    size_t maker, largest, quantize;
  };

  std::optional<Match> MatchAt(size_t at) const {
    const std::vector<Node>& nodes = program_.nodes();
    const Node& quantize = nodes[at];
    if (quantize.op->name != "quantize" || quantize.inputs.size() <= kQuantizeExpected ||
        quantize.inputs[kQuantizeExpected] == kNoTensor) {
      return std::nullopt;
    }
    const std::optional<size_t> maker = OnlyWriter(quantize.inputs[kQuantizeX]);
    const std::optional<size_t> largest = OnlyWriter(quantize.inputs[kQuantizeLargest]);
    if (!maker || !largest || !(*maker < *largest && *largest < at)) return std::nullopt;
    const Node &activation = nodes[*maker], &finds = nodes[*largest];
    if (!IsQuantizedActivation(activation.op->name) || activation.attributes.Has("largest") ||
        finds.op->name != "largest_magnitude" || finds.inputs[0] != quantize.inputs[kQuantizeX] ||
        activation.phase != quantize.phase || finds.phase != quantize.phase ||
        ReadersOf(quantize.inputs[kQuantizeX]) != std::vector{*largest, at} ||
        ReadersOf(quantize.inputs[kQuantizeLargest]).front() != at) {
      return std::nullopt;
    }
    // What y is made of will be read later than before.
    for (TensorId id : activation.inputs) {
      if (WrittenBetween(id, *maker, at)) return std::nullopt;
    }
    return Match{*maker, *largest, at};
  }

  // The node that writes a temporary tensor, of which `id` is no view.
  std::optional<size_t> OnlyWriter(TensorId id) const {
    const auto found = writers_.find(id);
    if (program_.tensor(id).persistent || program_.tensor(id).alias || found == writers_.end() ||
        found->second.size() != 1) {
      return std::nullopt;
    }
    return found->second.front();
  }

  const std::vector<size_t>& ReadersOf(TensorId id) const { return readers_.at(program_.Root(id)); }

  bool WrittenBetween(TensorId id, size_t first, size_t last) const {
    const auto found = writers_.find(program_.Root(id));
    return found != writers_.end() &&
           std::ranges::any_of(found->second, [=](size_t n) { return n >= first && n <= last; });
  }

  Node Fused(const Match& match) const {
    const std::vector<Node>& nodes = program_.nodes();
    const Node& activation = nodes[match.maker];
    Node fused = nodes[match.quantize];
    const TensorId largest = fused.inputs[kQuantizeLargest];
    const bool read = ReadersOf(largest).size() > 1;  // not by `quantize` alone
    fused.op = &graph::OpRegistry::Get().Require("quantize_activation");
    fused.made_by = "fuse";
    fused.inputs[0] = activation.inputs[0];
    fused.inputs[1] = activation.inputs.size() > 1 ? activation.inputs[1] : kNoTensor;
    for (const auto& [name, value] : activation.attributes.entries()) {
      fused.attributes.Set(name, value);
    }
    fused.attributes.Set("of", activation.op->name);
    fused.outputs.resize(kLargestOutput, kNoTensor);
    fused.outputs.push_back(read ? largest : kNoTensor);
    return fused;
  }

  Program& program_;
  // Nodes by the tensor whose memory they read or write, in their order.
  std::map<TensorId, std::vector<size_t>> readers_, writers_;
};

}  // namespace

int FuseQuantizedActivations(Program& program) { return ActivationQuantizer(program).Run(); }

}  // namespace plimsoll::ops
