#include "data/images/picture_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/folders.h"
#include "base/mapped_file.h"
#include "data/images/idx_file.h"
#include "formats/compression.h"
#include "formats/decode_raster.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostSide = 1 << 16;  // longest side in pixels

enum class Form { kNone, kNetpbm, kRaster, kIdx, kCifar, kForeign };

// The name of a picture format that is recognised but not supported.
const char* ForeignForm(std::string_view text) {
  struct Magic {
    std::string_view begin;
    const char* name;
  };
  using namespace std::string_view_literals;
  constexpr Magic kForms[] = {
      {"GIF8"sv, "a GIF picture"},           {"II*\0"sv, "a TIFF picture"},
      {"MM\0*"sv, "a TIFF picture"},         {"P1"sv, "a bitmap of Netpbm"},
      {"P2"sv, "a Netpbm picture in ASCII"}, {"P3"sv, "a Netpbm picture in ASCII"},
      {"P4"sv, "a bitmap of Netpbm"}};
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP")) return "a WebP picture";
  if (text.starts_with("BM") && text.size() > 26) return "a BMP picture";
  for (const auto& [begin, name] : kForms) {
    if (text.starts_with(begin)) return name;
  }
  return nullptr;
}

Form FormOf(const MappedFile& file) {
  using namespace std::string_view_literals;
  const std::string_view text = file.text();
  if (text.starts_with("P5") || text.starts_with("P6")) return Form::kNetpbm;
  if (text.starts_with("\0\0\x08\x03"sv)) return Form::kIdx;
  if (formats::CompressionOf(file.bytes()) == formats::Compression::kGzip &&
      file.path().find("idx1") == std::string::npos) {
    return Form::kIdx;
  }
  if (formats::RasterFormOf(text) != formats::RasterForm::kNone) return Form::kRaster;
  if (ForeignForm(text) != nullptr) return Form::kForeign;
  const bool cifar = file.path().ends_with(".bin") && !text.empty() &&
                     text.size() % static_cast<size_t>(1 + kCifarSize.elements()) == 0;
  return cifar ? Form::kCifar : Form::kNone;
}

// A file that cannot be opened counts as a form with one picture; reading it then fails.
Form FormOf(const std::string& path) {
  try {
    return FormOf(MappedFile(path));
  } catch (const UserError&) {
    return Form::kForeign;
  }
}

// Reads Netpbm files: P5 or P6, then width, height and the largest value, separated by white space
// and comments; one white space; the bytes.
class NetpbmReader {
 public:
  explicit NetpbmReader(const MappedFile& file) : file_(file), rest_(file.text()) {}

  void Read(FunctionRef<void(const Picture&)> visit) {
    const int64_t channels = rest_[1] == '6' ? 3 : 1;
    rest_.remove_prefix(2);
    const int64_t width = Number("width"), height = Number("height"), largest = Number("maximum");
    if (width < 1 || height < 1 || width > kMostSide || height > kMostSide) {
      Fail(fmt::format("its header announces {} × {} pixels", width, height));
    }
    if (largest < 1 || largest > 255) {
      Fail(fmt::format(
          "its values go up to {}, and bytes up to 255 are read; convert it: convert {} "
          "-depth 8 OUT.ppm",
          largest, file_.path()));
    }
    if (!rest_.empty()) rest_.remove_prefix(1);
    const ImageSize size = {height, width, channels};
    if (std::ssize(rest_) != size.elements()) {
      Fail(fmt::format("has {} bytes of pixels, and its header announces {}; copy the file again",
                       rest_.size(), size.elements()));
    }
    const std::span<const uint8_t> stored(reinterpret_cast<const uint8_t*>(rest_.data()),
                                          rest_.size());
    if (largest == 255) return visit({file_.path(), -1, size, stored});
    std::vector<uint8_t> pixels;
    for (const uint8_t value : stored) {
      const int64_t scaled = (std::min<int64_t>(value, largest) * 255 + largest / 2) / largest;
      pixels.push_back(static_cast<uint8_t>(scaled));
    }
    visit({file_.path(), -1, size, pixels});
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw UserError(fmt::format("{}: {}", file_.path(), what));
  }

  int64_t Number(const char* what) {
    for (;;) {
      const size_t begin = rest_.find_first_not_of(" \t\r\n\f\v");
      rest_.remove_prefix(std::min(begin, rest_.size()));
      if (!rest_.starts_with('#')) break;
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
    }
    int64_t number = 0;
    size_t digits = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      number = std::min<int64_t>(number * 10 + (rest_[digits] - '0'), int64_t{1} << 40);
    }
    if (digits == 0) Fail(fmt::format("its header has no {}; copy the file again", what));
    rest_.remove_prefix(digits);
    return number;
  }

  const MappedFile& file_;
  std::string_view rest_;
};

void VisitRaster(const MappedFile& file, FunctionRef<void(const Picture&)> visit) {
  const formats::Raster raster = formats::DecodeRaster(file.bytes(), file.path());
  visit({file.path(), -1, {raster.height, raster.width, raster.channels}, raster.pixels});
}

void VisitIdx(const MappedFile& file, FunctionRef<void(const Picture&)> visit) {
  const IdxBytes images = ParseIdx(file.bytes(), file.path(), 3);
  const ImageSize size = {images.shape[1], images.shape[2], 1};
  const auto elements = static_cast<size_t>(size.elements());
  for (int64_t i = 0; i < images.shape[0]; ++i) {
    visit({file.path(), i, size,
           std::span(images.values).subspan(static_cast<size_t>(i) * elements, elements)});
  }
}

void VisitCifar(const std::string& path, FunctionRef<void(const Picture&)> visit) {
  const LabelledImages images = ReadCifarFile(path);
  for (int64_t i = 0; i < images.count(); ++i) visit({path, i, images.size, images.image(i)});
}

}  // namespace

bool HoldsSeveral(const std::string& path) {
  const Form form = FormOf(path);
  return form == Form::kIdx || form == Form::kCifar;
}

std::vector<std::string> FindPictures(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    // A dangling link is listed; it fails when it is read, like other files that cannot be opened.
    if (std::error_code ignored; !fs::is_directory(path, ignored)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    ForEachFileBelow(path, [&](const std::string& file) {
      if (FormOf(file) != Form::kNone) found.push_back(file);
      return true;
    });
    if (found.empty()) {
      throw UserError(
          path +
          ": holds no pictures: JPEG or PNG files, files of Netpbm's binary forms (P5, P6), of "
          "MNIST's or of CIFAR-10's");
    }
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

void ForEachPicture(const std::string& path, FunctionRef<void(const Picture&)> visit) {
  const MappedFile file(path);
  switch (FormOf(file)) {
    case Form::kNetpbm:
      return NetpbmReader(file).Read(visit);
    case Form::kRaster:
      return VisitRaster(file, visit);
    case Form::kIdx:
      return VisitIdx(file, visit);
    case Form::kCifar:
      return VisitCifar(path, visit);
    case Form::kForeign:
      throw UserError(fmt::format(
          "{}: is {}, which is not read; ImageMagick makes one that is: convert {} {}", path,
          ForeignForm(file.text()), path, fs::path(path).replace_extension(".ppm").string()));
    case Form::kNone:
      break;
  }
  throw UserError(
      path +
      ": is no picture that is read: give JPEG or PNG files, files of Netpbm's binary forms (P5, "
      "P6), of MNIST's images or of CIFAR-10's binary version");
}

}  // namespace plimsoll::data
