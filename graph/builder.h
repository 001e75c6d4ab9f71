// Appends tensors and nodes to a program, inferring types. Models, gradient rules and passes build
// programs with it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/program.h"

namespace plimsoll::graph {

// A tensor of the program being built.
using Value = TensorId;

class Builder {
 public:
  explicit Builder(Program& program) : program_(program) {}
  Program& program() { return program_; }
  const TensorType& type(Value v) const { return program_.tensor(v).type; }
  const Shape& shape(Value v) const { return type(v).shape; }
  DType dtype(Value v) const { return type(v).dtype; }

  // Declares a carried tensor, whose name has no scope: "lr", "block.0.fc.weight".
  Value Persistent(std::string name, Role role, TensorType type, std::optional<Owner> owner = {},
                   std::optional<Merge> merge = {});

  // Returns the carried tensor `name`. If the program has no such tensor, declares it as
  // Persistent() does.
  Value Carried(const std::string& name, Role role, TensorType type,
                std::optional<Owner> owner = {});

  // Adds a temporary of the type and role of `like`, under a free name that begins with `stem`.
  // With `base`, the temporary is a view of all of `base`. The caller emits the node that writes
  // it.
  Value Like(Value like, std::string_view stem, Value base = kNoTensor);

  // Appends a node and returns its outputs. The outputs are named "SCOPE.NAME" (or "SCOPE.OP" if
  // `name` is empty); to the names of outputs after the first, ".ARGUMENT" is appended. A false
  // element of `want` leaves an optional output out (kNoTensor); an empty `want` means all outputs.
  std::vector<Value> Emit(std::string_view op, std::vector<Value> inputs,
                          Attributes attributes = {}, std::string_view name = "",
                          std::vector<bool> want = {});
  // Like Emit, but the node writes existing carried tensors in place.
  void EmitInto(std::vector<Value> outputs, std::string_view op, std::vector<Value> inputs,
                Attributes attributes = {});
  // Like Emit, but returns only output 0.
  Value Emit1(std::string_view op, std::vector<Value> inputs, Attributes attributes = {},
              std::string_view name = "");

  // A new key for a random op: unique among the nodes of this program, unchanged by later passes.
  // It is the number of nodes so far, without uncounted ones.
  int64_t NextKey() const;

  // Nodes emitted from now on have the phase, scope and micro-step of `node`.
  void set_context_of(const Node& node);
  void set_phase(Phase phase) { phase_ = phase; }
  void set_made_by(std::string pass) { made_by_ = std::move(pass); }
  bool uncounted() const { return uncounted_; }
  void set_uncounted(bool uncounted) { uncounted_ = uncounted; }
  Phase phase() const { return phase_; }
  // Sets the micro-step of nodes emitted from now on; 0 at first.
  void set_micro_step(int32_t micro_step) { micro_step_ = micro_step; }
  const std::string& scope() const { return scope_; }
  void set_scope(std::string scope) { scope_ = std::move(scope); }

  // "SCOPE.NAME", or NAME outside any scope.
  std::string Qualified(std::string_view name) const;
  // The name of `v` without the current scope. Emit() adds the scope to names again.
  std::string NameWithin(Value v) const;

 private:
  Node NewNode(std::string_view op, std::vector<Value> inputs, Attributes attributes) const;

  Program& program_;
  std::string scope_;
  std::string made_by_;
  bool uncounted_ = false;
  Phase phase_ = Phase::kForward;
  int32_t micro_step_ = 0;
};

// Enters the scope "SCOPE.NAME" during the object's lifetime.
class Scope {
 public:
  Scope(Builder& builder, std::string_view name) : builder_(builder), outer_(builder.scope()) {
    builder.set_scope(builder.Qualified(name));
  }
  ~Scope() { builder_.set_scope(outer_); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Builder& builder_;
  std::string outer_;
};

// Nodes emitted during the object's lifetime are uncounted. A technique that may be turned on
// without changing the numbers that other nodes draw, such as a metric, emits its nodes so.
class Uncounted {
 public:
  explicit Uncounted(Builder& builder) : builder_(builder), outer_(builder.uncounted()) {
    builder.set_uncounted(true);
  }
  ~Uncounted() { builder_.set_uncounted(outer_); }
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;

 private:
  Builder& builder_;
  bool outer_;
};

}  // namespace plimsoll::graph
