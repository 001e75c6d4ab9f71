#include "formats/nifti_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "formats/nifti_grid.h"

namespace plimsoll::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are written as they lie");

// Byte offsets of the header's fields.
enum Field : size_t {
  kSizeofHdr = 0,
  kDim = 40,
  kDatatype = 70,
  kBitpix = 72,
  kPixdim = 76,
  kVoxOffset = 108,
  kSclSlope = 112,
  kSclInter = 116,
  kXyztUnits = 123,
  kQformCode = 252,
  kSformCode = 254,
  kQuatern = 256,
  kQoffset = 268,
  kSrow = 280,
  kMagic = 344,
};

constexpr int32_t kNifti2HeaderBytes = 540;
constexpr std::string_view kMagicOfFile("n+1\0", 4), kMagicOfPair("ni1\0", 4);
// Values of xyzt_units; the largest unit of length is micrometres.
constexpr uint8_t kMillimetres = 2, kMostLengthUnit = 3;
constexpr double kMostBegin = 1 << 30;  // limit on the bytes before the values

struct StoredType {
  int16_t number;
  std::string_view name;
  int16_t bits;  // 0: the type is not supported
};
constexpr StoredType kStoredTypes[] = {
    {2, "uint8", 8},         {4, "int16", 16},         {8, "int32", 32},
    {16, "float32", 32},     {64, "float64", 64},      {256, "int8", 8},
    {512, "uint16", 16},     {768, "uint32", 32},      {1024, "int64", 64},
    {1280, "uint64", 64},    {1, "bits", 0},           {32, "complex64", 0},
    {128, "RGB colours", 0}, {1536, "float128", 0},    {1792, "complex128", 0},
    {2048, "complex256", 0}, {2304, "RGBA colours", 0}};

const StoredType* FindStoredType(int16_t number) {
  const auto* const found = std::ranges::find(kStoredTypes, number, &StoredType::number);
  return found == std::end(kStoredTypes) ? nullptr : found;
}

// Loads a field's number, in either byte order.
template <typename T>
T Load(std::span<const uint8_t> bytes, size_t at, bool swapped) {
  std::array<uint8_t, sizeof(T)> field;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), sizeof(T), field.begin());
  if (swapped) std::ranges::reverse(field);
  return std::bit_cast<T>(field);
}

template <typename T>
void Store(std::vector<uint8_t>& bytes, size_t at, double value) {
  const auto stored = static_cast<T>(value);
  std::memcpy(bytes.data() + at, &stored, sizeof(T));
}

template <size_t kCount>
void StoreAll(std::vector<uint8_t>& bytes, size_t at, const std::array<float, kCount>& numbers) {
  std::memcpy(bytes.data() + at, numbers.data(), sizeof(numbers));
}

// Stores the affine as sform, and also as qform if a rotation can express it.
NiftiForms FormsOf(const Affine& affine, int16_t code) {
  NiftiForms forms = {.sform_code = code, .units = kMillimetres};
  const std::optional<Qform> qform = QformOf(affine);
  const std::array<double, 3> spacing = SpacingOf(affine);
  forms.pixdim[0] = qform && qform->mirrored ? -1 : 1;
  if (qform) forms.qform_code = code;
  for (size_t i = 0; i < 3; ++i) {
    forms.pixdim[1 + i] = static_cast<float>(spacing[i]);
    if (!qform) continue;
    forms.quatern[i] = static_cast<float>(qform->bcd[i]);
    forms.qoffset[i] = static_cast<float>(qform->offset[i]);
  }
  for (size_t i = 0; i < 12; ++i) forms.srow[i] = static_cast<float>(affine[i / 4][i % 4]);
  return forms;
}

NiftiForms FormsToWrite(const NiftiGrid& grid) {
  if (!grid.forms) return FormsOf(grid.affine, 1);
  if (AffineOf(*grid.forms) == grid.affine) return *grid.forms;
  const int16_t code = grid.forms->uses_sform() ? grid.forms->sform_code : grid.forms->qform_code;
  return FormsOf(grid.affine, std::max<int16_t>(code, 1));  // a form with code 0 would be ignored
}

class HeaderReader {
 public:
  HeaderReader(std::span<const uint8_t> bytes, const std::string& name)
      : bytes_(bytes), name_(name) {}

  NiftiHeader Read(int64_t most_values) {
    CheckForm();
    header_.swapped = swapped_;
    ReadSize(most_values);
    ReadType();
    ReadScaling();
    ReadBegin();
    ReadAffine();
    return header_;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const { throw UserError(name_ + ": " + what); }

  [[noreturn]] void FailForeign(const std::string& what) const {
    Fail(fmt::format(
        "{}, and single files of NIfTI-1 are read; nibabel makes one of it: nib-convert "
        "--image-type Nifti1Image {} OUT.nii.gz",
        what, name_));
  }

  template <typename T>
  T Get(size_t at, size_t i = 0) const {
    return Load<T>(bytes_, at + i * sizeof(T), swapped_);
  }
  double Real(size_t at) const { return Get<float>(at); }
  template <size_t kCount>
  void GetAll(size_t at, std::array<float, kCount>& numbers) const {
    for (size_t i = 0; i < kCount; ++i) numbers[i] = Get<float>(at, i);
  }

  void CheckForm() {
    if (bytes_.size() >= sizeof(int32_t)) {
      const auto is = [&](int32_t size) {
        return Load<int32_t>(bytes_, kSizeofHdr, swapped_) == size;
      };
      for (const bool swapped : {true, false}) {
        swapped_ = swapped;
        if (is(kNifti2HeaderBytes)) FailForeign("is of NIfTI-2");
        if (is(kNiftiHeaderBytes)) break;
      }
      if (!is(kNiftiHeaderBytes)) FailOther();
    }
    if (bytes_.size() < kNiftiHeaderBytes) {
      Fail(fmt::format(
          "truncated: it has {} bytes, and the header of NIfTI-1 has {}; copy the file again",
          bytes_.size(), kNiftiHeaderBytes));
    }
    const std::string_view magic(reinterpret_cast<const char*>(bytes_.data()) + kMagic,
                                 kMagicOfFile.size());
    if (magic == kMagicOfPair) FailForeign("is one of a pair of files, .hdr and .img");
    if (magic != kMagicOfFile) FailForeign("is of ANALYZE, or has a damaged header");
  }

  [[noreturn]] void FailOther() const {
    if (name_.ends_with(".img")) FailForeign("is one of a pair of files, .hdr and .img");
    Fail(
        fmt::format("is no NIfTI-1 file: it begins with {:02x}, where 5c 01 00 00 or 00 00 01 5c "
                    "is expected; name a file .nii or .nii.gz",
                    fmt::join(bytes_.first(4), " ")));
  }

  void ReadSize(int64_t most_values) {
    const auto rank = Get<int16_t>(kDim);
    if (rank < 1 || rank > 7) {
      Fail(fmt::format("its header is damaged: it has {}; copy the file again",
                       Counted(rank, "dimension")));
    }
    if (rank < 3) {
      Fail(fmt::format("has {}, and volumes have three; stack its slices first",
                       Counted(rank, "dimension")));
    }
    std::vector<int64_t> dim;
    for (int i = 1; i <= rank; ++i) dim.push_back(Get<int16_t>(kDim, static_cast<size_t>(i)));
    const auto shape = [&] { return fmt::format("{}", fmt::join(dim, " × ")); };
    if (std::ranges::min(dim) < 1) {
      Fail(fmt::format("its header is damaged: it announces {} voxels; copy the file again",
                       shape()));
    }
    // After the third axis, axes of length 1 have no meaning.
    int64_t channels = 1;
    for (size_t i = 3; i < dim.size(); ++i) {
      if (dim[i] == 1) continue;
      if (channels > 1 || i > 4) {
        Fail(
            fmt::format("has {} values: more than three dimensions and channels; split it into "
                        "several files",
                        shape()));
      }
      channels = dim[i];
    }
    std::copy_n(dim.begin(), 3, header_.grid.size.begin());
    header_.grid.channels = channels;
    // Each factor is below 2^15, so that the product is below 2^60.
    if (header_.grid.values() > most_values) {
      Fail(
          fmt::format("its header announces {} = {} values ({} of memory), and at most {} are "
                      "read; crop or resample it, or allow more",
                      shape(), header_.grid.values(),
                      FormatBytes(header_.grid.values() * int64_t{sizeof(float)}), most_values));
    }
  }

  void ReadType() {
    const auto number = Get<int16_t>(kDatatype), bits = Get<int16_t>(kBitpix);
    const StoredType* const type = FindStoredType(number);
    if (type == nullptr) {
      Fail(fmt::format("its header is damaged: there is no type of values {}; copy the file again",
                       number));
    }
    if (type->bits == 0) {
      Fail(fmt::format(
          "its values are {}, and integers, float32 and float64 are read; write it again as "
          "float32, with a channel for each part of a value",
          type->name));
    }
    if (bits != type->bits) {
      Fail(fmt::format(
          "its header contradicts itself: values are {}, and have {} bits; copy the file again",
          type->name, bits));
    }
    header_.type = static_cast<NiftiType>(number);
  }

  void ReadScaling() {
    const double slope = Real(kSclSlope), offset = Real(kSclInter);
    if (slope == 0 || !std::isfinite(slope)) return;
    if (!std::isfinite(offset)) {
      Fail(fmt::format(
          "its header is damaged: scl_slope is {} and scl_inter {}; copy the file again", slope,
          offset));
    }
    header_.slope = slope;
    header_.offset = offset;
  }

  void ReadBegin() {
    const double begin = Real(kVoxOffset);
    // Written so that NaN fails, since a comparison with NaN is false.
    if (!(begin >= kNiftiValuesBegin && begin <= kMostBegin) || begin != std::floor(begin)) {
      Fail(
          fmt::format("its header is damaged: its values begin at byte {} (vox_offset), and the "
                      "header has {}; copy the file again",
                      begin, kNiftiValuesBegin));
    }
    header_.begin = static_cast<size_t>(begin);
  }

  void ReadAffine() {
    const NiftiForms forms = ReadForms();
    header_.grid.forms = forms;
    header_.grid.affine = AffineOf(forms);
    constexpr double kFlat = 1e-6;
    if (const double volume = UnitVolume(header_.grid.affine);
        !std::isfinite(volume) || std::abs(volume) < kFlat) {
      const char* const source = forms.uses_sform()   ? "sform"
                                 : forms.uses_qform() ? "qform"
                                                      : "spacing (pixdim)";
      std::vector<std::string> rows;
      for (const auto& row : header_.grid.affine) {
        rows.push_back(fmt::format("{:.6g}", fmt::join(row, " ")));
      }
      Fail(fmt::format(
          "its {} gives voxels no volume ({}); correct its header with the program that wrote it",
          source, fmt::join(rows, "; ")));
    }
  }

  NiftiForms ReadForms() const {
    NiftiForms forms = {.qform_code = Get<int16_t>(kQformCode),
                        .sform_code = Get<int16_t>(kSformCode),
                        .units = bytes_[kXyztUnits]};
    GetAll(kPixdim, forms.pixdim);
    GetAll(kQuatern, forms.quatern);
    GetAll(kQoffset, forms.qoffset);
    GetAll(kSrow, forms.srow);
    if (const int unit = forms.units & 7; unit > kMostLengthUnit) {
      Fail(fmt::format("its header is damaged: there is no unit of lengths {}; copy the file again",
                       unit));
    }
    double square = 0;
    for (const float part : forms.quatern) square += static_cast<double>(part) * part;
    constexpr double kMost = 1 + 1e-3;  // tolerance for float32 rounding
    if (forms.uses_qform() && !(square <= kMost)) {
      Fail(fmt::format(
          "its header is damaged: the quaternion ({:.6g}) of its qform is no rotation; copy "
          "the file again",
          fmt::join(forms.quatern, ", ")));
    }
    return forms;
  }

  std::span<const uint8_t> bytes_;
  const std::string& name_;
  bool swapped_ = false;
  NiftiHeader header_;
};

}  // namespace

size_t BytesOf(NiftiType type) {
  const StoredType* const found = FindStoredType(static_cast<int16_t>(type));
  if (found == nullptr) throw InternalError("a type of values that NIfTI-1 does not have");
  return static_cast<size_t>(found->bits) / 8;
}

NiftiHeader ParseNiftiHeader(std::span<const uint8_t> bytes, const std::string& name,
                             int64_t most_values) {
  return HeaderReader(bytes, name).Read(most_values);
}

std::vector<uint8_t> NiftiHeaderBytes(const NiftiGrid& grid, NiftiType type) {
  std::vector<uint8_t> bytes(kNiftiValuesBegin);
  Store<int32_t>(bytes, kSizeofHdr, kNiftiHeaderBytes);
  const bool channels = grid.channels > 1;
  Store<int16_t>(bytes, kDim, channels ? 4 : 3);
  const auto dim = [&](size_t i, int64_t length) {
    Store<int16_t>(bytes, kDim + 2 * i, static_cast<double>(length));
  };
  for (size_t i = 0; i < 3; ++i) dim(1 + i, grid.size[i]);
  dim(4, grid.channels);
  for (const size_t i : {5, 6, 7}) dim(i, 1);
  Store<int16_t>(bytes, kDatatype, static_cast<int16_t>(type));
  Store<int16_t>(bytes, kBitpix, static_cast<double>(8 * BytesOf(type)));

  const NiftiForms forms = FormsToWrite(grid);
  StoreAll(bytes, kPixdim, forms.pixdim);
  for (const size_t i : {4, 5, 6, 7}) Store<float>(bytes, kPixdim + 4 * i, 1);
  Store<float>(bytes, kVoxOffset, kNiftiValuesBegin);
  Store<float>(bytes, kSclSlope, 1);
  bytes[kXyztUnits] = forms.units;
  Store<int16_t>(bytes, kQformCode, forms.qform_code);
  Store<int16_t>(bytes, kSformCode, forms.sform_code);
  StoreAll(bytes, kQuatern, forms.quatern);
  StoreAll(bytes, kQoffset, forms.qoffset);
  StoreAll(bytes, kSrow, forms.srow);
  std::ranges::copy(kMagicOfFile, bytes.begin() + kMagic);
  return bytes;
}

}  // namespace plimsoll::formats
