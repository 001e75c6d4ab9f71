// fmt's code, compiled once. Debian ships it as a shared library only, and header-only use makes
// every file that prints compile all of it again, which doubles the time to build.
#include <fmt/format-inl.h>

// What fmt's headers promise to be instantiated elsewhere, for char.
namespace fmt::detail {

template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
template void buffer<char>::append<char>(const char*, const char*);
template void vformat_to<char>(buffer<char>&, string_view, basic_format_args<buffer_context<char>>,
                               locale_ref);
template auto locale_ref::get<std::locale>() const -> std::locale;
template auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal<double>(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace fmt::detail
