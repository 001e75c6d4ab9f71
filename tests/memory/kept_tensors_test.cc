// Temporaries on the bytes of what a forward program keeps for a backward one: needs, plans, and
// what the checker refuses.
#include "memory/kept_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/micro_steps.h"
#include "memory/checker.h"
#include "memory/plan.h"
#include "runtime/workspaces.h"
#include "tests/runtime/test_ops.h"
#include "tests/support/expect_error.h"

namespace plimsoll::memory {
namespace {

using graph::Attributes;
using graph::Builder;
using graph::OfMicroStep;
using graph::Program;
using graph::Role;
using graph::TensorId;
using graph::Value;

Attributes N(int64_t n) { return {{"n", n}, {"seed", int64_t{1}}}; }

constexpr int kKept = 3;
std::string KeptName(int64_t slot, int layer) {
  return OfMicroStep(slot, "h" + std::to_string(layer));
}

// Each layer keeps what the next one reads.
Program Forward(int64_t slot, int64_t n) {
  Program program(OfMicroStep(slot, "forward"));
  Builder g(program);
  Value h = g.Emit1("test_source", {}, N(n), "x");
  for (int layer = 0; layer < kKept; ++layer) {
    h = g.Emit("test_mix", {h}, N(n), "", {true, false})[0];
    program.Rename(h, KeptName(slot, layer));
    program.mutable_tensor(h).persistent = true;
  }
  return program;
}

// The last layer first. Something larger follows when all are read.
Program Backward(int64_t slot, int64_t n) {
  Program program(OfMicroStep(slot, "backward"));
  Builder g(program);
  const Value grad = g.Persistent("grad", Role::kGradient, Float32(n));
  Value d = g.Emit1("test_source", {}, N(n), "d");
  for (int layer = kKept - 1; layer >= 0; --layer) {
    const Value h = g.Persistent(KeptName(slot, layer), Role::kActivation, Float32(n));
    d = g.Emit("test_mix", {d, h}, N(n), "d" + std::to_string(layer), {true, false})[0];
  }
  const Value wide = g.Emit("test_mix", {d}, N(2 * n), "wide", {true, false})[0];
  d = g.Emit("test_mix", {wide}, N(n), "last", {true, false})[0];
  g.EmitInto({grad}, "test_update", {grad, d});
  return program;
}

Program Update(int64_t n) {
  Program program("update");
  Builder g(program);
  const Value grad = g.Persistent("grad", Role::kGradient, Float32(n));
  const Value w = g.Persistent("w", Role::kParameter, Float32(n));
  const Value step = g.Emit("test_mix", {grad}, N(n), "step", {true, false})[0];
  g.EmitInto({w}, "test_update", {w, step});
  return program;
}

// A temporary has the name of what a step keeps.
Program Evaluation(int64_t n) {
  Program program("evaluate");
  Builder g(program);
  const Value x = g.Emit1("test_source", {}, N(n), "x");
  const Value h = g.Emit("test_mix", {x}, N(n), "h0", {true, false})[0];
  g.Emit("test_mix", {h, x}, N(n), "h1", {true, false});
  return program;
}

// Two micro-batches in flight, of three.
struct TwoSlots {
  explicit TwoSlots(int64_t n = 16)
      : programs{Forward(0, n),  Forward(1, n), Backward(0, n),
                 Backward(1, n), Update(n),     Evaluation(n)} {
    for (const Program& program : programs) pointers.push_back(&program);
    order.runs = {0, 1, 2, 0, 3, 2, 4};
    for (const int64_t slot : {0, 1}) {
      for (int layer = 0; layer < kKept; ++layer) order.kept.insert(KeptName(slot, layer));
    }
  }
  enum : size_t { kForward, kForward1, kBackward, kBackward1, kUpdate, kEvaluation };

  std::optional<std::string> Check(const MemoryPlan& plan) const {
    return MessageOf<InternalError>(
        [&] { CheckPlan(pointers, plan, {.ordered = {}, .order = order}); });
  }

  std::vector<Program> programs;
  std::vector<const Program*> pointers;
  StepOrder order;
};

TEST(KeptTensors, AreNeededFromTheirWriterToTheirLastReader) {
  const TwoSlots step;
  const std::vector<KeptNeeds> needs = NeedsOfKept(step.pointers, step.order);
  const auto text = [&](size_t program, int64_t slot) {
    const KeptNeed need = needs[program].at(KeptName(slot, 1));
    return std::string(need.before ? "before" : "") + (need.after ? " after" : "");
  };
  EXPECT_EQ(text(TwoSlots::kForward, 0), " after");
  EXPECT_EQ(text(TwoSlots::kForward1, 0), "before after");
  EXPECT_EQ(text(TwoSlots::kBackward, 0), "before");
  EXPECT_EQ(text(TwoSlots::kBackward1, 0), "before after");
  EXPECT_EQ(text(TwoSlots::kUpdate, 0), "");
  EXPECT_EQ(text(TwoSlots::kEvaluation, 0), "");
  // The first program runs again while the other slot is in use.
  EXPECT_EQ(text(TwoSlots::kForward, 1), "before after");
  EXPECT_EQ(text(TwoSlots::kForward1, 1), " after");
  EXPECT_EQ(text(TwoSlots::kBackward1, 1), "before");
}

TEST(KeptTensors, ThatOtherProgramsReadAreNeededThroughout) {
  TwoSlots step;
  step.order.runs = {0, 2, 4};  // the other slot's programs run between steps
  const std::vector<KeptNeeds> needs = NeedsOfKept(step.pointers, step.order);
  EXPECT_TRUE(needs[TwoSlots::kUpdate].at(KeptName(1, 0)).throughout());
  EXPECT_FALSE(needs[TwoSlots::kUpdate].at(KeptName(0, 0)).throughout());
}

TEST(KeptTensors, GiveTheirBytesToTemporaries) {
  const TwoSlots step;
  const MemoryPlan plan = MakePlan(step.pointers, {.order = step.order});
  EXPECT_EQ(step.Check(plan), std::nullopt);
  const int64_t kept = int64_t{2} * kKept * 64;
  EXPECT_EQ(plan.persistent_bytes, 128 + kept);
  // The first two nodes of a backward program write while all of its slot is still to be read.
  const auto offset = [&](size_t program, const char* name) {
    return plan.programs[program].layout.offset(step.programs[program].Require(name));
  };
  EXPECT_GE(offset(TwoSlots::kBackward, "d"), plan.persistent_bytes);
  EXPECT_LT(offset(TwoSlots::kBackward, "wide"), plan.persistent_bytes);
  EXPECT_EQ(plan.programs[TwoSlots::kUpdate].temporary_bytes, 0);
  EXPECT_EQ(plan.programs[TwoSlots::kEvaluation].temporary_bytes, 0);
  EXPECT_EQ(plan.arena_bytes, plan.persistent_bytes + 128);
  EXPECT_EQ(plan.max_live_bytes, plan.arena_bytes);

  const MemoryPlan without = MakePlan(step.pointers);
  EXPECT_EQ(without.persistent_bytes, plan.persistent_bytes);
  EXPECT_EQ(without.arena_bytes, plan.persistent_bytes + 192);
  EXPECT_EQ(without.programs[TwoSlots::kUpdate].temporary_bytes, 64);
}

TEST(KeptTensors, AreOverwrittenInPlace) {
  Program forward("forward"), backward("backward");
  {
    Builder g(forward);
    const Value x = g.Emit1("test_source", {}, N(16), "x");
    const Value h = g.Emit1("test_unary", {x});
    forward.Rename(h, "h");
    forward.mutable_tensor(h).persistent = true;
  }
  {
    Builder g(backward);
    const Value h = g.Persistent("h", Role::kActivation, Float32(16));
    const Value y = g.Emit1("test_unary", {h}, {}, "y");
    const Value z = g.Emit1("test_unary", {y}, {}, "z");
    const Value grad = g.Persistent("grad", Role::kGradient, Float32(16));
    g.EmitInto({grad}, "test_update", {grad, z});
  }
  const Program* programs[] = {&forward, &backward};
  const StepOrder order = {.runs = {0, 1}, .kept = {"h"}};
  const MemoryPlan plan = MakePlan(programs, {.order = order});
  CheckPlan(programs, plan, {.ordered = {}, .order = order});
  EXPECT_EQ(plan.arena_bytes, 128);
  EXPECT_EQ(plan.max_live_bytes, 128);
  EXPECT_EQ(plan.programs[0].layout.offset(forward.Require("x")), 64);
  EXPECT_EQ(plan.programs[1].layout.offset(backward.Require("z")), 64);
  EXPECT_EQ(plan.programs[1].layout.ending, std::vector<TensorId>{backward.Require("h")});
  EXPECT_TRUE(plan.programs[0].layout.ending.empty());
}

TEST(KeptTensors, AreCheckedWithinAProgram) {
  const TwoSlots step;
  const MemoryPlan plan = MakePlan(step.pointers, {.order = step.order});
  const auto moved = [&](size_t program, const char* what, const std::string& onto) {
    MemoryPlan bad = plan;
    const Program& of = step.programs[program];
    const auto kept = std::ranges::find(plan.persistent, onto, &PersistentTensor::name);
    bad.programs[program].layout.offsets[of.Require(what)] = kept->offset;
    return step.Check(bad);
  };
  // h2 is read when d2 is written, and not afterwards; h0 is read after both.
  EXPECT_EQ(moved(TwoSlots::kBackward, "d1", KeptName(0, 2)), std::nullopt);
  ExpectMessage(moved(TwoSlots::kBackward, "d2", KeptName(0, 2)), {"'backward'", "'d2'", "'h2'"});
  ExpectMessage(moved(TwoSlots::kBackward, "d1", KeptName(0, 0)),
                {"'backward'", "reads 'h0'", "belong to 'd1'"});
  ExpectMessage(moved(TwoSlots::kBackward, "d1", "grad"), {"'d1'", "persistent tensor 'grad'"});
}

TEST(KeptTensors, AreCheckedOverTheStep) {
  TwoSlots step;
  const MemoryPlan plan = MakePlan(step.pointers, {.order = step.order});
  const auto kept = [&](int64_t slot) {
    return std::ranges::find(plan.persistent, KeptName(slot, 0), &PersistentTensor::name)->offset;
  };
  // The forward program of a slot on what the other one keeps.
  MemoryPlan bad = plan;
  bad.programs[TwoSlots::kForward].layout.offsets[step.programs[0].Require("x")] = kept(1);
  ExpectMessage(step.Check(bad), {"program 'micro_step.1.backward' reads the kept tensor "
                                  "'micro_step.1.h0', whose bytes program 'forward' has given"});
  // An evaluation may write to either, in whatever program it has that name.
  bad = plan;
  bad.programs[TwoSlots::kEvaluation].layout.offsets[step.programs[5].Require("h0")] = kept(0);
  bad.programs[TwoSlots::kEvaluation].layout.offsets[step.programs[5].Require("x")] = kept(1);
  EXPECT_EQ(step.Check(bad), std::nullopt);
  // Unless the step continues with what an earlier one has kept.
  const std::vector<int> runs = step.order.runs;
  step.order.runs = {0, 1, 2, 0, 3, 4};
  EXPECT_EQ(step.Check(plan), std::nullopt);  // begins with a forward program nevertheless
  step.order.runs = {2, 0, 1, 3, 4};
  ExpectMessage(step.Check(plan), {"'backward' reads", "no program of the step has written"});
  step.order.runs = runs;
  // Nothing is kept for nobody.
  step.order.kept.erase(KeptName(0, 2));
  ExpectMessage(step.Check(plan), {"over bytes", "of the persistent tensor 'h2'"});
}

// A temporary may have the name of another program's persistent tensor.
TEST(KeptTensors, AreNotTheirNamesakes) {
  Program step("step"), evaluation = Evaluation(16);
  Builder g(step);
  g.Persistent("h0", Role::kState, Float32(16));
  const Program* programs[] = {&step, &evaluation};
  MemoryPlan plan = MakePlan(programs);
  CheckPlan(programs, plan);
  plan.programs[1].layout.offsets[evaluation.Require("h0")] = 0;
  ExpectMessage(MessageOf<InternalError>([&] { CheckPlan(programs, plan); }),
                {"'evaluate'", "writes 'h0'", "persistent tensor 'h0'"});
}

// A program cut in two, with a slot for each of two micro-batches: what the first part writes and
// the second one reads is kept.
struct CutProgram {
  CutProgram(uint32_t seed, const std::string& slot) {
    const Program whole = RandomProgram(seed, {.nodes = 50});
    const auto cut = static_cast<ptrdiff_t>(whole.nodes().size() / 2);
    forward = backward = whole;
    forward.mutable_nodes().resize(static_cast<size_t>(cut));
    backward.mutable_nodes().erase(backward.mutable_nodes().begin(),
                                   backward.mutable_nodes().begin() + cut);
    std::vector<bool> written(whole.tensors().size()), read(written);
    for (const graph::Node& node : forward.nodes()) {
      for (const TensorId id : node.outputs) {
        if (id != graph::kNoTensor) written[static_cast<size_t>(whole.Root(id))] = true;
      }
    }
    for (const graph::Node& node : backward.nodes()) {
      for (const auto* ids : {&node.inputs, &node.outputs}) {
        for (const TensorId id : *ids) {
          if (id != graph::kNoTensor) read[static_cast<size_t>(whole.Root(id))] = true;
        }
      }
    }
    for (TensorId id = 0; id < static_cast<TensorId>(written.size()); ++id) {
      const bool both = written[static_cast<size_t>(id)] && read[static_cast<size_t>(id)];
      const graph::Tensor& tensor = whole.tensor(id);
      if (tensor.persistent || tensor.role == Role::kInput || !both) continue;
      kept.push_back(slot + tensor.name);
      for (Program* part : {&forward, &backward}) {
        part->mutable_tensor(id).persistent = true;
        part->mutable_tensor(id).role = Role::kActivation;
        part->Rename(id, kept.back());
      }
    }
    for (Program* part : {&forward, &backward}) {
      part->set_name(slot + (part == &forward ? "forward" : "backward"));
      runtime::AddWorkspaces(*part, {.threads = 1});
    }
  }
  Program forward, backward;
  std::vector<std::string> kept;
};

TEST(KeptTensors, OfRandomProgramsAreSound) {
  int64_t saved = 0, planted = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const CutProgram first(seed, "a."), second(seed, "b.");
    const std::vector<const Program*> programs = {&first.forward, &second.forward, &first.backward,
                                                  &second.backward};
    StepOrder order = {.runs = {0, 1, 2, 0, 3, 2}};
    for (const CutProgram* of : {&first, &second}) {
      order.kept.insert(of->kept.begin(), of->kept.end());
    }
    const PlanOptions options = {.search_work = 200'000, .order = order};
    const MemoryPlan plan = MakePlan(programs, options);
    ASSERT_NO_THROW(CheckPlan(programs, plan, {.ordered = {}, .order = order}));
    EXPECT_GE(plan.arena_bytes, plan.max_live_bytes);
    int64_t live = 0;
    for (const LiveTensor& tensor : plan.peak_live) live += tensor.bytes;
    EXPECT_EQ(live, plan.max_live_bytes);
    const MemoryPlan without = MakePlan(programs, {.search_work = 200'000});
    EXPECT_LE(plan.max_live_bytes, without.max_live_bytes);
    EXPECT_EQ(plan.persistent_bytes, without.persistent_bytes);
    saved += without.arena_bytes - plan.arena_bytes;

    // What a forward program writes first would be over what the other slot keeps.
    for (const std::string& name : second.kept) {
      MemoryPlan bad = plan;
      const auto onto = std::ranges::find(plan.persistent, name, &PersistentTensor::name);
      for (const TensorId id : first.forward.nodes().front().outputs) {
        if (id == graph::kNoTensor || first.forward.tensor(id).persistent ||
            onto->bytes < first.forward.tensor(id).bytes() ||
            NeedsOfKept(programs, order)[1].at(name).throughout()) {
          continue;
        }
        bad.programs[0].layout.offsets[static_cast<size_t>(id)] = onto->offset;
        EXPECT_THROW(CheckPlan(programs, bad, {.ordered = {}, .order = order}), InternalError)
            << name;
        ++planted;
      }
    }
  }
  EXPECT_GT(saved, 0);
  EXPECT_GT(planted, 20);
}

}  // namespace
}  // namespace plimsoll::memory
