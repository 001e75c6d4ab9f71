#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/fusions.h"
#include "ops/norms/quantize_norm.h"

namespace plimsoll::ops {
namespace {

using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

class NormQuantizer {
 public:
  explicit NormQuantizer(Program& program) : program_(program) {
    for (size_t n = 0; n < program.nodes().size(); ++n) {
      const Node& node = program.nodes()[n];
      for (TensorId id : node.inputs) Add(readers_, id, n);
      for (TensorId id : node.outputs) Add(writers_, id, n);
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
      nodes[match.norm] = Fused(match);
      gone[match.largest] = gone[match.quantize] = true;
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
  // Arguments of `quantize`: inputs, and the last of its outputs.
  static constexpr size_t kX = 0, kLargest = 1, kAccSums = 2, kExpected = 3;
  static constexpr size_t kSums = 3;

  // Nodes by the tensor whose memory they access, in their order.
  using Accesses = std::map<TensorId, std::vector<size_t>>;
  // Nodes by position: what makes y, what finds its largest magnitude, what makes its codes.
  struct Match {
    size_t norm, largest, quantize;
  };

  static TensorId At(const std::vector<TensorId>& arguments, size_t i) {
    return i < arguments.size() ? arguments[i] : kNoTensor;
  }

  void Add(Accesses& accesses, TensorId id, size_t node) const {
    if (id == kNoTensor) return;
    std::vector<size_t>& nodes = accesses[program_.Root(id)];
    if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
  }

  std::optional<Match> MatchAt(size_t at) const {
    const std::vector<Node>& nodes = program_.nodes();
    const Node& quantize = nodes[at];
    if (quantize.op->name != "quantize" || At(quantize.inputs, kExpected) == kNoTensor ||
        At(quantize.inputs, kAccSums) != kNoTensor || At(quantize.outputs, kSums) != kNoTensor) {
      return std::nullopt;
    }
    const TensorId y = quantize.inputs[kX];
    const std::optional<size_t> maker = OnlyWriter(y);
    const std::optional<size_t> largest = OnlyWriter(quantize.inputs[kLargest]);
    if (!maker || !largest || !(*maker < *largest && *largest < at)) return std::nullopt;
    const Node &norm = nodes[*maker], &finds = nodes[*largest];
    if (!IsQuantizedNorm(norm.op->name) || norm.outputs[NormAdds(norm.op->name) ? 1 : 0] != y ||
        norm.attributes.Has("largest") || HasDropout(norm) ||
        finds.op->name != "largest_magnitude" || finds.inputs[0] != y ||
        readers_.at(y) != std::vector{*largest, at}) {
      return std::nullopt;
    }
    // The codes will be written, and what is expected will be read, earlier than before.
    for (TensorId id : quantize.outputs) {
      if (AnyBetween(readers_, id, *maker, at) || AnyBetween(writers_, id, *maker, at)) {
        return std::nullopt;
      }
    }
    if (AnyBetween(writers_, quantize.inputs[kExpected], *maker, at)) return std::nullopt;
    return Match{*maker, *largest, at};
  }

  // What is added may be dropped before (ops/norms/norm_dropout.h).
  static bool HasDropout(const Node& norm) {
    return NormAdds(norm.op->name) &&
           At(norm.inputs, NormHasMean(norm.op->name) ? 4 : 3) != kNoTensor;
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

  // Whether a node from `first` on, and before `last`, is one of those.
  bool AnyBetween(const Accesses& accesses, TensorId id, size_t first, size_t last) const {
    if (id == kNoTensor) return false;
    const auto found = accesses.find(program_.Root(id));
    return found != accesses.end() &&
           std::ranges::any_of(found->second, [=](size_t n) { return n >= first && n < last; });
  }

  Node Fused(const Match& match) const {
    const std::vector<Node>& nodes = program_.nodes();
    const Node &norm = nodes[match.norm], &quantize = nodes[match.quantize];
    const std::string& of = norm.op->name;
    const size_t adds = NormAdds(of) ? 1 : 0, has_mean = NormHasMean(of) ? 1 : 0;
    const TensorId largest = quantize.inputs[kLargest];
    const bool read = readers_.at(largest).size() > 1;  // not by `quantize` alone
    Node fused = norm;
    fused.op = &graph::OpRegistry::Get().Require("quantize_norm");
    fused.made_by = "fuse";
    // In the order of quantize_norm::Input and Output.
    fused.inputs = {norm.inputs[0], adds != 0 ? norm.inputs[1] : kNoTensor, norm.inputs[1 + adds],
                    has_mean != 0 ? At(norm.inputs, 2 + adds) : kNoTensor,
                    quantize.inputs[kExpected]};
    fused.outputs = quantize.outputs;
    fused.outputs.resize(quantize_norm::kLargest, kNoTensor);
    fused.outputs.push_back(read ? largest : kNoTensor);
    fused.outputs.push_back(has_mean != 0 ? At(norm.outputs, 1 + adds) : kNoTensor);
    fused.outputs.push_back(At(norm.outputs, 1 + adds + has_mean));
    if (adds != 0) fused.outputs.push_back(norm.outputs[0]);
    for (const auto& [name, value] : quantize.attributes.entries()) {
      fused.attributes.Set(name, value);
    }
    fused.attributes.Set("of", of);
    return fused;
  }

  Program& program_;
  Accesses readers_, writers_;
};

}  // namespace

int FuseQuantizedNorms(Program& program) { return NormQuantizer(program).Run(); }

}  // namespace plimsoll::ops
