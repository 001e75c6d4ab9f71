#include "checkpointing/retention_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/amounts.h"
#include "base/error.h"
#include "base/glob.h"
#include "checkpointing/saved.h"
#include "graph/block.h"

namespace plimsoll::checkpointing {
namespace {

using graph::Program;
using graph::Retention;

// Whether any op declares this word as its preset (OpDef::recompute_preset).
bool IsPreset(std::string_view word) {
  return std::ranges::any_of(graph::OpRegistry::Get().All(), [&](const graph::OpDef* op) {
    return !word.empty() && op->recompute_preset == word;
  });
}

// By tensor that owns memory: the first node of the forward pass that writes it.
std::map<graph::TensorId, int> FindMakers(const Program& program) {
  std::map<graph::TensorId, int> makers;
  const int forward = ForwardNodes(program);
  for (int n = 0; n < forward; ++n) {
    const graph::Node& node = program.nodes()[n];
    if (node.op->view) continue;
    for (const graph::TensorId id : node.outputs) {
      if (id != graph::kNoTensor) makers.try_emplace(program.Root(id), n);
    }
  }
  return makers;
}

class Tagger {
 public:
  Tagger(Program& program, const Options& options)
      : program_(program),
        options_(options),
        saved_(FindSaved(program)),
        makers_(FindMakers(program)),
        tags_(saved_.size(), Retention::kSave) {}

  graph::PassResult Run() {
    switch (options_.policy) {
      case Options::Policy::kNone:
        break;
      case Options::Policy::kBlock:
        RecomputeWithin(1);
        break;
      case Options::Policy::kEvery:
        RecomputeWithin(static_cast<int>(std::min<int64_t>(options_.every, 1 << 20)));
        break;
      case Options::Policy::kSelective:
        RecomputeSelected();
        break;
      case Options::Policy::kExplicit:
        TakeGiven();
        break;
    }
    if (options_.policy != Options::Policy::kExplicit) {
      FollowFirstResults();
      Offload();
      if (options_.reshard) Reshard();
    }
    return Apply();
  }

 private:
  const std::string& NameOf(const SavedTensor& saved) const {
    return program_.tensor(saved.tensor).name;
  }
  const graph::OpDef& OpOf(const SavedTensor& saved) const {
    return *program_.nodes()[saved.producer].op;
  }
  // A result, and the node that writes it.
  struct Made {
    graph::TensorId result;
    const graph::Node& by;
  };
  // The result from which a saved tensor was made by an all-gather of a norm's rows or by
  // quantization to 8-bit codes, and the node that writes this result; else the saved tensor
  // itself.
  Made OriginOf(const SavedTensor& saved) const {
    graph::TensorId result = saved.tensor;
    const graph::Node* maker = &program_.nodes()[saved.producer];
    while (maker->op->name == "all_gather_start" || maker->op->name == "quantize") {
      const auto before = makers_.find(program_.Root(maker->inputs[0]));
      if (before == makers_.end() || &program_.nodes()[before->second] >= maker) break;
      maker = &program_.nodes()[before->second];
      result = before->first;
    }
    return {result, *maker};
  }
  static bool MayGo(const SavedTensor& saved) { return saved.recomputable && !saved.read_at_once; }

  bool Matches(const std::string& pattern, bool preset, const SavedTensor& saved) const {
    if (saved.output > 0 || saved.parameter) return false;
    const Made origin = OriginOf(saved);
    if (preset) return origin.by.op->recompute_preset == pattern;
    if (graph::OpRegistry::Get().Find(pattern) != nullptr) {
      // An op that writes the codes of another op's result counts as that op.
      const bool writes_codes = origin.by.attributes.Has("of");
      return OpOf(saved).name == pattern || origin.by.op->name == pattern ||
             (writes_codes && origin.by.attributes.GetWord("of") == pattern);
    }
    return MatchesGlob(pattern, NameOf(saved)) ||
           MatchesGlob(pattern, program_.tensor(origin.result).name);
  }

  // Indices into saved_ of all tensors that match. Throws UserError if no tensor matches.
  std::vector<size_t> AllMatches(const Patterns& patterns, const std::string& pattern) const {
    std::vector<size_t> matches;
    const bool preset = IsPreset(pattern);
    for (size_t i = 0; i < saved_.size(); ++i) {
      if (Matches(pattern, preset, saved_[i])) matches.push_back(i);
    }
    if (!matches.empty() || (preset && patterns.by_default)) return matches;
    std::set<std::string> ops;
    std::string example = "nothing";
    for (const SavedTensor& saved : saved_) {
      if (saved.output > 0 || saved.parameter) continue;
      if (ops.empty()) example = fmt::format(", such as '{}'", NameOf(saved));
      ops.insert(OpOf(saved).name);
    }
    throw UserError(fmt::format(
        "{}: '{}' matches no activation that waits for the backward pass; there are results of "
        "{}{}",
        patterns.key, pattern, fmt::join(ops, ", "), example));
  }

  // Tags for recomputation all tensors that only `blocks` consecutive blocks read; keeps tensors
  // that other blocks read.
  void RecomputeWithin(int blocks) {
    const graph::Blocks all(program_);
    for (size_t i = 0; i < saved_.size(); ++i) {
      const SavedTensor& saved = saved_[i];
      if (saved.block == graph::kNoBlock || saved.parameter || !MayGo(saved)) continue;
      const bool leaves =
          std::any_of(saved.forward_uses.begin(), saved.forward_uses.end(), [&](int n) {
            const int block = all.Of(static_cast<size_t>(n));
            return block == graph::kNoBlock || block / blocks != saved.block / blocks;
          });
      if (!leaves) tags_[i] = Retention::kRecompute;
    }
  }

  void RecomputeSelected() {
    std::vector<size_t> of_presets;
    for (const std::string& pattern : options_.recompute.patterns) {
      const bool preset = IsPreset(pattern);
      for (size_t i : AllMatches(options_.recompute, pattern)) {
        if (!MayGo(saved_[i])) continue;
        tags_[i] = Retention::kRecompute;
        if (preset) of_presets.push_back(i);
      }
    }
    if (!of_presets.empty()) RecomputeCodesOfWhatWaits();
    KeepWhatNeedsOtherBlocks(of_presets);
    for (const std::string& pattern : options_.save.patterns) {
      for (size_t i : AllMatches(options_.save, pattern)) tags_[i] = Retention::kSave;
    }
  }

  // With presets, 8-bit codes of a tensor that is kept anyway are recomputed from this tensor.
  void RecomputeCodesOfWhatWaits() {
    for (size_t i = 0; i < saved_.size(); ++i) {
      const graph::Node& maker = program_.nodes()[saved_[i].producer];
      if (maker.op->name != "quantize" || !MayGo(saved_[i])) continue;
      const graph::TensorId of = program_.Root(maker.inputs[0]);
      for (size_t k = 0; k < saved_.size(); ++k) {
        if (saved_[k].tensor == of && tags_[k] == Retention::kSave)
          tags_[i] = Retention::kRecompute;
      }
    }
  }

  // Keeps the tensors of presets that could be recomputed only by recomputing results of other
  // blocks.
  void KeepWhatNeedsOtherBlocks(const std::vector<size_t>& of_presets) {
    if (of_presets.empty()) return;
    const graph::Blocks blocks(program_);
    const std::vector<graph::Node>& nodes = program_.nodes();
    std::set<graph::TensorId> kept;
    for (size_t i = 0; i < saved_.size(); ++i) {
      if (tags_[i] != Retention::kRecompute) kept.insert(saved_[i].tensor);
    }
    const auto needs_another = [&](const auto& self, int node, int block) -> bool {
      return std::ranges::any_of(nodes[node].inputs, [&](graph::TensorId id) {
        if (id == graph::kNoTensor || kept.contains(program_.Root(id))) return false;
        // A scalar is always kept.
        if (program_.tensor(program_.Root(id)).type.scalar()) return false;
        const auto maker = makers_.find(program_.Root(id));
        if (maker == makers_.end() || program_.tensor(maker->first).persistent) return false;
        return blocks.Of(static_cast<size_t>(maker->second)) != block ||
               self(self, maker->second, block);
      });
    };
    std::vector<size_t> back;
    for (const size_t i : of_presets) {
      const int block = saved_[i].block;
      if (block == graph::kNoBlock) continue;
      if (needs_another(needs_another, saved_[i].producer, block)) back.push_back(i);
    }
    for (const size_t i : back) tags_[i] = Retention::kSave;
  }

  void Reshard() {
    for (size_t i = 0; i < saved_.size(); ++i) {
      if (saved_[i].parameter && MayGo(saved_[i])) tags_[i] = Retention::kRecompute;
    }
  }

  void FollowFirstResults() {
    for (size_t i = 0; i < saved_.size(); ++i) {
      if (saved_[i].output == 0) continue;
      for (size_t first = 0; first < saved_.size(); ++first) {
        const bool same_node = saved_[first].producer == saved_[i].producer;
        if (same_node && saved_[first].output == 0) tags_[i] = tags_[first];
      }
    }
  }

  void Offload() {
    for (const std::string& pattern : options_.offload.patterns) {
      const std::vector<size_t> matches = AllMatches(options_.offload, pattern);
      bool any = false;
      for (size_t i : matches) {
        if (tags_[i] == Retention::kRecompute || saved_[i].read_at_once) continue;
        tags_[i] = Retention::kOffload;
        any = true;
      }
      if (any) continue;
      throw UserError(
          fmt::format("{}: '{}' matches only what is not kept, such as '{}'; name activations that "
                      "checkpointing.policy keeps, or remove it",
                      options_.offload.key, pattern, NameOf(saved_[matches.front()])));
    }
  }

  void TakeGiven() {
    size_t found = 0;
    for (size_t i = 0; i < saved_.size(); ++i) {
      const auto given = options_.retention.find(NameOf(saved_[i]));
      if (given == options_.retention.end()) continue;
      tags_[i] = given->second;
      ++found;
    }
    if (found == options_.retention.size()) return;
    for (const auto& [name, retention] : options_.retention) {
      const bool known =
          std::any_of(saved_.begin(), saved_.end(),
                      [&, &name = name](const auto& s) { return NameOf(s) == name; });
      if (!known) throw InternalError("tags: '" + name + "' is no activation to be retained");
    }
  }

  graph::PassResult Apply() {
    graph::PassResult result;
    int recomputed = 0, offloaded = 0, parameters = 0, gathered = 0;
    for (size_t i = 0; i < saved_.size(); ++i) {
      graph::Tensor& tensor = program_.mutable_tensor(saved_[i].tensor);
      result.changed = result.changed || tensor.retention != tags_[i];
      tensor.retention = tags_[i];
      if (saved_[i].parameter) {
        ++parameters;
        gathered += tags_[i] == Retention::kRecompute;
        continue;
      }
      recomputed += tags_[i] == Retention::kRecompute;
      offloaded += tags_[i] == Retention::kOffload;
    }
    result.summary =
        fmt::format("of {} {} to recompute, {} to offload",
                    Counted(static_cast<int>(saved_.size()) - parameters, "saved activation"),
                    recomputed, offloaded);
    if (parameters > 0) {
      result.summary += fmt::format("; of {} {} to gather again",
                                    Counted(parameters, "gathered parameter"), gathered);
    }
    return result;
  }

  Program& program_;
  const Options& options_;
  const std::vector<SavedTensor> saved_;
  const std::map<graph::TensorId, int> makers_;
  std::vector<Retention> tags_;  // the tag of each activation in saved_
};

}  // namespace

graph::PassResult TagActivations::Run(Program& program) { return Tagger(program, options_).Run(); }

}  // namespace plimsoll::checkpointing
