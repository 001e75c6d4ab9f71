#include "trainer/text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "trainer/text/tokenizer.h"

namespace plimsoll::data {
namespace {

std::string Nfc(std::string_view text) {
  std::string out;
  ForEachUtf8Run(text, [&](std::string_view run, bool valid) {
    const bool ascii =
        std::all_of(run.begin(), run.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
    if (!valid || ascii) {
      out += run;
      return;
    }
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()),
                     static_cast<utf8proc_ssize_t>(run.size()), &mapped,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (size < 0) throw InternalError(std::string("NFC: ") + utf8proc_errmsg(size));
    out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
    std::free(mapped);
  });
  return out;
}

}  // namespace

void Normalizer::AddNfc() { steps_.push_back({Kind::kNfc, "", ""}); }

void Normalizer::AddPrepend(std::string prefix) {
  steps_.push_back({Kind::kPrepend, "", std::move(prefix)});
}

void Normalizer::AddReplace(std::string pattern, std::string content) {
  steps_.push_back({Kind::kReplace, std::move(pattern), std::move(content)});
}

std::string Normalizer::Apply(std::string_view text, bool within) const {
  std::string out(text);
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Kind::kNfc:
        out = Nfc(out);
        break;
      case Kind::kPrepend:
        if (!out.empty() && !within) out.insert(0, step.content);
        break;
      case Kind::kReplace:
        out = ReplaceAll(out, step.pattern, step.content);
        break;
    }
  }
  return out;
}

std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  while (true) {
    const size_t found = text.find(pattern);
    out += text.substr(0, found);
    if (found == std::string_view::npos) return out;
    out += content;
    text.remove_prefix(found + pattern.size());
  }
}

}  // namespace plimsoll::data
