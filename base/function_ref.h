// A reference to a callable: two words, no allocation, valid only while the callable lives. It is
// meant for parameters that are only called before the function returns.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace plimsoll {

template <typename Signature>
class FunctionRef;

template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <typename Callable,
            typename = std::enable_if_t<
                !std::is_same_v<std::remove_cvref_t<Callable>, FunctionRef> &&
                std::is_object_v<std::remove_reference_t<Callable>> &&
                std::is_invocable_r_v<Result, std::remove_reference_t<Callable>&, Args...>>>
  FunctionRef(Callable&& callable)  // NOLINT: implicit, so that callers can pass lambdas
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(
              std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace plimsoll
