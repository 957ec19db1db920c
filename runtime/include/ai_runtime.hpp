/*
 * C++ view of the ai_* API (C++11 and later): instances that release themselves, tensors as typed spans. Header only;
 * no heap, exceptions or run-time type information, and nothing of the C++ library, which bare-metal compilers may
 * lack.
 */
#ifndef AI_RUNTIME_HPP
#define AI_RUNTIME_HPP

#include "ai_runtime.h"

#include <stddef.h>
#include <stdint.h>

namespace ai
{

/* Elements in a row; a stand-in for C++20's std::span. */
template <typename T> class span
{
  public:
    constexpr span() noexcept : data_(nullptr), size_(0U)
    {
    }
    constexpr span(T *data, size_t size) noexcept : data_(data), size_(size)
    {
    }
    template <size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N)
    {
    }
    constexpr operator span<const T>() const noexcept
    {
        return span<const T>(data_, size_);
    }

    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr size_t size() const noexcept
    {
        return size_;
    }
    constexpr bool empty() const noexcept
    {
        return size_ == 0U;
    }
    constexpr T *begin() const noexcept
    {
        return data_;
    }
    constexpr T *end() const noexcept
    {
        return data_ + size_;
    }
    constexpr T &operator[](size_t index) const noexcept
    {
        return data_[index];
    }

  private:
    T *data_;
    size_t size_;
};

/* The ai_dtype of a C++ type; there is none for types a tensor cannot have. */
template <typename T> struct dtype_of;
template <int dtype> struct dtype_constant {
    static constexpr int value = dtype;
};
template <> struct dtype_of<int8_t> : dtype_constant<AI_DTYPE_INT8> {
};
template <> struct dtype_of<uint8_t> : dtype_constant<AI_DTYPE_UINT8> {
};
template <> struct dtype_of<int16_t> : dtype_constant<AI_DTYPE_INT16> {
};
template <> struct dtype_of<uint16_t> : dtype_constant<AI_DTYPE_UINT16> {
};
template <> struct dtype_of<int32_t> : dtype_constant<AI_DTYPE_INT32> {
};
template <> struct dtype_of<uint32_t> : dtype_constant<AI_DTYPE_UINT32> {
};
template <> struct dtype_of<int64_t> : dtype_constant<AI_DTYPE_INT64> {
};
template <> struct dtype_of<uint64_t> : dtype_constant<AI_DTYPE_UINT64> {
};
template <> struct dtype_of<float> : dtype_constant<AI_DTYPE_FLOAT32> {
};
template <> struct dtype_of<bool> : dtype_constant<AI_DTYPE_BOOL> {
};

/* One instance of a network; false when it could not be created (create_error says why). */
class network
{
  public:
    /* The static instance, in the static arena or one of the application's. */
    explicit network(const ai_model_info &model, ai_ptr arena = nullptr) noexcept : handle_(nullptr)
    {
        static_cast<void>(ai_create(&model, arena, &handle_));
    }

    /* One more instance, in memory of the application's (AI_INSTANCE_SIZE bytes, pointer-aligned). */
    network(const ai_model_info &model, void *memory, size_t size, ai_ptr arena) noexcept : handle_(nullptr)
    {
        static_cast<void>(ai_create_in(&model, memory, size, arena, &handle_));
    }

    network(const network &) = delete;
    network &operator=(const network &) = delete;
    network(network &&other) noexcept : handle_(other.handle_)
    {
        other.handle_ = nullptr;
    }
    network &operator=(network &&other) noexcept
    {
        if (this != &other) {
            release();
            handle_ = other.handle_;
            other.handle_ = nullptr;
        }
        return *this;
    }
    ~network()
    {
        release();
    }

    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }
    ai_handle handle() const noexcept
    {
        return handle_;
    }
    bool run() noexcept
    {
        return ai_run(handle_) == AI_STATUS_OK;
    }
    bool reset() noexcept
    {
        return ai_reset(handle_) == AI_STATUS_OK;
    }
    const char *error() noexcept
    {
        return ai_get_error(handle_);
    }
    static const char *create_error() noexcept
    {
        return ai_get_error(nullptr);
    }
    size_t inputs() const noexcept
    {
        return ai_get_input_size(handle_);
    }
    size_t outputs() const noexcept
    {
        return ai_get_output_size(handle_);
    }

    /* Elements of a tensor; empty when it is not there or has another element type. */
    template <typename T> span<T> input(uint32_t index = 0U) noexcept
    {
        return elements<T>(ai_get_input(handle_, index));
    }
    template <typename T> span<const T> output(uint32_t index = 0U) noexcept
    {
        return elements<T>(ai_get_output(handle_, index));
    }

    /* An input from floats, an output as floats; false when the number of elements is another one. */
    bool quantize(span<const float> values, uint32_t index = 0U) noexcept
    {
        return fits(ai_get_input(handle_, index), values.size()) &&
               (ai_quantize_input(handle_, index, values.data()) == AI_STATUS_OK);
    }
    bool dequantize(span<float> values, uint32_t index = 0U) noexcept
    {
        return fits(ai_get_output(handle_, index), values.size()) &&
               (ai_dequantize_output(handle_, index, values.data()) == AI_STATUS_OK);
    }

    /* Let a tensor lie in memory of the application's; false when it does not fit. */
    template <typename T> bool place_input(span<T> memory, uint32_t index = 0U) noexcept
    {
        return place(ai_get_input(handle_, index), memory);
    }
    template <typename T> bool place_output(span<T> memory, uint32_t index = 0U) noexcept
    {
        return place(ai_get_output(handle_, index), memory);
    }

  private:
    static bool fits(const ai_tensor *tensor, size_t size) noexcept
    {
        return (tensor != nullptr) && (ai_get_tensor_elements(tensor) == size);
    }

    template <typename T> static span<T> elements(const ai_tensor *tensor) noexcept
    {
        if ((tensor == nullptr) || (tensor->data == nullptr) || (tensor->info->dtype != dtype_of<T>::value)) {
            return span<T>();
        }
        return span<T>(static_cast<T *>(tensor->data), ai_get_tensor_elements(tensor));
    }

    template <typename T> static bool place(ai_tensor *tensor, span<T> memory) noexcept
    {
        if (!fits(tensor, memory.size()) || (tensor->info->dtype != dtype_of<T>::value) ||
            ((tensor->info->flags & AI_TENSOR_FIXED) != 0U)) {
            return false;
        }
        tensor->data = memory.data();
        return true;
    }

    void release() noexcept
    {
        if (handle_ != nullptr) {
            static_cast<void>(ai_destroy(handle_));
            handle_ = nullptr;
        }
    }

    ai_handle handle_;
};

} // namespace ai

#endif // AI_RUNTIME_HPP
