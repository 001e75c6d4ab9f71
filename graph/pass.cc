#include "graph/pass.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "graph/fingerprint.h"
#include "graph/text.h"
#include "graph/verifier.h"

namespace plimsoll::graph {
namespace {

void VerifyAfter(const Program& program, std::string_view culprit) {
  try {
    Verify(program);
  } catch (const InternalError& error) {
    throw InternalError("program '" + program.name() + "' broken by pass '" + std::string(culprit) +
                        "': " + error.what());
  }
}

}  // namespace

std::vector<PassReport> PassPipeline::Run(Program& program) const {
  std::vector<PassReport> reports;
  if (verify_) VerifyAfter(program, "build");
  Dump(program, 0, "build");
  for (size_t i = 0; i < passes_.size(); ++i) {
    Pass& pass = *passes_[i];
    const size_t before = verify_ ? Fingerprint(program) : 0;
    PassResult result = pass.Run(program);
    if (result.changed) {
      Dump(program, i + 1, pass.name());  // before verifying: a broken program is worth seeing
      if (verify_) VerifyAfter(program, pass.name());
    } else if (verify_ && Fingerprint(program) != before) {
      throw InternalError("program '" + program.name() + "' changed by pass '" +
                          std::string(pass.name()) + "', which says that it did nothing");
    }
    reports.push_back({program.name(), std::string(pass.name()), std::move(result)});
  }
  return reports;
}

void PassPipeline::Dump(const Program& program, size_t number, std::string_view pass) const {
  if (dump_directory_.empty()) return;
  std::error_code ignored;  // if this fails, so does the writing, which reports it
  std::filesystem::create_directories(dump_directory_, ignored);
  char numbered[8];
  std::snprintf(numbered, sizeof(numbered), ".%02zu.", number % 100);
  const std::string path =
      dump_directory_ + "/" + program.name() + numbered + std::string(pass) + ".txt";
  std::ofstream file(path);
  file << ToText(program);
  file.close();
  if (!file) throw UserError(path + ": cannot write the program dump (debug.dump_programs)");
}

}  // namespace plimsoll::graph
