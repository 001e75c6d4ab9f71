// Any text as a program gives either a UserError that names the line, or a program whose text form
// parses to the same text. The verifier, and with it every op's type inference, may refuse such a
// program with an InternalError; nothing else may happen.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "graph/text.h"
#include "graph/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string printed;
  try {
    const graph::Program program = graph::ParseProgram(text);
    printed = graph::ToText(program);
    graph::Verify(program);
  } catch (const UserError&) {
    return 0;
  } catch (const InternalError&) {
  }
  if (!printed.empty() && graph::ToText(graph::ParseProgram(printed)) != printed) std::abort();
  return 0;
}
