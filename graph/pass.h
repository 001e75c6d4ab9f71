// A pass rewrites a program. Every technique of Plimsoll is a pass.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/contract.h"
#include "graph/program.h"

namespace plimsoll::graph {

struct PassResult {
  bool changed = false;
  std::string summary;   // a line that says what the pass did ("144 nodes added, activations 18.1
                         // → 6.2 GiB")
  bool refused = false;  // the pass cannot change this program; `summary` says why
};

inline PassResult Refused(std::string why) {
  return {.changed = false, .summary = std::move(why), .refused = true};
}

class Pass {
 public:
  virtual ~Pass() = default;
  virtual std::string_view name() const = 0;
  virtual Contract contract() const { return {}; }
  virtual PassResult Run(Program& program) = 0;
};

struct PassReport {
  std::string program;
  std::string pass;
  PassResult result;
};

class PassPipeline {
 public:
  // `dump_directory`: where the program is dumped before the first pass and after each pass, as
  // DIR/PROGRAM.NN.PASS.txt. Empty means no dumps.
  explicit PassPipeline(std::string dump_directory = "")
      : dump_directory_(std::move(dump_directory)) {}

  // Whether to verify programs (the default). The solver switches this off for the thousands of
  // programs that it tries.
  void set_verify(bool verify) { verify_ = verify; }

  // Run() ends after the pass of that name.
  void set_stop_after(std::string pass) { stop_after_ = std::move(pass); }

  template <typename P, typename... Args>
  void Add(Args&&... args) {
    Add(std::make_unique<P>(std::forward<Args>(args)...));
  }
  void Add(std::unique_ptr<Pass> pass) { passes_.push_back(std::move(pass)); }

  // The facts that hold after all passes, if `facts` hold before them. Throws an InternalError that
  // names the two passes in the wrong order.
  Facts Check(Facts facts) const;

  // Runs all passes in order. The verifier checks the program after every pass that changed it. A
  // pass that reports no change must have left every tensor and node as it was. An InternalError
  // names the pass that broke the program.
  std::vector<PassReport> Run(Program& program) const;

 private:
  void Dump(const Program& program, size_t number, std::string_view pass) const;

  std::string dump_directory_;
  std::string stop_after_;
  bool verify_ = true;
  std::vector<std::unique_ptr<Pass>> passes_;
};

}  // namespace plimsoll::graph
