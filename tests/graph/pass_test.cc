#include "graph/pass.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "graph/builder.h"
#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::graph {
namespace {

constexpr std::string_view kProgram = R"(program p
  tensor %x: f32[4] input persistent
forward
  %y: f32[4] = scale(%x) {factor=2.0}
)";

class AddsANode : public Pass {
 public:
  std::string_view name() const override { return "adds-a-node"; }
  PassResult Run(Program& program) override {
    Builder(program).Emit1("scale", {program.Require("x")}, {{"factor", 3.0}}, "z");
    return {true, "1 node added"};
  }
};

class DoesNothing : public Pass {
 public:
  std::string_view name() const override { return "does-nothing"; }
  PassResult Run(Program&) override { return {false, "nothing to do"}; }
};

class Breaks : public Pass {
 public:
  std::string_view name() const override { return "breaks"; }
  PassResult Run(Program& program) override {
    program.mutable_tensor(program.Require("y")).type.shape = Shape{7};
    return {true, "broke it"};
  }
};

class Hides : public Pass {
 public:
  explicit Hides(std::function<void(Program&)> change) : change_(std::move(change)) {}
  std::string_view name() const override { return "hides"; }
  PassResult Run(Program& program) override {
    change_(program);
    return {false, "nothing to do"};
  }

 private:
  std::function<void(Program&)> change_;
};

// A pass with any contract, which does what it is given.
class Promises : public Pass {
 public:
  Promises(std::string name, Contract contract, std::function<void(Program&)> change = {})
      : name_(std::move(name)), contract_(std::move(contract)), change_(std::move(change)) {}
  std::string_view name() const override { return name_; }
  Contract contract() const override { return contract_; }
  PassResult Run(Program& program) override {
    if (change_) change_(program);
    return {change_ != nullptr, ""};
  }

 private:
  std::string name_;
  Contract contract_;
  std::function<void(Program&)> change_;
};

PassPipeline PipelineOf(const std::vector<Promises>& promises) {
  PassPipeline passes;
  for (const Promises& pass : promises) passes.Add<Promises>(pass);
  return passes;
}

TEST(PassPipeline, ReportsWhatEachPassDid) {
  Program program = Parse(kProgram);
  PassPipeline passes;
  passes.Add<DoesNothing>();
  passes.Add<AddsANode>();
  const std::vector<PassReport> reports = passes.Run(program);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].pass, "does-nothing");
  EXPECT_FALSE(reports[0].result.changed);
  EXPECT_EQ(reports[1].result.summary, "1 node added");
  EXPECT_EQ(program.nodes().size(), 2u);
}

TEST(PassPipeline, NamesTheGuiltyPass) {
  Program program = Parse(kProgram);
  PassPipeline passes;
  passes.Add<AddsANode>();
  passes.Add<Breaks>();
  passes.Add<DoesNothing>();
  ExpectInternalError([&] { passes.Run(program); }, {"program 'p' broken by pass 'breaks'", "'y'"});
}

// Any kind of change: a tensor's tag, a node's attribute, the order.
TEST(PassPipeline, FindsAPassThatHidesWhatItDid) {
  const std::function<void(Program&)> changes[] = {
      [](Program& p) { p.mutable_tensor(p.Require("y")).retention = Retention::kRecompute; },
      [](Program& p) { p.mutable_nodes()[0].attributes.Set("factor", 2.5); },
      [](Program& p) { p.mutable_nodes()[0].scope = "elsewhere"; },
      [](Program& p) { p.Rename(p.Require("y"), "z"); },
      [](Program& p) { p.mutable_tensor(p.Require("x")).place = Place::kHost; },
  };
  for (const auto& change : changes) {
    Program program = Parse(kProgram);
    PassPipeline passes;
    passes.Add<Hides>(change);
    ExpectInternalError([&] { passes.Run(program); }, {"changed by pass 'hides'", "did nothing"});
  }
}

TEST(PassPipeline, MayBeToldToTrust) {
  Program program = Parse(kProgram);
  PassPipeline passes;
  passes.set_verify(false);
  passes.Add<Breaks>();
  EXPECT_EQ(passes.Run(program).size(), 1u);
}

TEST(PassPipeline, TellsWhatHoldsBehindItsPasses) {
  const Promises types("types", {.gives = {Fact::kTyped}}),
      fuses("fuses", {.needs = {Fact::kTyped}, .gives = {Fact::kFused}});
  EXPECT_EQ(PipelineOf({types, fuses}).Check({}), (Facts{Fact::kTyped, Fact::kFused}));
  EXPECT_EQ(PipelineOf({fuses}).Check({Fact::kTyped}), (Facts{Fact::kTyped, Fact::kFused}));
  EXPECT_EQ(PipelineOf({}).Check({Fact::kTyped}), Facts{Fact::kTyped});
}

TEST(PassPipeline, NamesPassesInTheWrongOrder) {
  const Promises types("types", {.gives = {Fact::kTyped}}),
      fuses("fuses", {.needs = {Fact::kTyped}, .gives = {Fact::kFused}}),
      adds("adds", {.spoils = {Fact::kTyped}});
  ExpectInternalError(
      [&] {
        PipelineOf({fuses, types}).Check({});
      },
      {"pass 'fuses' needs what is typed", "no pass before it gives"});
  ExpectInternalError(
      [&] {
        PipelineOf({types, adds, fuses}).Check({});
      },
      {"pass 'fuses' needs what is typed", "'adds' before it spoils"});
  ExpectInternalError(
      [&] {
        PipelineOf({types, fuses, adds}).Check({});
      },
      {"pass 'adds' spoils what is typed by 'types'", "no pass after it"});
  ExpectInternalError([&] { PipelineOf({adds}).Check({Fact::kTyped}); },
                      {"pass 'adds' spoils what is typed,"});
  EXPECT_EQ(PipelineOf({types, adds, types}).Check({}), Facts{Fact::kTyped});
}

TEST(PassPipeline, NamesAPassThatDoesNotKeepItsContract) {
  const Promises updates("updates", {.gives = {Fact::kUpdated}});
  Program program = Parse(kProgram);
  ExpectInternalError([&] { PipelineOf({updates}).Run(program); },
                      {"'p' is not updated after pass 'updates'", "says that it is"});

  const auto update = [](Program& p) {
    Builder builder(p);
    builder.set_phase(Phase::kUpdate);
    builder.Emit1("scale", {p.Require("x")}, {{"factor", 3.0}}, "z");
  };
  const Promises honest("honest", {.gives = {Fact::kUpdated}}, update),
      removes("removes", {}, [](Program&p) { p.mutable_nodes().pop_back(); });
  Program broken = Parse(kProgram);
  ExpectInternalError(
      [&] {
        PipelineOf({honest, removes}).Run(broken);
      },
      {"'p' is not updated after pass 'removes'", "says nothing of that"});
}

TEST(PassPipeline, EndsBehindAPass) {
  Program program = Parse(kProgram);
  PassPipeline passes;
  passes.set_stop_after("does-nothing");
  passes.Add<DoesNothing>();
  passes.Add<AddsANode>();
  EXPECT_EQ(passes.Run(program).size(), 1u);
  EXPECT_EQ(program.nodes().size(), 1u);
}

TEST(Facts, HaveNames) {
  EXPECT_EQ(Text({}), "nothing");
  EXPECT_EQ(Text({Fact::kFused, Fact::kTyped}), "typed, fused");
  EXPECT_EQ(Text(FactsFrom(Fact::kResident)), "all from resident on");
  EXPECT_EQ(Text({Fact::kScratched}), "scratched");
  for (const Fact fact : FactsFrom(Fact::kTyped)) EXPECT_FALSE(Name(fact).empty());
}

TEST(PassPipeline, DumpsAreNumberedAndParse) {
  const TempFolder temp;
  const std::string folder = temp / "dumps";
  Program program = Parse(kProgram);
  PassPipeline passes(folder);
  passes.Add<DoesNothing>();
  passes.Add<AddsANode>();
  passes.Run(program);
  EXPECT_FALSE(std::filesystem::exists(folder + "/p.01.does-nothing.txt"));
  for (const std::string name : {"/p.00.build.txt", "/p.02.adds-a-node.txt"}) {
    const Program dumped = Parse(ReadFile(folder + name));
    EXPECT_EQ(dumped.nodes().size(), name == "/p.00.build.txt" ? 1u : 2u);
  }
}

}  // namespace
}  // namespace plimsoll::graph
