#include "formats/foreign_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/json.h"
#include "formats/safetensors.h"

namespace plimsoll::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetaConverter =
    "python -m transformers.models.llama.convert_llama_weights_to_hf --input_dir FOLDER "
    "--output_dir OUT";
constexpr const char* kResNetConverter = "python3 tools/resnet_to_safetensors.py";
constexpr const char* kTimmVitConverter = "python3 tools/timm_vit.py";
constexpr const char* kGemma3Converter = "python3 tools/gemma3_text.py";
constexpr const char* kSentencePieceConverter =
    "LlamaTokenizerFast(vocab_file=\"tokenizer.model\").save_pretrained(OUT)";

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

template <typename T>
T At(std::string_view text, size_t offset) {
  T value;
  std::memcpy(&value, text.data() + offset, sizeof(T));
  return value;
}

// A zip archive from torch.save, whose first member is NAME/data.pkl, or a pickle of protocol 2 to
// 5.
bool IsPickle(std::string_view text) {
  if (text.starts_with("PK\x03\x04")) {
    return text.substr(0, 256).find("/data.pkl") != std::string_view::npos;
  }
  return text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5;
}

// The class of transformers that the config.json in the file's folder names.
std::string ClassBeside(const std::string& path) {
  const std::string file = (fs::path(path).parent_path() / "config.json").string();
  if (!IsFile(file)) return "";
  try {
    const JsonObject config = JsonObject::FromFile(file);
    if (config.Has("architectures")) {
      const std::vector<std::string> names = config.RequireStrings("architectures");
      if (!names.empty()) return Printable(names.front());
    }
  } catch (const UserError&) {  // reading config.json will report the error
  }
  return "AutoModelForCausalLM";
}

std::string DescribePickle(const std::string& path, std::string_view text) {
  const fs::path folder = fs::path(path).parent_path();
  if (IsFile(folder / "params.json")) {
    return fmt::format(
        "is a pickle with Llama's weights as Meta gives them out (params.json is next to it), "
        "which "
        "are not read; transformers converts them: {}",
        kMetaConverter);
  }
  if (IsFile(folder / "adapter_config.json")) {
    return "is a pickle with an adapter of PEFT, which can run any program when it is loaded and "
           "is "
           "not read; PEFT writes it as safetensors: PeftModel.from_pretrained(BASE, FOLDER)"
           ".save_pretrained(OUT)";
  }
  // A pickle stores names of tensors as plain text near the beginning.
  constexpr size_t kNames = size_t{1} << 20;
  if (text.substr(0, kNames).find("layer1.0.conv1.weight") != std::string_view::npos) {
    return fmt::format(
        "is a pickle of PyTorch with a ResNet, which can run any program when it is loaded and is "
        "not read; a script of Plimsoll converts it: {} {} OUT",
        kResNetConverter, Printable(fs::path(path).filename().string()));
  }
  const std::string name = ClassBeside(path);
  if (!name.empty()) {
    return fmt::format(
        "is a pickle of PyTorch, which can run any program when it is loaded and is not read; "
        "transformers writes its weights as safetensors: {}.from_pretrained(FOLDER)"
        ".save_pretrained(OUT, safe_serialization=True)",
        name);
  }
  return "is a pickle of PyTorch, which can run any program when it is loaded and is not read; "
         "write "
         "its tensors as safetensors.torch.save_file(torch.load(FILE, weights_only=True), "
         "\"model.safetensors\"), with transformers' names, next to the model's config.json";
}

bool IsGguf(std::string_view text) {
  return text.starts_with("GGUF") || text.starts_with("lmgg") || text.starts_with("tjgg") ||
         text.starts_with("fmgg");
}

// Seven integers, followed by the number of weights that they imply (llama2.c, export.py, version
// 0), or the magic number of later versions.
bool IsLlama2C(std::string_view text) {
  if (text.starts_with("24ka")) return true;
  constexpr size_t kHeader = 7 * sizeof(int32_t);
  if (text.size() < kHeader) return false;
  std::array<int32_t, 7> header;
  std::memcpy(header.data(), text.data(), kHeader);
  const auto [width, hidden, layers, heads, kv_heads, vocab, sequence] = header;
  const int64_t words = std::abs(int64_t{vocab});
  const auto within = [](int64_t value, int64_t most) { return value >= 1 && value <= most; };
  if (!within(width, 1 << 17) || !within(hidden, 1 << 20) || !within(layers, 1 << 12) ||
      !within(heads, width) || !within(kv_heads, heads) || !within(words, 1 << 24) ||
      !within(sequence, 1 << 24) || width % heads != 0 || heads % kv_heads != 0) {
    return false;
  }
  const double w = width, l = layers, head = w / heads, v = static_cast<double>(words);
  const double floats = v * w + l * (2 * w + 2 * w * w + 2 * w * kv_heads * head + 3 * w * hidden) +
                        w + sequence * head + (vocab < 0 ? v * w : 0);
  return static_cast<double>(text.size()) == kHeader + 4 * floats;
}

// The length of the longest token; then, for each token until the end, a score, a length and that
// many bytes.
bool IsLlama2CTokenizer(std::string_view text) {
  if (text.size() < 16) return false;
  const auto longest = At<int32_t>(text, 0);
  if (longest < 1 || longest > 4096) return false;
  size_t at = 4;
  while (at + 8 <= text.size()) {
    const auto score = At<float>(text, at);
    const auto length = At<int32_t>(text, at + 4);
    if (!std::isfinite(score) || length < 0 || length > longest) return false;
    at += 8 + static_cast<size_t>(length);
  }
  return at == text.size();
}

// A SentencePiece model: a protocol buffer whose first piece is <unk>.
bool IsSentencePiece(std::string_view text) {
  return text.starts_with('\n') && text.substr(0, 16).find("\n\x05<unk>") != std::string_view::npos;
}

// Lines with a token in base64 and its number, counted from 0.
bool IsTiktoken(std::string_view text) {
  for (int number = 0; number < 3; ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || space == 0 || space % 4 != 0) return false;
    const bool base64 = line.substr(0, space).find_first_not_of(
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") ==
                        std::string_view::npos;
    if (!base64 || line.substr(space + 1) != std::to_string(number)) return false;
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return true;
}

// A length and JSON of that length. This is checked first, because the length's bytes may look like
// another format.
bool IsSafetensors(std::string_view text) {
  return text.size() > 8 && text[8] == '{' && At<uint64_t>(text, 0) <= text.size() - 8;
}

std::optional<std::string> Describe(std::string_view text, const std::string& path) {
  if (IsSafetensors(text)) return std::nullopt;
  if (text.starts_with("version https://git-lfs")) {
    return "is a pointer of Git LFS in place of the file; fetch it with git lfs pull";
  }
  if (IsGguf(text)) {
    return fmt::format(
        "is a model of llama.cpp (GGUF), which is not read; transformers converts it: "
        "AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=\"{}\").save_pretrained(OUT)",
        Printable(fs::path(path).filename().string()));
  }
  if (IsPickle(text)) return DescribePickle(path, text);
  if (IsLlama2C(text)) {
    return "is a model of llama2.c, which is not read; llama2.c writes the checkpoint that it was "
           "made of in transformers' form: python export.py OUT --version -1 --checkpoint FILE.pt";
  }
  if (IsSentencePiece(text)) {
    return fmt::format(
        "is a tokenizer of SentencePiece, which is not read; transformers makes a tokenizer.json "
        "of it: {}, or AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OUT) for a folder "
        "with "
        "a config.json",
        kSentencePieceConverter);
  }
  if (IsTiktoken(text)) {
    return fmt::format(
        "is a tokenizer of tiktoken (Llama 3), which is not read; transformers makes a "
        "tokenizer.json of it together with the weights: {}",
        kMetaConverter);
  }
  if (IsLlama2CTokenizer(text)) {
    return fmt::format(
        "is a tokenizer of llama2.c, which is not read; transformers makes a tokenizer.json of the "
        "tokenizer.model that it was made of: {}",
        kSentencePieceConverter);
  }
  return std::nullopt;
}

bool IsTokenizer(std::string_view what) { return what.starts_with("is a tokenizer"); }

std::optional<std::string> DescribeSafetensors(const std::string& path) {
  std::vector<std::string> names;
  try {
    const SafetensorsReader file(path);
    for (const TensorEntry& tensor : file.tensors()) names.push_back(tensor.name);
  } catch (const UserError&) {  // reading the file will report the error
  }
  return DescribeForeignNames(names);
}

std::optional<std::string> DescribeWeights(const std::string& path) {
  if (path.ends_with(".safetensors")) {
    if (const auto what = DescribeSafetensors(path)) return what;
  }
  const std::optional<std::string> what = DescribeForeignFile(path);
  return what && !IsTokenizer(*what) ? what : std::nullopt;
}

}  // namespace

std::optional<std::string> DescribeForeignFile(const std::string& path) {
  if (!IsFile(path)) return std::nullopt;
  try {
    const MappedFile file(path);
    return Describe(file.text(), path);
  } catch (const UserError&) {  // the file cannot be opened
    return std::nullopt;
  }
}

std::optional<std::string> DescribeForeignNames(std::span<const std::string> names) {
  const auto any = [&](auto condition) { return std::ranges::any_of(names, condition); };
  const auto has = [&](std::string_view part) {
    return any([=](const std::string& name) { return name.find(part) != name.npos; });
  };
  const auto begins = [&](std::string_view prefix) {
    return any([=](const std::string& name) { return name.starts_with(prefix); });
  };
  constexpr const char* kRename =
      "save_file({{name.replace(\"{0}\", \"\"): tensor for name, tensor in "
      "load_file(FILE).items()}}, FILE, {{\"format\": \"pt\"}})";
  if (has("_orig_mod.")) {
    return fmt::format(
        "has the names of a module of torch.compile (_orig_mod.); save the module "
        "that was compiled, or rename them with safetensors.torch: {}",
        fmt::format(fmt::runtime(kRename), "_orig_mod."));
  }
  if (!names.empty() && std::ranges::all_of(names, [](const std::string& name) {
        return name.starts_with("module.");
      })) {
    return fmt::format(
        "has the names of a module of DistributedDataParallel (module.); save its "
        ".module, or rename them with safetensors.torch: {}",
        fmt::format(fmt::runtime(kRename), "module."));
  }
  if (has(".base_layer.")) {
    return "has the names of a PeftModel, a base with its adapter; PEFT parts them: "
           "model.save_pretrained(OUT) writes the adapter, "
           "model.merge_and_unload().save_pretrained(OUT) a model";
  }
  if (has(".lora_A.default.") || has(".lora_B.default.")) {
    return "has the names of a PeftModel's state_dict (.default.); PEFT writes those of an "
           "adapter: "
           "model.save_pretrained(OUT)";
  }
  if (begins("resnet.embedder.") || begins("resnet.encoder.stages.")) {
    return fmt::format(
        "has the names of transformers' ResNets, which are read with torchvision's; a "
        "script of Plimsoll converts the folder: {} FOLDER OUT",
        kResNetConverter);
  }
  if (begins("blocks.0.attn.qkv.") && begins("patch_embed.")) {
    return fmt::format(
        "has timm's names of a ViT; a script of Plimsoll converts it: {} "
        "FOLDER/model.safetensors OUT",
        kTimmVitConverter);
  }
  if (begins("tok_embeddings.weight") || begins("layers.0.attention.wq.weight")) {
    return fmt::format(
        "has the names that Meta gives to Llama's tensors (tok_embeddings, attention.wq), in whose "
        "order of heads they are not read; transformers converts Meta's own files: {}",
        kMetaConverter);
  }
  return std::nullopt;
}

void RefuseForeignConfig(const JsonObject& config) {
  if (!config.Has("model_type") && config.Has("architecture") && config.Has("pretrained_cfg")) {
    const std::string name = config.RequireString("architecture");
    const std::string converter =
        name.starts_with("vit") || name.starts_with("deit")
            ? fmt::format("{} FOLDER/model.safetensors OUT", kTimmVitConverter)
        : name.starts_with("resnet") ? fmt::format("{} FOLDER OUT", kResNetConverter)
                                     : "";
    config.Fail(
        "architecture",
        fmt::format("\"{}\" is a model of timm, {}", Printable(name),
                    converter.empty() ? "of which only ViTs and ResNets can be converted"
                                      : "which a script of Plimsoll converts: " + converter));
  }
  if (config.GetString("model_type", "") == "gemma3") {
    config.Fail("model_type", fmt::format("\"gemma3\" sees images, too; a script of Plimsoll "
                                          "writes a folder of its text part: {} FOLDER OUT",
                                          kGemma3Converter));
  }
  if (config.GetString("model_type", "") == "resnet" && config.Has("hidden_sizes")) {
    config.Fail("hidden_sizes",
                fmt::format("this is a ResNet of transformers, which is read with torchvision's "
                            "names; a script of Plimsoll converts the folder: {} FOLDER OUT",
                            kResNetConverter));
  }
}

void RefuseForeignModel(const std::string& path) {
  std::vector<std::string> files;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const auto& file : fs::directory_iterator(path, error)) files.push_back(file.path());
    std::ranges::sort(files);
  } else {
    files.push_back(path);
  }
  for (const std::string& file : files) {
    if (const auto what = DescribeWeights(file))
      throw UserError(fmt::format("{}: {}", file, *what));
  }
}

void RefuseForeignFile(const std::string& path) {
  if (const auto what = DescribeForeignFile(path))
    throw UserError(fmt::format("{}: {}", path, *what));
}

}  // namespace plimsoll::formats
