#include "data/tokenizers/split_pattern.h"

#include <fmt/format.h>

#include "base/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace plimsoll::data {
namespace {

// Unicode's White_Space: tab to carriage return, U+0085, and the separators Z.
constexpr std::string_view kWhiteSpace = R"(\t-\r\x{85}\p{Z})";

// Sets `anchored` if the pattern has a ^ that asserts the beginning of the text or of a line.
std::string SpellOutWhiteSpace(std::string_view pattern, const std::string& where, bool* anchored) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
      } else if (escaped == 'S') {
        if (in_class) throw UserError(where + ": \\S inside [] is not supported");
        out += fmt::format("[^{}]", kWhiteSpace);
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '^' && !in_class) *anchored = true;
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

struct SplitPattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  std::string where;
  bool anchored = false;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
};

SplitPattern::SplitPattern(std::string_view pattern, const std::string& where)
    : compiled_(std::make_unique<Compiled>()) {
  Compiled& c = *compiled_;
  c.where = where;
  const std::string spelled = SpellOutWhiteSpace(pattern, where, &c.anchored);
  int error = 0;
  PCRE2_SIZE position = 0;
  c.code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &position, nullptr);
  if (c.code == nullptr) {
    PCRE2_UCHAR message[128] = {};
    pcre2_get_error_message(error, message, sizeof message);
    throw UserError(fmt::format("{}: the pattern is not understood: {} (at character {})", where,
                                reinterpret_cast<const char*>(message), position));
  }
  // If PCRE2 cannot generate code here, it interprets the pattern, which is slower.
  pcre2_jit_compile(c.code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  c.match = pcre2_match_data_create(1, nullptr);
  c.context = pcre2_match_context_create(nullptr);
  c.stack = pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr);
  if (c.match == nullptr || c.context == nullptr) throw std::bad_alloc();
  pcre2_jit_stack_assign(c.context, nullptr, c.stack);
}

SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

bool SplitPattern::Find(std::string_view text, size_t from, size_t* begin, size_t* end) const {
  return Match(text, from, 0, begin, end);
}

bool SplitPattern::FindWhateverFollows(std::string_view text, size_t from, size_t* begin,
                                       size_t* end) const {
  // With PCRE2_PARTIAL_HARD, a search that reaches the end of the text fails.
  return Match(text, from, PCRE2_PARTIAL_HARD, begin, end);
}

bool SplitPattern::LooksBehind() const {
  uint32_t most = 0;  // in characters; \b and \A also count as 1, but ^ does not
  pcre2_pattern_info(compiled_->code, PCRE2_INFO_MAXLOOKBEHIND, &most);
  return most > 0 || compiled_->anchored;
}

bool SplitPattern::Match(std::string_view text, size_t from, uint32_t kind, size_t* begin,
                         size_t* end) const {
  const Compiled& c = *compiled_;
  const auto match = [&](uint32_t options) {
    return pcre2_match(c.code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | kind | options, c.match, c.context);
  };
  int result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH || result == PCRE2_ERROR_PARTIAL) return false;
  if (result < 0) {
    PCRE2_UCHAR message[128] = {};
    pcre2_get_error_message(result, message, sizeof message);
    throw UserError(fmt::format("{}: the pattern fails on the text after byte {}: {}", c.where,
                                from, reinterpret_cast<const char*>(message)));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(c.match);
  // \K in a lookaround can put the match's start after its end, or before the start of the search.
  if (bounds[0] < from || bounds[1] <= bounds[0]) {
    throw UserError(c.where + ": \\K in the pattern is not supported");
  }
  *begin = bounds[0];
  *end = bounds[1];
  return true;
}

}  // namespace plimsoll::data
