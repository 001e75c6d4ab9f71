#include "trainer/config/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "base/error.h"

namespace plimsoll::config {
namespace {

// A configuration is a page of text. The limits allow a hundred times as much, and stop documents
// made to exhaust memory (nested aliases) or the stack (nested brackets).
constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxExpandedBytes = 4 << 20;
constexpr size_t kBytesPerNode = 128;  // a value's cost in addition to its text

bool IsControl(unsigned char c) {
  return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
}

// The length of the UTF-8 sequence at text[i]; 0 if it is invalid (RFC 3629: no overlong forms, no
// surrogates, nothing beyond U+10FFFF).
size_t Utf8Length(const std::string& text, size_t i) {
  const auto byte = [&](size_t k) -> unsigned {
    return k < text.size() ? static_cast<unsigned char>(text[k]) : 0;
  };
  const auto continues = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
  const unsigned a = byte(i), b = byte(i + 1);
  if (a < 0x80) return 1;
  if (a >= 0xC2 && a <= 0xDF) return continues(i + 1) ? 2 : 0;
  if (a >= 0xE0 && a <= 0xEF) {
    if ((a == 0xE0 && b < 0xA0) || (a == 0xED && b > 0x9F)) return 0;
    return continues(i + 1) && continues(i + 2) ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4) {
    if ((a == 0xF0 && b < 0x90) || (a == 0xF4 && b > 0x8F)) return 0;
    return continues(i + 1) && continues(i + 2) && continues(i + 3) ? 4 : 0;
  }
  return 0;
}

// Builds the tree from the parser's events, without recursion in this code.
class Builder : public YAML::EventHandler {
 public:
  Builder(const std::string& name, bool numbered) : name_(name), numbered_(numbered) {}

  Tree Take() { return std::move(root_); }

  std::string At(const YAML::Mark& mark) const {
    return numbered_ ? fmt::format("{}:{}", name_, mark.line + 1) : name_;
  }

  // The path of the key whose value is being read: "amp.fp8.skip: "; empty outside of all keys.
  std::string UnderWay() const {
    std::string path;
    for (const Frame& frame : frames_) {
      if (frame.has_key) path += (path.empty() ? "" : ".") + ShowKey(frame.key);
    }
    return path.empty() ? "" : path + ": ";
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0)
      throw UserError(At(mark) + ": a second YAML document starts here; keep one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Tree tree;
    tree.origin = At(mark);
    Count(mark, 0);
    Remember(anchor, tree, kBytesPerNode);
    Attach(mark, std::move(tree));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Tree tree;
    tree.kind = Tree::Kind::kScalar;
    tree.origin = At(mark);
    tree.text = value;
    tree.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    for (const char c : value) {
      if (IsControl(static_cast<unsigned char>(c))) {
        throw UserError(
            fmt::format("{}: {} holds a control character; remove it", tree.origin, Quote(value)));
      }
    }
    if (!tree.quoted) CheckTag(mark, tag);
    Count(mark, value.size());
    Remember(anchor, tree, kBytesPerNode + value.size());
    Attach(mark, std::move(tree));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw UserError(At(mark) + ": an alias is inside its own anchor");
    if (frames_.size() + found->second.depth > kMaxDepth) TooDeep(mark);
    Count(mark, found->second.cost);
    if (!frames_.empty())
      frames_.back().depth = std::max(frames_.back().depth, found->second.depth);
    Attach(mark, found->second.tree);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Tree::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Tree::Kind::kMap);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

 private:
  struct Frame {
    Tree tree;
    YAML::Mark mark;
    YAML::anchor_t anchor = 0;
    size_t cost_before = 0;
    size_t depth = 0;  // nesting depth
    bool has_key = false;
    bool merging = false;  // whether the last key was <<
    std::string key, key_origin;
    std::set<std::string> keys;
    std::vector<TreeEntry> merged;
  };
  struct Anchored {
    Tree tree;
    size_t cost = 0;
    size_t depth = 0;
  };

  [[noreturn]] void TooDeep(const YAML::Mark& mark) const {
    throw UserError(fmt::format("{}: nested more than {} levels deep", At(mark), kMaxDepth));
  }

  void CheckTag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!" || tag.rfind("tag:yaml.org,2002:", 0) == 0) return;
    throw UserError(fmt::format("{}: tag {} is not supported; remove it", At(mark), Quote(tag)));
  }

  void Count(const YAML::Mark& mark, size_t bytes) {
    cost_ += kBytesPerNode + bytes;
    if (cost_ > kMaxExpandedBytes) {
      throw UserError(At(mark) + ": the document is too large once its aliases are written out");
    }
  }

  void Remember(YAML::anchor_t anchor, const Tree& tree, size_t cost, size_t depth = 0) {
    if (anchor != 0) anchors_[anchor] = {tree, cost, depth};
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Tree::Kind kind) {
    if (frames_.size() >= kMaxDepth) TooDeep(mark);
    CheckTag(mark, tag);
    frames_.emplace_back();
    Frame& frame = frames_.back();
    frame.mark = mark;
    frame.anchor = anchor;
    frame.cost_before = cost_;
    frame.tree.kind = kind;
    frame.tree.origin = At(mark);
    Count(mark, 0);
  }

  void Close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    // The map's own keys win over merged ones; among merged maps the first wins.
    for (TreeEntry& entry : frame.merged) {
      if (frame.keys.insert(entry.key).second) frame.tree.entries.push_back(std::move(entry));
    }
    const size_t depth = frame.depth + 1;
    if (!frames_.empty()) frames_.back().depth = std::max(frames_.back().depth, depth);
    Remember(frame.anchor, frame.tree, cost_ - frame.cost_before, depth);
    Attach(frame.mark, std::move(frame.tree));
  }

  void Attach(const YAML::Mark& mark, Tree tree) {
    if (frames_.empty()) {
      root_ = std::move(tree);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.tree.kind == Tree::Kind::kList) {
      frame.tree.items.push_back(std::move(tree));
    } else if (!frame.has_key) {
      SetKey(mark, frame, tree);
    } else {
      frame.has_key = false;
      if (frame.merging) {
        Merge(frame, tree);
      } else {
        frame.tree.entries.push_back(
            {std::move(frame.key), std::move(frame.key_origin), std::move(tree)});
      }
    }
  }

  void SetKey(const YAML::Mark& mark, Frame& frame, const Tree& tree) const {
    if (tree.kind != Tree::Kind::kScalar) {
      throw UserError(fmt::format("{}: expected a key, got {}", At(mark), Describe(tree)));
    }
    frame.has_key = true;
    frame.key = tree.text;
    frame.key_origin = At(mark);
    frame.merging = tree.text == "<<" && !tree.quoted;
    if (!frame.merging && !frame.keys.insert(tree.text).second) {
      std::string first;
      for (const TreeEntry& entry : frame.tree.entries) {
        if (entry.key == tree.text) first = entry.origin;
      }
      throw UserError(fmt::format("{}: {}: given twice, first at {}; keep one", At(mark),
                                  ShowKey(tree.text), first));
    }
  }

  // Merges the maps of `<<: *base` or `<<: [*first, *second]`.
  void Merge(Frame& frame, Tree& tree) const {
    if (tree.kind == Tree::Kind::kMap) {
      for (TreeEntry& entry : tree.entries) frame.merged.push_back(std::move(entry));
      return;
    }
    if (tree.kind != Tree::Kind::kList) {
      throw UserError(
          fmt::format("{}: <<: expected a map to merge, got {}", tree.origin, Describe(tree)));
    }
    for (Tree& item : tree.items) {
      if (item.kind != Tree::Kind::kMap) {
        throw UserError(
            fmt::format("{}: <<: expected a map to merge, got {}", item.origin, Describe(item)));
      }
      for (TreeEntry& entry : item.entries) frame.merged.push_back(std::move(entry));
    }
  }

  const std::string name_;
  const bool numbered_;
  int documents_ = 0;
  size_t cost_ = 0;
  Tree root_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, Anchored> anchors_;
};

bool IsName(const std::string& name) {
  if (name.empty() || isdigit(static_cast<unsigned char>(name[0]))) return false;
  for (const char c : name) {
    if (!isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

// The value of the text between ${ and }.
std::string Variable(const std::string& inside, const std::string& origin) {
  const size_t colon = inside.find(":-");
  const std::string name = inside.substr(0, colon);
  if (!IsName(name)) {
    throw UserError(
        fmt::format("{}: {} is not ${{NAME}} or ${{NAME:-default}}; write $${{ for a plain ${{",
                    origin, Quote("${" + inside + "}")));
  }
  const char* value = std::getenv(name.c_str());
  if (value != nullptr && (*value != '\0' || colon == std::string::npos)) {
    CheckText(value, origin + ": environment variable " + name);
    return value;
  }
  if (colon != std::string::npos) return inside.substr(colon + 2);
  throw UserError(
      fmt::format("{}: environment variable {} is not set; set it or write ${{{}:-default}}",
                  origin, name, name));
}

// The alias in `text` that the parser reports as unknown, such as "*.mlp.*"; empty: it reports
// another problem.
std::string UnknownAlias(const std::string& text, const YAML::Exception& error) {
  if (error.mark.is_null() || (error.msg != YAML::ErrorMsg::ALIAS_NOT_FOUND &&
                               error.msg != YAML::ErrorMsg::UNKNOWN_ANCHOR)) {
    return "";
  }
  // The parser's mark is at the alias's star or after it.
  const size_t star = text.rfind('*', static_cast<size_t>(error.mark.pos));
  if (star == text.npos) return "";
  return text.substr(star, text.find_first_of(" \t\r\n,[]{}", star) - star);
}

}  // namespace

void CheckText(const std::string& text, const std::string& what, int line) {
  if (text.size() > kMaxBytes) {
    throw UserError(
        fmt::format("{}: {} bytes; a configuration has at most {}", what, text.size(), kMaxBytes));
  }
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0 || IsControl(byte)) {
      throw UserError(fmt::format("{}: byte 0x{:02x} is not text; a configuration is UTF-8 YAML",
                                  line > 0 ? fmt::format("{}:{}", what, line) : what, byte));
    }
    if (byte == '\n' && line > 0) ++line;
    i += length;
  }
}

Tree ParseYaml(const std::string& text, const std::string& name, bool numbered) {
  CheckText(text, name, numbered ? 1 : 0);
  Builder builder(name, numbered);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    if (const std::string alias = UnknownAlias(text, e); !alias.empty()) {
      throw UserError(fmt::format(
          "{}: {}{} is an alias in YAML, and has no anchor; put text that begins with * in quotes: "
          "{}",
          builder.At(e.mark), builder.UnderWay(), alias, Quote(alias)));
    }
    throw UserError(
        fmt::format("{}: not valid YAML: {}", e.mark.is_null() ? name : builder.At(e.mark), e.msg));
  }
  return builder.Take();
}

void ExpandEnvironment(Tree& tree) {
  for (Tree& item : tree.items) ExpandEnvironment(item);
  for (TreeEntry& entry : tree.entries) ExpandEnvironment(entry.value);
  if (tree.text.find("${") == std::string::npos) return;
  std::string result;
  for (size_t i = 0; i < tree.text.size();) {
    if (tree.text.compare(i, 3, "$${") == 0) {
      result += "${";
      i += 3;
    } else if (tree.text.compare(i, 2, "${") == 0) {
      const size_t end = tree.text.find('}', i);
      if (end == std::string::npos) {
        throw UserError(fmt::format("{}: {} has no closing }}; write $${{ for a plain ${{",
                                    tree.origin, Quote(tree.text.substr(i))));
      }
      result += Variable(tree.text.substr(i + 2, end - i - 2), tree.origin);
      tree.quoted = false;
      i = end + 1;
    } else {
      result += tree.text[i++];
    }
  }
  tree.text = std::move(result);
}

std::string Quote(const std::string& text) {
  constexpr size_t kShown = 60;
  std::string result = "\"";
  for (size_t i = 0; i < text.size();) {
    if (i >= kShown) return result + "…\"";
    const size_t length = Utf8Length(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n') {
      result += "\\n";
    } else if (byte == '"' || byte == '\\') {
      result += {'\\', text[i]};
    } else if (length == 0 || byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += text.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return result + "\"";
}

std::string ShowKey(const std::string& key) {
  for (const char c : key) {
    if (!isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return Quote(key);
  }
  return key.empty() || key.size() > 60 ? Quote(key) : key;
}

std::string Describe(const Tree& tree) {
  switch (tree.kind) {
    case Tree::Kind::kNull:
      return "nothing";
    case Tree::Kind::kScalar:
      return Quote(tree.text);
    case Tree::Kind::kList:
      return "a list";
    case Tree::Kind::kMap:
      return "a map";
  }
  return "";
}

}  // namespace plimsoll::config
